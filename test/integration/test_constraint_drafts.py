# SPDX-License-Identifier: Apache-2.0
"""Answers with a schema or a pattern: the same tokens whatever drafts there are, in company, preempted and in a session."""

import json
import unittest

import coordgen_pb2 as pb

from daemon import DaemonCase
from wire import chat

N = 48
TRIALS = 10  # answers: when others took the machine's time, the control may have put drafts off for 1,024 tokens
SCHEMA = json.dumps({
    "type": "object", "required": ["vessel_name", "arrival_time", "cargo_kind"], "additionalProperties": False,
    "properties": {"vessel_name": {"type": "string", "maxLength": 12}, "arrival_time": {"type": "integer", "maximum": 23,
                   "minimum": 0}, "cargo_kind": {"enum": ["general cargo", "bulk cargo", "passengers"]}}})
FORCED = {"json_schema": SCHEMA, "compact": True}
PATTERN = {"regex": "The harbour master reports: (no|one|two|many) ships? (waiting|arriving) at the northern pier\\."}
ASKED = (dict(constraint=FORCED), dict(constraint=FORCED, sampling=dict(temperature=0.9, seed=7)),
         dict(constraint=PATTERN, sampling=dict(temperature=0.0, repetition_penalty=1.3)))


def ask(number, **options):
    return chat("Which ship arrives? Answer as the harbour office writes it.", N, **{**ASKED[number % len(ASKED)], **options})


def outcome(generation):
    return generation.tokens, generation.text, generation.done.end_reason, generation.done.usage.output_tokens


def by_grammar(generation):
    return sum(source.accepted_tokens for source in generation.done.explanation.sources if source.name == "grammar")


class ConstraintDrafts(DaemonCase):
    """How many drafts there are depends on what steps take on this machine at this moment; what comes out does not."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        connection = cls.daemon.connect()
        cls.expected = [connection.generate(ask(i, speculation="off")) for i in range(len(ASKED))]
        connection.close()

    def test_the_same_with_drafts(self):
        for i, expected in enumerate(self.expected):
            self.assertEqual(expected.done.end_reason, pb.END_REASON_END_TOKEN)
            for sources in ("auto", "grammar", "sam,table,reuse"):
                with self.subTest(number=i, sources=sources):
                    given = self.connect().generate(ask(i, speculation=sources, explain=True))
                    self.assertEqual(outcome(given), outcome(expected))
                    usage = given.done.usage
                    self.assertEqual(usage.decode_steps + usage.accepted_tokens, expected.done.usage.decode_steps)
                    self.assertEqual("grammar" in [source.name for source in given.done.explanation.sources],
                                     sources in ("auto", "grammar"))
        self.assertEqual(set(json.loads(self.expected[0].text)), {"vessel_name", "arrival_time", "cargo_kind"})
        self.assertTrue(any(by_grammar(self.connect().generate(ask(2, explain=True))) for _ in range(TRIALS)))

    def test_an_answer_without_constraint_has_no_such_source(self):
        given = self.connect().generate(chat("Hello", 4, explain=True))
        self.assertNotIn("grammar", [source.name for source in given.done.explanation.sources])
        given = self.connect().generate(chat("Hello", 4, explain=True, speculation="grammar"))
        self.assertEqual([source.is_on for source in given.done.explanation.sources], [False])

    def test_the_same_in_company_and_preempted(self):
        begun = [self.connect().start(ask(i, priority=pb.PRIORITY_BACKGROUND)) for i in range(len(ASKED))]
        urgent = self.connect().generate(ask(2, priority=pb.PRIORITY_INTERACTIVE))
        self.assertEqual(outcome(urgent), outcome(self.expected[2]))
        for generation, expected in zip(begun, self.expected):
            generation.finish()
            self.assertEqual(outcome(generation), outcome(expected))


if __name__ == "__main__":
    unittest.main()
