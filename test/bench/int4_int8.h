// SPDX-License-Identifier: Apache-2.0
/* A baseline of the layout bench: the INT4/INT8 mixed format that EdgeFlow compares itself with (its sections 2 and
 * 5.4.2). A channel of up to 4 bits is padded to 4, a wider one to 8. Codes (grid.h) are in nibbles, weight 2i in the
 * low half of byte i and 2i + 1 in the high one; levels are int8. Rows are stored one after another, in the channels'
 * order. */
#ifndef COORDGEN_BENCH_INT4_INT8_H
#define COORDGEN_BENCH_INT4_INT8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INT4_INT8_STEP 64 /* rows of activations and weights are padded to a multiple */

typedef struct Int4Int8Matrix {
    size_t n, k;
    size_t k_padded;         /* k rounded up to a multiple of 64 */
    const int8_t *bits;      /* [n]: 1..8, the width of each channel's grid */
    const uint64_t *offsets; /* [n + 1] bytes: k_padded / 2 or k_padded per row */
    const uint8_t *rows;     /* aligned to 64; past k: code 0 or level 0 */
    const int32_t *sums;     /* [n]: sum of the levels of an int8 channel, for kernels that shift x to unsigned */
    const float *scales;     /* [n] */
} Int4Int8Matrix;

typedef struct Int4Int8Input {
    const int8_t *x;           /* [k_padded], aligned to 64, -127..127; zero past k */
    const uint8_t *x_unsigned; /* x + 128, computed once a row; aligned to 64 */
    int32_t sum;               /* sum of x */
    float scale;
} Int4Int8Input;

typedef struct Int4Int8Ops {
    const char *name;
    uint32_t need; /* CPU_* bits */
    /* y[o] = float(sum x q) * (x scale * channel scale) for channels [begin, end). Every build gives the same bits. */
    void (*product)(const Int4Int8Matrix *matrix, const Int4Int8Input *input, size_t begin, size_t end, float *y);
    /* Writes the levels of a channel to q[k_padded]; values past k are undefined. */
    void (*expand)(const Int4Int8Matrix *matrix, size_t channel, int8_t *q);
} Int4Int8Ops;

const Int4Int8Ops *int4_int8_select(uint32_t cpu);
size_t int4_int8_n(void);
const Int4Int8Ops *int4_int8_at(size_t index);

static inline bool int4_int8_is_nibbles(int bits) {
    return bits <= 4;
}

/* Returns an output, for all builds alike, from the sum of x times the levels. */
static inline float int4_int8_output(int32_t sum, float x_scale, float scale) {
    return (float)sum * (x_scale * scale);
}

/* Fills offsets[n + 1]; the last one is the total size. */
void int4_int8_layout(const int8_t *bits, size_t n, size_t k, uint64_t *offsets);
/* Packs q[n][k], levels of their channels' widths, into rows and sums. */
void int4_int8_pack(const int8_t *q, const int8_t *bits, size_t n, size_t k, const uint64_t *offsets, uint8_t *rows,
                    int32_t *sums);

#endif
