// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash_table.h"

/* A table of numbers; 0 is a free slot. */
static HashSlotState look(const void *slots, uint32_t at, const void *wanted) {
    const uint64_t *numbers = slots;

    if (!numbers[at])
        return HASH_SLOT_FREE;
    return numbers[at] == *(const uint64_t *)wanted ? HASH_SLOT_SAME : HASH_SLOT_OTHER;
}

static int add(HashTable *table, uint64_t *numbers, uint64_t hash, uint64_t number) {
    uint32_t at = HASH_TABLE_NONE;
    int r = hash_table_place(table, hash, look, numbers, &number, &at);

    if (!r)
        numbers[at] = number;
    return r;
}

static uint64_t *slots_of(HashTable *table, uint64_t n_keys_max, unsigned int load_percent) {
    size_t n_slots = 0;
    uint64_t *numbers;

    assert_int_equal(hash_table_init(table, n_keys_max, load_percent, &n_slots), 0);
    assert_int_equal(n_slots, (size_t)table->mask + 1);
    assert_int_equal(n_slots & table->mask, 0);
    assert_true(n_slots * load_percent >= 100 * n_keys_max);
    numbers = calloc(n_slots, sizeof(*numbers));
    assert_non_null(numbers);
    return numbers;
}

/* Every key that was added is found, at every load up to the largest, and no other. */
static void test_hash_table_finds_what_was_added(void **state) {
    static const uint64_t sizes[] = { 1, 12, 13, 5000, 49152 };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        HashTable table;
        uint64_t *numbers = slots_of(&table, sizes[i], 75);

        for (uint64_t n = 1; n <= sizes[i]; n++)
            assert_int_equal(add(&table, numbers, hash_key_u64(&table.key, n), n), 0);
        for (uint64_t n = 1; n <= sizes[i]; n++) {
            uint32_t at = hash_table_find(&table, hash_key_u64(&table.key, n), look, numbers, &n);

            assert_true(at != HASH_TABLE_NONE && numbers[at] == n);
            assert_int_equal(add(&table, numbers, hash_key_u64(&table.key, n), n), HASH_TABLE_E_PRESENT);
        }
        for (uint64_t n = sizes[i] + 1; n <= 2 * sizes[i]; n++)
            assert_true(hash_table_find(&table, hash_key_u64(&table.key, n), look, numbers, &n) == HASH_TABLE_NONE);
        assert_true(table.n_probes_max < 1000);
        free(numbers);
    }
}

/* Keys of one hash are refused when their run is as long as a look-up may take; those before it are found. */
static void test_hash_table_refuses_clusters(void **state) {
    HashTable table;
    uint64_t *numbers = slots_of(&table, 10000, 50), n = 1;

    for (; n <= HASH_TABLE_PROBES_MAX + 1; n++)
        assert_int_equal(add(&table, numbers, 42, n), 0);
    assert_int_equal(add(&table, numbers, 42, n), HASH_TABLE_E_CLUSTER);
    for (n = 1; n <= HASH_TABLE_PROBES_MAX + 1; n++)
        assert_true(hash_table_find(&table, 42, look, numbers, &n) != HASH_TABLE_NONE);
    assert_true(hash_table_find(&table, 42, look, numbers, &n) == HASH_TABLE_NONE);
    free(numbers);
}

static void test_hash_table_refuses_sizes(void **state) {
    HashTable table;
    size_t n_slots = 7;

    assert_int_equal(hash_table_init(&table, UINT64_MAX, 75, &n_slots), -ENOMEM);
    assert_int_equal(hash_table_init(&table, UINT32_MAX, 1, &n_slots), -ENOMEM);
    assert_int_equal(n_slots, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash_table_finds_what_was_added),
        cmocka_unit_test(test_hash_table_refuses_clusters),
        cmocka_unit_test(test_hash_table_refuses_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
