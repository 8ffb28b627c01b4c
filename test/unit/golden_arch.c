// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/golden_arch.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* Heads of the sizes that the families have, key-value heads shared where they share them, all else small. */
#define GOLDEN_MAKER(architecture, heads, kv_heads, size, ...)                                                         \
    {                                                                                                                  \
        .arch = architecture, .n_layers = 3, .n_embd = 128, .n_ff = 192, .n_heads = heads, .n_kv_heads = kv_heads,     \
        .head_size = size, .n_vocab = GOLDEN_ARCH_VOCAB, .tokenizer = "gpt2", .pretokenizer = "smollm",                \
        .has_optional = true, .is_balanced = true, .seed = 30, __VA_ARGS__                                             \
    }

static const float qwen3_logits[] = {
#include "test/golden/arch/qwen3.inc"
};

static const GoldenArch models[] = {
    { .name = "qwen3",
      .maker = GOLDEN_MAKER("qwen3", 4, 2, 128, .tied = true),
      .logits = qwen3_logits,
      .int8_error = 0.05,
      .int8 = 0x7806b837a4edde85,
      .packed = 0x15ac7e795eda917b,
      .with_static = 0xaf8c5d448dceda3d },
};

size_t golden_arch_n(void) {
    return ARRAY_LEN(models);
}

const GoldenArch *golden_arch_at(size_t index) {
    assert(index < ARRAY_LEN(models));
    return &models[index];
}

const GoldenArch *golden_arch_find(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(models); i++)
        if (!strcmp(models[i].name, name))
            return &models[i];
    return NULL;
}

uint32_t golden_arch_token(size_t position) {
    return (uint32_t)(position * 7 + 3) % GOLDEN_ARCH_VOCAB;
}

size_t golden_arch_position(size_t row) {
    static const size_t positions[GOLDEN_ARCH_ROWS] = { 0, 1, 5, 13, 26, GOLDEN_ARCH_TOKENS - 1 };

    assert(row < GOLDEN_ARCH_ROWS);
    return positions[row];
}

void golden_arch_write(const char *folder) {
    for (size_t i = 0; i < ARRAY_LEN(models); i++) {
        _cleanup_(str_buf_deinit) StrBuf file = STR_BUF_NULL;
        char name[64];

        model_maker_run(&models[i].maker, &file);
        snprintf(name, sizeof(name), "%s.gguf", models[i].name);
        test_write_file(folder, name, file.data, file.len_bytes);
    }
}
