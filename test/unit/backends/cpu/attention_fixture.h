// SPDX-License-Identifier: Apache-2.0
/* A KV head, rows that attend to it, and the comparison of a build's attention with the plain loops, sum by sum. */
#ifndef COORDGEN_TEST_UNIT_ATTENTION_FIXTURE_H
#define COORDGEN_TEST_UNIT_ATTENTION_FIXTURE_H

#include "backends/cpu/attention/attention.h"
#include "test/unit/backends/cpu/attention_plain.h"
#include "test/unit/backends/cpu/row_ops_plain.h"

#define EACH_ATTENTION(ops)                                                                                            \
    for (size_t build_ = 0; build_ < attention_n_ops(); build_++)                                                      \
        for (const AttentionOps *ops = attention_ops_at(build_); ops && !(ops->need & ~cpu_features()); ops = NULL)

/* Content of places that nobody reads. */
typedef enum Garbage {
    GARBAGE_NAN,      /* all bits set */
    GARBAGE_INFINITY, /* infinite scales; levels of 0, 127 and -128 */
    GARBAGE_RANDOM,
    _GARBAGE_N
} Garbage;

/* Places of the cache are positions, then slots of a side block. Tests may change everything before
 * attention_fixture_expect(). */
typedef struct AttentionFixture {
    size_t head_size, n_heads, n_rows, n_positions, n_slots;
    size_t n_row_heads, n_places, n_parts, n_blocks; /* n_parts: cache blocks; n_blocks: of ATTENTION_BLOCK positions */
    float scale, soft_cap;                           /* soft_cap 0: none */
    float *q;                                        /* [n_rows][n_heads][head_size] */
    float *k, *v;                                    /* [n_places][head_size] */
    float *balance;                                  /* [head_size]; is_balanced: in use */
    bool is_balanced;
    size_t positions[2 * KV_BLOCK]; /* of slots, counted from logical position 0 */
    bool *reads;                    /* [n_rows][n_places] */

    PlainKv plain;
    PlainSums *expected_sums; /* [n_blocks][n_row_heads]; a score unit of -infinity where nothing is read */
    PlainTotals *expected_totals;
    float *expected; /* [n_row_heads][head_size] */

    uint8_t *memory;
    void **blocks, *side;
    AttentionQueries queries;
    AttentionSums sums; /* [n_blocks][n_row_heads + 1] */
    AttentionTotals totals;
    float *out; /* [n_row_heads + 1][head_size] */
    uint8_t *scratch;
} AttentionFixture;

static inline void *test_alloc(size_t len_bytes) {
    void *data = aligned_alloc(64, (len_bytes + 63) / 64 * 64 + 64);

    assert_non_null(data);
    return data;
}

/* Returns the scratch of the build with the largest groups. */
static inline size_t attention_fixture_scratch_bytes(void) {
    size_t group = 0;

    for (size_t i = 0; i < attention_n_ops(); i++)
        group = MAX(group, attention_ops_at(i)->group);
    return attention_scratch_bytes(group);
}

