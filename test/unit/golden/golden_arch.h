// SPDX-License-Identifier: Apache-2.0
/* A tiny model of every architecture, made from a seed, and its logits by another implementation
 * (test/golden/README.md). */
#ifndef COORDGEN_TEST_UNIT_GOLDEN_ARCH_H
#define COORDGEN_TEST_UNIT_GOLDEN_ARCH_H

#include "test/unit/fixtures/model_maker.h"

enum {
    GOLDEN_ARCH_TOKENS = 40, /* tokens of the text */
    GOLDEN_ARCH_ROWS = 6,    /* positions whose logits are recorded */
    GOLDEN_ARCH_VOCAB = 48,
};

typedef struct GoldenArch {
    const char *name;
    ModelMaker maker;
    const float *logits; /* f32[GOLDEN_ARCH_ROWS][GOLDEN_ARCH_VOCAB] */
    /* Allowed error of int8 on this model: the root mean square of the logits' error beside that of the logits. */
    double int8_error;
    /* Hashes of the cpu device's logits at all positions: 8 bits, 4.5 bits, 8 bits with static activations. */
    uint64_t int8, packed, with_static;
} GoldenArch;

size_t golden_arch_n(void);
const GoldenArch *golden_arch_at(size_t index);
const GoldenArch *golden_arch_find(const char *name);
/* Returns the token of a position, and the position of a row of the logits. */
uint32_t golden_arch_token(size_t position);
size_t golden_arch_position(size_t row);
/* Writes the models to folder/NAME.gguf, for the script that makes the logits. */
void golden_arch_write(const char *folder);

#endif
