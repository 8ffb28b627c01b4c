// SPDX-License-Identifier: Apache-2.0
/* History: matches and choices are those of a naive search over all texts, and no text runs into the next. Also what
 * makes way for what, readers meanwhile, refused memory, and drafts through a speculator. */
#undef NDEBUG
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "spec/sources/history.h"
#include "spec/sources/suffix_automaton.h"
#include "spec/speculator.h"
#include "test/unit/text/tokenizer/hard_text.h"

static DraftReport report;

enum {
    N_TEXTS = 6,
    LEN = 60,
    N_READ = 80,
    BYTES_LARGE = 64 << 20,
    BYTES_SMALL = 256 << 10
};

static const DrafterOps *const ops = &history_drafter_ops;
static AccountTable table;

static int setup(void **state) {
    account_table_init(&table);
    return 0;
}

static int teardown(void **state) {
    assert_int_equal(table.total_bytes, 0);
    return 0;
}

static uint32_t match_len(const HistoryReader *reader) {
    DraftCursor at = ops->root(reader);

    return at.c >> 16 > (at.c & 0xFFFF) ? at.c >> 16 : at.c & 0xFFFF;
}

static void assert_same_cursor(DraftCursor one, DraftCursor other) {
    assert_int_equal(one.a, other.a);
    assert_int_equal(one.b, other.b);
    assert_int_equal(one.c, other.c);
}

/* Counts how often a string is in the first n_texts of the texts. */
static uint32_t naive_count(uint32_t texts[][LEN], uint32_t n_texts, const uint32_t *what, uint32_t len) {
    uint32_t count = 0;

    for (uint32_t t = 0; t < n_texts; t++)
        for (uint32_t i = 0; i + len <= LEN; i++)
            count += !memcmp(texts[t] + i, what, len * sizeof(*what));
    return count;
}

typedef struct Naive {
    uint32_t token, len, count, total;
} Naive;

static int compare_naive(const void *one, const void *other) {
    const Naive *a = one, *b = other;

    return a->len != b->len ? (a->len < b->len ? 1 : -1) : a->count != b->count ? (a->count < b->count ? 1 : -1) : 0;
}

/* Lists all tokens that may come behind the text, best first. */
static uint32_t naive_choices(uint32_t texts[][LEN], uint32_t n_texts, const uint32_t *text, uint32_t n,
                              Naive *choices) {
    uint32_t n_choices = 0, what[N_READ + 1];

    for (uint32_t len = MIN(n, LEN); len; len--) {
        uint32_t total = naive_count(texts, n_texts, text + n - len, len);

        memcpy(what, text + n - len, len * sizeof(*what));
        for (uint32_t i = 0; total && i < n_texts * LEN; i++) {
            Naive choice = { .token = texts[i / LEN][i % LEN], .len = len, .total = total };
            bool was_there = false;

            for (uint32_t j = 0; j < n_choices; j++)
                was_there = was_there || choices[j].token == choice.token;
            what[len] = choice.token;
            choice.count = was_there ? 0 : naive_count(texts, n_texts, what, len + 1);
            if (choice.count)
                choices[n_choices++] = choice;
        }
    }
    qsort(choices, n_choices, sizeof(*choices), compare_naive);
    return n_choices;
}

static uint16_t expected_bucket(Naive choice) {
    uint16_t class = 0;

    for (uint32_t len = choice.len; len > 1; len /= 2)
        class ++;
    return (uint16_t)(2 * MIN(class, 7) + (2 * choice.count > choice.total + 1));
}

/* If two tokens are equally good, either may come first. */
static void check_choices(const HistoryReader *reader, uint32_t texts[][LEN], uint32_t n_texts, const uint32_t *text,
                          uint32_t n, bool is_exact) {
    DraftChoice choices[DRAFT_CHOICES_MAX];
    size_t n_choices = ops->choices(reader, ops->root(reader), choices, DRAFT_CHOICES_MAX);
    Naive naive[N_TEXTS * LEN];
    uint32_t n_all = naive_choices(texts, n_texts, text, n, naive), n_naive = n_all;

    n_naive = MIN(n_naive, DRAFT_CHOICES_MAX);
    assert_in_range(n_choices, is_exact ? n_naive : n_naive > 0, n_naive);
    for (size_t i = 0; i < n_choices; i++) {
        uint32_t at = 0;

        while (at < n_all && naive[at].token != choices[i].token)
            at++;
        assert_true(at < n_all);
        assert_int_equal(naive[at].len, naive[i].len);
        assert_int_equal(choices[i].rank, i);
        if (!is_exact)
            continue;
        assert_int_equal(naive[at].count, naive[i].count);
        assert_int_equal(choices[i].bucket, expected_bucket(naive[at]));
        assert_same_cursor(choices[i].next, ops->follow(reader, ops->root(reader), choices[i].token));
    }
}

