// SPDX-License-Identifier: Apache-2.0
/* Checks the layouts that the bench measures: each gives the product of its weights, at the first and the last matrix
 * of the arena, with every instruction set. (Expansions are tested beside their kernels.) */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/system/cpu.h"
#include "test/bench/layout.h"
#include "test/bench/layout_report.h"

enum {
    ARENA_BYTES = 3 * LAYOUT_N * LAYOUT_K + 64
};

static void check_product(const Layout *layout, const LayoutSpec *spec, uint32_t cpu, size_t matrix) {
    const LayoutKernels kernels = layout_kernels(layout, cpu);
    double expected[LAYOUT_N], sizes[LAYOUT_N];
    float y[LAYOUT_N];

    layout_reference(layout, expected, sizes);
    layout_product(layout, &kernels, matrix, LAYOUT_N, y);
    for (size_t o = 0; o < LAYOUT_N; o++)
        if (!(fabs((double)y[o] - expected[o]) <= 1e-6 * sizes[o]))
            fail_msg("%s of %s, %s: output %zu is %.9g, expected %.9g", kernels.product_name, spec->name, spec->variant,
                     o, (double)y[o], expected[o]);
    if (kernels.expand_name)
        layout_expand(layout, &kernels, matrix, LAYOUT_N);
}

static void test_layout_products(void **state) {
    _cleanup_(freep) uint8_t *arena = aligned_alloc(64, ARENA_BYTES);

    assert_non_null(arena);
    for (size_t s = 0; s < layout_n_specs(); s++) {
        Layout *layout = layout_new(layout_spec_at(s), arena, ARENA_BYTES);

        assert_true(layout_n_matrices(layout) >= 3);
        assert_true(layout_n_matrices(layout) * layout_matrix_bytes(layout) <= ARENA_BYTES);
        for (Isa isa = ISA_SCALAR; isa < _ISA_N; isa++)
            if (isa_present(isa)) {
                check_product(layout, layout_spec_at(s), isa_features(isa), 0);
                check_product(layout, layout_spec_at(s), isa_features(isa), layout_n_matrices(layout) - 1);
            }
        layout_free(layout);
    }
}

/* Bytes a weight: the codes' share, and at most 5 bytes a channel. */
static void test_layout_stored_bytes(void **state) {
    _cleanup_(freep) uint8_t *arena = aligned_alloc(64, ARENA_BYTES);
    static const double bits[] = { 8, 1, 2, 3, 4, 5, 6, 7, 8, 5, 2, 3, 4, 5, 6, 7, 5, 4, 8, 6.4, 4.5, 5.5 };

    assert_non_null(arena);
    assert_int_equal(layout_n_specs(), ARRAY_LEN(bits));
    for (size_t s = 0; s < layout_n_specs(); s++) {
        Layout *layout = layout_new(layout_spec_at(s), arena, ARENA_BYTES);
        const double beside = layout_stored_bytes(layout) - bits[s] / 8;

        assert_true(beside >= -1e-12 && beside <= 5.0 / LAYOUT_K + 1e-12);
        assert_int_equal(layout_matrix_bytes(layout), (size_t)(bits[s] * LAYOUT_N * LAYOUT_K / 8 + 0.5));
        layout_free(layout);
    }
}

/* The steps of EdgeFlow's figure 8 at 128 bits: 0.48 at 5 and 6 bits, as the paper prints; a wider register divides
 * them. */
static void test_layout_edgeflow_steps(void **state) {
    static const double at_128[] = { 33, 34, 59, 36, 61, 62, 87, 64 };

    for (int bits = 1; bits <= 8; bits++) {
        assert_true(fabs(layout_edgeflow_steps(bits, 128) - at_128[bits - 1] / 128) < 1e-12);
        assert_true(fabs(layout_edgeflow_steps(bits, 512) - at_128[bits - 1] / 512) < 1e-12);
    }
    assert_true(fabs(layout_edgeflow_steps(5, 128) - 0.48) < 0.005);
    assert_true(fabs(layout_edgeflow_steps(6, 128) - 0.48) < 0.005);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_products),
        cmocka_unit_test(test_layout_stored_bytes),
        cmocka_unit_test(test_layout_edgeflow_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
