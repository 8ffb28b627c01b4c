// SPDX-License-Identifier: Apache-2.0
/* Tests of packed weights that become int8 tiles: tiles and sums equal the matrix's, for every width and grid, with
 * channels in order and out of order, block by block in any order. -128 is found as a weight, and ignored in the
 * padding. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/backend.h"
#include "backends/cpu/int8/int8_product.h"
#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/system/cpu.h"
#include "quant/format/ggml_type.h"
#include "quant/format/pack.h"
#include "test/unit/fixtures/model_maker.h"

enum {
    WIDTHS_MIXED = 9,
};

typedef struct Case {
    size_t n, k;
    int widths; /* 1..8: width of all channels; or WIDTHS_MIXED */
    Grid grid;
    int8_t *bits, *q;
    PackPlan plan;
    uint8_t *packed;
} Case;

/* Makes levels of these widths on the grid, as the packed layout returns them. */
static void case_init(Case *c, size_t n, size_t k, int widths, Grid grid) {
    uint64_t seed = n * 1000 + k + (size_t)widths;
    size_t len_bytes;

    *c = (Case){ .n = n, .k = k, .widths = widths, .grid = grid, .bits = malloc(n), .q = malloc(n * k) };
    assert_true(c->bits && c->q);
    for (size_t i = 0; i < n; i++)
        c->bits[i] = (int8_t)(widths < WIDTHS_MIXED ? widths : 3 + (int)(test_random(&seed) % 5));
    if (grid == GRID_NORMAL)
        assert_int_equal(pack_widen(c->bits, n), 0);
    assert_int_equal(pack_plan_init(&c->plan, grid, c->bits, n, k), 0);
    len_bytes = (size_t)c->plan.offsets[c->plan.n_blocks];
    c->packed = aligned_alloc(64, (len_bytes + 63) / 64 * 64);
    assert_non_null(c->packed);
    for (size_t i = 0; i < len_bytes; i++)
        c->packed[i] = (uint8_t)test_random(&seed);
    for (size_t b = 0; b < c->plan.n_blocks; b++)
        unpack_block(&c->plan, b, c->packed, c->q);
    for (size_t i = 0; i < n * k; i++)
        c->q[i] = MAX(-127, c->q[i]);
    for (size_t b = 0; b < c->plan.n_blocks; b++) /* with the padding that is expected */
        pack_block(&c->plan, b, c->q, c->packed);
}

static void case_deinit(Case *c) {
    pack_plan_deinit(&c->plan);
    free(c->bits);
    free(c->q);
    free(c->packed);
}

static BackendLinear *begin(const Case *c, Backend *backend, size_t *image_bytesp) {
    const size_t n = c->n;
    float *scales = malloc(n * sizeof(*scales));
    LinearSource source = { .name = "it",
                            .n = n,
                            .k = c->k,
                            .type = GGML_I8,
                            .bits = c->bits,
                            .grid = c->grid,
                            .scales = scales,
                            .streamed = true,
                            .expanded = true,
                            .activations = { .scale = 0.5f } };
    BackendLinear *linear;

    assert_non_null(scales);
    for (size_t i = 0; i < n; i++)
        scales[i] = 1;
    assert_int_equal(backend->ops->linear_image_bytes(&source, image_bytesp, NULL), 0);
    assert_int_equal(*image_bytesp, int8_blocks_for(n) * (int8_tiles_for(c->k) * INT8_TILE_BYTES + 64));
    source.image_bytes = *image_bytesp;
    assert_int_equal(backend->ops->linear_begin(backend, &linear, &source, NULL), 0);
    free(scales);
    return linear;
}

/* Returns the tiles' value at an output and an input. */
static int tile_at(const uint8_t *integers, size_t k, size_t o, size_t i) {
    return (
        int8_t)integers[(o / 16 * int8_tiles_for(k) + i / 64) * INT8_TILE_BYTES + i % 64 / 4 * 64 + o % 16 * 4 + i % 4];
}