/* Adds tokens that no other text has, until the young texts are old: a reader of one such token tells. */
static void make_old(History *history, uint32_t token) {
    _cleanup_(history_reader_freep) HistoryReader *reader = NULL;
    uint32_t filler[LEN];

    assert_int_equal(history_reader_new(history, &reader), 0);
    assert_int_equal(ops->append(reader, &token, 1), 0);
    assert_int_equal(ops->root(reader).c, 1 << 16);
    for (uint32_t n = 1 << 20; ops->root(reader).c == 1 << 16;) {
        for (uint32_t i = 0; i < LEN; i++)
            filler[i] = n++;
        assert_int_equal(history_add(history, filler, LEN), 0);
    }
    assert_int_equal(ops->root(reader).c, 1);
}

/* A running text that copies from the texts here and there while texts come; the first half of the texts may be old. */
static void check_naive(HardText kind, uint32_t old_at) {
    _cleanup_(history_freep) History *history = NULL;
    _cleanup_(history_reader_freep) HistoryReader *reader = NULL;
    uint32_t texts[N_TEXTS][LEN], text[N_READ], n_texts = 0;

    for (uint32_t t = 0; t < N_TEXTS; t++)
        hard_text(kind, 10 + t, texts[t], LEN);
    hard_text(kind, 99, text, N_READ);
    memcpy(text + 20, texts[0] + 15, 12 * sizeof(*text));
    memcpy(text + 50, texts[N_TEXTS - 1] + 30, 20 * sizeof(*text));
    assert_int_equal(history_new(&table, BYTES_SMALL, &history), 0);
    assert_int_equal(history_reader_new(history, &reader), 0);
    assert_int_equal(ops->choices(reader, ops->root(reader), NULL, 0), 0);
    for (uint32_t n = 1; n <= N_READ; n++) {
        uint32_t len = MIN(n, LEN);

        assert_int_equal(ops->append(reader, &text[n - 1], 1), 0);
        if (n % 12 == 5 && n_texts < N_TEXTS) {
            assert_int_equal(history_add(history, texts[n_texts++], LEN), 0);
            if (n_texts == old_at)
                make_old(history, texts[0][0]);
        }
        while (len && !naive_count(texts, n_texts, text + n - len, len))
            len--;
        assert_int_equal(match_len(reader), len);
        check_choices(reader, texts, n_texts, text, n, hard_text_is_shallow(kind));
    }
    assert_true(old_at || history_stats(history).n_texts == N_TEXTS);
    assert_true(old_at || history_stats(history).n_tokens == N_TEXTS * LEN);
}

static void test_history_naive(void **state) {
    for (HardText kind = 0; kind < _HARD_TEXT_N; kind++)
        check_naive(kind, 0);
}

static void test_history_ages(void **state) {
    for (HardText kind = 0; kind < _HARD_TEXT_N; kind++)
        check_naive(kind, 1 + kind % (N_TEXTS - 1));
}

/* Nothing comes behind the last token of a text or before its first one. */
static void test_history_borders(void **state) {
    _cleanup_(history_freep) History *history = NULL;
    _cleanup_(history_reader_freep) HistoryReader *reader = NULL;
    static const uint32_t one[] = { 1, 2, 3 }, other[] = { 4, 5, 6 };
    DraftChoice choices[DRAFT_CHOICES_MAX];

    assert_int_equal(history_new(&table, BYTES_LARGE, &history), 0);
    assert_int_equal(history_add(history, NULL, 0), 0);
    assert_int_equal(history_add(history, one, 3), 0);
    assert_int_equal(history_add(history, NULL, 0), 0);
    assert_int_equal(history_add(history, other, 3), 0);
    assert_int_equal(history_stats(history).n_texts, 2);
    assert_int_equal(history_reader_new(history, &reader), 0);
    assert_int_equal(ops->append(reader, one, 3), 0);
    assert_int_equal(match_len(reader), 3);
    assert_int_equal(ops->choices(reader, ops->root(reader), choices, DRAFT_CHOICES_MAX), 0);
    assert_int_equal(ops->append(reader, other, 2), 0);
    assert_int_equal(match_len(reader), 2);
    assert_int_equal(ops->choices(reader, ops->root(reader), choices, DRAFT_CHOICES_MAX), 1);
    assert_int_equal(choices[0].token, 6);
}

