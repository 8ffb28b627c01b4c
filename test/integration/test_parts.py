# SPDX-License-Identifier: Apache-2.0
"""Answers in parts: thinking apart from the answer, its budget, constraints behind it, variables of the chat template."""

import json
import shutil
import tempfile
from pathlib import Path

import coordgen_pb2 as pb

from daemon import DaemonCase
from settings import BIN
from test_ctl import Terminal
from test_models import run_ctl
from wire import chat, messages_of, prompt, talk

# The template opens the thinking, unless the request's variables say otherwise, and shows that of earlier turns.
TEMPLATE = """\
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% elif not left_open %}<think>
{% endif %}{% endif %}"""
OPEN = {"template_kwargs": '{"left_open": true}'}  # the model itself may open the thinking
TEXT, REASONING = pb.ANSWER_PART_TEXT, pb.ANSWER_PART_REASONING
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}'
# What a model that thinks would write; marks are text in this vocabulary.
THINKS = r'root ::= "<think>\n" [a-z ]{5,20} "\n</think>\n\n" ("yes" | "no")'


def gbnf(grammar):
    return pb.Constraint(gbnf=grammar)


def part_of(delta):
    return delta.part if delta.HasField("part") else TEXT


def joined(generated, part):
    return b"".join(delta.text for delta in generated.deltas if part_of(delta) == part).decode()


