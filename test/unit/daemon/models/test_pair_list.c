// SPDX-License-Identifier: Apache-2.0
/* Lists of pairs of models' names: which texts are valid lists, and which pairs would make a model draft for itself. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings/str_buf.h"
#include "daemon/models/pair_list.h"

static void test_pair_list_parse(void **state) {
    PairList list = { 0 };

    assert_int_equal(pair_list_parse(&list, " big one = small ,, mid=tiny\t, a=b=c,", NULL), 0);
    assert_int_equal(list.n, 3);
    assert_string_equal(pair_list_find(&list, "big one"), "small");
    assert_string_equal(pair_list_find(&list, "mid"), "tiny");
    assert_string_equal(pair_list_find(&list, "a"), "b=c");
    assert_null(pair_list_find(&list, "small"));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pair_list_parse(&list, (const char *[]){ "", " \t", ",, ," }[i], NULL), 0);
        assert_int_equal(list.n, 0);
    }
    pair_list_deinit(&list);
}

/* An error names the wrong part of the text, and leaves the list unchanged. */
static void test_pair_list_refused(void **state) {
    static const struct {
        const char *text, *says;
    } wrong[] = {
        { "big", "'big' is not TARGET=DRAFT" },
        { "a=b, =small", "'=small' is not TARGET=DRAFT" },
        { "big= ", "'big= ' is not TARGET=DRAFT" },
        { "=", "'=' is not TARGET=DRAFT" },
        { "big=small,big=tiny", "'big=tiny': a draft model for this target stands before already" },
        { "big=big", "'big=big': the target would draft for itself" },
        { "a=b,b=c,c=a", "'c=a': the target would draft for itself" },
    };
    char name[PAIR_NAME_BYTES_MAX + 8];
    PairList list = { 0 };
    ErrText err;

    assert_int_equal(pair_list_parse(&list, "x=y", NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(pair_list_parse(&list, wrong[i].text, &err), PAIR_LIST_E_TEXT);
        if (!strstr(err.text, wrong[i].says))
            fail_msg("'%s' says '%s'", wrong[i].text, err.text);
        assert_int_equal(list.n, 1);
        assert_string_equal(pair_list_find(&list, "x"), "y");
    }
    memset(name, 'n', sizeof(name));
    memcpy(name + PAIR_NAME_BYTES_MAX, "=d", 3);
    assert_int_equal(pair_list_parse(&list, name, &err), 0);
    memcpy(name + PAIR_NAME_BYTES_MAX, "n=d", 4);
    assert_int_equal(pair_list_parse(&list, name, &err), PAIR_LIST_E_TEXT);
    assert_int_equal(list.n, 1);
    pair_list_deinit(&list);
}

static void test_pair_list_full(void **state) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    PairList list = { 0 };
    ErrText err;

    for (int i = 0; i < PAIRS_MAX; i++)
        str_buf_addf(&text, "t%d=d,", i);
    assert_false(str_buf_failed(&text));
    assert_int_equal(pair_list_parse(&list, text.data, &err), 0);
    assert_int_equal(list.n, PAIRS_MAX);
    assert_int_equal(pair_list_set(&list, "more", "d"), PAIR_LIST_E_FULL);
    assert_int_equal(pair_list_set(&list, "t7", "other"), 0); /* a known target fits into a full list */
    assert_string_equal(pair_list_find(&list, "t7"), "other");
    str_buf_add(&text, "more=d");
    assert_false(str_buf_failed(&text));
    assert_int_equal(pair_list_parse(&list, text.data, &err), PAIR_LIST_E_FULL);
    assert_non_null(strstr(err.text, "256"));
    pair_list_remove(&list, "t0");
    pair_list_remove(&list, "nobody");
    assert_int_equal(list.n, PAIRS_MAX - 1);
    assert_null(pair_list_find(&list, "t0"));
    assert_int_equal(pair_list_set(&list, "more", "d"), 0);
    pair_list_deinit(&list);
}

static const char *lookup(const void *arg, const char *target) {
    return pair_list_find(arg, target);
}

/* The check finds a circle over any number of pairs, and ends even if other pairs form a circle. */
static void test_pair_list_circle(void **state) {
    PairList list = { 0 };
    char from[16], to[16];

    for (int i = 0; i < PAIRS_MAX; i++) {
        snprintf(from, sizeof(from), "m%d", i);
        snprintf(to, sizeof(to), "m%d", i + 1);
        assert_int_equal(pair_list_set(&list, from, to), 0);
    }
    assert_true(pair_makes_circle(lookup, &list, to, "m0"));
    assert_true(pair_makes_circle(lookup, &list, "m5", "m5"));
    assert_true(pair_makes_circle(lookup, &list, "m5", "m4"));
    assert_false(pair_makes_circle(lookup, &list, "m5", "m7"));
    assert_false(pair_makes_circle(lookup, &list, "new", "m0"));
    assert_false(pair_makes_circle(lookup, &list, "m0", ""));
    assert_int_equal(pair_list_set(&list, "m1", ""), 0); /* no draft model: the path ends here */
    assert_false(pair_makes_circle(lookup, &list, to, "m0"));
    assert_int_equal(pair_list_set(&list, "m1", "m0"), 0);
    assert_false(pair_makes_circle(lookup, &list, "new", "m0")); /* the check ends in a circle without its target */
    pair_list_deinit(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pair_list_parse),
        cmocka_unit_test(test_pair_list_refused),
        cmocka_unit_test(test_pair_list_full),
        cmocka_unit_test(test_pair_list_circle),
    };

    return cmocka_run_group_tests_name("pair_list", tests, NULL, NULL);
}
