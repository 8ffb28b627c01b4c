// SPDX-License-Identifier: Apache-2.0
/* A speculator whose text keeps to a grammar: with every set of sources the tokens are those of a plain run, no draft
 * is verified that the grammar refuses, and forced tokens save steps. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "spec/speculator.h"
#include "test/unit/fixtures/sim_grammar.h"
#include "test/unit/fixtures/sim_model.h"

enum {
    N_TEXT = 400,
    GRAMMAR = 1u << SPECULATION_GRAMMAR
};

static DraftReport report;
static float ms[DRAFT_ROWS_MAX];

/* The target's likely tokens behind a text, whatever the grammar allows. */
static void target_tops(const uint32_t *text, uint32_t n, ContextTop *tops) {
    const uint32_t first = sim_mix(text[n - 1], n > 1 ? text[n - 2] : 0) % SIM_KINDS;

    for (uint32_t i = 0; i < DRAFT_CHOICES_MAX; i++)
        tops[i] = (ContextTop){ (first + i * 7) % SIM_KINDS, 0.6F / (float)(1 + i) };
}

/* The target's token: the likeliest one that the grammar allows. */
static uint32_t target(const SimGrammar *grammar, uint32_t state, const uint32_t *text, uint32_t n, uint32_t *nextp) {
    ContextTop tops[DRAFT_CHOICES_MAX];
    uint32_t token = 0;

    target_tops(text, n, tops);
    for (uint32_t i = 0; i < DRAFT_CHOICES_MAX; i++)
        if (sim_grammar_step(grammar, state, tops[i].token, nextp))
            return tops[i].token;
    while (!sim_grammar_step(grammar, state, token, nextp))
        token++;
    return token;
}

/* Verifies a tree behind text[n]; returns how many tokens were accepted, and puts the next one behind them. */
static uint32_t verify(Speculator *speculator, SimGrammar *grammar, const DraftTree *tree, uint32_t *text, uint32_t n) {
    uint32_t states[DRAFT_ROWS_MAX], tops[DRAFT_ROWS_MAX], accepted[DRAFT_ROWS_MAX], n_accepted = 0, next;
    int row = 0;

    states[0] = grammar->state;
    for (uint32_t i = 0; i < tree->n_rows; i++) {
        if (i) /* the grammar has refused nothing that is verified */
            assert_true(sim_grammar_step(grammar, states[tree->parents[i]], tree->tokens[i], &states[i]));
        tops[i] = UINT32_MAX;
        for (uint32_t token = 0; token < SIM_KINDS; token++)
            assert_int_equal(speculator_allows(speculator, tree, i, token),
                             sim_grammar_step(grammar, states[i], token, &next));
    }
    for (;;) {
        const uint32_t at = n + n_accepted;

        text[at] = target(grammar, grammar->state, text, at, &grammar->state);
        tops[row] = text[at];
        row = draft_tree_child(tree, (uint32_t)row, text[at]);
        if (row < 0)
            break;
        accepted[n_accepted++] = (uint32_t)row;
    }
    speculator_verified(speculator, tree, accepted, n_accepted, text[n + n_accepted], tops);
    return n_accepted;
}

/* Returns the number of steps. */
static uint32_t run(Speculator *speculator, SimGrammar *grammar, uint32_t *text) {
    uint32_t n = 2, n_steps = 0;

    speculator_append(speculator, text, n);
    while (n < N_TEXT) {
        ContextTop tops[DRAFT_CHOICES_MAX];
        uint32_t n_new;
        DraftTree tree;

        target_tops(text, n, tops);
        speculator_observe(speculator, text[n - 2], text[n - 1], tops, DRAFT_CHOICES_MAX, false);
        speculator_draft(speculator, (DraftLimits){ DRAFT_NODES_MAX, 30, N_TEXT - n },
                         (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX }, NULL, &tree);
        n_new = 1 + verify(speculator, grammar, &tree, text, n);
        speculator_append(speculator, text + n, n_new);
        n += n_new;
        n_steps++;
    }
    assert_int_equal(n, N_TEXT);
    return n_steps;
}

