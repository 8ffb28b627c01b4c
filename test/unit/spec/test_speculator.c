// SPDX-License-Identifier: Apache-2.0
/* A speculator at work on a made-up target. With every set of sources the tokens of a greedy run are those of a plain
 * run; counters add up; missing memory turns sources off. */
#undef NDEBUG
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "spec/sources/history.h"
#include "spec/speculator.h"
#include "test/unit/fixtures/policies.h"
#include "test/unit/fixtures/sim_model.h"

static DraftReport report;

enum {
    KINDS = SIM_KINDS,
    N_PROMPT = 200,
    N_NEW = 300,
    N_TEXT = N_PROMPT + N_NEW
};

/* The target copies what followed the same pair before; a little further on it errs. */
static uint32_t target(const uint32_t *text, uint32_t n) {
    if (sim_mix(n, text[n - 1]) % 7)
        for (uint32_t i = n - 1; i > 1; i--)
            if (text[i - 1] == text[n - 1] && text[i - 2] == text[n - 2])
                return text[i];
    return sim_mix(text[n - 1], text[n - 2]) % KINDS;
}

static void target_top(const uint32_t *text, uint32_t n, ContextTop *top) {
    uint32_t first = target(text, n);

    for (uint32_t i = 0; i < DRAFT_CHOICES_MAX; i++)
        top[i] = (ContextTop){ (first + i * 7) % KINDS, 0.6F / (float)(1 + i) };
}

/* A draft model that often proposes the target's token, with chances that do not fit. */
typedef struct Peek {
    DraftModelOps ops;
    uint32_t percent, n_passes, fails_at; /* percent of right drafts; the pass that fails, from 1, or 0 */
    uint32_t n, n_rows;
    uint32_t paths[MODEL_ROWS_MAX][64], depths[MODEL_ROWS_MAX]; /* rows behind the text */
    uint32_t text[N_TEXT + DRAFT_ROWS_MAX + 64];
} Peek;

static int peek_follow(void *self, const uint32_t *text, size_t n) {
    Peek *peek = self;

    assert_true(n >= peek->n && n <= N_TEXT);
    assert_memory_equal(text, peek->text, peek->n * sizeof(*text));
    memcpy(peek->text, text, n * sizeof(*text));
    peek->n = (uint32_t)n;
    peek->n_rows = 0;
    return 0;
}

static int peek_expand(void *self, const DraftModelRow *rows, size_t n, DraftModelTops *tops) {
    Peek *peek = self;

    if (++peek->n_passes == peek->fails_at)
        return -EIO;
    for (size_t i = 0; i < n; i++) {
        const uint32_t row = peek->n_rows++;
        uint32_t first, dice, depth = 0;

        if (row) {
            depth = peek->depths[rows[i].parent];
            memcpy(peek->paths[row], peek->paths[rows[i].parent], depth * sizeof(**peek->paths));
            peek->paths[row][depth++] = rows[i].token;
        }
        peek->depths[row] = depth;
        memcpy(peek->text + peek->n, peek->paths[row], depth * sizeof(**peek->paths));
        first = target(peek->text, peek->n + depth);
        dice = sim_mix(peek->n + depth, rows[i].token);
        first = dice % 100 < peek->percent ? first : (first + dice) % KINDS;
        tops[i].n = DRAFT_CHOICES_MAX;
        for (uint32_t k = 0; k < DRAFT_CHOICES_MAX; k++)
            tops[i].tops[k] = (ContextTop){ (first + k * 5) % KINDS, 0.7F / (float)(1 << (2 * k)) };
    }
    return 0;
}

static float peek_cost_ms(const void *self, uint32_t n_rows) {
    return 1 + (float)n_rows / 16;
}

static DraftModel peek_model(Peek *peek, uint32_t percent) {
    *peek = (Peek){ .ops = { peek_follow, peek_expand, peek_cost_ms, 300, false }, .percent = percent };
    return (DraftModel){ &peek->ops, peek };
}

static const ModelBudget all_the_time = { .ms = INFINITY };

static void plain_run(uint32_t *text) {
    for (uint32_t i = 0; i < N_PROMPT; i++)
        text[i] = i < 60 ? sim_mix(5, i) % KINDS : i % 11 ? text[i - 47] : sim_mix(6, i) % KINDS;
    for (uint32_t i = N_PROMPT; i < N_TEXT; i++)
        text[i] = target(text, i);
}

/* Makes a step: the text is verified at every row, from the root's token at its end on. Returns how many were
 * accepted. */
