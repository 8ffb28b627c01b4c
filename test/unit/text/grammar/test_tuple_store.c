// SPDX-License-Identifier: Apache-2.0
/* Tuples of numbers: equal ones have equal ids, also when the table has grown and in copies. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/grammar/tuple_store.h"

enum {
    TUPLES = 50000
};

/* Makes the tuple of a number: 0 to 5 words, many of which are equal. */
static size_t make_tuple(uint32_t number, uint32_t words[5]) {
    const size_t n = number ? 1 + number % 5 : 0;

    for (size_t i = 0; i < n; i++)
        words[i] = i ? 7 : number / 5;
    return n;
}

static void check_all(const TupleStore *store, uint32_t n) {
    for (uint32_t id = 0; id < n; id++) {
        uint32_t words[5];
        const size_t n_words = make_tuple(id, words);
        size_t n_held;
        const uint32_t *held = tuple_store_words(store, id, &n_held);

        assert_int_equal(tuple_store_find(store, words, n_words), id);
        assert_int_equal(n_held, n_words);
        assert_true(!n_words || !memcmp(held, words, n_words * sizeof(*words)));
    }
}

static void test_tuples_grow(void **state) {
    TupleStore store, copy;
    uint32_t words[5], id;
    size_t n_bytes = 0;

    assert_int_equal(tuple_store_init(&store), 0);
    for (uint32_t number = 0; number < TUPLES; number++) {
        const size_t n = make_tuple(number, words);

        assert_int_equal(tuple_store_find(&store, words, n), UINT32_MAX);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(tuple_store_intern(&store, words, n, &id), 0);
            assert_int_equal(id, number);
        }
        assert_true(tuple_store_memory_bytes(&store) >= n_bytes);
        n_bytes = tuple_store_memory_bytes(&store);
    }
    check_all(&store, TUPLES);
    assert_int_equal(store.n, TUPLES);
    assert_int_equal(tuple_store_copy(&copy, &store), 0);
    for (uint32_t number = TUPLES; number < 2 * TUPLES; number++) {
        assert_int_equal(tuple_store_intern(&copy, words, make_tuple(number, words), &id), 0);
        assert_int_equal(id, number);
    }
    check_all(&copy, 2 * TUPLES);
    check_all(&store, TUPLES);
    assert_int_equal(tuple_store_find(&store, words, make_tuple(TUPLES, words)), UINT32_MAX);
    tuple_store_deinit(&copy);
    tuple_store_deinit(&store);
}

/* Tuples of which one is the beginning of another, or the same but for one word, are different. */
static void test_tuples_differ(void **state) {
    const uint32_t words[] = { 0, 0, 0, 1, 0, 0, 2, 0 };
    TupleStore store;
    uint32_t id, n = 0;

    assert_int_equal(tuple_store_init(&store), 0);
    for (size_t length = 0; length <= 8; length++, n++) {
        assert_int_equal(tuple_store_intern(&store, words, length, &id), 0);
        assert_int_equal(id, n);
    }
    for (size_t at = 0; at < 8; at++, n++) {
        uint32_t other[8];

        memcpy(other, words, sizeof(words));
        other[at] ^= 0x80000000u;
        assert_int_equal(tuple_store_intern(&store, other, 8, &id), 0);
        assert_int_equal(id, n);
    }
    tuple_store_deinit(&store);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_tuples_grow), cmocka_unit_test(test_tuples_differ) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
