// SPDX-License-Identifier: Apache-2.0
/* The order of turns, one turn at a time. Steps make way at a known operator, and resume while interactive generations
 * run. Every answer has the same tokens as without other generations. */
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "daemon/engine/job_choices.h"
#include "daemon/engine/turns.h"
#include "engine/core/engine_state.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/fixtures/real_model.h"
#include "test/unit/spec/db/draft_db_fixture.h"

static const SpecLab always = { .always = true };

enum {
    CHUNK = 32,
    JOBS_MAX = 8,
    TURNS_MAX = 20000, /* turns of a test; a test with more would never end */
};

#define AGEING_NS (UINT64_C(3600) * 1000000000) /* an hour: no request ages during a test by itself */

static const char long_text[] =
    "The ferry had left an hour before, and the keeper of the landing counted the coins by lamplight. There were fewer "
    "than on other evenings, because the fair in the upper town drew the people over the bridge; but the river was "
    "low, and whoever came late would have to wait for the morning. He wrote the sum into the book, as he had every "
    "night for thirty years, and then he heard steps on the planks.";
static const char brief_text[] = "Water boils at";

static RealModel model, other_model;

typedef struct Got {
    Job job;
    TokenList tokens;
    GenerationUsage usage;
    GenerationEnd end;
    bool is_done;
    unsigned int order; /* rank of this generation's end among all ends, from 1 */
    unsigned int begun; /* rank of this generation's first computed tokens among all, from 1; 0: nothing computed yet */
} Got;

typedef struct Fixture {
    Outbox *outbox;
    Turns *turns;
    Got got[JOBS_MAX];
    size_t n;
    unsigned int n_done, n_begun;
} Fixture;

static int open_model(void **state) {
    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 2, CHUNK);
    return 0;
}

static int close_model(void **state) {
    real_model_close(&model);
    return 0;
}

