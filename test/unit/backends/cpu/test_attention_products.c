// SPDX-License-Identifier: Apache-2.0
/* Tests that the integer products of every build of attention equal plain loops: head sizes, numbers of row-heads and
 * of parts, extreme levels and weights. Positions that nobody reads have any bytes, and guards surround the outputs.
 * What is fetched for the next call changes no bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/attention/attention.h"
#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/system/cpu.h"

enum {
    ROWS_MAX = 96,
    COLUMNS = ATTENTION_PARTS_MAX * KV_BLOCK,
    WEIGHT_TOP = 32639,
    WEIGHTS_STRIDE = ATTENTION_PARTS_MAX * KV_BLOCK * 2,
    SUMS_STRIDE = COLUMNS + 16,
    GUARD = 32 /* numbers behind the outputs */
};

static const int32_t guard = 0x5a5a5a5a;
static const size_t head_sizes[] = { 16, 32, 48, 64, 80, 96, 112, 128, 144, 256, 512, 1024 };

static uint64_t seed;

static uint32_t draw(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

typedef enum Fill {
    FILL_RANDOM,
    FILL_SAME,
    FILL_OPPOSED,
    FILL_RANDOM_EXTREME,
    _FILL_N
} Fill;

static int8_t draw_level(Fill fill, bool is_query) {
    switch (fill) {
    case FILL_SAME:
        return 127;
    case FILL_OPPOSED:
        return is_query ? 127 : -127;
    case FILL_RANDOM_EXTREME:
        return draw() & 1 ? 127 : -127;
    default:
        return (int8_t)((int)(draw() % 255) - 127);
    }
}

static int32_t draw_weight(Fill fill) {
    switch (fill) {
    case FILL_RANDOM:
        return (int32_t)(draw() % (WEIGHT_TOP + 1));
    case FILL_RANDOM_EXTREME:
        return draw() & 1 ? WEIGHT_TOP : (int32_t)(draw() % 2) * 255;
    default:
        return WEIGHT_TOP;
    }
}

static void *alloc(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);

    assert_non_null(memory);
    return memory;
}

static void fill_guarded(int32_t *numbers, size_t n) {
    for (size_t i = 0; i < n; i++)
        numbers[i] = guard;
}

