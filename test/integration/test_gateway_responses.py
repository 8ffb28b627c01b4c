# SPDX-License-Identifier: Apache-2.0
"""POST /v1/responses on the real model: whole and streamed answers, schemas, calls, thinking, errors in a stream."""

import itertools
import json
import shutil
import tempfile
from pathlib import Path

import coordgen_pb2 as pb

from daemon import Daemon
from gateway import Gateway, GatewayCase
from settings import whole_model
from wire import chat

PATH = "/v1/responses"
WEATHER = {"type": "function", "name": "get_weather", "description": "The weather of a city.", "strict": True, "parameters": {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}, "unit": {"type": "string", "enum": ["c", "f"]}},
    "required": ["city", "unit"], "additionalProperties": False}}
NOW = {"type": "function", "name": "now", "description": "The time.", "parameters": None}
LOGPROBS = ["message.output_text.logprobs"]
# The events about an item between its first and its last, by its type: around its deltas.
EVENTS = {
    "message": (["content_part.added"], "output_text.delta", ["output_text.done", "content_part.done"]),
    "reasoning": (["content_part.added"], "reasoning_text.delta", ["reasoning_text.done", "content_part.done"]),
    "function_call": ([], "function_call_arguments.delta", ["function_call_arguments.done"]),
}


def ask(question="Name three rivers.", **more):
    return {"input": question, "temperature": 0, **more}


def text_of(response):
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


def kinds_of(response):
    return [item["type"] for item in response["output"]]


