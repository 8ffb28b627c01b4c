// SPDX-License-Identifier: Apache-2.0
/* Tests of the layout of int8 matrices in tiles, byte by byte against its definition, with sums and the search for
 * -128. Sizes are around units, tiles and the runs in which rows are summed. Laying out block by block gives the bytes
 * of a single call. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/int8/int8_product.h"
#include "base/cleanup.h"
#include "base/min_max.h"
#include "test/unit/fixtures/model_maker.h"

typedef struct Case {
    size_t n, k, n_blocks, k_tiles;
    int8_t *w, *tiles;
    int32_t *sums;
} Case;

static void *filled(size_t len_bytes) {
    void *memory = malloc(len_bytes);

    assert_non_null(memory);
    return memset(memory, 0x5a, len_bytes);
}

/* value: of all weights; 0: random in -127..127. */
static void case_init(Case *c, size_t n, size_t k, int value) {
    uint64_t seed = n * 1000 + k;

    *c = (Case){ .n = n, .k = k, .n_blocks = int8_blocks_for(n), .k_tiles = int8_tiles_for(k) };
    c->w = filled(n * k);
    c->tiles = filled(c->n_blocks * c->k_tiles * INT8_TILE_BYTES);
    c->sums = filled(c->n_blocks * INT8_TILE_OUTPUTS * sizeof(int32_t));
    for (size_t i = 0; i < n * k; i++)
        c->w[i] = (int8_t)(value ? value : (int)(test_random(&seed) % 255) - 127);
}

static void case_deinit(Case *c) {
    free(c->w);
    free(c->tiles);
    free(c->sums);
}

static void assert_laid_out(const Case *c) {
    for (size_t o = 0; o < c->n_blocks * INT8_TILE_OUTPUTS; o++) {
        int32_t sum = 0;

        for (size_t i = 0; i < c->k_tiles * INT8_TILE_INPUTS; i++) {
            const size_t at = (o / 16 * c->k_tiles + i / 64) * INT8_TILE_BYTES + i % 64 / 4 * 64 + o % 16 * 4 + i % 4;
            const int expected = o < c->n && i < c->k ? c->w[o * c->k + i] : 0;

            sum += expected;
            if (c->tiles[at] != expected)
                fail_msg("%zu x %zu: output %zu, input %zu is %d, not %d", c->n, c->k, o, i, c->tiles[at], expected);
        }
        if (c->sums[o] != sum)
            fail_msg("%zu x %zu: the sum of output %zu is %d, not %d", c->n, c->k, o, c->sums[o], sum);
    }
}

static void test_int8_layout_sizes(void **state) {
    static const size_t ns[] = { 1, 3, 4, 5, 15, 16, 17, 31, 32, 50 };
    static const size_t ks[] = { 1, 4, 15, 16, 17, 63, 64, 65, 96, 128, 576, 2047, 2048, 2049, 2064, 4865 };

    for (size_t i = 0; i < ARRAY_LEN(ns); i++)
        for (size_t j = 0; j < ARRAY_LEN(ks); j++) {
            Case c;

            case_init(&c, ns[i], ks[j], 0);
            assert_false(int8_weights_layout(c.w, c.n, c.k, 0, c.n_blocks, c.tiles, c.sums));
            assert_laid_out(&c);
            case_deinit(&c);
        }
}

/* Values with which lanes would overflow first. -128 is refused by the caller, but exact here. */
static void test_int8_layout_extremes(void **state) {
    static const int values[] = { -128, -127, 127 };

    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        Case c;

        case_init(&c, 17, 20000, values[i]);
        assert_int_equal(int8_weights_layout(c.w, c.n, c.k, 0, c.n_blocks, c.tiles, c.sums), values[i] == -128);
        assert_laid_out(&c);
        case_deinit(&c);
    }
}

/* A single -128 in every place. */
static void test_int8_layout_below_range(void **state) {
    static const size_t ks[] = { 37, 64, 2070 };

    for (size_t j = 0; j < ARRAY_LEN(ks); j++) {
        Case c;

        case_init(&c, 22, ks[j], 0);
        for (size_t i = 0; i < c.n * c.k; i += j == 2 ? 61 : 1) {
            const int8_t held = c.w[i];

            c.w[i] = -128;
            assert_true(int8_weights_layout(c.w, c.n, c.k, 0, c.n_blocks, c.tiles, c.sums));
            c.w[i] = held;
        }
        assert_false(int8_weights_layout(c.w, c.n, c.k, 0, c.n_blocks, c.tiles, c.sums));
        case_deinit(&c);
    }
}

/* Lays out each block from a copy of its rows only (sanitizers detect other reads), in falling order. */
static void test_int8_layout_block_by_block(void **state) {
    Case c;

    case_init(&c, 70, 100, 0);
    for (size_t block = c.n_blocks; block-- > 0;) {
        const size_t left = c.n - block * 16, n_rows = MIN(left, 16);
        _cleanup_(freep) int8_t *rows = filled(n_rows * c.k);

        memcpy(rows, c.w + block * 16 * c.k, n_rows * c.k);
        assert_false(int8_weights_layout(rows, c.n, c.k, block, block + 1, c.tiles, c.sums));
    }
    assert_laid_out(&c);
    case_deinit(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int8_layout_sizes),
        cmocka_unit_test(test_int8_layout_extremes),
        cmocka_unit_test(test_int8_layout_below_range),
        cmocka_unit_test(test_int8_layout_block_by_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
