// SPDX-License-Identifier: Apache-2.0
/* Tokens a second of policies in a made-up world whose times are known, by how good the draft model is and what a
 * verification takes. Ours is no worse than the best of the others anywhere, also together with retrieval. Under the
 * control a useful model stays, and a useless or slow one costs next to nothing. No clock is read. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "spec/control/model_control.h"
#include "spec/control/speculation_control.h"
#include "spec/speculator.h"
#include "test/unit/fixtures/sim_model.h"
#include "test/unit/fixtures/policies.h"

static DraftReport report;

enum {
    N_NEW = 2500,
    N_WORLDS = 4,
    USELESS = N_WORLDS, /* a further world */
    N_TARGETS = 4
};

static const float pass_ms = 12, pass_row_ms = 0.25F;
/* Sureness of the target's distributions, and noise of the draft's: the draft's first choice is right in 0.5, 0.7, 0.8
 * and 0.9 of all places. */
static const struct {
    float sureness, noise;
} worlds[N_WORLDS + 1] = { { 2, 0.8F }, { 4, 1 }, { 8, 1 }, { 20, 1 }, [USELESS] = { 3, 60 } };
static const float plains[N_TARGETS] = { 61, 300, 1000, 3200 };
static const StepCompany alone = { 0, 0 };

/* Times of rows beside a plain step, from a 1.5b model at 8 bits on a machine with AMX. */
static float rows_ms(uint32_t rows) {
    static const float at[] = { 1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64 },
                       ms[] = { 0, 0.9F, 4.4F, 5.5F, 9.8F, 16.8F, 21, 33.4F, 42.8F, 74.6F, 95.6F };
    uint32_t i = 1;

    while (i < 10 && (float)rows > at[i])
        i++;
    return ms[i - 1] + (ms[i] - ms[i - 1]) * ((float)rows - at[i - 1]) / (at[i] - at[i - 1]);
}

typedef struct Run {
    SimModel sim;
    uint32_t sources;
    int policy;
    float plain_ms, model_factor; /* factor by which the model takes longer than it should */
    bool is_controlled;
    uint32_t n_steps, n_with_model;
    double ms, worst; /* worst: time of 64 tokens over that of plain ones */
    uint32_t text[N_NEW + DRAFT_ROWS_MAX + 2];
} Run;

/* Follows the text through a tree; returns how many rows the text takes. */
static uint32_t verify(Run *run, Speculator *speculator, const DraftTree *tree, uint32_t n) {
    uint32_t accepted[DRAFT_ROWS_MAX], n_accepted = 0;
    int row = 0;

    for (;;) {
        const uint32_t before = row ? tree->tokens[tree->parents[row]] : run->text[n - 2], at = n + n_accepted;

        run->text[at] = sim_sample(&run->sim, before, tree->tokens[row], (double)sim_mix(77, at) / 4294967296.0);
        row = draft_tree_child(tree, (uint32_t)row, run->text[at]);
        if (row < 0)
            break;
        accepted[n_accepted++] = (uint32_t)row;
    }
    speculator_verified(speculator, tree, accepted, n_accepted, run->text[n + n_accepted], NULL);
    return n_accepted;
}