static void check_order(History *history, const uint32_t *tokens, uint32_t n) {
    _cleanup_(history_reader_freep) HistoryReader *reader = NULL;
    DraftChoice choices[DRAFT_CHOICES_MAX];

    assert_int_equal(history_reader_new(history, &reader), 0);
    assert_int_equal(ops->append(reader, &(uint32_t){ 1 }, 1), 0);
    assert_int_equal(ops->choices(reader, ops->root(reader), choices, DRAFT_CHOICES_MAX), n);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(choices[i].token, tokens[i]);
    assert_int_equal(ops->choices(reader, ops->root(reader), choices, 1), 1);
    assert_int_equal(choices[0].token, tokens[0]);
}

/* The latest of tokens that came equally often is first; young ones come before old ones. */
static void test_history_latest(void **state) {
    _cleanup_(history_freep) History *history = NULL;

    assert_int_equal(history_new(&table, BYTES_SMALL, &history), 0);
    for (uint32_t token = 2; token < 6; token++)
        assert_int_equal(history_add(history, (uint32_t[]){ 1, token }, 2), 0);
    check_order(history, (uint32_t[]){ 5, 4, 3, 2 }, 4);
    assert_int_equal(history_add(history, (uint32_t[]){ 1, 3 }, 2), 0);
    check_order(history, (uint32_t[]){ 3, 5, 4, 2 }, 4);
    make_old(history, 1);
    assert_int_equal(history_add(history, (uint32_t[]){ 1, 9 }, 2), 0);
    check_order(history, (uint32_t[]){ 3, 9, 5, 4, 2 }, 5);
    assert_int_equal(history_add(history, (uint32_t[]){ 1, 4 }, 2), 0);
    check_order(history, (uint32_t[]){ 4, 3, 9, 5, 2 }, 5);
}

/* Makes text i of many: its own first token, then tokens as random as they come. */
static void numbered_text(uint32_t i, uint32_t *text, uint32_t n) {
    hard_text(HARD_TEXT_RANDOM_MANY, i, text, n);
    text[0] = 60000 + i;
}

static void test_history_makes_way(void **state) {
    static const uint32_t lens[] = { 100, 700, 20000 };

    for (uint32_t l = 0; l < ARRAY_LEN(lens); l++) {
        _cleanup_(history_freep) History *history = NULL;
        _cleanup_(history_reader_freep) HistoryReader *reader = NULL;
        uint32_t n_found = 0, n_texts = 200000 / lens[l];
        static uint32_t text[20000];
        HistoryStats stats = { 0 };

        assert_int_equal(history_new(&table, 4 * BYTES_SMALL, &history), 0);
        assert_int_equal(history_reader_new(history, &reader), 0);
        for (uint32_t i = 0; i < n_texts; i++) {
            numbered_text(i, text, lens[l]);
            assert_int_equal(ops->append(reader, text + lens[l] - 50, 25), 0);
            assert_int_equal(history_add(history, text, lens[l]), 0);
            stats = history_stats(history);
            assert_true(stats.bytes <= 4 * BYTES_SMALL);
            assert_int_equal(stats.bytes, table.used_bytes[ACCOUNT_DRAFTDB]);
            /* At least half of the room is used. */
            assert_true(stats.n_tokens >= 2 * BYTES_SMALL / SUFFIX_AUTOMATON_TOKEN_BYTES - 2000 ||
                        stats.n_tokens >= (uint64_t)(i + 1) * lens[l]);
            /* Checks that the text is there to its end, and that the reader's last tokens are found in it. */
            assert_int_equal(match_len(reader), 25);
        }
        for (uint32_t i = 0; i < n_texts; i++) {
            _cleanup_(history_reader_freep) HistoryReader *probe = NULL;

            numbered_text(i, text, lens[l]);
            assert_int_equal(history_reader_new(history, &probe), 0);
            assert_int_equal(ops->append(probe, text, 1), 0);
            assert_true(match_len(probe) || !n_found); /* the oldest texts are gone, and none in between */
            n_found += match_len(probe);
        }
        assert_true(lens[l] == 20000 || (n_found && n_found < n_texts));
        assert_true(stats.n_texts >= n_found && stats.n_texts <= n_found + 1);
    }
}

/* A reader whose texts went is where a new reader with its last tokens would be; it still has whole what is not
 * gone. */