static uint32_t verify_step(Speculator *speculator, const DraftTree *tree, uint32_t *text, uint32_t n,
                            uint32_t *nextp) {
    static uint32_t paths[DRAFT_ROWS_MAX][N_TEXT + DRAFT_ROWS_MAX];
    uint32_t lens[DRAFT_ROWS_MAX], tops[DRAFT_ROWS_MAX], accepted[DRAFT_ROWS_MAX], n_accepted = 0;
    int row = 0;

    assert_int_equal(tree->tokens[0], text[n - 1]);
    for (uint32_t i = 0; i < tree->n_rows; i++) {
        ContextTop top[DRAFT_CHOICES_MAX];

        if (i) {
            memcpy(paths[i], paths[tree->parents[i]], lens[tree->parents[i]] * sizeof(*text));
            lens[i] = lens[tree->parents[i]];
            paths[i][lens[i]++] = tree->tokens[i];
        } else {
            memcpy(paths[0], text, n * sizeof(*text));
            lens[0] = n;
        }
        target_top(paths[i], lens[i], top);
        tops[i] = top[0].token;
        speculator_observe(speculator, paths[i][lens[i] - 2], tree->tokens[i], top, DRAFT_CHOICES_MAX, false);
    }
    while ((row = draft_tree_child(tree, (uint32_t)row, tops[row])) > 0)
        accepted[n_accepted++] = (uint32_t)row;
    row = n_accepted ? (int)accepted[n_accepted - 1] : 0;
    *nextp = tops[row];
    memcpy(text + n, paths[row] + n, n_accepted * sizeof(*text));
    speculator_verified(speculator, tree, accepted, n_accepted, *nextp, tops);
    return n_accepted;
}

/* Returns the number of steps, and a digest of all trees. */
static uint32_t speculative_run(Speculator *speculator, float row_ms, uint32_t *text, uint32_t *digestp) {
    uint32_t n = N_PROMPT, n_steps = 0, digest = 0;
    float ms[DRAFT_ROWS_MAX];

    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 10 + row_ms * (float)i;
    for (uint32_t i = 0; i < N_PROMPT; i++) {
        ContextTop top[DRAFT_CHOICES_MAX];

        speculator_append(speculator, &text[i], 1);
        if (!i)
            continue;
        target_top(text, i + 1, top);
        speculator_observe(speculator, text[i - 1], text[i], top, DRAFT_CHOICES_MAX, true);
    }
    while (n < N_TEXT) {
        DraftTree tree;
        uint32_t n_accepted, next;

        speculator_draft(speculator, (DraftLimits){ DRAFT_NODES_MAX, 24, N_TEXT - n },
                         (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX }, &all_the_time, &tree);
        for (uint32_t i = 0; i < tree.n_rows; i++)
            digest = sim_mix(sim_mix(digest, tree.tokens[i]), (uint32_t)tree.parents[i]);
        n_accepted = verify_step(speculator, &tree, text, n, &next);
        text[n + n_accepted] = next;
        speculator_append(speculator, text + n, n_accepted + 1);
        n += n_accepted + 1;
        n_steps++;
    }
    assert_int_equal(n, N_TEXT);
    *digestp = digest;
    return n_steps;
}

static void check_counts(const Speculator *speculator, uint32_t n_steps) {
    uint64_t n = 0, emitted = 0;

    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++) {
        n += report.lengths[i];
        emitted += report.lengths[i] * (i + 1);
    }
    assert_int_equal(n, n_steps);
    assert_int_equal(emitted, N_NEW);
    for (uint32_t source = 0; source < _SPECULATION_N; source++) {
        bool on = speculator_sources(speculator) >> source & 1;

        assert_true(report.accepted[source] <= report.drafted[source]);
        assert_true(on || !report.drafted[source]);
    }
}

