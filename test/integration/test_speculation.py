# SPDX-License-Identifier: Apache-2.0
"""Several tokens a step from drafts: fewer steps, the same tokens, in company and with every way to end."""

import unittest

import coordgen_pb2 as pb

from daemon import Daemon, DaemonCase
from wire import prompt

TEXT = ("The keeper wrote: ship, lamp, rope, sail, tide, wind. The keeper wrote: ship, lamp, rope, sail, tide, wind. "
        "The keeper wrote: ship, lamp,")
N = 60
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
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.drafting = Daemon("--speculation=lookup")

    @classmethod
    def tearDownClass(cls):
        cls.drafting.stop()
        super().tearDownClass()

    def test_the_same_in_fewer_steps(self):
        plain, drafting = self.connect(), self.drafting.connect()
        self.addCleanup(drafting.close)
        for options in ASKED:
            with self.subTest(**options):
                expected = plain.generate(prompt(TEXT, N, **options))
                given = drafting.generate(prompt(TEXT, N, **options))
                usage = given.done.usage
                self.assertEqual(outcome(given), outcome(expected))
                self.assertEqual(expected.done.usage.drafted_tokens, 0)
                self.assertGreater(usage.drafted_tokens, 0)
                self.assertLessEqual(usage.decode_steps, expected.done.usage.decode_steps)
                self.assertEqual(usage.decode_steps + usage.accepted_tokens, expected.done.usage.decode_steps)
        self.assertEqual(expected.done.end_reason, pb.END_REASON_STOP_STRING)
        given = drafting.generate(prompt(TEXT, N, ignore_end=True))  # a text that repeats itself
        self.assertLess(given.done.usage.decode_steps, N // 2)

    def test_the_same_in_company(self):
        plain, connections = self.connect(), [self.drafting.connect() for _ in range(4)]
        expected = [plain.generate(prompt(TEXT, N - 7 * i, **ASKED[i % 3])) for i in range(4)]
        begun = [connection.start(prompt(TEXT, N - 7 * i, **ASKED[i % 3])) for i, connection in enumerate(connections)]
        for generation, wanted in zip(begun, expected):
            generation.finish()
            self.assertEqual(outcome(generation), outcome(wanted))
        for connection in connections:
            connection.close()

    def test_what_is_kept_is_what_was_said(self):
        """A stop string inside accepted drafts: the next prompt that goes on from there is the same as without."""
        plain, drafting = self.connect(), self.drafting.connect()
        self.addCleanup(drafting.close)
        first = drafting.generate(prompt(TEXT, N, stop=["rope, sail"]))
        more = TEXT + first.text.decode() + "rope, sail, and then"
        self.assertEqual(outcome(drafting.generate(prompt(more, N, ignore_end=True))),
                         outcome(plain.generate(prompt(more, N, ignore_end=True, no_reuse=True))))


if __name__ == "__main__":
    unittest.main()
