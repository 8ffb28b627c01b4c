# SPDX-License-Identifier: Apache-2.0
"""The official openai client: every call that has an endpoint here, and that its types read every answer."""

import asyncio
import json
import time

import openai
import pytest
from connection import BASE, MODEL, MODELS, TOKEN
from openai import AsyncOpenAI, OpenAI, pydantic_function_tool
from pydantic import BaseModel

client = OpenAI(base_url=BASE, api_key=TOKEN, max_retries=0)
HELLO = [{"role": "system", "content": "Answer in one sentence."}, {"role": "user", "content": "Who wrote Faust?"}]


class Weather(BaseModel):
    """Tells the weather of a city."""

    city: str


class Person(BaseModel):
    name: str
    age: int


PERSON = [{"role": "user", "content": "Anna is 30 years old."}]
PARIS = [{"role": "user", "content": "How is the weather in Paris?"}]
TOOL = pydantic_function_tool(Weather)
FLAT_TOOL = {"type": "function", "name": "Weather", "description": "Tells the weather of a city.", "strict": True,
             "parameters": TOOL["function"]["parameters"]}
FORCED = {"type": "function", "function": {"name": "Weather"}}


def chat(**more):
    return client.chat.completions.create(**{"model": MODEL, "messages": HELLO, "max_tokens": 24, "temperature": 0, **more})


# --- models

def test_models():
    assert {model.id for model in client.models.list()} == set(MODELS)
    assert client.models.retrieve(MODEL).id == MODEL


def test_unknown_model():
    with pytest.raises(openai.NotFoundError) as caught:
        chat(model="no-such-model")
    assert caught.value.code == "model_not_found"


# --- chat

def test_chat():
    answer = chat()
    choice = answer.choices[0]
    assert answer.id.startswith("chatcmpl-") and answer.object == "chat.completion" and answer.model == MODEL
    assert abs(answer.created - time.time()) < 3600
    assert choice.message.role == "assistant" and choice.message.content and choice.finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert 0 < answer.usage.completion_tokens <= 24


def test_stream():
    whole = chat()
    pieces = list(chat(stream=True, stream_options={"include_usage": True}))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == whole.choices[0].message.content
    assert pieces[0].choices[0].delta.role == "assistant"
    assert [piece.choices[0].finish_reason for piece in pieces if piece.choices][-1] == whole.choices[0].finish_reason
    assert not pieces[-1].choices and pieces[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert {piece.id for piece in pieces} == {pieces[0].id} != {whole.id}


def test_stream_without_usage():
    assert all(piece.choices for piece in chat(stream=True))


def test_stream_helper():
    with client.chat.completions.stream(model=MODEL, messages=HELLO, max_tokens=24, temperature=0) as stream:
        kinds = {event.type for event in stream}
        answer = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert answer.choices[0].message.content == chat().choices[0].message.content


def test_async():
    async def both():
        async with AsyncOpenAI(base_url=BASE, api_key=TOKEN, max_retries=0) as other:
            return await asyncio.gather(*[other.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=8, temperature=0)
                                          for _ in range(2)])

    first, second = asyncio.run(both())
    assert first.choices[0].message.content == second.choices[0].message.content


def test_several_answers():
    answer = chat(n=3, temperature=1, seed=5)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    alone = chat(temperature=1, seed=6)
    assert answer.choices[1].message.content == alone.choices[0].message.content


