# SPDX-License-Identifier: Apache-2.0
"""Chats and completions over HTTP: the answers of the service, in OpenAI's shapes, whole and streamed."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from gateway import Gateway, GatewayCase
from settings import BIN, SLOW
from test_parts import TEMPLATE

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
TOOL = {"type": "function",
        "function": {"name": "get_weather", "description": "The weather in a city.", "strict": True,
                     "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}},
                                    "required": ["city"]}}}
SCHEMA = {"type": "object", "properties": {"river": {"type": "string", "maxLength": 8}, "km": {"type": "integer"}},
          "required": ["river", "km"], "additionalProperties": False}


def question(text="Name three rivers.", **more):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 8, **more}


def prompt(text="Once upon a time", **more):
    return {"prompt": text, "max_tokens": 8, **more}


class Case(GatewayCase):
    def ctl(self, *args):
        """The result of coordgenctl generate, and its deltas."""
        run = subprocess.run([BIN / "coordgenctl", f"--socket={self.daemon.api}", "--json=short", "generate", *args],
                             capture_output=True, text=True, timeout=120 * SLOW, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, 0, run.stderr)
        events = [json.loads(line) for line in run.stdout.splitlines()]
        return events[-1], [event for event in events if event.get("event") == "delta"]

    def whole(self, body, path=CHAT):
        return self.assertAnswer(self.post(path, body))

    def chunks(self, body, path=CHAT):
        """The chunks of a stream, whose end mark is checked and left out."""
        with self.gateway.stream("POST", path, {**body, "stream": True}) as stream:
            self.assertEqual(stream.status, 200, stream.status != 200 and stream.read())
            events = [event.data for event in stream]
        self.assertEqual(events[-1], "[DONE]")
        for chunk in events[:-1]:
            self.assertNotIn("error", chunk)
            self.assertEqual((chunk["id"], chunk["created"], chunk["model"]),
                             (events[0]["id"], events[0]["created"], "smollm2-135m"))
        return events[:-1]

    def joined(self, chunks):
        """The answers of a chat's chunks, as a whole answer has them."""
        choices = {}
        for chunk in chunks:
            for choice in chunk["choices"]:
                delta = choice["delta"]
                whole = choices.setdefault(choice["index"], {"content": "", "calls": [], "logprobs": [], "finish": None})
                self.assertIsNone(whole["finish"], "a chunk behind the end of its choice")
                whole["content"] += delta.get("content") or ""
                whole["finish"] = choice["finish_reason"]
                if choice["logprobs"]:
                    whole["logprobs"] += choice["logprobs"]["content"]
                for call in delta.get("tool_calls", []):
                    if "id" in call:
                        self.assertEqual((call["index"], call["type"]), (len(whole["calls"]), "function"))
                        whole["calls"].append({"name": call["function"]["name"], "arguments": ""})
                    self.assertEqual(call["index"], len(whole["calls"]) - 1)
                    whole["calls"][-1]["arguments"] += call["function"]["arguments"]
        return [choices[index] for index in sorted(choices)]


