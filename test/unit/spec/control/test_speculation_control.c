// SPDX-License-Identifier: Apache-2.0
/* Control of speculation, against made-up machines and texts that are as bad as can be. No window of 64 tokens takes
 * more than 1.03 times as long as plain steps; drafts come back when they pay; beliefs about row counts that were never
 * seen. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "spec/control/speculation_control.h"

enum {
    N_MACHINES = 5,
    N_STEPS = 20000
};

static const StepCompany alone = { 0, 0 };
static const ModelShare no_model;
static uint32_t seed = 1;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

/* Machines: plateaus and cliffs, a line, no difference, rows that cost a step each, a curve. */
static float machine_ms(uint32_t machine, uint32_t rows) {
    const float r = (float)rows;

    switch (machine) {
    case 0:
        return 50 + 30 * (float)((rows - 1) / 8);
    case 1:
        return 50 + 3 * (r - 1);
    case 2:
        return 50;
    case 3:
        return 50 * r;
    default:
        return 50 + r * r / 20;
    }
}

/* Returns how many of the drafts the text turns out to have. */
static uint32_t emitted(uint32_t kind, uint32_t step, uint32_t rows) {
    switch (kind) {
    case 0:
        return 1;
    case 1:
        return step % 100 < 5 ? rows : 1;
    case 2:
        return 1 + draw(rows);
    default:
        return draw(3) ? 1 : 1 + draw(MIN(rows, 4));
    }
}

typedef struct Step {
    float loss;
    uint32_t n_tokens;
} Step;

static Step steps[N_STEPS];

/* Checks every run of steps with at most 64 tokens by its plain time. The loss of a first measurement does not
 * count. */
static void check_windows(uint32_t n) {
    for (uint32_t from = 0; from < n; from++) {
        uint32_t n_tokens = 0;
        float loss = 0;

        for (uint32_t i = from; i < n && n_tokens + steps[i].n_tokens <= CONTROL_WINDOW; i++) {
            n_tokens += steps[i].n_tokens;
            loss += steps[i].loss;
            assert_true(loss <= 0.03F * CONTROL_WINDOW + 0.001F);
        }
    }
}

static void test_speculation_control_adversary(void **state) {
    for (uint32_t machine = 0; machine < N_MACHINES; machine++)
        for (uint32_t kind = 0; kind < 4; kind++)
            for (uint32_t way = 0; way < 4; way++) {
                const bool greed = way & 1, with_model = way & 2;
                SpeculationControl control;
                double ms = 0, plain_ms = 0;
                uint32_t n_drafts = 0, n_models = 0;

                speculation_control_init(&control, NULL);
                for (uint32_t i = 0; i < N_STEPS; i++) {
                    float model_ms = with_model ? speculation_control_model_ms(&control, alone) : 0;
                    uint32_t most = speculation_control_rows(&control, alone, (ModelShare){ model_ms > 0, model_ms }),
                             rows = greed ? most : 1 + draw(most), n_tokens = emitted(kind, i, rows);
                    bool measured = control.n_seen[rows - 1] > 0;
                    float took = machine_ms(machine, rows) + model_ms, plain = machine_ms(machine, 1);

                    assert_true(most >= 1 && most <= DRAFT_ROWS_MAX);
                    n_drafts += rows > 1;
                    n_models += model_ms > 0;
                    speculation_control_took(&control, rows, alone, n_tokens, took - model_ms, model_ms);
                    steps[i] = (Step){ took / plain - (float)n_tokens, n_tokens };
                    if (!measured && steps[i].loss > 0)
                        steps[i].loss = 0;
                    ms += (double)took;
                    plain_ms += (double)plain * n_tokens;
                }
                check_windows(N_STEPS);
                assert_true(ms <= 1.03 * plain_ms + 64 * (double)machine_ms(machine, 1));
                assert_true(n_drafts > 5);
                assert_true(with_model ? n_models > 5 : !n_models);
            }
}

