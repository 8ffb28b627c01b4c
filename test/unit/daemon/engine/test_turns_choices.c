// SPDX-License-Identifier: Apache-2.0
/* Several answers of one request in the turns: one that fails for itself while the others go on, and what makes way for
 * a request without memory. */
#undef NDEBUG
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/engine/job_choices.h"
#include "daemon/engine/turns.h"
#include "daemon/engine/turns_answers.h"
#include "test/unit/fixtures/tiny_engine.h"

enum {
    N = 3, /* answers */
    N_TOKENS = 8,
    TURNS_MAX = 1000,
};

typedef struct Fixture {
    TinyEngine tiny;
    Outbox *outbox;
    Turns *turns;
    Job job;
    JobNews last;
    uint32_t tokens[N][N_TOKENS];
    size_t n[N];
} Fixture;

static const uint32_t prompt[] = { 2, 3, 4, 2, 3, 4, 5, 6, 2, 3 };

static int setup(void **state) {
    Fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    tiny_engine_open(&fixture->tiny, ENGINE_DEVICE_CPU, 32);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;

    tiny_engine_close(&fixture->tiny); /* checks that no account has anything left */
    free(fixture);
    return 0;
}

static void begin(Fixture *fixture) {
    const TinyEngine tiny = fixture->tiny;

    *fixture = (Fixture){ .tiny = tiny };
    assert_int_equal(outbox_new(&fixture->outbox), 0);
    assert_int_equal(turns_new(&fixture->turns, fixture->outbox), 0);
    fixture->job = (Job){
        .kind = JOB_GENERATE,
        .engine = fixture->tiny.engine,
        .input = { .tokens = prompt, .n_tokens = ARRAY_LEN(prompt) },
        .generate = { .n = N,
                      .want_tokens = true,
                      .priority = PRIORITY_NORMAL,
                      .options = { .max_tokens = N_TOKENS,
                                   .ignore_end = true,
                                   .no_reuse = true,
                                   .sampler = { .temperature = 1.5F,
                                                .top_p = 1,
                                                .repetition_penalty = 1,
                                                .seed = 7 } } },
    };
    fixture->job.generate.sampling.options = fixture->job.generate.options.sampler;
    turns_add(fixture->turns, &fixture->job);
}

static void take_news(Fixture *fixture) {
    JobNews news;

    while (outbox_take(fixture->outbox, &news)) {
        size_t from = 0;

        for (size_t i = 0; i < news.n_marks; i++) {
            const uint32_t choice = news.marks[i].choice;

            for (; from < news.marks[i].tokens_end; from++) {
                assert_true(choice < N && fixture->n[choice] < N_TOKENS);
                fixture->tokens[choice][fixture->n[choice]++] = news.tokens.ids[from];
            }
        }
        job_news_deinit(&fixture->last);
        fixture->last = news;
    }
}

static void run(Fixture *fixture) {
    for (size_t i = 0; !fixture->last.done; i++) {
        assert_true(i < TURNS_MAX);
        turns_take(fixture->turns);
        take_news(fixture);
    }
    assert_false(turns_have_work(fixture->turns));
}

static void end(Fixture *fixture) {
    job_news_deinit(&fixture->last);
    job_choices_free(fixture->job.run.choices);
    turns_free(fixture->turns);
    outbox_free(fixture->outbox);
}

/* Runs until each answer has two tokens. */
static void begin_answers(Fixture *fixture) {
    begin(fixture);
    while (fixture->n[0] < 2 || fixture->n[1] < 2 || fixture->n[2] < 2) {
        assert_false(fixture->last.done);
        turns_take(fixture->turns);
        take_news(fixture);
    }
}

/* Lets the step of an answer have that result. */
static void fail_answer(Fixture *fixture, uint32_t choice, int r) {
    Job *job = job_of_choice(&fixture->job, choice);
    ErrText err = { .text = "made up" };

    TAILQ_REMOVE(&fixture->turns->active, job, link);
    assert_false(turns_took_turn(fixture->turns, job, r, &err));
}

