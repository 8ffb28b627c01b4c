// SPDX-License-Identifier: Apache-2.0
/* The draft database: what is kept of each user, limits, eviction order, forgetting, freezing. */
#define _GNU_SOURCE
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "spec/db/draft_db_blob.h"
#include "spec/db/draft_db_private.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/spec/db/draft_db_fixture.h"

static void assert_seeds(DraftDbFixture *fixture, uint32_t uid, const uint32_t *expected, size_t n) {
    uint32_t seeds[64];

    assert_int_equal(draft_db_fixture_seeds(fixture, uid, seeds, ARRAY_LEN(seeds)), n);
    assert_memory_equal(seeds, expected, n * sizeof(*seeds));
}
#define ASSERT_SEEDS(fixture, uid, ...)                                                                                \
    assert_seeds((fixture), (uid), (const uint32_t[]){ __VA_ARGS__ },                                                  \
                 sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

static mode_t mode_of(const char *path) {
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    return status.st_mode & 0777;
}

static void test_draft_db_files(void **state) {
    DraftDbFixture *fixture = *state;
    char log[256], other[256], holder[64];
    const DraftClockReading now = draft_db_fixture_now(fixture);
    DraftDb *second = NULL;
    ErrText err;

    umask(0);
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    umask(022);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 5, 10), 0);
    snprintf(log, sizeof(log), "%s-wal", fixture->path);
    assert_int_equal(mode_of(fixture->folder), 0700);
    assert_int_equal(mode_of(fixture->path), 0600);
    assert_int_equal(mode_of(log), 0600);

    assert_int_equal(draft_db_open(&second, fixture->path, &fixture->limits, &now, &err), DRAFT_DB_E_BUSY);
    assert_null(second);
    snprintf(holder, sizeof(holder), "process %d uses this draft database", (int)getpid());
    assert_non_null(strstr(err.text, holder));
    snprintf(other, sizeof(other), "%s-shm", fixture->path); /* a file that SQLite would map */
    assert_int_equal(access(other, F_OK), -1);

    assert_int_equal(chmod(fixture->folder, 0750), 0);
    assert_int_equal(draft_db_fixture_open(fixture), -EPERM);
    assert_non_null(strstr(fixture->err.text, "chmod 700"));
    assert_int_equal(chmod(fixture->folder, 0700), 0);
    assert_int_equal(chmod(fixture->path, 0640), 0);
    assert_int_equal(draft_db_fixture_open(fixture), -EPERM);
    assert_int_equal(chmod(fixture->path, 0600), 0);
    snprintf(other, sizeof(other), "%s-other", fixture->path);
    assert_int_equal(rename(fixture->path, other), 0);
    assert_int_equal(symlink(other, fixture->path), 0);
    assert_int_equal(draft_db_fixture_open(fixture), -EINVAL);
    assert_int_equal(rename(other, fixture->path), 0);
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    ASSERT_SEEDS(fixture, 1, 5);
}

static int no_document(void *arg, const DraftDbDocument *document) {
    fail();
    return 0;
}

static int empty_document(void *arg, const DraftDbDocument *document) {
    assert_int_equal(document->n_tokens, 0);
    ++*(int *)arg;
    return 0;
}

static int one_document(void *arg, const DraftDbDocument *document) {
    ++*(int *)arg;
    return 1;
}

