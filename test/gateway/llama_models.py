# SPDX-License-Identifier: Apache-2.0
"""Models of llama.cpp's tests, each with the model of tools/fetch-model that does its job: following a text, filling
gaps, calling tools. The others are not here."""

MODELS = {
    "ggml-org/test-model-stories260K": "smollm2-135m",
    "ggml-org/test-model-stories260K-infill": "qwen2.5-coder-0.5b",
    "ggml-org/models:bert-bge-small/ggml-model-f16.gguf": "smollm2-135m",
    "ggml-org/Qwen2.5-Coder-1.5B-IQ3_XXS-GGUF:qwen2.5-coder-1.5b-iq3_xxs-imat.gguf": "qwen2.5-coder-1.5b",
    "bartowski/Qwen2.5-Coder-3B-Instruct-GGUF:Q4_K_M": "qwen2.5-coder-1.5b",
    "bartowski/Qwen2.5-1.5B-Instruct-GGUF:Q4_K_M": "qwen2.5-coder-1.5b",
}