static void test_speculator_greedy(void **state) {
    static uint32_t plain[N_TEXT + DRAFT_ROWS_MAX], text[N_TEXT + DRAFT_ROWS_MAX];
    static Peek peek;
    uint32_t n_least = N_NEW;

    plain_run(plain);
    for (uint32_t sources = 0; sources < 1u << SPECULATION_GRAMMAR; sources++) { /* the text has no grammar */
        _cleanup_(speculator_freep) Speculator *speculator = NULL;
        _cleanup_(history_freep) History *history = NULL;
        SpeculatorOptions options = { .sources = sources,
                                      .report = &report,
                                      .nodes_max = 1 + sources * 5 % DRAFT_NODES_MAX };
        AccountTable accounts;
        uint32_t n_steps, digests[2];

        account_table_init(&accounts);
        for (int round = 0; round < 2; round++) {
            assert_int_equal(history_new(&accounts, 1 << 20, &history), 0);
            assert_int_equal(history_add(history, plain + N_TEXT / 2, N_TEXT / 2), 0);
            options.history = history;
            options.model = peek_model(&peek, sources & 1 ? 80 : 0);
            assert_int_equal(speculator_new(&accounts, &options, &speculator), 0);
            assert_int_equal(speculator_sources(speculator), sources);
            memcpy(text, plain, N_PROMPT * sizeof(*text));
            n_steps = speculative_run(speculator, 0.125F, text, &digests[round]);
            assert_memory_equal(text, plain, N_TEXT * sizeof(*text));
            check_counts(speculator, n_steps);
            /* Without another source nothing is rejected that could be reused, and a bad model is no source. */
            assert_true(n_steps < N_NEW || !(sources & ~(1u << SPECULATION_REUSE | 1u << SPECULATION_MODEL)));
            assert_true(sources || n_steps == N_NEW);
            assert_int_equal(peek.n_passes > 0, sources >> SPECULATION_MODEL);
            n_least = MIN(n_steps, n_least);
            speculator_free(steal(&speculator));
            history_free(steal(&history));
        }
        assert_int_equal(digests[0], digests[1]); /* the hashes had other secrets */
        assert_int_equal(accounts.total_bytes, 0);
    }
    assert_true(n_least < N_NEW / 3);
}

/* Whatever rule the trees are grown by, and however good the model is, the text is the target's. */
static void test_speculator_policies(void **state) {
    static uint32_t plain[N_TEXT + DRAFT_ROWS_MAX], text[N_TEXT + DRAFT_ROWS_MAX];
    static Peek peek;

    plain_run(plain);
    for (int policy = OURS; policy < _POLICY_N; policy++)
        for (uint32_t percent = 0; percent <= 100; percent += 20) {
            _cleanup_(speculator_freep) Speculator *speculator = NULL;
            const SpecLab lab = { .policy = policy_ops(policy) };
            SpeculatorOptions options = {
                .sources = policy_sources(policy), .lab = &lab, .report = &report, .nodes_max = DRAFT_NODES_MAX
            };
            AccountTable accounts;
            uint32_t n_steps, digest;

            options.model = peek_model(&peek, percent);
            account_table_init(&accounts);
            assert_int_equal(speculator_new(&accounts, &options, &speculator), 0);
            memcpy(text, plain, N_PROMPT * sizeof(*text));
            n_steps = speculative_run(speculator, 0.125F, text, &digest);
            assert_memory_equal(text, plain, N_TEXT * sizeof(*text));
            check_counts(speculator, n_steps);
            assert_true(peek.n_passes > 0);
            assert_true(n_steps < N_NEW);
            assert_true(percent < 100 || n_steps <= N_NEW / 5);
        }
}

/* A model that fails is off, and the generation goes on with what else there is. */
static void test_speculator_model_fails(void **state) {
    static uint32_t plain[N_TEXT + DRAFT_ROWS_MAX], text[N_TEXT + DRAFT_ROWS_MAX];
    static Peek peek;

    plain_run(plain);
    for (int policy = OURS; policy < _POLICY_N; policy++)
        for (uint32_t fails_at = 1; fails_at < 30; fails_at += 7) {
            _cleanup_(speculator_freep) Speculator *speculator = NULL;
            const SpecLab lab = { .policy = policy_ops(policy) };
            SpeculatorOptions options = { .sources = 1u << SPECULATION_MODEL | 1u << SPECULATION_SAM,
                                          .lab = &lab,
                                          .report = &report,
                                          .nodes_max = 20,
                                          .model = peek_model(&peek, 60) };
            AccountTable accounts;
            uint32_t digest;

            peek.fails_at = fails_at;
            account_table_init(&accounts);
            assert_int_equal(speculator_new(&accounts, &options, &speculator), 0);
            memcpy(text, plain, N_PROMPT * sizeof(*text));
            assert_true(speculative_run(speculator, 0.125F, text, &digest) < N_NEW);
            assert_memory_equal(text, plain, N_TEXT * sizeof(*text));
            assert_int_equal(peek.n_passes, fails_at);
            assert_int_equal(speculator_sources(speculator), 1u << SPECULATION_SAM);
        }
}

static uint32_t n_busy; /* remaining calls that find the model busy */
static const DraftModelOps *peek_ops;

