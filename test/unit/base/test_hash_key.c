// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash_key.h"

static void test_hash_key_is_another_each_time(void **state) {
    HashKey a, b;

    assert_int_equal(hash_key_init(&a), 0);
    assert_int_equal(hash_key_init(&b), 0);
    assert_true(a.seed != b.seed);
    assert_true(a.factor != b.factor);
    assert_int_equal(a.factor & b.factor & 1, 1);
    assert_true(hash_key_u64(&a, 5) != hash_key_u64(&b, 5));
    assert_true(hash_key_text(&a, "text", 4) != hash_key_text(&b, "text", 4));
}

/* The hash depends on every byte and on nothing else, at every length and address. */
static void test_hash_key_text_depends_on_its_bytes(void **state) {
    char text[40], moved[48];
    HashKey key;

    assert_int_equal(hash_key_init(&key), 0);
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i * 37);
    for (size_t len_bytes = 0; len_bytes < sizeof(text) - 1; len_bytes++) {
        uint64_t hash = hash_key_text(&key, text, len_bytes);

        memset(moved, 0x55, sizeof(moved));
        memcpy(moved + 3, text, len_bytes);
        assert_true(hash_key_text(&key, moved + 3, len_bytes) == hash);
        for (size_t i = 0; i < len_bytes; i++) {
            moved[3 + i] ^= 1;
            assert_true(hash_key_text(&key, moved + 3, len_bytes) != hash);
            moved[3 + i] ^= 1;
        }
        moved[3 + len_bytes] = 0; /* with a further NUL the text is another one */
        assert_true(hash_key_text(&key, moved + 3, len_bytes + 1) != hash);
    }
}

/* Consecutive numbers spread: of 4096 in as many slots, the fullest of 64 parts has less than twice its share. */
static void test_hash_key_spreads_numbers_in_a_row(void **state) {
    for (int round = 0; round < 100; round++) {
        unsigned int low[64] = { 0 }, high[64] = { 0 };
        HashKey key;

        assert_int_equal(hash_key_init(&key), 0);
        for (uint64_t i = 0; i < 4096; i++) {
            low[(hash_key_u64(&key, i) & 4095) >> 6]++;
            high[(hash_key_u64(&key, i << 32 | 7) & 4095) >> 6]++;
        }
        for (size_t i = 0; i < 64; i++) {
            assert_in_range(low[i], 1, 128);
            assert_in_range(high[i], 1, 128);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash_key_is_another_each_time),
        cmocka_unit_test(test_hash_key_text_depends_on_its_bytes),
        cmocka_unit_test(test_hash_key_spreads_numbers_in_a_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
