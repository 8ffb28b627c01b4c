// SPDX-License-Identifier: Apache-2.0
/* Float operators on rows, in one fixed order that every ISA shares. Nothing is contracted except in attention. Sums
 * have 16 partial sums by index mod 16, added up in one fixed tree. The same source is compiled once for each
 * instruction set (row_ops_impl.h). */
#ifndef COORDGEN_BACKENDS_CPU_ROW_OPS_H
#define COORDGEN_BACKENDS_CPU_ROW_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Number of positions that attention takes together, counted from logical position 0: a part of the number contract and
 * the size of KV cache blocks. */
enum {
    KV_BLOCK = 64
};

/* Keys and values of one KV head, float16. Positions [b * KV_BLOCK, (b + 1) * KV_BLOCK) are in block b. Keys of a block
 * are [head_size][KV_BLOCK], so that scores of neighbouring positions are lanes. Values are [KV_BLOCK][head_size]. */
typedef struct KvHead {
    void *const *blocks;
    size_t k, v;      /* offsets of the head's keys and values in every block, in float16 values */
    size_t head_size; /* multiple of 16 */
    size_t first;     /* index of blocks[0] */
} KvHead;

static inline uint16_t *kv_head_keys(const KvHead *kv, size_t block) {
    return (uint16_t *)kv->blocks[block - kv->first] + kv->k;
}

static inline uint16_t *kv_head_values(const KvHead *kv, size_t block) {
    return (uint16_t *)kv->blocks[block - kv->first] + kv->v;
}

/* Copies keys and values from position `from_at` of one head to position `to_at` of another. */
static inline void kv_head_move(const KvHead *to, size_t to_at, const KvHead *from, size_t from_at) {
    const size_t hd = to->head_size, to_in = to_at % KV_BLOCK, from_in = from_at % KV_BLOCK;
    uint16_t *to_keys = kv_head_keys(to, to_at / KV_BLOCK) + to_in;
    const uint16_t *from_keys = kv_head_keys(from, from_at / KV_BLOCK) + from_in;

    for (size_t d = 0; d < hd; d++)
        to_keys[d * KV_BLOCK] = from_keys[d * KV_BLOCK];
    memcpy(kv_head_values(to, to_at / KV_BLOCK) + to_in * hd, kv_head_values(from, from_at / KV_BLOCK) + from_in * hd,
           hd * sizeof(*to_keys));
}

/* A query row: the query heads that share a KV head. */
typedef struct AttentionRow {
    const float *q;    /* [n_group][head_size], rotated but not scaled */
    float *out;        /* [n_group][head_size]; may be q */
    size_t begin, end; /* positions read, in rising order: [begin, end) */
} AttentionRow;

/* Attention's state of its row-heads (rows x heads of the group, heads within rows) between blocks, and of the current
 * block. All arrays are in scratch. */
typedef struct Attending {
    const AttentionRow *rows;
    size_t n_group, n, head_size; /* n row-heads */
    size_t tile_rows;             /* rows of a tile; tiles have about the same size */
    float *q;                     /* [n][head_size], times scale and log2 e */
    float *out;                   /* [n][head_size] */
    float *weights;               /* [n][KV_BLOCK]: scores, then weights */
    float *sums;                  /* [n][16] */
    float *maxima;                /* [attention_padded(n)] */
    float *shrinks;               /* [attention_padded(n)]: factor of the block for earlier sums and outputs */
    float *room;                  /* [KV_BLOCK * head_size] */
    float *expanded;              /* room; NULL: the block is read as float16 */
    float cap;                    /* 0; otherwise set by the caller after attention_begin(): see attention() */
    bool is_whole;                /* every row reads all of the block; from and to are not set */
    uint8_t *from, *to;           /* [n]: the row reads positions [from, to) of the block; from = to: none */
} Attending;

