// SPDX-License-Identifier: Apache-2.0
/* Tests of measured kernel rates: plausible values, kept for the process, with memory charged and released; without
 * memory a default is returned. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backends/cpu/kernel_rates.h"
#include "base/cleanup.h"
#include "base/system/cpu.h"

static void expect_settled(const AccountTable *accounts, bool was_used) {
    for (int id = 0; id < _ACCOUNT_N; id++)
        assert_int_equal(atomic_load(&accounts->used_bytes[id]), 0);
    assert_true(was_used == (atomic_load(&accounts->peak_bytes[ACCOUNT_ACTIVATIONS]) > 0));
}

static void test_kernel_rates_few_rows(void **state) {
    const uint32_t all = cpu_features();

    for (uint32_t sub = 0;; sub = (sub - all) & all) {
        PackedKernels kernels = packed_kernels_select(sub);
        AccountTable first, second;
        size_t rows;

        account_table_init(&first);
        account_table_init(&second);
        rows = kernel_rates_few_rows(&kernels, GRID_NORMAL, 4, &first);
        assert_int_equal(kernel_rates_few_rows(&kernels, GRID_NORMAL, 4, &second), rows);
        expect_settled(&second, false);
        for (int id = 0; id < _ACCOUNT_N; id++)
            assert_int_equal(atomic_load(&first.used_bytes[id]), 0);
        packed_kernels_take(&kernels, GRID_NORMAL, 4, rows);
        assert_true(kernels.product->tile_rows == 1 || kernels.few_rows_max <= PACKED_FEW_ROWS_MAX);
        if (sub == all)
            break;
    }
}

static void test_kernel_rates_balance(void **state) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    const PackedKernels portable = packed_kernels_select(0), best = packed_kernels_select(cpu_features());
    AccountTable accounts;
    double rows;

    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, 2), 0);
    assert_true(kernel_rates_balance_rows(&portable, pool, &accounts) == 0);
    expect_settled(&accounts, false);
    rows = kernel_rates_balance_rows(&best, pool, &accounts);
    assert_true(best.product->need ? rows > 0.1 && rows < 1e5 : rows == 0);
    expect_settled(&accounts, best.product->need);
    assert_true(kernel_rates_balance_rows(&best, pool, &accounts) == rows);
}

static void test_kernel_rates_without_memory(void **state) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    const PackedKernels best = packed_kernels_select(cpu_features());
    AccountTable accounts;

    account_table_init(&accounts);
    accounts.limit_bytes[ACCOUNT_ACTIVATIONS] = 4096;
    assert_int_equal(worker_pool_new(&pool, 3), 0); /* no measurement with so many threads yet */
    assert_int_equal(kernel_rates_few_rows(&best, GRID_NORMAL, 7, &accounts), KERNEL_RATES_FEW_ROWS);
    (void)kernel_rates_balance_rows(&best, pool, &accounts);
    expect_settled(&accounts, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel_rates_few_rows),
        cmocka_unit_test(test_kernel_rates_balance),
        cmocka_unit_test(test_kernel_rates_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
