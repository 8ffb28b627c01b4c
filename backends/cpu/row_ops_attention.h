/* Attention of one query row; a part of row_ops_impl.h. */
#ifndef COORDGEN_BACKENDS_CPU_ROW_OPS_ATTENTION_H
#define COORDGEN_BACKENDS_CPU_ROW_OPS_ATTENTION_H

#include <assert.h>
#include <math.h>

#include "backends/cpu/lanes.h"
#include "backends/cpu/row_ops.h"

/* Positions are taken a block at a time, 8 KiB of keys or values, so that all heads of the group read them from the
 * first-level cache. Where float16 has instructions, they are read as they are; elsewhere a block is expanded first. */
enum { BLOCK_VALUES = 4096, BLOCK_WIDTH_MAX = BLOCK_VALUES / 4 };

#if defined(__F16C__)
typedef uint16_t Cached;
#define cached_load lanes_load_f16
#else
typedef float Cached;
#define cached_load lanes_load
#endif

/* A block of keys or values: row j at rows + j * stride. */
typedef struct CachedBlock {
    const Cached *rows;
    size_t stride;
} CachedBlock;

/* Sums that fit the registers: heads x positions for scores, heads x 16 lanes of a head for outputs. */
enum {
    HEADS_AT_ONCE = LANES_PARTS == 1 ? 4 : LANES_PARTS == 2 ? 2 : 1,
    KEYS_AT_ONCE = LANES_PARTS == 1 ? 4 : 2,
    VALUES_AT_ONCE = LANES_PARTS == 1 ? 4 : 2,
};

static CachedBlock cached_block(const uint16_t *half, size_t stride, size_t n_positions, size_t width, float *expanded) {
#if defined(__F16C__)
    return (CachedBlock){ half, stride };
#else
    for (size_t j = 0; j < n_positions; j++)
        for (size_t d = 0; d < width; d += N_LANES)
            lanes_store(expanded + j * width + d, lanes_load_f16(half + j * stride + d));
    return (CachedBlock){ expanded, width };
#endif
}

/* Scores of n_heads heads for the first n_positions (a multiple of 4) keys of a block. */
LANES_INLINE void score_keys(const AttentionRow *row, const float *q, CachedBlock keys, size_t n_positions, float *scores,
                             const size_t n_heads) {
    const size_t n = row->end - row->begin, head_size = row->head_size;

    for (size_t j = 0; j < n_positions; j += 4) {
        Quad folded[HEADS_AT_ONCE][4];

        UNROLL
        for (size_t first = 0; first < 4; first += KEYS_AT_ONCE) {
            const Cached *key = keys.rows + (j + first) * keys.stride;
            Lanes sum[HEADS_AT_ONCE][KEYS_AT_ONCE];

            UNROLL
            for (size_t h = 0; h < n_heads; h++)
                UNROLL
                for (size_t i = 0; i < KEYS_AT_ONCE; i++)
                    sum[h][i] = lanes_of(0);
            for (size_t d = 0; d < head_size; d += N_LANES) {
                Lanes values[KEYS_AT_ONCE];

                UNROLL
                for (size_t i = 0; i < KEYS_AT_ONCE; i++)
                    values[i] = cached_load(key + i * keys.stride + d);
                UNROLL
                for (size_t h = 0; h < n_heads; h++) {
                    const Lanes q_lanes = lanes_load(q + h * head_size + d);

                    UNROLL
                    for (size_t i = 0; i < KEYS_AT_ONCE; i++)
                        sum[h][i] = lanes_add_product(sum[h][i], q_lanes, values[i]);
                }
            }
            UNROLL
            for (size_t h = 0; h < n_heads; h++)
                UNROLL
                for (size_t i = 0; i < KEYS_AT_ONCE; i++)
                    folded[h][first + i] = lanes_fold(sum[h][i]);
        }
        UNROLL
        for (size_t h = 0; h < n_heads; h++) {
            const Quad four = quads_fold(folded[h][0], folded[h][1], folded[h][2], folded[h][3]) * row->scale;

            memcpy(scores + h * n + j, &four, sizeof(four));
        }
    }
}