static void test_speculator_grammar_same_tokens(void **state) {
    static const uint32_t others[] = { 0, 1u << SPECULATION_SAM, 1u << SPECULATION_TABLE, SPECULATION_AUTO & ~GRAMMAR };
    uint32_t sums[2][4] = { { 0 } };

    for (uint32_t seed = 0; seed < 12; seed++)
        for (uint32_t i = 0; i < 8; i++) {
            SimGrammar grammar = { .seed = seed, .n_kinds = SIM_KINDS, .percent = 20, .forced = 60, .state = 1 };
            uint32_t plain[N_TEXT + DRAFT_ROWS_MAX] = { 1, 2 }, text[N_TEXT + DRAFT_ROWS_MAX] = { 1, 2 }, at = 1;
            _cleanup_(speculator_freep) Speculator *speculator = NULL;
            const uint32_t sources = others[i / 2] | (i % 2 ? GRAMMAR : 0);
            AccountTable accounts;
            uint32_t n_steps;

            for (uint32_t n = 2; n < N_TEXT; n++)
                plain[n] = target(&grammar, at, plain, n, &at);
            account_table_init(&accounts);
            assert_int_equal(speculator_new(&accounts,
                                            &(SpeculatorOptions){ .sources = sources,
                                                                  .report = &report,
                                                                  .nodes_max = DRAFT_NODES_MAX,
                                                                  .chains = seed % 3 == 2,
                                                                  .grammar = sim_grammar(&grammar) },
                                            &speculator),
                             0);
            assert_int_equal(speculator_sources(speculator) & GRAMMAR, sources & GRAMMAR);
            n_steps = run(speculator, &grammar, text);
            assert_memory_equal(text, plain, N_TEXT * sizeof(*text));
            assert_int_equal(report.drafted[SPECULATION_GRAMMAR] > 0, i % 2);
            assert_true(sources || n_steps == N_TEXT - 2);
            sums[i % 2][i / 2] += n_steps;
            speculator_free(steal(&speculator));
            assert_int_equal(accounts.total_bytes, 0);
        }
    assert_true(sums[1][0] < sums[0][0] * 3 / 4); /* the source alone */
    assert_true(sums[1][3] < sums[0][3]);         /* beside all others */
}

/* A grammar that is never wrong soon counts as all but certain. */
static void test_speculator_grammar_learns(void **state) {
    SimGrammar grammar = { .seed = 4, .n_kinds = SIM_KINDS, .percent = 20, .forced = 60, .state = 1 };
    uint32_t text[N_TEXT + DRAFT_ROWS_MAX] = { 1, 2 };
    _cleanup_(speculator_freep) Speculator *speculator = NULL;
    AccountTable accounts;

    account_table_init(&accounts);
    assert_int_equal(speculator_new(&accounts,
                                    &(SpeculatorOptions){ .sources = GRAMMAR,
                                                          .report = &report,
                                                          .nodes_max = DRAFT_NODES_MAX,
                                                          .grammar = sim_grammar(&grammar) },
                                    &speculator),
                     0);
    (void)run(speculator, &grammar, text);
    assert_int_equal(report.accepted[SPECULATION_GRAMMAR], report.drafted[SPECULATION_GRAMMAR]);
    for (uint8_t bucket = 0; bucket < 4; bucket++) {
        const DraftCredit credit = { SPECULATION_GRAMMAR, bucket, 0, false };

        assert_true(source_stats_chance(speculator_stats(speculator), credit) > 0.9F);
    }
}

/* Without memory to look ahead in the grammar drafts are whole, and the text is the same. Without a grammar there is no
 * such source. */
static void test_speculator_grammar_missing(void **state) {
    SimGrammar grammar = { .seed = 4, .n_kinds = SIM_KINDS, .percent = 20, .forced = 60, .state = 1 };
    const SpeculatorOptions options = { .sources = GRAMMAR | 1u << SPECULATION_REUSE,
                                        .report = &report,
                                        .nodes_max = DRAFT_NODES_MAX };
    SpeculatorOptions with_grammar = options;
    _cleanup_(speculator_freep) Speculator *speculator = NULL;
    AccountTable accounts;

    account_table_init(&accounts);
    assert_int_equal(speculator_new(&accounts, &options, &speculator), 0);
    assert_int_equal(speculator_sources(speculator), 1u << SPECULATION_REUSE);
    speculator_free(steal(&speculator));
    with_grammar.grammar = sim_grammar(&grammar);
    accounts.limit_bytes[ACCOUNT_DRAFTDB] = 4096;
    assert_int_equal(speculator_new(&accounts, &with_grammar, &speculator), 0);
    assert_int_equal(speculator_sources(speculator), 1u << SPECULATION_REUSE);
    assert_true(speculator_allows(speculator, &(DraftTree){ .n_rows = 1 }, 0, 17));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speculator_grammar_same_tokens),
        cmocka_unit_test(test_speculator_grammar_learns),
        cmocka_unit_test(test_speculator_grammar_missing),
    };

    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 10 + 0.125F * (float)i;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