/* Draws queries, keys, values and balance; nothing is read. Slots have the positions behind those in place. */
static inline void attention_fixture_init(AttentionFixture *fixture, size_t head_size, size_t n_heads, size_t n_rows,
                                          size_t n_positions, size_t n_slots) {
    const size_t n_places = n_positions + n_slots, n = n_rows * n_heads, n_parts = (n_positions + 63) / KV_BLOCK,
                 n_blocks = (n_places + KV_BLOCK) / ATTENTION_BLOCK + 1, n_sums = n_blocks * (n + 1);
    const size_t plane_bytes = KV_BLOCK * kv_row_bytes(head_size);

    assert_true(n_slots <= KV_BLOCK && head_size <= PLAIN_HEAD_MAX);
    *fixture = (AttentionFixture){
        .head_size = head_size,
        .n_heads = n_heads,
        .n_rows = n_rows,
        .n_positions = n_positions,
        .n_slots = n_slots,
        .n_row_heads = n,
        .n_places = n_places,
        .n_parts = n_parts,
        .n_blocks = n_blocks,
        .scale = 1 / (float)sqrt((double)head_size),
        .q = test_alloc(n * head_size * sizeof(float)),
        .k = test_alloc(n_places * head_size * sizeof(float)),
        .v = test_alloc(n_places * head_size * sizeof(float)),
        .balance = test_alloc(head_size * sizeof(float)),
        .reads = test_alloc(n_rows * n_places),
        .plain = { head_size, test_alloc(n_places * sizeof(float)), test_alloc(n_places * sizeof(float)),
                   test_alloc(n_places * head_size), test_alloc(n_places * head_size) },
        .expected_sums = test_alloc(n_blocks * n * sizeof(PlainSums)),
        .expected_totals = test_alloc(n * sizeof(PlainTotals)),
        .expected = test_alloc(n * head_size * sizeof(float)),
        .memory = test_alloc((n_parts + 1) * 4 * plane_bytes),
        .blocks = test_alloc(n_parts * sizeof(void *)),
        .queries = { head_size, 0, test_alloc(n * attention_levels_bytes(head_size)), test_alloc(n * sizeof(float)),
                     test_alloc(n * sizeof(int32_t)) },
        .sums = { test_alloc(n_sums * sizeof(float)), test_alloc(n_sums * sizeof(float)),
                  test_alloc(n_sums * sizeof(int32_t)), test_alloc(n_sums * head_size * sizeof(int32_t)) },
        .totals = { test_alloc(n * sizeof(float)), test_alloc(n * sizeof(float)),
                    test_alloc(n * head_size * sizeof(float)) },
        .out = test_alloc((n + 1) * head_size * sizeof(float)),
        .scratch = test_alloc(attention_fixture_scratch_bytes() + 64),
    };
    fill(fixture->q, n * head_size, 2);
    fill(fixture->k, n_places * head_size, 2);
    fill(fixture->v, n_places * head_size, 3);
    for (size_t d = 0; d < head_size; d++)
        fixture->balance[d] = ldexpf(1, (int)(draw() % 9) - 4);
    memset(fixture->reads, 0, n_rows * n_places);
    for (size_t i = 0; i < n_slots; i++)
        fixture->positions[i] = n_positions + i;
    /* The place of a block does not matter. The side block is the first one. */
    fixture->side = fixture->memory;
    for (size_t i = 0; i < n_parts; i++)
        fixture->blocks[i] =
            fixture->memory + (i % 2 ? i : n_parts - 1 - (n_parts - 1) % 2 - i) * 4 * plane_bytes + 4 * plane_bytes;
}

