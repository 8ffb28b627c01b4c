# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for llama.cpp's tools/server/tests. Models are not fetched. What the suite expects of its own tiny
model is replaced by what coordgenctl tells of the model that runs: texts, numbers of tokens."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, os.getcwd())  # utils.py
sys.path.insert(0, str(Path(__file__).resolve().parent))

import utils  # noqa: E402

from llama_models import MODELS  # noqa: E402
from service import BIN  # noqa: E402

plain_match, plain_request, plain_stop = utils.match_regex, utils.ServerProcess.make_request, utils.ServerProcess.stop
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
    """A number that is known later. assertion rewriting compares and prints it."""

    def __init__(self, of, what):
        self.of, self.what = of, what

    def __eq__(self, other):
        return other == self.what(self.of)

    def __repr__(self):
        return repr(self.what(self.of))

    __hash__ = None


def text_of(content):
    """A content of parts is their texts with a line end between."""
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def chat(system, user, max_tokens, *more):
    return Expected("-n", str(max_tokens), "-s", system, *more, "--", text_of(user))


def completion(prompt, max_tokens):
    return Expected("-n", str(max_tokens), "--raw", "--", prompt)


def of_chat(params):
    return chat(params["system_prompt"], params["user_prompt"], params["max_tokens"])


def of_completion(params):
    return completion(params["prompt"], params["n_predict"])


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
    "test_chat_completion_cached_tokens": lambda _: chat("Test", "1 2 3 4 5 6", 1),
    "test_return_progress": lambda _: Expected("-n", "1", "--", "This is a test" * 10),
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


def make_request(self, method, path, data=None, **more):
    if isinstance(data, dict):
        data = {key: value for key, value in data.items() if key not in DROPPED.get(now["test"], [])}
    result = plain_request(self, method, path, data, **more)
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


def pytest_configure(config):
    utils.match_regex = match_regex
    utils.ServerPreset.load_all = staticmethod(lambda: None)
    utils.ServerProcess.make_request = make_request
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
    if now["expected"] and "n_prompt" in params:
        params["n_prompt"] = Number(now["expected"], lambda expected: expected.prompt_tokens)