/* One score: for the positions past a multiple of 4, and for heads too wide for a block. */
static float score_one(const float *q, const uint16_t *key, size_t head_size, float scale) {
    Lanes sum = lanes_of(0);

    for (size_t d = 0; d < head_size; d += N_LANES)
        sum = lanes_add_product(sum, lanes_load(q + d), lanes_load_f16(key + d));
    return lanes_sum(sum) * scale;
}

/* How many of the `left` heads to take: 4 at a time, but 5 and 6 as 3 and the rest. */
static size_t heads_at_once(size_t left) {
    if (left <= HEADS_AT_ONCE)
        return left;
    return HEADS_AT_ONCE == 4 && left <= 6 ? 3 : HEADS_AT_ONCE;
}

static void score_group(const AttentionRow *row, float *expanded) {
    const size_t n = row->end - row->begin, head_size = row->head_size;
    const size_t step = head_size <= BLOCK_WIDTH_MAX ? BLOCK_VALUES / head_size / 4 * 4 : 0;
    const uint16_t *keys = row->k + row->begin * row->kv_stride;
    size_t j = 0;

    for (size_t n_step; step && j + 4 <= n; j += n_step) {
        CachedBlock block;

        n_step = n - j < step ? (n - j) / 4 * 4 : step;
        block = cached_block(keys + j * row->kv_stride, row->kv_stride, n_step, head_size, expanded);
        for (size_t h = 0, n_heads; h < row->n_group; h += n_heads) {
            const float *q = row->q + h * head_size;
            float *scores = row->scores + h * n + j;

            n_heads = heads_at_once(row->n_group - h);
            switch (n_heads) {
            case 1: score_keys(row, q, block, n_step, scores, 1); break;
            case 2: score_keys(row, q, block, n_step, scores, HEADS_AT_ONCE < 2 ? 1 : 2); break;
            case 3: score_keys(row, q, block, n_step, scores, HEADS_AT_ONCE < 3 ? 1 : 3); break;
            default: score_keys(row, q, block, n_step, scores, HEADS_AT_ONCE); break;
            }
        }
    }
    for (; j < n; j++)
        for (size_t h = 0; h < row->n_group; h++)
            row->scores[h * n + j] = score_one(row->q + h * head_size, keys + j * row->kv_stride, head_size, row->scale);
}

/* Scores become weights: exp(score - greatest) x (1 / sum). */
static void softmax_head(float *scores, size_t n) {
    Lanes max = lanes_of(-INFINITY), sum = lanes_of(0), minus_max, factor;

    for (size_t j = 0; j < n; j += N_LANES)
        max = lanes_max(max, lanes_load_n(scores + j, n - j, -INFINITY));
    minus_max = lanes_of(-lanes_horizontal_max(max));
    for (size_t j = 0; j < n; j += N_LANES) {
        Lanes weight = lanes_exp(lanes_add(lanes_load_n(scores + j, n - j, -INFINITY), minus_max));

        sum = lanes_add(sum, weight);
        lanes_store_n(scores + j, n - j, weight);
    }
    factor = lanes_of(1.0f / lanes_sum(sum));
    for (size_t j = 0; j < n; j += N_LANES)
        lanes_store_n(scores + j, n - j, lanes_mul(lanes_load_n(scores + j, n - j, 0), factor));
}

/* out[h][16 n_lanes] += sum over positions of weight[h] x value, one position after the other, for n_heads heads. */
LANES_INLINE void add_values(const AttentionRow *row, const float *weights, CachedBlock values, size_t n_positions, float *out,
                             const size_t n_heads, const size_t n_lanes) {
    const size_t n = row->end - row->begin;
    Lanes sum[HEADS_AT_ONCE][VALUES_AT_ONCE];

    UNROLL
    for (size_t h = 0; h < n_heads; h++)
        UNROLL
        for (size_t i = 0; i < n_lanes; i++)
            sum[h][i] = lanes_load(out + h * row->head_size + i * N_LANES);
    for (size_t j = 0; j < n_positions; j++) {
        Lanes value[VALUES_AT_ONCE];

        UNROLL
        for (size_t i = 0; i < n_lanes; i++)
            value[i] = cached_load(values.rows + j * values.stride + i * N_LANES);
        UNROLL
        for (size_t h = 0; h < n_heads; h++) {
            const Lanes weight = lanes_of(weights[h * n + j]);

            UNROLL
            for (size_t i = 0; i < n_lanes; i++)
                sum[h][i] = lanes_add_product(sum[h][i], weight, value[i]);
        }
    }
    UNROLL
    for (size_t h = 0; h < n_heads; h++)
        UNROLL
        for (size_t i = 0; i < n_lanes; i++)
            lanes_store(out + h * row->head_size + i * N_LANES, sum[h][i]);
}

