# SPDX-License-Identifier: Apache-2.0
"""Schemathesis sends bodies that fit, and that do not fit, an OpenAPI description of the endpoints: each answer is 2xx or 4xx
and JSON in the documented shape."""

import os

import schemathesis
from connection import MODEL, TOKEN, URL
from hypothesis import HealthCheck, Phase, settings

TEXT = {"type": "string", "maxLength": 40}
MESSAGE = {"type": "object", "required": ["role", "content"], "additionalProperties": False, "properties": {
    "role": {"enum": ["system", "user", "assistant"]}, "content": TEXT}}
COMMON = {"model": {"enum": [MODEL]}, "max_tokens": {"type": "integer", "minimum": 1, "maximum": 2},
          "temperature": {"type": "number", "minimum": 0, "maximum": 2}, "top_p": {"type": "number", "minimum": 0, "maximum": 1},
          "seed": {"type": "integer", "minimum": 0, "maximum": 2 ** 31}, "stop": TEXT, "user": TEXT}


def body_of(required, properties):
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


BODIES = {
    "/v1/chat/completions": body_of(["messages", "max_tokens"], {**COMMON, "messages": {
        "type": "array", "minItems": 1, "maxItems": 3, "items": MESSAGE}}),
    "/v1/completions": body_of(["prompt", "max_tokens"], {**COMMON, "prompt": TEXT, "echo": {"type": "boolean"}}),
    "/v1/embeddings": body_of(["input"], {"model": COMMON["model"], "input": {
        "anyOf": [TEXT, {"type": "array", "minItems": 1, "maxItems": 3, "items": TEXT}]},
        "encoding_format": {"enum": ["float", "base64"]}}),
    "/v1/responses": body_of(["input", "max_output_tokens"], {
        "model": COMMON["model"], "input": TEXT, "instructions": TEXT,
        "max_output_tokens": {"type": "integer", "minimum": 1, "maximum": 2}}),
    "/tokenize": body_of(["content"], {"content": TEXT, "add_special": {"type": "boolean"}, "with_pieces": {"type": "boolean"}}),
    "/detokenize": body_of(["tokens"], {"tokens": {"type": "array", "items": {"type": "integer", "minimum": 0}}}),
    "/apply-template": body_of(["messages"], {"messages": {"type": "array", "minItems": 1, "items": MESSAGE}}),
    "/v1/chat/completions/input_tokens": body_of(["messages"], {"messages": {"type": "array", "minItems": 1, "items": MESSAGE}}),
}
ANSWER = {"content": {"application/json": {"schema": {"type": "object"}}}, "description": "an answer"}
ERROR = {"description": "an error", "content": {"application/json": {"schema": {
    "type": "object", "required": ["error"], "properties": {"error": {
        "type": "object", "required": ["message", "type", "code"], "properties": {
            "message": {"type": "string", "minLength": 1}, "type": {"type": "string"}}}}}}}}
api = schemathesis.openapi.from_dict({
    "openapi": "3.0.3", "info": {"title": "coordgen-httpd", "version": "1"}, "servers": [{"url": URL}],
    "paths": {path: {"post": {"requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
                              "responses": {"200": ANSWER, "4XX": ERROR}}} for path, body in BODIES.items()}})
api.config.update(base_url=URL)


@api.parametrize()
@settings(max_examples=int(os.environ.get("PEERS_EXAMPLES", "40")), deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_any_body(case):
    answer = case.call(headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code < 500, answer.text
    case.validate_response(answer, checks=[schemathesis.checks.not_a_server_error,
                                           schemathesis.specs.openapi.checks.response_schema_conformance,
                                           schemathesis.specs.openapi.checks.content_type_conformance])
