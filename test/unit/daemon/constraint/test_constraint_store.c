// SPDX-License-Identifier: Apache-2.0
/* The thread that compiles constraints: results, errors, what is kept for whom, turns of users, errands that nobody
 * waits for. */
#undef NDEBUG
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/constraint/constraint_cache.h"
#include "daemon/constraint/constraint_store.h"
#include "daemon/constraint/constraint_turns.h"
#include "engine/constraint/engine_vocabulary.h"
#include "test/unit/fixtures/tiny_engine.h"

enum {
    ADA = 1000,
    BOB = 1001,
};

typedef struct Fixture {
    TinyEngine tiny;
    ConstraintStore *store;
} Fixture;

static int setup(void **state) {
    Fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    tiny_engine_open(&fixture->tiny, ENGINE_DEVICE_CPU, 32);
    assert_int_equal(constraint_store_new(&fixture->store, &fixture->tiny.accounts), 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;

    assert_int_equal(constraint_store_stop(fixture->store, 60000), 0);
    constraint_store_free(fixture->store);
    tiny_engine_close(&fixture->tiny); /* checks that no account has anything left */
    free(fixture);
    return 0;
}

static ConstraintErrand *submit(Fixture *fixture, uint32_t uid, ConstraintForm form, const char *text,
                                bool has_engine) {
    const ConstraintSpec spec = { .form = form, .text = text, .n_bytes = strlen(text) };
    ConstraintErrand *errand = constraint_errand_new(uid, &spec, has_engine ? fixture->tiny.engine : NULL);

    assert_non_null(errand);
    assert_int_equal(constraint_store_submit(fixture->store, errand), 0);
    return errand;
}

static ConstraintErrand *take(Fixture *fixture) {
    ConstraintErrand *errand;

    while (!(errand = constraint_store_take(fixture->store))) {
        struct pollfd poll_fd = { .fd = constraint_store_fd(fixture->store), .events = POLLIN };

        assert_int_equal(poll(&poll_fd, 1, 600000), 1);
    }
    return errand;
}

static Constraint *constraint_for(Fixture *fixture, uint32_t uid, const char *pattern) {
    ConstraintErrand *errand = submit(fixture, uid, CONSTRAINT_FORM_REGEX, pattern, true);
    Constraint *constraint;

    assert_ptr_equal(take(fixture), errand);
    if (errand->r)
        fail_msg("%s", errand->err.text);
    constraint = steal(&errand->constraint);
    constraint_errand_free(errand);
    return constraint;
}

/* A user gets the same constraint for the same text; nobody else does. */
static void test_a_user_keeps_what_was_compiled(void **state) {
    Fixture *fixture = *state;
    _cleanup_(constraint_unrefp) Constraint *first = constraint_for(fixture, ADA, "[c-z]{3}"),
                                            *again = constraint_for(fixture, ADA, "[c-z]{3}"),
                                            *other = constraint_for(fixture, ADA, "[c-z]{4}"),
                                            *of_bob = constraint_for(fixture, BOB, "[c-z]{3}");

    assert_ptr_equal(first, again);
    assert_ptr_not_equal(first, other);
    assert_ptr_not_equal(first, of_bob);
    assert_ptr_equal(constraint_vocabulary(first), engine_vocabulary_made(fixture->tiny.engine));
    assert_int_equal(constraint_least_tokens(other, 0), 4);
}

static void test_errors(void **state) {
    Fixture *fixture = *state;
    static const struct {
        ConstraintForm form;
        const char *text, *error;
        int r;
    } bad[] = {
        { CONSTRAINT_FORM_JSON_SCHEMA, "{\"properties\": {\"a\": {\"$dynamicRef\": \"#x\"}}}",
          "#/properties/a: $dynamicRef", CONSTRAINT_SPEC_E_INVALID },
        { CONSTRAINT_FORM_JSON_SCHEMA, "{\"type\": ", "JSON", CONSTRAINT_SPEC_E_INVALID },
        { CONSTRAINT_FORM_GBNF, "root ::= other", "other", CONSTRAINT_SPEC_E_INVALID },
        { CONSTRAINT_FORM_REGEX, "(?=a)", "look-around", CONSTRAINT_SPEC_E_INVALID },
        { CONSTRAINT_FORM_REGEX, "((a{1000}){1000}){1000}", "", CONSTRAINT_SPEC_E_TOO_COMPLEX },
    };

    for (int has_engine = 0; has_engine < 2; has_engine++)
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
            ConstraintErrand *errand = submit(fixture, ADA, bad[i].form, bad[i].text, has_engine);

            assert_ptr_equal(take(fixture), errand);
            if (has_engine || bad[i].r == CONSTRAINT_SPEC_E_INVALID)
                assert_int_equal(errand->r, bad[i].r);
            if (errand->r && (!*errand->err.text || !strstr(errand->err.text, bad[i].error)))
                fail_msg("%s: %s", bad[i].text, errand->err.text);
            assert_null(errand->constraint);
            constraint_errand_free(errand);
        }
}

