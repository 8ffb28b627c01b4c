// SPDX-License-Identifier: Apache-2.0
/* A baseline of the layout bench: llama.cpp's K-quants, in code of our own. Rows are super-blocks of 256 weights with 8
 * sub-blocks of 32. Each sub-block has a 6-bit scale and a 6-bit minimum under two float16 of the super-block. The
 * bytes are GGUF's Q4_K and Q5_K (quant/format/ggml_type.h), whose dequantization checks this code.
 *
 * A weight is d * scale * code - dmin * minimum, so the codes of a channel do not share one scale. An int8 matrix unit
 * with one scale per channel cannot take them; products with them go sub-block by sub-block. */
#ifndef COORDGEN_BENCH_KQUANT_H
#define COORDGEN_BENCH_KQUANT_H

#include <stddef.h>
#include <stdint.h>

#define KQUANT_BLOCK 256
#define KQUANT_SUB 32
#define KQUANT_SUBS 8

typedef struct KquantBlock4 {
    uint16_t d, dmin;   /* float16 */
    uint8_t scales[12]; /* 8 scales and 8 minima of 6 bits */
    uint8_t low[128];   /* nibbles: 32 bytes hold sub-blocks 2c (low) and 2c + 1 (high) */
} KquantBlock4;

typedef struct KquantBlock5 {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t high[32]; /* bit s of byte i: the fifth bit of weight i of sub-block s */
    uint8_t low[128];
} KquantBlock5;

typedef struct KquantMatrix {
    int bits;           /* 4 or 5 */
    size_t n;           /* outputs */
    size_t k_blocks;    /* inputs / 256 */
    const void *blocks; /* [n][k_blocks] */
} KquantMatrix;

/* Activations of one super-block, quantized once per row and read once per output. The even sub-blocks precede the odd
 * ones: [0 2 4 6 1 3 5 7], so that 64 nibbles match 64 activations in one register. */
typedef struct KquantInputs {
    _Alignas(64) int8_t x[KQUANT_BLOCK];
    int16_t sums[KQUANT_SUBS]; /* sum of x of sub-block s */
    float scale;
} KquantInputs;

typedef struct KquantOps {
    const char *name;
    uint32_t need; /* CPU_* bits */
    /* Computes y[o] for rows [begin, end) and one row of inputs; each build has its own order of float sums. */
    void (*product)(const KquantMatrix *matrix, const KquantInputs *inputs, size_t begin, size_t end, float *y);
    /* Expands one row: codes[k] in logical order, and the factors of its sub-blocks, factors[k_blocks][16]: 8 scales,
     * then 8 minima. */
    void (*expand)(const KquantMatrix *matrix, size_t row, uint8_t *codes, uint8_t *factors);
} KquantOps;

const KquantOps *kquant_select(uint32_t cpu);
size_t kquant_n(void);
const KquantOps *kquant_at(size_t index);

static inline size_t kquant_block_bytes(int bits) {
    return bits == 4 ? sizeof(KquantBlock4) : sizeof(KquantBlock5);
}

/* Returns the offset of sub-block s in KquantInputs.x. */
static inline size_t kquant_input_offset(size_t sub) {
    return (sub % 2 * (KQUANT_SUBS / 2) + sub / 2) * KQUANT_SUB;
}

/* Packs w f32[k] into blocks [k / 256]; a sub-block's factors come from its least and largest weight. */
void kquant_pack_row(const float *w, size_t k, int bits, void *blocks);
/* Quantizes x f32[k] to inputs [k / 256]. */
void kquant_quantize(const float *x, size_t k, KquantInputs *inputs);

#endif