static int setup(void **state) {
    Fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    assert_int_equal(outbox_new(&fixture->outbox), 0);
    assert_int_equal(turns_new(&fixture->turns, fixture->outbox), 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;

    fixture->turns = turns_free(fixture->turns);
    fixture->outbox = outbox_free(fixture->outbox);
    for (size_t i = 0; i < fixture->n; i++)
        token_list_deinit(&fixture->got[i].tokens);
    assert_int_equal(model.accounts.used_bytes[ACCOUNT_KV], 0);
    free(fixture);
    return 0;
}

static Got *add(Fixture *fixture, Engine *engine, Priority priority, const char *text, uint32_t max_tokens) {
    Got *got = &fixture->got[fixture->n++];

    assert_true(fixture->n <= JOBS_MAX);
    got->job = (Job){
        .kind = JOB_GENERATE,
        .owner = got,
        .engine = engine,
        .input = { .text = text, .text_bytes = strlen(text) },
        .generate = { .want_tokens = true,
                      .priority = priority,
                      .ageing_ns = AGEING_NS,
                      .options = { .max_tokens = max_tokens,
                                   .context_tokens = 512,
                                   .ignore_end = true,
                                   .sampler = SAMPLER_OPTIONS_GREEDY } },
    };
    turns_add(fixture->turns, &got->job);
    return got;
}

static void take_news(Fixture *fixture) {
    JobNews news;
    Job *job;

    outbox_quiet(fixture->outbox);
    while ((job = outbox_take(fixture->outbox, &news))) {
        Got *got = job->owner;

        assert_false(got->is_done);
        assert_int_equal(news.result, 0);
        for (size_t i = 0; i < news.tokens.n; i++)
            assert_int_equal(token_list_add(&got->tokens, news.tokens.ids[i]), 0);
        got->usage = news.usage;
        if (!got->begun && (news.usage.n_prefilled_tokens || news.tokens.n))
            got->begun = ++fixture->n_begun;
        if (news.done) {
            got->is_done = true;
            got->end = news.end;
            got->order = ++fixture->n_done;
        }
        job_news_deinit(&news);
    }
}

static void take_turn(Fixture *fixture) {
    assert_true(turns_have_work(fixture->turns));
    turns_take(fixture->turns);
    take_news(fixture);
}

static void run_until_done(Fixture *fixture, const Got *got) {
    for (size_t i = 0; !got->is_done; i++) {
        assert_true(i < TURNS_MAX);
        take_turn(fixture);
    }
}

static void run_all(Fixture *fixture) {
    for (size_t i = 0; turns_have_work(fixture->turns); i++) {
        assert_true(i < TURNS_MAX);
        take_turn(fixture);
    }
    for (size_t i = 0; i < fixture->n; i++)
        assert_true(fixture->got[i].is_done);
}

/* Adds a job whose first step makes way after its first operator. */
static Got *park(Fixture *fixture, Priority priority, uint32_t max_tokens) {
    const uint64_t before = turns_n_preempted(fixture->turns);
    Got *got = add(fixture, model.engine, priority, long_text, max_tokens);

    turns_interrupt(fixture->turns, PRIORITY_INTERACTIVE);
    take_turn(fixture); /* the first turn and the step */
    turns_resume(fixture->turns);
    assert_int_equal(turns_n_preempted(fixture->turns), before + 1);
    return got;
}

/* Asserts that @got began first. @other may have begun, too: how far its share of time gets depends on the machine. */
static void assert_begun_before(const Got *got, const Got *other) {
    assert_true(got->begun && (!other->begun || got->begun < other->begun));
}

static void same_tokens(const Got *got, const Got *alone) {
    assert_int_equal(got->end, GENERATION_END_MAX);
    assert_int_equal(got->tokens.n, alone->tokens.n);
    assert_memory_equal(got->tokens.ids, alone->tokens.ids, alone->tokens.n * sizeof(uint32_t));
}

static void test_turns_make_way(void **state) {
    Fixture *fixture = *state;
    Got *long_alone = add(fixture, model.engine, PRIORITY_BACKGROUND, long_text, 6), *brief_alone, *parked, *brief;

    run_all(fixture);
    brief_alone = add(fixture, model.engine, PRIORITY_INTERACTIVE, brief_text, 6);
    run_all(fixture);
    assert_int_equal(turns_n_preempted(fixture->turns), 0);

    parked = park(fixture, PRIORITY_BACKGROUND, 6);
    brief = add(fixture, model.engine, PRIORITY_INTERACTIVE, brief_text, 6);
    take_turn(fixture); /* computes the brief job's prompt and first token */
    assert_int_equal(brief->tokens.n, 1);
    assert_begun_before(brief, parked);
    run_until_done(fixture, brief);
    run_all(fixture);
    assert_true(brief->order < parked->order);
    same_tokens(brief, brief_alone);
    same_tokens(parked, long_alone);
    assert_int_equal(parked->usage.n_prefilled_tokens, parked->usage.n_prompt_tokens); /* no token is computed twice */
}

/* While an interactive generation answers, a parked step goes on in parts, and its generation goes on after the step.
 * */
static void test_turns_go_on_between_interactive_tokens(void **state) {
    Fixture *fixture = *state;
    Got *parked = park(fixture, PRIORITY_BACKGROUND, 2),
        *talker = add(fixture, model.engine, PRIORITY_INTERACTIVE, brief_text, 400);

    run_until_done(fixture, parked);
    assert_false(talker->is_done);
    atomic_store(&talker->job.cancelled, true);
    run_all(fixture);
}

/* A background step makes way for a normal request, whose first token does not wait for the rest of the step. The step
 * goes on while the request answers. */
static void test_turns_background_makes_way_for_normal(void **state) {
    Fixture *fixture = *state;
    Got *parked = add(fixture, model.engine, PRIORITY_BACKGROUND, long_text, 2), *normal, *interactive;

    turns_interrupt(fixture->turns, PRIORITY_NORMAL);
    take_turn(fixture);
    turns_resume(fixture->turns);
    assert_int_equal(turns_n_preempted(fixture->turns), 1);
    normal = add(fixture, model.engine, PRIORITY_NORMAL, long_text, 400);
    while (!normal->tokens.n) {
        take_turn(fixture);
        assert_false(parked->begun);
    }
    /* An interactive request has its steps beside the parked step as usual. */
    interactive = add(fixture, model.engine, PRIORITY_INTERACTIVE, brief_text, 2);
    take_turn(fixture);
    assert_int_equal(interactive->tokens.n, 1);
    run_until_done(fixture, parked);
    assert_true(interactive->is_done);
    assert_false(normal->is_done);
    atomic_store(&normal->job.cancelled, true);
    run_all(fixture);
}

/* A step of a normal request does not make way for another normal request. */
static void test_turns_normal_does_not_make_way_for_normal(void **state) {
    Fixture *fixture = *state;
    Got *normal = add(fixture, model.engine, PRIORITY_NORMAL, long_text, 1);
    const uint64_t before = turns_n_preempted(fixture->turns);

    turns_interrupt(fixture->turns, PRIORITY_NORMAL);
    take_turn(fixture);
    assert_int_equal(turns_n_preempted(fixture->turns), before);
    assert_true(normal->begun);
    turns_resume(fixture->turns);
    run_all(fixture);
}

/* A request that has waited long enough counts as interactive, and then goes on beside requests that wait for their
 * first token. */
static void test_turns_age(void **state) {
    Fixture *fixture = *state;
    Got *parked = park(fixture, PRIORITY_BACKGROUND, 2);
    size_t n_before, n_turns = 0;

    for (size_t i = 0; i < 3; i++) /* prompts that fill whole chunks */
        add(fixture, model.engine, PRIORITY_INTERACTIVE, long_text, 1);
    take_turn(fixture);
    take_turn(fixture);
    n_before = parked->usage.n_prefilled_tokens;
    assert_int_equal(n_before, 0);
    parked->job.generate.ageing_ns = 1; /* the parked job counts as aged from now on */
    while (!parked->usage.n_prefilled_tokens) {
        assert_false(fixture->got[3].is_done);
        assert_true(n_turns++ < 100);
        take_turn(fixture);
    }
    run_all(fixture);
    assert_int_equal(parked->tokens.n, 2);
}

/* A cancelled request with a parked step ends at once, while interactive requests go on. */
static void test_turns_let_go_of_what_made_way(void **state) {
    Fixture *fixture = *state;
    Got *parked = park(fixture, PRIORITY_NORMAL, 2),
        *talker = add(fixture, model.engine, PRIORITY_INTERACTIVE, long_text, 400);

    take_turn(fixture); /* the talker's first chunk */
    outbox_lock(fixture->outbox);
    atomic_store(&parked->job.cancelled, true);
    generation_cancel(parked->job.run.generation);
    outbox_unlock(fixture->outbox);
    take_turn(fixture);
    assert_true(parked->is_done);
    assert_int_equal(parked->end, GENERATION_END_CANCELLED);
    assert_false(talker->is_done);
    atomic_store(&talker->job.cancelled, true);
    run_all(fixture);
}

static void test_turns_cancel_all_with_a_parked_step(void **state) {
    Fixture *fixture = *state;
    Got *parked = park(fixture, PRIORITY_BACKGROUND, 2),
        *talker = add(fixture, model.engine, PRIORITY_INTERACTIVE, brief_text, 400);

    take_turn(fixture);
    turns_cancel_all(fixture->turns);
    take_news(fixture);
    assert_int_equal(parked->end, GENERATION_END_CANCELLED);
    assert_int_equal(talker->end, GENERATION_END_CANCELLED);
    assert_true(parked->is_done && talker->is_done);
    assert_false(turns_have_work(fixture->turns));
}

/* A step of one model makes way for a request of another model, and requests of either model do not starve the other.
 * */
static void test_turns_of_two_models(void **state) {
    Fixture *fixture = *state;
    Got *alone, *parked, *talker, *normal;

    real_model_open(&other_model, ENGINE_DEVICE_CPU, ISA_BEST, 1, CHUNK);
    alone = add(fixture, model.engine, PRIORITY_NORMAL, long_text, 3);
    run_all(fixture);
    parked = park(fixture, PRIORITY_BACKGROUND, 3);
    talker = add(fixture, other_model.engine, PRIORITY_INTERACTIVE, brief_text, 400);
    take_turn(fixture);
    assert_int_equal(talker->tokens.n, 1);
    assert_begun_before(talker, parked);
    run_until_done(fixture, parked);
    normal = add(fixture, model.engine, PRIORITY_NORMAL, long_text, 3);
    run_until_done(fixture, normal);
    assert_false(talker->is_done);
    atomic_store(&talker->job.cancelled, true);
    run_all(fixture);
    same_tokens(parked, alone);
    same_tokens(normal, alone);
    assert_int_equal(other_model.accounts.used_bytes[ACCOUNT_KV], 0);
    real_model_close(&other_model);
}

/* Without interactive requests the others are ordered by class, then by their last turns. */
static void test_turns_by_class(void **state) {
    Fixture *fixture = *state;
    Got *background = add(fixture, model.engine, PRIORITY_BACKGROUND, long_text, 1),
        *normal = add(fixture, model.engine, PRIORITY_NORMAL, long_text, 1);

    run_all(fixture);
    assert_true(normal->order < background->order);
    background = add(fixture, model.engine, PRIORITY_BACKGROUND, long_text, 1);
    normal = add(fixture, model.engine, PRIORITY_NORMAL, long_text, 1);
    background->job.generate.ageing_ns = 1; /* aged before the first step, hence ahead of the normal job */
    run_all(fixture);
    assert_true(background->order < normal->order);
}

/* ---- several answers --------------------------------------------------------------------------------------------- */

/* Adds a job of three answers, drawn with different seeds. */
static Got *add_several(Fixture *fixture, Priority priority, uint32_t max_tokens) {
    Got *got = add(fixture, model.engine, priority, long_text, max_tokens);

    got->job.generate.n = 3;
    got->job.generate.options.sampler.temperature = 1;
    return got;
}

static void end_several(Got *got) {
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(got->job.run.choices->ends[i].end, got->end);
    got->job.run.choices = job_choices_free(got->job.run.choices);
}

/* Three answers are one job to the loop: they end together, whatever the width lets run at a time. */
static void test_turns_of_several_answers(void **state) {
    Fixture *fixture = *state;
    uint32_t n_tokens = 0;

    for (uint32_t width = 0; width <= 3; width++) {
        Got *got = add_several(fixture, PRIORITY_NORMAL, 6);

        atomic_store(&got->job.width, width);
        run_all(fixture);
        assert_int_equal(got->end, GENERATION_END_MAX);
        assert_int_equal(got->tokens.n, 18);
        assert_int_equal(got->usage.n_output_tokens, 18);
        assert_int_equal(got->usage.n_prefilled_tokens + got->usage.n_cached_tokens, got->usage.n_prompt_tokens);
        n_tokens += got->usage.n_output_tokens;
        end_several(got);
    }
    assert_int_equal(n_tokens, 72);
}

/* A cancel ends all answers: also when one of them has a parked step, and when the service ends. */
static void test_turns_cancel_several_answers(void **state) {
    Fixture *fixture = *state;
    Got *got, *talker;

    for (int all = 0; all < 2; all++) {
        got = add_several(fixture, PRIORITY_BACKGROUND, 6);
        turns_interrupt(fixture->turns, PRIORITY_INTERACTIVE);
        take_turn(fixture);
        turns_resume(fixture->turns);
        talker = add(fixture, model.engine, PRIORITY_INTERACTIVE, brief_text, 400);
        take_turn(fixture);
        if (all) {
            turns_cancel_all(fixture->turns);
        } else {
            outbox_lock(fixture->outbox);
            job_cancel_answers(&got->job);
            outbox_unlock(fixture->outbox);
            turns_take(fixture->turns);
        }
        take_news(fixture);
        assert_true(got->is_done);
        assert_int_equal(got->end, GENERATION_END_CANCELLED);
        end_several(got);
        atomic_store(&talker->job.cancelled, true);
        run_all(fixture);
    }
}

/* ---- earlier answers --------------------------------------------------------------------------------------------- */

enum {
    ADA = 1000,
    BOB = 1001,
    SAID = 40, /* tokens of an answer */
};

typedef struct Past {
    DraftDbFixture files;
    DraftStore *store;
    Histories *histories;
} Past;

static void nobody_waits(void *arg) {
}

static void past_init(Past *past, Fixture *fixture) {
    draft_db_fixture_init(&past->files);
    assert_int_equal(draft_store_new(&past->store, past->files.path, &(DraftDbLimits){ 0 }, &model.accounts), 0);
    assert_int_equal(histories_new(&past->histories, past->store), 0);
    turns_use_histories(fixture->turns, past->histories);
    assert_int_equal(draft_store_start(past->store, nobody_waits, NULL), 0);
}

static void past_deinit(Past *past) {
    assert_int_equal(draft_store_stop(past->store, 60000), 0);
    histories_free(past->histories);
    draft_store_free(past->store);
    draft_db_fixture_deinit(&past->files);
}

/* Waits for the store's answer to an errand. The caller frees the answer. */
static DraftErrand *past_call(Past *past, DraftErrandKind kind, uint32_t uid) {
    DraftErrand *errand = draft_errand_new(kind, uid, NULL);

    draft_store_submit(past->store, &errand);
    while (!(errand = draft_store_take_answer(past->store)))
        histories_settle(past->histories, clock_now_ns());
    assert_int_equal(errand->result.r, 0);
    return errand;
}

static uint64_t past_stored(Past *past, uint32_t uid) {
    _cleanup_(draft_errand_freep) DraftErrand *errand = past_call(past, DRAFT_STATS, uid);

    histories_settle(past->histories, clock_now_ns());
    return errand->result.stats[0].n_documents;
}

static Got *ask_past(Fixture *fixture, uint32_t uid, bool keeps_history) {
    Got *got = add(fixture, model.engine, PRIORITY_NORMAL, brief_text, SAID);

    got->job.generate.keeps_history = keeps_history;
    got->job.generate.options.user = uid;
    got->job.generate.options.speculation =
        (GenerationSpeculation){ .sources = 1u << SPECULATION_HISTORY, .lab = &always };
    return got;
}

/* A user's earlier answers give drafts for that user, with the same tokens as without. Other users, requests without a
 * history and deleted answers get no drafts. */
static void test_turns_draft_from_earlier_answers(void **state) {
    Fixture *fixture = *state;
    _cleanup_(past_deinit) Past past = { 0 };
    Got *first, *second, *other, *without, *after;

    past_init(&past, fixture);
    first = ask_past(fixture, ADA, true);
    run_all(fixture);
    assert_int_equal(first->usage.n_drafted_tokens, 0);
    assert_int_equal(past_stored(&past, ADA), 1);

    second = ask_past(fixture, ADA, true);
    run_all(fixture);
    assert_true(second->usage.n_accepted_tokens > SAID / 2);
    assert_true(second->usage.n_steps < SAID / 2);
    same_tokens(second, first);
    assert_int_equal(past_stored(&past, ADA), 2);

    other = ask_past(fixture, BOB, true);
    run_all(fixture);
    assert_int_equal(past_stored(&past, BOB), 1);
    without = ask_past(fixture, ADA, false);
    run_all(fixture);
    assert_int_equal(other->usage.n_drafted_tokens + without->usage.n_drafted_tokens, 0);
    same_tokens(without, first);
    assert_int_equal(past_stored(&past, ADA), 2);

    draft_errand_free(past_call(&past, DRAFT_FORGET, ADA));
    after = ask_past(fixture, ADA, true);
    run_all(fixture);
    assert_int_equal(after->usage.n_drafted_tokens, 0);
    same_tokens(after, first);
}

/* A generation goes on while its user's history is deleted, without more drafts from that history. */
static void test_turns_forget_while_it_runs(void **state) {
    Fixture *fixture = *state;
    _cleanup_(past_deinit) Past past = { 0 };
    Got *first, *second;
    uint32_t n_drafted;

    past_init(&past, fixture);
    first = ask_past(fixture, ADA, true);
    run_all(fixture);
    assert_int_equal(past_stored(&past, ADA), 1);
    second = ask_past(fixture, ADA, true);
    while (!second->usage.n_drafted_tokens)
        take_turn(fixture);
    assert_false(second->is_done);
    draft_errand_free(past_call(&past, DRAFT_FORGET, ADA));
    n_drafted = second->usage.n_drafted_tokens;
    run_all(fixture);
    assert_int_equal(second->usage.n_drafted_tokens, n_drafted);
    same_tokens(second, first);
}

/* Earlier answers in memory make way for another user's request if there is no other memory. */
static void test_turns_earlier_answers_make_way(void **state) {
    Fixture *fixture = *state;
    _cleanup_(past_deinit) Past past = { 0 };
    const uint8_t *tokenizer = tokenizer_hash(engine_tokenizer(model.engine));
    DraftErrand *answer = draft_errand_new(DRAFT_ADD, ADA, tokenizer);
    uint64_t room_bytes;

    past_init(&past, fixture);
    for (uint32_t i = 0; i < 60000; i++)
        draft_errand_add_token(answer, &model.accounts, i * 2654435761u % 49152);
    draft_store_submit(past.store, &answer);
    while (!histories_find(past.histories, ADA, tokenizer, clock_now_ns()))
        histories_settle(past.histories, clock_now_ns());
    room_bytes = model.accounts.total_bytes + (500 << 10); /* a tenth of the history, too little for a request */
    model.accounts.total_limit_bytes = model.accounts.others_limit_bytes = room_bytes;
    (void)ask_past(fixture, BOB, false);
    run_all(fixture);
    assert_null(histories_find(past.histories, ADA, tokenizer, clock_now_ns()));
    model.accounts.total_limit_bytes = model.accounts.others_limit_bytes = UINT64_MAX;
}

/* No part of a cancelled answer is stored, whether the request is cancelled between two steps or within one. */
static void test_turns_store_nothing_of_what_is_cancelled(void **state) {
    Fixture *fixture = *state;
    _cleanup_(past_deinit) Past past = { 0 };

    past_init(&past, fixture);
    for (int i = 0; i < 2; i++) {
        Got *got = ask_past(fixture, ADA, true);

        while (got->tokens.n < 3)
            take_turn(fixture);
        if (i)
            generation_cancel(got->job.run.generation);
        else
            atomic_store(&got->job.cancelled, true);
        run_all(fixture);
        assert_int_equal(got->end, GENERATION_END_CANCELLED);
        assert_int_equal(past_stored(&past, ADA), 0);
    }
}

/* --- a device that fails ------------------------------------------------------------------------------------------ */

static BackendOps lost_ops;

static int lost_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                       size_t rows, const LinearOutput *out, ErrText *err) {
    return err_set(err, -EIO, "the device does not answer");
}

