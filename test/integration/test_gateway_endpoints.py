# SPDX-License-Identifier: Apache-2.0
"""Endpoints of the gateway beside chats and completions: models, health, props, metrics, tokens, vectors. Their figures
are those of coordgenctl."""

import base64
import json
import re
import signal
import struct
import subprocess

from daemon import Daemon
from gateway import Gateway, GatewayCase
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
                ({"input": {"a": 1}}, "input", "string"),
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

    def test_a_client_that_leaves(self):
        """Requests to the service that are under way end, those that would follow are never made."""
        raw = self.gateway.connect()
        body = json.dumps({"input": [f"{TEXTS[1]} {i}" for i in range(500)]}).encode()
        raw.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.daemon.wait_until(lambda status: status.requests_running + status.requests_queued > 0, "vectors are computed")
        raw.close()
        self.daemon.wait_idle()
        self.assertEqual(self.assertAnswer(self.get("/health")), {"status": "ok"})


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
