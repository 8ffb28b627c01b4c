// SPDX-License-Identifier: Apache-2.0
/* Attention of query rows to the blocks of a KV head; a part of row_ops_impl.h. */
#ifndef COORDGEN_BACKENDS_CPU_ROW_OPS_ATTENTION_IMPL_H
#define COORDGEN_BACKENDS_CPU_ROW_OPS_ATTENTION_IMPL_H

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "backends/cpu/rows/row_ops.h"
#include "backends/cpu/rows/row_ops_attention_tile_impl.h"
#include "backends/numeric/lanes.h"
#include "base/min_max.h"

/* Converting float16 costs about as much as two products. Few tiles of rows convert in registers. For more tiles, or
 * without float16 instructions, a block is expanded to float32 once. */
enum {
    TILES_OF_HALF = 2
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

/**
 * part_exp2() - 2^x for x <= 0; values below -125 and NaN count as -125
 *
 * x = n + r, |r| <= 1/2, n to nearest even: by adding 1.5 x 2^23, or by an instruction, with the same exact r. 2^r =
 * 1 + r p(r), p of degree 4 (least relative error, 9.2e-8), by fused multiply-adds. n is added to the exponent. The
 * function takes a third of part_exp()'s instructions, because arguments are never positive and results never
 * subnormal; every score needs one call.
 */
LANES_INLINE PartF part_exp2(PartF x) {
    PartF r, p;
#if LANES_PART < 16
    const PartF magic = part_of(0x1.8p23f);
    PartF shifted;
#endif

    x = part_max(x, part_of(-125));
#if LANES_PART == 16
    r = (PartF)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    shifted = x + magic;
    r = x - (shifted - magic);
#endif
    p = part_of(0x1.5bba14p-10f);
    p = part_fma(p, r, part_of(0x1.3cea88p-7f));
    p = part_fma(p, r, part_of(0x1.c6b752p-5f));
    p = part_fma(p, r, part_of(0x1.ebf9bcp-3f));
    p = part_fma(p, r, part_of(0x1.62e42ap-1f));
    p = part_fma(p, r, part_of(1));
#if LANES_PART == 16
    return (PartF)_mm512_scalef_ps((__m512)p, (__m512)(x - r));
#else
    return (PartF)((PartU)p + ((PartU)shifted << 23)); /* the shift drops the magic number */
#endif
}

/* Chooses the rows of a tile, and whether tiles read float16 or expanded float32. */
static void choose_tiles(Attending *a) {
    const size_t n_tiles = (a->n + TILE_ROWS - 1) / TILE_ROWS;

    a->tile_rows = (a->n + n_tiles - 1) / n_tiles;
    a->expanded = F16_IS_CHEAP && n_tiles <= TILES_OF_HALF ? NULL : a->room;
}

static Attending attending(const AttentionRow *rows, size_t n_rows, size_t n_group, size_t hd, float *scratch) {
    const size_t n = n_rows * n_group, padded = attention_padded(n);
    Attending a = { .rows = rows, .n_group = n_group, .n = n, .head_size = hd };

    a.q = scratch;
    a.out = a.q + n * hd;
    a.weights = a.out + n * hd;
    a.sums = a.weights + n * KV_BLOCK;
    a.maxima = a.sums + n * N_LANES;
    a.shrinks = a.maxima + padded;
    a.from = (uint8_t *)(a.shrinks + padded);
    a.to = a.from + padded;
    a.room = (float *)(a.to + padded);
    choose_tiles(&a);
    return a;
}

/* Returns rows [first, first + n_rows) as an Attending of their own. Vectors of maxima may then begin anywhere. They
 * reach past these rows to others' maxima, which softmax_block() preserves, and past the last row's. */
static Attending attending_part(const Attending *whole, size_t first, size_t n_rows) {
    const size_t at = first * whole->n_group;
    Attending a = *whole;

    a.rows += first;
    a.n = n_rows * a.n_group;
    a.q += at * a.head_size;
    a.out += at * a.head_size;
    a.weights += at * KV_BLOCK;
    a.sums += at * N_LANES;
    a.maxima += at;
    a.shrinks += at;
    a.from += at;
    a.to += at;
    choose_tiles(&a);
    return a;
}

/* Returns the block's float16 values in the form that tiles read. */
static const void *expand(const Attending *a, const uint16_t *block, size_t n_values) {
    float *expanded = a->expanded;

    for (size_t i = 0; expanded && i < n_values; i += N_LANES)
        lanes_store(expanded + i, lanes_load_f16(block + i));
    return expanded ? (const void *)expanded : block;
}

/* Returns the address of value i of the block, in the form that tiles read. */
static const void *value_at(const Attending *a, const void *block, size_t i) {
    return a->expanded ? (const void *)((const float *)block + i) : (const void *)((const uint16_t *)block + i);
}

static size_t tile_n(const Attending *a, size_t first) {
    return MIN(a->n - first, a->tile_rows);
}

/* Returns the share of n row-heads in prefetching the next block, so that reading it from memory is spread over the
 * work on this block. Few tiles, which read float16 themselves, prefetch as they go. */
static void fetch_share(const Attending *a, const uint16_t *ahead, size_t first, size_t n) {
    const size_t n_values = KV_BLOCK * a->head_size, end = (first + n) * n_values / a->n, line = 32;

    for (size_t i = first * n_values / a->n / line * line; a->expanded && i < end; i += line)
        __builtin_prefetch(ahead + i, 0, 2);
}

/* Sets the range of positions that any of n row-heads reads. */
static void range_of_any(const Attending *a, size_t first, size_t n, size_t *fromp, size_t *top) {
    size_t from = KV_BLOCK, to = 0;

    for (size_t i = first; i < first + n; i++)
        if (a->from[i] < a->to[i]) {
            from = MIN(a->from[i], from);
            to = MAX(a->to[i], to);
        }
    *fromp = from;
    *top = to;
}

/* Replaces lanes of positions [at, at + 16) outside [from, to) by `other`. */
LANES_INLINE Lanes lanes_within(Lanes v, size_t at, size_t from, size_t to, float other) {
    EACH_PART (p) {
        PartI position;

        UNROLL for (int i = 0; i < LANES_PART; i++) position[i] = p * LANES_PART + i;
        position += (int32_t)at;
        v.part[p] = part_select((position >= (int32_t)from) & (position < (int32_t)to), v.part[p], part_of(other));
    }
    return v;
}

static float greatest_within(const float *scores, size_t from, size_t to) {
    Lanes max = lanes_of(-INFINITY);

    for (size_t at = from / N_LANES * N_LANES; at < to; at += N_LANES)
        max = lanes_max(max, lanes_within(lanes_load(scores + at), at, from, to, -INFINITY));
    return lanes_horizontal_max(max);
}

/* Returns the greatest scores of a row, by position mod the lanes of a part. */
LANES_INLINE PartF greatest_part(const float *scores) {
    Lanes max = lanes_load(scores);

    UNROLL
    for (size_t at = N_LANES; at < KV_BLOCK; at += N_LANES)
        max = lanes_max(max, lanes_load(scores + at));
    UNROLL
    for (int p = 1; p < LANES_PARTS; p++)
        max.part[0] = part_max(max.part[0], max.part[p]);
    return max.part[0];
}

LANES_INLINE float greatest_score(const float *scores) {
    Lanes max = lanes_load(scores);

    UNROLL
    for (size_t at = N_LANES; at < KV_BLOCK; at += N_LANES)
        max = lanes_max(max, lanes_load(scores + at));
    return lanes_horizontal_max(max);
}

/* Returns the greatest scores of four rows: a fourth of the part for each. */
LANES_INLINE PartF greatest_of_4(const float *scores) {
    return part_max_pairs(part_max_pairs(greatest_part(scores), greatest_part(scores + KV_BLOCK)),
                          part_max_pairs(greatest_part(scores + 2 * KV_BLOCK), greatest_part(scores + 3 * KV_BLOCK)));
}

/* Returns the greatest score of each of 16 rows that read the whole block. Reducing them together takes a fourth of the
 * shuffles. */
LANES_INLINE Lanes greatest_of_16(const float *scores) {
    const size_t part = LANES_PART * KV_BLOCK;
    Lanes max;

    EACH_PART (p) {
#if LANES_PART == 16
        max.part[p] = part_max_pairs(
            part_max_pairs(greatest_of_4(scores + p * part), greatest_of_4(scores + p * part + 4 * KV_BLOCK)),
            part_max_pairs(greatest_of_4(scores + p * part + 8 * KV_BLOCK),
                           greatest_of_4(scores + p * part + 12 * KV_BLOCK)));
#elif LANES_PART == 8
        max.part[p] = part_max_pairs(greatest_of_4(scores + p * part), greatest_of_4(scores + p * part + 4 * KV_BLOCK));
#else
        max.part[p] = greatest_of_4(scores + p * part);
#endif
    }
    return max;
}

LANES_INLINE Lanes weights_of(const float *scores, float max) {
    Lanes v = lanes_load(scores);

    EACH_PART (p)
        v.part[p] = part_exp2(v.part[p] - part_of(max));
    return v;
}

/* Turns scores into weights; adds their sum to the lanes of `sums`. */
static void weigh_within(float *scores, size_t from, size_t to, float max, float shrink, float *sums) {
    Lanes sum = lanes_mul(lanes_load(sums), lanes_of(shrink));

    for (size_t at = from / N_LANES * N_LANES; at < to; at += N_LANES) {
        const Lanes v = lanes_within(weights_of(scores + at, max), at, from, to, 0);

        sum = lanes_add(sum, v);
        lanes_store(scores + at, v);
    }
    lanes_store(sums, sum);
}

LANES_INLINE void weigh(float *scores, float max, float shrink, float *sums) {
    Lanes sum = lanes_mul(lanes_load(sums), lanes_of(shrink));

    UNROLL
    for (size_t at = 0; at < KV_BLOCK; at += N_LANES) {
        const Lanes v = weights_of(scores + at, max);

        sum = lanes_add(sum, v);
        lanes_store(scores + at, v);
    }
    lanes_store(sums, sum);
}

/* Replaces n scores u by cap tanh(u / (2 log2 e)). */
static void cap_scores(float *scores, size_t n, float cap) {
    const PartF one = part_of(1), factor = part_of(cap);

    for (size_t at = 0; at < n; at += N_LANES) {
        Lanes v = lanes_load(scores + at);

        EACH_PART (p) {
            const PartF u = v.part[p], e = part_exp2(-part_abs(u)), y = (one - e) / (one + e) * factor;

            v.part[p] = (PartF)((PartU)y | ((PartU)u & 0x80000000));
        }
        lanes_store(scores + at, v);
    }
}

/* Caps the scores of n row-heads at the block's positions that are read; other scores are unused. */
static void cap_block(const Attending *a, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++) {
        const size_t from = a->is_whole ? 0 : a->from[i] / N_LANES * N_LANES, to = a->is_whole ? KV_BLOCK : a->to[i];

        if (from < to)
            cap_scores(a->weights + i * KV_BLOCK + from, to - from, a->cap);
    }
}

