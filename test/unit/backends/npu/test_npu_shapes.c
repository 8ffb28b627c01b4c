// SPDX-License-Identifier: Apache-2.0
/* Each shape of a product is tried, and the fastest one stays, though single tries may take longer. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backends/npu/npu_shapes.h"
#include "test/unit/fixtures/model_maker.h"

/* Runs n products whose times are those of the shapes, or longer; records the shape of each. */
static void run(NpuShapes *shapes, size_t inputs, size_t rows, const uint64_t *times, uint64_t *random, size_t n,
                size_t counts[NPU_SHAPES_MAX]) {
    for (size_t i = 0; i < n; i++) {
        NpuProduct *product;
        const size_t at_once = npu_shapes_choose(shapes, inputs, 96, rows, &product);
        size_t shape = 0;

        while (rows >> shape > at_once)
            shape++;
        assert_true(shape < NPU_SHAPES_MAX && rows >> shape == at_once && at_once % 16 == 0);
        counts[shape]++;
        if (product)
            npu_shapes_took(product, times[shape] + (test_random(random) % 3 ? 0 : 1000) * (i >= NPU_SHAPES_MAX));
    }
}

static void test_npu_shapes_fastest(void **state) {
    static const uint64_t times[][NPU_SHAPES_MAX] = { { 5, 9, 9, 9 }, { 9, 8, 7, 9 }, { 9, 8, 7, 2 }, { 4, 4, 4, 4 } };
    static const size_t best[] = { 0, 2, 3, 0 };
    uint64_t random = 5;

    for (size_t i = 0; i < 4; i++) {
        size_t counts[NPU_SHAPES_MAX] = { 0 };
        NpuShapes shapes = { .n = 0 };

        run(&shapes, 64, 256, times[i], &random, NPU_TRIES * NPU_SHAPES_MAX, counts);
        for (size_t shape = 0; shape < NPU_SHAPES_MAX; shape++)
            assert_int_equal(counts[shape], NPU_TRIES);
        run(&shapes, 64, 256, times[i], &random, 50, counts);
        assert_int_equal(counts[best[i]], NPU_TRIES + 50);
    }
}

/* Products of other sizes are others; for few rows there are fewer shapes; further products have no room. */
static void test_npu_shapes_products(void **state) {
    static const uint64_t times[NPU_SHAPES_MAX] = { 9, 5, 9, 9 };
    size_t counts[NPU_SHAPES_MAX] = { 0 }, more[NPU_SHAPES_MAX] = { 0 };
    NpuShapes shapes = { .n = 0 };
    uint64_t random = 6;
    NpuProduct *product;

    run(&shapes, 64, 32, times, &random, 40, counts);
    assert_true(counts[0] == NPU_TRIES && counts[1] == 40 - NPU_TRIES);
    run(&shapes, 65, 32, times, &random, 6, more);
    assert_true(more[0] == 3 && more[1] == 3 && shapes.n == 2);
    for (size_t i = 0; i < NPU_PRODUCTS_MAX; i++)
        (void)npu_shapes_choose(&shapes, 100 + i, 96, 256, &product);
    assert_int_equal(shapes.n, NPU_PRODUCTS_MAX);
    assert_int_equal(npu_shapes_choose(&shapes, 7, 96, 256, &product), 256);
    assert_null(product);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npu_shapes_fastest),
        cmocka_unit_test(test_npu_shapes_products),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
