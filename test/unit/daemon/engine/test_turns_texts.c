// SPDX-License-Identifier: Apache-2.0
/* Requests for vectors in the turns: lanes, fewer of them where a user's share is small, errors, cancel. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/engine/job_choices.h"
#include "daemon/engine/job_vectors.h"
#include "daemon/engine/turns.h"
#include "test/unit/fixtures/real_model.h"

enum {
    CHUNK = 64,
    N = 20, /* texts: more than run at a time */
    TURNS_MAX = 2000,
};

typedef struct Fixture {
    Outbox *outbox;
    Turns *turns;
    JobText list[N];
    char texts[N][64];
    Job job;
    JobNews last;
    uint32_t most; /* texts that ran at a time */
} Fixture;

static RealModel model;
static Fixture fixture;

static int open_model(void **state) {
    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 2, CHUNK);
    return 0;
}

static int close_model(void **state) {
    real_model_close(&model);
    return 0;
}

static void begin(size_t n) {
    fixture = (Fixture){ 0 };
    assert_int_equal(outbox_new(&fixture.outbox), 0);
    assert_int_equal(turns_new(&fixture.turns, fixture.outbox), 0);
    for (size_t i = 0; i < n; i++) {
        snprintf(fixture.texts[i], sizeof(fixture.texts[i]), "Text %zu tells of %zu ships and a harbour.", i, i * i);
        fixture.list[i] = (JobText){ .text = fixture.texts[i], .text_bytes = strlen(fixture.texts[i]) };
    }
    fixture.job = (Job){
        .kind = JOB_GENERATE,
        .engine = model.engine,
        .texts = { .list = fixture.list, .n = n, .takes_model_pooling = true },
        .generate = { .n = n < JOB_CHOICES_MAX ? (uint32_t)n : JOB_CHOICES_MAX,
                      .priority = PRIORITY_NORMAL,
                      .options = { .no_reuse = true, .sampler = SAMPLER_OPTIONS_GREEDY } },
    };
}

static void take_turn(void) {
    JobNews news;
    uint32_t n_running = 0;

    turns_take(fixture.turns);
    for (uint32_t i = 0; fixture.job.run.choices && i < fixture.job.run.choices->n; i++)
        n_running += job_of_choice(&fixture.job, i)->run.generation != NULL;
    fixture.most = n_running > fixture.most ? n_running : fixture.most;
    while (outbox_take(fixture.outbox, &news)) {
        job_news_deinit(&fixture.last);
        fixture.last = news;
    }
}

static void run(void) {
    turns_add(fixture.turns, &fixture.job);
    for (size_t i = 0; !fixture.last.done; i++) {
        assert_true(i < TURNS_MAX);
        take_turn();
    }
    assert_false(turns_have_work(fixture.turns));
}

static void end(void) {
    job_news_deinit(&fixture.last);
    job_choices_free(fixture.job.run.choices);
    job_vectors_free(fixture.job.run.vectors);
    turns_free(fixture.turns);
    outbox_free(fixture.outbox);
    assert_int_equal(model.accounts.used_bytes[ACCOUNT_KV], 0);
}

/* Each text has the vector that it has alone, with as many lanes as there are and with two. */
static void test_turns_texts_in_lanes(void **state) {
    const size_t n_embd = engine_info(model.engine)->n_embd;
    JobVectors *all;

    begin(N);
    run();
    assert_int_equal(fixture.last.result, 0);
    assert_int_equal(fixture.last.end, GENERATION_END_PROMPT);
    assert_int_equal(fixture.job.run.choices->n, JOB_CHOICES_MAX);
    assert_in_range(fixture.most, 3, JOB_CHOICES_MAX);
    all = steal(&fixture.job.run.vectors);
    assert_int_equal(all->n_next, N);
    assert_int_equal(all->pooling, EMBEDDING_MEAN);
    assert_int_equal(fixture.last.usage.n_prompt_tokens, fixture.last.usage.n_prefilled_tokens);
    end();

    begin(N);
    fixture.job.generate.options.user = 7;
    fixture.job.generate.options.kv_max_bytes = 2 * engine_kv_bytes(model.engine, 20);
    run();
    assert_int_equal(fixture.last.result, 0);
    assert_int_equal(fixture.job.run.choices->n, 2);
    assert_int_equal(fixture.most, 2);
    assert_memory_equal(fixture.job.run.vectors->values, all->values, N * n_embd * sizeof(float));
    end();

    begin(1);
    run();
    assert_memory_equal(fixture.job.run.vectors->values, all->values, n_embd * sizeof(float));
    assert_int_equal(fixture.job.run.vectors->n_tokens[0], all->n_tokens[0]);
    end();
    job_vectors_free(all);
}

/* A text that is refused ends the request, first or last. */
static void test_turns_texts_refused(void **state) {
    static const uint32_t none[] = { UINT32_MAX };

    for (size_t i = 0; i < N; i += N - 1) {
        char name[16];

        begin(N);
        fixture.list[i] = (JobText){ .tokens = none, .n_tokens = 1 };
        run();
        assert_int_equal(fixture.last.result, JOB_E_TOKEN);
        snprintf(name, sizeof(name), "text %zu: ", i);
        assert_non_null(strstr(fixture.last.err.text, name));
        end();
    }
    begin(N);
    fixture.job.generate.options.user = 7;
    fixture.job.generate.options.kv_max_bytes = 1;
    run();
    assert_int_equal(fixture.last.result, JOB_E_SHARE);
    end();
}

static void test_turns_texts_cancelled(void **state) {
    begin(N);
    turns_add(fixture.turns, &fixture.job);
    take_turn();
    assert_non_null(fixture.job.run.choices);
    job_cancel_answers(&fixture.job);
    for (size_t i = 0; !fixture.last.done; i++) {
        assert_true(i < TURNS_MAX);
        take_turn();
    }
    assert_int_equal(fixture.last.end, GENERATION_END_CANCELLED);
    assert_int_equal(fixture.last.result, 0);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns_texts_in_lanes),
        cmocka_unit_test(test_turns_texts_refused),
        cmocka_unit_test(test_turns_texts_cancelled),
    };

    return cmocka_run_group_tests(tests, open_model, close_model);
}