/* Takes up to 16 row-heads from `first` on, so that the factors of their sums come from one vector. */
static void softmax_block(const Attending *a, size_t first) {
    const size_t n = MIN(a->n - first, N_LANES);
    const Lanes before = lanes_load(a->maxima + first);
    float *scores = a->weights + first * KV_BLOCK, *max = a->maxima + first, *shrink = a->shrinks + first;
    Lanes after, factor;

    if (a->cap > 0)
        cap_block(a, first, n);
    if (a->is_whole && n == N_LANES)
        after = greatest_of_16(scores);
    else {
        float greatest[N_LANES];

        for (size_t i = 0; i < N_LANES; i++)
            greatest[i] = -INFINITY;
        for (size_t i = 0; i < n; i++)
            greatest[i] = a->is_whole ? greatest_score(scores + i * KV_BLOCK)
                                      : greatest_within(scores + i * KV_BLOCK, a->from[first + i], a->to[first + i]);
        after = lanes_load(greatest);
    }
    after = lanes_max(before, after);
    EACH_PART (p)
        factor.part[p] = part_exp2(before.part[p] - after.part[p]);
    lanes_store(max, after);
    lanes_store(shrink, factor);
    for (size_t i = 0; i < n; i++, scores += KV_BLOCK) {
        float *sums = a->sums + (first + i) * N_LANES;

        if (a->is_whole)
            weigh(scores, max[i], shrink[i], sums);
        else if (a->from[first + i] < a->to[first + i])
            weigh_within(scores, a->from[first + i], a->to[first + i], max[i], shrink[i], sums);
    }
}