static void test_history_readers(void **state) {
    _cleanup_(history_freep) History *history = NULL;
    HistoryReader *readers[5], *anew;
    static uint32_t text[1000];
    uint32_t n_reads = 0;

    assert_int_equal(history_new(&table, BYTES_SMALL, &history), 0);
    for (uint32_t i = 0; i < ARRAY_LEN(readers); i++)
        assert_int_equal(history_reader_new(history, &readers[i]), 0);
    for (uint32_t i = 0; i < 60; i++) {
        for (uint32_t j = 0; j < ARRAY_LEN(readers); j++) {
            /* reader 0 in every round, the last one in every 16th: several shifts go by */
            if (i % (1u << j))
                continue;
            numbered_text(i, text, 1000);
            assert_int_equal(history_reader_new(history, &anew), 0);
            assert_int_equal(ops->append(readers[j], text + 100 * j, 200), 0);
            assert_int_equal(ops->append(anew, text + 100 * j, 200), 0);
            assert_same_cursor(ops->root(readers[j]), ops->root(anew));
            history_reader_free(anew);
            n_reads++;
        }
        numbered_text(i, text, 1000);
        assert_int_equal(history_add(history, text, 1000), 0);
        assert_int_equal(match_len(readers[0]), HISTORY_REMATCH);
        assert_int_equal(ops->append(readers[0], text + 200, 100), 0);
        /* Some of the text before a cut is there behind the cut, too. */
        assert_in_range(match_len(readers[0]), HISTORY_REMATCH, HISTORY_REMATCH + 100);
    }
    assert_true(n_reads > 60);
    history_free(steal(&history));
    assert_int_equal(table.total_bytes, 0);
    for (uint32_t i = 0; i < ARRAY_LEN(readers); i++) {
        DraftChoice choices[DRAFT_CHOICES_MAX];

        assert_int_equal(ops->choices(readers[i], ops->root(readers[i]), choices, DRAFT_CHOICES_MAX), 0);
        assert_int_equal(ops->append(readers[i], text, 10), 0);
        assert_int_equal(match_len(readers[i]), 0);
        history_reader_free(readers[i]);
    }
}

/* A match that is longer than a cursor can say keeps the longest possible length. */
static void test_history_long_match(void **state) {
    static uint32_t text[70000];

    for (HardText kind = 0; kind < _HARD_TEXT_N; kind++) {
        _cleanup_(history_freep) History *history = NULL;
        _cleanup_(history_reader_freep) HistoryReader *reader = NULL;
        DraftChoice choices[DRAFT_CHOICES_MAX];

        hard_text(kind, 7, text, ARRAY_LEN(text));
        assert_int_equal(history_new(&table, BYTES_LARGE, &history), 0);
        assert_int_equal(history_reader_new(history, &reader), 0);
        assert_int_equal(history_add(history, text, ARRAY_LEN(text)), 0);
        assert_int_equal(ops->append(reader, text, ARRAY_LEN(text) - 1), 0);
        assert_int_equal(match_len(reader), 0xFFFF);
        assert_true(ops->choices(reader, ops->root(reader), choices, DRAFT_CHOICES_MAX) >= 1);
        assert_int_equal(choices[0].token, text[ARRAY_LEN(text) - 1]);
        assert_int_equal(choices[0].bucket / 2, DRAFT_BUCKETS / 2 - 1);
    }
}

/* If others have the memory, older texts make way; without any memory all texts are gone. */
static void test_history_memory(void **state) {
    _cleanup_(history_freep) History *history = NULL;
    _cleanup_(history_reader_freep) HistoryReader *reader = NULL;
    static uint32_t text[1000];
    uint32_t n_kept = 0;
    int r = 0;

    assert_int_equal(history_new(&table, BYTES_LARGE, &history), 0);
    assert_int_equal(history_reader_new(history, &reader), 0);
    table.limit_bytes[ACCOUNT_DRAFTDB] = 600000;
    for (uint32_t i = 0; i < 100; i++) {
        numbered_text(i, text, 1000);
        r = history_add(history, text, 1000);
        assert_true(!r || r == DRAFTER_E_MEMORY);
        assert_true(table.used_bytes[ACCOUNT_DRAFTDB] <= 600000);
        assert_int_equal(ops->append(reader, text + 900, 100), 0);
        assert_true(r || match_len(reader) == 100);
        n_kept += !r;
    }
    assert_true(n_kept > 40);
    table.limit_bytes[ACCOUNT_DRAFTDB] = 0;
    r = 0;
    for (uint32_t i = 0; i < 100 && !r; i++)
        r = history_add(history, text + i, 1000 - i);
    assert_int_equal(r, DRAFTER_E_MEMORY);
    table.limit_bytes[ACCOUNT_DRAFTDB] = UINT64_MAX;
    assert_int_equal(history_add(history, text, 1000), 0);
    history_free(steal(&history));
    history_reader_free(steal(&reader));
    assert_int_equal(history_new(&table, 1000, &history), 0);
    assert_int_equal(history_add(history, text, 1000), 0);
    assert_int_equal(history_stats(history).n_texts, 0);
}