/* A draft model and rows share what a step may lose; where no drafts are due, that is nothing. */
static void test_speculation_control_model(void **state) {
    SpeculationControl control;
    float model_ms;

    speculation_control_init(&control, NULL);
    assert_true(speculation_control_model_ms(&control, alone) == 0);
    for (uint32_t i = 0; i < 60; i++)
        speculation_control_took(&control, 1 + i % 16, alone, 1 + i % 16, machine_ms(1, 1 + i % 16), 0);
    model_ms = speculation_control_model_ms(&control, alone);
    assert_true(model_ms > 51 && model_ms < 51.5F); /* 0.8 of 1.92 / 1.5 plain steps of 50 ms */
    assert_true(speculation_control_model_ms(&control, (StepCompany){ 16, 0 }) >
                1.9F * model_ms); /* steps with others are longer */
    assert_int_equal(speculation_control_rows(&control, alone, no_model), 16);
    assert_int_equal(speculation_control_rows(&control, alone, (ModelShare){ model_ms > 0, model_ms }), 5);
    speculation_control_took(&control, 1, alone, 1, 50, model_ms); /* drafts in vain: less next time */
    assert_true(speculation_control_model_ms(&control, alone) < 0.7F * model_ms);
    /* the model's time is no part of what rows take */
    assert_true(speculation_control_costs(&control, alone).ms[0] == 50);
    for (uint32_t i = 0; i < 20; i++)
        speculation_control_took(&control, 1, alone, 1, 50, speculation_control_model_ms(&control, alone));
    assert_true(speculation_control_model_ms(&control, alone) < 2);
    for (uint32_t i = 0; i < 64; i++)
        speculation_control_took(&control, 1, alone, 1, 50, 0);
    assert_true(speculation_control_model_ms(&control, alone) > 30);
    speculation_control_took(&control, 4, alone, 1, machine_ms(1, 4), 100); /* far more than allowed: all drafts rest */
    assert_true(speculation_control_model_ms(&control, alone) == 0);
    assert_int_equal(speculation_control_rows(&control, alone, no_model), 1);
}

/* Drafts that never pay get rare; when they begin to pay, they come back within a pause. */
static void test_speculation_control_back_off(void **state) {
    SpeculationControl control;
    uint32_t back = 0, n_good = 0;
    float early = 0, late = 0;

    speculation_control_init(&control, NULL);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t rows = speculation_control_rows(&control, alone, no_model);

        early += i < 2000 ? machine_ms(1, rows) / machine_ms(1, 1) - 1 : 0;
        late += i >= 18000 ? machine_ms(1, rows) / machine_ms(1, 1) - 1 : 0;
        speculation_control_took(&control, rows, alone, 1, machine_ms(1, rows), 0);
    }
    assert_true(early > 2 * late && late > 0);
    for (; back < 4000 && !n_good; back++) {
        uint32_t rows = speculation_control_rows(&control, alone, no_model);

        speculation_control_took(&control, rows, alone, rows, machine_ms(1, rows), 0);
        n_good += rows > 1;
    }
    assert_true(n_good && back <= 1024 + 64);
    n_good = 0;
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t rows = speculation_control_rows(&control, alone, no_model);

        speculation_control_took(&control, rows, alone, rows, machine_ms(1, rows), 0);
        n_good += rows > 1;
    }
    assert_true(n_good > 80);
}

static void test_speculation_control_costs(void **state) {
    SpeculationControl control;
    DraftCosts costs;

    speculation_control_init(&control, NULL);
    assert_int_equal(speculation_control_rows(&control, alone, no_model), 1);
    assert_int_equal(speculation_control_costs(&control, alone).n_rows, 0);
    speculation_control_took(&control, 1, alone, 1, 500, 0);
    assert_int_equal(speculation_control_rows(&control, alone, no_model), 1);
    for (int i = 0; i < 60; i++)
        speculation_control_took(&control, 1, alone, 1, 10, 0);
    assert_int_equal(speculation_control_rows(&control, alone, no_model), 2);
    for (int i = 0; i < 60; i++) {
        speculation_control_took(&control, 5, alone, 5, 18, 0);
        speculation_control_took(&control, 9, alone, 9, 16, 0);
        speculation_control_took(&control, 3, alone, 3, 10.5F, 0);
        speculation_control_took(&control, 1, alone, 1, 10, 0);
    }
    costs = speculation_control_costs(&control, alone);
    assert_int_equal(costs.n_rows, DRAFT_ROWS_MAX);
    for (uint32_t i = 1; i < DRAFT_ROWS_MAX; i++)
        assert_true(costs.ms[i] >= costs.ms[i - 1] && costs.ms[i] > 0);
    assert_true(costs.ms[0] > 9.9F && costs.ms[0] < 10.1F);
    assert_true(costs.ms[1] > 10.2F && costs.ms[1] < 10.3F);
    assert_true(costs.ms[4] > 16.9F && costs.ms[4] < 17.1F && costs.ms[8] == costs.ms[4]);
    assert_true(costs.ms[9] > costs.ms[8] + 0.5F);
    assert_int_equal(speculation_control_rows(&control, alone, no_model), 11); /* half of 1.92 plain steps */
}

