# SPDX-License-Identifier: Apache-2.0
"""Tool calls on the real model: choices, events, schemas, history, sessions, refusals, coordgenctl."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import coordgen_pb2 as pb

from daemon import DaemonCase
from settings import BIN, SLOW, TOP
from wire import chat, messages_of, prompt

TOOLS = json.dumps([
    {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 8}, "unit": {"type": "string", "enum": ["c", "f"]}},
        "required": ["city", "unit"]}}},
    {"type": "function", "function": {"name": "now", "description": "The time."}},
])
NONE, AUTO = pb.TOOL_CHOICE_MODE_NONE, pb.TOOL_CHOICE_MODE_AUTO
REQUIRED, NAMED = pb.TOOL_CHOICE_MODE_REQUIRED, pb.TOOL_CHOICE_MODE_NAMED
ONE = pb.ToolChoice(mode=REQUIRED, single=True)


def calls_of(generated, choice=0):
    """The calls of an answer, from its deltas: (id, name, arguments)."""
    calls = []
    for delta in generated.deltas:
        if delta.choice == choice and delta.HasField("call") and delta.part == pb.ANSWER_PART_CALL:
            if delta.call.HasField("name"):
                assert delta.call.index == len(calls)
                calls.append([delta.call.id, delta.call.name, b""])
            if calls:
                calls[-1][2] += delta.call.arguments
    return [(id, name, json.loads(arguments)) for id, name, arguments in calls]


def run_ctl(daemon, *args, **options):
    return subprocess.run([BIN / "coordgenctl", f"--socket={daemon.api}", *map(str, args)], capture_output=True, text=True,
                          timeout=120 * SLOW, **options)


class Checks:
    def assertFits(self, name, arguments):
        self.assertIn(name, ("get_weather", "now"))
        if name == "now":
            self.assertEqual(arguments, {})
            return
        self.assertEqual(sorted(arguments), ["city", "unit"])
        self.assertIsInstance(arguments["city"], str)
        self.assertLessEqual(len(arguments["city"]), 8)
        self.assertIn(arguments["unit"], ("c", "f"))


class Hermes(Checks, DaemonCase):
    """A template that writes calls between marks, which this vocabulary has as text."""

    @classmethod
    def setUpClass(cls):
        cls.flags = (f"--chat-template={TOP}/test/golden/templates/public/qwen2.5.jinja",)
        super().setUpClass()

    def test_required(self):
        wanted = None
        for options in ({"speculation": "off"}, {"speculation": "auto"}, {"no_reuse": True}):
            generated = self.connect().generate(chat("Weather in Rome?", 80, tools=TOOLS, tool_choice=ONE, **options))
            self.assertEqual(generated.done.end_reason, pb.END_REASON_TOOL_CALLS)
            self.assertEqual(generated.done.tool_calls, 1)
            (id, name, arguments), = calls_of(generated)
            self.assertRegex(id, r"^[A-Za-z0-9]{9}$")
            self.assertFits(name, arguments)
            self.assertEqual(generated.text, b"")
            wanted = wanted or (name, arguments, generated.done.usage.output_tokens)
            self.assertEqual((name, arguments, generated.done.usage.output_tokens), wanted)

    def test_named_and_sampled(self):
        for seed in range(2):
            request = chat("Weather in Rome?", 80, tools=TOOLS, tool_choice=pb.ToolChoice(mode=NAMED, name="get_weather"))
            request.sampling.CopyFrom(pb.SamplingOptions(temperature=1.5, seed=seed))
            generated = self.connect().generate(request)
            (_, name, arguments), = calls_of(generated)
            self.assertEqual(name, "get_weather")
            self.assertFits(name, arguments)

    def test_several_answers(self):
        """Each answer has calls of its own, as a request of its own would have them."""
        options = dict(tools=TOOLS, tool_choice=ONE)
        several = self.connect().generate(chat("Weather in Rome?", 80, n=2, sampling=dict(temperature=1.2, seed=3), **options))
        self.assertEqual([end.tool_calls for end in several.done.choices], [1, 1])
        self.assertEqual(several.done.tool_calls, 2)
        ids = set()
        for i in range(2):
            alone = self.connect().generate(chat("Weather in Rome?", 80, sampling=dict(temperature=1.2, seed=3 + i), **options))
            (id, name, arguments), = calls_of(several, i)
            self.assertFits(name, arguments)
            self.assertEqual((name, arguments), calls_of(alone)[0][1:])
            ids.add(id)
        self.assertEqual(len(ids), 2)

    def test_no_calls(self):
        """With none, and without split, calls are text."""
        generated = self.connect().generate(chat("Hi", 6, tools=TOOLS, tool_choice=pb.ToolChoice(mode=NONE)))
        self.assertEqual((calls_of(generated), generated.done.tool_calls), ([], 0))
        whole = self.connect().generate(chat("Weather in Rome?", 80, tools=TOOLS, tool_choice=ONE, split=False))
        self.assertRegex(whole.text.decode(), r'^<tool_call>\n\{"name": "(now|get_weather)", "arguments": \{(?s:.*)\}\n</tool_call>$')
        self.assertEqual(whole.done.end_reason, pb.END_REASON_END_TOKEN)
        automatic = self.connect().generate(chat("Say hello.", 4, tools=TOOLS))
        self.assertEqual(automatic.done.tool_calls, 0)
        self.assertTrue(automatic.text)

    def test_history(self):
        """Calls of earlier turns reach the template; a session keeps its own."""
        messages = messages_of([("user", "Weather in Rome?"), ("assistant", ""), ("tool", "21 degrees")])
        plain = self.connect().call(tokenize=pb.TokenizeRequest(messages=messages, tools=TOOLS, render_only=True)).tokenize
        messages.message[1].ClearField("text")
        messages.message[1].tool_calls.add(name="get_weather", arguments='{"city": "Rome", "unit": "c"}')
        called = self.connect().call(tokenize=pb.TokenizeRequest(messages=messages, tools=TOOLS, render_only=True)).tokenize
        self.assertIn('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome", "unit": "c"}}\n</tool_call>',
                      called.text)
        self.assertNotIn("Rome\", \"unit", plain.text)
        with self.connect() as connection:
            session = connection.open_session()
            first = connection.generate(chat("Weather in Rome?", 80, tools=TOOLS, tool_choice=ONE, session=session))
            (id, name, arguments), = calls_of(first)
            answer = pb.Messages()
            answer.message.add(role=pb.ROLE_TOOL, text="21 degrees", tool_call_id=id)
            again = pb.GenerateRequest(messages=answer, max_tokens=4, session=session, tools=TOOLS,
                                       tool_choice=pb.ToolChoice(mode=NONE), sampling=pb.SamplingOptions(temperature=0))
            second = connection.generate(again)
            whole = messages_of([("user", "Weather in Rome?"), ("assistant", ""), ("tool", "21 degrees")])
            whole.message[1].tool_calls.add(id=id, name=name, arguments=b"".join(
                delta.call.arguments for delta in first.deltas if delta.HasField("call")).decode())
            whole.message[2].tool_call_id = id
            same = connection.generate(pb.GenerateRequest(messages=whole, max_tokens=4, tools=TOOLS,
                                                          tool_choice=pb.ToolChoice(mode=NONE),
                                                          sampling=pb.SamplingOptions(temperature=0)))
            self.assertEqual(second.done.usage.prompt_tokens, same.done.usage.prompt_tokens)
            self.assertEqual(second.text, same.text)

    def test_refused(self):
        def refused(code, field, text, request):
            error = self.assertRefused(code, self.connect().generate, request)
            self.assertEqual(error.field, field)
            self.assertIn(text, error.message)

        invalid = pb.ERROR_CODE_INVALID_ARGUMENT
        refused(invalid, "generate.tools", "tools[0]: no name", chat("Hi", 2, tools='[{"f": 1}]'))
        refused(invalid, "generate.tool_choice", "no tool has the name 'x'",
                chat("Hi", 2, tools=TOOLS, tool_choice=pb.ToolChoice(mode=NAMED, name="x")))
        refused(invalid, "generate.tool_choice", "send tools with it", chat("Hi", 2, tool_choice=ONE))
        refused(invalid, "generate.tool_choice.name", "missing", chat("Hi", 2, tools=TOOLS, tool_choice=pb.ToolChoice(mode=NAMED)))
        refused(invalid, "generate.constraint", "leave one of them out",
                chat("Hi", 2, tools=TOOLS, constraint=pb.Constraint(json_schema="{}")))
        refused(invalid, "generate.tools", "", prompt("Hi", tools=TOOLS))
        schema = '[{"name": "f", "parameters": {"properties": {"a": {"type": "array", "uniqueItems": true}}}}]'
        refused(pb.ERROR_CODE_INVALID_SCHEMA, "generate.tools", "tool 'f': parameters: #/properties/a: uniqueItems",
                chat("Hi", 2, tools=schema))
        history = messages_of([("user", "Hi"), ("assistant", "")])
        history.message[1].tool_calls.add(name="f", arguments="[1]")
        refused(invalid, "generate.messages", "the arguments of a call of 'f' are no JSON object",
                pb.GenerateRequest(messages=history, max_tokens=2))
        history.message[0].tool_calls.add(name="f")
        refused(invalid, "generate.messages.message[0].tool_calls", "only messages of the assistant",
                pb.GenerateRequest(messages=history, max_tokens=2))

    def test_ctl(self):
        folder = Path(tempfile.mkdtemp(prefix="coordgen-tools-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "tools.json").write_text(TOOLS)
        options = ("--tools", folder / "tools.json", "-n", 80, "--temperature", 0)
        run = run_ctl(self.daemon, "generate", "Weather?", *options, "--tool-choice", "now", "--json=short")
        self.assertEqual(run.returncode, 0, run.stderr)
        *events, end = map(json.loads, run.stdout.splitlines())
        self.assertEqual(events[0]["call"]["name"], "now")
        self.assertEqual([(call["name"], json.loads(call["arguments"])) for call in end["tool_calls"]], [("now", {})])
        self.assertEqual(end["end_reason"], "tool-calls")
        run = run_ctl(self.daemon, "generate", "Weather?", *options, "--tool-choice", "required", "--single-call")
        self.assertRegex(run.stdout, r"^(now|get_weather) \{")
        self.assertEqual(run_ctl(self.daemon, "generate", "Hi", "--tool-choice", "auto").returncode, 2)


class Generic(Checks, DaemonCase):
    """A template without tools: they are described in the system message."""

    def test_described(self):
        rendered = self.connect().call(tokenize=pb.TokenizeRequest(
            messages=messages_of([("system", "Be brief."), ("user", "Hi")]), tools=TOOLS, render_only=True)).tokenize.text
        self.assertIn("system\nBe brief.\n\nYou can call these tools:\n", rendered)
        self.assertIn('{"name": "now", "description": "The time."}', rendered)
        generated = self.connect().generate(chat("Weather in Rome?", 80, tools=TOOLS, tool_choice=ONE))
        (_, name, arguments), = calls_of(generated)
        self.assertFits(name, arguments)
        self.assertEqual(generated.done.end_reason, pb.END_REASON_TOOL_CALLS)
        error = self.assertRefused(pb.ERROR_CODE_INVALID_ARGUMENT, self.connect().generate,
                                   chat("Hi", 2, tools=TOOLS, tool_choice=pb.ToolChoice(mode=NONE)))
        self.assertEqual(error.field, "generate.tools")