static void test_draft_db_round_trips(void **state) {
    static const uint8_t other[DRAFT_DB_TOKENIZER_BYTES] = "another";
    const DraftDbDocument empty = { .uid = 9, .tokenizer = other };
    DraftDbFixture *fixture = *state;
    const DraftClockReading now = draft_db_fixture_now(fixture);
    DraftDbRead read;
    int n = 0;

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 7, 100, 1), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 7, 101, 65536), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 7, 102, 600), 0);
    assert_int_equal(draft_db_add(fixture->db, &empty, &now, &fixture->err), 0);
    for (int i = 0; i < 2; i++) {
        ASSERT_SEEDS(fixture, 7, 102, 101, 100);
        n = 0;
        assert_int_equal(draft_db_each(fixture->db, 9, other, 0, empty_document, &n, &read, &fixture->err), 0);
        assert_int_equal(n, 1);
        assert_int_equal(draft_db_fixture_open(fixture), 0);
    }
    /* Documents of another user, or of another token table, are not told. */
    assert_int_equal(
        draft_db_each(fixture->db, 8, draft_db_fixture_tokenizer, UINT64_MAX, no_document, NULL, &read, &fixture->err),
        0);
    assert_int_equal(draft_db_each(fixture->db, 7, other, UINT64_MAX, no_document, NULL, &read, &fixture->err), 0);
    assert_int_equal(read.n_documents, 0);

    /* Reading gives as many tokens as are wanted, in whole documents. */
    n = 0;
    assert_int_equal(
        draft_db_each(fixture->db, 7, draft_db_fixture_tokenizer, 66135, one_document, &n, &read, &fixture->err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(
        draft_db_each(fixture->db, 7, draft_db_fixture_tokenizer, 599, no_document, NULL, &read, &fixture->err), 0);
}

static void test_draft_db_refuses(void **state) {
    DraftDbFixture *fixture = *state;
    _cleanup_(freep) uint32_t *tokens = calloc(DRAFT_DB_TOKENS_MAX + 1, sizeof(*tokens));
    DraftDbDocument document = { .uid = 1, .tokenizer = draft_db_fixture_tokenizer, .tokens = tokens };
    const DraftClockReading now = draft_db_fixture_now(fixture);

    assert_non_null(tokens);
    fixture->limits.bytes_max = 20000;
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    document.n_tokens = DRAFT_DB_TOKENS_MAX + 1;
    assert_int_equal(draft_db_add(fixture->db, &document, &now, &fixture->err), DRAFT_DB_E_TOO_LARGE);
    document.n_tokens = 3;
    document.n_prompt = 4;
    assert_int_equal(draft_db_add(fixture->db, &document, &now, &fixture->err), -EINVAL);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 5, 5000), DRAFT_DB_E_TOO_LARGE);
    assert_int_equal(draft_db_fixture_seeds(fixture, 1, NULL, 0), 0);
}

static void test_draft_db_stats(void **state) {
    DraftDbFixture *fixture = *state;
    DraftDbStats stats;

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 7, 1, 10), 0);
    fixture->now_s += 50;
    assert_int_equal(draft_db_fixture_add(fixture, 7, 2, 1000), 0);
    assert_int_equal(draft_db_stats(fixture->db, 7, &stats, &fixture->err), 0);
    assert_int_equal(stats.n_documents, 2);
    assert_int_equal(stats.n_tokens, 1010);
    assert_int_equal(stats.oldest_s, DRAFT_DB_FIXTURE_NOW);
    assert_int_equal(stats.newest_s, DRAFT_DB_FIXTURE_NOW + 50);
    assert_in_range(stats.bytes, 10 + DRAFT_DB_ROW_BYTES, 10000);
    assert_int_equal(draft_db_stats(fixture->db, 8, &stats, &fixture->err), 0);
    assert_int_equal(stats.uid, 8);
    assert_int_equal(stats.n_documents + stats.n_tokens + stats.bytes + stats.oldest_s + stats.frozen, 0);
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static void test_draft_db_count(void **state) {
    DraftDbFixture *fixture = *state;

    fixture->limits.documents_max = 4;
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 5), 0);
    for (uint32_t seed = 20; seed < 26; seed++)
        assert_int_equal(draft_db_fixture_add(fixture, 2, seed, 5), 0);
    ASSERT_SEEDS(fixture, 1, 10); /* the oldest document of all, whose user does not have the most */
    ASSERT_SEEDS(fixture, 2, 25, 24, 23);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 11, 5), 0); /* 3 against 2 */
    ASSERT_SEEDS(fixture, 1, 11, 10);
    ASSERT_SEEDS(fixture, 2, 25, 24);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 12, 5), 0); /* user now has the most itself */
    ASSERT_SEEDS(fixture, 1, 12, 11);
    ASSERT_SEEDS(fixture, 2, 25, 24);
    assert_int_equal(draft_db_fixture_add(fixture, 3, 30, 5), 0); /* equally many each: uid 1 is the lower */
    ASSERT_SEEDS(fixture, 1, 12);
    /* equal to user 2 with the new one: the adder gives */
    assert_int_equal(draft_db_fixture_add(fixture, 3, 31, 5), 0);
    ASSERT_SEEDS(fixture, 3, 31);
    ASSERT_SEEDS(fixture, 2, 25, 24);

    /* A lower limit at the next start. */
    fixture->limits.documents_max = 2;
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    ASSERT_SEEDS(fixture, 2, 25);
    ASSERT_SEEDS(fixture, 3, 31);
}

