// SPDX-License-Identifier: Apache-2.0
/* A letter for the vocabulary and the format, then an answer, in which bytes from 1 on are tokens of marks. */
#undef NDEBUG
#include "test/unit/text/chat/parts_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    static PartsVocab vocabs[2];
    AnswerFormat format = { 0 };
    unsigned int bits;
    PartsLine line;

    if (!len_bytes)
        return 0;
    if (!vocabs[0].tokenizer) {
        parts_vocab_init(&vocabs[0], 0, NULL);
        parts_vocab_init(&vocabs[1], PARTS_VOCAB - PARTS_OPEN, NULL);
    }
    bits = data[0] - 'a';
    if (bits & 2)
        format.thinking = (ThinkingMarks){ "<think>", "</think>", bits & 1 ? PARTS_OPEN : TOKEN_NONE,
                                           bits & 1 ? PARTS_CLOSE : TOKEN_NONE };
    format.is_thinking = format.thinking.open && bits & 4;
    format.calls = bits & 8 ? &toy_format : NULL;
    parts_check(vocabs[bits & 1].tokenizer, &format, (const char *)data + 1, len_bytes - 1, &line);
    str_buf_deinit(&line.text);
    return 0;
}
