// SPDX-License-Identifier: Apache-2.0
/* Context map: against a plain list in order of use; growth, the newest win, accounts. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spec/sources/context_map.h"

enum {
    LIMIT = 128,
    N_STEPS = 20000
};

typedef struct Naive {
    uint64_t keys[LIMIT]; /* the newest last */
    uint32_t values[LIMIT];
    uint32_t n;
} Naive;

static uint32_t seed = 1;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

static uint32_t naive_find(const Naive *naive, uint64_t key) {
    uint32_t i = 0;

    while (i < naive->n && naive->keys[i] != key)
        i++;
    return i;
}

/* The key is the newest afterwards; its value before, 0 when it was not there. */
static uint32_t naive_put(Naive *naive, uint64_t key, uint32_t value) {
    uint32_t at = naive_find(naive, key), old = at < naive->n ? naive->values[at] : 0;

    if (at == naive->n && naive->n == LIMIT)
        at = 0;
    if (at < naive->n) {
        naive->n--;
        memmove(&naive->keys[at], &naive->keys[at + 1], (naive->n - at) * sizeof(*naive->keys));
        memmove(&naive->values[at], &naive->values[at + 1], (naive->n - at) * sizeof(*naive->values));
    }
    naive->keys[naive->n] = key;
    naive->values[naive->n++] = value;
    return old;
}

static void test_context_map_naive(void **state) {
    _cleanup_(context_map_freep) ContextMap *map = NULL;
    AccountTable accounts;
    Naive naive = { 0 };

    account_table_init(&accounts);
    assert_int_equal(context_map_new(&accounts, 12, LIMIT, &map), 0);
    assert_null(context_map_find(map, 0));
    for (uint32_t i = 1; i <= N_STEPS; i++) {
        uint64_t key = context_pair(draw(2), draw(100));
        void *value;

        assert_int_equal(context_map_put(map, key, &value), 0);
        assert_int_equal(*(uint32_t *)value, naive_put(&naive, key, i));
        *(uint32_t *)value = i;
        for (uint64_t probe = 0; probe < 3; probe++) {
            uint64_t other = context_pair(draw(2), draw(100));
            uint32_t at = naive_find(&naive, other);
            const uint32_t *found = context_map_find(map, other);

            assert_int_equal(found ? *found : 0, at < naive.n ? naive.values[at] : 0);
        }
    }
    assert_int_equal(naive.n, LIMIT);
    context_map_free(steal(&map));
    assert_int_equal(accounts.total_bytes, 0);
}

static void test_context_map_memory(void **state) {
    _cleanup_(context_map_freep) ContextMap *map = NULL;
    AccountTable accounts;
    void *value;
    uint32_t n = 0;
    int r;

    account_table_init(&accounts);
    accounts.limit_bytes[ACCOUNT_DRAFTDB] = 40000;
    assert_int_equal(context_map_new(&accounts, 60, 1 << 16, &map), 0);
    while (!(r = context_map_put(map, n, &value))) {
        *(uint32_t *)value = n++;
        assert_true(n < 1000);
    }
    assert_int_equal(r, DRAFTER_E_MEMORY);
    assert_true(n >= 64);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(*(const uint32_t *)context_map_find(map, i), i);
    assert_int_equal(context_map_put(map, 3, &value), 0);
}

static void test_context_map_classes(void **state) {
    assert_int_equal(context_class(0), 0);
    assert_int_equal(context_class(1), CONTEXT_CLASSES - 1);
    assert_int_equal(context_class(__builtin_nanf("")), 0);
    for (uint16_t class = 0; class < CONTEXT_CLASSES; class ++)
        assert_int_equal(context_class(context_class_typical(class)), class);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context_map_naive),
        cmocka_unit_test(test_context_map_memory),
        cmocka_unit_test(test_context_map_classes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
