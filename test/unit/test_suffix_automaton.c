// SPDX-License-Identifier: Apache-2.0
/* Suffix automaton: every substring with its first end as a naive search has it, sizes, steps, account, limit. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spec/drafter.h"
#include "spec/suffix_automaton.h"

enum {
    N_SHORT = 90,
    N_LONG = 1000000
};

static AccountTable table;

static int setup(void **state) {
    account_table_init(&table);
    return 0;
}

static int teardown(void **state) {
    assert_int_equal(table.total_bytes, 0);
    return 0;
}

static uint32_t kind_token(int kind, uint32_t i) {
    static uint32_t seed = 1;

    seed = seed * 1664525 + 1013904223;
    return kind == 0 ? 7 : kind == 1 ? i & 1 : kind == 2 ? (seed >> 16) % 50000 : (seed >> 16) % (uint32_t)(kind - 1);
}

static uint32_t naive_end(const uint32_t *text, uint32_t n, const uint32_t *what, uint32_t len) {
    for (uint32_t i = 0; i + len <= n; i++)
        if (!memcmp(text + i, what, len * sizeof(*text)))
            return i + len;
    return 0;
}

static void check_all(const SuffixAutomaton *automaton, const uint32_t *text, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        SuffixMatch match = { 0 };

        for (uint32_t j = i; j < n; j++) {
            uint32_t len = j - i + 1;

            match = suffix_automaton_follow(automaton, match, text[j]);
            assert_int_equal(match.len, len);
            assert_int_equal(suffix_automaton_first_end(automaton, match.state), naive_end(text, n, text + i, len));
            assert_memory_equal(text + suffix_automaton_last_end(automaton, match.state) - len, text + i,
                                len * sizeof(*text));
        }
    }
}

static void test_suffix_automaton_naive(void **state) {
    for (int kind = 0; kind < 8; kind++) {
        _cleanup_(suffix_automaton_freep) SuffixAutomaton *automaton = NULL;
        uint32_t text[N_SHORT];

        assert_int_equal(suffix_automaton_new(&table, &automaton), 0);
        for (uint32_t i = 0; i < N_SHORT; i++) {
            text[i] = kind_token(kind, i);
            assert_int_equal(suffix_automaton_append(automaton, &text[i], 1), 0);
        }
        check_all(automaton, text, N_SHORT);
        assert_true(suffix_automaton_n_states(automaton) <= 2 * N_SHORT - 1);
        assert_int_equal(suffix_automaton_follow(automaton, (SuffixMatch){ 0 }, 99999).len, 0);
    }
}

static void test_suffix_automaton_linear(void **state) {
    for (int kind = 0; kind < 3; kind++) {
        _cleanup_(suffix_automaton_freep) SuffixAutomaton *automaton = NULL;

        assert_int_equal(suffix_automaton_new(&table, &automaton), 0);
        for (uint32_t i = 0; i < N_LONG; i++) {
            uint32_t token = kind_token(kind, i);

            assert_int_equal(suffix_automaton_append(automaton, &token, 1), 0);
        }
        assert_true(suffix_automaton_steps(automaton) <= 4 * (uint64_t)N_LONG);
        assert_int_equal(suffix_automaton_bytes(automaton), (uint64_t)SUFFIX_AUTOMATON_TOKEN_BYTES << 20);
        assert_true(table.used_bytes[ACCOUNT_DRAFTDB] >= suffix_automaton_bytes(automaton));
    }
}

/* An append that the limit forbids leaves all as it was. */
static void test_suffix_automaton_limit(void **state) {
    _cleanup_(suffix_automaton_freep) SuffixAutomaton *automaton = NULL;
    uint32_t text[200];
    size_t n;

    for (uint32_t i = 0; i < 200; i++)
        text[i] = kind_token(3, i);
    table.limit_bytes[ACCOUNT_DRAFTDB] = 3 * 64 * SUFFIX_AUTOMATON_TOKEN_BYTES - 1;
    assert_int_equal(suffix_automaton_new(&table, &automaton), 0);
    assert_int_equal(suffix_automaton_append(automaton, text, 64), 0);
    assert_int_equal(suffix_automaton_append(automaton, text + 64, 1), DRAFTER_E_MEMORY);
    suffix_automaton_text(automaton, &n);
    assert_int_equal(n, 64);
    check_all(automaton, text, 64);
    table.limit_bytes[ACCOUNT_DRAFTDB] = UINT64_MAX;
    assert_int_equal(suffix_automaton_append(automaton, text + 64, 30), 0);
    check_all(automaton, text, 94);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_suffix_automaton_naive, setup, teardown),
        cmocka_unit_test_setup_teardown(test_suffix_automaton_linear, setup, teardown),
        cmocka_unit_test_setup_teardown(test_suffix_automaton_limit, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
