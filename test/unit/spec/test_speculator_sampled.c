// SPDX-License-Identifier: Apache-2.0
/* A speculator at work on sampled texts: samples are those of plain sampling, with the target's distribution. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "spec/speculator.h"
#include "test/unit/fixtures/policies.h"
#include "test/unit/fixtures/sim_model.h"

enum {
    N_SAMPLED = 40000,
    N_SAMPLED_KINDS = 6
};

static DraftReport report;

typedef struct Rates {
    double chance[DRAFT_BUCKETS][DRAFT_RANKS], n[DRAFT_BUCKETS][DRAFT_RANKS];
} Rates;

/* Counts the target's chances of the nodes that it reached, by what the model said of them. */
static void count_rates(Rates *rates, const SimModel *sim, const DraftTree *tree, const uint32_t *accepted,
                        uint32_t n_accepted, uint32_t before) {
    for (uint32_t i = 0; i <= n_accepted; i++) {
        const uint32_t at = i ? accepted[i - 1] : 0;
        float chances[SIM_KINDS];

        sim_target(sim, i ? tree->tokens[tree->parents[at]] : before, tree->tokens[at], chances);
        for (uint32_t row = at + 1; row < tree->n_rows; row++) {
            const DraftNode *node = &tree->nodes[tree->node_of[row]];

            if (tree->parents[row] != (int)at)
                continue;
            for (uint32_t k = 0; k < node->n_credits; k++)
                if (node->credits[k].source == SPECULATION_MODEL) {
                    const DraftCredit credit = node->credits[k];

                    rates->chance[credit.bucket][credit.rank] += (double)chances[node->token];
                    rates->n[credit.bucket][credit.rank]++;
                }
        }
    }
}

static DraftPolicyState *spied_state; /* state of the last policy that was begun */

static void *spy_begin(void) {
    return spied_state = draft_policies[POLICY_LEVER].begin();
}

static DraftPolicyOps spied_on(int policy) {
    DraftPolicyOps ops = draft_policies[policy == OURS ? POLICY_LEVER : policy];

    ops.begin = spy_begin;
    return ops;
}

/* A sampled text, each sample by a number of its position: with any tree the samples are those of plain sampling. For a
 * model that is surer than it should be, the statistics learn how often it is right. */
static void test_speculator_sampled_text(void **state) {
    enum {
        N = 12000
    };

    static uint32_t plain[N + DRAFT_ROWS_MAX], text[N + DRAFT_ROWS_MAX];
    static SimModel sim;
    float ms[DRAFT_ROWS_MAX];

    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 60 + (float)i;
    for (int policy = OURS; policy < _POLICY_N; policy++) {
        _cleanup_(speculator_freep) Speculator *speculator = NULL;
        const DraftPolicyOps spied = spied_on(policy);
        const SpecLab lab = { .policy = policy == OURS ? NULL : &spied };
        SpeculatorOptions options = {
            .sources = policy_sources(policy), .lab = &lab, .report = &report, .nodes_max = DRAFT_NODES_MAX
        };
        static Rates rates;
        AccountTable accounts;
        uint32_t n_seen = 0, n_steps = 0, n = 2;

        sim_model_init(&sim, 5, SIM_ROWS_MAX);
        sim.sureness = 1.5F;
        sim.noise = 1.5F;
        sim.pass_ms = 4;
        rates = (Rates){ 0 };
        for (uint32_t i = 2; i < N; i++)
            plain[i] = sim_sample(&sim, plain[i - 2], plain[i - 1], (double)sim_mix(99, i) / 4294967296.0);
        memcpy(text, plain, 2 * sizeof(*text));
        options.model = sim_model(&sim);
        account_table_init(&accounts);
        assert_int_equal(speculator_new(&accounts, &options, &speculator), 0);
        speculator_append(speculator, text, 2);
        for (; n < N; n_steps++) {
            uint32_t accepted[DRAFT_ROWS_MAX], n_accepted = 0;
            DraftTree tree;
            int row = 0;

            speculator_draft(speculator, (DraftLimits){ DRAFT_NODES_MAX, 20, N - n },
                             (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX }, &(ModelBudget){ .ms = INFINITY },
                             &tree);
            for (;;) {
                const uint32_t before = row ? tree.tokens[tree.parents[row]] : text[n - 2], at = n + n_accepted;

                text[at] = sim_sample(&sim, before, tree.tokens[row], (double)sim_mix(99, at) / 4294967296.0);
                row = draft_tree_child(&tree, (uint32_t)row, text[at]);
                if (row < 0)
                    break;
                accepted[n_accepted++] = (uint32_t)row;
            }
            count_rates(&rates, &sim, &tree, accepted, n_accepted, text[n - 2]);
            speculator_verified(speculator, &tree, accepted, n_accepted, text[n + n_accepted], NULL);
            assert_true(speculator_model_step(speculator)->tokens_without >= 1);
            assert_true(speculator_model_step(speculator)->tokens_without <= n_accepted + 1 || policy == OURS);
            speculator_append(speculator, text + n, n_accepted + 1);
            n += n_accepted + 1;
        }
        assert_memory_equal(text, plain, N * sizeof(*text));
        assert_true(n_steps < N * 9 / 10);
        for (uint16_t bucket = 0; bucket < DRAFT_BUCKETS; bucket++)
            for (uint16_t rank = 0; rank < DRAFT_RANKS; rank++) {
                const double rate = rates.chance[bucket][rank] / rates.n[bucket][rank];
                const DraftCredit credit = { SPECULATION_MODEL, (uint8_t)bucket, (uint8_t)rank, false };

                if (rates.n[bucket][rank] < 400)
                    continue;
                n_seen++;
                assert_true(fabs((double)source_stats_chance(speculator_stats(speculator), credit) - rate) < 0.13);
            }
        assert_true(n_seen >= 5);
        if (policy == POLICY_LEVER)
            assert_true(spied_state->reliability < 0.95F);
    }
}