/* Makes a step as engine/draft/drafting does, with the world's times. */
static uint32_t step(Run *run, Speculator *speculator, SpeculationControl *control, ModelControl *model, uint32_t n) {
    static const ModelBudget everything = { .ms = INFINITY };
    float all_ms[DRAFT_ROWS_MAX], model_ms, ms;
    const bool is_on = !run->is_controlled || model_control_is_on(model);
    const ModelBudget budget = {
        .ms = run->is_controlled && is_on ? speculation_control_model_ms(control, alone) : 0,
        .step_ms = speculation_control_longer_ms(control, alone),
    };
    DraftLimits limits = { DRAFT_NODES_MAX, DRAFT_NODES_MAX, N_NEW };
    DraftCosts costs = { .ms = all_ms, .n_rows = DRAFT_ROWS_MAX };
    const SpeculatorModelStep *did = speculator_model_step(speculator);
    uint32_t n_accepted;
    DraftTree tree;

    for (uint32_t i = 0; i < DRAFT_ROWS_MAX; i++)
        all_ms[i] = run->plain_ms + rows_ms(i + 1);
    if (run->is_controlled) {
        limits.nodes_max = speculation_control_rows(control, alone, (ModelShare){ .is_on = budget.ms > 0 }) - 1;
        costs = speculation_control_costs(control, alone);
    }
    speculator_draft(speculator, limits, costs,
                     !run->is_controlled                 ? &everything
                     : budget.ms > 0 && limits.nodes_max ? &budget
                                                         : NULL,
                     &tree);
    n_accepted = verify(run, speculator, &tree, n);
    model_ms = did->report.spent_ms * run->model_factor;
    ms = run->plain_ms + rows_ms(tree.n_rows);
    if (run->is_controlled && costs.n_rows)
        model_control_took(model, &(ModelControlStep){
                                      .has_drafted = did->has_drafted,
                                      .n_tokens = n_accepted + 1,
                                      .tokens_without = did->has_drafted ? did->tokens_without : n_accepted + 1,
                                      .ms = costs.ms[tree.n_rows - 1] + costs.more_ms + model_ms,
                                      .ms_without = costs.ms[did->rows_without - 1] + costs.more_ms,
                                      .plain_ms = costs.ms[0] + costs.more_ms,
                                  });
    if (run->is_controlled && did->n_behind)
        model_control_behind(model, did->n_behind);
    speculation_control_took(control, tree.n_rows, alone, n_accepted + 1, ms, model_ms);
    run->n_with_model += did->has_drafted;
    run->ms += (double)(ms + model_ms);
    run->n_steps++;
    return n_accepted + 1;
}

/* Returns tokens a second. */
static double speed(Run *run, uint32_t world) {
    _cleanup_(speculator_freep) Speculator *speculator = NULL;
    static double ends[N_NEW + DRAFT_ROWS_MAX + 2];
    const SpecLab lab = { .policy = policy_ops(run->policy) };
    SpeculatorOptions options = {
        .sources = run->sources, .lab = &lab, .report = &report, .nodes_max = DRAFT_NODES_MAX
    };
    SpeculationControl control;
    ModelControl model;
    AccountTable accounts;
    uint32_t n = 2;

    sim_model_init(&run->sim, 11, SIM_ROWS_MAX);
    run->sim.sureness = worlds[world].sureness;
    run->sim.noise = worlds[world].noise;
    run->sim.pass_ms = pass_ms;
    run->sim.row_ms = pass_row_ms;
    options.model = sim_model(&run->sim);
    account_table_init(&accounts);
    assert_int_equal(speculator_new(&accounts, &options, &speculator), 0);
    speculation_control_init(&control, NULL);
    model_control_init(&model, MODEL_LOSS_STEPS);
    run->text[0] = run->text[1] = 0;
    run->n_steps = run->n_with_model = 0;
    run->ms = run->worst = 0;
    speculator_append(speculator, run->text, 2);
    while (n < N_NEW) {
        const double before = run->ms;
        const uint32_t n_tokens = step(run, speculator, &control, &model, n);

        speculator_append(speculator, run->text + n, n_tokens);
        for (uint32_t i = 0; i < n_tokens; i++)
            ends[n + i] = before + (run->ms - before) * (i + 1) / n_tokens;
        n += n_tokens;
        if (n > 200) { /* the first steps measure */
            const double ratio = (ends[n - 1] - ends[n - 65]) / 64 / (double)run->plain_ms;

            run->worst = MAX(ratio, run->worst);
        }
    }
    return (n - 2) / run->ms * 1000;
}

static double speed_of(uint32_t world, float plain_ms, int policy, uint32_t sources, Run *run) {
    *run = (Run){ .sources = sources, .policy = policy, .plain_ms = plain_ms, .model_factor = 1 };
    return speed(run, world);
}

