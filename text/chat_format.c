// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "text/chat_format.h"

#include <stdbool.h>
#include <string.h>

static bool contains(const char *text, size_t len_bytes, const char *needle) {
    return memmem(text, len_bytes, needle, strlen(needle)) != NULL;
}

ChatFormat chat_format_of(const char *text, size_t len_bytes) {
    /* "<|im_sep|>" is Phi 4, "<end_of_utterance>" SmolVLM, "<|header_start|>" Llama 4: alike, but not the same. */
    if (contains(text, len_bytes, "<|im_start|>") && !contains(text, len_bytes, "<|im_sep|>") &&
        !contains(text, len_bytes, "<end_of_utterance>"))
        return CHAT_FORMAT_CHATML;
    if (contains(text, len_bytes, "<|start_header_id|>") && contains(text, len_bytes, "<|end_header_id|>"))
        return CHAT_FORMAT_LLAMA3;
    if (contains(text, len_bytes, "[INST]") && !contains(text, len_bytes, "<<SYS>>"))
        return CHAT_FORMAT_MISTRAL;
    return contains(text, len_bytes, "<start_of_turn>") ? CHAT_FORMAT_GEMMA : CHAT_FORMAT_NONE;
}

ChatFormat chat_format_of_file(const GgufFile *file) {
    static const char key[] = "tokenizer.chat_template";
    GgufString text;

    if (!gguf_key(file, key) || gguf_get_string(file, key, &text, NULL) || !text.len_bytes)
        return CHAT_FORMAT_NONE;
    return chat_format_of(text.data, text.len_bytes);
}

const char *chat_format_name(ChatFormat format) {
    switch (format) {
    case CHAT_FORMAT_NONE:
        return "none";
    case CHAT_FORMAT_CHATML:
        return "chatml";
    case CHAT_FORMAT_LLAMA3:
        return "llama3";
    case CHAT_FORMAT_MISTRAL:
        return "mistral";
    case CHAT_FORMAT_GEMMA:
        return "gemma";
    }
    return "?";
}

const char *const *chat_format_marks(ChatFormat format) {
    static const char *const none[] = { NULL };
    static const char *const chatml[] = { "<|im_start|>", "<|im_end|>", NULL };
    static const char *const llama3[] = { "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", NULL };
    static const char *const mistral[] = { "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", NULL };
    static const char *const gemma[] = { "<start_of_turn>", "<end_of_turn>", NULL };

    switch (format) {
    case CHAT_FORMAT_NONE:
        return none;
    case CHAT_FORMAT_CHATML:
        return chatml;
    case CHAT_FORMAT_LLAMA3:
        return llama3;
    case CHAT_FORMAT_MISTRAL:
        return mistral;
    case CHAT_FORMAT_GEMMA:
        return gemma;
    }
    return none;
}
