// SPDX-License-Identifier: Apache-2.0
/* The loops of peak: each kernel has the peak of its own instructions, and the machine runs those that it has. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/int8/int8_product.h"
#include "backends/cpu/rows/row_ops.h"
#include "base/system/cpu.h"
#include "tools/bench/peak.h"

/* Portable kernels may have no peak, since the compiler chooses their instructions. */
static void test_peak_of_every_kernel(void **state) {
    for (size_t i = 0; i + 1 < int8_product_n_kernels(); i++) {
        const Int8ProductKernel *kernel = int8_product_kernel_at(i);
        const Peak *peak = peak_of_kernel(kernel->name);

        if (!peak)
            fail_msg("%s has no peak", kernel->name);
        assert_string_equal(peak->type, "int8");
        assert_true(peak->need && !(peak->need & ~kernel->need));
    }
    for (size_t i = 0; i + 1 < row_ops_n(); i++) {
        const Peak *peak = peak_of_kernel(row_ops_at(i)->name);

        if (!peak)
            fail_msg("%s has no peak", row_ops_at(i)->name);
        assert_string_equal(peak->type, "f32");
        assert_true(!(peak->need & ~row_ops_at(i)->need));
    }
    assert_null(peak_of_kernel("int8_product__none"));
}

static void test_peak_of_the_same_instructions_with_loads(void **state) {
    size_t n_fed = 0;

    for (size_t i = 0; i < peak_n(); i++) {
        const Peak *fed = peak_fed(peak_at(i));

        assert_true(fed != peak_at(i));
        if (!fed)
            continue;
        n_fed++;
        assert_int_equal(fed->need, peak_at(i)->need);
        assert_string_equal(fed->type, peak_at(i)->type);
        assert_true(strlen(peak_at(i)->kernel) && !strlen(fed->kernel));
    }
    for (size_t i = 0; i < peak_n(); i++)
        n_fed -= !strlen(peak_at(i)->kernel);
    assert_int_equal(n_fed, 0);
}

static void test_peak_runs(void **state) {
    WorkerPool *pool;
    size_t n_run = 0;

    assert_int_equal(worker_pool_new(&pool, 2), 0);
    for (size_t i = 0; i < peak_n(); i++) {
        const Peak *peak = peak_at(i);

        assert_true(peak->ops > 0);
        if (peak->need & ~cpu_features())
            continue;
        n_run++;
        peak->loop(3);
        assert_true(peak_measure(peak, pool) > 0);
    }
    assert_true(n_run);
    worker_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peak_of_every_kernel),
        cmocka_unit_test(test_peak_of_the_same_instructions_with_loads),
        cmocka_unit_test(test_peak_runs),
    };

    return cmocka_run_group_tests_name("peak", tests, NULL, NULL);
}
