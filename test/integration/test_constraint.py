# SPDX-License-Identifier: Apache-2.0
"""Answers constrained by a JSON schema, a grammar or a pattern: whole texts that fit, the same with drafts, in company, in
sessions and preempted; errors; hostile schemas, which delay nobody."""

import json
import re
import subprocess
import unittest

import coordgen_pb2 as pb

from daemon import DaemonCase
from settings import BIN
from wire import Refused, chat, prompt

try:
    import jsonschema
except ImportError:  # the checks below say the same of these schemas
    jsonschema = None

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][a-z]{2,8}$"},
        "age": {"type": "integer", "minimum": 18, "maximum": 99},
        "likes": {"type": "array", "items": {"enum": ["tea", "coffee", "water"]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}
QUESTION = "Describe a person as JSON with name, age and likes."
SAMPLED = dict(temperature=1.1, top_p=0.95, seed=3)


def constraint(schema=PERSON, **options):
    return dict(constraint=pb.Constraint(json_schema=json.dumps(schema), **options))


def ask(max_tokens=60, **options):
    return chat(QUESTION, max_tokens, **options)


def outcome(generation):
    return generation.tokens, generation.text, generation.done.end_reason, generation.done.ended_in_time


class Constrained(DaemonCase):
    flags = ("--preemption=yes", "--max-active=4", "--prefix-cache-max=64M")

    def check_person(self, generation):
        self.assertEqual(generation.done.end_reason, pb.END_REASON_END_TOKEN)
        value = json.loads(generation.text)
        if jsonschema:
            jsonschema.validate(value, PERSON)
        self.assertEqual(sorted(value), ["age", "likes", "name"])
        self.assertTrue(re.fullmatch("[A-Z][a-z]{2,8}", value["name"]))
        self.assertTrue(isinstance(value["age"], int) and 18 <= value["age"] <= 99)
        self.assertIn(len(value["likes"]), (1, 2))
        self.assertLessEqual(set(value["likes"]), {"tea", "coffee", "water"})
        return value

    def test_schema(self):
        connection = self.connect()
        for sampling in (dict(temperature=0), SAMPLED, dict(temperature=1.5, top_k=20, seed=4)):
            with self.subTest(**sampling):
                plain = connection.generate(ask(sampling=sampling, speculation="off", **constraint()))
                self.check_person(plain)
                drafted = connection.generate(ask(sampling=sampling, **constraint()))
                self.assertEqual(outcome(drafted), outcome(plain))
        compact = connection.generate(ask(sampling=SAMPLED, **constraint(compact=True)))
        self.check_person(compact)
        self.assertFalse(re.search(rb"\s", compact.text))
        turned = dict(PERSON, properties=dict(reversed(PERSON["properties"].items())))
        forms = [connection.generate(ask(sampling=dict(temperature=0), **constraint(schema, any_order=True)))
                 for schema in (PERSON, turned)]  # one language, so the model's own order twice
        self.check_person(forms[0])
        self.assertEqual(forms[0].text, forms[1].text)

    def test_grammar_and_pattern(self):
        connection = self.connect()
        grammar = 'root ::= "It is " colour (" or " colour)? "."\ncolour ::= "red" | "green" | "blue"'
        given = connection.generate(chat("What colour is the sky?", constraint=pb.Constraint(gbnf=grammar)))
        self.assertTrue(re.fullmatch(r"It is (red|green|blue)( or (red|green|blue))?\.", given.text.decode()))
        given = connection.generate(prompt("The year is ", constraint=pb.Constraint(regex="(19|20)[0-9]{2}")))
        self.assertTrue(re.fullmatch("(19|20)[0-9]{2}", given.text.decode()))
        self.assertEqual(given.done.end_reason, pb.END_REASON_END_TOKEN)
        self.assertFalse(given.done.ended_in_time)

    def test_company_and_preemption(self):
        """Several constraints share steps, and background answers make way for interactive ones."""
        asked = [dict(sampling=SAMPLED, **constraint()), dict(sampling=dict(temperature=0), **constraint(compact=True)),
                 dict(sampling=SAMPLED, constraint=pb.Constraint(regex="[a-z ]{30,60}\\.")), dict(sampling=SAMPLED)]
        alone = [self.connect().generate(ask(40 if i > 1 else 60, speculation="off", **options))
                 for i, options in enumerate(asked)]
        begun = [self.connect().start(ask(40 if i > 1 else 60, priority=pb.PRIORITY_BACKGROUND, **options))
                 for i, options in enumerate(asked)]
        hasty = self.connect().generate(ask(priority=pb.PRIORITY_INTERACTIVE, **asked[1]))
        self.assertEqual(outcome(hasty), outcome(alone[1]))
        for generation, expected in zip(begun, alone):
            self.assertEqual(outcome(generation.finish()), outcome(expected))

    def test_session(self):
        connection = self.connect()
        session = connection.open_session()
        first = connection.generate(ask(session=session, **constraint(compact=True)))
        name = self.check_person(first)["name"]
        fork = connection.fork_session(session)
        for one in (session, fork):
            given = connection.generate(chat("What is the name?", session=one, constraint=pb.Constraint(regex=f"{name}|Xavier")))
            self.assertIn(given.text.decode(), (name, "Xavier"))
            self.assertGreater(given.done.usage.cached_tokens, 0)

    def test_end_in_time(self):
        connection = self.connect()
        error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate, ask(4, **constraint()))
        self.assertEqual(error.field, "generate.max_tokens")
        needed = int(re.search(r"takes (\d+)", error.message)[1])
        for more in (0, 2):
            given = connection.generate(ask(needed + more, sampling=SAMPLED, **constraint()))
            self.check_person(given)
            self.assertLessEqual(given.done.usage.output_tokens, needed + more)
        cut = connection.generate(ask(4, **constraint(end_in_time=False)))
        self.assertEqual(cut.done.end_reason, pb.END_REASON_MAX_TOKENS)
        self.assertFalse(cut.done.ended_in_time)
        words = pb.Constraint(regex="([a-z]+ )*[a-z]+\\.")
        given = connection.generate(chat("Tell a long story in small letters.", 12, constraint=words))
        self.assertTrue(re.fullmatch(rb"([a-z]+ )*[a-z]+\.", given.text))
        self.assertTrue(given.done.ended_in_time)
        self.assertEqual(given.done.end_reason, pb.END_REASON_END_TOKEN)

    def test_an_answer_that_has_begun(self):
        """The schema holds for the beginning that the client gives and for what the model adds."""
        connection, begun = self.connect(), '{"name": "Ada", "age": '
        for sampling in (dict(temperature=0), SAMPLED):
            plain = connection.generate(ask(sampling=sampling, answer_prefix=begun, speculation="off", **constraint()))
            value = json.loads(begun + plain.text.decode())
            self.assertEqual((value["name"], sorted(value)), ("Ada", ["age", "likes", "name"]))
            self.assertTrue(18 <= value["age"] <= 99)
            drafted = connection.generate(ask(sampling=sampling, answer_prefix=begun, **constraint()))
            self.assertEqual(outcome(drafted), outcome(plain))
        several = connection.generate(ask(sampling=SAMPLED, answer_prefix=begun, n=2, **constraint()))
        for i in range(2):
            json.loads(begun + b"".join(delta.text for delta in several.deltas if delta.choice == i).decode())
        whole = connection.generate(ask(answer_prefix=begun + '30, "likes": ["tea"]}', **constraint()))
        self.assertEqual((whole.text, whole.done.end_reason), (b"", pb.END_REASON_END_TOKEN))
        error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate,
                                   ask(answer_prefix='{"name": "ada', **constraint()))
        self.assertEqual(error.field, "generate.answer_prefix")
        self.assertIn("allows 10 of the 13 bytes", error.message)
        error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate,
                                   ask(3, answer_prefix=begun, **constraint()))
        self.assertEqual(error.field, "generate.max_tokens")

    def test_stop_strings(self):
        """The client may cut a constrained text where it likes."""
        given = self.connect().generate(ask(stop=['"age"'], **constraint(compact=True)))
        self.assertEqual(given.done.end_reason, pb.END_REASON_STOP_STRING)
        self.assertTrue(given.text.startswith(b'{"name":"'))

    def test_errors(self):
        connection = self.connect()
        invalid, argument = pb.ERROR_CODE_INVALID_SCHEMA, pb.ERROR_CODE_INVALID_ARGUMENT
        cases = (
            (invalid, "json_schema", '{"properties": {"a": {"$dynamicRef": "#a"}}}', "#/properties/a: $dynamicRef"),
            (invalid, "json_schema", '{"type": "object"', "JSON"),
            (invalid, "json_schema", '{"allOf": [{"type": "string"}, {"type": "null"}]}', ""),
            (invalid, "gbnf", 'root ::= "a" other', "other"),
            (invalid, "regex", "(a)\\1", "reference"),
            (pb.ERROR_CODE_SCHEMA_TOO_COMPLEX, "regex", "((a{1000}){1000}){1000}", ""),
            (argument, "json_schema", "", "empty"),
            (argument, "json_schema", " " * (256 * 1024 + 1), "bytes"),
            (argument, "regex", "a" * (64 * 1024 + 1), "bytes"),
        )
        for code, form, text, says in cases:
            with self.subTest(form=form, text=text[:60]):
                error = self.assertRefused(code, connection.generate, chat("x", constraint=pb.Constraint(**{form: text})))
                self.assertEqual(error.field, f"generate.constraint.{form}")
                self.assertIn(says, error.message)
        self.assertRefused(argument, connection.generate, chat("x", constraint=pb.Constraint()))
        self.assertRefused(argument, connection.generate, chat("x", ignore_end=True, constraint=pb.Constraint(regex="a")))
        self.assertRefused(argument, connection.generate, chat("x", constraint=pb.Constraint(regex="a", compact=True)))
        self.assertRefused(argument, connection.generate, chat("x", constraint=pb.Constraint(regex="a", any_order=True)))
        self.assertEqual(connection.generate(chat("x", constraint=pb.Constraint(regex="ab"))).text, b"ab")

    def test_hostile(self):
        """Schemas that take long or are refused, cancelled or left behind: others get the answers that they would get."""
        hostile = [
            dict(json_schema=json.dumps({"enum": ["x" * 200 + str(i) for i in range(1200)]})),
            dict(json_schema=json.dumps({"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(5000)}})),
            dict(json_schema=json.dumps({"$defs": {f"r{i}": {"allOf": [{"$ref": f"#/$defs/r{(i + k) % 200}"} for k in (1, 7)]}
                                                   for i in range(200)}, "$ref": "#/$defs/r0"})),
            dict(json_schema="[" * 200000),
            dict(json_schema=json.dumps({"type": "array", "minItems": 1000000, "items": {"type": "integer"}})),
            dict(regex="(a|b)*a(a|b){1000}(.*c.{100}){5}"),
            dict(gbnf="root ::= " + "(" * 50000),
            dict(gbnf='root ::= ((("a"{0,900}){0,900}){0,900}){0,900}'),
        ]
        expected = self.connect().generate(ask(sampling=SAMPLED, **constraint()))
        crowd = [self.connect().start(chat("x", 3, constraint=pb.Constraint(**form))) for form in hostile]
        left = [self.connect() for _ in hostile]
        for connection, form in zip(left, hostile):
            connection.start(chat("x", 3, constraint=pb.Constraint(**form)))
            connection.close()
        cancelled = [self.connect().start(chat("x", 3, constraint=pb.Constraint(**form))) for form in hostile]
        for generation in cancelled:
            generation.connection.cancel(generation.id)
        given = self.connect().generate(ask(sampling=SAMPLED, priority=pb.PRIORITY_INTERACTIVE, **constraint()))
        self.assertEqual(outcome(given), outcome(expected))
        for generation in crowd + cancelled:
            try:
                generation.finish()
            except Refused as refused:  # each has its error, or an end
                self.assertIn(refused.code, (pb.ERROR_CODE_INVALID_SCHEMA, pb.ERROR_CODE_SCHEMA_TOO_COMPLEX,
                                             pb.ERROR_CODE_INVALID_ARGUMENT, pb.ERROR_CODE_CONTEXT_FULL,
                                             pb.ERROR_CODE_CANCELLED, pb.ERROR_CODE_BUSY))
        self.daemon.wait_idle()

    def ctl(self, *args, status=0):
        done = subprocess.run([f"{BIN}/coordgenctl", "--socket", str(self.daemon.api), "generate", *args], text=True,
                              capture_output=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_coordgenctl(self):
        schema = self.daemon.folder / "person.json"
        schema.write_text(json.dumps(PERSON))
        done = self.ctl("--json-schema", str(schema), "--compact", QUESTION)
        self.assertEqual(sorted(json.loads(done.stdout)), ["age", "likes", "name"])
        reply = json.loads(self.ctl("--json-schema", '{"type": "boolean"}', "--json=pretty", QUESTION).stdout)
        self.assertIn(reply["text"], ("true", "false"))
        self.assertIs(reply["ended_in_time"], False)
        grammar = self.daemon.folder / "yes.gbnf"
        grammar.write_text('root ::= "yes" | "no"')
        for args in (("--grammar", str(grammar)), ("--grammar", grammar.read_text()), ("--regex", "yes|no")):
            self.assertIn(self.ctl(*args, QUESTION).stdout.strip(), ("yes", "no"))
        hurried = self.ctl("--regex", "([a-z]+ )*[a-z]+\\.", "-n", "8", "Tell a story.")
        self.assertIn("whole in time", hurried.stderr)
        self.assertIn("one of them", self.ctl("--regex", "a", "--grammar", 'root ::= "a"', "x", status=2).stderr)
        self.assertIn("--compact", self.ctl("--regex", "a", "--compact", "x", status=2).stderr)
        self.assertIn("uniqueItems", self.ctl("--json-schema", '{"uniqueItems": true, "type": "array"}', "x", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
