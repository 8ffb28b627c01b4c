// SPDX-License-Identifier: Apache-2.0
/* Tests the rows of a reference against the divergence over all tokens; test/integration/test_eval.py tests models. */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "importer/check/divergence.h"
#include "importer/check/scorer.h"
#include "tools/eval/quality/reference_rows.h"

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define MANY (8 * REFERENCE_TOP)

static double nats(const ReferenceRow *row, const float *logits, size_t n, bool *same) {
    return reference_row_divergence(row, logits, n, log_sum_exp(logits, n), same);
}

/* Fills logits, many of them equal, and those of a model that differs a little. */
static void fill(float *reference, float *model, size_t n) {
    for (size_t i = 0; i < n; i++) {
        reference[i] = (float)(rand() % 3000) / 200 - 7;
        model[i] = reference[i] + (float)(rand() % 200) / 400 + 3;
    }
}

static void test_reference_row_of_a_small_vocabulary_is_exact(void **state) {
    static ReferenceRow row;
    float reference[300], model[300];

    srand(5);
    for (int round = 0; round < 50; round++) {
        bool same, exact_same;
        double exact;

        fill(reference, model, 300);
        reference_row_take(&row, reference, 300, 7);
        exact = divergence_of_row(model, reference, 300, &exact_same);
        assert_true(fabs(nats(&row, model, 300, &same) - exact) < 1e-6);
        assert_int_equal(same, exact_same);
        assert_true(row.rest == 0 && row.log_next < 0);
        assert_true(nats(&row, reference, 300, &same) < 1e-6 && same);
    }
}

/* Most of the probability lies in the many tokens that are one here: the bound is below, and not far. */
static void test_reference_row_is_a_lower_bound(void **state) {
    static ReferenceRow row;
    static float reference[MANY], model[MANY];
    bool same;
    double exact, bound;

    srand(6);
    fill(reference, model, MANY);
    reference_row_take(&row, reference, MANY, 7);
    exact = divergence_of_row(model, reference, MANY, &same);
    bound = nats(&row, model, MANY, &same);
    assert_true(bound > 0.2 * exact && bound <= exact + 1e-6);

    /* A model that makes all others twice as likely differs by the sum of two tokens: inside, all others. */
    for (size_t i = 0; i < MANY; i++)
        model[i] = reference[i] + logf(2);
    for (size_t i = 0; i < REFERENCE_TOP; i++)
        model[row.ids[i]] = reference[row.ids[i]];
    exact = divergence_of_row(model, reference, MANY, &same);
    assert_true(fabs(nats(&row, model, MANY, &same) - exact) < 1e-4 * exact && same);
}

static void test_reference_row_takes_the_most_probable(void **state) {
    static ReferenceRow row;
    static float logits[MANY];
    static bool taken[MANY];

    srand(8);
    fill(logits, logits, MANY);
    reference_row_take(&row, logits, MANY, 0);
    for (size_t i = 0; i < REFERENCE_TOP; i++) {
        assert_false(taken[row.ids[i]]);
        taken[row.ids[i]] = true;
        if (i > 0)
            assert_true(logits[row.ids[i]] < logits[row.ids[i - 1]] ||
                        (logits[row.ids[i]] == logits[row.ids[i - 1]] && row.ids[i] > row.ids[i - 1]));
    }
    for (size_t i = 0; i < MANY; i++) {
        const uint32_t last = row.ids[REFERENCE_TOP - 1];

        if (!taken[i])
            assert_true(logits[i] < logits[last] || (logits[i] == logits[last] && i > last));
    }
}

static void test_reference_rows_are_kept(void **state) {
    char path[] = "/tmp/coordgen-rows-XXXXXX", other[] = KEY;
    _cleanup_(reference_rows_deinit) ReferenceRows rows = { .rows = calloc(3, sizeof(*rows.rows)), .n = 3 };
    _cleanup_(reference_rows_deinit) ReferenceRows read = { 0 };
    float logits[20], model[20];
    ErrText err = { 0 };
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    for (size_t i = 0; i < rows.n; i++) {
        fill(logits, model, 20);
        reference_row_take(&rows.rows[i], logits, 20, 3);
    }
    assert_int_equal(reference_rows_load(&read, path, KEY, 3, &err), -ENOENT); /* an empty file */
    assert_int_equal(reference_rows_save(&rows, path, KEY, &err), 0);
    assert_int_equal(reference_rows_load(&read, path, KEY, 3, &err), 0);
    assert_memory_equal(read.rows, rows.rows, 3 * sizeof(*rows.rows));
    reference_rows_deinit(&read);
    other[0] = 'f';
    assert_int_equal(reference_rows_load(&read, path, other, 3, &err), -ENOENT);
    assert_int_equal(reference_rows_load(&read, path, KEY, 4, &err), -ENOENT);
    assert_int_equal(truncate(path, 5000), 0);
    assert_int_equal(reference_rows_load(&read, path, KEY, 3, &err), -ENOENT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(reference_rows_load(&read, path, KEY, 3, &err), -ENOENT);
    assert_string_equal(err.text, "");
    assert_true(reference_rows_save(&rows, "/nowhere/rows", KEY, &err) < 0);
    assert_non_null(strstr(err.text, "/nowhere/rows"));
}

static void test_reference_rows_key_names_the_windows(void **state) {
    uint32_t ids[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    TextWindows windows = { .ids = ids, .n = 2, .len = 4, .n_scored = 1 };
    char key[SHA256_HEX_BYTES], other[SHA256_HEX_BYTES];

    assert_int_equal(reference_rows_key(key, KEY, &windows), 0);
    assert_int_equal(strlen(key), 64);
    windows.n = 1;
    windows.len = 8;
    assert_int_equal(reference_rows_key(other, KEY, &windows), 0);
    assert_string_not_equal(key, other);
    windows = (TextWindows){ .ids = ids, .n = 2, .len = 4, .n_scored = 1 };
    assert_int_equal(reference_rows_key(other, "another", &windows), 0);
    assert_string_not_equal(key, other);
    ids[7] = 9;
    assert_int_equal(reference_rows_key(other, KEY, &windows), 0);
    assert_string_not_equal(key, other);
    ids[7] = 8;
    assert_int_equal(reference_rows_key(other, KEY, &windows), 0);
    assert_string_equal(key, other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_row_of_a_small_vocabulary_is_exact),
        cmocka_unit_test(test_reference_row_is_a_lower_bound),
        cmocka_unit_test(test_reference_row_takes_the_most_probable),
        cmocka_unit_test(test_reference_rows_are_kept),
        cmocka_unit_test(test_reference_rows_key_names_the_windows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
