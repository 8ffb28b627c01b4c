// SPDX-License-Identifier: Apache-2.0
/* Tests that AMX attention gives the bits of plain loops and of the scalar build. The kernel's source is compiled for a
 * portable model of the tile instructions, which checks shapes and the bounds of every access. The real build is tested
 * likewise if the machine has AMX; elsewhere with VNNI, its way for few row-heads is. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/system/cpu.h"
#include "test/unit/backends/cpu/attention_amx_model.h"

enum {
    FEW = 3,     /* row-heads that need no tiles */
    N_MAX = 128, /* row-heads, at least a group */
    GUARD = 16,
    WEIGHT_TOP = 32639
};

/* Every number of channels in the last tile, none to some whole tiles before it. */
static const size_t head_sizes[] = { 16, 32, 48, 64, 80, 96, 112, 128, 176, 208, 256, 1024 };

static uint64_t seed;

static uint32_t draw(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

static void *aligned(size_t n_bytes) {
    void *p = aligned_alloc(64, (n_bytes + 63) / 64 * 64);

    assert_non_null(p);
    return p;
}

/* Levels within +-127, often extreme. */
static int8_t draw_level(void) {
    const uint32_t kind = draw() % 4;

    return kind == 0 ? 127 : kind == 1 ? -127 : (int8_t)((int)(draw() % 255) - 127);
}

/* --- builds ------------------------------------------------------------------------------------------------------- */

static const AttentionOps *real_build(void) {
    for (size_t i = 0; i < attention_n_ops(); i++)
        if (!strcmp(attention_ops_at(i)->name, "attention__amx"))
            return attention_ops_at(i);
    return NULL;
}

/* Returns the row-heads up to which the machine can run a build. */
static size_t n_max_of(const AttentionOps *ops) {
    if (!(ops->need & ~cpu_features()))
        return ops->group;
    return !(ops->need & ~CPU_AMX_INT8 & ~cpu_features()) ? FEW : 0;
}

/* --- products ----------------------------------------------------------------------------------------------------- */

static void check_keys(const AttentionOps *ops, size_t head_size, size_t n) {
    const size_t levels_bytes = attention_levels_bytes(head_size), stride = KV_BLOCK + GUARD;
    _cleanup_(freep) int8_t *levels = aligned(n * levels_bytes);
    _cleanup_(freep) uint8_t *keys = aligned(KV_BLOCK * head_size);
    _cleanup_(freep) int32_t *sums = aligned(n * stride * sizeof(*sums));
    int32_t starts[N_MAX] = { 0 };

    for (size_t i = 0; i < n * stride; i++)
        sums[i] = 0x5a5a5a5a;
    memset(levels, 0, n * levels_bytes);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < head_size; d++) {
            levels[i * levels_bytes + d] = draw_level();
            starts[i] -= ops->key_bias * levels[i * levels_bytes + d];
        }
    for (size_t i = 0; i < KV_BLOCK * head_size; i++)
        keys[i] = (uint8_t)(draw_level() + ops->key_bias);
    attention_amx_model_allow(levels, n * levels_bytes, false);
    attention_amx_model_allow(keys, KV_BLOCK * head_size, false);
    attention_amx_model_allow(sums, n * stride * sizeof(*sums), true);
    ops->products_of_keys(levels, levels_bytes, starts, n, keys, head_size, sums, stride);
    attention_amx_model_allow_all();
    assert_false(attention_amx_model_in_use());
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < KV_BLOCK; j++) {
            int32_t sum = 0;

            for (size_t d = 0; d < head_size; d++)
                sum += levels[i * levels_bytes + d] * (keys[kv_key_offset(j, d / 4 * 4) + d % 4] - ops->key_bias);
            assert_int_equal(sums[i * stride + j], sum);
        }
        for (size_t j = KV_BLOCK; j < stride; j++)
            assert_int_equal(sums[i * stride + j], 0x5a5a5a5a);
    }
}

static void check_values(const AttentionOps *ops, size_t head_size, size_t n, size_t n_parts) {
    const size_t part_bytes = 2 * KV_BLOCK, stride_bytes = ATTENTION_PARTS_MAX * part_bytes,
                 n_positions = n_parts * KV_BLOCK;
    _cleanup_(freep) int32_t *w = aligned(n * n_positions * sizeof(*w));
    _cleanup_(freep) int32_t *outputs = aligned((n * head_size + GUARD) * sizeof(*outputs));
    _cleanup_(freep) uint8_t *weights = aligned(n * stride_bytes);
    _cleanup_(freep) int8_t *values = aligned(n_positions * head_size);
    const int8_t *parts[ATTENTION_PARTS_MAX];

    for (size_t i = 0; i < n * n_positions; i++)
        w[i] = draw() % 4 ? (int32_t)(draw() % (WEIGHT_TOP + 1)) : WEIGHT_TOP;
    memset(weights, 0xff, n * stride_bytes);
    for (size_t i = 0; i < n; i++)
        ops->store_weights(w + i * n_positions, n_positions, weights + i * stride_bytes);
    for (size_t i = 0; i < n_positions * head_size; i++)
        values[i] = draw_level();
    for (size_t part = 0; part < n_parts; part++)
        parts[part] = values + (n_parts - 1 - part) * KV_BLOCK * head_size;
    for (size_t i = 0; i < n * head_size + GUARD; i++)
        outputs[i] = 0x5a5a5a5a;
    attention_amx_model_allow(weights, n * stride_bytes, false);
    attention_amx_model_allow(values, n_positions * head_size, false);
    ops->products_of_values(weights, stride_bytes, n, parts, n_parts, head_size, outputs);
    attention_amx_model_allow_all();
    assert_false(attention_amx_model_in_use());
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < head_size; d++) {
            int64_t sum = 0;

            for (size_t j = 0; j < n_positions; j++)
                sum +=
                    (int64_t)w[i * n_positions + j] * parts[j / KV_BLOCK][kv_value_offset(head_size, j % KV_BLOCK, d)];
            assert_int_equal(outputs[i * head_size + d], sum);
        }
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(outputs[n * head_size + i], 0x5a5a5a5a);
}

