/* Attention of one query row; a part of row_ops_impl.h. */
#ifndef COORDGEN_BACKENDS_CPU_ROW_OPS_ATTENTION_H
#define COORDGEN_BACKENDS_CPU_ROW_OPS_ATTENTION_H

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "backends/cpu/lanes.h"
#include "backends/cpu/row_ops.h"

/* Positions are taken a block at a time, so that all rows and heads read its keys or values from the first-level cache.
 * Converting float16 costs as much as three products. For a few heads it is done in registers, each time; for many, or
 * where float16 has no instructions, a block is expanded to float32 once. */
enum {
    BLOCK_VALUES = 4096,
    BLOCK_WIDTH_MAX = BLOCK_VALUES / 4
};

#if defined(__F16C__) || defined(LANES_NEON)
enum {
    F16_IS_CHEAP = 1
};
#else
enum {
    F16_IS_CHEAP = 0
};
#endif

/* Sums that fit the registers: heads x positions for scores, heads x 16 lanes of a head for outputs. */
enum {
#if defined(__aarch64__)
    HEADS_AT_ONCE = 2, /* 32 registers of 4 lanes */
#else
    HEADS_AT_ONCE = LANES_PARTS == 1 ? 4 : LANES_PARTS == 2 ? 2 : 1,
#endif
    KEYS_AT_ONCE = LANES_PARTS == 1 ? 4 : 2,
    VALUES_AT_ONCE = LANES_PARTS == 1 ? 4 : 2,
};

/* Keys or values of positions [first, first + n): element d of position j is value (j - first) * stride + d of `half`,
 * or of `expanded` where that is not NULL. */
typedef struct CachedBlock {
    const uint16_t *half;
    const float *expanded;
    size_t stride;
    size_t first, n;
} CachedBlock;

static CachedBlock block_read(const uint16_t *cache, size_t kv_stride, size_t first, size_t n, size_t width,
                              float *expanded) {
    const uint16_t *half = cache + first * kv_stride;

    for (size_t j = 0; expanded && j < n; j++)
        for (size_t d = 0; d < width; d += N_LANES)
            lanes_store(expanded + j * width + d, lanes_load_f16(half + j * kv_stride + d));
    return (CachedBlock){ half, expanded, expanded ? width : kv_stride, first, n };
}

LANES_INLINE Lanes block_load(const CachedBlock *block, size_t at, const bool is_half) {
    return is_half ? lanes_load_f16(block->half + at) : lanes_load(block->expanded + at);
}

/* How many of the `left` heads to take: 4 at a time, but 5 and 6 as 3 and the rest. */
static size_t heads_at_once(size_t left) {
    if (left <= HEADS_AT_ONCE)
        return left;
    return HEADS_AT_ONCE == 4 && left <= 6 ? 3 : HEADS_AT_ONCE;
}

/* CALL(n): with n a constant, for n_heads = 1 .. HEADS_AT_ONCE. */
#define WITH_HEADS(n_heads, CALL)                                                                                      \
    switch (n_heads) {                                                                                                 \
    case 1:                                                                                                            \
        CALL(1);                                                                                                       \
        break;                                                                                                         \
    case 2:                                                                                                            \
        CALL((HEADS_AT_ONCE < 2 ? 1 : 2));                                                                             \
        break;                                                                                                         \
    case 3:                                                                                                            \
        CALL((HEADS_AT_ONCE < 3 ? 1 : 3));                                                                             \
        break;                                                                                                         \
    default:                                                                                                           \
        CALL(HEADS_AT_ONCE);                                                                                           \
        break;                                                                                                         \
    }

/* Scores of n_heads heads for the n >= 4 keys from value `at` of the block on. The last four overlap the four before
 * them where n is not a multiple: the same scores, twice. */
LANES_INLINE void score_keys(const AttentionRow *row, const float *q, const CachedBlock *block, size_t at, size_t n,
                             float *scores, const size_t n_heads, const bool is_half) {
    const size_t scores_stride = row->end - row->begin, head_size = row->head_size;

    for (size_t step = 0; step < n; step += 4) {
        const size_t j = step + 4 <= n ? step : n - 4;
        Quad folded[HEADS_AT_ONCE][4];

        UNROLL
        for (size_t first = 0; first < 4; first += KEYS_AT_ONCE) {
            const size_t key = at + (j + first) * block->stride;
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
                    values[i] = block_load(block, key + i * block->stride + d, is_half);
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

            memcpy(scores + h * scores_stride + j, &four, sizeof(four));
        }
    }
}

