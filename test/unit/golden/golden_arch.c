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
      .with_static = 0x7bbf652006f483d7,
      .packed = 0x6a694d73178d877d,
      .int8 = 0x252b2bf77d56e937 },
    { .name = "mistral",
      .maker =
          GOLDEN_MAKER("llama", 3, 128, 4, 1, 128, .left_out = ROLE_ROPE_FREQS, KEYS(NUMBER("rope.freq_base", 1e6))),
      .logits = mistral_logits,
      .int8_error = 0.04,
      .with_static = 0x082816032b09a820,
      .packed = 0xba6c24631b71e6b2,
      .int8 = 0x166d50f2b1429fae },
    { .name = "llama_linear",
      .maker = GOLDEN_MAKER("llama", 3, 128, 2, 2, 64, .left_out = ROLE_ROPE_FREQS,
                            KEYS(TEXT("rope.scaling.type", "linear"), NUMBER("rope.scaling.factor", 4))),
      .logits = llama_linear_logits,
      .int8_error = 0.04,
      .with_static = 0x91bc8d1b2935beed,
      .packed = 0xb9f44e4c73c10f39,
      .int8 = 0xaa07cf5e353b881a },
    { .name = "qwen15",
      .maker =
          GOLDEN_MAKER("qwen2", 3, 128, 2, 2, 64, .left_out = ROLE_ROPE_FREQS, KEYS(NUMBER("rope.freq_base", 1e6))),
      .logits = qwen15_logits,
      .int8_error = 0.04,
      .with_static = 0x299e06ecb1546a23,
      .packed = 0x61fea70175eb6368,
      .int8 = 0xda00a03a9ff85b1d },
    { .name = "qwen2_yarn",
      .maker = GOLDEN_MAKER("qwen2", 3, 128, 2, 1, 64, .left_out = ROLE_ROPE_FREQS,
                            KEYS(TEXT("rope.scaling.type", "yarn"), NUMBER("rope.scaling.factor", 4),
                                 COUNT("rope.scaling.original_context_length", 128))),
      .logits = qwen2_yarn_logits,
      .int8_error = 0.04,
      .with_static = 0x24db276c310f8637,
      .packed = 0xe208cea0225153ed,
      .int8 = 0x33ea69cbd015b2d7 },
    { .name = "qwen3",
      .maker = GOLDEN_MAKER("qwen3", 3, 128, 4, 2, 128, .tied = true),
      .logits = qwen3_logits,
      .int8_error = 0.04,
      .with_static = 0x1de74debad6db25a,
      .packed = 0xf395bc4eaf3d8fe4,
      .int8 = 0xc2db99c278700ab8 },
    { .name = "phi3_long",
      .maker = GOLDEN_MAKER("phi3", 4, 192, 2, 1, 96, .n_context = 512, .is_fused = true, KEYS(LONG_ROPE)),
      .logits = phi3_long_logits,
      .int8_error = 0.04,
      .with_static = 0x3ba15bc9d7a80af7,
      .packed = 0xd64bcd01ec2b483b,
      .int8 = 0x2d075be8e1d9c7cc },
    { .name = "phi3_short",
      .maker = GOLDEN_MAKER("phi3", 3, 192, 2, 2, 96, .n_context = 256, .is_fused = true, KEYS(LONG_ROPE)),
      .logits = phi3_short_logits,
      .int8_error = 0.04,
      .with_static = 0xa02f7652c6997da9,
      .packed = 0x59e40a48dca62e7d,
      .int8 = 0x3709121b116a35bb },
    { .name = "gemma",
      .maker = GOLDEN_MAKER("gemma", 3, 128, 2, 1, 256, .tied = true),
      .logits = gemma_logits,
      .int8_error = 0.04,
      .int8 = 0xede8d9b62d974492,
      .packed = 0x9cdb376bb5f1fb4a,
      .with_static = 0x96d92d14ab772914 },
    /* Local layers come first, with a small window; the cap is small enough to matter. */
    { .name = "gemma2",
      .maker = GOLDEN_MAKER("gemma2", 4, 128, 2, 1, 256, .tied = true,
                            KEYS(COUNT("attention.sliding_window", 9), NUMBER("attn_logit_softcapping", 1.5),
                                 NUMBER("final_logit_softcapping", 2))),
      .logits = gemma2_logits,
      .int8_error = 0.04,
      .int8 = 0x42df0f2bd4023672,
      .packed = 0x11124ea486fa64bd,
      .with_static = 0xcfedf58dadf2506a },
    { .name = "gemma3",
      .maker = GOLDEN_MAKER("gemma3", 3, 128, 2, 1, 256, .tied = true, .left_out = ROLE_ROPE_FREQS, .window = 9),
      .logits = gemma3_logits,
      .int8_error = 0.04,
      .int8 = 0x2691f21873dd1ee4,
      .packed = 0xc3ac2321a27a7363,
      .with_static = 0x57b6dee1721531e7 },
    /* The last layer has no rotary positions. */
    { .name = "smollm3",
      .maker = GOLDEN_MAKER("smollm3", 4, 128, 2, 1, 128, .tied = true),
      .logits = smollm3_logits,
      .int8_error = 0.04,
      .int8 = 0x8ff0c4cb5b0cbf35,
      .packed = 0xcf81aae6df05e2c1,
      .with_static = 0x79f6b217e4768758 },
    { .name = "phi2",
      .maker = GOLDEN_MAKER("phi2", 4, 160, 2, 2, 80, .is_fused = true, .n_rot = 32),
      .logits = phi2_logits,
      .int8_error = 0.04,
      .int8 = 0x496bd021d3f11c3b,
      .packed = 0x3a32a6c2bb82caec,
      .with_static = 0x93a753db579c9c9f },
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
