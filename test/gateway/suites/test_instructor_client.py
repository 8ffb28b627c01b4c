# SPDX-License-Identifier: Apache-2.0
"""Instructor as a client: objects out of answers, in each of its modes that has a field here."""

from typing import Literal

import instructor
import pytest
from connection import BASE, MODEL, TOKEN
from openai import OpenAI
from pydantic import BaseModel, Field

MODES = [instructor.Mode.TOOLS, instructor.Mode.JSON, instructor.Mode.JSON_SCHEMA]


class Person(BaseModel):
    name: str
    age: int = Field(ge=0, le=150)


class Mood(BaseModel):
    mood: Literal["good", "bad"]


def client(mode):
    return instructor.from_openai(OpenAI(base_url=BASE, api_key=TOKEN, max_retries=0), mode=mode)


def create(mode, model, text):
    return client(mode).chat.completions.create(model=MODEL, response_model=model, max_retries=0, temperature=0, max_tokens=128,
                                                messages=[{"role": "user", "content": text}])


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_object(mode):
    person = create(mode, Person, "Anna is 30 years old.")
    assert person.name == "Anna" and person.age == 30


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_choice(mode):
    assert create(mode, Mood, "What a wonderful day! I am so happy.").mood in ("good", "bad")


def test_partial_object():
    *_, last = client(instructor.Mode.TOOLS).chat.completions.create_partial(
        model=MODEL, response_model=Person, max_retries=0, temperature=0, max_tokens=128,
        messages=[{"role": "user", "content": "Anna is 30 years old."}])
    assert last.name == "Anna" and last.age == 30


def test_many_objects():
    people = list(client(instructor.Mode.TOOLS).chat.completions.create_iterable(
        model=MODEL, response_model=Person, max_retries=0, temperature=0, max_tokens=256,
        messages=[{"role": "user", "content": "Anna is 30 years old. Ben is 20 years old."}]))
    assert people