static void expect(const AttentionOps *ops, const char *what, size_t head_size, size_t n, size_t row, size_t at,
                   int32_t got, int32_t wanted) {
    if (got != wanted)
        fail_msg("%s %s: head size %zu, %zu row-heads: [%zu][%zu] is %d, not %d", ops->name, what, head_size, n, row,
                 at, got, wanted);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

typedef struct KeysCase {
    int8_t levels[ROWS_MAX][1024];
    int8_t keys[KV_BLOCK][1024];
    bool is_read[KV_BLOCK];
    int32_t sums[ROWS_MAX][KV_BLOCK];
} KeysCase;

static void make_keys(KeysCase *c, size_t head_size, Fill fill, size_t n_rows) {
    for (size_t i = 0; i < n_rows; i++)
        for (size_t d = 0; d < head_size; d++)
            c->levels[i][d] = draw_level(fill, true);
    for (size_t j = 0; j < KV_BLOCK; j++) {
        c->is_read[j] = draw() % 4;
        for (size_t d = 0; d < head_size; d++)
            c->keys[j][d] = draw_level(fill, false);
        for (size_t i = 0; i < n_rows; i++) {
            c->sums[i][j] = 0;
            for (size_t d = 0; d < head_size; d++)
                c->sums[i][j] += c->levels[i][d] * c->keys[j][d];
        }
    }
}

static void check_keys(const AttentionOps *ops, const KeysCase *c, size_t head_size, size_t n) {
    const size_t levels_bytes = attention_levels_bytes(head_size), n_sums = ROWS_MAX * SUMS_STRIDE;
    _cleanup_(freep) int8_t *levels = alloc(n * levels_bytes);
    _cleanup_(freep) uint8_t *keys = alloc(KV_BLOCK * head_size);
    _cleanup_(freep) int32_t *sums = alloc(n_sums * sizeof(*sums));
    int32_t starts[ROWS_MAX];

    memset(levels, 0, n * levels_bytes);
    for (size_t i = 0; i < n; i++) {
        memcpy(levels + i * levels_bytes, c->levels[i], head_size);
        starts[i] = 0;
        for (size_t d = 0; d < head_size; d++)
            starts[i] -= ops->key_bias * c->levels[i][d];
    }
    for (size_t j = 0; j < KV_BLOCK; j++)
        for (size_t d = 0; d < head_size; d++)
            keys[kv_key_offset(j, d) + d % 4] =
                (uint8_t)(c->is_read[j] ? (uint8_t)c->keys[j][d] + ops->key_bias : draw());
    fill_guarded(sums, n_sums);
    ops->products_of_keys(levels, levels_bytes, starts, n, keys, head_size, sums, SUMS_STRIDE);
    for (size_t i = 0; i < ROWS_MAX; i++)
        for (size_t j = 0; j < SUMS_STRIDE; j++)
            if (i >= n || j >= KV_BLOCK)
                expect(ops, "guard of scores", head_size, n, i, j, sums[i * SUMS_STRIDE + j], guard);
            else if (c->is_read[j])
                expect(ops, "scores", head_size, n, i, j, sums[i * SUMS_STRIDE + j], c->sums[i][j]);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

typedef struct ValuesCase {
    int32_t weights[ROWS_MAX][COLUMNS];
    int8_t values[COLUMNS][1024];
    int32_t outputs[ATTENTION_PARTS_MAX][ROWS_MAX][1024]; /* sums over the parts up to this one */
} ValuesCase;

static void make_values(ValuesCase *c, size_t head_size, Fill fill, size_t n_rows) {
    for (size_t j = 0; j < COLUMNS; j++) {
        const bool is_read = draw() % 4;

        for (size_t d = 0; d < head_size; d++)
            c->values[j][d] = is_read ? draw_level(fill, false) : (int8_t)draw();
        for (size_t i = 0; i < n_rows; i++)
            c->weights[i][j] = is_read ? draw_weight(fill) : 0;
    }
    for (size_t part = 0; part < ATTENTION_PARTS_MAX; part++)
        for (size_t i = 0; i < n_rows; i++)
            for (size_t d = 0; d < head_size; d++) {
                int32_t sum = part ? c->outputs[part - 1][i][d] : 0;

                for (size_t j = part * KV_BLOCK; j < (part + 1) * KV_BLOCK; j++)
                    sum += c->weights[i][j] * c->values[j][d];
                c->outputs[part][i][d] = sum;
            }
}

static void check_values(const AttentionOps *ops, const ValuesCase *c, size_t head_size, size_t n, size_t n_parts) {
    const size_t n_outputs = n * head_size + GUARD;
    _cleanup_(freep) uint8_t *weights = alloc(n * WEIGHTS_STRIDE);
    _cleanup_(freep) int32_t *outputs = alloc(n_outputs * sizeof(*outputs));
    const int8_t *values[ATTENTION_PARTS_MAX];
    int8_t *parts[ATTENTION_PARTS_MAX];

    memset(weights, 0xa5, n * WEIGHTS_STRIDE);
    for (size_t part = 0; part < n_parts; part++) {
        values[part] = parts[part] = alloc(KV_BLOCK * head_size);
        for (size_t j = 0; j < KV_BLOCK; j++)
            for (size_t d = 0; d < head_size; d++)
                parts[part][kv_value_offset(head_size, j, d)] = c->values[part * KV_BLOCK + j][d];
    }
    for (size_t i = 0; i < n; i++)
        ops->store_weights(c->weights[i], n_parts * KV_BLOCK, weights + i * WEIGHTS_STRIDE);
    fill_guarded(outputs, n_outputs);
    ops->products_of_values(weights, WEIGHTS_STRIDE, n, values, n_parts, head_size, outputs);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < head_size; d++)
            expect(ops, "outputs", head_size, n, i, d, outputs[i * head_size + d], c->outputs[n_parts - 1][i][d]);
    for (size_t at = n * head_size; at < n_outputs; at++)
        expect(ops, "guard of outputs", head_size, n, n, at, outputs[at], guard);
    for (size_t part = 0; part < n_parts; part++)
        free(parts[part]);
}

/* --- all builds --------------------------------------------------------------------------------------------------- */

/* Calls the check for each build that this machine runs. */
#define EACH_BUILD(ops)                                                                                                \
    for (size_t build = 0; build < attention_n_ops(); build++)                                                         \
        for (const AttentionOps *ops = attention_ops_at(build); ops && !(ops->need & ~cpu_features()); ops = NULL)

static void test_attention_products_keys(void **state) {
    KeysCase *c = alloc(sizeof(*c));

    for (size_t h = 0; h < ARRAY_LEN(head_sizes); h++)
        for (Fill fill = 0; fill < _FILL_N; fill++) {
            make_keys(c, head_sizes[h], fill, ROWS_MAX);
            EACH_BUILD (ops)
                for (size_t n = 1; n <= ops->group; n++)
                    check_keys(ops, c, head_sizes[h], n);
        }
    free(c);
}

static void test_attention_products_values(void **state) {
    ValuesCase *c = alloc(sizeof(*c));

    for (size_t h = 0; h < ARRAY_LEN(head_sizes); h++)
        for (Fill fill = 0; fill < _FILL_N; fill++) {
            const size_t n_parts = 1 + (h + fill) % ATTENTION_PARTS_MAX;

            make_values(c, head_sizes[h], fill, ROWS_MAX);
            EACH_BUILD (ops) {
                for (size_t n = 1; n <= ops->group; n += n < 16 ? 1 : 16)
                    check_values(ops, c, head_sizes[h], n, n_parts);
                for (size_t parts = 1; parts <= ATTENTION_PARTS_MAX; parts++)
                    check_values(ops, c, head_sizes[h], 1 + draw() % ops->group, parts);
            }
        }
    free(c);
}

/* Sums a block of n_parts for n row-heads while the next call's n_next parts are fetched. */
static void sum_parts(const AttentionOps *ops, const AttentionQueries *queries, size_t n, const KvHead *kv,
                      size_t n_parts, size_t n_next, int32_t *outputs, int32_t *normalizers) {
    _cleanup_(freep) void *scratch = alloc(attention_scratch_bytes(ops->group));
    float score_units[ROWS_MAX], value_units[ROWS_MAX];
    const AttentionSums sums = { score_units, value_units, normalizers, outputs };
    AttentionParts parts = { .n = n_parts, .n_next = n_next };

    for (size_t part = 0; part < n_parts; part++)
        parts.at[part] = kv_block_at(kv, kv->blocks[part]);
    for (size_t part = 0; part < n_next; part++)
        parts.next[part] = kv_block_at(kv, kv->blocks[ATTENTION_PARTS_MAX + part]);
    ops->block(queries, 0, n, &parts, NULL, scratch, &sums);
}

static void check_fetch(const AttentionOps *ops, size_t head_size, size_t n) {
    const size_t plane_bytes = KV_BLOCK * kv_row_bytes(head_size), levels_bytes = attention_levels_bytes(head_size);
    _cleanup_(freep) int8_t *levels = alloc(n * levels_bytes);
    _cleanup_(freep) int32_t *outputs = alloc(n * head_size * sizeof(*outputs)),
                             *wanted = alloc(n * head_size * sizeof(*wanted));
    int32_t starts[ROWS_MAX], normalizers[ROWS_MAX], wanted_normalizers[ROWS_MAX];
    float factors[ROWS_MAX];
    const AttentionQueries queries = { head_size, 0, levels, factors, starts };
    void *blocks[2 * ATTENTION_PARTS_MAX];
    const KvHead kv = { blocks, 0, plane_bytes, head_size };

    for (size_t block = 0; block < ARRAY_LEN(blocks); block++) {
        uint8_t *bytes = blocks[block] = alloc(2 * plane_bytes);

        for (size_t i = 0; i < 2 * plane_bytes; i++) /* as scales, these are 2^-15 to 1 */
            bytes[i] = (uint8_t)(0x38 + draw() % 7);
    }
    memset(levels, 0, n * levels_bytes);
    for (size_t i = 0; i < n; i++) {
        for (size_t d = 0; d < head_size; d++)
            levels[i * levels_bytes + d] = draw_level(FILL_RANDOM, true);
        starts[i] = (int32_t)(draw() % 1000);
        factors[i] = 1e-4f;
    }
    for (size_t n_parts = 1; n_parts <= ATTENTION_PARTS_MAX; n_parts++) {
        sum_parts(ops, &queries, n, &kv, n_parts, 0, wanted, wanted_normalizers);
        for (size_t n_next = 1; n_next <= ATTENTION_PARTS_MAX; n_next += 2) {
            sum_parts(ops, &queries, n, &kv, n_parts, n_next, outputs, normalizers);
            assert_memory_equal(outputs, wanted, n * head_size * sizeof(*outputs));
            assert_memory_equal(normalizers, wanted_normalizers, n * sizeof(*normalizers));
        }
    }
    for (size_t block = 0; block < ARRAY_LEN(blocks); block++)
        free(blocks[block]);
}

static void test_attention_products_fetch(void **state) {
    EACH_BUILD (ops)
        for (size_t n = 1; n <= ops->group; n += n < 9 ? 1 : 7) {
            check_fetch(ops, 64, n);
            check_fetch(ops, 80, n);
            check_fetch(ops, 144, n);
        }
}

static void test_attention_products_builds(void **state) {
    EACH_BUILD (ops) {
        assert_in_range(ops->group, 1, ROWS_MAX);
        printf("%s: %zu row-heads at once\n", ops->name, ops->group);
    }
}

int main(void) {
    const char *env = getenv("TEST_SEED");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_products_builds),
        cmocka_unit_test(test_attention_products_keys),
        cmocka_unit_test(test_attention_products_values),
        cmocka_unit_test(test_attention_products_fetch),
    };

    seed = env ? strtoull(env, NULL, 10) : 47;
    printf("seed %llu (TEST_SEED sets another)\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