/* `width` outputs of n_heads heads. */
LANES_INLINE void add_values_heads(const AttentionRow *row, const float *weights, CachedBlock values, size_t n_positions,
                                   size_t width, float *out, const size_t n_heads) {
    size_t d = 0;

    for (; d + VALUES_AT_ONCE * N_LANES <= width; d += VALUES_AT_ONCE * N_LANES)
        add_values(row, weights, (CachedBlock){ values.rows + d, values.stride }, n_positions, out + d, n_heads, VALUES_AT_ONCE);
    for (; d < width; d += N_LANES)
        add_values(row, weights, (CachedBlock){ values.rows + d, values.stride }, n_positions, out + d, n_heads, 1);
}

/* Outputs [first, first + width) of all heads. */
static void add_values_group(const AttentionRow *row, size_t first, size_t width, float *expanded) {
    const size_t n = row->end - row->begin, step = BLOCK_VALUES / width;

    for (size_t j = 0, n_step; j < n; j += n_step) {
        CachedBlock block;

        n_step = n - j < step ? n - j : step;
        block = cached_block(row->v + (row->begin + j) * row->kv_stride + first, row->kv_stride, n_step, width, expanded);
        for (size_t h = 0, n_heads; h < row->n_group; h += n_heads) {
            const float *weights = row->scores + h * n + j;
            float *out = row->out + h * row->head_size + first;

            n_heads = heads_at_once(row->n_group - h);
            switch (n_heads) {
            case 1: add_values_heads(row, weights, block, n_step, width, out, 1); break;
            case 2: add_values_heads(row, weights, block, n_step, width, out, HEADS_AT_ONCE < 2 ? 1 : 2); break;
            case 3: add_values_heads(row, weights, block, n_step, width, out, HEADS_AT_ONCE < 3 ? 1 : 3); break;
            default: add_values_heads(row, weights, block, n_step, width, out, HEADS_AT_ONCE); break;
            }
        }
    }
}

/**
 * attention() - one query row of one group of heads
 *
 * SPEC of the bits, the same for every build: score j = (sum over d of q[d] k[j][d], 16 partial sums by d mod 16, added
 * in the fixed tree) x scale. weight j = exp(score j - greatest score) x (1 / sum of these), the sum by 16 partial sums
 * by (j - begin) mod 16 and the tree. out[d] = sum over j, in rising order, of weight j x v[j][d], one partial sum.
 * Products and sums are rounded separately. How positions and heads are blocked changes nothing. An empty range
 * gives zeros. Keys and values that are not finite give an unspecified result, never undefined behaviour.
 */
static void attention(const AttentionRow *row) {
    const size_t n = row->end - row->begin, head_size = row->head_size;
#if defined(__F16C__)
    float *const expanded = NULL;
#else
    _Alignas(64) float expanded[BLOCK_VALUES];
#endif

    assert(row->begin <= row->end && head_size && head_size % N_LANES == 0);
    score_group(row, expanded);
    for (size_t h = 0; h < row->n_group && n; h++)
        softmax_head(row->scores + h * n, n);
    memset(row->out, 0, row->n_group * head_size * sizeof(*row->out)); /* not before: out may be q */
    for (size_t first = 0; first < head_size; first += BLOCK_WIDTH_MAX)
        add_values_group(row, first, head_size - first < BLOCK_WIDTH_MAX ? head_size - first : BLOCK_WIDTH_MAX, expanded);
}

#endif