/* Returns the next number of row-heads: all up to 17, then some. */
static size_t n_after(size_t n) {
    return n < 17 ? n + 1 : n + 15;
}

static void check_products(const AttentionOps *ops) {
    const size_t n_max = n_max_of(ops);

    assert_in_range(n_max, FEW, N_MAX);
    for (size_t h = 0; h < ARRAY_LEN(head_sizes); h++)
        for (size_t n = 1; n <= n_max; n = n_after(n)) {
            if (head_sizes[h] == 1024 && n > 17)
                break;
            check_keys(ops, head_sizes[h], n);
            check_values(ops, head_sizes[h], n, 1 + (n + h) % ATTENTION_PARTS_MAX);
        }
    for (size_t n_parts = 1; n_parts <= ATTENTION_PARTS_MAX; n_parts++)
        for (size_t n = 1; n <= MIN(n_max, 16); n += 5)
            check_values(ops, 80, n, n_parts);
}

static void test_attention_amx_products(void **state) {
    seed = 1;
    check_products(&attention_amx_model);
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* Keys, values and queries in the form of one build. */
typedef struct Side {
    const AttentionOps *ops;
    void *blocks[ATTENTION_PARTS_MAX];
    KvHead kv;
    AttentionQueries queries;
    AttentionParts parts;
    AttentionSums sums;
    void *scratch;
} Side;

static void side_init(Side *side, const AttentionOps *ops, size_t head_size, size_t n_rows, size_t n_parts,
                      const float *kv, size_t n_positions, const float *q, float cap) {
    const size_t head_bytes = KV_BLOCK * kv_row_bytes(head_size);

    *side = (Side){ .ops = ops, .queries = { .head_size = head_size, .cap = cap } };
    side->kv = (KvHead){ side->blocks, 0, head_bytes, head_size };
    for (size_t part = 0; part < n_parts; part++) {
        side->blocks[part] = aligned(2 * head_bytes);
        memset(side->blocks[part], 0xff, 2 * head_bytes); /* scales that nobody writes are NaN */
    }
    ops->store(&side->kv, 0, kv, kv + n_positions * head_size, NULL, head_size, n_positions);
    side->queries.levels = aligned(n_rows * attention_levels_bytes(head_size));
    side->queries.factors = aligned(n_rows * sizeof(float));
    side->queries.starts = aligned(n_rows * sizeof(int32_t));
    ops->queries(&side->queries, 0, q, n_rows, NULL, 0.3f);
    side->parts.n = n_parts;
    for (size_t part = 0; part < n_parts; part++) /* in falling order */
        side->parts.at[part] = kv_block_at(&side->kv, side->blocks[n_parts - 1 - part]);
    side->sums.score_units = aligned(n_rows * sizeof(float));
    side->sums.value_units = aligned(n_rows * sizeof(float));
    side->sums.normalizers = aligned(n_rows * sizeof(int32_t));
    side->sums.outputs = aligned(n_rows * head_size * sizeof(int32_t));
    side->scratch = aligned(attention_scratch_bytes(ops->group));
    memset(side->scratch, 0xff, attention_scratch_bytes(ops->group));
}

static void side_deinit(Side *side) {
    for (size_t part = 0; part < side->parts.n; part++)
        free(side->blocks[part]);
    free(side->queries.levels);
    free(side->queries.factors);
    free(side->queries.starts);
    free(side->sums.score_units);
    free(side->sums.value_units);
    free(side->sums.normalizers);
    free(side->sums.outputs);
    free(side->scratch);
}

/* Allows what a block's products may touch. */
static void side_allow(const Side *side, size_t n_rows) {
    const size_t head_size = side->queries.head_size;

    attention_amx_model_allow(side->queries.levels, n_rows * attention_levels_bytes(head_size), false);
    attention_amx_model_allow(side->scratch, attention_scratch_bytes(side->ops->group), true);
    for (size_t part = 0; part < side->parts.n; part++) {
        attention_amx_model_allow(side->parts.at[part].keys, KV_BLOCK * head_size, false);
        attention_amx_model_allow(side->parts.at[part].values, KV_BLOCK * head_size, false);
    }
}

/* Calls a build in groups of n row-heads. */
static void side_sum(const Side *side, size_t n_rows, size_t n, const AttentionMask *masks) {
    const size_t head_size = side->queries.head_size;

    for (size_t first = 0; first < n_rows; first += n) {
        const AttentionSums sums = { side->sums.score_units + first, side->sums.value_units + first,
                                     side->sums.normalizers + first, side->sums.outputs + first * head_size };

        side->ops->block(&side->queries, first, MIN(n, n_rows - first), &side->parts, masks ? masks + first : NULL,
                         side->scratch, &sums);
        assert_false(attention_amx_model_in_use());
    }
}

static void draw_masks(AttentionMask *masks, size_t n, size_t n_parts, size_t n_unwritten) {
    const uint64_t written = UINT64_MAX >> n_unwritten; /* of the last positions, which part 0 has */

    for (size_t i = 0; i < n; i++)
        for (size_t part = 0; part < n_parts; part++) {
            const uint32_t kind = draw() % 4;

            masks[i][part] = kind == 0   ? 0
                             : kind == 1 ? UINT64_MAX
                                         : (uint64_t)draw() << 33 ^ (uint64_t)draw() << 11 ^ draw();
            if (!part)
                masks[i][part] &= written;
        }
}

static void check_block(const AttentionOps *ops, size_t head_size, size_t n, size_t n_parts, bool is_masked,
                        float cap) {
    const size_t n_unwritten = is_masked ? draw() % KV_BLOCK : 0, n_positions = n_parts * KV_BLOCK - n_unwritten;
    _cleanup_(freep) float *kv = aligned(2 * n_positions * head_size * sizeof(*kv)),
                           *q = aligned(n * head_size * sizeof(*q));
    AttentionMask masks[N_MAX];
    Side expected, actual;

    for (size_t i = 0; i < 2 * n_positions * head_size; i++)
        kv[i] = ((float)(draw() % 2001) - 1000) * 1e-3f * (float)(1 + i / head_size % 7);
    for (size_t i = 0; i < n * head_size; i++)
        q[i] = ((float)(draw() % 2001) - 1000) * 1e-3f;
    draw_masks(masks, n, n_parts, n_unwritten);
    side_init(&expected, attention_ops_at(attention_n_ops() - 1), head_size, n, n_parts, kv, n_positions, q, cap);
    side_init(&actual, ops, head_size, n, n_parts, kv, n_positions, q, cap);
    side_sum(&expected, n, expected.ops->group, is_masked ? (const AttentionMask *)masks : NULL);
    side_allow(&actual, n);
    side_sum(&actual, n, ops->group, is_masked ? (const AttentionMask *)masks : NULL);
    attention_amx_model_allow_all();
    assert_memory_equal(actual.sums.score_units, expected.sums.score_units, n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        if (expected.sums.score_units[i] == -INFINITY)
            continue;
        assert_memory_equal(&actual.sums.value_units[i], &expected.sums.value_units[i], sizeof(float));
        assert_int_equal(actual.sums.normalizers[i], expected.sums.normalizers[i]);
        assert_memory_equal(actual.sums.outputs + i * head_size, expected.sums.outputs + i * head_size,
                            head_size * sizeof(int32_t));
    }
    side_deinit(&expected);
    side_deinit(&actual);
}

static void check_blocks(const AttentionOps *ops) {
    const size_t n_max = n_max_of(ops);

    for (size_t h = 0; h + 1 < ARRAY_LEN(head_sizes); h++)
        for (size_t n_parts = 1; n_parts <= ATTENTION_PARTS_MAX; n_parts += 1 + h % 2)
            for (size_t n = 1; n <= n_max; n += 1 + draw() % 13)
                check_block(ops, head_sizes[h], n, n_parts, draw() % 2, draw() % 3 ? 0 : 20);
    for (size_t n = 1; n <= n_max; n++) /* every height of a step */
        check_block(ops, 48, n, 2, true, 0);
}

static void test_attention_amx_blocks(void **state) {
    seed = 2;
    check_blocks(&attention_amx_model);
}

/* --- the build for the machine ------------------------------------------------------------------------------------ */

static void test_attention_amx_real(void **state) {
    const AttentionOps *ops = real_build();

    if (!ops || !n_max_of(ops))
        skip();
    seed = 3;
    check_products(ops);
    check_blocks(ops);
}

static void test_attention_amx_is_chosen(void **state) {
    const AttentionOps *ops = real_build();

    for (size_t i = 0; i < attention_n_ops(); i++)
        assert_ptr_not_equal(attention_ops_at(i), &attention_amx_model);
    if (ops) {
        assert_ptr_equal(attention_select(CPU_ALL), ops);
        assert_ptr_not_equal(attention_select(CPU_ALL & ~CPU_AMX_INT8), ops);
        assert_int_equal(ops->group, attention_amx_model.group);
        assert_int_equal(ops->key_bias, attention_amx_model.key_bias);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_amx_products),
        cmocka_unit_test(test_attention_amx_blocks),
        cmocka_unit_test(test_attention_amx_real),
        cmocka_unit_test(test_attention_amx_is_chosen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