/* Both requests of a failed step end with the device's error text. The next request is answered as usual. */
static void test_turns_end_with_what_a_device_says(void **state) {
    Fixture *fixture = *state;
    const BackendOps *ops = model.engine->backend->ops;
    Got *before = add(fixture, model.engine, PRIORITY_NORMAL, brief_text, 4), *after;
    size_t n_ended = 0;
    JobNews news;

    run_all(fixture);
    add(fixture, model.engine, PRIORITY_NORMAL, long_text, 4);
    add(fixture, model.engine, PRIORITY_NORMAL, brief_text, 4);
    lost_ops = *ops;
    lost_ops.linear = lost_linear;
    model.engine->backend->ops = &lost_ops;
    for (size_t i = 0; turns_have_work(fixture->turns) && i < TURNS_MAX; i++)
        turns_take(fixture->turns);
    model.engine->backend->ops = ops;
    outbox_quiet(fixture->outbox);
    for (Job *job; (job = outbox_take(fixture->outbox, &news));) {
        if (news.done) {
            n_ended++;
            assert_int_equal(news.result, -EIO);
            assert_string_equal(news.err.text, "the step failed: the device does not answer");
            ((Got *)job->owner)->is_done = true;
        }
        job_news_deinit(&news);
    }
    assert_int_equal(n_ended, 2);
    after = add(fixture, model.engine, PRIORITY_NORMAL, brief_text, 4);
    run_all(fixture);
    same_tokens(after, before);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    /* The short tests: steps that are parked, cancelled, forgotten or lost. */
#define PARTED                                                                                                         \
    TEST(test_turns_make_way), TEST(test_turns_normal_does_not_make_way_for_normal), TEST(test_turns_age),             \
        TEST(test_turns_let_go_of_what_made_way), TEST(test_turns_cancel_all_with_a_parked_step),                      \
        TEST(test_turns_of_several_answers), TEST(test_turns_cancel_several_answers), TEST(test_turns_by_class),       \
        TEST(test_turns_forget_while_it_runs), TEST(test_turns_earlier_answers_make_way),                              \
        TEST(test_turns_store_nothing_of_what_is_cancelled), TEST(test_turns_end_with_what_a_device_says)
    const struct CMUnitTest brief[] = { PARTED };
    /* The further tests take hundreds of steps, about half a minute with a sanitizer. */
    const struct CMUnitTest tests[] = {
        PARTED,
        TEST(test_turns_go_on_between_interactive_tokens),
        TEST(test_turns_background_makes_way_for_normal),
        TEST(test_turns_of_two_models),
        TEST(test_turns_draft_from_earlier_answers),
    };

    if (patience_is_short())
        return cmocka_run_group_tests_name("turns", brief, open_model, close_model);
    return cmocka_run_group_tests_name("turns", tests, open_model, close_model);
}
