// SPDX-License-Identifier: Apache-2.0
/* Rows of a step for generations of several classes. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "scheduler/requests/row_share.h"

enum {
    CHUNK = 1024,
    SHARED = 256,
    LOW = PRIORITY_BACKGROUND,
    MIDDLE = PRIORITY_NORMAL,
    HIGH = PRIORITY_INTERACTIVE,
};

static RowClaim answer(int priority) {
    return (RowClaim){ .standing = { (Priority)priority, (Priority)priority }, .is_live = true };
}

static RowClaim prompt(int priority, int rank, size_t n_rows) {
    return (RowClaim){
        .standing = { (Priority)priority, (Priority)rank }, .is_live = true, .is_prompt = true, .n_rows = n_rows
    };
}

static size_t rows_of(const RowShare *share, const RowClaim *claim) {
    return row_share_of_prompt(share, claim->standing);
}

/* The long chunk is for prompts alone. Whoever is cancelled or has ended waits for nothing. */
static void test_row_share_chunk(void **state) {
    RowClaim claims[] = { prompt(MIDDLE, MIDDLE, 5000), answer(MIDDLE) };

    assert_int_equal(row_share_begin(claims, 1, CHUNK, SHARED).all, CHUNK);
    assert_int_equal(row_share_begin(claims, 2, CHUNK, SHARED).all, SHARED);
    assert_int_equal(row_share_begin(claims, 2, 100, SHARED).all, 100);
    claims[1].is_live = false;
    assert_int_equal(row_share_begin(claims, 2, CHUNK, SHARED).all, CHUNK);
}

/* Beside a prompt of a higher class a prompt gets nothing, until waiting has raised it to that class. */
static void test_row_share_waiting(void **state) {
    const RowClaim claims[] = { prompt(HIGH, HIGH, 500), prompt(MIDDLE, MIDDLE, 500), prompt(MIDDLE, HIGH, 500),
                                prompt(LOW, HIGH, 500) };
    const RowShare share = row_share_begin(claims, ARRAY_LEN(claims), CHUNK, SHARED);

    assert_int_equal(rows_of(&share, &claims[0]), CHUNK);
    assert_int_equal(rows_of(&share, &claims[1]), 0);
    assert_int_equal(rows_of(&share, &claims[2]), ROW_SHARE_LOWER_ROWS);
    assert_int_equal(rows_of(&share, &claims[3]), ROW_SHARE_LOWER_ROWS);
}

/* Beside an answer of a higher class prompts get few rows together, background ones in one step of eight. */
static void test_row_share_answering(void **state) {
    RowClaim claims[] = { answer(HIGH), prompt(MIDDLE, MIDDLE, 500), prompt(LOW, LOW, 500) };

    for (uint32_t i = 0; i < 2 * ROW_SHARE_BACKGROUND_STEPS; i++) {
        RowShare share;

        claims[0].n_undivided = i;
        share = row_share_begin(claims, 1, CHUNK, SHARED);
        assert_int_equal(rows_of(&share, &claims[1]), ROW_SHARE_LOWER_ROWS);
        assert_int_equal(rows_of(&share, &claims[2]), i + 1 < ROW_SHARE_BACKGROUND_STEPS ? 0 : ROW_SHARE_LOWER_ROWS);
    }
}

/* Prompts of the highest class that waits or answers share all rows. */
static void test_row_share_alike(void **state) {
    for (int priority = LOW; priority <= HIGH; priority++) {
        const RowClaim claims[] = { answer(priority), prompt(priority, priority, 500) };
        const RowShare share = row_share_begin(claims, ARRAY_LEN(claims), CHUNK, SHARED);

        assert_int_equal(rows_of(&share, &claims[1]), SHARED);
    }
}

static void test_row_share_take(void **state) {
    const RowClaim claims[] = { answer(HIGH), prompt(MIDDLE, MIDDLE, 500), prompt(HIGH, HIGH, 500) };
    RowShare share = row_share_begin(claims, 2, CHUNK, SHARED);

    row_share_take(&share, false, PRIORITY_INTERACTIVE, 1);
    assert_int_equal(share.all, SHARED - 1);
    assert_int_equal(rows_of(&share, &claims[1]), ROW_SHARE_LOWER_ROWS);
    row_share_take(&share, true, PRIORITY_INTERACTIVE, 100); /* of its own class: not of the few */
    assert_int_equal(rows_of(&share, &claims[1]), ROW_SHARE_LOWER_ROWS);
    row_share_take(&share, true, PRIORITY_NORMAL, 10);
    assert_int_equal(rows_of(&share, &claims[1]), ROW_SHARE_LOWER_ROWS - 10);
    row_share_take(&share, true, PRIORITY_NORMAL, ROW_SHARE_LOWER_ROWS - 10);
    assert_int_equal(rows_of(&share, &claims[1]), 0);
    assert_int_equal(rows_of(&share, &claims[2]), SHARED - 101 - ROW_SHARE_LOWER_ROWS);
}

/* Rows that prompts are going to take are never more than they have, nor than are left. */
static void test_row_share_wanted(void **state) {
    RowClaim claims[] = { answer(MIDDLE), prompt(MIDDLE, MIDDLE, 30), prompt(MIDDLE, MIDDLE, 500) };
    const RowShare share = row_share_begin(claims, ARRAY_LEN(claims), CHUNK, SHARED);

    assert_int_equal(row_share_wanted(&share, claims, 1), 0);
    assert_int_equal(row_share_wanted(&share, claims, 2), 30);
    assert_int_equal(row_share_wanted(&share, claims, 3), SHARED);
    claims[2].is_live = false;
    assert_int_equal(row_share_wanted(&share, claims, 3), 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_share_chunk),     cmocka_unit_test(test_row_share_waiting),
        cmocka_unit_test(test_row_share_answering), cmocka_unit_test(test_row_share_alike),
        cmocka_unit_test(test_row_share_take),      cmocka_unit_test(test_row_share_wanted),
    };

    return cmocka_run_group_tests_name("row_share", tests, NULL, NULL);
}