/* A device with graphs of 32 rows: 1 row costs what 32 cost, 33 what 64 cost, on some machines hardly more than 32.
 * Measuring finds the tile, whatever was drafted before: where a tree has the best of tokens and time, it fills a
 * tile. */
static void test_speculation_control_tile(void **state) {
    /* time of a second pass as a share of the first: the same, or a 50th */
    for (uint32_t second = 0; second < 2; second++) {
        uint32_t n_filled = 0, n_steps = 0;
        SpeculationControl control;

        speculation_control_init(&control, NULL);
        for (uint32_t i = 0; i < 600; i++) {
            const uint32_t most = speculation_control_rows(&control, alone, no_model);
            const DraftCosts costs = speculation_control_costs(&control, alone);
            const float noise = 1 + 0.02F * (float)draw(3);
            uint32_t rows = 1;

            for (uint32_t more = 2; more <= most; more++) /* each row brings a little less than the one before */
                if ((3 + sqrtf((float)more)) * costs.ms[rows - 1] > (3 + sqrtf((float)rows)) * costs.ms[more - 1])
                    rows = more;
            n_steps += i >= 300 && rows > 1;
            n_filled += i >= 300 && rows == (second ? 64 : 32);
            speculation_control_took(&control, rows, alone, MIN(rows, 6),
                                     20 * noise *
                                         (rows <= 32 ? 1
                                          : second   ? 1.02F
                                                     : 2),
                                     0);
        }
        assert_true(n_steps > 250 && n_filled > n_steps * 9 / 10);
    }
}

/* Dear rows that turn cheap are noticed, because old measurements are forgotten. */
static void test_speculation_control_change(void **state) {
    SpeculationControl control;
    uint32_t n_drafts = 0;

    speculation_control_init(&control, NULL);
    for (uint32_t i = 0; i < 8000; i++) {
        uint32_t rows = speculation_control_rows(&control, alone, no_model);

        n_drafts += i >= 7900 && rows > 4;
        speculation_control_took(&control, rows, alone, rows, i < 500 ? machine_ms(3, rows) * (float)(rows * rows) : 50,
                                 0);
    }
    assert_true(n_drafts > 80);
}

/* Beside others, a row costs what it adds to their step; beside a prompt, the step is long anyway. */
static void test_speculation_control_company(void **state) {
    const StepCompany others = { .rows = 15 }, with_prompt = { .rows = 15, .prompt_rows = 200 };
    SpeculationControl control;
    DraftCosts costs;

    speculation_control_init(&control, NULL);
    assert_int_equal(speculation_control_rows(&control, others, no_model), 1);
    for (uint32_t i = 0; i < 60; i++)
        speculation_control_took(&control, 1, others, 1, machine_ms(1, 16), 0);
    assert_int_equal(speculation_control_rows(&control, alone, no_model),
                     1); /* nothing is known of fewer than 16 rows */
    assert_true(speculation_control_rows(&control, others, no_model) > 8);
    for (uint32_t i = 0; i < 60; i++)
        speculation_control_took(&control, 9, others, 3, machine_ms(1, 24), 0);
    costs = speculation_control_costs(&control, others);
    assert_int_equal(costs.n_rows, DRAFT_ROWS_MAX);
    for (uint32_t i = 0; i < 9; i++)
        assert_true(costs.ms[i] > machine_ms(1, 16 + i) - 1 && costs.ms[i] < machine_ms(1, 16 + i) + 1);
    assert_true(costs.more_ms == 0);
    costs = speculation_control_costs(&control, with_prompt);
    assert_true(costs.more_ms > 300); /* 3 ms a row */
    for (uint32_t i = 0; i < 60; i++) /* no time of a step with a prompt counts */
        speculation_control_took(&control, 9, with_prompt, 3, 5000, 0);
    costs = speculation_control_costs(&control, others);
    assert_true(costs.ms[8] < machine_ms(1, 24) + 1);
    costs = speculation_control_costs(&control, (StepCompany){ .rows = 300 });
    assert_int_equal(costs.n_rows, 1);
}