typedef struct RowOps {
    const char *name;
    uint32_t need; /* CPU_* bits */

    /* y = x / sqrt(mean(x^2) + eps) * w; y may be x. */
    void (*rms_norm)(const float *x, const float *w, float eps, size_t n, float *y);
    /* y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * w + bias; y may be x. */
    void (*layer_norm)(const float *x, const float *w, const float *bias, float eps, size_t n, float *y);
    /* x += y */
    void (*add)(float *x, const float *y, size_t n);
    /* x *= factor */
    void (*scale)(float *x, float factor, size_t n);
    /* out = silu(gate) * up, silu(a) = a / (1 + exp(-a)); out may be gate. */
    void (*silu_mul)(const float *gate, const float *up, size_t n, float *out);
    /* out = gelu_tanh(gate) * up; gelu_tanh(a) = a / (1 + exp(-2 z)), z = sqrt(2 / pi) (a + 0.044715 a^3). */
    void (*gelu_mul)(const float *gate, const float *up, size_t n, float *out);
    /* Activations in place, without a product. */
    void (*silu)(float *x, size_t n);
    void (*gelu)(float *x, size_t n);
    /* Rotates pairs of one head: NORM pairs (2i, 2i+1), NEOX pairs (i, i + n_rot/2); cos, sin [n_rot / 2]. */
    void (*rope_norm)(float *x, const float *cos, const float *sin, size_t n_rot);
    void (*rope_neox)(float *x, const float *cos, const float *sin, size_t n_rot);
    /* Rotates by blocks for quantization: y = orthonormal Walsh-Hadamard of x by blocks of `block` (a power of two,
     * 32..512, divides n); y may be x. Returns the greatest |y|, as amax(). */
    float (*hadamard)(const float *x, size_t n, size_t block, float *y);
    /* Returns the greatest |x|; NaN is ignored. */
    float (*amax)(const float *x, size_t n);
    /* Quantizes one row to symmetric int8, given its amax: scale = amax / 127, q = rint(x * (127 / amax)). Returns the
     * scale; an all-zero row gives scale 0. Each 64 levels are contiguous, piece_bytes after the previous 64
     * (Int8Rows). The last piece is padded with zeros. */
    float (*quantize)(const float *x, size_t n, float amax, size_t piece_bytes, int8_t *q);
    /* Quantizes one row with a static scale: q = rint(x * (1 / scale)) within +-127, laid out as in quantize(). Returns
     * the number of outliers among the n values: |x| > 127 * scale. */
    size_t (*quantize_static)(const float *x, size_t n, size_t piece_bytes, float scale, int8_t *q);
    /* Writes the row's outliers in rising order: their channels, and their rests x - scale * q. */
    void (*outliers)(const float *x, size_t n, float scale, uint32_t *channels, float *rests);
    /* y[o] += rest * (scales[o] * w[o]): one outlier times its column of weights. */
    void (*add_column)(float rest, const int8_t *w, const float *scales, size_t n, float *y);
    /* y = q * factor */
    void (*dequantize)(const int8_t *q, float factor, size_t n, float *y);
    /* Returns the sum of n <= INT8_K_MAX values; exact. */
    int32_t (*sum)(const int8_t *q, size_t n);
    /* Makes Int8Rows.shifted from q. */
    void (*shift)(const int8_t *q, size_t n, uint8_t *shifted);
    /* Converts to float16, to nearest even; finite values past +-65504 are clamped. */
    void (*to_f16)(const float *x, size_t n, uint16_t *half);
    /* Stores positions [position, position + n) of the cache from rows k + j * stride, v + j * stride, rounded as in
     * to_f16(). */
    void (*kv_store)(const KvHead *kv, size_t position, const float *k, const float *v, size_t stride, size_t n);
    /* Computes the softmax over the scores of a row's range, then the weighted sum of its values. A row's bits do not
     * depend on the other rows of the call. scratch f32[attention_scratch_floats()], aligned to 64. */
    void (*attention)(const KvHead *kv, const AttentionRow *rows, size_t n_rows, size_t n_group, float scale,
                      float *scratch);
    /* Attention in parts, for rows that do not all read the same blocks. attention_begin() comes first.
     * attention_blocks() then takes blocks [first_block, end_block) of kv for rows [first_row, first_row + n_rows), as
     * often as needed, each row's blocks in rising order. attention_end() writes the outputs. rows and scratch must
     * stay until then. */
    Attending (*attention_begin)(const AttentionRow *rows, size_t n_rows, size_t n_group, size_t head_size, float scale,
                                 float *scratch);
    void (*attention_blocks)(const Attending *attending, size_t first_row, size_t n_rows, const KvHead *kv,
                             size_t first_block, size_t end_block);
    void (*attention_end)(const Attending *attending);
    /* float32 dot product in the fixed order: 16 partial sums. */
    float (*dot)(const float *a, const float *b, size_t n);
} RowOps;

/* Rounds up, with room for a vector of 16 that starts at any row-head. */
static inline size_t attention_padded(size_t n_row_heads) {
    return (n_row_heads + 15 + 63) / 64 * 64;
}

const RowOps *row_ops_select(uint32_t cpu);
/* Returns the scratch of n_row_heads = rows * n_group row-heads, in floats. */
size_t attention_scratch_floats(size_t n_row_heads, size_t head_size);
size_t row_ops_n(void);
const RowOps *row_ops_at(size_t index);

#endif