static void assert_expanded(const Case *c, const uint8_t *integers) {
    const int32_t *sums = (const int32_t *)(integers + int8_blocks_for(c->n) * int8_tiles_for(c->k) * INT8_TILE_BYTES);

    for (size_t o = 0; o < c->n; o++) {
        int32_t sum = 0;

        for (size_t i = 0; i < int8_tiles_for(c->k) * INT8_TILE_INPUTS; i++) {
            const int here = tile_at(integers, c->k, o, i);

            sum += here; /* includes the padding, as products expect */
            if (i < c->k && here != c->q[o * c->k + i])
                fail_msg("%zu x %zu, %d bits, grid %d: output %zu, input %zu is %d, not %d", c->n, c->k, c->widths,
                         (int)c->grid, o, i, here, c->q[o * c->k + i]);
        }
        if (sums[o] != sum)
            fail_msg("%zu x %zu, %d bits: the sum of output %zu is %d, not %d", c->n, c->k, c->widths, o, sums[o], sum);
    }
}

static void check_case(Backend *backend, size_t n, size_t k, int widths, Grid grid) {
    size_t image_bytes;
    BackendLinear *linear;
    uint8_t *integers;
    Case c;

    case_init(&c, n, k, widths, grid);
    linear = begin(&c, backend, &image_bytes);
    integers = aligned_alloc(64, image_bytes + 64);
    assert_non_null(integers);
    memset(integers, 0x5a, image_bytes + 64);
    for (size_t end = c.plan.n_blocks, begin; end > 0; end = begin) { /* from the last block on, some at a time */
        begin = end > 3 ? end - 3 : 0;
        assert_true(
            backend->ops->linear_expand(backend, linear, begin, end, c.packed + c.plan.offsets[begin], integers));
    }
    assert_expanded(&c, integers);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(integers[image_bytes + i], 0x5a);
    free(integers);
    backend->ops->linear_free(linear);
    case_deinit(&c);
}

static void with_backend(uint32_t features, void (*fn)(Backend *backend)) {
    AccountTable accounts;
    WorkerPool *pool;
    Backend *backend;

    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, 1), 0);
    assert_int_equal(backend_npu_new(&backend, features, pool, &accounts, NULL), 0);
    fn(backend);
    backend_free(backend);
    worker_pool_free(pool);
    for (size_t i = 0; i < _ACCOUNT_N; i++)
        assert_int_equal(atomic_load(&accounts.used_bytes[i]), 0);
}

static void check_sizes(Backend *backend) {
    static const size_t sizes[][2] = { { 1, 1 }, { 16, 64 }, { 17, 65 }, { 100, 300 }, { 95, 576 } };

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        for (int widths = 1; widths <= WIDTHS_MIXED; widths++)
            for (Grid grid = 0; grid < _GRID_N; grid++)
                check_case(backend, sizes[i][0], sizes[i][1], widths, grid);
}

static void test_cpu_expand_sizes(void **state) {
    with_backend(0, check_sizes);
    with_backend(cpu_features(), check_sizes);
}

/* Sets -128 at 8 bits, which packing never produces. */
static void set_code_zero(const Case *c, size_t o, size_t i) {
    uint8_t *tile = c->packed + c->plan.offsets[o / 16] + i / 64 * pack_tile_bytes(8), codes[PACK_TILE_WEIGHTS];

    unpack_tile(tile, 8, codes);
    codes[i % 64 / 4 * 64 + o % 16 * 4 + i % 4] = 0;
    pack_tile(codes, 8, tile);
}

/* Sets one weight at a time. */
static void check_range(Backend *backend) {
    static const size_t at[][2] = { { 0, 0 }, { 16, 64 }, { 16, 3 }, { 5, 64 } };
    size_t image_bytes;
    uint8_t *integers;
    Case c;

    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        BackendLinear *linear;

        case_init(&c, 17, 65, 8, GRID_UNIFORM);
        linear = begin(&c, backend, &image_bytes);
        integers = aligned_alloc(64, image_bytes);
        assert_non_null(integers);
        assert_true(backend->ops->linear_expand(backend, linear, 0, 2, c.packed, integers));
        set_code_zero(&c, at[i][0], at[i][1]);
        assert_false(backend->ops->linear_expand(backend, linear, 0, 2, c.packed, integers));
        free(integers);
        backend->ops->linear_free(linear);
        case_deinit(&c);
    }
}

static void test_cpu_expand_range(void **state) {
    with_backend(cpu_features(), check_range);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cpu_expand_sizes),
                                        cmocka_unit_test(test_cpu_expand_range) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
