// SPDX-License-Identifier: Apache-2.0
/* Who gets a place first, and who gives one up. test_priority has the queue that asks. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "scheduler/requests/admission_order.h"
#include "test/unit/fixtures/model_maker.h"

#define SECOND_NS (UINT64_C(1000) * 1000 * 1000)

static const char alice, bob;

static AdmissionClaim claim(const char *user, int priority, uint64_t serial) {
    return (
        AdmissionClaim){ .user = user, .priority = (Priority)priority, .rank = (Priority)priority, .serial = serial };
}

static AdmissionClaim placed(const char *user, int priority, unsigned int n_running, uint64_t placed_ns) {
    AdmissionClaim it = claim(user, priority, 1);

    it.has_place = true;
    it.n_running = it.n_taken = n_running;
    it.placed_ns = placed_ns;
    return it;
}

static void goes_first(const AdmissionClaim *first, const AdmissionClaim *second) {
    assert_true(admission_order_goes_first(first, second));
    assert_false(admission_order_goes_first(second, first));
}

/* Each reason alone, from the last to the first: a stronger one outweighs all that were there before. */
static void test_admission_order_goes_first(void **state) {
    AdmissionClaim a = claim(&alice, PRIORITY_NORMAL, 1), b = claim(&bob, PRIORITY_NORMAL, 2);

    goes_first(&a, &b);
    a.served_ns = 1;
    goes_first(&b, &a);
    b.n_taken = 1;
    goes_first(&a, &b);
    b.rank = PRIORITY_INTERACTIVE;
    goes_first(&b, &a);
}

/* Requests of one user and class keep their order, whatever waiting has made of them. */
static void test_admission_order_own_requests(void **state) {
    AdmissionClaim a = claim(&alice, PRIORITY_NORMAL, 1), b = claim(&alice, PRIORITY_NORMAL, 2);

    b.rank = PRIORITY_INTERACTIVE;
    goes_first(&a, &b);
    a.priority = a.rank = PRIORITY_BACKGROUND;
    goes_first(&b, &a);
}

static void test_admission_order_yields_to_a_class(void **state) {
    AdmissionClaim background = placed(&alice, PRIORITY_BACKGROUND, 1, 0);
    AdmissionClaim own = claim(&alice, PRIORITY_NORMAL, 2), other = claim(&bob, PRIORITY_NORMAL, 2);

    assert_true(admission_order_must_yield(&background, &own, 0));
    assert_true(admission_order_must_yield(&background, &other, 0));
    background.has_rested = true; /* what waiting gave it is kept for a turn */
    assert_false(admission_order_must_yield(&background, &own, SECOND_NS - 1));
    assert_true(admission_order_must_yield(&background, &own, SECOND_NS));
    background.has_place = false;
    assert_false(admission_order_must_yield(&background, &own, SECOND_NS));
    background.has_place = true;
    other.kind = 1;
    assert_false(admission_order_must_yield(&background, &other, SECOND_NS));
    other = claim(&bob, PRIORITY_BACKGROUND, 2);
    background = placed(&alice, PRIORITY_NORMAL, 9, 0);
    assert_false(admission_order_must_yield(&background, &other, 9 * SECOND_NS));
}

/* Within a class users share places: at once with two places more, after a turn with one more and if served more. */
static void test_admission_order_yields_to_a_user(void **state) {
    AdmissionClaim a = placed(&alice, PRIORITY_NORMAL, 2, 0), b = claim(&bob, PRIORITY_NORMAL, 2),
                   own = claim(&alice, PRIORITY_NORMAL, 2);

    assert_true(admission_order_must_yield(&a, &b, 0));
    assert_false(admission_order_must_yield(&a, &own, 9 * SECOND_NS));
    a.n_running = 1;
    assert_false(admission_order_must_yield(&a, &b, SECOND_NS)); /* served no more */
    a.served_ns = 1;
    assert_false(admission_order_must_yield(&a, &b, SECOND_NS - 1));
    assert_true(admission_order_must_yield(&a, &b, SECOND_NS));
    b.n_taken = 1;
    assert_false(admission_order_must_yield(&a, &b, SECOND_NS));
    b.rank = PRIORITY_INTERACTIVE; /* waiting has raised it */
    assert_true(admission_order_must_yield(&a, &b, SECOND_NS));
}

static void yields_first(const AdmissionClaim *first, const AdmissionClaim *second) {
    assert_true(admission_order_yields_first(first, second));
    assert_false(admission_order_yields_first(second, first));
}

static void test_admission_order_yields_first(void **state) {
    AdmissionClaim a = placed(&alice, PRIORITY_NORMAL, 1, 0), b = placed(&bob, PRIORITY_NORMAL, 1, 0);

    b.serial = 2;
    yields_first(&b, &a); /* the latest */
    a.priority = PRIORITY_BACKGROUND;
    yields_first(&a, &b);
    b.n_running = 2;
    yields_first(&b, &a);
}

/* Positions are 1 to n. A higher rank is before a lower one, and users of a rank take turns. */
static void test_admission_order_number(void **state) {
    static const char users[3];
    AdmissionClaim claims[12];
    uint64_t random = 7;

    assert_int_equal(admission_order_number(claims, 0), 0);
    for (size_t round = 0; round < 200; round++) {
        uint64_t seen = 0;

        for (size_t i = 0; i < ARRAY_LEN(claims); i++)
            claims[i] = claim(&users[test_random(&random) % ARRAY_LEN(users)], (int)(test_random(&random) % 3) - 1, i);
        assert_int_equal(admission_order_number(claims, ARRAY_LEN(claims)), 0);
        for (size_t i = 0; i < ARRAY_LEN(claims); i++) {
            seen |= UINT64_C(1) << claims[i].position;
            for (size_t j = 0; j < ARRAY_LEN(claims); j++)
                if (claims[i].rank > claims[j].rank ||
                    (i < j && claims[i].user == claims[j].user && claims[i].rank == claims[j].rank))
                    assert_true(claims[i].position < claims[j].position);
        }
        assert_int_equal(seen, ((UINT64_C(1) << ARRAY_LEN(claims)) - 1) << 1);
    }
    for (size_t i = 0; i < 4; i++)
        claims[i] = claim(i < 3 ? &alice : &bob, PRIORITY_NORMAL, i);
    assert_int_equal(admission_order_number(claims, 4), 0);
    assert_int_equal(claims[0].position, 1);
    assert_int_equal(claims[3].position, 2);
    assert_int_equal(claims[1].position, 3);
    assert_int_equal(claims[2].position, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_admission_order_goes_first),
        cmocka_unit_test(test_admission_order_own_requests),
        cmocka_unit_test(test_admission_order_yields_to_a_class),
        cmocka_unit_test(test_admission_order_yields_to_a_user),
        cmocka_unit_test(test_admission_order_yields_first),
        cmocka_unit_test(test_admission_order_number),
    };

    return cmocka_run_group_tests_name("admission_order", tests, NULL, NULL);
}