static inline void attention_fixture_deinit(AttentionFixture *fixture) {
    void *const all[] = {
        fixture->q,
        fixture->k,
        fixture->v,
        fixture->balance,
        fixture->reads,
        fixture->plain.key_scales,
        fixture->plain.value_scales,
        fixture->plain.keys,
        fixture->plain.values,
        fixture->expected_sums,
        fixture->expected_totals,
        fixture->expected,
        fixture->memory,
        (void *)fixture->blocks,
        fixture->queries.levels,
        fixture->queries.factors,
        fixture->queries.starts,
        fixture->sums.score_units,
        fixture->sums.value_units,
        fixture->sums.normalizers,
        fixture->sums.outputs,
        fixture->totals.units,
        fixture->totals.normalizers,
        fixture->totals.outputs,
        fixture->out,
        fixture->scratch,
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
}

/* Makes channels of keys heavy and the same channels of queries light, by the balance that evens them out again. */
static inline void attention_fixture_balance_keys(AttentionFixture *fixture) {
    const size_t head_size = fixture->head_size;

    fixture->is_balanced = true;
    for (size_t i = 0; i < fixture->n_places * head_size; i++)
        fixture->k[i] *= fixture->balance[i % head_size];
    for (size_t i = 0; i < fixture->n_row_heads * head_size; i++)
        fixture->q[i] /= fixture->balance[i % head_size];
}

/* Lets a row read positions [begin, end), all in place. */
static inline void attention_fixture_read(AttentionFixture *fixture, size_t row, size_t begin, size_t end) {
    assert_true(end <= fixture->n_positions);
    memset(fixture->reads + row * fixture->n_places + begin, true, end - begin);
}

/* Returns the logical position of a place. */
static inline size_t attention_fixture_position(const AttentionFixture *fixture, size_t place) {
    return place < fixture->n_positions ? place : fixture->positions[place - fixture->n_positions];
}

/* Returns the factor of AttentionOps.queries(). */
static inline float attention_fixture_factor(const AttentionFixture *fixture) {
    const float log2_e = 0x1.715476p0f;

    return fixture->soft_cap > 0 ? 2 * fixture->scale / fixture->soft_cap * log2_e : fixture->scale * log2_e;
}

static inline float attention_fixture_cap(const AttentionFixture *fixture) {
    return fixture->soft_cap * 0x1.715476p0f;
}

static inline const float *attention_fixture_balance(const AttentionFixture *fixture) {
    return fixture->is_balanced ? fixture->balance : NULL;
}

/* --- expected results --------------------------------------------------------------------------------------------- */

static inline void attention_fixture_expect_row_head(AttentionFixture *fixture, size_t at) {
    const bool *reads = fixture->reads + at / fixture->n_heads * fixture->n_places;
    const size_t head_size = fixture->head_size;
    PlainTotals *totals = &fixture->expected_totals[at];
    int8_t levels[PLAIN_HEAD_MAX];
    const float factor = plain_query(fixture->q + at * head_size, attention_fixture_balance(fixture), head_size,
                                     attention_fixture_factor(fixture), levels);

    plain_begin(totals);
    for (size_t block = 0; block < fixture->n_blocks; block++) {
        PlainSums *sums = &fixture->expected_sums[block * fixture->n_row_heads + at];
        const size_t end = MIN((block + 1) * ATTENTION_BLOCK, fixture->n_positions);
        size_t index[PLAIN_BLOCK], n = 0;

        for (size_t i = block * ATTENTION_BLOCK; i < end; i++)
            if (reads[i])
                index[n++] = i;
        for (size_t i = fixture->n_positions; i < fixture->n_places; i++)
            if (reads[i] && attention_fixture_position(fixture, i) / ATTENTION_BLOCK == block)
                index[n++] = i;
        assert_true(n <= PLAIN_BLOCK);
        sums->score_unit = -INFINITY;
        if (!n)
            continue;
        plain_block(levels, factor, attention_fixture_cap(fixture), &fixture->plain, index, n, sums);
        plain_add(totals, sums, head_size);
    }
    plain_end(totals, head_size, fixture->expected + at * head_size);
}

/* Computes what every build must give. */
static inline void attention_fixture_expect(AttentionFixture *fixture) {
    for (size_t i = 0; i < fixture->n_places; i++)
        plain_store(&fixture->plain, i, fixture->k + i * fixture->head_size, fixture->v + i * fixture->head_size,
                    attention_fixture_balance(fixture));
    for (size_t i = 0; i < fixture->n_row_heads; i++)
        attention_fixture_expect_row_head(fixture, i);
}

/* Writes a row-head's attention in double, of the numbers before they became levels. */
UNWATCHED static inline void attention_fixture_exact(const AttentionFixture *fixture, size_t at, double *out) {
    const size_t head_size = fixture->head_size;
    const bool *reads = fixture->reads + at / fixture->n_heads * fixture->n_places;
    double *scores = malloc(fixture->n_places * sizeof(*scores)), max = -INFINITY, total = 0;

    assert_non_null(scores);
    memset(out, 0, head_size * sizeof(*out));
    for (size_t i = 0; i < fixture->n_places; i++) {
        scores[i] = 0;
        for (size_t d = 0; d < head_size; d++)
            scores[i] += (double)fixture->q[at * head_size + d] * (double)fixture->k[i * head_size + d];
        scores[i] *= (double)fixture->scale;
        if (fixture->soft_cap > 0)
            scores[i] = (double)fixture->soft_cap * tanh(scores[i] / (double)fixture->soft_cap);
        max = reads[i] ? MAX(scores[i], max) : max;
    }
    for (size_t i = 0; i < fixture->n_places; i++)
        total += reads[i] ? exp(scores[i] - max) : 0;
    for (size_t i = 0; i < fixture->n_places; i++)
        for (size_t d = 0; reads[i] && d < head_size; d++)
            out[d] += exp(scores[i] - max) / total * (double)fixture->v[i * head_size + d];
    free(scores);
}

/* Checks that the expected outputs are near attention in double. room: greatest relative error of a row-head, as a
 * distance of vectors; attention_fixture_near() returns the one of all row-heads together. */
static inline double attention_fixture_near(const AttentionFixture *fixture, double room) {
    double errors = 0, squares = 0, exact[PLAIN_HEAD_MAX];

    for (size_t i = 0; i < fixture->n_row_heads; i++) {
        double error = 0, square = 0;

        attention_fixture_exact(fixture, i, exact);
        for (size_t d = 0; d < fixture->head_size; d++) {
            const double distance = (double)fixture->expected[i * fixture->head_size + d] - exact[d];

            error += distance * distance;
            square += exact[d] * exact[d];
        }
        if (!(error <= room * room * square))
            fail_msg("head of %zu, row-head %zu: relative error %.3g", fixture->head_size, i, sqrt(error / square));
        errors += error;
        squares += square;
    }
    return squares > 0 ? sqrt(errors / squares) : 0;
}

/* --- a build's results -------------------------------------------------------------------------------------------- */

static inline void fill_garbage(void *data, size_t len_bytes, Garbage garbage) {
    const uint32_t infinity = 0x7f800000;
    uint8_t *bytes = data;

    for (size_t i = 0; i + sizeof(infinity) <= len_bytes; i += sizeof(infinity)) {
        const uint32_t word = garbage == GARBAGE_NAN ? UINT32_MAX : garbage == GARBAGE_RANDOM ? draw() : infinity;

        memcpy(bytes + i, &word, sizeof(word));
    }
}

/* Stores keys and values: positions in calls of several sizes, slots in falling order. */
static inline void attention_fixture_store(AttentionFixture *fixture, const AttentionOps *ops, Garbage garbage) {
    const size_t head_size = fixture->head_size, plane_bytes = KV_BLOCK * kv_row_bytes(head_size);
    const KvHead kv = { fixture->blocks, plane_bytes, 3 * plane_bytes, head_size },
                 side = { &fixture->side, plane_bytes, 3 * plane_bytes, head_size };
    const float *balance = attention_fixture_balance(fixture);

    fill_garbage(fixture->memory, (fixture->n_parts + 1) * 4 * plane_bytes, garbage);
    for (size_t at = 0, n; at < fixture->n_positions; at += n) {
        n = at ? 1 + draw() % 100 : 1;
        n = MIN(fixture->n_positions - at, n);
        ops->store(&kv, at, fixture->k + at * head_size, fixture->v + at * head_size, balance, head_size, n);
    }
    for (size_t i = fixture->n_slots; i-- > 0;) {
        const size_t at = (fixture->n_positions + i) * head_size;

        ops->store(&side, i, fixture->k + at, fixture->v + at, balance, head_size, 1);
    }
}

/* Reads the levels of a position in place, of keys, then of values, and both scales. */
static inline void attention_fixture_stored(const AttentionFixture *fixture, const AttentionOps *ops, size_t position,
                                            int8_t *levels, float *scales) {
    const size_t head_size = fixture->head_size, plane_bytes = KV_BLOCK * kv_row_bytes(head_size),
                 at = position % KV_BLOCK;
    const KvHead kv = { fixture->blocks, plane_bytes, 3 * plane_bytes, head_size };
    const KvBlock block = kv_block_at(&kv, fixture->blocks[position / KV_BLOCK]);

    for (size_t d = 0; d < head_size; d++) {
        levels[d] = (int8_t)(block.keys[kv_key_offset(at, d) + d % 4] - ops->key_bias);
        levels[head_size + d] = block.values[kv_value_offset(head_size, at, d)];
    }
    scales[0] = block.key_scales[at];
    scales[1] = block.value_scales[at];
}

static inline void attention_fixture_queries(AttentionFixture *fixture, const AttentionOps *ops) {
    const size_t n = fixture->n_row_heads, first = n / 3;
    const float factor = attention_fixture_factor(fixture), *balance = attention_fixture_balance(fixture);

    fixture->queries.cap = attention_fixture_cap(fixture);
    ops->queries(&fixture->queries, first, fixture->q + first * fixture->head_size, n - first, balance, factor);
    ops->queries(&fixture->queries, 0, fixture->q, first, balance, factor);
}

/* Returns the positions of a cache block, or of the side block, that a row-head reads in a block. */
static inline uint64_t attention_fixture_mask(const AttentionFixture *fixture, size_t at, size_t block, size_t part) {
    const bool *reads = fixture->reads + at / fixture->n_heads * fixture->n_places;
    uint64_t mask = 0;

    for (size_t i = 0; i < KV_BLOCK; i++) {
        const size_t place = part == SIZE_MAX ? fixture->n_positions + i : part * KV_BLOCK + i,
                     end = part == SIZE_MAX ? fixture->n_places : fixture->n_positions;

        if (place < end && reads[place] && attention_fixture_position(fixture, place) / ATTENTION_BLOCK == block)
            mask |= UINT64_C(1) << i;
    }
    return mask;
}

/* Lists the parts of a block in random order; SIZE_MAX: the side block. Parts without a reader may be left out. */
static inline size_t attention_fixture_parts(const AttentionFixture *fixture, size_t first, size_t n, size_t block,
                                             size_t *index) {
    const size_t begin = block * (ATTENTION_BLOCK / KV_BLOCK),
                 end = MIN(begin + ATTENTION_BLOCK / KV_BLOCK, fixture->n_parts);
    size_t n_parts = 0;

    for (size_t i = 0; i < ATTENTION_PARTS_MAX; i++) {
        const bool is_side = i == ATTENTION_PARTS_MAX - 1;
        const size_t part = is_side ? SIZE_MAX : begin + i, at = draw() % (n_parts + 1);
        uint64_t all = 0;

        if (is_side ? !fixture->n_slots : part >= end)
            continue;
        for (size_t r = 0; r < n; r++)
            all |= attention_fixture_mask(fixture, first + r, block, part);
        if (!all && draw() % 2)
            continue;
        index[n_parts++] = index[at];
        index[at] = part;
    }
    return n_parts;
}

/* Returns the sums of a block from row-head `first` on. */
static inline AttentionSums attention_fixture_sums(const AttentionFixture *fixture, size_t block, size_t first) {
    const size_t at = block * (fixture->n_row_heads + 1) + first;
    const AttentionSums *sums = &fixture->sums;

    return (AttentionSums){ sums->score_units + at, sums->value_units + at, sums->normalizers + at,
                            sums->outputs + at * fixture->head_size };
}

static inline AttentionTotals attention_fixture_totals(const AttentionFixture *fixture, size_t first) {
    const AttentionTotals *totals = &fixture->totals;

    return (AttentionTotals){ totals->units + first, totals->normalizers + first,
                              totals->outputs + first * fixture->head_size };
}

/* Checks that the place behind the last row-head is untouched: all bits are set. */
static inline void check_untouched(const void *data, size_t len_bytes) {
    for (size_t i = 0; i < len_bytes; i++)
        assert_int_equal(((const uint8_t *)data)[i], 0xff);
}

/* Sums a block for row-heads [first, first + n). */
static inline void attention_fixture_block(AttentionFixture *fixture, const AttentionOps *ops, size_t block,
                                           size_t first, size_t n) {
    const size_t plane_bytes = KV_BLOCK * kv_row_bytes(fixture->head_size),
                 scratch_bytes = attention_scratch_bytes(ops->group);
    const KvHead kv = { fixture->blocks, plane_bytes, 3 * plane_bytes, fixture->head_size };
    const AttentionSums sums = attention_fixture_sums(fixture, block, first);
    size_t index[ATTENTION_PARTS_MAX];
    AttentionParts parts = { .n = attention_fixture_parts(fixture, first, n, block, index) };
    AttentionMask *masks = test_alloc(n * sizeof(*masks));
    bool is_whole = true;

    memset(masks, 0xff, n * sizeof(*masks));
    for (size_t p = 0; p < parts.n; p++) {
        parts.at[p] = kv_block_at(&kv, index[p] == SIZE_MAX ? fixture->side : fixture->blocks[index[p]]);
        for (size_t i = 0; i < n; i++) {
            masks[i][p] = attention_fixture_mask(fixture, first + i, block, index[p]);
            is_whole = is_whole && masks[i][p] == UINT64_MAX;
        }
    }
    /* Every other block says how many positions of its last part the masks may name. */
    if (parts.n && !is_whole && block % 2) {
        uint64_t any = 0;

        for (size_t i = 0; i < n; i++)
            any |= masks[i][parts.n - 1];
        for (parts.n_last = 16; parts.n_last < KV_BLOCK && any >> parts.n_last;)
            parts.n_last += 16;
    }
    memset(fixture->scratch, 0xff, scratch_bytes + 64);
    if (parts.n)
        ops->block(&fixture->queries, first, n, &parts, is_whole ? NULL : masks, fixture->scratch, &sums);
    else
        for (size_t i = 0; i < n; i++)
            sums.score_units[i] = -INFINITY;
    check_untouched(fixture->scratch + scratch_bytes, 64);
    check_untouched(sums.score_units + n, sizeof(float));
    check_untouched(sums.value_units + n, sizeof(float));
    check_untouched(sums.normalizers + n, sizeof(int32_t));
    check_untouched(sums.outputs + n * fixture->head_size, fixture->head_size * sizeof(int32_t));
    free(masks);
}

static inline void attention_fixture_fail(const AttentionFixture *fixture, const AttentionOps *ops, const char *what,
                                          size_t at, double actual, double expected) {
    fail_msg("%s, head of %zu, %zu heads, row %zu of %zu: %s is %a, expected %a", ops->name, fixture->head_size,
             fixture->n_heads, at / fixture->n_heads, fixture->n_rows, what, actual, expected);
}

static inline void attention_fixture_same(const AttentionFixture *fixture, const AttentionOps *ops, const char *what,
                                          size_t at, const float *actual, const float *expected, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!same_value(actual[i], expected[i]))
            attention_fixture_fail(fixture, ops, what, at, (double)actual[i], (double)expected[i]);
}

