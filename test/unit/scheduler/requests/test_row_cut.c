// SPDX-License-Identifier: Apache-2.0
/* Groups of a step's rows: no group cuts a tree or a block of the cache, and together they are the whole step. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "scheduler/requests/row_cut.h"
#include "test/unit/fixtures/model_maker.h"

enum {
    BLOCK = 64,
    ROWS_MAX = 2048,
    SEQUENCES = 8,
    GROUPS_MAX = 128,
};

typedef struct Cut {
    BatchRow rows[ROWS_MAX];
    BatchSequence sequences[SEQUENCES];
    Batch batch;
    RowGroup groups[GROUPS_MAX];
    size_t n;
} Cut;

static char side;

static void cut_init(Cut *cut) {
    memset(cut, 0, sizeof(*cut));
    cut->batch = (Batch){ .rows = cut->rows, .sequences = cut->sequences };
}

static void add_star(Cut *cut, size_t position, size_t n) {
    int16_t parents[BATCH_SLOTS_MAX + 1] = { -1 };

    batch_add_tree(&cut->batch, NULL, &side, position, parents, n);
}

static void cut_now(Cut *cut, size_t group_rows) {
    cut->n = row_cut(&cut->batch, group_rows, BLOCK, cut->groups, GROUPS_MAX);
}

static void expect(const Cut *cut, size_t group, size_t first, size_t n, bool continues) {
    assert_true(group < cut->n);
    assert_int_equal(cut->groups[group].rows.first, first);
    assert_int_equal(cut->groups[group].rows.n, n);
    assert_int_equal(cut->groups[group].continues, continues);
}

static void test_row_cut_group_rows(void **state) {
    assert_int_equal(row_cut_group_rows(256, 64, BLOCK), 64);
    assert_int_equal(row_cut_group_rows(256, 65, BLOCK), 128);                         /* whole blocks */
    assert_int_equal(row_cut_group_rows(ROW_CUT_GROUPS_WANTED * 256, 64, BLOCK), 256); /* not too many groups */
    assert_int_equal(row_cut_group_rows(ROW_CUT_GROUPS_WANTED * 256, 512, BLOCK), 512);
}

/* A prompt that begins within a block has a first group that ends with the block. */
static void test_row_cut_prompt(void **state) {
    static Cut cut;

    cut_init(&cut);
    batch_add_chain(&cut.batch, NULL, 40, 200);
    cut_now(&cut, 64);
    assert_int_equal(cut.n, 4);
    expect(&cut, 0, 0, 24, false);
    expect(&cut, 1, 24, 64, true);
    expect(&cut, 2, 88, 64, true);
    expect(&cut, 3, 152, 48, true);
}

/* Small sequences share a group; a tree that does not fit any more begins the next one. */
static void test_row_cut_company(void **state) {
    static Cut cut;

    cut_init(&cut);
    batch_add_chain(&cut.batch, NULL, 7, 1);
    batch_add_chain(&cut.batch, NULL, 63, 40);
    add_star(&cut, 10, 30);
    batch_add_chain(&cut.batch, NULL, 0, 10);
    cut_now(&cut, 64);
    assert_int_equal(cut.n, 2);
    expect(&cut, 0, 0, 41, false);
    expect(&cut, 1, 41, 40, false);
}

static void test_row_cut_refuses(void **state) {
    static Cut cut;

    cut_init(&cut);
    add_star(&cut, 0, 60);
    cut_now(&cut, 59);
    assert_int_equal(cut.n, 0);
    cut_now(&cut, 60);
    assert_int_equal(cut.n, 1);
    cut_init(&cut);
    batch_add_chain(&cut.batch, NULL, 0, 3 * BLOCK);
    assert_int_equal(row_cut(&cut.batch, BLOCK, BLOCK, cut.groups, 2), 0);
    assert_int_equal(row_cut(&cut.batch, BLOCK, BLOCK, cut.groups, 3), 3);
}

/* Returns the sequence that has the row. */
static const BatchSequence *sequence_of(const Cut *cut, size_t row) {
    return &cut->sequences[cut->rows[row].sequence];
}

static void check(const Cut *cut, size_t group_rows) {
    size_t at = 0;

    for (size_t i = 0; i < cut->n; i++) {
        const RowGroup *group = &cut->groups[i];
        const BatchSequence *sequence = sequence_of(cut, group->rows.first);

        assert_int_equal(group->rows.first, at);
        assert_in_range(group->rows.n, 1, group_rows);
        assert_int_equal(group->continues, at > sequence->rows.first);
        if (group->continues) {
            assert_null(sequence->side);
            assert_int_equal(cut->rows[at].position % BLOCK, 0);
        }
        at += group->rows.n;
    }
    assert_int_equal(at, cut->batch.n_rows);
}

static void test_row_cut_any(void **state) {
    static Cut cut;
    uint64_t random = 3;

    for (size_t round = 0; round < 2000; round++) {
        const size_t n = 1 + test_random(&random) % SEQUENCES, group_rows = BLOCK * (1 + test_random(&random) % 3);

        cut_init(&cut);
        for (size_t i = 0; i < n; i++) {
            const size_t position = test_random(&random) % 300;

            if (test_random(&random) % 2)
                add_star(&cut, position, 2 + test_random(&random) % 40);
            else
                batch_add_chain(&cut.batch, NULL, position, 1 + test_random(&random) % 250);
        }
        cut_now(&cut, group_rows);
        assert_true(cut.n > 0);
        check(&cut, group_rows);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_cut_group_rows), cmocka_unit_test(test_row_cut_prompt),
        cmocka_unit_test(test_row_cut_company),    cmocka_unit_test(test_row_cut_refuses),
        cmocka_unit_test(test_row_cut_any),
    };

    return cmocka_run_group_tests_name("row_cut", tests, NULL, NULL);
}
