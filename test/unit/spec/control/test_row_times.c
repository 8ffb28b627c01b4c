// SPDX-License-Identifier: Apache-2.0
/* Times by rows: estimates for row counts that were never measured, outliers, and the rule that more rows never take
 * less. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "spec/control/row_times.h"

static uint32_t seed = 1;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

static void check_close(float is, float should_be) {
    if (is < 0.999F * should_be || is > 1.001F * should_be)
        fail_msg("%g, and not %g", (double)is, (double)should_be);
}

/* 10 and 25 ms for 1 and 16 rows: times lie on a line between them and beyond. */
static void test_row_times_neighbours(void **state) {
    RowTimes times = { 0 };

    assert_true(row_times_ms(&times, 1) == 0);
    row_times_measure(&times, 1, 10);
    assert_true(row_times_ms(&times, 1) == 0); /* the first step tells nothing */
    row_times_measure(&times, 1, 10);
    check_close(row_times_ms(&times, 1), 10);
    check_close(row_times_ms(&times, 2), 10.2F);
    row_times_measure(&times, 16, 25);
    for (uint32_t rows = 1; rows <= ROW_TIMES_MAX; rows++)
        check_close(row_times_ms(&times, rows), 9 + (float)rows);
    check_close(row_times_ms(&times, ROW_TIMES_MAX + 100), 9 + ROW_TIMES_MAX);
    assert_true(row_times_ms(&times, 0) == 0);
    row_times_measure(&times, 4, 0); /* no time */
    check_close(row_times_ms(&times, 4), 13);
    times = (RowTimes){ 0 };
    row_times_measure(&times, 8, 40);
    row_times_measure(&times, 8, 40);
    for (uint32_t rows = 1; rows <= 8; rows++)
        check_close(row_times_ms(&times, rows), 40);
    check_close(row_times_ms(&times, 9), 40.8F);
}

/* Beyond what is measured a row takes what is guessed, or less where less is known. */
static void test_row_times_row_ms(void **state) {
    static const float known[] = { 0, 2, 500 }, row_ms[] = { 20, 2, 20 };
    float seen_ms[ROW_TIMES_MAX] = { 1000 }, ms[ROW_TIMES_MAX];
    uint32_t n_seen[ROW_TIMES_MAX] = { 1 };

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        row_times_fill(seen_ms, n_seen, ROW_TIMES_MAX, known[i], ms);
        for (uint32_t rows = 1; rows <= ROW_TIMES_MAX; rows++)
            check_close(ms[rows - 1], 1000 + row_ms[i] * (float)(rows - 1));
    }
    seen_ms[4] = 1040; /* what was measured still holds */
    n_seen[4] = 1;
    row_times_fill(seen_ms, n_seen, ROW_TIMES_MAX, 2, ms);
    for (uint32_t rows = 1; rows <= ROW_TIMES_MAX; rows++)
        check_close(ms[rows - 1], 1000 + 10 * (float)(rows - 1));
}

static void test_row_times_never_fall(void **state) {
    for (size_t round = 0; round < 200; round++) {
        RowTimes times = { 0 };

        for (size_t i = 0; i < 100; i++) {
            row_times_measure(&times, 1 + draw(ROW_TIMES_MAX), 1 + (float)draw(1000) / 10);
            for (uint32_t rows = 1; rows < ROW_TIMES_MAX; rows++)
                assert_true(row_times_ms(&times, rows) <= row_times_ms(&times, rows + 1) * 1.00001F);
            assert_true(row_times_ms(&times, 1) > 0 || !i);
        }
    }
}

/* Every tenth step waits for something else, ten times as long. */
static void test_row_times_outliers(void **state) {
    RowTimes times = { 0 };

    row_times_measure(&times, 4, 500); /* the very first one, cold */
    row_times_measure(&times, 4, 50);
    check_close(row_times_ms(&times, 4), 50);
    for (size_t i = 0; i < 100; i++) {
        row_times_measure(&times, 4, i % 10 ? 50 : 500);
        assert_true(row_times_ms(&times, 4) > 49 && row_times_ms(&times, 4) < 63);
    }
    for (size_t i = 0; i < 40; i++) /* all steps take longer now */
        row_times_measure(&times, 4, 100);
    assert_true(row_times_ms(&times, 4) > 95);
    for (size_t i = 0; i < 40; i++)
        row_times_measure(&times, 4, 50);
    assert_true(row_times_ms(&times, 4) < 53);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_times_neighbours),
        cmocka_unit_test(test_row_times_row_ms),
        cmocka_unit_test(test_row_times_never_fall),
        cmocka_unit_test(test_row_times_outliers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