class ResponsesCase(GatewayCase):
    def respond(self, body):
        return self.assertAnswer(self.post(PATH, body))

    def assertEvents(self, events):
        """The events of a stream, in OpenAI's order. Returns the last one's response."""
        for number, event in enumerate(events):
            self.assertEqual((event.name, event.data["sequence_number"]), (event.data["type"], number))
        names = [event.name.removeprefix("response.") for event in events]
        wanted = ["created", "in_progress"]
        response = events[-1].data["response"]
        for index, item in enumerate(response["output"]):
            first, delta, last = EVENTS[item["type"]]
            about = [event.data for event in events if event.data.get("output_index") == index]
            n_deltas = sum(event["type"] == f"response.{delta}" for event in about)
            wanted += ["output_item.added", *first, *[delta] * n_deltas, *last, "output_item.done"]
            self.assertEqual(about[-1]["item"], item)
            self.assertEqual({event.get("item_id", item["id"]) for event in about}, {item["id"]})
            joined = "".join(event["delta"] for event in about if event["type"] == f"response.{delta}")
            self.assertEqual(joined, item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"])
        self.assertEqual(names[:len(wanted)], wanted)
        for event in events[:2]:
            self.assertEqual((event.data["response"]["status"], event.data["response"]["output"]), ("in_progress", []))
        return names[len(wanted):], response

    def streamed(self, body):
        with self.gateway.stream("POST", PATH, {**body, "stream": True}) as stream:
            self.assertEqual((stream.status, stream.headers["content-type"]), (200, "text/event-stream"))
            return list(stream)

    def assertSame(self, body):
        """A whole answer and a streamed one are the same but for what is of the one request."""
        whole = self.respond(body)
        last, response = self.assertEvents(self.streamed(body))
        self.assertEqual(last, [whole["status"]])
        for one in (whole, response):
            self.assertRegex(one.pop("id"), "^resp_[0-9a-f]+$")
            for name in ("created_at", "completed_at", "timings"):
                one.pop(name, None)
            one["usage"]["input_tokens_details"].pop("cached_tokens")
            for item in one["output"]:
                self.assertRegex(item.pop("id"), "^(msg|rs|fc)_[0-9a-f]+$")
                item.pop("call_id", None)
        self.assertEqual(whole, response)
        return whole


class Responses(ResponsesCase):
    def test_text(self):
        whole = self.assertSame(ask(max_output_tokens=10, metadata={"a": "b"}, user="u"))
        generated = self.daemon.connect().generate(chat("Name three rivers.", 10))
        self.assertEqual(text_of(whole), generated.text.decode())
        self.assertEqual((whole["status"], whole["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))
        self.assertEqual([item["status"] for item in whole["output"]], ["incomplete"])
        self.assertEqual((whole["metadata"], whole["user"], whole["store"], whole["error"]), ({"a": "b"}, "u", False, None))
        self.assertEqual((whole["object"], whole["model"], whole["temperature"]), ("response", "smollm2-135m", 0))
        usage = generated.done.usage
        self.assertEqual(whole["usage"]["input_tokens"], usage.prompt_tokens)
        self.assertEqual(whole["usage"]["total_tokens"], usage.prompt_tokens + 10)

    def test_conversation(self):
        """Instructions and items are the messages of a chat."""
        items = [{"role": "user", "content": "Hi"}, {"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "Hello!", "annotations": []}]}, {"role": "user", "content": "Name a colour."}]
        response = self.respond({"instructions": "Be brief.", "input": items, "temperature": 0, "max_output_tokens": 6})
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                    {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Name a colour."}]
        wanted = self.assertAnswer(self.post("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 6}))
        self.assertEqual(text_of(response), wanted["choices"][0]["message"]["content"])
        self.assertEqual(response["usage"]["input_tokens"], wanted["usage"]["prompt_tokens"])
        self.assertEqual(response["instructions"], "Be brief.")
        count = self.assertAnswer(self.post(PATH + "/input_tokens", {"instructions": "Be brief.", "input": items}))
        self.assertEqual(count, {"object": "response.input_tokens", "input_tokens": response["usage"]["input_tokens"]})

    def test_logprobs(self):
        whole = self.assertSame(ask(max_output_tokens=6, include=LOGPROBS, top_logprobs=2))
        logprobs = whole["output"][0]["content"][0]["logprobs"]
        self.assertEqual("".join(token["token"] for token in logprobs), text_of(whole))
        self.assertEqual({len(token["top_logprobs"]) for token in logprobs}, {2})
        chat_answer = self.assertAnswer(self.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Name three rivers."}], "temperature": 0, "max_tokens": 6,
            "logprobs": True, "top_logprobs": 2}))
        self.assertEqual(logprobs, chat_answer["choices"][0]["logprobs"]["content"])

    def test_long_events(self):
        """Events repeat what the request said: more bytes at once than a client may leave unread otherwise."""
        events = self.streamed(ask(max_output_tokens=2, user="u" * 600_000))
        self.assertEqual(self.assertEvents(events)[0], ["incomplete"])
        self.assertEqual({len(event.data["response"]["user"]) for event in (*events[:2], events[-1])}, {600_000})

    def test_schema(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
        form = {"format": {"type": "json_schema", "name": "number", "schema": schema, "strict": True}}
        whole = self.assertSame(ask("A number as JSON.", text=form, max_output_tokens=40))
        self.assertEqual(list(json.loads(text_of(whole))), ["n"])
        self.assertEqual((whole["status"], whole["text"]["format"]), ("completed", form["format"]))
        some = self.respond(ask("A colour as JSON.", text={"format": {"type": "json_object"}}, max_output_tokens=40))
        self.assertIsInstance(json.loads(text_of(some)), dict)

    def test_tools(self):
        """A call, its answer, and the model's next turn."""
        question = {"role": "user", "content": "Weather in Rome?"}
        body = ask([question], tools=[WEATHER, NOW], tool_choice="required", parallel_tool_calls=False, max_output_tokens=80)
        whole = self.assertSame(body)
        self.assertEqual((whole["status"], kinds_of(whole)), ("completed", ["function_call"]))
        self.assertEqual((whole["tools"], whole["tool_choice"]), ([WEATHER, NOW], "required"))
        call = self.respond(body)["output"][0]
        self.assertEqual(call["name"], whole["output"][0]["name"])
        answer = {"type": "function_call_output", "call_id": call["call_id"], "output": "21 degrees"}
        again = ask([question, call, answer], tools=[WEATHER, NOW], max_output_tokens=8)
        text = text_of(self.respond(again))
        messages = [question, {"role": "assistant", "tool_calls": [{"id": call["call_id"], "type": "function", "function": {
            "name": call["name"], "arguments": call["arguments"]}}]},
            {"role": "tool", "tool_call_id": call["call_id"], "content": "21 degrees"}]
        functions = [{"type": "function", "function": {name: value for name, value in tool.items()
                                                       if name in ("name", "description", "parameters") and value}}
                     for tool in (WEATHER, NOW)]
        wanted = self.assertAnswer(self.post("/v1/chat/completions", {"messages": messages, "tools": functions,
                                                                      "temperature": 0, "max_tokens": 8}))
        self.assertEqual(text, wanted["choices"][0]["message"]["content"])
        named = self.respond(ask(tools=[WEATHER, NOW], tool_choice={"type": "function", "name": "now"}, max_output_tokens=40))
        self.assertEqual([(item["name"], json.loads(item["arguments"])) for item in named["output"]], [("now", {})])
        allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "now"}]}
        only = self.respond(ask(tools=[WEATHER, NOW], tool_choice=allowed, parallel_tool_calls=False, max_output_tokens=40))
        self.assertEqual([item["name"] for item in only["output"]], ["now"])

    def test_progress_and_timings(self):
        events = self.streamed(ask("This is a test. " * 40, max_output_tokens=3, return_progress=True, timings_per_token=True))
        progress = [event.data["prompt_progress"] for event in events if "prompt_progress" in event.data]
        self.assertTrue(progress)
        self.assertEqual({event.name for event in events if "prompt_progress" in event.data}, {"response.in_progress"})
        self.assertEqual(progress[-1]["total"], events[-1].data["response"]["usage"]["input_tokens"])
        deltas = [event.data for event in events if event.name == "response.output_text.delta"]
        self.assertTrue(all(delta["timings"]["predicted_n"] for delta in deltas))
        told = progress[-1]["total"] - progress[-1]["cache"]
        self.assertEqual({delta["timings"]["prompt_n"] for delta in deltas}, {told})
        self.assertIn("predicted_per_second", events[-1].data["timings"])

    def test_refused(self):
        def refused(param, part, status=400, **body):
            error = self.assertError(self.post(PATH, {"max_output_tokens": 2, **body}), status, param)
            self.assertIn(part, error["message"])

        refused("input", "missing")
        refused("previous_response_id", "whole conversation", input="Hi", previous_response_id="resp_1")
        refused("store", "false", input="Hi", store=True)
        refused("input[0].type", "'computer_call'", input=[{"type": "computer_call"}])
        refused("tools[0].type", "'web_search'", input="Hi", tools=[{"type": "web_search"}])
        refused("inputs", "input", input="Hi", inputs=1)
        refused("model", "nothing", 404, input="Hi", model="nothing")
        refused("reasoning.effort", "never reads", input="Hi", reasoning={"effort": "low"})
        refused("text.format.schema", "uniqueItems", input="Hi", text={"format": {
            "type": "json_schema", "name": "x", "schema": {"type": "array", "uniqueItems": True}}})
        error = self.assertError(self.post(PATH, ask("word " * 20000, stream=True)), 400, code="context_length_exceeded")
        self.assertIn("tokens", error["message"])
        self.assertError(self.post(PATH + "/input_tokens", {}), 400, "input")
        self.assertError(self.get(PATH), 405)
        self.assertError(self.get(PATH + "/resp_1"), 404)

    @whole_model
    def test_cancelled_in_the_service(self):
        """An administrator ends the generation: the stream says so in its last events."""
        admin = self.daemon.connect()
        with self.gateway.stream("POST", PATH, ask(ignore_eos=True, stream=True)) as stream:
            events = list(itertools.islice(stream, 8))
            (request,) = admin.call(request_list=pb.RequestListRequest()).request_list.requests
            admin.call(request_cancel=pb.RequestCancelRequest(number=request.number))
            events += stream
        last, response = self.assertEvents(events)
        self.assertEqual(last, ["failed"])
        self.assertEqual(response["error"]["code"], "server_error")
        self.assertIn("cancelled", response["error"]["message"])
        self.assertTrue(text_of(response))

    @whole_model
    def test_client_goes(self):
        """A client that goes within an answer leaves nothing behind in the service."""
        with self.gateway.stream("POST", PATH, ask(ignore_eos=True, stream=True)) as stream:
            self.assertEqual(len(list(itertools.islice(stream, 6))), 6)
        self.daemon.wait_idle()

    @whole_model
    def test_service_ends(self):
        """The service dies within an answer: error events, not a broken connection."""
        daemon = Daemon()
        self.addCleanup(daemon.kill)
        gateway = Gateway(daemon)
        self.addCleanup(gateway.kill)
        with gateway.stream("POST", PATH, ask(ignore_eos=True, stream=True)) as stream:
            events = list(itertools.islice(stream, 8))
            daemon.process.kill()
            events += stream
        last, response = self.assertEvents(events)
        self.assertEqual((last, response["error"]["code"]), (["error", "failed"], "server_error"))
        self.assertTrue(events[-2].data["message"])
        gateway.stop()


class Thinking(ResponsesCase):
    """A template that opens the thinking, and shows that of earlier turns."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="coordgen-think-"))
        (cls.folder / "t.jinja").write_text(
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n"
            "</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
            "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}"
            "{% endif %}")
        cls.flags = (f"--chat-template={cls.folder}/t.jinja",)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.folder)

    def test_thinking(self):
        whole = self.assertSame(ask("Name a colour.", thinking_tokens=6, max_output_tokens=20))
        self.assertEqual(kinds_of(whole), ["reasoning", "message"])
        self.assertEqual([item["status"] for item in whole["output"]], ["completed", "incomplete"])
        self.assertGreater(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 5)
        only = self.assertSame(ask("Name a colour.", max_output_tokens=5))
        self.assertEqual((kinds_of(only), only["output"][0]["status"]), (["reasoning"], "incomplete"))
        none = self.respond(ask("Name a colour.", reasoning={"effort": "none"}, max_output_tokens=5))
        self.assertEqual(kinds_of(none), ["message"])

    def test_thinking_comes_back(self):
        """Items of an answer are the input of the next request: the template gets their thinking."""
        question = {"role": "user", "content": "Name a colour."}
        output = self.respond(ask([question], thinking_tokens=6, max_output_tokens=20))["output"]
        items = [question, *output, {"role": "user", "content": "Why?"}]
        counts = [self.assertAnswer(self.post(PATH + "/input_tokens", {"input": some}))["input_tokens"]
                  for some in (items, [item for item in items if item.get("type") != "reasoning"])]
        self.assertGreater(counts[0], counts[1] + 6)