static void *build(void *arg) {
    History **historyp = arg;
    uint32_t text[LEN];

    assert_int_equal(history_new(&table, BYTES_LARGE, historyp), 0);
    for (uint32_t i = 0; i < 10; i++) {
        numbered_text(i, text, LEN);
        assert_int_equal(history_add(*historyp, text, LEN), 0);
    }
    return NULL;
}

/* A history that was built elsewhere is used here, with later texts behind it. */
static void test_history_handed_over(void **state) {
    _cleanup_(history_freep) History *history = NULL;
    _cleanup_(history_reader_freep) HistoryReader *reader = NULL;
    uint32_t text[LEN];
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, build, &history), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(history_reader_new(history, &reader), 0);
    for (uint32_t i = 10; i < 20; i++) {
        numbered_text(i, text, LEN);
        assert_int_equal(history_add(history, text, LEN), 0);
    }
    for (uint32_t i = 0; i < 20; i++) {
        numbered_text(i, text, LEN);
        assert_int_equal(ops->append(reader, text, LEN), 0);
        assert_int_equal(match_len(reader), LEN);
    }
}

/* A text as an earlier one, with an answer that differs in one place: long drafts, of which most are right. */
static void test_history_speculator(void **state) {
    _cleanup_(history_freep) History *history = NULL;
    _cleanup_(speculator_freep) Speculator *speculator = NULL;
    uint32_t text[400], n = 20, n_steps = 0;
    float ms[DRAFT_ROWS_MAX];
    SpeculatorOptions options = { .sources = 1u << SPECULATION_HISTORY | 1u << SPECULATION_SAM,
                                  .report = &report,
                                  .nodes_max = 31 };

    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 10 + (float)i / 8;
    hard_text(HARD_TEXT_RANDOM_MANY, 1, text, ARRAY_LEN(text));
    assert_int_equal(history_new(&table, BYTES_LARGE, &history), 0);
    assert_int_equal(history_add(history, text, ARRAY_LEN(text)), 0);
    options.history = history;
    assert_int_equal(speculator_new(&table, &options, &speculator), 0);
    text[200] = 123456;
    speculator_append(speculator, text, n);
    for (; n < ARRAY_LEN(text); n_steps++) {
        uint32_t accepted[DRAFT_ROWS_MAX], n_accepted = 0;
        DraftTree tree;
        int row = 0;

        speculator_draft(speculator, (DraftLimits){ 31, 31, ARRAY_LEN(text) - n },
                         (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX }, NULL, &tree);
        while ((row = draft_tree_child(&tree, (uint32_t)row, text[n + n_accepted])) > 0)
            accepted[n_accepted++] = (uint32_t)row;
        speculator_verified(speculator, &tree, accepted, n_accepted, text[n + n_accepted], NULL);
        speculator_append(speculator, text + n, n_accepted + 1);
        n += n_accepted + 1;
    }
    assert_int_equal(n, ARRAY_LEN(text));
    assert_true(n_steps <= 30); /* at least 13 tokens a step */
    assert_true(report.accepted[SPECULATION_HISTORY] >= ARRAY_LEN(text) - 20 - n_steps);
    assert_int_equal(report.accepted[SPECULATION_SAM], 0);
}

static void test_history_prior(void **state) {
    for (uint16_t bucket = 0; bucket < DRAFT_BUCKETS; bucket++)
        for (uint16_t rank = 0; rank < DRAFT_RANKS; rank++) {
            float prior = ops->prior(bucket, rank);

            assert_true(prior >= 0.001F && prior <= 0.999F);
            assert_true(!rank || prior < ops->prior(bucket, (uint16_t)(rank - 1)));
            assert_true(bucket < 2 || prior > ops->prior((uint16_t)(bucket - 2), rank));
            assert_true(bucket % 2 == 0 || prior > ops->prior((uint16_t)(bucket - 1), rank));
        }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_history_naive),      TEST(test_history_ages),      TEST(test_history_borders),
        TEST(test_history_latest),     TEST(test_history_makes_way), TEST(test_history_readers),
        TEST(test_history_long_match), TEST(test_history_memory),    TEST(test_history_handed_over),
        TEST(test_history_speculator), TEST(test_history_prior),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