def test_seed():
    texts = [chat(temperature=1, seed=seed).choices[0].message.content for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_stop():
    whole = chat().choices[0].message.content
    word = whole.split()[2]
    answer = chat(stop=[word])
    assert answer.choices[0].message.content == whole[:whole.index(word)] and answer.choices[0].finish_reason == "stop"


def test_logprobs():
    answer = chat(logprobs=True, top_logprobs=3, max_tokens=8)
    entries = answer.choices[0].logprobs.content
    assert len(entries) == answer.usage.completion_tokens
    assert b"".join(bytes(entry.bytes) for entry in entries).decode() == answer.choices[0].message.content
    assert all(len(entry.top_logprobs) == 3 and entry.top_logprobs[0].logprob == entry.logprob for entry in entries)


def test_logit_bias():
    first = chat(logprobs=True, max_tokens=1).choices[0].logprobs.content[0].token
    token = str(client.post("/../tokenize", body={"content": first}, cast_to=object)["tokens"][0])
    assert chat(logprobs=True, max_tokens=1, logit_bias={token: -100}).choices[0].logprobs.content[0].token != first


# --- structured output

def test_parse():
    answer = client.chat.completions.parse(model=MODEL, messages=PERSON, response_format=Person, temperature=0, max_tokens=64)
    assert answer.choices[0].message.parsed == Person(name="Anna", age=30)


def test_parse_in_a_stream():
    with client.chat.completions.stream(model=MODEL, messages=PERSON, response_format=Person, temperature=0,
                                        max_tokens=64) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == Person(name="Anna", age=30)


def test_json_object():
    answer = chat(messages=[{"role": "user", "content": "Write a JSON object with the key a."}], max_tokens=64,
                  response_format={"type": "json_object"})
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


# --- tools

def test_tool_round_trip():
    answer = chat(messages=PARIS, tools=[TOOL], tool_choice=FORCED, max_tokens=64)
    message = answer.choices[0].message
    call, = message.tool_calls
    assert answer.choices[0].finish_reason == "tool_calls" and call.function.name == "Weather"
    assert json.loads(call.function.arguments) == {"city": "Paris"}
    answer = chat(messages=[*PARIS, message, {"role": "tool", "tool_call_id": call.id, "content": "It rains."}], tools=[TOOL],
                  tool_choice="none", max_tokens=32)
    assert answer.choices[0].message.content and not answer.choices[0].message.tool_calls


def test_tool_call_in_a_stream():
    whole, = chat(messages=PARIS, tools=[TOOL], tool_choice=FORCED, max_tokens=64).choices[0].message.tool_calls
    with client.chat.completions.stream(model=MODEL, messages=PARIS, tools=[TOOL], tool_choice=FORCED, temperature=0,
                                        max_tokens=64) as stream:
        call, = stream.get_final_completion().choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == (whole.function.name, whole.function.arguments)
    assert call.function.parsed_arguments == Weather(city="Paris")


def test_tool_choice_required():
    answer = chat(tools=[TOOL], tool_choice="required", max_tokens=64)
    assert answer.choices[0].message.tool_calls[0].function.name == "Weather"


# --- completions

def test_completion():
    answer = client.completions.create(model=MODEL, prompt="One, two, three,", max_tokens=8, temperature=0)
    pieces = client.completions.create(model=MODEL, prompt="One, two, three,", max_tokens=8, temperature=0, stream=True)
    assert answer.choices[0].text == "".join(piece.choices[0].text for piece in pieces)
    assert answer.object == "text_completion" and answer.choices[0].finish_reason == "length"


def test_completion_of_several_prompts():
    answer = client.completions.create(model=MODEL, prompt=["One, two,", "A, B,"], max_tokens=4, temperature=0)
    assert [choice.index for choice in answer.choices] == [0, 1]
    alone = client.completions.create(model=MODEL, prompt="A, B,", max_tokens=4, temperature=0)
    assert answer.choices[1].text == alone.choices[0].text


def test_completion_echo_and_logprobs():
    answer = client.completions.create(model=MODEL, prompt="One, two,", max_tokens=4, temperature=0, echo=True)
    assert answer.choices[0].text.startswith("One, two,")
    answer = client.completions.create(model=MODEL, prompt="One, two,", max_tokens=4, temperature=0, logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert "".join(logprobs.tokens) == answer.choices[0].text
    assert len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == len(logprobs.text_offset) == 4


# --- embeddings

def test_embeddings():
    # The client asks for base64 by itself and decodes.
    packed = client.embeddings.create(model=MODEL, input=["one", "two"])
    plain = client.embeddings.create(model=MODEL, input="two", encoding_format="float")
    assert [entry.index for entry in packed.data] == [0, 1]
    assert packed.data[1].embedding == pytest.approx(plain.data[0].embedding, abs=1e-6)
    assert sum(x * x for x in plain.data[0].embedding) == pytest.approx(1, abs=1e-3)
    assert packed.usage.prompt_tokens == packed.usage.total_tokens > 0


# --- responses

def respond(**more):
    return client.responses.create(**{"model": MODEL, "input": "Who wrote Faust?", "max_output_tokens": 24, "temperature": 0,
                                      **more})


def test_response():
    answer = respond(instructions="Answer in one sentence.")
    assert answer.id.startswith("resp_") and answer.status in ("completed", "incomplete")
    assert answer.output[0].type == "message" and answer.output_text == chat().choices[0].message.content
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens


def test_response_in_a_stream():
    whole = respond()
    events = list(respond(stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert events[-1].type == ("response.completed" if whole.status == "completed" else "response.incomplete")
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
    assert events[-1].response.output_text == whole.output_text


def test_response_stream_helper():
    with client.responses.stream(model=MODEL, input="Anna is 30 years old.", text_format=Person, temperature=0,
                                 max_output_tokens=64) as stream:
        assert stream.get_final_response().output_parsed == Person(name="Anna", age=30)


def test_response_parse():
    answer = client.responses.parse(model=MODEL, input="Anna is 30 years old.", text_format=Person, temperature=0,
                                    max_output_tokens=64)
    assert answer.output_parsed == Person(name="Anna", age=30)


def test_response_tool_round_trip():
    answer = respond(input=PARIS, tools=[FLAT_TOOL], tool_choice={"type": "function", "name": "Weather"}, max_output_tokens=64)
    call, = [item for item in answer.output if item.type == "function_call"]
    assert call.name == "Weather" and json.loads(call.arguments) == {"city": "Paris"}
    answer = respond(input=[*PARIS, call, {"type": "function_call_output", "call_id": call.call_id, "output": "It rains."}],
                     tools=[FLAT_TOOL], tool_choice="none")
    assert answer.output_text


# --- ends and errors

def test_cancel():
    """A client that closes its stream frees its place: the next answers come, one after the other."""
    for _ in range(8):
        with chat(stream=True, max_tokens=2000, messages=[{"role": "user", "content": "Count to 1000."}]) as stream:
            next(iter(stream))
    assert chat(max_tokens=4).choices[0].message.content


def test_wrong_token():
    with pytest.raises(openai.AuthenticationError):
        OpenAI(base_url=BASE, api_key="wrong", max_retries=0).completions.create(model=MODEL, prompt="One,", max_tokens=1)


def test_unknown_field():
    with pytest.raises(openai.BadRequestError) as caught:
        chat(extra_body={"temprature": 1})
    assert caught.value.param == "temprature" and "temperature" in caught.value.message


def test_value_out_of_range():
    with pytest.raises(openai.BadRequestError) as caught:
        chat(top_p=2)
    assert caught.value.param == "top_p"


def test_prompt_too_long():
    with pytest.raises(openai.BadRequestError) as caught:
        chat(messages=[{"role": "user", "content": "word " * 20000}])
    assert caught.value.body["n_prompt_tokens"] > caught.value.body["n_ctx"] > 0


def test_schema_that_cannot_be_enforced():
    with pytest.raises(openai.BadRequestError) as caught:
        chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"$dynamicRef": "#x"}}})
    assert caught.value.param.startswith("response_format")
