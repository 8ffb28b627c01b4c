// SPDX-License-Identifier: Apache-2.0
/* The thread of the draft database and the histories in memory: order, bounds, shares of users, deletion, and unusable
 * databases. */
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <poll.h>
#include <semaphore.h>
#include <sys/stat.h>

#include "base/log.h"
#include "daemon/history/histories.h"
#include "test/unit/spec/db/draft_db_fixture.h"

enum {
    ADA = 1000,
    BOB = 1001,
    TEXT = 50, /* tokens */
};

static const uint8_t *const tokenizer = draft_db_fixture_tokenizer;

typedef struct Fixture {
    DraftDbFixture files;
    AccountTable accounts;
    DraftStore *store;
    Histories *histories;
    sem_t news;
} Fixture;

static void no_log(LogLevel level, const char *topic, const char *line) {
}

static int setup(void **state) {
    Fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    log_set_sink(no_log);
    draft_db_fixture_init(&fixture->files);
    account_table_init(&fixture->accounts);
    sem_init(&fixture->news, 0, 0);
    assert_int_equal(draft_store_new(&fixture->store, fixture->files.path, &(DraftDbLimits){ 0 }, &fixture->accounts),
                     0);
    assert_int_equal(histories_new(&fixture->histories, fixture->store), 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    Fixture *fixture = *state;

    assert_int_equal(draft_store_stop(fixture->store, 60000), 0);
    histories_free(fixture->histories);
    draft_store_free(fixture->store);
    assert_int_equal(fixture->accounts.used_bytes[ACCOUNT_DRAFTDB], 0);
    sem_destroy(&fixture->news);
    draft_db_fixture_deinit(&fixture->files);
    free(fixture);
    log_set_sink(NULL);
    return 0;
}

static void on_news(void *arg) {
    sem_post(arg);
}

static void start(Fixture *fixture) {
    assert_int_equal(draft_store_start(fixture->store, on_news, &fixture->news), 0);
}

static void submit_text(Fixture *fixture, uint32_t uid, uint32_t seed, size_t n) {
    _cleanup_(freep) uint32_t *tokens = draft_db_fixture_tokens(seed, n);
    DraftErrand *errand = draft_errand_new(DRAFT_ADD, uid, tokenizer);

    assert_non_null(errand);
    for (size_t i = 0; i < n; i++)
        draft_errand_add_token(errand, &fixture->accounts, tokens[i]);
    draft_store_submit(fixture->store, &errand);
    assert_null(errand);
}

/* Waits for news and hands them to the histories. */
static void settle(Fixture *fixture, uint64_t now_ns) {
    sem_wait(&fixture->news);
    histories_settle(fixture->histories, now_ns);
}

/* Sends an errand through the store and, if its kind needs that, through the engine thread. The caller frees the
 * answer. */
static DraftErrand *call(Fixture *fixture, DraftErrand *errand) {
    const bool by_engine = errand->kind == DRAFT_FORGET || errand->kind == DRAFT_IMPORT;
    struct pollfd answered = { .fd = draft_store_fd(fixture->store), .events = POLLIN };
    DraftErrand *answer;

    draft_store_submit(fixture->store, &errand);
    while (by_engine && !poll(&answered, 1, 0))
        settle(fixture, 1);
    assert_int_equal(poll(&answered, 1, 60000), 1);
    answer = draft_store_take_answer(fixture->store);
    assert_non_null(answer);
    return answer;
}

static uint64_t stored(Fixture *fixture, uint32_t uid) {
    _cleanup_(draft_errand_freep) DraftErrand *errand = call(fixture, draft_errand_new(DRAFT_STATS, uid, NULL));

    assert_int_equal(errand->result.r, 0);
    assert_int_equal(errand->result.n_stats, 1);
    return errand->result.stats[0].n_documents;
}

/* Waits until the store has built the user's history, and returns the history. */
static History *made(Fixture *fixture, uint32_t uid) {
    History *history;

    assert_null(histories_find(fixture->histories, uid, tokenizer, 1));
    while (!(history = histories_find(fixture->histories, uid, tokenizer, 1)))
        settle(fixture, 1);
    return history;
}

/* ---- the store --------------------------------------------------------------------------------------------------- */

/* Statistics count all answers that were submitted before the request. */
static void test_draft_store_in_order(void **state) {
    Fixture *fixture = *state;

    start(fixture);
    for (uint32_t i = 0; i < 3; i++) {
        submit_text(fixture, ADA, i, TEXT);
        assert_int_equal(stored(fixture, ADA), i + 1);
    }
    assert_int_equal(stored(fixture, BOB), 0);
    assert_int_equal(draft_store_counts(fixture->store).n_stored, 3);
    assert_int_equal(draft_store_counts(fixture->store).n_dropped, 0);
    for (uint32_t i = 0; i < 3; i++) { /* the engine thread gets the same texts, in order */
        _cleanup_(draft_errand_freep) DraftErrand *errand = draft_store_take_news(fixture->store);

        assert_non_null(errand);
        assert_int_equal(errand->kind, DRAFT_ADD);
        assert_int_equal(errand->answer.tokens[0], i);
    }
    assert_false(draft_store_has_news(fixture->store));
}

/* While the disk does not keep up, one user's answers leave room for another's, and the bytes of all are bounded. */
static void test_draft_store_bounds_what_waits(void **state) {
    Fixture *fixture = *state;
    const size_t n = 16384, len_bytes = n * sizeof(uint32_t);
    const size_t share = DRAFT_STORE_WAITING_BYTES / DRAFT_STORE_USER_PARTS / len_bytes;

    for (uint32_t i = 0; i < share + 5; i++)
        submit_text(fixture, ADA, i, n);
    assert_int_equal(draft_store_counts(fixture->store).n_dropped, 5);
    for (uint32_t i = 0; i < share + 7; i++)
        submit_text(fixture, BOB, i, n);
    assert_int_equal(draft_store_counts(fixture->store).n_dropped, 12);
    submit_text(fixture, 1002, 0, n);
    assert_int_equal(draft_store_counts(fixture->store).n_dropped, 13);
    assert_true(fixture->accounts.used_bytes[ACCOUNT_DRAFTDB] <= DRAFT_STORE_WAITING_BYTES);
    start(fixture);
    assert_int_equal(stored(fixture, ADA), share);
    assert_int_equal(stored(fixture, BOB), share);
    submit_text(fixture, 1002, 0, n);
    assert_int_equal(stored(fixture, 1002), 1);
}

static void test_draft_store_without_memory(void **state) {
    Fixture *fixture = *state;

    fixture->accounts.limit_bytes[ACCOUNT_DRAFTDB] = 3 * TEXT;
    start(fixture);
    submit_text(fixture, ADA, 1, TEXT);
    assert_int_equal(stored(fixture, ADA), 0);
    assert_int_equal(draft_store_counts(fixture->store).n_dropped, 1);
}

/* Answers that are finished when the service ends are stored; requests of clients are not done any more. */
static void test_draft_store_stops(void **state) {
    Fixture *fixture = *state;
    DraftErrand *forget = draft_errand_new(DRAFT_FORGET, ADA, NULL);
    DraftDbStats stats;
    ErrText err;

    for (uint32_t i = 0; i < 20; i++)
        submit_text(fixture, ADA, i, TEXT);
    draft_store_submit(fixture->store, &forget);
    for (uint32_t i = 20; i < 40; i++)
        submit_text(fixture, ADA, i, TEXT);
    start(fixture);
    assert_int_equal(draft_store_stop(fixture->store, 60000), 0);
    fixture->files.now_s = 0;
    assert_int_equal(draft_db_fixture_open(&fixture->files), 0);
    assert_int_equal(draft_db_stats(fixture->files.db, ADA, &stats, &err), 0);
    assert_true(stats.n_documents == 40 || stats.n_documents == 20); /* the deletion may be done already */
}

/* The store refuses a folder that others may read, says why, and goes on without a database. */
static void test_draft_store_unusable(void **state) {
    Fixture *fixture = *state;
    _cleanup_(draft_errand_freep) DraftErrand *stats = NULL;

    assert_int_equal(mkdir(fixture->files.folder, 0755), 0);
    start(fixture);
    submit_text(fixture, ADA, 1, TEXT);
    stats = call(fixture, draft_errand_new(DRAFT_STATS, ADA, NULL));
    assert_int_equal(stats->result.r, -ENOENT);
    assert_non_null(strstr(stats->result.err.text, "chmod 700"));
    assert_int_equal(draft_store_counts(fixture->store).n_dropped, 1);
    /* A request for a history does not leave a pending entry behind: the next request asks again. */
    assert_null(histories_find(fixture->histories, ADA, tokenizer, 1));
    settle(fixture, 1);
    assert_null(histories_find(fixture->histories, ADA, tokenizer, 1));
    settle(fixture, 1);
}

/* While another process holds the database, users are told at once who holds it. The first use afterwards opens it. */
static void test_draft_store_takes_over(void **state) {
    Fixture *fixture = *state;
    DraftErrand *errand;
    char name[64];

    assert_int_equal(draft_db_fixture_open(&fixture->files), 0);
    start(fixture);
    snprintf(name, sizeof(name), "process %d uses this draft database", (int)getpid());
    for (int i = 0; i < 3; i++) {
        errand = call(fixture, draft_errand_new(i ? DRAFT_STATS : DRAFT_FORGET, ADA, NULL));
        assert_int_equal(errand->result.r, DRAFT_DB_E_BUSY);
        assert_non_null(strstr(errand->result.err.text, name));
        draft_errand_free(errand);
    }
    draft_db_fixture_close(&fixture->files);
    submit_text(fixture, ADA, 1, TEXT);
    assert_int_equal(stored(fixture, ADA), 1);
}

/* ---- histories --------------------------------------------------------------------------------------------------- */

static void test_histories_have_what_is_stored(void **state) {
    Fixture *fixture = *state;
    History *history;

    start(fixture);
    submit_text(fixture, ADA, 1, TEXT);
    submit_text(fixture, ADA, 2, TEXT);
    submit_text(fixture, BOB, 3, TEXT);
    history = made(fixture, ADA);
    assert_int_equal(history_stats(history).n_texts, 2);
    assert_int_equal(history_stats(history).n_tokens, 2 * TEXT);
    assert_int_equal(history_stats(made(fixture, BOB)).n_texts, 1);
    submit_text(fixture, ADA, 4, TEXT);
    while (history_stats(history).n_texts == 2)
        settle(fixture, 1);
    assert_int_equal(history_stats(history).n_texts, 3);
    assert_int_equal(history_stats(made(fixture, 1002)).n_texts, 0);
}

/* The history contains an answer once that is stored while the history is built. */
static void test_histories_have_each_once(void **state) {
    Fixture *fixture = *state;
    History *history;

    submit_text(fixture, ADA, 1, TEXT);
    assert_null(histories_find(fixture->histories, ADA, tokenizer, 1));
    submit_text(fixture, ADA, 2, TEXT);
    start(fixture);
    assert_int_equal(stored(fixture, ADA), 2);
    histories_settle(fixture->histories, 1);
    history = histories_find(fixture->histories, ADA, tokenizer, 1);
    assert_non_null(history);
    assert_int_equal(history_stats(history).n_texts, 2);
}

/* After a model's load the histories of its latest users are built before anybody asks. */
static void test_histories_warm(void **state) {
    Fixture *fixture = *state;
    History *history;

    start(fixture);
    submit_text(fixture, ADA, 1, TEXT);
    for (uint32_t uid = 2000; uid < 2000 + DRAFT_RECENT_MAX - 1; uid++)
        submit_text(fixture, uid, uid, TEXT);
    submit_text(fixture, BOB, 2, TEXT);
    assert_int_equal(stored(fixture, BOB), 1);
    histories_settle(fixture->histories, 1);
    histories_warm(fixture->histories, tokenizer);
    for (int turn = 0; turn < 2; turn++) { /* the list of users, then their histories, in order */
        assert_int_equal(stored(fixture, BOB), 1);
        histories_settle(fixture->histories, 1);
    }
    history = histories_find(fixture->histories, BOB, tokenizer, 1);
    assert_non_null(history);
    assert_int_equal(history_stats(history).n_texts, 1);
    assert_non_null(histories_find(fixture->histories, 2000, tokenizer, 1));
    assert_null(histories_find(fixture->histories, ADA, tokenizer, 1)); /* the earliest of too many users */
}

static void test_histories_forget(void **state) {
    Fixture *fixture = *state;
    _cleanup_(draft_errand_freep) DraftErrand *forgot = NULL;

    start(fixture);
    submit_text(fixture, ADA, 1, TEXT);
    submit_text(fixture, BOB, 2, TEXT);
    (void)made(fixture, ADA);
    (void)made(fixture, BOB);
    forgot = call(fixture, draft_errand_new(DRAFT_FORGET, ADA, NULL));
    assert_int_equal(forgot->result.r, 0);
    assert_int_equal(forgot->result.n_documents, 1);
    assert_int_equal(history_stats(made(fixture, ADA)).n_texts, 0);
    assert_non_null(histories_find(fixture->histories, BOB, tokenizer, 1));
}

static void test_histories_frozen(void **state) {
    Fixture *fixture = *state;
    DraftErrand *errand = draft_errand_new(DRAFT_FREEZE, ADA, NULL);
    History *history;

    start(fixture);
    errand->is_frozen = true;
    draft_errand_free(call(fixture, errand));
    history = made(fixture, ADA);
    submit_text(fixture, ADA, 1, TEXT);
    assert_int_equal(stored(fixture, ADA), 0);
    histories_settle(fixture->histories, 1);
    assert_int_equal(history_stats(history).n_texts, 0);
    assert_int_equal(draft_store_counts(fixture->store).n_dropped, 0);
}

/* A history is dropped once unused for HISTORIES_IDLE_NS, or at the age of HISTORIES_LIFE_NS even if used. */
static void test_histories_go(void **state) {
    Fixture *fixture = *state;
    uint64_t now_ns = 1;

    start(fixture);
    (void)made(fixture, ADA);
    assert_int_equal(histories_wake_ns(fixture->histories), 1 + HISTORIES_IDLE_NS);
    histories_settle(fixture->histories, HISTORIES_IDLE_NS);
    assert_non_null(histories_find(fixture->histories, ADA, tokenizer, 1));
    histories_settle(fixture->histories, 1 + HISTORIES_IDLE_NS);
    assert_int_equal(histories_wake_ns(fixture->histories), UINT64_MAX);
    (void)made(fixture, ADA);
    for (; now_ns < 1 + HISTORIES_LIFE_NS; now_ns += HISTORIES_IDLE_NS / 2) {
        assert_non_null(histories_find(fixture->histories, ADA, tokenizer, now_ns));
        histories_settle(fixture->histories, now_ns);
    }
    histories_settle(fixture->histories, now_ns);
    assert_int_equal(histories_wake_ns(fixture->histories), UINT64_MAX);
    (void)made(fixture, ADA);
    assert_true(histories_drop(fixture->histories));
    assert_false(histories_drop(fixture->histories));
}

/* If memory is short, one history is dropped at a time: the least recently used one of the user with the most bytes. */
static void test_histories_make_way_one_by_one(void **state) {
    Fixture *fixture = *state;

    start(fixture);
    submit_text(fixture, ADA, 1, TEXT);
    for (uint32_t i = 0; i < 100; i++)
        submit_text(fixture, BOB, i, 10 * TEXT);
    (void)made(fixture, ADA);
    (void)made(fixture, BOB);
    assert_true(histories_drop_one(fixture->histories));
    assert_non_null(histories_find(fixture->histories, ADA, tokenizer, 1));
    assert_true(histories_drop_one(fixture->histories));
    assert_false(histories_drop_one(fixture->histories));
}

/* Many histories of one user leave room for other users' histories. */
static void test_histories_share_the_room(void **state) {
    Fixture *fixture = *state;
    uint8_t other[DRAFT_DB_TOKENIZER_BYTES] = { 0 };

    start(fixture);
    (void)made(fixture, BOB);
    for (uint8_t i = 0; i < 2 * HISTORIES_MAX; i++) {
        other[0] = i;
        assert_null(histories_find(fixture->histories, ADA, other, 2 + i));
        while (!histories_find(fixture->histories, ADA, other, 2 + i))
            settle(fixture, 2 + i);
    }
    assert_non_null(histories_find(fixture->histories, BOB, tokenizer, 100));
    other[0] = HISTORIES_MAX - 1; /* only the latest of ADA's histories are kept */
    assert_null(histories_find(fixture->histories, ADA, other, 100));
    other[0] = 2 * HISTORIES_MAX - 1;
    assert_non_null(histories_find(fixture->histories, ADA, other, 100));
    for (uint32_t uid = 2000; uid < 2000 + HISTORIES_MAX; uid++) /* as many users with one history each */
        (void)histories_find(fixture->histories, uid, tokenizer, 100);
    assert_non_null(histories_find(fixture->histories, BOB, tokenizer, 100));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_draft_store_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_draft_store_bounds_what_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_draft_store_without_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_draft_store_stops, setup, teardown),
        cmocka_unit_test_setup_teardown(test_draft_store_unusable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_draft_store_takes_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_histories_have_what_is_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(test_histories_have_each_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_histories_warm, setup, teardown),
        cmocka_unit_test_setup_teardown(test_histories_forget, setup, teardown),
        cmocka_unit_test_setup_teardown(test_histories_frozen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_histories_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_histories_make_way_one_by_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_histories_share_the_room, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