static void test_draft_db_bytes(void **state) {
    DraftDbFixture *fixture = *state;
    DraftDbStats stats;

    fixture->limits.bytes_max = 40960;
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 1000), 0); /* two pages */
    assert_int_equal(draft_db_stats(fixture->db, 1, &stats, &fixture->err), 0);
    assert_int_equal(stats.bytes, 8192);
    for (uint32_t seed = 20; seed < 30; seed++)
        assert_int_equal(draft_db_fixture_add(fixture, 2, seed, 1000), 0);
    ASSERT_SEEDS(fixture, 1, 10);
    ASSERT_SEEDS(fixture, 2, 29, 28, 27, 26);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 11, 1000), 0);
    ASSERT_SEEDS(fixture, 2, 29, 28, 27);

    /* More than the others leave room for: nothing is stored, and nothing evicted. */
    assert_int_equal(draft_db_fixture_add(fixture, 3, 31, 7500), DRAFT_DB_E_FULL);
    assert_non_null(strstr(fixture->err.text, "uid 3"));
    ASSERT_SEEDS(fixture, 1, 11, 10);
    ASSERT_SEEDS(fixture, 2, 29, 28, 27);
    assert_int_equal(draft_db_fixture_seeds(fixture, 3, NULL, 0), 0);
}

static void test_draft_db_age(void **state) {
    DraftDbFixture *fixture = *state;
    DraftClockReading now;

    fixture->limits.age_max_s = 100;
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 5), 0);
    fixture->now_s += 100;
    assert_int_equal(draft_db_fixture_add(fixture, 2, 20, 5), 0);
    ASSERT_SEEDS(fixture, 1, 10);
    fixture->now_s++;
    assert_int_equal(draft_db_fixture_add(fixture, 2, 21, 5), 0);
    assert_int_equal(draft_db_fixture_seeds(fixture, 1, NULL, 0), 0);
    ASSERT_SEEDS(fixture, 2, 21, 20);
    fixture->now_s += 100;
    now = draft_db_fixture_now(fixture);
    assert_int_equal(draft_db_expire(fixture->db, &now, &fixture->err), 0);
    ASSERT_SEEDS(fixture, 2, 21);
    fixture->now_s += 1000;
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_seeds(fixture, 2, NULL, 0), 0);
}

static void test_draft_db_freeze(void **state) {
    DraftDbFixture *fixture = *state;
    DraftDbForget what = { .uid = (const uint32_t[]){ 1 } };
    DraftDbStats stats;
    uint64_t n;

    fixture->limits = (DraftDbLimits){ .documents_max = 3, .age_max_s = 100 };
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 5), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 11, 5), 0);
    assert_int_equal(draft_db_freeze(fixture->db, 1, true, &fixture->err), 0);
    fixture->now_s += 200;
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_stats(fixture->db, 1, &stats, &fixture->err), 0);
    assert_true(stats.frozen);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 12, 5), DRAFT_DB_E_FROZEN);
    assert_int_equal(draft_db_fixture_add(fixture, 2, 20, 5), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 2, 21, 5), 0); /* in place of its own */
    ASSERT_SEEDS(fixture, 2, 21);
    ASSERT_SEEDS(fixture, 1, 11, 10);
    assert_int_equal(draft_db_freeze(fixture->db, 2, true, &fixture->err), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 3, 30, 5), DRAFT_DB_E_FULL);
    assert_int_equal(draft_db_freeze(fixture->db, 1, false, &fixture->err), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 3, 30, 5), 0);
    assert_int_equal(draft_db_fixture_seeds(fixture, 1, NULL, 0), 0); /* the documents had been too old for long */

    assert_int_equal(draft_db_freeze(fixture->db, 3, true, &fixture->err), 0);
    what.uid = (const uint32_t[]){ 3 };
    assert_int_equal(draft_db_forget(fixture->db, &what, &n, &fixture->err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(draft_db_stats(fixture->db, 3, &stats, &fixture->err), 0);
    assert_true(stats.frozen);
}

/* --- forget ------------------------------------------------------------------------------------------------------- */

static void test_draft_db_forget_which(void **state) {
    static const uint8_t other[DRAFT_DB_TOKENIZER_BYTES] = "another";
    DraftDbFixture *fixture = *state;
    uint64_t n, before = DRAFT_DB_FIXTURE_NOW + 10;

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 5), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 2, 20, 5), 0);
    fixture->now_s += 10;
    assert_int_equal(draft_db_fixture_add(fixture, 1, 11, 5), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 2, 21, 5), 0);
    assert_int_equal(draft_db_forget(fixture->db, &(DraftDbForget){ .tokenizer = other }, &n, &fixture->err), 0);
    assert_int_equal(n, 0);
    assert_int_equal(draft_db_forget(fixture->db,
                                     &(DraftDbForget){ .uid = (const uint32_t[]){ 1 }, .before_s = &before }, &n,
                                     &fixture->err),
                     0);
    assert_int_equal(n, 1);
    ASSERT_SEEDS(fixture, 1, 11);
    ASSERT_SEEDS(fixture, 2, 21, 20);
    assert_int_equal(
        draft_db_forget(fixture->db, &(DraftDbForget){ .uid = (const uint32_t[]){ 2 } }, &n, &fixture->err), 0);
    assert_int_equal(n, 2);
    ASSERT_SEEDS(fixture, 1, 11);
    assert_int_equal(draft_db_fixture_add(fixture, 2, 22, 5), 0);
    assert_int_equal(
        draft_db_forget(fixture->db, &(DraftDbForget){ .tokenizer = draft_db_fixture_tokenizer }, &n, &fixture->err),
        0);
    assert_int_equal(n, 2);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 12, 5), 0);
    assert_int_equal(draft_db_forget(fixture->db, &(DraftDbForget){ 0 }, &n, &fixture->err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(draft_db_fixture_seeds(fixture, 1, NULL, 0), 0);
}

/* A number of the test's own, the same in every run. */
static uint32_t draw(uint64_t *random, uint32_t n) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*random >> 33) % n);
}

