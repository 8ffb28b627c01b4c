# SPDX-License-Identifier: Apache-2.0
"""langchain-tests' integration tests of a chat model, with langchain-openai as the client."""

import pytest
from connection import BASE, MODEL, TOKEN
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests


class TestChat(ChatModelIntegrationTests):
    @property
    def chat_model_class(self):
        return ChatOpenAI

    @property
    def chat_model_params(self):
        return {"model": MODEL, "base_url": BASE, "api_key": TOKEN, "temperature": 0, "stream_usage": True,
                "max_tokens": 256, "max_retries": 0}

    @property
    def supports_json_mode(self):
        return True

    @property
    def has_tool_choice(self):
        return True

    @property
    def model_override_value(self):
        return MODEL