static void score_tile(const Attending *a, const void *b, const uint16_t *ahead, size_t first, size_t n) {
    const size_t hd = a->head_size;
    size_t from = 0, to = KV_BLOCK, at;

    fetch_share(a, ahead, first, n);
    if (!a->is_whole)
        range_of_any(a, first, n, &from, &to);
    if (from >= to)
        return;
    at = from / N_LANES * N_LANES;
    tile_all(&(Tile){ .a = a->q + first * hd,
                      .a_stride = hd,
                      .b = value_at(a, b, at),
                      .b_stride = KV_BLOCK,
                      .n = hd,
                      .c = a->weights + first * KV_BLOCK + at,
                      .c_stride = KV_BLOCK,
                      .is_first = true,
                      .ahead = ahead + at },
             n, (to - at + N_LANES - 1) / N_LANES, !a->expanded);
}

/* Computes the weights of 16 row-heads right after their scores, which are then in the first-level cache. */
static void weigh_block(const Attending *a, const uint16_t *keys, const uint16_t *ahead) {
    const void *b = expand(a, keys, KV_BLOCK * a->head_size);

    for (size_t scored = 0, weighed = 0, n; scored < a->n;) {
        n = tile_n(a, scored);
        score_tile(a, b, ahead, scored, n);
        scored += n;
        for (; weighed + N_LANES <= scored || (scored == a->n && weighed < scored); weighed += N_LANES)
            softmax_block(a, weighed);
    }
}