class Parts(DaemonCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="coordgen-parts-"))
        (cls.folder / "t.jinja").write_text(TEMPLATE)
        cls.flags = (f"--chat-template={cls.folder}/t.jinja",)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.folder)

    def test_prompt_that_opens_the_thinking(self):
        generated = self.connect().generate(chat("Name a colour.", 12))
        self.assertEqual({part_of(delta) for delta in generated.deltas if delta.text}, {REASONING})
        self.assertEqual(generated.done.reasoning_tokens, generated.done.usage.output_tokens)
        whole = self.connect().generate(chat("Name a colour.", 12, split=False))
        self.assertEqual(joined(whole, TEXT).strip(), joined(generated, REASONING).strip())
        self.assertEqual(whole.done.reasoning_tokens, 0)
        self.assertEqual(whole.tokens, generated.tokens)

    def test_thinking_that_the_model_writes(self):
        """Marks, and the white space beside them, are in no part; every token is in a delta."""
        generated = self.connect().generate(chat("Is it so?", 40, constraint=gbnf(THINKS), **OPEN))
        whole = self.connect().generate(chat("Is it so?", 40, constraint=gbnf(THINKS), split=False, **OPEN))
        self.assertEqual(generated.tokens, whole.tokens)
        self.assertIn(joined(generated, TEXT), ("yes", "no"))
        self.assertRegex(joined(generated, REASONING), "^[a-z][a-z ]*$")
        self.assertEqual(joined(whole, TEXT).split("</think>")[0].removeprefix("<think>").strip(),
                         joined(generated, REASONING).strip())
        self.assertLess(generated.done.reasoning_tokens, generated.done.usage.output_tokens)
        self.assertGreater(generated.done.reasoning_tokens, 0)
        parts = [part_of(delta) for delta in generated.deltas if delta.text]
        self.assertEqual(parts, sorted(parts, reverse=True), "text came before thinking")

    def test_budget(self):
        """The thinking is cut at its budget, and the answer goes on, with the same tokens by every way of decoding."""
        with self.connect() as connection:
            ways = [connection.start(chat("Tell me about rivers.", 40, thinking_tokens=9, speculation=speculation, no_reuse=True))
                    for speculation in ("off", "auto", "auto")]
            ways = [way.finish() for way in ways]
        mark = self.connect().tokenize("\n</think>\n\n")
        for way in ways:
            self.assertEqual(way.tokens, ways[0].tokens)
            self.assertEqual(way.tokens[9:9 + len(mark)], mark)
            self.assertTrue(joined(way, TEXT))
            self.assertNotIn("</think>", joined(way, REASONING))
            self.assertEqual(way.done.reasoning_tokens, 9 + len(mark) - 1, "the empty line is behind the mark")
            self.assertEqual(way.done.usage.output_tokens, 40)

    def test_constraint_begins_behind_the_thinking(self):
        constraint = pb.Constraint(json_schema=SCHEMA)
        for options in ({"thinking_tokens": 6}, {"thinking_tokens": 6, "speculation": "off"}, {"thinking_tokens": 0}):
            generated = self.connect().generate(chat("Count.", 40, constraint=constraint, **options))
            self.assertIsInstance(json.loads(joined(generated, TEXT))["n"], int)
            self.assertEqual(bool(joined(generated, REASONING)), options["thinking_tokens"] > 0)
        # Without a budget the thinking ends in time for a whole answer.
        generated = self.connect().generate(chat("Count.", 30, constraint=constraint))
        self.assertIsInstance(json.loads(joined(generated, TEXT))["n"], int)
        self.assertTrue(generated.done.ended_in_time)

    def test_no_thinking(self):
        generated = self.connect().generate(chat("Name a colour.", 8, thinking_tokens=0))
        told = self.connect().generate(chat("Name a colour.", 8, template_kwargs='{"enable_thinking": false}'))
        self.assertEqual(generated.tokens, told.tokens)
        self.assertEqual(generated.done.usage.prompt_tokens, told.done.usage.prompt_tokens)
        self.assertEqual({part_of(delta) for delta in generated.deltas}, {TEXT})

    def test_stop_strings_are_of_the_text(self):
        """A stop string in the thinking ends nothing; in the text it does."""
        grammar = 'root ::= "<think>\\nwe stop here\\n</think>\\n\\nnow we stop here"'
        generated = self.connect().generate(chat("Go.", 40, constraint=gbnf(grammar), stop=["stop"], **OPEN))
        self.assertEqual(joined(generated, REASONING), "we stop here")
        self.assertEqual(joined(generated, TEXT), "now we ")
        self.assertEqual(generated.done.end_reason, pb.END_REASON_STOP_STRING)

    def test_session_keeps_the_thinking(self):
        with self.connect() as connection:
            session = connection.open_session()
            first = connection.generate(chat("Is it so?", 40, session=session, constraint=gbnf(THINKS), **OPEN))
            second = connection.generate(chat("Why?", 4, session=session, **OPEN))
            messages = messages_of([("user", "Is it so?"), ("assistant", joined(first, TEXT)), ("user", "Why?")])
            messages.message[1].reasoning = joined(first, REASONING)
            request = pb.TokenizeRequest(messages=messages, **OPEN)
            self.assertEqual(second.done.usage.prompt_tokens, len(connection.call(tokenize=request).tokenize.tokens))
            request.render_only = True
            rendered = connection.call(tokenize=request).tokenize
            self.assertIn(f"<think>\n{joined(first, REASONING)}\n</think>", rendered.text)
            self.assertFalse(rendered.tokens or rendered.pieces or rendered.HasField("count"))

    def test_refused(self):
        connection = self.connect()
        for request, field, says in (
                (chat("Hi", template_kwargs='{"left_opne": true}'), "template_kwargs", "never reads 'left_opne'"),
                (chat("Hi", template_kwargs='{"messages": []}'), "template_kwargs", "the service itself sets 'messages'"),
                (chat("Hi", template_kwargs="[]"), "template_kwargs", "no JSON object"),
                (prompt("Hi", template_kwargs="{}"), "template_kwargs", "only a chat template"),
                (prompt("Hi", thinking_tokens=4), "thinking_tokens", "only a chat template"),
                (chat("Hi", template_kwargs='"' + "x" * 70000 + '"'), "template_kwargs", "at most 65536")):
            refused = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate, request)
            self.assertEqual(refused.field, "generate." + field)
            self.assertIn(says, refused.message)
        refused = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate,
                                     prompt("Hi", split=True, session=connection.open_session()))
        self.assertEqual(refused.field, "generate.split")
        said = messages_of([("user", "Hi")])
        said.message[0].reasoning = "Hm."
        refused = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate, pb.GenerateRequest(messages=said))
        self.assertEqual(refused.field, "generate.messages.message[0].reasoning")
        for text in (pb.TokenizeRequest(text="x", render_only=True), pb.TokenizeRequest(text="x", template_kwargs="{}")):
            self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.call, tokenize=text)

    def test_coordgenctl(self):
        def run(*args):
            return run_ctl(f"--socket={self.daemon.api}", "generate", "--temperature", "0", *args)

        thinks = ("--max-tokens", "40", "--template-kwargs", OPEN["template_kwargs"], "--grammar", THINKS, "Is it so?")
        ran = run(*thinks)
        self.assertIn(ran.stdout.strip(), ("yes", "no"), ran.stderr)
        ran = run("--json=short", *thinks)
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
        self.assertIn(lines[-1]["text"], ("yes", "no"))
        self.assertGreater(lines[-1]["usage"]["reasoning_tokens"], 0)
        deltas = [line for line in lines if line["event"] == "delta"]
        for part, whole in (("text", lines[-1]["text"]), ("reasoning", lines[-1]["reasoning"])):
            self.assertEqual("".join(line["text"] for line in deltas if line["part"] == part), whole)
        self.assertIn("<think>", run("--no-split", *thinks).stdout)
        terminal = Terminal([str(BIN / "coordgenctl"), f"--socket={self.daemon.api}", "generate", "--temperature", "0", *thinks], {})
        terminal.read_until(r"\x1b\[2m[a-z][a-z ]*\x1b\[0m\s+(yes|no)")
        self.assertEqual(terminal.wait(), 0)
        ran = run("--max-tokens", "30", "--think", "5", "Tell me about rivers.")
        self.assertTrue(ran.stdout.strip(), ran.stderr)
        self.assertIn("inside the thinking", run("--max-tokens", "4", "Tell me about rivers.").stderr)
        self.assertTrue(run("--max-tokens", "4", "--no-think", "Name a colour.").stdout.strip())
        self.assertEqual(run("--think", "5", "--no-think", "x").returncode, 2)
        self.assertEqual(run("--raw", "--no-think", "x").returncode, 2)
        ran = run_ctl(f"--socket={self.daemon.api}", "tokenize", "--chat", "--render", "--template-kwargs",
                      '{"enable_thinking": false}', "Hi")
        self.assertEqual(ran.stdout, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")


class Plain(DaemonCase):
    """A model without thinking."""

    def test_no_thinking_to_limit(self):
        connection = self.connect()
        refused = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, connection.generate, chat("Hi", 4, thinking_tokens=4))
        self.assertEqual(refused.field, "generate.thinking_tokens")
        self.assertIn("has no thinking", refused.message)
        plain, none = (connection.generate(talk([("user", "Hi")], 4, **options)) for options in ({}, {"thinking_tokens": 0}))
        self.assertEqual(plain.tokens, none.tokens)
