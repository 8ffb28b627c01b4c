// SPDX-License-Identifier: Apache-2.0
/* Who takes the next step, and what part of the time a parked step gets. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "scheduler/requests/turn_order.h"

enum {
    LOW = PRIORITY_BACKGROUND,
    MIDDLE = PRIORITY_NORMAL,
    HIGH = PRIORITY_INTERACTIVE,
};

static const int engine, other_engine;

/* Returns a generation that answers, as many classes above its own as it was raised by waiting. */
static TurnClaim answering(int priority, int raised) {
    return (TurnClaim){ .engine = &engine,
                        .standing = { (Priority)priority, (Priority)(priority + raised) },
                        .may_run = true,
                        .has_begun = true,
                        .has_output = true };
}

static TurnClaim reading_prompt(int priority, int raised) {
    TurnClaim claim = answering(priority, raised);

    claim.has_output = false;
    return claim;
}

static TurnClaim arrived(int priority, int raised) {
    TurnClaim claim = reading_prompt(priority, raised);

    claim.has_begun = false;
    return claim;
}

static TurnClaim paused(TurnClaim claim) {
    claim.may_run = false;
    return claim;
}

static ParkedStep parked(int top, int rank) {
    return (ParkedStep){ .top = (Priority)top, .rank = (Priority)rank };
}

/* Neither a generation whose client does not read, nor one before its first turn, takes part in anything. */
static void test_turn_order_ready(void **state) {
    const TurnClaim claims[] = { paused(reading_prompt(MIDDLE, 0)), arrived(MIDDLE, 0), paused(arrived(MIDDLE, 0)) };
    const TurnClaim ready = reading_prompt(MIDDLE, 0);
    const ParkedStep step = parked(LOW, LOW);

    assert_true(turn_order_is_ready(&ready));
    assert_true(turn_order_is_above(&ready, PRIORITY_BACKGROUND));
    assert_true(turn_order_goes_before_parked(&ready, &step));
    assert_true(turn_order_takes_turns(&ready, NULL));
    assert_true(turn_order_awaits_token(&ready, PRIORITY_NORMAL));
    for (size_t i = 0; i < ARRAY_LEN(claims); i++) {
        assert_false(turn_order_is_ready(&claims[i]));
        assert_false(turn_order_is_above(&claims[i], PRIORITY_BACKGROUND));
        assert_false(turn_order_goes_before_parked(&claims[i], &step));
        assert_false(turn_order_takes_turns(&claims[i], NULL));
        assert_false(turn_order_awaits_token(&claims[i], PRIORITY_NORMAL));
    }
}

/* A step makes way for a higher class, never for one that waiting has raised. */
static void test_turn_order_above(void **state) {
    for (int top = LOW; top <= HIGH; top++)
        for (int priority = LOW; priority <= HIGH; priority++)
            for (int raised = 0; raised <= HIGH - priority; raised++) {
                const TurnClaim claim = answering(priority, raised);
                ParkedStep step = parked(top, HIGH);

                assert_int_equal(turn_order_is_above(&claim, (Priority)top), priority > top);
                assert_int_equal(turn_order_goes_before_parked(&claim, &step), priority > top);
                step.waits = true;
                assert_false(turn_order_goes_before_parked(&claim, &step));
            }
}

static void test_turn_order_takes_turns(void **state) {
    for (int priority = LOW; priority <= HIGH; priority++) {
        const TurnClaim claim = answering(priority, 0);

        assert_int_equal(turn_order_takes_turns(&claim, NULL), priority != HIGH);
        assert_int_equal(turn_order_takes_turns(&claim, &other_engine), priority != HIGH);
        assert_false(turn_order_takes_turns(&claim, &engine));
    }
}

static void test_turn_order_awaits_token(void **state) {
    for (int priority = LOW; priority <= HIGH; priority++)
        for (int top = LOW; top <= HIGH; top++) {
            const TurnClaim waits = reading_prompt(priority, 0), answers = answering(priority, 0);

            assert_int_equal(turn_order_awaits_token(&waits, (Priority)top), priority >= top);
            assert_false(turn_order_awaits_token(&answers, (Priority)top));
        }
}

/* While an interactive generation waits for its first token, only what counts as interactive begins. */
static void test_turn_order_may_begin(void **state) {
    for (int priority = LOW; priority <= HIGH; priority++)
        for (int raised = 0; raised <= HIGH - priority; raised++) {
            const TurnClaim claim = arrived(priority, raised), without_reader = paused(claim),
                            begun = reading_prompt(priority, raised);

            assert_true(turn_order_may_begin(&claim, false));
            assert_int_equal(turn_order_may_begin(&claim, true), priority + raised == HIGH);
            assert_false(turn_order_may_begin(&without_reader, false));
            assert_false(turn_order_may_begin(&begun, false));
        }
}