/* Adds the values of positions [from, to) of the block, for n <= TILE_ROWS row-heads. */
static void add_values(const Attending *a, const void *values, const uint16_t *ahead, size_t first, size_t n,
                       size_t from, size_t to, const float *shrinks) {
    const size_t hd = a->head_size;

    if (from < to)
        tile_all(&(Tile){ .a = a->weights + first * KV_BLOCK + from,
                          .a_stride = KV_BLOCK,
                          .b = value_at(a, values, from * hd),
                          .b_stride = hd,
                          .n = to - from,
                          .c = a->out + first * hd,
                          .c_stride = hd,
                          .factors = shrinks,
                          .ahead = ahead + from * hd },
                 n, hd / N_LANES, !a->expanded);
}

/* Returns the factors of n row-heads for their outputs, NULL if all are 1. */
static const float *shrinks_of(const Attending *a, size_t first, size_t n) {
    bool shrinks = false;

    for (size_t i = first; i < first + n; i++)
        shrinks = shrinks || a->shrinks[i] != 1;
    return shrinks ? a->shrinks + first : NULL;
}

/* A missing weight is not equivalent to a weight of 0. Positions that all rows of a tile read are therefore taken
 * together; those before and after by each row alone (its heads together). */
static void add_values_within(const Attending *a, const void *values, const uint16_t *ahead, size_t first, size_t n) {
    const size_t hd = a->head_size;
    size_t from = 0, to = KV_BLOCK;

    for (size_t i = first; i < first + n; i++) {
        from = MAX(a->from[i], from);
        to = MIN(a->to[i], to);
        for (size_t d = 0; a->from[i] < a->to[i] && a->shrinks[i] != 1 && d < hd; d += N_LANES)
            lanes_store(a->out + i * hd + d, lanes_mul(lanes_load(a->out + i * hd + d), lanes_of(a->shrinks[i])));
    }
    if (from > to)
        from = to = 0;
    for (int part = 0; part < 3; part++) {
        if (part == 1) {
            add_values(a, values, ahead, first, n, from, to, NULL);
            continue;
        }
        for (size_t i = first, same; i < first + n; i += same) {
            for (same = 1; i + same < first + n && a->from[i + same] == a->from[i] && a->to[i + same] == a->to[i];)
                same++;
            if (from == to && part == 0)
                add_values(a, values, ahead, i, same, a->from[i], a->to[i], NULL);
            else if (from < to)
                add_values(a, values, ahead, i, same, part ? to : a->from[i], part ? a->to[i] : from, NULL);
        }
    }
}

static void add_values_block(const Attending *a, const uint16_t *block, const uint16_t *ahead, size_t n_positions) {
    const void *values = expand(a, block, n_positions * a->head_size);

    for (size_t first = 0, n; first < a->n; first += n) {
        n = tile_n(a, first);
        fetch_share(a, ahead, first, n);
        if (a->is_whole)
            add_values(a, values, ahead, first, n, 0, KV_BLOCK, shrinks_of(a, first, n));
        else
            add_values_within(a, values, ahead, first, n);
    }
}