/* Compares units, whose zeros may have any sign. */
static inline void attention_fixture_same_unit(const AttentionFixture *fixture, const AttentionOps *ops,
                                               const char *what, size_t at, float actual, float expected) {
    attention_fixture_same(fixture, ops, what, at, &(float){ actual + 0.0f }, &(float){ expected + 0.0f }, 1);
}

/* Compares the sums of a row-head in one block. */
static inline void attention_fixture_check_sums(const AttentionFixture *fixture, const AttentionOps *ops, size_t block,
                                                size_t at) {
    const PlainSums *expected = &fixture->expected_sums[block * fixture->n_row_heads + at];
    const AttentionSums sums = attention_fixture_sums(fixture, block, at);

    attention_fixture_same_unit(fixture, ops, "score unit", at, *sums.score_units, expected->score_unit);
    if (expected->score_unit == -INFINITY)
        return;
    attention_fixture_same_unit(fixture, ops, "value unit", at, *sums.value_units, expected->value_unit);
    if (*sums.normalizers != expected->normalizer)
        attention_fixture_fail(fixture, ops, "normalizer", at, *sums.normalizers, expected->normalizer);
    for (size_t d = 0; d < fixture->head_size; d++)
        if (sums.outputs[d] != expected->outputs[d])
            attention_fixture_fail(fixture, ops, "sum of values", at, sums.outputs[d], expected->outputs[d]);
}