/*
 * Documents of two users in turns, of sizes that share pages and that chain them, and half of them deleted at random:
 * the tree is balanced then, which leaves copies of rows in gaps of pages. secure_delete alone keeps one here.
 */
static void test_draft_db_forget_bytes(void **state) {
    enum {
        N = 3000
    };
    static const uint32_t n_tokens[] = { 20, 60, 140, 300, 1200 };
    const uint32_t n_documents = patience_is_short() ? 1000 : N;
    static uint32_t sizes[N];
    static uint8_t marks[N][DRAFT_DB_FIXTURE_MARK_BYTES];
    DraftDbFixture *fixture = *state;
    const DraftDbForget what = { .uid = (const uint32_t[]){ 1 } };
    uint64_t n, random = 1;
    char statement[64];
    size_t n_held = 0;

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    /* Waits for the disk are off here; the files' content is the same. */
    assert_int_equal(draft_db_sql_run(&fixture->db->file, "PRAGMA synchronous = OFF", &fixture->err), 0);
    for (uint32_t i = 0; i < n_documents; i++) {
        sizes[i] = n_tokens[draw(&random, ARRAY_LEN(n_tokens))];
        draft_db_fixture_mark(fixture, 1 + i % 3 % 2, i, sizes[i], marks[i]);
        assert_int_equal(draft_db_fixture_add(fixture, 1 + i % 3 % 2, i, sizes[i]), 0);
    }
    for (uint32_t i = 0; i < n_documents; i += 100)
        n_held += draft_db_fixture_holds(fixture, marks[i], sizeof(marks[i]));
    assert_int_equal(n_held, n_documents / 100);
    for (uint32_t i = 0; i < n_documents / 2; i++) {
        snprintf(statement, sizeof(statement), "DELETE FROM document WHERE id = %u", 1 + draw(&random, n_documents));
        assert_int_equal(draft_db_sql_run(&fixture->db->file, statement, &fixture->err), 0);
    }

    assert_int_equal(draft_db_forget(fixture->db, &what, &n, &fixture->err), 0);
    assert_in_range(n, n_documents / 4, n_documents);
    n_held = 0;
    for (uint32_t i = 0; i < n_documents; i++) {
        bool held = draft_db_fixture_holds(fixture, marks[i], sizeof(marks[i]));

        n_held += held;
        if (held && i % 3 % 2 == 0)
            fail_msg("document %u is forgotten and still in the files", i);
    }
    assert_in_range(n_held, n_documents / 10, n_documents / 3); /* the other user's */
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, draft_db_fixture_setup, draft_db_fixture_teardown)
    static const struct CMUnitTest tests[] = {
        TEST(test_draft_db_files),        TEST(test_draft_db_round_trips), TEST(test_draft_db_refuses),
        TEST(test_draft_db_stats),        TEST(test_draft_db_count),       TEST(test_draft_db_bytes),
        TEST(test_draft_db_age),          TEST(test_draft_db_freeze),      TEST(test_draft_db_forget_which),
        TEST(test_draft_db_forget_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