static void test_turn_order_stands_back(void **state) {
    static const struct {
        int priority, raised, parked, top;
        bool stands_back;
    } cases[] = {
        { MIDDLE, 0, MIDDLE, HIGH, true },  { MIDDLE, 1, MIDDLE, HIGH, false }, /* waiting has raised it */
        { MIDDLE, 0, LOW, HIGH, false },                                        /* of a higher class than the parked */
        { LOW, 0, LOW, MIDDLE, true },      { LOW, 0, LOW, HIGH, true },
        { LOW, 1, LOW, MIDDLE, true },      { LOW, 2, LOW, HIGH, true }, /* its class has its own part of the time */
        { LOW, 0, MIDDLE, HIGH, true },     { LOW, 2, MIDDLE, HIGH, false },
        { LOW, 0, LOW, LOW, false },        { MIDDLE, 0, MIDDLE, MIDDLE, false }, /* the step's own class */
        { HIGH, 0, MIDDLE, MIDDLE, false },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const TurnClaim prompt = reading_prompt(cases[i].priority, cases[i].raised),
                        answer = answering(cases[i].priority, cases[i].raised);
        const Priority top = (Priority)cases[i].top;
        ParkedStep step = parked(cases[i].parked, cases[i].parked);

        if (turn_order_stands_back(&prompt, &step, top) != cases[i].stands_back)
            fail_msg("case %zu", i);
        assert_false(turn_order_stands_back(&answer, &step, top));
        assert_false(turn_order_stands_back(&prompt, NULL, top));
        step.waits = true;
        assert_false(turn_order_stands_back(&prompt, &step, top));
    }
}

static void test_turn_order_part_parked(void **state) {
    static const struct {
        int parked, rank, top;
        TurnPart beside_answers, beside_waiting;
    } cases[] = {
        { MIDDLE, MIDDLE, HIGH, TURN_PART_EQUAL, TURN_PART_NONE },
        { MIDDLE, HIGH, HIGH, TURN_PART_EQUAL, TURN_PART_EQUAL }, /* waiting has raised it */
        { LOW, LOW, HIGH, TURN_PART_SMALL, TURN_PART_NONE },
        { LOW, MIDDLE, HIGH, TURN_PART_SMALL, TURN_PART_NONE },
        { LOW, HIGH, HIGH, TURN_PART_SMALL, TURN_PART_EQUAL },
        { LOW, LOW, MIDDLE, TURN_PART_SMALL, TURN_PART_NONE },
        { LOW, MIDDLE, MIDDLE, TURN_PART_SMALL, TURN_PART_EQUAL },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const ParkedStep step = parked(cases[i].parked, cases[i].rank);

        assert_int_equal(turn_order_part(&step, NULL, (Priority)cases[i].top, false), cases[i].beside_answers);
        assert_int_equal(turn_order_part(&step, NULL, (Priority)cases[i].top, true), cases[i].beside_waiting);
    }
}

/* A generation of another engine gets as much time, unless somebody of a class above its rank waits. */
static void test_turn_order_part_elsewhere(void **state) {
    assert_int_equal(turn_order_part(NULL, NULL, PRIORITY_INTERACTIVE, false), TURN_PART_NONE);
    for (int priority = LOW; priority <= MIDDLE; priority++)
        for (int raised = 0; raised <= HIGH - priority; raised++) {
            const TurnClaim other = answering(priority, raised);

            assert_int_equal(turn_order_part(NULL, &other, PRIORITY_INTERACTIVE, false), TURN_PART_EQUAL);
            assert_int_equal(turn_order_part(NULL, &other, PRIORITY_INTERACTIVE, true),
                             priority + raised == HIGH ? TURN_PART_EQUAL : TURN_PART_NONE);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turn_order_ready),       cmocka_unit_test(test_turn_order_above),
        cmocka_unit_test(test_turn_order_takes_turns), cmocka_unit_test(test_turn_order_awaits_token),
        cmocka_unit_test(test_turn_order_may_begin),   cmocka_unit_test(test_turn_order_stands_back),
        cmocka_unit_test(test_turn_order_part_parked), cmocka_unit_test(test_turn_order_part_elsewhere),
    };

    return cmocka_run_group_tests_name("turn_order", tests, NULL, NULL);
}