static void test_an_answer_fails_alone(void **state) {
    static const struct {
        int r;
        GenerationEnd end;
    } cases[] = { { GENERATION_E_MEMORY, GENERATION_END_MEMORY },
                  { GENERATION_E_COMPLEX, GENERATION_END_COMPLEX },
                  { GENERATION_E_DEAD_END, GENERATION_END_COMPLEX } };
    Fixture *fixture = *state;
    uint32_t wanted[N][N_TOKENS];

    begin(fixture);
    run(fixture);
    assert_int_equal(fixture->last.result, 0);
    memcpy(wanted, fixture->tokens, sizeof(wanted));
    end(fixture);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (uint32_t failed = 0; failed < N; failed++) {
            const JobChoiceEnd *ends;

            begin_answers(fixture);
            fail_answer(fixture, failed, cases[i].r);
            run(fixture);
            ends = fixture->job.run.choices->ends;
            assert_int_equal(fixture->last.result, 0);
            assert_int_equal(fixture->last.end, failed ? GENERATION_END_MAX : cases[i].end);
            for (uint32_t choice = 0; choice < N; choice++) {
                assert_int_equal(ends[choice].end, choice == failed ? cases[i].end : GENERATION_END_MAX);
                assert_true(choice == failed ? fixture->n[choice] < N_TOKENS : fixture->n[choice] == N_TOKENS);
                assert_memory_equal(fixture->tokens[choice], wanted[choice], fixture->n[choice] * sizeof(uint32_t));
            }
            end(fixture);
        }
}

/* If every answer fails for itself, the request fails as the first one of them did. */
static void test_all_answers_fail(void **state) {
    Fixture *fixture = *state;

    begin_answers(fixture);
    fail_answer(fixture, 2, GENERATION_E_COMPLEX);
    fail_answer(fixture, 0, GENERATION_E_MEMORY);
    fail_answer(fixture, 1, GENERATION_E_MEMORY);
    take_news(fixture);
    assert_true(fixture->last.done);
    assert_int_equal(fixture->last.result, JOB_E_COMPLEX);
    assert_non_null(strstr(fixture->last.err.text, "too complex"));
    end(fixture);
}

/* A failure that is nobody's own ends all, also behind one that is. */
static void test_a_failure_of_all(void **state) {
    Fixture *fixture = *state;

    begin_answers(fixture);
    fail_answer(fixture, 2, GENERATION_E_MEMORY);
    fail_answer(fixture, 1, -EIO);
    run(fixture);
    assert_int_equal(fixture->last.result, -EIO);
    assert_non_null(strstr(fixture->last.err.text, "made up"));
    assert_int_equal(fixture->job.run.choices->ends[0].end, GENERATION_END_CANCELLED);
    end(fixture);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* Compiles a pattern, which the store keeps. */
static void keep_constraint(ConstraintStore *store, Engine *engine, const char *pattern) {
    const ConstraintSpec spec = { .form = CONSTRAINT_FORM_REGEX, .text = pattern, .n_bytes = strlen(pattern) };
    ConstraintErrand *errand = constraint_errand_new(1000, &spec, engine), *done;

    assert_non_null(errand);
    assert_int_equal(constraint_store_submit(store, errand), 0);
    while (!(done = constraint_store_take(store))) {
        struct pollfd poll_fd = { .fd = constraint_store_fd(store), .events = POLLIN };

        assert_int_equal(poll(&poll_fd, 1, 600000), 1);
    }
    assert_int_equal(done->r, 0);
    constraint_errand_free(done);
}

/* A request for which memory-limit has no room begins in the place of constraints that no request has. */
static void test_constraints_make_way(void **state) {
    Fixture *fixture = *state;
    AccountTable *accounts = &fixture->tiny.accounts;
    const uint64_t limit_bytes = accounts->others_limit_bytes;

    for (int makes_way = 0; makes_way < 2; makes_way++) {
        ConstraintStore *store = NULL;
        size_t n_left = 0;

        assert_int_equal(constraint_store_new(&store, accounts), 0);
        keep_constraint(store, fixture->tiny.engine, "[c-f]{3}");
        keep_constraint(store, fixture->tiny.engine, "[c-f]{4}");
        begin(fixture);
        if (makes_way)
            turns_use_constraints(fixture->turns, store);
        accounts->others_limit_bytes = atomic_load(&accounts->others_bytes) + 1024;
        run(fixture);
        assert_int_equal(fixture->last.result, makes_way ? 0 : JOB_E_MEMORY);
        end(fixture);
        accounts->others_limit_bytes = limit_bytes;
        while (constraint_store_drop_one(store))
            n_left++;
        assert_int_equal(n_left, makes_way ? 1 : 2); /* the first one had room enough */
        assert_int_equal(constraint_store_stop(store, 60000), 0);
        constraint_store_free(store);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_answer_fails_alone),
        cmocka_unit_test(test_all_answers_fail),
        cmocka_unit_test(test_a_failure_of_all),
        cmocka_unit_test(test_constraints_make_way),
    };

    return cmocka_run_group_tests_name("choices", tests, setup, teardown);
}
