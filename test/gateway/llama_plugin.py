# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for llama.cpp's tools/server/tests. Models are not fetched. What the suite expects of its own tiny
model is replaced by what coordgenctl tells of the model that runs: texts, numbers of tokens."""

import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, os.getcwd())  # utils.py
sys.path.insert(0, str(Path(__file__).resolve().parent))

import utils  # noqa: E402

from llama_models import MODELS  # noqa: E402
from service import BIN  # noqa: E402

plain_match, plain_stop = utils.match_regex, utils.ServerProcess.stop
plain_request, plain_stream_request = utils.ServerProcess.make_request, utils.ServerProcess.make_stream_request
now = {"test": None, "expected": None}  # what runs


def ctl(*words):
    """The last line of coordgenctl's output, by the service that the test talks to."""
    server = next(iter(utils.server_instances))
    folder = f"/tmp/coordgen-peers-{os.getuid()}/{server.server_port}"
    done = subprocess.run([BIN / "coordgenctl", f"--socket={folder}/api.sock", "--json=short", *words],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"coordgenctl {words}: {done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


class Expected:
    """A request, by coordgenctl when it is first needed: the server runs by then."""

    def __init__(self, *words):
        self.words = words

    @functools.cached_property
    def result(self):
        return ctl("generate", "--no-reuse", "--no-history", *self.words)

    @property
    def text(self):
        return self.result["text"]

    @property
    def prompt_tokens(self):
        return self.result["usage"]["prompt_tokens"]


class Number:
    """A number that is known once the server runs, when it is compared or printed."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return other == self.value()

    def __repr__(self):
        return repr(self.value())

    __hash__ = None


def text_of(content):
    """A content of parts is their texts with a line end between."""
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def chat(system, user, max_tokens, *more):
    return Expected("-n", str(max_tokens), "-s", system, *more, "--", text_of(user))


def completion(prompt, max_tokens, *more):
    return Expected("-n", str(max_tokens), "--raw", *more, "--", prompt)


def of_chat(params):
    return chat(params["system_prompt"], params["user_prompt"], params["max_tokens"])


def of_completion(params):
    return completion(params["prompt"], params["n_predict"], "--ignore-end")


BEST_BOOK = ("Book", "What is the best book", 8)
LIFE = ("I believe the meaning of life is", 8)
# The requests whose answers the suite knows of its own model, by the test's name.
EXPECTED = {
    "test_chat_completion": of_chat,
    "test_chat_completion_stream": of_chat,
    "test_chat_completion_with_openai_library": lambda _: chat(*BEST_BOOK, "--temperature=0.8", "--seed=42"),
    "test_completion": of_completion,
    "test_completion_stream": of_completion,
    "test_completion_with_openai_library": lambda _: completion(*LIFE),
    "test_completion_stream_with_openai_library": lambda _: completion(*LIFE),
    "test_return_progress": lambda _: Expected("-n", "1", "--", "This is a test" * 10),
    "test_ctx_shift_disabled_short_prompt": lambda _: completion("Hi how are you", 1),
    "test_embedding_usage_single": lambda params: completion(params["content"], 1),
}


def chunks_of(expected, params):
    """Reports of a prompt's progress: one before it, one for each step."""
    steps = 1 if params["reuse_cache"] else -(-expected.prompt_tokens // params["n_batch"])
    return 1 + steps


def room_of(expected, params):
    """Tokens of an answer that fills a context of 256."""
    return 256 - expected.prompt_tokens if params["n_predict"] < 0 else params["n_predict"]


# Numbers of tokens among a test's parameters, which the suite knows of its own model.
NUMBERS = {
    "n_prompt": lambda expected, _: expected.prompt_tokens,
    "batch_count": chunks_of,
    "n_token_output": room_of,
    "n_tokens": lambda expected, _: expected.prompt_tokens,
}


def match_regex(regex, text):
    """The suite's own check of a text, but for texts of its model: ours must be the service's own answer."""
    if now["test"] in ANY_TEXT:
        return bool(text)
    if now["expected"] is None:
        return plain_match(regex, text)
    assert text == now["expected"].text, f"coordgenctl says {now['expected'].text!r}"
    return True


# Tests whose answer is sampled with a seed of the server's own, or by a model that tells no stories: any text will do.
ANY_TEXT = ("test_responses_with_openai_library", "test_responses_stream_with_openai_library",
            "test_infill_without_input_extra", "test_infill_with_input_extra", "test_with_qwen_model")
# Fields that are refused here by name, which the suite sends by the way.
DROPPED = {"test_chat_completions_multiple_choices": ["id_slot"]}
# Requests to which something is added. The suite's own model never ends by itself, and its server has a seed.
ENDLESS = {"ignore_eos": True}
ADDED = {
    "test_completion": ENDLESS,
    "test_completion_stream": {**ENDLESS, "seed": 42},
    "test_ctx_shift_disabled_short_prompt": ENDLESS,
    "test_n_probs": ENDLESS,
    "test_n_probs_stream": ENDLESS,
    "test_metrics_generation_rate_excludes_first_token": ENDLESS,
    "test_different_result_different_seed": ENDLESS,
}
# Prompts that have to be too long, by a tokenizer that makes a third as many tokens of them.
LONGER = ("test_ctx_shift_disabled_long_prompt", "test_nocache_long_input_prompt")


def adapted(data):
    if not isinstance(data, dict):
        return data
    data = {key: value for key, value in data.items() if key not in DROPPED.get(now["test"], [])}
    if "prompt" in data:
        data = {**ADDED.get(now["test"], {}), **data}
        if now["test"] in LONGER:
            data["prompt"] *= 4
    return data


def make_stream_request(self, method, path, data=None, *more, **named):
    return plain_stream_request(self, method, path, adapted(data), *more, **named)


def make_request(self, method, path, data=None, *more, **named):
    data = adapted(data)
    result = plain_request(self, method, path, data, *more, **named)
    if self.debug and path == "/chat/completions" and result.status_code == 200:
        # The suite reads the prompt from the answer of a verbose server. /apply-template is where it is here.
        template = plain_request(self, "POST", "/apply-template", data={
            key: data[key] for key in ("messages", "tools", "add_generation_prompt", "continue_final_message")
            if key in data})
        assert template.status_code == 200, template.body
        result.body["__verbose"] = {"prompt": template.body["prompt"]}
    return result


def stop(self):
    """Stops a server, and fails the test if a program crashed or a sanitizer reported."""
    process = self.process
    plain_stop(self)
    assert process is None or process.returncode == 0, f"the server ended with {process.returncode}"


class Patience:
    """The module time for utils.py, which polls a server that starts every 10 ms and so takes the time of its start."""

    time = staticmethod(time.time)

    @staticmethod
    def sleep(seconds):
        time.sleep(max(seconds, 0.1))


def pytest_configure(config):
    utils.ServerProcess.start.__globals__["time"] = Patience
    utils.match_regex = match_regex
    utils.ServerPreset.load_all = staticmethod(lambda: None)
    utils.ServerProcess.make_request = make_request
    utils.ServerProcess.make_stream_request = make_stream_request
    utils.ServerProcess.stop = stop


def pytest_collection_modifyitems(items):
    for item in items:
        repository = item.callspec.params.get("hf_repo") if hasattr(item, "callspec") else None
        if repository and repository not in MODELS:
            item.add_marker(pytest.mark.skip(reason="its model is not among those that tools/fetch-model has"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    name = item.originalname
    params = item.callspec.params if hasattr(item, "callspec") else {}
    now.update(test=name, expected=EXPECTED[name](params) if name in EXPECTED else None)
    for key in NUMBERS.keys() & params.keys() if now["expected"] else ():
        params[key] = Number(functools.partial(NUMBERS[key], now["expected"], dict(params)))
    if name == "test_chat_completion_cached_tokens":
        replace_counts(item.obj)


# ---- cached tokens ---------------------------------------------------------------------------------------------------

def chat_tokens(text):
    server = next(iter(utils.server_instances))
    prompt = plain_request(server, "POST", "/apply-template", data={"messages": [
        {"role": "system", "content": "Test"}, {"role": "user", "content": text}]}).body["prompt"]
    return plain_request(server, "POST", "/tokenize", data={"content": prompt, "parse_special": True}).body["tokens"]


def n_common(text, before):
    """Leading tokens of a chat that an earlier one has, too; the last one is always computed."""
    mine = chat_tokens(text)
    most = 0
    for other in map(chat_tokens, before):
        same = [a == b for a, b in zip(mine, other)]
        most = max(most, same.index(False) if False in same else len(same))
    return min(most, len(mine) - 1)


def replace_counts(function):
    """Replaces the counts in the constants of the test: (text, prompt tokens, cached tokens)."""
    code = function.__code__

    def replaced(constant):
        if not (isinstance(constant, tuple) and all(isinstance(row, tuple) and len(row) == 3 for row in constant)):
            return constant
        texts = [row[0] for row in constant]
        return tuple((text, Number(lambda text=text: len(chat_tokens(text))),
                      Number(lambda text=text, before=texts[:i]: n_common(text, before)))
                     for i, text in enumerate(texts))

    function.__code__ = code.replace(co_consts=tuple(map(replaced, code.co_consts)))