/* Without memory for its states a constraint is refused, and nothing stays charged. */
static void test_no_memory(void **state) {
    Fixture *fixture = *state;
    AccountTable *accounts = &fixture->tiny.accounts;
    const uint64_t limit_bytes = accounts->limit_bytes[ACCOUNT_ACTIVATIONS];
    ConstraintErrand *errand;

    accounts->limit_bytes[ACCOUNT_ACTIVATIONS] = atomic_load(&accounts->used_bytes[ACCOUNT_ACTIVATIONS]) + (1 << 20);
    errand = submit(fixture, ADA, CONSTRAINT_FORM_REGEX, "c", true);
    assert_ptr_equal(take(fixture), errand);
    assert_int_equal(errand->r, CONSTRAINT_SPEC_E_MEMORY);
    constraint_errand_free(errand);
    accounts->limit_bytes[ACCOUNT_ACTIVATIONS] = limit_bytes;
    constraint_unref(constraint_for(fixture, ADA, "c"));
}

/* Does the queue's errands, each of which takes ns; order: the users' first letters. */
static void check_order(ConstraintTurns *turns, ConstraintErrandList *queue, uint64_t ns, const char *order) {
    ConstraintErrand *errand;

    for (; *order; order++) {
        errand = constraint_turns_next(turns, queue);
        assert_non_null(errand);
        assert_int_equal(errand->uid, *order);
        TAILQ_REMOVE(queue, errand, link);
        constraint_turns_took(turns, errand->uid, ns);
        constraint_errand_free(errand);
    }
}

static void queue_errands(ConstraintTurns *turns, ConstraintErrandList *queue, const char *uids) {
    for (; *uids; uids++) {
        ConstraintErrand *errand = constraint_errand_new((uint32_t)*uids, &(ConstraintSpec){ .text = "" }, NULL);

        assert_non_null(errand);
        constraint_turns_arrive(turns, errand->uid);
        TAILQ_INSERT_TAIL(queue, errand, link);
    }
}

/* A user with many errands, or with slow ones, does not keep others waiting for all of them; idle time gives no claim.
 */
static void test_users_take_turns(void **state) {
    ConstraintErrandList queue = TAILQ_HEAD_INITIALIZER(queue);
    ConstraintTurns turns = { 0 };

    queue_errands(&turns, &queue, "aaaaab");
    check_order(&turns, &queue, 100, "aba");
    queue_errands(&turns, &queue, "b");
    check_order(&turns, &queue, 1000, "b");
    queue_errands(&turns, &queue, "bc");
    check_order(&turns, &queue, 1000, "cabaa");
    assert_true(TAILQ_EMPTY(&queue) && !constraint_turns_next(&turns, &queue));
    queue_errands(&turns, &queue, "bbd"); /* d is new, and has no more claim than b */
    check_order(&turns, &queue, 1, "bdb");
    for (char uid = 1; uid < 127; uid++) /* more users than places */
        queue_errands(&turns, &queue, (const char[]){ uid, 0 });
    while (!TAILQ_EMPTY(&queue)) {
        const char uid = (char)constraint_turns_next(&turns, &queue)->uid;

        check_order(&turns, &queue, 1, (const char[]){ uid, 0 });
    }
}

static void test_withdrawn(void **state) {
    Fixture *fixture = *state;
    size_t n_left = 0;

    for (int i = 0; i < 30; i++) {
        ConstraintErrand *errand = submit(fixture, ADA, CONSTRAINT_FORM_REGEX, "(c|d)*c(c|d){150}", true);

        if (constraint_store_withdraw(fixture->store, errand))
            constraint_errand_free(errand);
        else
            n_left++; /* comes with the results */
    }
    while (n_left--)
        constraint_errand_free(take(fixture));
    assert_null(constraint_store_take(fixture->store));
}

/* --- the cache alone ---------------------------------------------------------------------------------------------- */

static Constraint *plain_constraint(Fixture *fixture, const char *pattern) {
    const ConstraintSpec spec = { .form = CONSTRAINT_FORM_REGEX, .text = pattern, .n_bytes = strlen(pattern) };
    _cleanup_(grammar_unrefp) Grammar *grammar = NULL;
    Constraint *constraint;
    ErrText err;

    assert_int_equal(constraint_spec_compile(&spec, &CONSTRAINT_LIMITS, &grammar, &err), 0);
    assert_int_equal(constraint_spec_build(&spec, grammar, fixture->tiny.engine, &constraint, &err), 0);
    return constraint;
}

static bool is_kept(ConstraintCache *cache, const Constraint *constraint, uint32_t uid, uint32_t number) {
    ConstraintKey key = { .uid = uid };
    _cleanup_(constraint_unrefp) Constraint *found = NULL;

    memcpy(key.hash, &number, sizeof(number));
    found = constraint_cache_find(cache, &key, constraint_vocabulary(constraint));
    return found != NULL;
}

static void keep(ConstraintCache *cache, Constraint *constraint, uint32_t uid, uint32_t number) {
    ConstraintKey key = { .uid = uid };

    memcpy(key.hash, &number, sizeof(number));
    constraint_cache_add(cache, &key, constraint);
}

