// SPDX-License-Identifier: Apache-2.0
/* Continuation table: choices against plain arrays of what was observed last; bounds; accounts. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "spec/sources/continuation_table.h"

enum {
    KINDS = 12,
    N_STEPS = 5000
};

typedef struct Seen {
    uint32_t tokens[DRAFT_CHOICES_MAX];
    uint32_t n;
} Seen;

static uint32_t seed = 1;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

static Seen pairs[KINDS][KINDS], singles[KINDS];

static void naive_observe(uint32_t before, uint32_t token, const ContextTop *top, uint32_t n) {
    Seen seen = { .n = MIN(n, DRAFT_CHOICES_MAX) };

    for (uint32_t i = 0; i < seen.n; i++)
        seen.tokens[i] = top[i].token;
    if (!n)
        return;
    singles[token] = seen;
    if (before != CONTEXT_NO_TOKEN)
        pairs[before][token] = seen;
}

static uint32_t naive_add(const Seen *seen, uint32_t *tokens, uint32_t *ranks, uint32_t n, uint32_t max) {
    for (uint32_t i = 0; i < seen->n && n < max; i++) {
        uint32_t j = 0;

        while (j < n && tokens[j] != seen->tokens[i])
            j++;
        if (j < n)
            continue;
        ranks[n] = i;
        tokens[n++] = seen->tokens[i];
    }
    return n;
}

static void test_continuation_table_naive(void **state) {
    const DrafterOps *ops = &continuation_table_ops;
    _cleanup_(continuation_table_freep) ContinuationTable *table = NULL;
    AccountTable accounts;
    uint32_t text[2] = { CONTEXT_NO_TOKEN, CONTEXT_NO_TOKEN };

    account_table_init(&accounts);
    assert_int_equal(continuation_table_new(&accounts, &table), 0);
    assert_int_equal(ops->choices(table, ops->root(table), NULL, 0), 0);
    for (uint32_t i = 0; i < N_STEPS; i++) {
        ContextTop top[12];
        DraftChoice choices[DRAFT_CHOICES_MAX];
        uint32_t before = draw(10) ? draw(KINDS) : CONTEXT_NO_TOKEN, token = draw(KINDS), n = draw(13),
                 first = draw(90);
        uint32_t tokens[DRAFT_CHOICES_MAX], ranks[DRAFT_CHOICES_MAX], n_naive = 0, max = draw(9), next = draw(KINDS);
        DraftCursor at;

        for (uint32_t k = 0; k < n; k++)
            top[k] = (ContextTop){ first + k, 0.5F / (float)(k + 1) };
        naive_observe(before, token, top, n);
        assert_int_equal(continuation_table_observe(table, before, token, top, n, false), 0);
        assert_int_equal(ops->append(table, &next, 1), 0);
        text[0] = text[1];
        text[1] = next;
        at = ops->root(table);
        if (draw(2)) {
            uint32_t more = draw(KINDS);

            at = ops->follow(table, at, more);
            if (text[0] != CONTEXT_NO_TOKEN)
                n_naive = naive_add(&pairs[text[1]][more], tokens, ranks, 0, max);
            else
                n_naive = naive_add(&pairs[next][more], tokens, ranks, 0, max);
            n_naive = naive_add(&singles[more], tokens, ranks, n_naive, max);
        } else {
            if (text[0] != CONTEXT_NO_TOKEN)
                n_naive = naive_add(&pairs[text[0]][next], tokens, ranks, 0, max);
            n_naive = naive_add(&singles[next], tokens, ranks, n_naive, max);
        }
        assert_int_equal(ops->choices(table, at, choices, max), n_naive);
        for (uint32_t k = 0; k < n_naive; k++) {
            DraftCursor after = ops->follow(table, at, tokens[k]);

            assert_int_equal(choices[k].token, tokens[k]);
            assert_int_equal(choices[k].rank, ranks[k]);
            assert_true(choices[k].bucket < DRAFT_BUCKETS);
            assert_memory_equal(&choices[k].next, &after, sizeof(after));
        }
    }
}

static void test_continuation_table_buckets(void **state) {
    const DrafterOps *ops = &continuation_table_ops;
    const ContextTop top[] = { { 5, 0.95F }, { 6, 0.03F } };
    const uint32_t text[] = { 1, 2 };
    _cleanup_(continuation_table_freep) ContinuationTable *table = NULL;
    DraftChoice choices[DRAFT_CHOICES_MAX];
    AccountTable accounts;

    account_table_init(&accounts);
    assert_int_equal(continuation_table_new(&accounts, &table), 0);
    assert_int_equal(ops->append(table, text, 2), 0);
    assert_int_equal(continuation_table_observe(table, 9, 2, top, 2, false), 0);
    assert_int_equal(ops->choices(table, ops->root(table), choices, DRAFT_CHOICES_MAX), 2);
    assert_int_equal(choices[0].bucket, 7);
    assert_int_equal(choices[1].bucket, 1);
    assert_int_equal(continuation_table_observe(table, 1, 2, top, 1, false), 0);
    assert_int_equal(ops->choices(table, ops->root(table), choices, DRAFT_CHOICES_MAX), 1);
    assert_int_equal(choices[0].bucket, CONTEXT_CLASSES + 7);
    for (uint16_t bucket = 0; bucket < DRAFT_BUCKETS; bucket++)
        for (uint16_t rank = 0; rank < DRAFT_RANKS; rank++)
            assert_true(ops->prior(bucket, rank) >= 0.001F && ops->prior(bucket, rank) <= 0.999F);
}

/* If there are too many pairs, the newest stay; all single tokens do. */
static void test_continuation_table_bounds(void **state) {
    _cleanup_(continuation_table_freep) ContinuationTable *table = NULL;
    const ContextTop top = { 5, 0.5F };
    DraftChoice choice;
    AccountTable accounts;
    int r = 0;

    account_table_init(&accounts);
    assert_int_equal(continuation_table_new(&accounts, &table), 0);
    for (uint32_t i = 0; i < 2 * CONTINUATION_PAIRS_MAX; i++)
        assert_int_equal(continuation_table_observe(table, 1, i, &top, 1, false), 0);
    assert_true(accounts.used_bytes[ACCOUNT_DRAFTDB] < 16u << 20);
    for (uint32_t i = 0; i < 2 * CONTINUATION_PAIRS_MAX; i++) {
        assert_int_equal(continuation_table_ops.choices(table, (DraftCursor){ 1, i, 2 }, &choice, 1), 1);
        assert_int_equal(choice.bucket >= CONTEXT_CLASSES, i >= CONTINUATION_PAIRS_MAX);
    }
    accounts.limit_bytes[ACCOUNT_DRAFTDB] = accounts.used_bytes[ACCOUNT_DRAFTDB];
    for (uint32_t i = 0; !r && i < 1 << 17; i++)
        r = continuation_table_observe(table, 2, i, &top, 1, false);
    assert_int_equal(r, DRAFTER_E_MEMORY);
    continuation_table_free(steal(&table));
    assert_int_equal(accounts.total_bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_continuation_table_naive),
        cmocka_unit_test(test_continuation_table_buckets),
        cmocka_unit_test(test_continuation_table_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