/* One score: for ranges of less than 4 positions, and for heads too wide for a block. */
static float score_one(const float *q, const uint16_t *key, size_t head_size, float scale) {
    Lanes sum = lanes_of(0);

    for (size_t d = 0; d < head_size; d += N_LANES)
        sum = lanes_add_product(sum, lanes_load(q + d), lanes_load_f16(key + d));
    return lanes_sum(sum) * scale;
}

/* The part of the row's range that the block holds; false when there is none. */
static bool row_range(const AttentionRow *row, size_t first, size_t n, size_t *fromp, size_t *top) {
    *fromp = row->begin > first ? row->begin : first;
    *top = row->end < first + n ? row->end : first + n;
    return *fromp < *top;
}

static void score_block(const AttentionRow *row, const CachedBlock *block) {
    const size_t head_size = row->head_size, n = row->end - row->begin;
    size_t from, to;

    if (!row_range(row, block->first, block->n, &from, &to))
        return;
    if (to - from < 4 || head_size > BLOCK_WIDTH_MAX) {
        for (size_t h = 0; h < row->n_group; h++)
            for (size_t j = from; j < to; j++)
                row->scores[h * n + j - row->begin] =
                    score_one(row->q + h * head_size, row->k + j * row->kv_stride, head_size, row->scale);
        return;
    }
    for (size_t h = 0, n_heads; h < row->n_group; h += n_heads) {
        const float *q = row->q + h * head_size;
        float *scores = row->scores + h * n + (from - row->begin);
        const size_t at = (from - block->first) * block->stride;

        n_heads = heads_at_once(row->n_group - h);
#define SCORE_HALF(count) score_keys(row, q, block, at, to - from, scores, count, true)
#define SCORE_EXPANDED(count) score_keys(row, q, block, at, to - from, scores, count, false)
        if (F16_IS_CHEAP && !block->expanded)
            WITH_HEADS(n_heads, SCORE_HALF)
        else
            WITH_HEADS(n_heads, SCORE_EXPANDED)
    }
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

/* out[h][16 n_lanes] += sum over n positions from value `at` of the block on of weight[h] x value, one position after the
 * other, for n_heads heads. */
LANES_INLINE void add_values(const AttentionRow *row, const float *weights, const CachedBlock *block, size_t at,
                             size_t n, float *out, const size_t n_heads, const size_t n_lanes, const bool is_half) {
    const size_t weights_stride = row->end - row->begin;
    Lanes sum[HEADS_AT_ONCE][VALUES_AT_ONCE];

    UNROLL
    for (size_t h = 0; h < n_heads; h++)
        UNROLL
    for (size_t i = 0; i < n_lanes; i++)
        sum[h][i] = lanes_load(out + h * row->head_size + i * N_LANES);
    for (size_t j = 0; j < n; j++) {
        Lanes value[VALUES_AT_ONCE];

        UNROLL
        for (size_t i = 0; i < n_lanes; i++)
            value[i] = block_load(block, at + j * block->stride + i * N_LANES, is_half);
        UNROLL
        for (size_t h = 0; h < n_heads; h++) {
            const Lanes weight = lanes_of(weights[h * weights_stride + j]);

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
LANES_INLINE void add_values_heads(const AttentionRow *row, const float *weights, const CachedBlock *block, size_t at,
                                   size_t n, size_t width, float *out, const size_t n_heads, const bool is_half) {
    size_t d = 0;

    for (; d + VALUES_AT_ONCE * N_LANES <= width; d += VALUES_AT_ONCE * N_LANES)
        add_values(row, weights, block, at + d, n, out + d, n_heads, VALUES_AT_ONCE, is_half);
    for (; d < width; d += N_LANES)
        add_values(row, weights, block, at + d, n, out + d, n_heads, 1, is_half);
}

/* Outputs [out_first, out_first + width) of all heads, from a block of the same part of the values. */
static void add_values_block(const AttentionRow *row, const CachedBlock *block, size_t out_first, size_t width) {
    const size_t n = row->end - row->begin;
    size_t from, to;

    if (!row_range(row, block->first, block->n, &from, &to))
        return;
    for (size_t h = 0, n_heads; h < row->n_group; h += n_heads) {
        const float *weights = row->scores + h * n + (from - row->begin);
        const size_t at = (from - block->first) * block->stride;
        float *out = row->out + h * row->head_size + out_first;

        n_heads = heads_at_once(row->n_group - h);
#define ADD_HALF(count) add_values_heads(row, weights, block, at, to - from, width, out, count, true)
#define ADD_EXPANDED(count) add_values_heads(row, weights, block, at, to - from, width, out, count, false)
        if (F16_IS_CHEAP && !block->expanded)
            WITH_HEADS(n_heads, ADD_HALF)
        else
            WITH_HEADS(n_heads, ADD_EXPANDED)
    }
}

/**
 * attention_rows() - query rows of one group of heads
 * @rows:  rows of the same k, v, kv_stride, n_group and head_size; each has its own range, scratch and output
 *
 * SPEC of the bits, the same for every build: score j = (sum over d of q[d] k[j][d], 16 partial sums by d mod 16, added
 * in the fixed tree) x scale. weight j = exp(score j - greatest score) x (1 / sum of these), the sum by 16 partial sums
 * by (j - begin) mod 16 and the tree. out[d] = sum over j, in rising order, of weight j x v[j][d], one partial sum.
 * Products and sums are rounded separately. How positions, heads and
 * rows are blocked changes nothing. An empty range
 * gives zeros. Keys and values that are not finite give an unspecified result, never undefined behaviour.
 */
static void attention_rows(const AttentionRow *rows, size_t n_rows) {
    _Alignas(64) float buffer[BLOCK_VALUES];
    const AttentionRow *shared = rows;
    const size_t head_size = shared->head_size,
                 n_tiles = n_rows * ((shared->n_group + HEADS_AT_ONCE - 1) / HEADS_AT_ONCE);
    float *const expanded = F16_IS_CHEAP && n_tiles <= 2 ? NULL : buffer;
    size_t begin = SIZE_MAX, end = 0, step, width;

    assert(n_rows && head_size && head_size % N_LANES == 0);
    for (size_t r = 0; r < n_rows; r++) {
        assert(rows[r].begin <= rows[r].end && rows[r].k == shared->k && rows[r].v == shared->v);
        assert(rows[r].kv_stride == shared->kv_stride && rows[r].n_group == shared->n_group &&
               rows[r].head_size == head_size);
        begin = rows[r].begin < begin ? rows[r].begin : begin;
        end = rows[r].end > end ? rows[r].end : end;
    }
    width = head_size < BLOCK_WIDTH_MAX ? head_size : BLOCK_WIDTH_MAX;
    step = BLOCK_VALUES / width;
    for (size_t first = begin; first < end; first += step) {
        const size_t n = end - first < step ? end - first : step;
        const CachedBlock block = block_read(shared->k, shared->kv_stride, first, n, width, expanded);

        for (size_t r = 0; r < n_rows; r++)
            score_block(&rows[r], &block);
    }
    for (size_t r = 0; r < n_rows; r++) {
        const size_t n = rows[r].end - rows[r].begin;

        for (size_t h = 0; h < rows[r].n_group && n; h++)
            softmax_head(rows[r].scores + h * n, n);
        memset(rows[r].out, 0, rows[r].n_group * head_size * sizeof(*rows[r].out)); /* not before: out may be q */
    }
    for (size_t out_first = 0; out_first < head_size; out_first += width) {
        width = head_size - out_first < BLOCK_WIDTH_MAX ? head_size - out_first : BLOCK_WIDTH_MAX;
        step = BLOCK_VALUES / width;
        for (size_t first = begin; first < end; first += step) {
            const size_t n = end - first < step ? end - first : step;
            const CachedBlock block = block_read(shared->v + out_first, shared->kv_stride, first, n, width, expanded);

            for (size_t r = 0; r < n_rows; r++)
                add_values_block(&rows[r], &block, out_first, width);
        }
    }
}

static void attention(const AttentionRow *row) {
    attention_rows(row, 1);
}

#endif
