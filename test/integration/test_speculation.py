# SPDX-License-Identifier: Apache-2.0
"""Several tokens a step from drafts: fewer steps, the same tokens, in company and with every way to end."""

import unittest

import coordgen_pb2 as pb

from daemon import DaemonCase
from wire import chat, prompt

TEXT = ("The keeper wrote: ship, lamp, rope, sail, tide, wind. The keeper wrote: ship, lamp, rope, sail, tide, wind. "
        "The keeper wrote: ship, lamp,")
N = 60
TRIALS = 10  # answers: when others took the machine's time, the control may have put drafts off for 1,024 tokens
ASKED = (
    dict(ignore_end=True),
    dict(ignore_end=True, sampling=dict(temperature=0.9, seed=7)),
    dict(ignore_end=True, sampling=dict(temperature=0.0, repetition_penalty=1.3)),
    dict(stop=["rope, sail"]),
    dict(stop=["keeper"]),
)


def outcome(generation):
    return generation.tokens, generation.text, generation.done.end_reason, generation.done.usage.output_tokens


class Speculation(DaemonCase):
    """The service as it is without a setting, and requests that want no drafts. How many there are depends on what steps
    take on this machine at this moment; what comes out does not."""

    def plain(self, text, n, **options):
        return self.connect().generate(prompt(text, n, speculation="off", **options))

    def test_the_same_in_fewer_steps(self):
        drafting, n_drafted = self.connect(), 0
        for sources in ("", "lookup", "sam,table,calibration,reuse"):
            for options in ASKED:
                with self.subTest(sources=sources, **options):
                    expected = self.plain(TEXT, N, **options)
                    given = drafting.generate(prompt(TEXT, N, **options, **({"speculation": sources} if sources else {})))
                    usage = given.done.usage
                    self.assertEqual(outcome(given), outcome(expected))
                    self.assertEqual(expected.done.usage.drafted_tokens, 0)
                    self.assertEqual(usage.decode_steps + usage.accepted_tokens, expected.done.usage.decode_steps)
                    n_drafted += usage.drafted_tokens
        self.assertGreater(n_drafted, 0)
        self.assertEqual(expected.done.end_reason, pb.END_REASON_STOP_STRING)
        for _ in range(TRIALS):  # a text that repeats itself
            given = drafting.generate(prompt(TEXT, 4 * N, ignore_end=True))
            if given.done.usage.accepted_tokens > N:
                break
        self.assertGreater(given.done.usage.accepted_tokens, N)

    def test_the_same_in_company(self):
        connections = [self.connect() for _ in range(4)]
        expected = [self.plain(TEXT, N - 7 * i, **ASKED[i % 3]) for i in range(4)]
        begun = [connection.start(prompt(TEXT, N - 7 * i, **ASKED[i % 3])) for i, connection in enumerate(connections)]
        for generation, wanted in zip(begun, expected):
            generation.finish()
            self.assertEqual(outcome(generation), outcome(wanted))

    def test_the_same_up_to_a_mark(self):
        """A control token as a stop string ends an answer that goes on past the model's own end."""
        request = ("Answer with one word: what colour is the sky on a clear day?", 120)
        natural = self.connect().generate(chat(*request, speculation="off"))
        self.assertEqual(natural.done.end_reason, pb.END_REASON_END_TOKEN)
        options = dict(ignore_end=True, stop=["never said", "<|im_end|>"])
        expected = self.connect().generate(chat(*request, speculation="off", **options))
        self.assertEqual(expected.done.end_reason, pb.END_REASON_STOP_STRING)
        self.assertEqual(expected.text, natural.text)
        self.assertEqual(expected.tokens[:-1], natural.tokens)
        self.assertEqual(outcome(self.connect().generate(chat(*request, **options))), outcome(expected))

    def test_what_is_kept_is_what_was_said(self):
        """A stop string inside accepted drafts: the next prompt that goes on from there is the same as without."""
        drafting = self.connect()
        first = drafting.generate(prompt(TEXT, N, stop=["rope, sail"]))
        more = TEXT + first.text.decode() + "rope, sail, and then"
        self.assertEqual(outcome(drafting.generate(prompt(more, N, ignore_end=True))),
                         outcome(self.plain(more, N, ignore_end=True, no_reuse=True)))


if __name__ == "__main__":
    unittest.main()
