// SPDX-License-Identifier: Apache-2.0
/* Decision to draft with a model. A useful model stays; a useless or slow one is off soon and tried ever more seldom;
 * one that turns good comes back; one that cannot catch up with the text rests. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "spec/control/model_control.h"

static const float plain_ms = 60;
static uint32_t seed = 1;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

/* The model's tree has up to `most` further tokens, each with a chance of percent behind the one before, and takes
 * model_ms. The other sources give 1 or 2 tokens. Returns the tokens. */
static uint32_t step(ModelControl *control, uint32_t percent, uint32_t most, float model_ms, uint32_t *n_drafted) {
    const bool is_on = model_control_is_on(control);
    ModelControlStep it = { .has_drafted = is_on, .tokens_without = 1 + draw(2), .plain_ms = plain_ms };

    it.n_tokens = it.tokens_without;
    for (uint32_t i = 0; is_on && i < most && draw(100) < percent; i++)
        it.n_tokens++;
    it.ms_without = plain_ms + 2;
    it.ms = it.ms_without + (is_on ? model_ms + 5 : 0);
    model_control_took(control, &it);
    *n_drafted += is_on;
    return it.n_tokens;
}

static void test_model_control_useful(void **state) {
    ModelControl control;
    uint32_t n_drafted = 0, n_tokens = 0;

    model_control_init(&control, MODEL_LOSS_STEPS);
    for (uint32_t i = 0; i < 4000; i++)
        n_tokens += step(&control, 85, 4, 40, &n_drafted); /* 2.4 further tokens for 45 ms; a token takes 41 ms */
    assert_true(n_drafted > 3900);
    assert_true(control.gained > 0.3F * 4000 && control.gained < (float)n_tokens);
}

/* A model that is never right, or right and too slow, loses about its budget before it is off, and less and less
 * later. */
static void test_model_control_useless(void **state) {
    for (uint32_t slow = 0; slow < 2; slow++) {
        ModelControl control;
        uint32_t n_early = 0, n_late = 0, n_more = 0;

        model_control_init(&control, MODEL_LOSS_STEPS);
        for (uint32_t i = 0; i < 20; i++)
            step(&control, slow ? 80 : 0, 4, slow ? 300 : 40, &n_early);
        assert_true(n_early <= 6);
        assert_true(control.gained < 0);
        for (uint32_t i = 0; i < 4000; i++)
            step(&control, slow ? 80 : 0, 4, slow ? 300 : 40, i < 2000 ? &n_more : &n_late);
        assert_true(n_late >= 1 && n_late < 20 && n_more < 60);
    }
}

static void test_model_control_comes_back(void **state) {
    ModelControl control;
    uint32_t n_bad = 0, n_back = 0, n_good = 0, n_tokens = 0;

    model_control_init(&control, MODEL_LOSS_STEPS);
    for (uint32_t i = 0; i < 3000; i++)
        step(&control, 0, 4, 40, &n_bad);
    while (!n_back && n_tokens < 5000)
        n_tokens += step(&control, 100, 4, 20, &n_back);
    assert_true(n_back && n_tokens <= 1024 + 8);
    for (uint32_t i = 0; i < 500; i++)
        step(&control, 100, 4, 20, &n_good);
    assert_int_equal(n_good, 500);
    assert_int_equal(control.pause_tokens, 64); /* the earlier judgement does not hold */
}

/* From any point on, the model loses at most its plain steps against going without before it is off. */
static void test_model_control_bound(void **state) {
    for (uint32_t run = 0; run < 200; run++) {
        const float loss_steps = run % 8 < 4 ? MODEL_LOSS_STEPS : MODEL_LOSS_STEPS_SELF;
        ModelControl control;
        float lost = 0, worst = 0;

        model_control_init(&control, loss_steps);
        for (uint32_t i = 0; i < 2000; i++) {
            const bool was_on = model_control_is_on(&control);
            const uint32_t n_tokens = 1 + draw(run % 4 + 1), without = 1;
            const float ms = plain_ms * (1 + (float)draw(20) / 20);

            model_control_took(&control, &(ModelControlStep){ was_on, was_on ? n_tokens : without, without,
                                                              was_on ? ms : plain_ms, plain_ms, plain_ms });
            lost += was_on ? ms / plain_ms - (float)n_tokens : 0;
            lost = MAX(0, lost);
            lost = model_control_is_on(&control) ? lost : 0;
            worst = MAX(lost, worst);
        }
        assert_true(worst <= 2 * loss_steps + 0.001F); /* from as far ahead as possible to as far behind */
    }
}

/* A text that goes on faster than the model reads turns the model off. */
static void test_model_control_behind(void **state) {
    ModelControl control;
    uint32_t n_drafted = 0, n_tokens = 0;

    model_control_init(&control, MODEL_LOSS_STEPS);
    for (uint32_t i = 0; i < 100 && model_control_is_on(&control); i++) {
        model_control_behind(&control, 500 + i);
        n_tokens += step(&control, 0, 0, -5, &n_drafted);
    }
    assert_false(model_control_is_on(&control));
    assert_true(n_tokens >= 64 && n_tokens < 70);
    model_control_init(&control, MODEL_LOSS_STEPS);
    for (uint32_t i = 0; i < 400; i++) { /* the model comes nearer */
        model_control_behind(&control, 5000 - i);
        step(&control, 0, 0, -5, &n_drafted);
    }
    assert_true(model_control_is_on(&control));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_control_useful),     cmocka_unit_test(test_model_control_useless),
        cmocka_unit_test(test_model_control_comes_back), cmocka_unit_test(test_model_control_bound),
        cmocka_unit_test(test_model_control_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