/* What another generation has learned holds from the first step on, stretched to that step. */
static void test_speculation_control_like(void **state) {
    SpeculationControl before, control;
    DraftCosts costs;

    speculation_control_init(&before, NULL);
    for (uint32_t i = 0; i < 400; i++)
        speculation_control_took(&before, 1 + i % 20, alone, 1 + i % 20, machine_ms(1, 1 + i % 20), 0);
    speculation_control_init(&control, &before);
    assert_true(speculation_control_rows(&control, alone, no_model) > 12);
    speculation_control_took(&control, 10, alone, 5, 1.5F * machine_ms(1, 10), 0);
    costs = speculation_control_costs(&control, alone);
    for (uint32_t i = 0; i < 20; i++)
        assert_true(costs.ms[i] > 1.4F * machine_ms(1, i + 1) && costs.ms[i] < 1.6F * machine_ms(1, i + 1));
}

/* The first steps had to wait for something else: the next one takes back what they said of all rows. A step that takes
 * little less than expected changes nothing, nor does a late one. */
static void test_speculation_control_like_waited(void **state) {
    SpeculationControl before, control;
    DraftCosts costs;

    speculation_control_init(&before, NULL);
    for (uint32_t i = 0; i < 400; i++)
        speculation_control_took(&before, 1 + i % 20, alone, 1 + i % 20, machine_ms(1, 1 + i % 20), 0);
    speculation_control_init(&control, &before);
    speculation_control_took(&control, 10, alone, 5, 2 * machine_ms(1, 10), 0);
    speculation_control_took(&control, 1, alone, 1, 2.2F * machine_ms(1, 1), 0);
    assert_true(speculation_control_costs(&control, alone).ms[15] > 1.9F * machine_ms(1, 16));
    speculation_control_took(&control, 10, alone, 5, machine_ms(1, 10), 0);
    costs = speculation_control_costs(&control, alone);
    for (uint32_t i = 0; i < 20; i++)
        assert_true(costs.ms[i] > 0.85F * machine_ms(1, i + 1) && costs.ms[i] < 1.15F * machine_ms(1, i + 1));

    speculation_control_init(&control, &before);
    speculation_control_took(&control, 10, alone, 5, machine_ms(1, 10), 0);
    speculation_control_took(&control, 10, alone, 5, 0.85F * machine_ms(1, 10), 0);
    assert_true(speculation_control_costs(&control, alone).ms[19] > 0.99F * machine_ms(1, 20));
    for (uint32_t i = 0; i < 10; i++)
        speculation_control_took(&control, 10, alone, 5, machine_ms(1, 10), 0);
    speculation_control_took(&control, 10, alone, 5, 0.5F * machine_ms(1, 10), 0);
    assert_true(speculation_control_costs(&control, alone).ms[19] > 0.99F * machine_ms(1, 20));
}

/* A first step of more rows than the other generation had measured: guesses for them do not measure how the two
 * generations differ. */
static void test_speculation_control_like_past_measured(void **state) {
    /* rows cost next to nothing, or are dear, or everything is faster */
    static const float first_ms[] = { 1260, 2500, 600 };
    SpeculationControl before, control;

    speculation_control_init(&before, NULL);
    for (uint32_t i = 0; i < 40; i++)
        speculation_control_took(&before, 1 + i % 2 * 4, alone, 1 + i % 2 * 4, 1200, 0);
    assert_true(speculation_control_costs(&before, alone).ms[27] > 1700);
    for (size_t i = 0; i < sizeof(first_ms) / sizeof(*first_ms); i++) {
        DraftCosts costs;

        speculation_control_init(&control, &before);
        speculation_control_took(&control, 28, alone, 5, first_ms[i], 0);
        costs = speculation_control_costs(&control, alone);
        assert_true(i == 0 ? costs.ms[0] == 1200 : i == 1 ? costs.ms[0] > 1200 : costs.ms[0] == 600);
        assert_true(costs.ms[27] > 0.99F * first_ms[i] && costs.ms[27] < 1.01F * first_ms[i]);
    }
}

