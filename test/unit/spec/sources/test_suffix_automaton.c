// SPDX-License-Identifier: Apache-2.0
/* Suffix automaton: every substring of one text and of several with its first end and count as a naive search has them,
 * nothing that runs across a border, sizes, steps, account, limit. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spec/sources/drafter.h"
#include "spec/sources/suffix_automaton.h"
#include "test/unit/text/tokenizer/hard_text.h"

enum {
    N_SHORT = 120,
    N_LONG = 250000,
    N_TEXTS = 4
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

/* Ends of `what` in the texts of `len` tokens that lie one behind the other: the first of them, and how many. */
static uint32_t naive(const uint32_t *text, uint32_t n, uint32_t text_len, const uint32_t *what, uint32_t len,
                      uint32_t *firstp) {
    uint32_t count = 0;

    for (uint32_t i = 0; i + len <= n; i++) {
        if (i / text_len != (i + len - 1) / text_len || memcmp(text + i, what, len * sizeof(*text)) != 0)
            continue;
        if (!count++)
            *firstp = i + len;
    }
    return count;
}

/* Where a late occurrence of a state's strings ends, with the token behind them. */
static uint32_t last_end_of(const SuffixAutomaton *automaton, uint32_t state, uint32_t token) {
    SuffixNext next = { 0 };
    uint32_t at = 0;

    while (suffix_automaton_next(automaton, state, &at, &next))
        if (next.token == token)
            return next.last_end;
    fail_msg("token %u does not follow", token);
    return 0;
}

static void check_all(const SuffixAutomaton *automaton, const uint32_t *text, uint32_t n, uint32_t text_len,
                      bool is_exact) {
    for (uint32_t i = 0; i < n; i++) {
        SuffixMatch match = { 0 };

        for (uint32_t j = i; j < n && j / text_len == i / text_len; j++) {
            uint32_t len = j - i + 1, first = 0, count = naive(text, n, text_len, text + i, len, &first), last_end;

            last_end = last_end_of(automaton, match.state, text[j]);
            match = suffix_automaton_follow(automaton, match, text[j]);
            assert_int_equal(match.len, len);
            assert_int_equal(suffix_automaton_first_end(automaton, match.state), first);
            assert_memory_equal(text + last_end - len, text + i, len * sizeof(*text));
            assert_in_range(suffix_automaton_count(automaton, match.state), is_exact ? count : 1, count);
        }
    }
}

/* Distinct tokens, all of them, each as often as the string with it. */
static void check_nexts(const SuffixAutomaton *automaton, const uint32_t *text, uint32_t n, uint32_t text_len) {
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t len = 1; len < 4 && (i + len - 1) / text_len == i / text_len && i + len <= n; len++) {
            uint32_t what[4], at = 0, seen[N_SHORT], n_seen = 0, n_others = 0, first;
            SuffixMatch match = { 0 };
            SuffixNext next;

            for (uint32_t j = 0; j < len; j++)
                match = suffix_automaton_follow(automaton, match, what[j] = text[i + j]);
            while (suffix_automaton_next(automaton, match.state, &at, &next)) {
                what[len] = next.token;
                assert_in_range(next.count, 1, naive(text, n, text_len, what, len + 1, &first));
                for (uint32_t j = 0; j < n_seen; j++)
                    assert_int_not_equal(seen[j], next.token);
                seen[n_seen++] = next.token;
            }
            for (uint32_t end = 0; end < n; end++) {
                bool was_there = false;

                for (uint32_t j = 0; j < end; j++)
                    was_there = was_there || text[j] == text[end];
                what[len] = text[end];
                n_others += !was_there && naive(text, n, text_len, what, len + 1, &first);
            }
            assert_int_equal(n_seen, n_others);
        }
}

static void test_suffix_automaton_naive(void **state) {
    for (HardText kind = 0; kind < _HARD_TEXT_N; kind++) {
        _cleanup_(suffix_automaton_freep) SuffixAutomaton *automaton = NULL;
        uint32_t text[N_SHORT];

        hard_text(kind, 1, text, N_SHORT);
        assert_int_equal(suffix_automaton_new(&table, &automaton), 0);
        for (uint32_t i = 0; i < N_SHORT; i++)
            assert_int_equal(suffix_automaton_append(automaton, &text[i], 1), 0);
        check_all(automaton, text, N_SHORT, N_SHORT, hard_text_is_shallow(kind));
        check_nexts(automaton, text, N_SHORT, N_SHORT);
        assert_true(suffix_automaton_n_states(automaton) <= 2 * N_SHORT - 1);
        assert_int_equal(suffix_automaton_follow(automaton, (SuffixMatch){ 0 }, 99999).len, 0);
    }
}