static int busy_follow(void *self, const uint32_t *text, size_t n) {
    return n_busy && n_busy-- % 2 ? -EBUSY : peek_ops->follow(self, text, n);
}

static int busy_expand(void *self, const DraftModelRow *rows, size_t n, DraftModelTops *tops) {
    return n_busy && n_busy-- % 3 ? -EBUSY : peek_ops->expand(self, rows, n, tops);
}

/* A model that cannot compute in some steps stays. */
static void test_speculator_model_is_busy(void **state) {
    static uint32_t plain[N_TEXT + DRAFT_ROWS_MAX], text[N_TEXT + DRAFT_ROWS_MAX];
    static Peek peek;

    plain_run(plain);
    for (int policy = OURS; policy < _POLICY_N; policy++) {
        _cleanup_(speculator_freep) Speculator *speculator = NULL;
        const SpecLab lab = { .policy = policy_ops(policy) };
        SpeculatorOptions options = { .sources = 1u << SPECULATION_MODEL | 1u << SPECULATION_SAM,
                                      .lab = &lab,
                                      .report = &report,
                                      .nodes_max = 20,
                                      .model = peek_model(&peek, 100) };
        DraftModelOps ops = *options.model.ops;
        AccountTable accounts;
        uint32_t digest;

        n_busy = 9;
        peek_ops = options.model.ops;
        ops.follow = busy_follow;
        ops.expand = busy_expand;
        options.model.ops = &ops;
        account_table_init(&accounts);
        assert_int_equal(speculator_new(&accounts, &options, &speculator), 0);
        memcpy(text, plain, N_PROMPT * sizeof(*text));
        assert_true(speculative_run(speculator, 0.125F, text, &digest) < N_NEW);
        assert_memory_equal(text, plain, N_TEXT * sizeof(*text));
        assert_int_equal(n_busy, 0);
        assert_true(peek.n_passes > 0);
        assert_int_equal(speculator_sources(speculator), options.sources);
    }
}

/* Returns the share of a source's trials that were hits. */
static double hit_rate(const SourceStats *stats, uint32_t source) {
    double hits = 0, trials = 0;

    for (uint32_t bucket = 0; bucket < DRAFT_BUCKETS; bucket++)
        for (uint32_t rank = 0; rank < DRAFT_RANKS; rank++) {
            hits += (double)stats->hits[source][bucket][rank];
            trials += (double)stats->trials[source][bucket][rank];
        }
    return hits / trials;
}

/* A model that knows the text keeps only the right drafts of other sources. A source's statistics still say what it is
 * worth without the model. */
static void test_speculator_model_flatters_nobody(void **state) {
    static const SpeculationSource sources[] = { SPECULATION_SAM, SPECULATION_CALIBRATION, SPECULATION_TABLE };
    static uint32_t plain[N_TEXT + DRAFT_ROWS_MAX], text[N_TEXT + DRAFT_ROWS_MAX];
    static Peek peek;

    plain_run(plain);
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        double rates[2];

        for (uint32_t with_model = 0; with_model < 2; with_model++) {
            _cleanup_(speculator_freep) Speculator *speculator = NULL;
            SpeculatorOptions options = { .sources = 1u << sources[i] | with_model << SPECULATION_MODEL,
                                          .report = &report,
                                          .nodes_max = DRAFT_NODES_MAX,
                                          .model = peek_model(&peek, 95) };
            AccountTable accounts;
            uint32_t digest;

            account_table_init(&accounts);
            assert_int_equal(speculator_new(&accounts, &options, &speculator), 0);
            memcpy(text, plain, N_PROMPT * sizeof(*text));
            speculative_run(speculator, 1, text, &digest);
            rates[with_model] = hit_rate(speculator_stats(speculator), sources[i]);
        }
        assert_true(rates[1] > 0 && rates[1] <= rates[0]);
    }
}

