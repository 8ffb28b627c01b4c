# SPDX-License-Identifier: Apache-2.0
"""Prometheus' own parser reads /metrics."""

import requests
from connection import BASE, MODEL, TOKEN, URL
from prometheus_client.parser import text_string_to_metric_families

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def families():
    answer = requests.get(URL + "/metrics", headers=HEADERS)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def values():
    return {(sample.name, *sorted(sample.labels.items())): sample.value
            for family in families().values() for sample in family.samples}


def test_every_family_is_described():
    found = families()
    assert found
    for family in found.values():
        assert family.name.startswith("coordgen_"), family
        assert family.documentation, family
        assert family.type in ("counter", "gauge", "histogram", "summary"), family
        assert family.samples, family


def test_no_sample_comes_twice():
    names = [(sample.name, *sorted(sample.labels.items())) for family in families().values() for sample in family.samples]
    assert len(names) == len(set(names))


def test_counters_count():
    counters = {name for name, family in families().items() if family.type == "counter"}
    before = values()
    answer = requests.post(BASE + "/chat/completions", headers=HEADERS, json={
        "model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]})
    assert answer.status_code == 200
    after = values()
    grown = {key[0] for key in before if after[key] > before[key]}
    assert grown, "a generation changes no number"
    for key in before:
        if key[0].removesuffix("_total") in counters:
            assert after[key] >= before[key], key