static void test_the_cache_is_bounded(void **state) {
    Fixture *fixture = *state;
    _cleanup_(constraint_unrefp) Constraint *constraint = plain_constraint(fixture, "c");
    const uint32_t n =
        (uint32_t)(CONSTRAINT_CACHE_BYTES / CONSTRAINT_CACHE_USER_PARTS / constraint_memory_bytes(constraint));
    ConstraintCache cache;

    constraint_cache_init(&cache);
    keep(&cache, constraint, BOB, 0);
    for (uint32_t i = 0; i < 2 * n; i++) {
        keep(&cache, constraint, ADA, i);
        assert_true(is_kept(&cache, constraint, ADA, 0) || i > n); /* it is used each time, and stays */
        assert_true(cache.n_bytes <= CONSTRAINT_CACHE_BYTES);
    }
    assert_true(is_kept(&cache, constraint, ADA, 0));
    assert_false(is_kept(&cache, constraint, ADA, 1));
    assert_true(is_kept(&cache, constraint, ADA, 2 * n - 1));
    assert_true(is_kept(&cache, constraint, BOB, 0)); /* one user has a part of it at most */
    constraint_cache_sweep(&cache);
    assert_true(is_kept(&cache, constraint, BOB, 0));
    constraint_vocabulary_close(constraint_vocabulary(constraint));
    constraint_cache_sweep(&cache);
    assert_int_equal(cache.n_bytes, 0);
    constraint_cache_deinit(&cache);
}

/* Constraints that requests have used make way where memory is short, those first that were not used for longest. */
static void test_the_cache_makes_way(void **state) {
    Fixture *fixture = *state;
    Constraint *constraints[3], *used;
    ConstraintCache cache;

    constraint_cache_init(&cache);
    for (uint32_t i = 0; i < 3; i++) {
        constraints[i] = plain_constraint(fixture, "c");
        keep(&cache, constraints[i], ADA, i);
    }
    assert_false(constraint_cache_drop_one(&cache)); /* all of them are in use */
    used = constraints[1];
    constraint_unref(constraints[0]);
    constraint_unref(constraints[2]);
    assert_true(is_kept(&cache, used, ADA, 0)); /* used again */
    assert_true(constraint_cache_drop_one(&cache));
    assert_false(is_kept(&cache, used, ADA, 2));
    assert_true(is_kept(&cache, used, ADA, 0));
    assert_true(constraint_cache_drop_one(&cache));
    assert_false(is_kept(&cache, used, ADA, 0));
    assert_false(constraint_cache_drop_one(&cache));
    assert_true(is_kept(&cache, used, ADA, 1));
    constraint_cache_deinit(&cache);
    constraint_unref(used);
}

/* A constraint for which there is no room is made in the place of kept ones, but not of one in use. */
static void test_kept_ones_make_way_for_a_new_one(void **state) {
    Fixture *fixture = *state;
    AccountTable *accounts = &fixture->tiny.accounts;
    _cleanup_(constraint_unrefp) Constraint *in_use = constraint_for(fixture, ADA, "[c-f]{3}");
    const uint64_t before_bytes = atomic_load(&accounts->used_bytes[ACCOUNT_ACTIVATIONS]);
    const size_t kept_bytes = constraint_memory_bytes(in_use);
    uint32_t n_kept = (10u << 20) / (uint32_t)kept_bytes;
    uint64_t limit_bytes = accounts->limit_bytes[ACCOUNT_ACTIVATIONS];

    for (uint32_t i = 0; i < n_kept; i++) {
        char pattern[16];

        snprintf(pattern, sizeof(pattern), "[c-z]{%u}", i + 1);
        constraint_unref(constraint_for(fixture, ADA, pattern));
    }
    assert_true(atomic_load(&accounts->used_bytes[ACCOUNT_ACTIVATIONS]) > before_bytes + (8 << 20));
    accounts->limit_bytes[ACCOUNT_ACTIVATIONS] = atomic_load(&accounts->used_bytes[ACCOUNT_ACTIVATIONS]) + (1 << 20);
    constraint_unref(constraint_for(fixture, BOB, "c"));
    assert_true(atomic_load(&accounts->used_bytes[ACCOUNT_ACTIVATIONS]) <
                accounts->limit_bytes[ACCOUNT_ACTIVATIONS] - (1 << 20));
    constraint_unref(constraint_for(fixture, ADA, "[c-f]{3}"));
    accounts->limit_bytes[ACCOUNT_ACTIVATIONS] = limit_bytes;
    assert_true(constraint_store_drop(fixture->store));
    assert_false(constraint_store_drop_one(fixture->store));
    assert_int_equal(atomic_load(&accounts->used_bytes[ACCOUNT_ACTIVATIONS]), before_bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_user_keeps_what_was_compiled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
        cmocka_unit_test(test_users_take_turns),
        cmocka_unit_test_setup_teardown(test_withdrawn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_cache_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_cache_makes_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept_ones_make_way_for_a_new_one, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