/* The second text is the first one again: no state more. */
static void test_suffix_automaton_borders(void **state) {
    for (HardText kind = 0; kind < _HARD_TEXT_N; kind++) {
        _cleanup_(suffix_automaton_freep) SuffixAutomaton *automaton = NULL;
        const uint32_t len = N_SHORT / N_TEXTS;
        uint32_t text[N_SHORT];
        size_t n_states = 0;

        hard_text(kind, 2, text, N_SHORT);
        memcpy(text + len, text, len * sizeof(*text));
        assert_int_equal(suffix_automaton_new(&table, &automaton), 0);
        suffix_automaton_border(automaton);
        for (uint32_t i = 0; i < N_SHORT; i += len) {
            assert_int_equal(suffix_automaton_append(automaton, text + i, len), 0);
            suffix_automaton_border(automaton);
            if (i == len)
                assert_int_equal(suffix_automaton_n_states(automaton), n_states);
            n_states = suffix_automaton_n_states(automaton);
        }
        check_all(automaton, text, N_SHORT, len, hard_text_is_shallow(kind));
        check_nexts(automaton, text, N_SHORT, len);
        for (uint32_t i = len; i < N_SHORT; i += len) {
            uint32_t first;
            SuffixMatch match = suffix_automaton_follow(automaton, (SuffixMatch){ 0 }, text[i - 1]);

            match = suffix_automaton_follow(automaton, match, text[i]);
            assert_int_equal(match.len == 2, naive(text, N_SHORT, len, text + i - 1, 2, &first) != 0);
        }
    }
}

/* The beginning of a text again and again, as texts of their own, takes no room but the tokens'. */
static void test_suffix_automaton_known(void **state) {
    _cleanup_(suffix_automaton_freep) SuffixAutomaton *automaton = NULL;
    static uint32_t text[20000];
    uint64_t bytes;
    size_t n = ARRAY_LEN(text), n_states;

    hard_text(HARD_TEXT_RANDOM_4, 3, text, ARRAY_LEN(text));
    assert_int_equal(suffix_automaton_new(&table, &automaton), 0);
    assert_int_equal(suffix_automaton_append(automaton, text, ARRAY_LEN(text)), 0);
    suffix_automaton_border(automaton);
    bytes = suffix_automaton_bytes(automaton);
    n_states = suffix_automaton_n_states(automaton);
    for (uint32_t i = 0; i < 1000; i++) {
        n += 1 + i % 999;
        assert_int_equal(suffix_automaton_append(automaton, text, 1 + i % 999), 0);
        suffix_automaton_border(automaton);
    }
    assert_int_equal(suffix_automaton_n_tokens(automaton), n);
    assert_true(suffix_automaton_bytes(automaton) <= bytes + 4 * (uint64_t)n + (1 << 19));
    assert_in_range(suffix_automaton_n_states(automaton), n_states, n_states + 999);
}

static void test_suffix_automaton_linear(void **state) {
    uint32_t *text = malloc(N_LONG * sizeof(*text));

    assert_non_null(text);
    for (HardText kind = 0; kind < _HARD_TEXT_N; kind++)
        for (uint32_t text_len = 1000; text_len <= N_LONG; text_len *= N_LONG / 1000) {
            _cleanup_(suffix_automaton_freep) SuffixAutomaton *automaton = NULL;

            hard_text(kind, 4, text, N_LONG);
            assert_int_equal(suffix_automaton_new(&table, &automaton), 0);
            for (uint32_t i = 0; i < N_LONG; i += text_len) {
                assert_int_equal(suffix_automaton_append(automaton, text + i, text_len), 0);
                suffix_automaton_border(automaton);
            }
            assert_true(suffix_automaton_steps(automaton) <= 4 * (uint64_t)N_LONG);
            assert_true(suffix_automaton_bytes(automaton) <=
                        (uint64_t)SUFFIX_AUTOMATON_TOKEN_BYTES * N_LONG + (1 << 19));
            assert_int_equal(table.used_bytes[ACCOUNT_DRAFTDB], suffix_automaton_bytes(automaton));
        }
    free(text);
}

/* An append that the limit forbids leaves all as it was. */
static void test_suffix_automaton_limit(void **state) {
    _cleanup_(suffix_automaton_freep) SuffixAutomaton *automaton = NULL;
    uint32_t text[250], n = 0;
    int r;

    hard_text(HARD_TEXT_RANDOM_2, 5, text, ARRAY_LEN(text));
    table.limit_bytes[ACCOUNT_DRAFTDB] = 24000;
    assert_int_equal(suffix_automaton_new(&table, &automaton), 0);
    while (n < ARRAY_LEN(text) && !(r = suffix_automaton_append(automaton, &text[n], 1)))
        n++;
    assert_int_equal(r, DRAFTER_E_MEMORY);
    assert_in_range(n, 64, 200);
    assert_int_equal(suffix_automaton_n_tokens(automaton), n);
    check_all(automaton, text, n, n, true);
    table.limit_bytes[ACCOUNT_DRAFTDB] = UINT64_MAX;
    assert_int_equal(suffix_automaton_append(automaton, text + n, 30), 0);
    check_all(automaton, text, n + 30, n + 30, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_suffix_automaton_naive, setup, teardown),
        cmocka_unit_test_setup_teardown(test_suffix_automaton_borders, setup, teardown),
        cmocka_unit_test_setup_teardown(test_suffix_automaton_known, setup, teardown),
        cmocka_unit_test_setup_teardown(test_suffix_automaton_linear, setup, teardown),
        cmocka_unit_test_setup_teardown(test_suffix_automaton_limit, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