/* Behind each of six tokens there is another distribution, far from even. */
static double chance_of(uint32_t before, uint32_t token) {
    static const double chances[N_SAMPLED_KINDS] = { 0.5, 0.2, 0.12, 0.1, 0.05, 0.03 };

    return chances[(token + 5 * before) % N_SAMPLED_KINDS];
}

static uint32_t sample(uint32_t before, uint32_t position) {
    double at = (double)sim_mix(12345, position) / 4294967296.0;
    uint32_t token = 0;

    while (token + 1 < N_SAMPLED_KINDS && at >= chance_of(before, token))
        at -= chance_of(before, token++);
    return token;
}

/* Draws once for each level, then down to the child that has the token: pairs of neighbours are as often as they should
 * be. */
static void test_speculator_sampled(void **state) {
    _cleanup_(speculator_freep) Speculator *speculator = NULL;
    const SpeculatorOptions options = { .sources = SPECULATION_AUTO, .report = &report, .nodes_max = DRAFT_NODES_MAX };
    uint32_t counts[N_SAMPLED_KINDS][N_SAMPLED_KINDS] = { 0 }, last = 0, n_steps = 0;
    float ms[DRAFT_ROWS_MAX];
    double chi_square = 0;
    AccountTable accounts;

    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        ms[i] = 10 + (float)i / 4;
    account_table_init(&accounts);
    assert_int_equal(speculator_new(&accounts, &options, &speculator), 0);
    speculator_append(speculator, &last, 1);
    for (uint32_t n = 0; n < N_SAMPLED; n_steps++) {
        DraftTree tree;
        uint32_t accepted[DRAFT_ROWS_MAX], emitted[DRAFT_ROWS_MAX], n_accepted = 0, n_emitted = 0;

        speculator_draft(speculator, (DraftLimits){ DRAFT_NODES_MAX, 8, 1000 },
                         (DraftCosts){ .ms = ms, .n_rows = DRAFT_ROWS_MAX }, NULL, &tree);
        for (int row = 0; row >= 0;) {
            ContextTop top[N_SAMPLED_KINDS];
            uint32_t before = tree.tokens[row], token = sample(before, n + n_accepted);

            for (uint32_t i = 0; i < N_SAMPLED_KINDS; i++)
                top[i] = (ContextTop){ i, (float)chance_of(before, i) };
            speculator_observe(speculator, CONTEXT_NO_TOKEN, before, top, N_SAMPLED_KINDS, false);
            row = draft_tree_child(&tree, (uint32_t)row, token);
            if (row >= 0)
                accepted[n_accepted++] = (uint32_t)row;
            else
                emitted[n_accepted] = token;
        }
        for (; n_emitted < n_accepted; n_emitted++)
            emitted[n_emitted] = tree.tokens[accepted[n_emitted]];
        n_emitted++;
        speculator_verified(speculator, &tree, accepted, n_accepted, emitted[n_accepted], NULL);
        speculator_append(speculator, emitted, n_emitted);
        for (uint32_t i = 0; i < n_emitted; i++) {
            counts[last][emitted[i]]++;
            last = emitted[i];
        }
        n += n_emitted;
    }
    assert_true(n_steps < N_SAMPLED * 3 / 4);
    for (uint32_t before = 0; before < N_SAMPLED_KINDS; before++) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < N_SAMPLED_KINDS; i++)
            n += counts[before][i];
        for (uint32_t i = 0; i < N_SAMPLED_KINDS; i++) {
            double expected = n * chance_of(before, i), off = counts[before][i] - expected;

            chi_square += off * off / expected;
        }
    }
    assert_true(chi_square < 59.7); /* 30 degrees of freedom: 1 of 1,000 true ones is above */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speculator_sampled),
        cmocka_unit_test(test_speculator_sampled_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
