// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/golden/golden_arch.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* Heads have the sizes of the families, and share key-value heads as they do; all else is small. */
#define GOLDEN_MAKER(architecture, layers, embd, heads, kv_heads, size, ...)                                           \
    {                                                                                                                  \
        .arch = architecture, .n_layers = layers, .n_embd = embd, .n_ff = 192, .n_heads = heads,                       \
        .n_kv_heads = kv_heads, .head_size = size, .n_vocab = GOLDEN_ARCH_VOCAB, .tokenizer = "gpt2",                  \
        .pretokenizer = "smollm", .has_optional = true, .is_balanced = true, .seed = 30, __VA_ARGS__                   \
    }

static const float llama_logits[] = {
#include "test/golden/arch/llama.inc"
};
static const float mistral_logits[] = {
#include "test/golden/arch/mistral.inc"
};
static const float qwen15_logits[] = {
#include "test/golden/arch/qwen15.inc"
};
static const float qwen2_yarn_logits[] = {
#include "test/golden/arch/qwen2_yarn.inc"
};
static const float gemma_logits[] = {
#include "test/golden/arch/gemma.inc"
};
static const float gemma2_logits[] = {
#include "test/golden/arch/gemma2.inc"
};
static const float gemma3_logits[] = {
#include "test/golden/arch/gemma3.inc"
};
static const float smollm3_logits[] = {
#include "test/golden/arch/smollm3.inc"
};
static const float phi2_logits[] = {
#include "test/golden/arch/phi2.inc"
};
static const float qwen3_logits[] = {
#include "test/golden/arch/qwen3.inc"
};
static const float phi3_long_logits[] = {
#include "test/golden/arch/phi3_long.inc"
};
static const float phi3_short_logits[] = {
#include "test/golden/arch/phi3_short.inc"
};
static const float llama_linear_logits[] = {
#include "test/golden/arch/llama_linear.inc"
};

#define KEYS(...)                                                                                                      \
    .keys = (const ModelMakerKey[]){ __VA_ARGS__ },                                                                    \
    .n_keys = sizeof((const ModelMakerKey[]){ __VA_ARGS__ }) / sizeof(ModelMakerKey)
#define NUMBER(suffix, value)                                                                                          \
    { suffix, GGUF_F32, value, NULL }
#define COUNT(suffix, value)                                                                                           \
    { suffix, GGUF_U32, value, NULL }
#define TEXT(suffix, value)                                                                                            \
    { suffix, GGUF_STRING, 0, value }

/* Phi-3's converter writes no type. */
#define LONG_ROPE COUNT("rope.scaling.original_context_length", 256), NUMBER("rope.scaling.attn_factor", 1.19)

