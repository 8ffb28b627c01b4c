# SPDX-License-Identifier: Apache-2.0
"""langchain-tests' integration tests of a chat model, through /v1/responses."""

from connection import MODEL  # noqa: F401
from test_langchain_chat import TestChat as Chat


class TestResponses(Chat):
    @property
    def chat_model_params(self):
        return {**super().chat_model_params, "use_responses_api": True}