/* Attends in groups of `group` row-heads, blocks from the first or from the last one on. Totals are added in rising
 * order of blocks, in groups of other sizes. Stores no comparison: content may be anything. */
static inline void attention_fixture_run(AttentionFixture *fixture, const AttentionOps *ops, size_t group,
                                         bool is_backwards, Garbage garbage) {
    const size_t n = fixture->n_row_heads, head_size = fixture->head_size, n_sums = fixture->n_blocks * (n + 1);

    attention_fixture_store(fixture, ops, garbage);
    attention_fixture_queries(fixture, ops);
    memset(fixture->sums.score_units, 0xff, n_sums * sizeof(float));
    memset(fixture->sums.value_units, 0xff, n_sums * sizeof(float));
    memset(fixture->sums.normalizers, 0xff, n_sums * sizeof(int32_t));
    memset(fixture->sums.outputs, 0xff, n_sums * head_size * sizeof(int32_t));
    for (size_t i = 0; i < fixture->n_blocks; i++)
        for (size_t first = 0; first < n; first += group)
            attention_fixture_block(fixture, ops, is_backwards ? fixture->n_blocks - 1 - i : i, first,
                                    MIN(n - first, group));
    for (size_t i = 0; i < n; i++)
        fixture->totals.units[i] = -INFINITY;
    memset(fixture->totals.normalizers, 0, n * sizeof(float));
    memset(fixture->totals.outputs, 0, n * head_size * sizeof(float));
    memset(fixture->out, 0xff, (n + 1) * head_size * sizeof(float));
    for (size_t first = 0, some; first < n; first += some) {
        const AttentionTotals totals = attention_fixture_totals(fixture, first);

        some = 1 + draw() % (n - first);
        for (size_t block = 0; block < fixture->n_blocks; block++) {
            const AttentionSums sums = attention_fixture_sums(fixture, block, first);

            ops->add(&sums, some, head_size, &totals);
        }
        ops->end(&totals, some, head_size, fixture->out + first * head_size);
    }
    check_untouched(fixture->out + n * head_size, head_size * sizeof(float));
}

/* Attends and compares all sums, totals and outputs with the expected ones. */
static inline void attention_fixture_check(AttentionFixture *fixture, const AttentionOps *ops, size_t group,
                                           bool is_backwards, Garbage garbage) {
    const size_t n = fixture->n_row_heads, head_size = fixture->head_size;

    attention_fixture_run(fixture, ops, group, is_backwards, garbage);
    for (size_t i = 0; i < n; i++) {
        const PlainTotals *totals = &fixture->expected_totals[i];

        for (size_t block = 0; block < fixture->n_blocks; block++)
            attention_fixture_check_sums(fixture, ops, block, i);
        attention_fixture_same_unit(fixture, ops, "unit", i, fixture->totals.units[i], totals->unit);
        attention_fixture_same(fixture, ops, "sum of weights", i, &fixture->totals.normalizers[i], &totals->normalizer,
                               1);
        attention_fixture_same(fixture, ops, "total", i, fixture->totals.outputs + i * head_size, totals->outputs,
                               head_size);
        attention_fixture_same(fixture, ops, "output", i, fixture->out + i * head_size,
                               fixture->expected + i * head_size, head_size);
    }
}

#endif