/* Times of prompt rows bound the feared times of drafted rows; the next generation knows them as well. */
static void test_speculation_control_prompt(void **state) {
    SpeculationControl control, next;

    for (uint32_t knows = 0; knows < 2; knows++) {
        speculation_control_init(&control, NULL);
        if (knows) {
            speculation_control_prompt(&control, 100, 400);
            speculation_control_prompt(&control, 200, 200); /* 1 ms a row */
            speculation_control_prompt(&control, 10, 500);
            speculation_control_prompt(&control, 10, 0); /* no time */
        }
        speculation_control_took(&control, 1, alone, 1, 1200, 0);
        speculation_control_took(&control, 1, alone, 1, 1200, 0);
        assert_true(speculation_control_costs(&control, alone).ms[10] == (knows ? 1220 : 1440));
    }
    speculation_control_init(&next, &control);
    assert_true(next.row_ms == control.row_ms && next.row_ms == 2);
    speculation_control_init(&control, NULL); /* the bound is handed on even before any step was measured */
    speculation_control_prompt(&control, 100, 100);
    speculation_control_init(&next, &control);
    assert_true(next.row_ms == 2);
}

/* Rows that were dear while the machine had other work are tried again, however short the generations are. */
static void test_speculation_control_like_ages(void **state) {
    SpeculationControl before, control;
    uint32_t rows = 0, tokens = 0;

    speculation_control_init(&before, NULL);
    for (uint32_t i = 0; i < 8; i++) {
        speculation_control_took(&before, 1, alone, 1, 50, 0);
        speculation_control_took(&before, 2, alone, 1, 200, 0);
    }
    for (; rows < 2 && tokens < 2000; tokens += 20) {
        speculation_control_init(&control, &before);
        assert_true(tokens || speculation_control_rows(&control, alone, no_model) == 1);
        for (uint32_t i = 0; i < 20; i++) {
            rows = speculation_control_rows(&control, alone, no_model);
            if (rows > 1)
                break;
            speculation_control_took(&control, 1, alone, 1, 50, 0);
        }
        before = control;
    }
    assert_true(rows > 1 && tokens > 900);
}

/* Every tenth step has to wait for something else: beliefs of what rows take stay about right. */
static void test_speculation_control_outliers(void **state) {
    SpeculationControl control;
    DraftCosts costs;

    speculation_control_init(&control, NULL);
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t rows = 1 + draw(12);

        speculation_control_took(&control, rows, alone, rows, machine_ms(1, rows) * (i % 10 == 9 ? 5 : 1), 0);
    }
    costs = speculation_control_costs(&control, alone);
    for (uint32_t i = 0; i < 12; i++)
        assert_true(costs.ms[i] > 0.99F * machine_ms(1, i + 1) && costs.ms[i] < 1.35F * machine_ms(1, i + 1));
}

/* A delayed step tells nothing of times. */
static void test_speculation_control_delayed(void **state) {
    SpeculationControl control;

    speculation_control_init(&control, NULL);
    for (uint32_t i = 0; i < 60; i++)
        speculation_control_took(&control, 1, alone, 1, i % 2 ? 0 : 10, 0);
    assert_true(speculation_control_costs(&control, alone).ms[0] == 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speculation_control_adversary),
        cmocka_unit_test(test_speculation_control_model),
        cmocka_unit_test(test_speculation_control_back_off),
        cmocka_unit_test(test_speculation_control_costs),
        cmocka_unit_test(test_speculation_control_tile),
        cmocka_unit_test(test_speculation_control_change),
        cmocka_unit_test(test_speculation_control_company),
        cmocka_unit_test(test_speculation_control_like),
        cmocka_unit_test(test_speculation_control_like_ages),
        cmocka_unit_test(test_speculation_control_like_waited),
        cmocka_unit_test(test_speculation_control_like_past_measured),
        cmocka_unit_test(test_speculation_control_prompt),
        cmocka_unit_test(test_speculation_control_delayed),
        cmocka_unit_test(test_speculation_control_outliers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