/* Drafts that are never right end, and those that always are get longer; what was not tried is not counted. */
static void test_speculator_learns(void **state) {
    static const uint32_t text[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1 };
    const SpeculatorOptions options = { .sources = 1u << SPECULATION_LOOKUP,
                                        .report = &report,
                                        .nodes_max = DRAFT_NODES_MAX };
    float ms[DRAFT_ROWS_MAX];

    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 10 + 3 * (float)i;
    for (int right = 0; right < 2; right++) {
        _cleanup_(speculator_freep) Speculator *speculator = NULL;
        uint32_t first_n = 0, last_n = 0;
        AccountTable accounts;

        account_table_init(&accounts);
        assert_int_equal(speculator_new(&accounts, &options, &speculator), 0);
        speculator_append(speculator, text, ARRAY_LEN(text));
        for (int i = 0; i < 100; i++) {
            DraftTree tree;
            uint32_t accepted[DRAFT_ROWS_MAX], n_accepted = 0;

            speculator_draft(speculator, (DraftLimits){ DRAFT_NODES_MAX, 24, 1000 },
                             (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX }, NULL, &tree);
            first_n = i ? first_n : tree.n_nodes;
            last_n = tree.n_nodes;
            while (right && n_accepted < tree.n_nodes) {
                accepted[n_accepted] = n_accepted + 1;
                n_accepted++;
            }
            speculator_verified(speculator, &tree, accepted, n_accepted, 999, NULL);
            assert_int_equal(speculator_model_step(speculator)->tokens_without, n_accepted + 1); /* there is none */
        }
        assert_true(first_n > 0 && (right ? last_n > first_n : last_n == 0));
    }
}

/* Chains of the suffix automaton alone are as long as SAM-Decoding's; those of more sources as long as they may be. */
static void test_speculator_chains(void **state) {
    float ms[DRAFT_ROWS_MAX];
    uint32_t text[120];

    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 1;
    for (uint32_t match = 1; match <= 14; match++)
        for (uint32_t more = 0; more < 2; more++) {
            const SpeculatorOptions options = { .sources = 1u << SPECULATION_SAM | more << SPECULATION_REUSE,
                                                .report = &report,
                                                .nodes_max = 50,
                                                .chains = true };
            const uint32_t published = MIN(1 + 4 * match, 40);
            _cleanup_(speculator_freep) Speculator *speculator = NULL;
            AccountTable accounts;
            DraftTree tree;

            for (uint32_t i = 0; i < 100; i++)
                text[i] = i;
            text[100] = 1000; /* then tokens from the beginning: the match */
            for (uint32_t i = 0; i < match; i++)
                text[101 + i] = i;
            account_table_init(&accounts);
            assert_int_equal(speculator_new(&accounts, &options, &speculator), 0);
            speculator_append(speculator, text, 101 + match);
            speculator_draft(speculator, (DraftLimits){ DRAFT_NODES_MAX, DRAFT_NODES_MAX, 1000 },
                             (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX }, NULL, &tree);
            assert_int_equal(tree.n_nodes, more ? 50 : published);
            for (uint32_t i = 0; i < tree.n_nodes; i++)
                assert_true(tree.nodes[i].token == match + i && tree.nodes[i].parent == (int)i - 1);
        }
}

/* A speculator with too little memory makes shorter drafts, then none; never an error. */
static void test_speculator_memory(void **state) {
    static uint32_t plain[N_TEXT + DRAFT_ROWS_MAX], text[N_TEXT + DRAFT_ROWS_MAX];
    uint32_t n_ons[_SPECULATION_N + 1] = { 0 }, digest;

    plain_run(plain);
    for (uint64_t limit = 0; limit < 200000; limit += 4096) {
        _cleanup_(speculator_freep) Speculator *speculator = NULL;
        const SpeculatorOptions options = { .sources = (1u << _SPECULATION_N) - 1, .report = &report, .nodes_max = 20 };
        AccountTable accounts;

        account_table_init(&accounts);
        accounts.limit_bytes[ACCOUNT_DRAFTDB] = limit;
        assert_int_equal(speculator_new(&accounts, &options, &speculator), 0);
        assert_false(speculator_sources(speculator) >> SPECULATION_HISTORY & 1);
        memcpy(text, plain, N_PROMPT * sizeof(*text));
        assert_true(speculative_run(speculator, 0.125F, text, &digest) <= N_NEW);
        assert_memory_equal(text, plain, N_TEXT * sizeof(*text));
        n_ons[__builtin_popcount(speculator_sources(speculator))]++;
        speculator_free(steal(&speculator));
        assert_int_equal(accounts.total_bytes, 0);
    }
    assert_true(n_ons[1] && n_ons[2] + n_ons[3] + n_ons[4] && n_ons[5]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speculator_greedy),      cmocka_unit_test(test_speculator_model_flatters_nobody),
        cmocka_unit_test(test_speculator_learns),      cmocka_unit_test(test_speculator_chains),
        cmocka_unit_test(test_speculator_memory),      cmocka_unit_test(test_speculator_policies),
        cmocka_unit_test(test_speculator_model_fails), cmocka_unit_test(test_speculator_model_is_busy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