static void test_policy_gain_baselines(void **state) {
    static Run run;
    double product = 1;

    for (uint32_t target = 0; target < N_TARGETS; target++)
        for (uint32_t world = 0; world < N_WORLDS; world++) {
            const double ours = speed_of(world, plains[target], OURS, 1u << SPECULATION_MODEL, &run);
            double chain = 0, best = speed_of(world, plains[target], OURS, 0, &run); /* plain decoding */

            print_message("ours %.2f/s, plain %.2f/s; ", ours, best);
            for (int policy = 0; policy < _POLICY_N; policy++) {
                const double other = speed_of(world, plains[target], policy, 1u << SPECULATION_MODEL, &run);

                best = MAX(other, best);
                chain = policy == POLICY_CHAIN_SD ? other : chain;
                print_message("%s %.2f/s, %.1f tokens a step; ", draft_policies[policy].name, other,
                              (double)N_NEW / run.n_steps);
            }
            print_message("\nplain step %.0f ms, world %u: ours %.2f x chain-sd, %.2f x the best of the others\n",
                          (double)plains[target], world, ours / chain, ours / best);
            assert_true(ours > 0.97 * best);
            product *= ours / chain;
        }
    assert_true(pow(product, 1.0 / (N_TARGETS * N_WORLDS)) > 1.5);
}

/* The text repeats itself here and there: model and retrieval together are no worse than either. */
static void test_policy_gain_together(void **state) {
    const uint32_t retrieval = SPECULATION_AUTO & ~(1u << SPECULATION_MODEL);
    static Run run;
    double product = 1;

    for (uint32_t target = 0; target < 2; target++)
        for (uint32_t world = 0; world < N_WORLDS; world++) {
            const double both = speed_of(world, plains[target], OURS, SPECULATION_AUTO, &run),
                         model = speed_of(world, plains[target], OURS, 1u << SPECULATION_MODEL, &run),
                         alone_ = speed_of(world, plains[target], OURS, retrieval, &run), best = MAX(model, alone_);

            print_message("plain step %.0f ms, world %u: both %.2f/s, the model %.2f/s, retrieval %.2f/s\n",
                          (double)plains[target], world, both, model, alone_);
            assert_true(both > 0.97 * best);
            product *= both / best;
        }
    assert_true(product > 1);
}

static void test_policy_gain_controlled(void **state) {
    static Run run;

    for (uint32_t target = 0; target < N_TARGETS; target++)
        for (uint32_t world = 0; world < N_WORLDS; world++) {
            double free_speed, controlled;

            free_speed = speed_of(world, plains[target], OURS, 1u << SPECULATION_MODEL, &run);
            run.is_controlled = true;
            controlled = speed(&run, world);
            print_message("plain step %.0f ms, world %u: %.2f/s of %.2f/s; %u of %u steps with the model, worst %.3f\n",
                          (double)plains[target], world, controlled, free_speed, run.n_with_model, run.n_steps,
                          run.worst);
            assert_true(run.worst <= 1.03);
            assert_true(controlled > (target ? 0.94 : 0.82) * free_speed);
            assert_true(run.n_with_model > run.n_steps * 6 / 10);
        }
}

/* A model that is nearly never right, though it claims to be, or a pass that takes a plain step, though it claims less.
 * Where a step takes long enough, even the first is worth its time once its rate is known. */
static void test_policy_gain_useless(void **state) {
    static Run run;

    for (uint32_t target = 0; target < N_TARGETS; target++)
        for (uint32_t slow = 0; slow < 2; slow++) {
            double controlled, plain;

            run = (Run){ .sources = 1u << SPECULATION_MODEL,
                         .plain_ms = plains[target],
                         .model_factor = slow ? plains[target] / pass_ms : 1,
                         .is_controlled = true };
            controlled = speed(&run, slow ? 0 : USELESS);
            plain = 1000 / (double)plains[target];
            print_message("plain step %.0f ms, %s: %.3f/s of %.3f/s; %u steps, %u passes, worst %.3f\n",
                          (double)plains[target], slow ? "slow" : "never right", controlled, plain, run.n_steps,
                          run.sim.n_passes, run.worst);
            assert_true(controlled > (slow ? 0.95 : 0.97) * plain);
            assert_true(slow || run.worst <= 1.03);
            assert_true(run.sim.n_passes >= 1);
            assert_true((target && !slow) || run.sim.n_passes < run.n_steps / 10);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policy_gain_baselines),
        cmocka_unit_test(test_policy_gain_together),
        cmocka_unit_test(test_policy_gain_controlled),
        cmocka_unit_test(test_policy_gain_useless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
