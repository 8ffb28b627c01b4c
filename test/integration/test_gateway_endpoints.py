# SPDX-License-Identifier: Apache-2.0
"""Endpoints of the gateway beside chats and completions: models, health, props, metrics, tokens, vectors. Their figures
are those of coordgenctl."""

import base64
import json
import re
import signal
import struct
import subprocess
import tempfile
from pathlib import Path

from daemon import Daemon
from gateway import Gateway, GatewayCase
from gguf import cut_layers, with_ids
from settings import BIN, MODEL, SLOW

NAME = MODEL.stem
TEXTS = ["The ship sailed at dawn.", "At daybreak the vessel put to sea.", "int main(void) { return 0; }"]


def ctl(daemon, *args, **options):
    run = subprocess.run([BIN / "coordgenctl", f"--socket={daemon.api}", *args], capture_output=True, text=True,
                         timeout=120 * SLOW, check=True, **options)
    return run.stdout


def floats(text):
    data = base64.b64decode(text)
    return struct.unpack(f"<{len(data) // 4}f", data)


def rounded(values):
    """The float32 that a decimal stands for."""
    return [struct.unpack("f", struct.pack("f", value))[0] for value in values]


class Figures(GatewayCase):
    def ctl_json(self, *args):
        return json.loads(ctl(self.daemon, "-j", *args).splitlines()[-1])

    # --- models

    def test_models(self):
        shown = self.ctl_json("model", "show", NAME)
        for path in ("/v1/models", "/models"):
            body = self.assertAnswer(self.get(path))
            self.assertEqual((body["object"], len(body["data"])), ("list", 1))
        model = body["data"][0]
        self.assertEqual((model["id"], model["object"], model["owned_by"]), (NAME, "model", "coordgen"))
        self.assertEqual(model["created"], int(MODEL.stat().st_mtime))
        self.assertEqual(model["status"], {"value": "loaded"})
        self.assertTrue(model["default"])
        self.assertEqual(model["meta"], {
            "n_vocab": shown["vocabulary"], "n_ctx_train": shown["context_tokens"],
            "n_ctx": shown["usable_context_tokens"], "n_embd": shown["embedding_values"],
            "n_params": shown["parameters"], "size": shown["file_bytes"], "architecture": shown["architecture"]})
        self.assertEqual(model["capabilities"][:3], ["completion", "embedding", "chat"])
        for path in (f"/v1/models/{NAME}", f"/models/{NAME}"):
            self.assertEqual(self.assertAnswer(self.get(path)), model)

    def test_unknown_models(self):
        for path in ("/v1/models/no-such-model", "/v1/models/a%2Fb%0Ac"):
            self.assertError(self.get(path), 404, "model", "model_not_found")
        self.assertError(self.get("/v1/models/"), 404, code="unknown_path")
        for path in ("/tokenize", "/v1/embeddings"):
            body = {"model": "no-such-model", "content" if path == "/tokenize" else "input": "text"}
            self.assertError(self.post(path, body), 404, "model", "model_not_found")

    # --- the service

    def test_health(self):
        for path in ("/health", "/v1/health"):
            self.assertEqual(self.assertAnswer(self.get(path)), {"status": "ok"})

    def test_props(self):
        shown = self.ctl_json("model", "show", NAME)
        props = self.assertAnswer(self.get("/props"))
        self.assertEqual(self.assertAnswer(self.get(f"/props?model={NAME}")), props)
        self.assertEqual(props["model_alias"], NAME)
        self.assertEqual(props["default_generation_settings"]["n_ctx"], shown["usable_context_tokens"])
        self.assertEqual(props["modalities"], {"vision": False, "audio": False})
        self.assertIn("{%", props["chat_template"])
        self.assertEqual(props.get("model_path", ""), shown["path"])
        self.assertTrue(props["build_info"].startswith("coordgen "))
        # What a request gets that sets nothing.
        asked = self.ctl_json("generate", "--raw", "--max-tokens=1", "a")
        params = props["default_generation_settings"]["params"]
        for ours, theirs in (("temperature", "temperature"), ("top_k", "top_k"), ("top_p", "top_p"), ("min_p", "min_p"),
                             ("repetition_penalty", "repeat_penalty"), ("repetition_window", "repeat_last_n")):
            self.assertAlmostEqual(params[theirs], asked["sampling"][ours], places=6)
        self.assertError(self.get("/props?model=none"), 404, "model", "model_not_found")

    def test_metrics(self):
        self.ctl_json("generate", "--raw", "--max-tokens=2", "Once")
        status = self.ctl_json("status")
        answer = self.get("/metrics")
        self.assertEqual((answer.status, answer.headers["content-type"]),
                         (200, "text/plain; version=0.0.4; charset=utf-8"))
        types, samples, helped = {}, {}, set()
        for line in answer.body.decode().splitlines():
            if line.startswith("# HELP "):
                helped.add(line.split()[2])
            elif line.startswith("# TYPE "):
                types[line.split()[2]] = line.split()[3]
            else:
                name, labels, value = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? ([0-9.]+)", line).groups()
                samples[(name, labels)] = float(value)
        self.assertEqual({name for name, _ in samples}, set(types))
        self.assertEqual(set(types), helped)
        self.assertEqual({name for name, kind in types.items() if kind == "counter"},
                         {name for name in types if name.endswith("_total")})
        for ours in ("prompt_tokens", "cached_tokens", "output_tokens"):
            self.assertEqual(samples[(f"coordgen_{ours}_total", None)], status[ours])
        for outcome in ("done", "cancelled", "failed"):
            self.assertEqual(samples[("coordgen_requests_total", f'outcome="{outcome}"')], status[f"requests_{outcome}"])
        for account in status["memory"]:
            self.assertEqual(samples[("coordgen_account_limit_bytes", f'account="{account["name"]}"')],
                             account["limit_bytes"])
        self.assertEqual(samples[("coordgen_model_ready", f'model="{NAME}"')], 1)

    def test_what_the_service_has_not(self):
        for method, path in (("GET", "/slots"), ("POST", "/props")):
            error = self.assertError(self.gateway.request(method, path, {} if method == "POST" else None), 501)
            self.assertEqual(error["type"], "not_supported_error")
        answer = self.get("/tokenize")
        self.assertError(answer, 405, code="method_not_allowed")
        self.assertEqual(answer.headers["allow"], "POST")

    # --- tokens

    def test_tokenize(self):
        text = "The ship sailed: 媽 and 🤗 <|im_end|>"
        for flags, fields in ((("--parse-special",), {}), ((), {"parse_special": False}),
                              (("--parse-special", "--add-special"), {"add_special": True})):
            told = self.ctl_json("tokenize", *flags, text)
            body = self.assertAnswer(self.post("/tokenize", {"content": text, **fields}))
            self.assertEqual(body, {"tokens": told["tokens"]})
        pieces = self.assertAnswer(self.post("/tokenize", {"content": text, "with_pieces": True, "model": NAME}))["tokens"]
        whole = b"".join(piece["piece"].encode() if isinstance(piece["piece"], str) else bytes(piece["piece"])
                         for piece in pieces)
        self.assertEqual(whole.decode(), text)
        self.assertIn(list, {type(piece["piece"]) for piece in pieces})
        ids = [piece["id"] for piece in pieces]
        self.assertEqual(self.assertAnswer(self.post("/detokenize", {"tokens": ids})), {"content": text})
        self.assertEqual(self.assertAnswer(self.post("/tokenize", {"content": ""})), {"tokens": []})
        self.assertEqual(self.assertAnswer(self.post("/detokenize", {"tokens": []})), {"content": ""})

    def test_tokens_that_are_refused(self):
        for path, body, param, text in (
                ("/tokenize", {}, "content", "missing"),
                ("/tokenize", {"content": ["a"]}, "content", "must be a string"),
                ("/tokenize", {"content": "a\0b"}, "content", "NUL"),
                ("/tokenize", {"content": "a", "with_piece": True}, "with_piece", "with_pieces"),
                ("/tokenize", {"content": "a", "add_special": 1}, "add_special", "true or false"),
                ("/detokenize", {}, "tokens", "missing"),
                ("/detokenize", {"tokens": "1"}, "tokens", "must be an array"),
                ("/detokenize", {"tokens": [1, "2"]}, "tokens", "tokens[1]"),
                ("/detokenize", {"tokens": [1, 4000000]}, "tokens", "4000000")):
            with self.subTest(body=body):
                error = self.assertError(self.post(path, body), 400, param)
                self.assertIn(text, error["message"])

    # --- vectors

    def test_embeddings(self):
        told = [one["embedding"] for one in self.ctl_json("embed", *TEXTS)["embeddings"]]
        body = self.assertAnswer(self.post("/v1/embeddings", {"input": TEXTS, "model": NAME, "user": "me"}))
        self.assertEqual((body["object"], body["model"], len(body["data"])), ("list", NAME, 3))
        for i, one in enumerate(body["data"]):
            self.assertEqual((one["object"], one["index"]), ("embedding", i))
            self.assertEqual(rounded(one["embedding"]), rounded(told[i]))
        count = sum(len(self.ctl_json("tokenize", "--add-special", text)["tokens"]) for text in TEXTS)
        self.assertEqual(body["usage"], {"prompt_tokens": count, "total_tokens": count})
        coded = self.assertAnswer(self.post("/v1/embeddings", {"input": TEXTS[0], "encoding_format": "base64",
                                                               "dimensions": len(told[0])}))
        self.assertEqual(list(floats(coded["data"][0]["embedding"])), rounded(told[0]))

    def test_embeddings_of_tokens(self):
        ids = [self.ctl_json("tokenize", "--add-special", text)["tokens"] for text in TEXTS]
        plain = self.assertAnswer(self.post("/v1/embeddings", {"input": TEXTS}))
        for asked in (ids, [TEXTS[0], ids[1], TEXTS[2]]):
            self.assertEqual(self.assertAnswer(self.post("/v1/embeddings", {"input": asked})), plain)
        one = self.assertAnswer(self.post("/v1/embeddings", {"input": ids[1]}))
        self.assertEqual(one["data"][0]["embedding"], plain["data"][1]["embedding"])

    def test_many_embeddings(self):
        """More than one request to the service has."""
        texts = [f"text {i}" for i in range(70)]
        body = self.assertAnswer(self.post("/v1/embeddings", {"input": texts}))
        self.assertEqual([one["index"] for one in body["data"]], list(range(70)))
        for i in (0, 63, 64, 69):
            alone = self.assertAnswer(self.post("/v1/embeddings", {"input": texts[i]}))
            self.assertEqual(alone["data"][0]["embedding"], body["data"][i]["embedding"])

    def test_plain_embeddings(self):
        told = [one["embedding"] for one in self.ctl_json("embed", "--pooling=last", *TEXTS[:2])["embeddings"]]
        for path, field in (("/embeddings", "input"), ("/embedding", "content")):
            body = self.assertAnswer(self.post(path, {field: TEXTS[:2], "pooling": "last"}))
            self.assertEqual([one["index"] for one in body], [0, 1])
            self.assertEqual([rounded(one["embedding"][0]) for one in body], [rounded(vector) for vector in told])
        raw = self.assertAnswer(self.post("/embedding", {"content": TEXTS[0], "embd_normalize": -1}))
        self.assertGreater(abs(sum(x * x for x in raw[0]["embedding"][0]) - 1), 0.01)

    def test_embeddings_that_are_refused(self):
        texts = ["a"] * 66
        for body, param, text in (
                ({}, "input", "missing"),
                ({"input": []}, "input", "empty"),
                ({"input": ["a", ""]}, "input[1]", "empty"),
                ({"input": {"a": 1}}, "input.a", "unknown field"),
                ({"input": [1, "a"]}, "input", "token id"),
                ({"input": ["a"] * 2049}, "input", "at most 2048"),
                ({"input": [[1], [4000000]]}, "input", "4000000"),
                ({"input": texts + [[4000000]]}, "input", "from number 66 on"),
                ({"input": "a", "encoding_format": "hex"}, "encoding_format", "base64"),
                ({"input": "a", "dimensions": 7}, "dimensions", "cannot be shortened"),
                ({"input": "a", "dimension": 7}, "dimension", "dimensions"),
                ({"input": "a", "pooling": "none"}, "pooling", "mean"),
                ({"input": "a", "priority": 1}, "priority", "background"),
                ({"input": "a", "embd_normalize": 1}, "embd_normalize", "-1"),
                ({"content": "a"}, "content", "unknown field")):
            with self.subTest(body=str(body)[:60]):
                error = self.assertError(self.post("/v1/embeddings", body), 400, param)
                self.assertIn(text, error["message"])
        error = self.assertError(self.post("/v1/embeddings", {"input": ["a", "word " * 9000]}), 400,
                                 code="context_length_exceeded")
        self.assertIn("text 1", error["message"])
        self.assertError(self.post("/embedding", {"content": "a", "input": "b"}), 400, "content")
        self.assertError(self.post("/embedding", {"content": "a", "encoding_format": "base64"}), 400, "encoding_format")

    # --- chats as prompts

    CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is a ship?"}]
    TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}

    def test_apply_template(self):
        rendered = ctl(self.daemon, "tokenize", "--chat", "--render", "What is a ship?")
        body = self.assertAnswer(self.post("/apply-template", {"messages": self.CHAT[1:]}))
        self.assertEqual(body, {"prompt": rendered})
        ended = ctl(self.daemon, "tokenize", "--chat", "--render", "--no-generation-prompt", "What is a ship?")
        self.assertEqual(self.assertAnswer(self.post("/apply-template", {"messages": self.CHAT[1:],
                                                                         "add_generation_prompt": False})), {"prompt": ended})
        parts = [{"role": "user", "content": [{"type": "text", "text": "What is a ship?"}]}]
        self.assertEqual(self.assertAnswer(self.post("/apply-template", {"messages": parts, "tools": None})), body)
        begun = self.assertAnswer(self.post("/apply-template", {"messages": self.CHAT[1:] + [
            {"role": "assistant", "content": "A ship is"}], "continue_final_message": True, "add_generation_prompt": False}))
        self.assertTrue(begun["prompt"].endswith("A ship is"), begun)

    def test_input_tokens(self):
        """The number of tokens that the chat itself has."""
        for fields in ({}, {"max_tokens": 3, "temperature": 0}, {"reasoning_effort": "medium"},
                       {"messages": self.CHAT + [{"role": "assistant", "content": "A"}, {"role": "user", "content": "B"}]}):
            body = {"messages": self.CHAT, "model": NAME, **fields}
            counted = self.assertAnswer(self.post("/v1/chat/completions/input_tokens", body))
            chat = self.assertAnswer(self.post("/chat/completions", {**body, "max_tokens": 1}))
            self.assertEqual(counted, {"object": "response.input_tokens", "input_tokens": chat["usage"]["prompt_tokens"]})

    def test_chats_that_are_refused(self):
        for path in ("/apply-template", "/v1/chat/completions/input_tokens"):
            for body, param, text in (
                    ({}, "messages", "messages"),
                    ({"messages": []}, "messages", "at least one"),
                    ({"messages": self.CHAT, "tool": []}, "tool", "unknown field"),
                    ({"messages": self.CHAT, "chat_template_kwargs": {"no_such_name": 1}}, "chat_template_kwargs",
                     "no_such_name"),
                    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]",
                     "image")):
                with self.subTest(path=path, body=str(body)[:60]):
                    error = self.assertError(self.post(path, body), 400, param)
                    self.assertIn(text, error["message"])

    # --- completions of llama-server's own form

    def test_completion(self):
        told = self.ctl_json("generate", "--raw", "--max-tokens=12", "--temperature=0", "--ignore-end",
                             "Once upon a time")["text"]
        asked = {"prompt": "Once upon a time", "n_predict": 12, "temperature": 0, "ignore_eos": True}
        body = self.assertAnswer(self.post("/completion", {**asked, "return_tokens": True, "n_probs": 2}))
        self.assertEqual(body["content"], told)
        self.assertEqual((body["stop"], body["stop_type"], body["stopping_word"], body["truncated"], body["model"]),
                         (True, "limit", "", False, NAME))
        self.assertEqual((body["tokens_predicted"], len(body["tokens"]), body["timings"]["predicted_n"]), (12, 12, 12))
        self.assertEqual(body["has_new_line"], "\n" in told)
        self.assertEqual([one["id"] for one in body["completion_probabilities"]], body["tokens"])
        self.assertEqual({len(one["top_logprobs"]) for one in body["completion_probabilities"]}, {2})
        self.assertEqual((body["generation_settings"]["n_predict"], body["generation_settings"]["temperature"]), (12, 0))
        self.assertEqual(body["tokens_evaluated"], body["timings"]["prompt_n"] + body["timings"]["cache_n"])
        plain = self.assertAnswer(self.post("/completions", asked))
        self.assertEqual((plain["content"], plain["tokens"]), (body["content"], []))
        few = self.assertAnswer(self.post("/completion", {**asked, "response_fields": [
            "content", "generation_settings/n_predict", "none"]}))
        self.assertEqual(few, {"content": body["content"], "generation_settings/n_predict": 12})
        ended = self.assertAnswer(self.post("/completion", {**asked, "stop": [body["content"][4:8]]}))
        self.assertEqual((ended["stop_type"], ended["stopping_word"]), ("word", body["content"][4:8]))

    def test_completion_of_several_prompts(self):
        ids = self.ctl_json("tokenize", "Once upon a time")["tokens"]
        asked = {"n_predict": 6, "temperature": 0, "ignore_eos": True}
        one = self.assertAnswer(self.post("/completion", {**asked, "prompt": ids}))
        both = self.assertAnswer(self.post("/completion", {**asked, "prompt": ["The sea", ids]}))
        self.assertEqual(len(both), 2)
        self.assertEqual([(each["index"], each["content"]) for each in both[1:]], [(1, one["content"])])
        mixed = self.assertAnswer(self.post("/completion", {**asked, "prompt": [*ids[:1], " upon a time"]}))
        self.assertEqual(mixed["content"], one["content"])
        drawn = self.assertAnswer(self.post("/completion", {"n_predict": 6, "temperature": 1, "seed": 5, "n": 2,
                                                            "prompt": "The sea"}))
        self.assertEqual([each["generation_settings"]["seed"] for each in drawn], [5, 6])

    def test_completion_stream(self):
        asked = {"prompt": "Once upon a time", "n_predict": 12, "temperature": 0, "ignore_eos": True}
        whole = self.assertAnswer(self.post("/completion", {**asked, "return_tokens": True}))
        with self.gateway.stream("POST", "/completion", {**asked, "stream": True, "timings_per_token": True}) as stream:
            events = [event.data for event in stream]
        self.assertEqual("".join(event["content"] for event in events), whole["content"])
        self.assertEqual([token for event in events for token in event["tokens"]], whole["tokens"])
        self.assertEqual([event["stop"] for event in events], [False] * (len(events) - 1) + [True])
        self.assertTrue(all("timings" in event for event in events))
        self.assertEqual([event["tokens_predicted"] for event in events][-2:], [12, 12])
        for name in ("model", "stop_type", "generation_settings", "tokens_evaluated", "prompt"):
            expected = dict(whole[name], stream=True, timings_per_token=True) if name == "generation_settings" else whole[name]
            self.assertEqual({**events[-1][name], "seed": 0} if name == "generation_settings" else events[-1][name],
                             {**expected, "seed": 0} if name == "generation_settings" else expected)

    def test_completions_that_are_refused(self):
        for path, body, param, text in (
                ("/completion", {}, "prompt", "missing"),
                ("/completion", {"prompt": [1, {}]}, "prompt[1]", "token id"),
                ("/completion", {"prompt": "a", "messages": []}, "messages", "unknown field"),
                ("/completion", {"prompt": "a", "id_slot": 1}, "id_slot", "not supported"),
                ("/completion", {"prompt": "a", "response_fields": [1]}, "response_fields", "string"),
                ("/completion", {"prompt": "a", "n_predict": "b"}, "n_predict", "integer"),
                ("/infill", {"input_suffix": "b"}, "input_prefix", "missing"),
                ("/infill", {"input_prefix": "a", "input_suffix": "b", "input_extra": [{"filename": "x"}]},
                 "input_extra[0]", "text"),
                ("/infill", {"input_prefix": "a", "input_suffix": "b"}, "input_suffix", "prefix")):
            with self.subTest(path=path, body=body):
                error = self.assertError(self.post(path, body), 400, param)
                self.assertIn(text, error["message"])

    def test_a_client_that_leaves(self):
        """Requests to the service that are under way end, and their exchange with them, however far they have come."""
        def has_begun(status):
            return status.requests_running + status.requests_queued > 0 or status.requests_done > before

        with self.daemon.connect() as connection:
            before = connection.status().requests_done
        raw = self.gateway.connect()
        body = json.dumps({"input": [f"{TEXTS[1]} {i}" for i in range(500)]}).encode()
        raw.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.daemon.wait_until(has_begun, "vectors are computed")
        raw.close()
        self.daemon.wait_idle()
        self.assertEqual(self.assertAnswer(self.get("/health")), {"status": "ok"})


