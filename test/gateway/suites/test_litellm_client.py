# SPDX-License-Identifier: Apache-2.0
"""LiteLLM as a client: each of its calls that has an endpoint here."""

import asyncio
import json

import litellm
import pytest
from connection import BASE, MODEL, TOKEN

HELLO = [{"role": "user", "content": "Say hello."}]
HOW = {"model": f"openai/{MODEL}", "api_base": BASE, "api_key": TOKEN, "max_retries": 0}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Tells the weather of a city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def test_completion():
    answer = litellm.completion(messages=HELLO, max_tokens=16, temperature=0, **HOW)
    assert answer.choices[0].message.content
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_stream_is_the_whole_answer():
    whole = litellm.completion(messages=HELLO, max_tokens=16, temperature=0, **HOW)
    pieces = list(litellm.completion(messages=HELLO, max_tokens=16, temperature=0, stream=True,
                                     stream_options={"include_usage": True}, **HOW))
    again = litellm.stream_chunk_builder(pieces, messages=HELLO)
    assert again.choices[0].message.content == whole.choices[0].message.content
    assert again.choices[0].finish_reason == whole.choices[0].finish_reason
    assert again.usage.completion_tokens == whole.usage.completion_tokens


def test_async_completion():
    answer = asyncio.run(litellm.acompletion(messages=HELLO, max_tokens=8, temperature=0, **HOW))
    assert answer.choices[0].message.content


def test_tool_call():
    answer = litellm.completion(messages=[{"role": "user", "content": "How is the weather in Paris?"}], tools=[WEATHER],
                                tool_choice={"type": "function", "function": {"name": "weather"}}, temperature=0, **HOW)
    call, = answer.choices[0].message.tool_calls
    assert call.function.name == "weather" and "city" in json.loads(call.function.arguments)
    assert answer.choices[0].finish_reason == "tool_calls"


def test_json_schema():
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
              "required": ["name", "age"], "additionalProperties": False}
    answer = litellm.completion(messages=[{"role": "user", "content": "Anna is 30 years old."}], temperature=0, max_tokens=64,
                                response_format={"type": "json_schema", "json_schema": {
                                    "name": "person", "schema": schema, "strict": True}}, **HOW)
    assert set(json.loads(answer.choices[0].message.content)) == {"name", "age"}


def test_text_completion():
    answer = litellm.text_completion(prompt="One, two, three,", max_tokens=8, temperature=0,
                                     **{**HOW, "model": f"text-completion-openai/{MODEL}"})
    assert answer.choices[0].text


def test_embedding():
    answer = litellm.embedding(input=["one", "two"], **HOW)
    assert len(answer.data) == 2 and len(answer.data[0]["embedding"]) == len(answer.data[1]["embedding"]) > 1


def test_responses():
    answer = litellm.responses(input="Say hello.", max_output_tokens=16, temperature=0, **HOW)
    assert answer.output[0].content[0].text


def test_wrong_model():
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(messages=HELLO, **{**HOW, "model": "openai/no-such-model"})


def test_wrong_token():
    with pytest.raises(litellm.AuthenticationError):
        litellm.completion(messages=HELLO, **{**HOW, "api_key": "wrong"})