/* Sets the positions of block `block` that each row reads; returns whether any row reads some. */
static bool find_ranges(Attending *a, size_t block) {
    const size_t first = block * KV_BLOCK, n_rows = a->n / a->n_group;
    bool is_read = false;

    a->is_whole = true;
    for (size_t r = 0; r < n_rows && a->is_whole; r++)
        a->is_whole = a->rows[r].begin <= first && a->rows[r].end >= first + KV_BLOCK;
    if (a->is_whole)
        return true;
    for (size_t r = 0; r < n_rows; r++) {
        const size_t from = a->rows[r].begin > first ? a->rows[r].begin - first : 0,
                     to = a->rows[r].end > first ? a->rows[r].end - first : 0;
        const bool is_empty = from >= KV_BLOCK || from >= to;

        memset(a->from + r * a->n_group, is_empty ? 0 : (int)from, a->n_group);
        memset(a->to + r * a->n_group, is_empty ? 0 : to < KV_BLOCK ? (int)to : KV_BLOCK, a->n_group);
        is_read = is_read || !is_empty;
    }
    return is_read;
}

static Attending attention_begin(const AttentionRow *rows, size_t n_rows, size_t n_group, size_t hd, float scale,
                                 float *scratch) {
    Attending a = attending(rows, n_rows, n_group, hd, scratch);
    const Lanes factor = lanes_of(scale * 0x1.715476p0f);

    assert(n_rows && n_group && hd && hd % N_LANES == 0);
    for (size_t r = 0; r < n_rows; r++) {
        assert(rows[r].begin <= rows[r].end);
        for (size_t i = 0; i < n_group * hd; i += N_LANES)
            lanes_store(a.q + r * n_group * hd + i, lanes_mul(lanes_load(rows[r].q + i), factor));
    }
    memset(a.out, 0, a.n * hd * sizeof(*a.out));
    memset(a.sums, 0, a.n * N_LANES * sizeof(*a.sums));
    for (size_t i = 0; i < a.n; i += N_LANES)
        lanes_store(a.maxima + i, lanes_of(-INFINITY));
    return a;
}

static void attention_blocks(const Attending *whole, size_t first_row, size_t n_rows, const KvHead *kv,
                             size_t first_block, size_t end_block) {
    Attending a = attending_part(whole, first_row, n_rows);
    size_t begin = SIZE_MAX, end = 0, block;

    for (size_t r = 0; r < n_rows; r++) {
        begin = MIN(a.rows[r].begin, begin);
        end = MAX(a.rows[r].end, end);
    }
    end = MIN(end, end_block * KV_BLOCK);
    block = MAX(begin / KV_BLOCK, first_block);
    for (; block * KV_BLOCK < end; block++) {
        const size_t first = block * KV_BLOCK, n = MIN(end - first, KV_BLOCK);
        const uint16_t *keys = kv_head_keys(kv, block), *values = kv_head_values(kv, block);

        if (!find_ranges(&a, block))
            continue;
        weigh_block(&a, keys, values);
        add_values_block(&a, values, first + KV_BLOCK < end ? kv_head_keys(kv, block + 1) : values, n);
    }
}

static void attention_end(const Attending *a) {
    const size_t hd = a->head_size;

    for (size_t i = 0; i < a->n; i++) {
        const AttentionRow *row = &a->rows[i / a->n_group];
        const Lanes inverse = lanes_of(1.0f / lanes_sum(lanes_load(a->sums + i * N_LANES)));
        float *out = row->out + i % a->n_group * hd;

        for (size_t d = 0; d < hd; d += N_LANES)
            lanes_store(out + d,
                        row->begin == row->end ? lanes_of(0) : lanes_mul(lanes_load(a->out + i * hd + d), inverse));
    }
}

