/* Attention of one query row; a part of row_ops_impl.h. */
#ifndef COORDGEN_BACKENDS_CPU_ROW_OPS_ATTENTION_H
#define COORDGEN_BACKENDS_CPU_ROW_OPS_ATTENTION_H

#include <assert.h>
#include <math.h>

#include "backends/cpu/lanes.h"
#include "backends/cpu/row_ops.h"

/* Keys or values of some positions as float32, expanded once for all heads of the group; half of a 32 KiB cache. */
enum { EXPANDED_FLOATS = 4096, EXPANDED_WIDTH = EXPANDED_FLOATS / 4 };
enum { VALUES_AT_ONCE = LANES_PARTS > 2 ? 2 : 4 }; /* sums that fit the registers */

static void expand(const uint16_t *half, size_t stride, size_t n_positions, size_t width, float *expanded) {
    for (size_t j = 0; j < n_positions; j++)
        for (size_t d = 0; d < width; d += N_LANES)
            lanes_store(expanded + j * width + d, lanes_load_f16(half + j * stride + d));
}

/* Scores of one head for the expanded keys; n_positions is a multiple of 4. */
static void score_head(const float *q, const float *keys, size_t n_positions, size_t head_size, float scale, float *scores) {
    for (size_t j = 0; j < n_positions; j += 4) {
        const float *key = keys + j * head_size;
        Lanes sum[4];
        Quad four;

        UNROLL for (int i = 0; i < 4; i++) sum[i] = lanes_of(0);
        for (size_t d = 0; d < head_size; d += N_LANES) {
            Lanes q_lanes = lanes_load(q + d);

            UNROLL for (size_t i = 0; i < 4; i++)
                sum[i] = lanes_add_product(sum[i], q_lanes, lanes_load(key + i * head_size + d));
        }
        four = quads_fold(lanes_fold(sum[0]), lanes_fold(sum[1]), lanes_fold(sum[2]), lanes_fold(sum[3])) * scale;
        memcpy(scores + j, &four, sizeof(four));
    }
}

/* One score, straight from the cache: for the positions past a multiple of 4, and for heads too wide to expand. */
static float score_one(const float *q, const uint16_t *key, size_t head_size, float scale) {
    Lanes sum = lanes_of(0);

    for (size_t d = 0; d < head_size; d += N_LANES)
        sum = lanes_add_product(sum, lanes_load(q + d), lanes_load_f16(key + d));
    return lanes_sum(sum) * scale;
}

static void score_group(const AttentionRow *row, float *expanded) {
    const size_t n = row->end - row->begin, head_size = row->head_size;
    const size_t step = head_size <= EXPANDED_WIDTH ? EXPANDED_FLOATS / head_size / 4 * 4 : 0;
    const uint16_t *keys = row->k + row->begin * row->kv_stride;
    size_t j = 0;

    for (size_t n_step; step && j + 4 <= n; j += n_step) {
        n_step = n - j < step ? (n - j) / 4 * 4 : step;
        expand(keys + j * row->kv_stride, row->kv_stride, n_step, head_size, expanded);
        for (size_t h = 0; h < row->n_group; h++)
            score_head(row->q + h * head_size, expanded, n_step, head_size, row->scale, row->scores + h * n + j);
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

/* out[16 count] += sum over positions of weight x value, one position after the other. */
LANES_INLINE void add_values(const float *weights, const float *values, size_t n_positions, size_t width, float *out,
                             const int count) {
    Lanes sum[VALUES_AT_ONCE];

    UNROLL for (int i = 0; i < count; i++) sum[i] = lanes_load(out + i * N_LANES);
    for (size_t j = 0; j < n_positions; j++) {
        Lanes weight = lanes_of(weights[j]);

        UNROLL for (int i = 0; i < count; i++)
            sum[i] = lanes_add_product(sum[i], weight, lanes_load(values + j * width + (size_t)i * N_LANES));
    }
    UNROLL for (int i = 0; i < count; i++) lanes_store(out + i * N_LANES, sum[i]);
}

static void add_values_head(const float *weights, const float *values, size_t n_positions, size_t width, float *out) {
    size_t d = 0;

    for (; d + VALUES_AT_ONCE * N_LANES <= width; d += VALUES_AT_ONCE * N_LANES)
        add_values(weights, values + d, n_positions, width, out + d, VALUES_AT_ONCE);
    for (; d < width; d += N_LANES)
        add_values(weights, values + d, n_positions, width, out + d, 1);
}

/**
 * attention() - one query row of one group of heads
 *
 * SPEC of the bits, the same for every build: score j = (sum over d of q[d] k[j][d], 16 partial sums by d mod 16, added
 * in the fixed tree) x scale. weight j = exp(score j - greatest score) x (1 / sum of these), the sum by 16 partial sums
 * by (j - begin) mod 16 and the tree. out[d] = sum over j, in rising order, of weight j x v[j][d], one partial sum.
 * Products and sums are rounded separately. How many positions are expanded at a time changes nothing. An empty range
 * gives zeros. Keys and values that are not finite give an unspecified result, never undefined behaviour.
 */
static void attention(const AttentionRow *row) {
    _Alignas(64) float expanded[EXPANDED_FLOATS];
    const size_t n = row->end - row->begin, head_size = row->head_size;

    assert(row->begin <= row->end && head_size && head_size % N_LANES == 0);
    score_group(row, expanded);
    memset(row->out, 0, row->n_group * head_size * sizeof(*row->out)); /* out may be q, which is spent now */
    for (size_t h = 0; h < row->n_group && n; h++)
        softmax_head(row->scores + h * n, n);
    for (size_t first = 0, width; first < head_size; first += width) {
        width = head_size - first < EXPANDED_WIDTH ? head_size - first : EXPANDED_WIDTH;
        for (size_t j = 0, n_step; j < n; j += n_step) {
            n_step = n - j < EXPANDED_FLOATS / width ? n - j : EXPANDED_FLOATS / width;
            expand(row->v + (row->begin + j) * row->kv_stride + first, row->kv_stride, n_step, width, expanded);
            for (size_t h = 0; h < row->n_group; h++)
                add_values_head(row->scores + h * n + j, expanded, n_step, width, row->out + h * head_size + first);
        }
    }
}

#endif