class Chat(Case):
    def test_answer_is_that_of_the_service(self):
        result, _ = self.ctl("--temperature=0.8", "--seed=42", "--max-tokens=8", "Name three rivers.")
        body = question(temperature=0.8, seed=42)
        answer = self.whole(body)
        choice = answer["choices"][0]
        self.assertEqual(choice["message"], {"role": "assistant", "content": result["text"], "refusal": None})
        self.assertEqual((choice["finish_reason"], choice["logprobs"], choice["index"]), ("length", None, 0))
        usage, timings = answer["usage"], answer["timings"]
        self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]),
                         (result["usage"]["prompt_tokens"], 8, result["usage"]["prompt_tokens"] + 8))
        self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], timings["cache_n"])
        self.assertEqual(timings["prompt_n"] + timings["cache_n"], usage["prompt_tokens"])
        self.assertEqual(timings["predicted_n"], 8)
        self.assertEqual((answer["object"], answer["model"]), ("chat.completion", "smollm2-135m"))
        self.assertRegex(answer["id"], "^chatcmpl-[0-9a-f]{24}$")
        chunks = self.chunks(body)
        self.assertEqual(self.joined(chunks), [{"content": result["text"], "calls": [], "logprobs": [], "finish": "length"}])
        self.assertEqual(chunks[0]["choices"][0]["delta"], {"role": "assistant", "content": None})
        self.assertNotIn("timings", chunks[0])
        self.assertEqual(chunks[-1]["timings"]["predicted_n"], 8)
        self.assertEqual(len({json.dumps(chunk["choices"][0]["delta"].get("role")) for chunk in chunks[1:]}), 1)

    def test_usage_in_a_stream(self):
        chunks = self.chunks(question(temperature=0, stream_options={"include_usage": True}))
        self.assertTrue(all(chunk["usage"] is None for chunk in chunks[:-1]))
        self.assertEqual((chunks[-1]["choices"], chunks[-1]["usage"]["completion_tokens"]), ([], 8))
        self.assertEqual(chunks[-2]["choices"][0]["finish_reason"], "length")

    def test_stop_and_parts_of_a_content(self):
        body = question(temperature=0)
        text = self.whole(body)["choices"][0]["message"]["content"]
        stop = text[8:11]
        body["messages"][0]["content"] = [{"type": "text", "text": "Name three rivers."}]
        choice = self.whole({**body, "stop": stop})["choices"][0]
        self.assertEqual((choice["message"]["content"], choice["finish_reason"]), (text[:text.index(stop)], "stop"))
        self.assertEqual(self.whole({**body, "stop": ["\x07", stop]})["choices"][0], choice)
        two = {"role": "user", "content": [{"type": "text", "text": "Name"}, {"type": "text", "text": "three rivers."}]}
        one = {"role": "user", "content": "Name\nthree rivers."}
        self.assertEqual(self.whole({**body, "messages": [two]})["choices"], self.whole({**body, "messages": [one]})["choices"])

    def test_tools(self):
        body = question("What is the weather in Paris?", temperature=0, max_tokens=80, tools=[TOOL], tool_choice="required",
                        parallel_tool_calls=False)
        choice = self.whole(body)["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("tool_calls", None))
        (call,) = choice["message"]["tool_calls"]
        self.assertEqual((call["type"], call["function"]["name"]), ("function", "get_weather"))
        arguments = json.loads(call["function"]["arguments"])
        self.assertEqual(list(arguments), ["city"])
        (streamed,) = self.joined(self.chunks(body))
        self.assertEqual((streamed["calls"], streamed["content"], streamed["finish"]), ([call["function"]], "", "tool_calls"))
        named = {"type": "function", "function": {"name": "get_weather"}}
        self.assertEqual(self.whole({**body, "tool_choice": named})["choices"][0]["message"]["tool_calls"][0]["function"],
                         call["function"])
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
        other = {"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}}
        self.assertEqual(self.whole({**body, "tools": [other, TOOL], "tool_choice": allowed})["choices"][0]["message"]
                         ["tool_calls"][0]["function"]["name"], "get_weather")
        # The round trip: the call and its answer come back.
        history = [*body["messages"], choice["message"], {"role": "tool", "tool_call_id": call["id"], "content": "18 degrees"}]
        answer = self.whole({**body, "messages": history, "tool_choice": "auto"})
        self.assertGreater(answer["usage"]["prompt_tokens"], 0)

    def test_schema_in_each_form(self):
        body = question("A river?", temperature=0, max_tokens=60)
        texts = set()
        for form in ({"response_format": {"type": "json_schema", "json_schema": {"name": "river", "strict": True,
                                                                                "schema": SCHEMA}}},
                     {"response_format": {"type": "json_object", "schema": SCHEMA}}, {"json_schema": SCHEMA}):
            choice = self.whole({**body, **form})["choices"][0]
            self.assertEqual(choice["finish_reason"], "stop")
            self.assertEqual(sorted(json.loads(choice["message"]["content"])), ["km", "river"])
            texts.add(choice["message"]["content"])
        self.assertEqual(len(texts), 1)
        any_object = self.whole({**body, "response_format": {"type": "json_object"}})["choices"][0]["message"]["content"]
        self.assertIsInstance(json.loads(any_object), dict)
        self.assertRegex(self.whole({**body, "regex": "(yes|no)!"})["choices"][0]["message"]["content"], "^(yes|no)!$")
        self.assertEqual(self.whole({**body, "grammar": 'root ::= "a"{5,5}'})["choices"][0]["message"]["content"], "aaaaa")

    def test_logprobs(self):
        result, deltas = self.ctl("--temperature=0", "--max-tokens=8", "--logprobs=3", "Name three rivers.")
        expected = [(token["token"], token["logprob"], [(top["token"], top["logprob"]) for top in token["top"]])
                    for delta in deltas for token in delta["logprobs"]]
        self.assertEqual(len(expected), 8)
        body = question(temperature=0, logprobs=True, top_logprobs=3)
        content = self.whole(body)["choices"][0]["logprobs"]["content"]
        self.assertEqual(self.joined(self.chunks(body))[0]["logprobs"], content)
        self.assertEqual([token["id"] for token in content], [token for token, _, _ in expected])
        for token, (_, logprob, tops) in zip(content, expected):
            self.assertAlmostEqual(token["logprob"], logprob, places=6)
            self.assertEqual(bytes(token["bytes"]).decode(), token["token"])
            self.assertEqual([top["id"] for top in token["top_logprobs"]], [top for top, _ in tops])
        self.assertEqual("".join(token["token"] for token in content), result["text"])
        self.assertEqual(self.whole(question(temperature=0, logprobs=True))["choices"][0]["logprobs"]["content"][0]["top_logprobs"],
                         [])

    def test_several_answers(self):
        body = question(temperature=1, seed=7, n=3)
        result, _ = self.ctl("--temperature=1", "--seed=7", "--n=3", "--max-tokens=8", "Name three rivers.")
        texts = [choice["text"] for choice in result["choices"]]
        self.assertEqual([choice["message"]["content"] for choice in self.whole(body)["choices"]], texts)
        chunks = self.chunks(body)
        self.assertEqual([choice["content"] for choice in self.joined(chunks)], texts)
        self.assertEqual([chunk["choices"][0]["index"] for chunk in chunks[:3]], [0, 1, 2])

    def test_beginning_of_the_answer(self):
        result, _ = self.ctl("--temperature=0", "--max-tokens=8", "--answer-prefix=The Nile", "Name three rivers.")
        body = question(temperature=0)
        body["messages"].append({"role": "assistant", "content": "The Nile"})
        for more in ({}, {"continue_final_message": True, "add_generation_prompt": False}):
            self.assertEqual(self.whole({**body, **more})["choices"][0]["message"]["content"], result["text"])
        other = self.whole({**body, "continue_final_message": False})
        self.assertGreater(other["usage"]["prompt_tokens"], result["usage"]["prompt_tokens"])
        self.assertError(self.post(CHAT, {**body, "continue_final_message": True, "add_generation_prompt": True}), 400,
                         "add_generation_prompt")

    def test_bias_and_sampling(self):
        body = question(temperature=0)
        first = self.whole({**body, "logprobs": True})["choices"][0]["logprobs"]["content"][0]["id"]
        for bias in ({str(first): -100}, [[first, False]], [[first, -100]]):
            content = self.whole({**body, "logprobs": True, "logit_bias": bias})["choices"][0]["logprobs"]["content"]
            self.assertNotIn(first, [token["id"] for token in content])
        result, _ = self.ctl("--temperature=0.9", "--seed=3", "--max-tokens=8", "--top-k=20", "--top-p=0.9", "--min-p=0.01",
                             "--repetition-penalty=1.1", "--repetition-window=0", "--presence-penalty=0.5",
                             "--frequency-penalty=0.5", "--typical-p=0.95", "--dry-multiplier=0.8", "Name three rivers.")
        answer = self.whole(question(temperature=0.9, seed=3, top_k=20, top_p=0.9, min_p=0.01, repeat_penalty=1.1, repeat_last_n=-1,
                                     presence_penalty=0.5, frequency_penalty=0.5, typical_p=0.95, dry_multiplier=0.8,
                                     dry_penalty_last_n=-1))
        self.assertEqual(answer["choices"][0]["message"]["content"], result["text"])

    def test_progress_and_explanation(self):
        body = question("Tell me about rivers. " * 40, temperature=0, max_tokens=2, return_progress=True, explain=True,
                        cache_prompt=False, timings_per_token=True, return_tokens=True)
        chunks = self.chunks(body)
        progress = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
        self.assertEqual((progress[0]["processed"], progress[0]["cache"]), (0, 0))
        processed = [one["processed"] for one in progress]
        self.assertEqual((processed, processed[-1]), (sorted(set(processed)), progress[0]["total"]))
        coordgen = chunks[-1]["coordgen"]
        self.assertEqual((coordgen["end_reason"], coordgen["reuse"]), ("max-tokens", "declined"))
        self.assertIn("sources", coordgen["explanation"])
        self.assertEqual(sum(len(chunk["choices"][0].get("tokens", [])) for chunk in chunks), 2)
        self.assertEqual([chunk["timings"]["predicted_n"] for chunk in chunks if "timings" in chunk][-2:], [2, 2])

    def test_refusals_name_the_field(self):
        for more, param in (({"foo": 1}, "foo"), ({"top_p": 2}, "top_p"), ({"repeat_penalty": 0}, "repeat_penalty"),
                            ({"dry_sequence_breakers": ["x" * 40]}, "dry_sequence_breakers[0]"),
                            ({"id_slot": 0}, "id_slot"), ({"deadline_ms": 5}, "deadline_ms"), ({"store": True}, "store"),
                            ({"mirostat": 1}, "mirostat"), ({"samplers": ["top_k"]}, "samplers"),
                            ({"post_sampling_probs": True}, "post_sampling_probs"), ({"prediction": {}}, "prediction"),
                            ({"n": 17}, "n"), ({"stop": ["x"] * 9}, "stop"), ({"stop": ["x" * 300]}, "stop[0]"),
                            ({"n_predict": 9, "max_tokens": 8}, None), ({"top_logprobs": 2}, "top_logprobs"),
                            ({"stream_options": {"include_usage": True}}, "stream_options"),
                            ({"response_format": {"type": "sound"}}, "response_format.type"),
                            ({"json_schema": {"type": "hiccup"}}, "json_schema"), ({"grammar": "root ::= ("}, "grammar"),
                            ({"regex": "("}, "regex"), ({"grammar": "root ::= [0-9]", "regex": "a"}, "regex"),
                            ({"tools": [TOOL], "regex": "a"}, "regex"), ({"tool_choice": "required"}, "tool_choice"),
                            ({"tools": [{"type": "web_search"}]}, "tools[0].type"), ({"reasoning_effort": "low"}, "reasoning_effort"),
                            ({"chat_template_kwargs": {"nothing": 1}}, "chat_template_kwargs"),
                            ({"messages": []}, "messages"), ({"messages": None}, "messages"), ({"messages": [{}]}, "messages[0].role"),
                            ({"messages": [{"role": "user"}]}, "messages[0].content"),
                            ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
                             "messages[0].content[0]"),
                            ({"messages": [{"role": "user", "content": "x", "reasoning_content": "y"}]},
                             "messages[0].reasoning_content"), ({"logit_bias": {"99999999": 1}}, "logit_bias"),
                            ({"speculation": "no-such"}, "speculation"), ({"priority": "high"}, "priority")):
            with self.subTest(more):
                error = self.assertError(self.post(CHAT, question(**more)), 400, param)
                self.assertNotIn("generate.", error["message"])

    def test_prompt_that_is_too_long(self):
        for more in ({}, {"stream": True}):
            error = self.assertError(self.post(CHAT, question("river " * 9000, **more)), 400, code="context_length_exceeded")
            self.assertEqual(error["type"], "exceed_context_size_error")
            self.assertEqual(error["n_ctx"], 4096)
            self.assertGreater(error["n_prompt_tokens"], 9000)

    def test_unknown_model(self):
        self.assertError(self.post(CHAT, question(model="gpt-4")), 404, "model", "model_not_found")
        other = Gateway(self.daemon, "--any-model")
        try:
            answer = other.request("POST", CHAT, question(model="gpt-4", temperature=0))
            self.assertEqual((answer.status, answer.body["model"]), (200, "smollm2-135m"))
        finally:
            other.stop()


class Completions(Case):
    def test_answer_is_that_of_the_service(self):
        result, _ = self.ctl("--raw", "--temperature=0.8", "--seed=5", "--max-tokens=8", "Once upon a time")
        body = prompt(temperature=0.8, seed=5)
        answer = self.whole(body, COMPLETIONS)
        choice = answer["choices"][0]
        self.assertEqual(choice, {"index": 0, "text": result["text"], "logprobs": None, "finish_reason": "length"})
        self.assertEqual(answer["object"], "text_completion")
        chunks = self.chunks(body, COMPLETIONS)
        self.assertEqual("".join(chunk["choices"][0]["text"] for chunk in chunks), result["text"])
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "length")
        echoed = self.whole({**body, "echo": True}, COMPLETIONS)["choices"][0]["text"]
        self.assertEqual(echoed, "Once upon a time" + result["text"])
        self.assertEqual(self.whole({"prompt": "Once"}, COMPLETIONS)["usage"]["completion_tokens"], 16)

    def test_several_prompts(self):
        texts = ["Once upon a time", "The river", [1, 2, 3], "A", "B"]  # one more than run at a time
        options = {"temperature": 1, "seed": 3, "n": 2, "max_tokens": 3}
        alone = [[choice["text"] for choice in self.whole(prompt(one, **options), COMPLETIONS)["choices"]] for one in texts]
        body = prompt(texts, **options)
        together = self.whole(body, COMPLETIONS)
        self.assertEqual([choice["text"] for choice in together["choices"]], sum(alone, []))
        self.assertEqual([choice["index"] for choice in together["choices"]], list(range(10)))
        self.assertEqual(together["usage"]["completion_tokens"], 10 * 3)
        streamed = [""] * 10
        for chunk in self.chunks(body, COMPLETIONS):
            for choice in chunk["choices"]:
                streamed[choice["index"]] += choice["text"]
        self.assertEqual(streamed, sum(alone, []))

    def test_ids_and_texts_in_one_prompt(self):
        text = "Once upon a time"
        ids = self.assertAnswer(self.post("/tokenize", {"content": text}))["tokens"]
        first = self.whole(prompt(temperature=0), COMPLETIONS)["choices"][0]["text"]
        for mixed in (ids, ["Once", *ids[1:]], [*ids[:2], text[text.index(" a"):]] if len(ids) == 4 else ids):
            self.assertEqual(self.whole(prompt(mixed, temperature=0), COMPLETIONS)["choices"][0]["text"], first)
        both = self.whole(prompt([[ids[0], " upon a time"], text], temperature=0), COMPLETIONS)
        self.assertEqual([choice["text"] for choice in both["choices"]], [first, first])
        self.assertError(self.post(COMPLETIONS, prompt([1, "a"], model="gpt-4")), 404, "model", "model_not_found")

    def test_bias_of_a_text(self):
        first = self.whole(prompt(temperature=0, logprobs=0), COMPLETIONS)["choices"][0]["logprobs"]["tokens"][0]
        for bias in ({first: -100}, [[first, False]]):
            tokens = self.whole(prompt(temperature=0, logprobs=0, logit_bias=bias), COMPLETIONS)["choices"][0]["logprobs"]["tokens"]
            self.assertNotIn(first, tokens)

    def test_logprobs(self):
        body = prompt(temperature=0, logprobs=2)
        choice = self.whole(body, COMPLETIONS)["choices"][0]
        lists = choice["logprobs"]
        self.assertEqual("".join(lists["tokens"]), choice["text"])
        self.assertEqual(lists["text_offset"], [len("".join(lists["tokens"][:i])) for i in range(8)])
        for token, logprob, top in zip(lists["tokens"], lists["token_logprobs"], lists["top_logprobs"]):
            self.assertEqual((max(top.values()), top[token]), (logprob, logprob))  # greedy: the best one is chosen
        streamed = {name: [] for name in lists}
        for chunk in self.chunks(body, COMPLETIONS):
            for name, values in (chunk["choices"][0]["logprobs"] or {}).items():
                streamed[name] += values
        self.assertEqual(streamed, lists)

    def test_refusals_name_the_field(self):
        for body, param in (({}, "prompt"), ({"prompt": ""}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": [1, {}]}, "prompt[1]"),
                            ({"prompt": ["a", ""]}, "prompt[1]"), ({"prompt": [[1], [-1]]}, "prompt[1][0]"),
                            ({"prompt": "a", "best_of": 2}, "best_of"), ({"prompt": "a", "messages": []}, "messages"),
                            ({"prompt": "a", "echo": True, "logprobs": 1}, "logprobs"), ({"prompt": "a", "suffix": "b"}, "suffix"),
                            ({"prompt": ["a"] * 65}, "prompt"), ({"prompt": [999999999]}, "prompt"), ({"prompt": "a", "max_tokens": 0},
                                                                                                    "max_tokens")):
            with self.subTest(body):
                self.assertError(self.post(COMPLETIONS, body), 400, param)


class Thinking(Case):
    """A template that opens the thinking: what the model writes first is reasoning."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="coordgen-think-")
        template = Path(cls.folder.name, "t.jinja")
        template.write_text(TEMPLATE)
        cls.flags = (f"--chat-template={template}",)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_reasoning_is_apart(self):
        body = question("Name a colour.", temperature=0, max_tokens=16, thinking_tokens=5)
        answer = self.whole(body)
        message = answer["choices"][0]["message"]
        self.assertTrue(message["reasoning_content"] and message["content"])
        self.assertNotIn("think>", message["reasoning_content"])
        self.assertGreaterEqual(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 5)
        deltas = [chunk["choices"][0]["delta"] for chunk in self.chunks(body)]
        self.assertEqual("".join(delta.get("reasoning_content", "") for delta in deltas), message["reasoning_content"])
        self.assertEqual("".join(delta.get("content") or "" for delta in deltas), message["content"])
        # The thinking comes back with the next turn, and the template shows it.
        more = self.whole({**body, "messages": [*body["messages"], message, {"role": "user", "content": "Another?"}]})
        less = self.whole({**body, "messages": [*body["messages"], {**message, "reasoning_content": None},
                                                {"role": "user", "content": "Another?"}]})
        self.assertGreater(more["usage"]["prompt_tokens"], less["usage"]["prompt_tokens"])

    def test_thinking_switched_off(self):
        body = question("Name a colour.", temperature=0)
        off = self.whole({**body, "reasoning_effort": "none"})["choices"][0]["message"]
        self.assertNotIn("reasoning_content", off)
        for more in ({"thinking_tokens": 0}, {"reasoning_budget_tokens": 0}, {"chat_template_kwargs": {"enable_thinking": False}}):
            self.assertEqual(self.whole({**body, **more})["choices"][0]["message"], off)
        inline = self.whole({**body, "reasoning_format": "none"})["choices"][0]["message"]
        self.assertNotIn("reasoning_content", inline)
        self.assertError(self.post(CHAT, {**body, "reasoning_effort": "low"}), 400, "reasoning_effort")


class Queue(Case):
    flags = ("--max-active=1", "--max-queue=2")

    def long(self, **more):
        return self.gateway.stream("POST", CHAT, question("Count to a thousand.", max_tokens=4000, ignore_eos=True, stream=True,
                                                          **more))

    def test_client_that_goes_frees_its_place(self):
        for n in (1, 3):
            with self.long(n=n) as stream:
                for event in stream:
                    if event.data["choices"][0]["delta"].get("content"):
                        break
            self.daemon.wait_idle()

    def test_comment_while_nothing_comes(self):
        with self.long() as first:
            next(iter(first))
            with self.long(sse_ping_interval=1) as second:
                lines = [second.response.readline() for _ in range(3)]  # the chunk with the role comes with the comment
        self.assertTrue(lines[0].startswith(b"data: {"), lines)
        self.assertEqual(lines[2], b": keep-alive\n")
        self.daemon.wait_idle()

    def test_own_limit_is_reached(self):
        with self.long() as first:
            next(iter(first))
            # One of several prompts that is refused refuses the request, and cancels the others.
            answer = self.post(COMPLETIONS, prompt(["a", "b", "c"]))
            self.assertEqual(self.assertError(answer, 429, code="quota_exceeded")["type"], "rate_limit_error")
            self.assertGreater(int(answer.headers["retry-after"]), 0)
            self.daemon.wait_until(lambda status: status.requests_queued == 0, "the other prompts are cancelled")
        self.daemon.wait_idle()


class FullQueue(Case):
    flags = ("--max-active=1", "--max-queue=0")

    def test_service_is_busy(self):
        with self.gateway.stream("POST", CHAT, question(max_tokens=4000, ignore_eos=True, stream=True)) as first:
            next(iter(first))
            for more in ({}, {"stream": True}):
                answer = self.post(CHAT, question(**more))
                self.assertError(answer, 503, code="busy")
                self.assertGreater(int(answer.headers["retry-after"]), 0)
        self.daemon.wait_idle()


if __name__ == "__main__":
    unittest.main()