/**
 * attention() - attention of rows of queries to the keys and values of their KV head
 * @rows:    n_rows, each with its own range of positions
 * @scratch: attention_scratch_floats(n_rows * n_group, head_size), aligned to 64; content undefined
 *
 * SPEC of the bits, equal for every build, for one query head of one row with the range [begin, end). All numbers are
 * float32, fma(a, b, c) is a b + c rounded once, exp2 is part_exp2(). Blocks are KV_BLOCK positions, counted from
 * logical position 0. Blocks with positions of the range are taken in rising order, and of a block only positions
 * inside the range:
 *   factor = scale x log2(e), log2(e) being 0x1.715476p0, rounded once; q'[d] = q[d] x factor
 *   before the first block: max = -infinity, sum[0..15] = 0, out[d] = 0
 *   score[j] = fma(q'[d], k[j][d], score[j]) for d = 0, 1, ..., beginning at 0
 *   new = greatest of max and the block's scores; shrink = exp2(max - new); max = new
 *   weight[j] = exp2(score[j] - max)
 *   sum[i] = sum[i] x shrink, then sum[j mod 16] = sum[j mod 16] + weight[j] for rising j
 *   out[d] = out[d] x shrink, then out[d] = fma(weight[j], v[j][d], out[d]) for rising j
 * With a cap, which is the soft cap x log2(e) rounded once, rows are begun with the scale 2 x scale / soft cap, and
 * before `new`: score[j] = cap x ((1 - e) / (1 + e)) with the score's sign, e = exp2(-|score[j]|), each step rounded.
 * At the end out[d] = out[d] x (1 / s), s being the sums added in the fixed tree (lanes_sum()). An empty range gives
 * zeros. The result depends neither on which rows and heads are taken together, nor on a block's content outside the
 * range. A split into calls of attention_blocks() does not matter either, if each row gets its blocks in rising order.
 * Keys, values and queries that are not finite give an unspecified result, never undefined behaviour.
 */
static void attention(const KvHead *kv, const AttentionRow *rows, size_t n_rows, size_t n_group, float scale,
                      float *scratch) {
    const Attending a = attention_begin(rows, n_rows, n_group, kv->head_size, scale, scratch);

    attention_blocks(&a, 0, n_rows, kv, 0, SIZE_MAX / KV_BLOCK);
    attention_end(&a);
}

/* Stores to[d * to_stride + j] = x[j * stride + d] in float16, for 16 positions j and 16 d. */
static void store_keys_16(const float *x, size_t stride, uint16_t *to, size_t to_stride) {
    float turned[N_LANES][N_LANES];

    for (size_t d = 0; d < N_LANES; d += 4)
        for (size_t j = 0; j < N_LANES; j += 4) {
            const float *from = x + j * stride + d;
            const Quad a = *(const QuadLoose *)from, b = *(const QuadLoose *)(from + stride),
                       c = *(const QuadLoose *)(from + 2 * stride), e = *(const QuadLoose *)(from + 3 * stride);
            const Quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                       ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7),
                       ce_low = __builtin_shufflevector(c, e, 0, 4, 1, 5),
                       ce_high = __builtin_shufflevector(c, e, 2, 6, 3, 7);

            *(QuadLoose *)&turned[d][j] = __builtin_shufflevector(ab_low, ce_low, 0, 1, 4, 5);
            *(QuadLoose *)&turned[d + 1][j] = __builtin_shufflevector(ab_low, ce_low, 2, 3, 6, 7);
            *(QuadLoose *)&turned[d + 2][j] = __builtin_shufflevector(ab_high, ce_high, 0, 1, 4, 5);
            *(QuadLoose *)&turned[d + 3][j] = __builtin_shufflevector(ab_high, ce_high, 2, 3, 6, 7);
        }
    for (size_t d = 0; d < N_LANES; d++)
        lanes_store_f16(to + d * to_stride, lanes_load(turned[d]));
}

/**
 * kv_store() - store keys and values of n positions from `position` on in their blocks
 * @k, @v: row j at j * stride, head_size values
 */
static void kv_store(const KvHead *kv, size_t position, const float *k, const float *v, size_t stride, size_t n) {
    const size_t hd = kv->head_size;

    for (size_t j = 0, step; j < n; j += step) {
        const size_t block = (position + j) / KV_BLOCK, at = (position + j) % KV_BLOCK;
        uint16_t *keys = kv_head_keys(kv, block) + at, *values = kv_head_values(kv, block) + at * hd;

        step = at % N_LANES == 0 && n - j >= N_LANES ? N_LANES : 1;
        for (size_t d = 0; d < hd; d += N_LANES) {
            uint16_t half[N_LANES];

            if (step == N_LANES) {
                store_keys_16(k + j * stride + d, stride, keys + d * KV_BLOCK, KV_BLOCK);
                continue;
            }
            lanes_store_f16(half, lanes_load(k + j * stride + d));
            for (size_t i = 0; i < N_LANES; i++)
                keys[(d + i) * KV_BLOCK] = half[i];
        }
        for (size_t i = 0; i < step; i++)
            for (size_t d = 0; d < hd; d += N_LANES)
                lanes_store_f16(values + i * hd + d, lanes_load(v + (j + i) * stride + d));
    }
}

#endif