static const GoldenArch models[] = {
    /* Llama 3 has divisors, Llama 2 has none; with the biases that the architecture may have. */
    { .name = "llama",
      .maker = GOLDEN_MAKER("llama", 3, 128, 2, 2, 128, .tied = false),
      .logits = llama_logits,
      .int8_error = 0.04,
      .with_static = 0x81d69f05ff95df2c,
      .packed = 0x5e69f639df4146cb,
      .int8 = 0xfa8dba0a14e6d763 },
    { .name = "mistral",
      .maker =
          GOLDEN_MAKER("llama", 3, 128, 4, 1, 128, .left_out = ROLE_ROPE_FREQS, KEYS(NUMBER("rope.freq_base", 1e6))),
      .logits = mistral_logits,
      .int8_error = 0.04,
      .with_static = 0xae16b762f83d945e,
      .packed = 0x4d19b240c9cd9034,
      .int8 = 0x0815b825feae2581 },
    { .name = "llama_linear",
      .maker = GOLDEN_MAKER("llama", 3, 128, 2, 2, 64, .left_out = ROLE_ROPE_FREQS,
                            KEYS(TEXT("rope.scaling.type", "linear"), NUMBER("rope.scaling.factor", 4))),
      .logits = llama_linear_logits,
      .int8_error = 0.04,
      .with_static = 0x918a1f537dea86b1,
      .packed = 0xd85b9128e915abff,
      .int8 = 0x942551bb0aa13829 },
    { .name = "qwen15",
      .maker =
          GOLDEN_MAKER("qwen2", 3, 128, 2, 2, 64, .left_out = ROLE_ROPE_FREQS, KEYS(NUMBER("rope.freq_base", 1e6))),
      .logits = qwen15_logits,
      .int8_error = 0.04,
      .with_static = 0x88230adfad264e78,
      .packed = 0xfba72aa0a527f970,
      .int8 = 0xbdc1edd594cd75ff },
    { .name = "qwen2_yarn",
      .maker = GOLDEN_MAKER("qwen2", 3, 128, 2, 1, 64, .left_out = ROLE_ROPE_FREQS,
                            KEYS(TEXT("rope.scaling.type", "yarn"), NUMBER("rope.scaling.factor", 4),
                                 COUNT("rope.scaling.original_context_length", 128))),
      .logits = qwen2_yarn_logits,
      .int8_error = 0.04,
      .with_static = 0x2fda50f6f82b3293,
      .packed = 0x2c823e100ae570a6,
      .int8 = 0x61ced4dfd06ab2c0 },
    { .name = "qwen3",
      .maker = GOLDEN_MAKER("qwen3", 3, 128, 4, 2, 128, .tied = true),
      .logits = qwen3_logits,
      .int8_error = 0.04,
      .with_static = 0xc8c09061e464a41b,
      .packed = 0x55cfd2327300b1c9,
      .int8 = 0x92146619d38472ca },
    { .name = "phi3_long",
      .maker = GOLDEN_MAKER("phi3", 4, 192, 2, 1, 96, .n_context = 512, .is_fused = true, KEYS(LONG_ROPE)),
      .logits = phi3_long_logits,
      .int8_error = 0.04,
      .with_static = 0x65adb64425933535,
      .packed = 0x7fcd7bcff9f469a5,
      .int8 = 0x34d14b72ec56d59e },
    { .name = "phi3_short",
      .maker = GOLDEN_MAKER("phi3", 3, 192, 2, 2, 96, .n_context = 256, .is_fused = true, KEYS(LONG_ROPE)),
      .logits = phi3_short_logits,
      .int8_error = 0.04,
      .with_static = 0xd6118f0fd627c66c,
      .packed = 0xb7fab5ff80527307,
      .int8 = 0x2a87483e55219491 },
    { .name = "gemma",
      .maker = GOLDEN_MAKER("gemma", 3, 128, 2, 1, 256, .tied = true),
      .logits = gemma_logits,
      .int8_error = 0.04,
      .int8 = 0xe35c5cee12c97281,
      .packed = 0xfc4ffd5d56970898,
      .with_static = 0xde2505dd7c01a409 },
    /* Local layers come first, with a small window; the cap is small enough to matter. */
    { .name = "gemma2",
      .maker = GOLDEN_MAKER("gemma2", 4, 128, 2, 1, 256, .tied = true,
                            KEYS(COUNT("attention.sliding_window", 9), NUMBER("attn_logit_softcapping", 1.5),
                                 NUMBER("final_logit_softcapping", 2))),
      .logits = gemma2_logits,
      .int8_error = 0.04,
      .int8 = 0x2c486eeea5ce78dc,
      .packed = 0x131a36b514242130,
      .with_static = 0xc6aab432d593fcbe },
    { .name = "gemma3",
      .maker = GOLDEN_MAKER("gemma3", 3, 128, 2, 1, 256, .tied = true, .left_out = ROLE_ROPE_FREQS, .window = 9),
      .logits = gemma3_logits,
      .int8_error = 0.04,
      .int8 = 0x73e310966b423e04,
      .packed = 0x1a5a1497e41e72ea,
      .with_static = 0x6a9c21b1218a4d73 },
    /* The last layer has no rotary positions. */
    { .name = "smollm3",
      .maker = GOLDEN_MAKER("smollm3", 4, 128, 2, 1, 128, .tied = true),
      .logits = smollm3_logits,
      .int8_error = 0.04,
      .int8 = 0xf938c76e2ec95c95,
      .packed = 0x47cf3b60e080e664,
      .with_static = 0xd5070b1e811ded43 },
    { .name = "phi2",
      .maker = GOLDEN_MAKER("phi2", 4, 160, 2, 2, 80, .is_fused = true, .n_rot = 32),
      .logits = phi2_logits,
      .int8_error = 0.04,
      .int8 = 0xb909e83fb3607bd1,
      .packed = 0x621305ae82f6ee5f,
      .with_static = 0x156a474df24b8ce1 },
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
