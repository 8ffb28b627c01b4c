# SPDX-License-Identifier: Apache-2.0
"""Chat templates of the administrator, tools, roles, and what a template refuses."""

import json
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon, DaemonCase
from settings import BIN, SLOW
from wire import chat, messages_of, prompt, talk

TEMPLATE = """\
{%- if messages[-1].content == 'no' %}{{ raise_exception('This template says no to message ' ~ messages|length) }}{% endif %}
{%- for t in tools or [] %}<tool>{{ t.name }}{{ t|tojson }}{% endfor %}
{%- for d in documents or [] %}<doc>{{ d.title }}{% endfor %}
{%- for m in messages %}<|im_start|>{{ m.role }}={{ m.content }}<|im_end|>{% endfor %}
{{- strftime_now('%Y') }}{% if add_generation_prompt %}<|im_start|>{% endif %}
"""


def run_ctl(daemon, *args, **options):
    return subprocess.run([BIN / "coordgenctl", f"--socket={daemon.api}", *map(str, args)], capture_output=True, text=True,
                          timeout=120 * SLOW, **options)


class Given(DaemonCase):
    """A template of the administrator's stands for the file's own."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="coordgen-template-"))
        (cls.folder / "t.jinja").write_text("\ufeff" + TEMPLATE)
        cls.flags = (f"--chat-template={cls.folder}/t.jinja",)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.folder)

    def tokens_of(self, **options):
        return list(self.connect().call(tokenize=pb.TokenizeRequest(**options)).tokenize.tokens)

    def test_renders(self):
        """Marks of the template are control tokens, those of a message are text."""
        start, end = (self.tokens_of(text=mark, parse_special=True) for mark in ("<|im_start|>", "<|im_end|>"))
        self.assertEqual((len(start), len(end)), (1, 1))
        self.assertEqual(self.tokens_of(messages=messages_of([("user", "Hi<|im_end|>"), ("tool", "42")])),
                         start + self.tokens_of(text="user=Hi<|im_end|>") + end + start + self.tokens_of(text="tool=42") + end
                         + self.tokens_of(text=time.strftime("%Y")) + start)

    def test_tools_and_documents(self):
        tools = json.dumps([{"name": "f", "x": ["é", None]}], ensure_ascii=False)
        said = messages_of([("user", "Hi")])
        plain = self.tokens_of(messages=said)
        tooled = self.tokens_of(messages=said, tools=tools, documents='[{"title": "D"}]')
        self.assertEqual(tooled, self.tokens_of(text='<tool>f{"name": "f", "x": ["é", null]}<doc>D') + plain)
        generated = self.connect().generate(chat("Hi", 4, tools=tools))
        self.assertEqual(generated.done.tool_calls, 0)
        refused = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connect().generate, chat(
            "Hi", 4, tools=tools, tool_choice=pb.ToolChoice(mode=pb.TOOL_CHOICE_MODE_REQUIRED)))
        self.assertEqual(refused.field, "generate.tool_choice")
        self.assertIn("the format in which the model's chat template writes calls is unknown", refused.message)
        self.assertGreater(generated.done.usage.prompt_tokens, len(plain))

    def test_without_generation_prompt(self):
        """The prompt ends behind the last message; nothing else of it changes."""
        said = messages_of([("user", "Hi")])
        start, whole = self.tokens_of(text="<|im_start|>", parse_special=True), self.tokens_of(messages=said)
        self.assertEqual(self.tokens_of(messages=said, add_generation_prompt=True), whole)
        self.assertEqual(self.tokens_of(messages=said, add_generation_prompt=False) + start, whole)
        for wanted, n in ((True, len(whole)), (False, len(whole) - 1)):
            generated = self.connect().generate(chat("Hi", 2, add_generation_prompt=wanted))
            self.assertEqual(generated.done.usage.prompt_tokens, n)
        refused = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connect().generate,
                                     prompt("Hi", add_generation_prompt=False))
        self.assertEqual(refused.field, "generate.add_generation_prompt")
        run = run_ctl(self.daemon, "tokenize", "--chat", "--no-generation-prompt", "--ids", "Hi")
        self.assertEqual([int(id) for id in run.stdout.split()], whole[:-1], run.stderr)
        run = run_ctl(self.daemon, "generate", "Hi", "-n", 1, "--no-generation-prompt", "--json=short")
        self.assertEqual(json.loads(run.stdout.splitlines()[-1])["usage"]["prompt_tokens"], len(whole) - 1, run.stderr)
        for args in (("tokenize", "Hi"), ("generate", "--raw", "Hi")):
            self.assertEqual(run_ctl(self.daemon, *args, "--no-generation-prompt").returncode, 2)

    def test_no_json(self):
        refused = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connect().generate, chat("Hi", tools="[1,]"))
        self.assertEqual(refused.field, "generate.tools")
        self.assertIn("byte 3", refused.message)
        refused = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connect().generate, chat("Hi", documents="{"))
        self.assertEqual(refused.field, "generate.documents")
        refused = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connect().generate, prompt("Hi", tools="[]"))
        self.assertEqual(refused.field, "generate.tools")

    def test_own_words(self):
        refused = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connect().generate,
                                     talk([("system", "s"), ("user", "no")]))
        self.assertEqual(refused.field, "generate.messages")
        self.assertEqual(refused.message, "the model's chat template refuses these messages: This template says no to message 2")

    def test_ctl(self):
        tools = self.folder / "tools.json"
        tools.write_text('[{"name": "g"}]')
        run = run_ctl(self.daemon, "generate", "Hi", "--tools", tools, "-n", 2, "--json=short")
        self.assertEqual(run.returncode, 0, run.stderr)
        tooled = json.loads(run.stdout.splitlines()[-1])["usage"]["prompt_tokens"]
        run = run_ctl(self.daemon, "generate", "Hi", "-n", 2, "--json=short")
        self.assertGreater(tooled, json.loads(run.stdout.splitlines()[-1])["usage"]["prompt_tokens"])
        run = run_ctl(self.daemon, "generate", "Hi", "--raw", "--tools", tools)
        self.assertEqual(run.returncode, 2)
        run = run_ctl(self.daemon, "chat", "--tools", tools, "-n", 2, input="Hello\n")
        self.assertEqual(run.returncode, 0, run.stderr)
        run = run_ctl(self.daemon, "generate", "no")
        self.assertIn("This template says no", run.stderr)
        run = run_ctl(self.daemon, "model", "show")
        self.assertRegex(run.stdout, r"(?m)^Chat format +template \(takes tools, documents\)$")
        shown = json.loads(run_ctl(self.daemon, "model", "show", "--json=short").stdout)
        self.assertEqual(shown["chat_takes"], ["tools", "documents"])


class Own(DaemonCase):
    """The model's own template, which takes neither tools nor documents: they are refused, never dropped in silence.
    Tools that may be called are described in the system message (test_tools)."""

    def test_ignored(self):
        no_calls = pb.ToolChoice(mode=pb.TOOL_CHOICE_MODE_NONE)
        for field in ("tools", "documents"):
            given = {field: '[{"name": "f"}]'}
            choice = {"tool_choice": no_calls} if field == "tools" else {}
            refused = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connect().generate,
                                         chat("Hi", 2, **given, **choice))
            self.assertEqual(refused.field, f"generate.{field}")
            self.assertRegex(refused.message, rf"^{field}: the model's chat template ignores them.*\(model smollm2-135m\)$")
            if field == "documents":
                refused = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connect().call,
                                             tokenize=pb.TokenizeRequest(messages=messages_of([("user", "Hi")]), **given))
                self.assertEqual(refused.field, f"tokenize.{field}")
            self.assertTrue(self.connect().generate(chat("Hi", 2, **{field: "[]"})).done)
        run = run_ctl(self.daemon, "generate", "Hi", "--tools", "-", "--tool-choice", "none", input='[{"name": "f"}]')
        self.assertEqual(run.returncode, 2)
        self.assertIn("ignores them", run.stderr)


class Refused(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="coordgen-template-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_that_does_not_parse(self):
        """The model loads; chats are refused with the place and the remedies, and raw prompts go on."""
        (self.folder / "t.jinja").write_text("a\n{% include 'b' %}\n")
        daemon = Daemon(f"--chat-template={self.folder}/t.jinja")
        self.addCleanup(daemon.kill)
        connection = daemon.connect()
        with self.assertRaises(Exception) as caught:
            connection.generate(chat("Hi"))
        self.assertEqual(caught.exception.code, pb.ERROR_CODE_NO_TEMPLATE)
        for words in ("chat template line 2: tag 'include' is not supported", "--raw", "chat-template"):
            self.assertIn(words, caught.exception.error.message)
        self.assertEqual(len(daemon.connect().generate(prompt("Hi", 3, ignore_end=True)).tokens), 3)
        shown = daemon.connect().call(model_show=pb.ModelShowRequest()).model_show.model
        self.assertTrue(shown.chat_format.startswith("refused: chat template line 2"), shown.chat_format)
        daemon.stop()

    def test_that_is_not_there(self):
        run = subprocess.run([BIN / "coordgend", "--config=/dev/null", f"--listen={self.folder}/api", f"--cache-dir={self.folder}",
                              "--model-dir=", "--draftdb=no", "--state-dir=", f"--chat-template={self.folder}/none.jinja"],
                             capture_output=True, text=True, timeout=60 * SLOW, stdin=subprocess.DEVNULL)
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(run.stderr, r"chat-template: .*none\.jinja: No such file")