class Infill(GatewayCase):
    """A model of one layer whose file names tokens for a gap: what it writes makes no sense, its prompt does."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        small, marked = Path(folder.name) / "small.gguf", Path(folder.name) / "marked.gguf"
        cut_layers(MODEL, small, 1)
        with_ids(small, marked, {f"tokenizer.ggml.fim_{mark}_token_id": i + 7 for i, mark in enumerate(("pre", "suf", "mid"))})
        cls.daemon_options = {"model": marked}
        super().setUpClass()

    def test_infill(self):
        before, begun, behind = "def add(a, b):\n", "    return", "\n\nprint(add(1, 2))\n"
        asked = {"input_prefix": before, "input_suffix": behind, "n_predict": 8, "ignore_eos": True, "temperature": 0}
        told = json.loads(ctl(self.daemon, "-j", "generate", "--raw", f"--suffix={behind}", "--max-tokens=8",
                              "--ignore-end", "--temperature=0", before + begun).splitlines()[-1])
        body = self.assertAnswer(self.post("/infill", {**asked, "prompt": begun}))
        self.assertEqual((body["content"], body["tokens_evaluated"]), (told["text"], told["usage"]["prompt_tokens"]))
        self.assertEqual((body["prompt"], body["stop_type"]), (before + begun, "limit"))
        with self.gateway.stream("POST", "/infill", {**asked, "prompt": begun, "stream": True}) as stream:
            self.assertEqual("".join(event.data["content"] for event in stream), body["content"])
        extra = self.assertAnswer(self.post("/infill", {**asked, "input_extra": [{"filename": "a.py", "text": "x = 1"}]}))
        self.assertEqual(extra["prompt"], "x = 1\n\n" + before)
        self.assertAnswer(self.post("/infill", {**asked, "input_suffix": ""}))


class WithoutModel(GatewayCase):
    daemon_options = {"model": None}

    def test_no_model(self):
        self.assertError(self.get("/health"), 503, code="no_model")
        self.assertEqual(self.assertAnswer(self.get("/v1/models")), {"object": "list", "data": []})
        self.assertError(self.get("/props"), 404, code="model_not_found")
        self.assertError(self.post("/tokenize", {"content": "a"}), 404, code="model_not_found")
        self.assertAnswer(self.get("/metrics"))


class WithoutService(GatewayCase):
    def test_no_service(self):
        other = Daemon()
        gateway = Gateway(other)
        try:
            self.assertEqual(gateway.request("GET", "/health").status, 200)
            other.signal(signal.SIGTERM)
            other.wait_exit()
            for path in ("/health", "/v1/models", "/metrics"):
                self.assertError(gateway.request("GET", path), 503, code="unreachable")
        finally:
            gateway.stop()
            other.stop()
