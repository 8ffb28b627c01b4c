// SPDX-License-Identifier: Apache-2.0
/* Small models for tests: a whole GGUF file of random weights in memory. */
#ifndef COORDGEN_TEST_MODEL_MAKER_H
#define COORDGEN_TEST_MODEL_MAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strings/str_buf.h"
#include "model/hparams/arch.h"
#include "model/gguf/gguf_writer.h"

/* A key of the model's own, "ARCH.suffix". */
typedef struct ModelMakerKey {
    const char *suffix; /* behind the architecture's name; all of it if it begins with "tokenizer." or "general." */
    GgufValueType type; /* U32, F32, BOOL, STRING */
    double number;
    const char *text;
} ModelMakerKey;

typedef struct ModelMaker {
    const char *arch;
    uint32_t window; /* of gemma3: the first layer of two sees so many positions, with a rotary base of its own; 0:
                      * none */
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_size, n_vocab;
    uint32_t n_more_tokens; /* in the tokenizer than the embedding has rows */
    uint32_t n_padding;     /* rows of the embedding without a token, the last ones */
    uint32_t type;          /* of the matrices: GGML_F32 F16 BF16 Q8_0 Q4_0 */
    bool tied;
    bool bad_value;           /* a NaN in the last matrix */
    bool adds_bos;            /* token 2, before every text */
    const char *tokenizer;    /* tokenizer.ggml.model; of "llama" tokens from 28 on begin with a space */
    const char *pretokenizer; /* tokenizer.ggml.pre */
    uint64_t seed;
    bool has_optional;   /* every optional tensor too; the head as `tied` says */
    bool is_balanced;    /* norms near 1, and products about as large as their inputs, as trained models have them */
    bool is_fused;       /* tensors that a file may have as one are one */
    TensorRole left_out; /* with has_optional: not this one; of rotary divisors rope_freqs is written, if any */
    uint32_t n_rot;      /* rotated dimensions of a head; 0: all */
    uint32_t n_context;  /* 0: 512 */
    const ModelMakerKey *keys;
    size_t n_keys;
} ModelMaker;

/* llama of 2 layers, width 64, feed-forward 96, 4 heads of 16 on 2, 40 tokens, float32, separate head. */
#define MODEL_MAKER_DEFAULT                                                                                            \
    ((ModelMaker){ .arch = "llama",                                                                                    \
                   .n_layers = 2,                                                                                      \
                   .n_embd = 64,                                                                                       \
                   .n_ff = 96,                                                                                         \
                   .n_heads = 4,                                                                                       \
                   .n_kv_heads = 2,                                                                                    \
                   .head_size = 16,                                                                                    \
                   .n_vocab = 40,                                                                                      \
                   .type = 0,                                                                                          \
                   .tokenizer = "gpt2",                                                                                \
                   .pretokenizer = "smollm",                                                                           \
                   .seed = 1 })

/* SplitMix64. */
uint64_t test_random(uint64_t *state);
/* About normal, standard deviation 1. */
float test_random_normal(uint64_t *state);

/* Appends the file's bytes; asserts on failure. */
void model_maker_run(const ModelMaker *maker, StrBuf *file);
/* The file that the writer has laid out, with data of zeros; tensors lie where it says. Asserts on failure. */
void test_gguf_image(const GgufWriter *writer, StrBuf *file);
/* Writes bytes to folder/name. */
void test_write_file(const char *folder, const char *name, const void *data, size_t len_bytes);
/* A fresh folder of its own under TMPDIR (or /tmp); and its removal with all that is in it. */
void test_folder_make(char path[256]);
void test_folder_remove(const char *path);
/* Files in it, not counting folders. */
size_t test_folder_count(const char *path);
/* $COORDGEN_MODEL, or the default model in the user's cache; NULL when it is not there (prints why tests skip). */
const char *test_default_model(void);

#endif
