// SPDX-License-Identifier: Apache-2.0
/* Deletion by age with wrong dates, over starts of the machine and of the service; and a database of form 1, which had
 * dates alone. */
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

#include "base/files/file_io.h"
#include "spec/db/draft_db_private.h"
#include "test/unit/spec/db/draft_db_fixture.h"

#define DAY INT64_C(86400)
#define AGE (64 * DAY)

static int setup(void **state) {
    static DraftDbFixture fixture;

    draft_db_fixture_init(&fixture);
    fixture.limits = (DraftDbLimits){ .age_max_s = AGE };
    *state = &fixture;
    return 0;
}

static int teardown(void **state) {
    draft_db_fixture_deinit(*state);
    return 0;
}

static size_t stored(DraftDbFixture *fixture, uint32_t uid) {
    return draft_db_fixture_seeds(fixture, uid, NULL, 0);
}

static void expire(DraftDbFixture *fixture) {
    const DraftClockReading now = draft_db_fixture_now(fixture);

    assert_int_equal(draft_db_expire(fixture->db, &now, &fixture->err), 0);
}

static void open_it(DraftDbFixture *fixture) {
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    /* Waits for the disk are off here. */
    assert_int_equal(draft_db_sql_run(&fixture->db->file, "PRAGMA synchronous = OFF", &fixture->err), 0);
}

/* Lets the service run for that long, with a look every two hours. */
static void run(DraftDbFixture *fixture, int64_t for_s) {
    for (; for_s > 0; for_s -= 7200) {
        fixture->now_s += for_s < 7200 ? (uint64_t)for_s : 7200;
        expire(fixture);
    }
}

/* Turns the machine off for that long, then on with a date that is wrong by jump_s. */
static void restart(DraftDbFixture *fixture, int64_t off_s, int64_t jump_s) {
    draft_db_fixture_close(fixture);
    fixture->boot++;
    fixture->now_s += (uint64_t)off_s;
    fixture->jump_s = jump_s;
    open_it(fixture);
}

static void test_draft_db_age_one_wrong_start(void **state) {
    static const int64_t wrong[] = { 200 * DAY, -200 * DAY, -(int64_t)DRAFT_DB_FIXTURE_NOW, 20000 * DAY };
    DraftDbFixture *fixture = *state;
    uint64_t n;

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        fixture->jump_s = 0;
        open_it(fixture);
        assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 5), 0);
        run(fixture, 10 * DAY);
        restart(fixture, 60, wrong[i]);
        assert_int_equal(stored(fixture, 1), 1);
        assert_int_equal(draft_db_fixture_add(fixture, 2, 20, 5), 0);
        run(fixture, 20 * 3600);
        for (int k = 0; k < 20; k++) /* restarts the service alone, not the machine */
            open_it(fixture);
        assert_int_equal(stored(fixture, 1) + stored(fixture, 2), 2);
        restart(fixture, 60, 0);
        run(fixture, 53 * DAY);
        assert_int_equal(stored(fixture, 1) + stored(fixture, 2), 2);
        run(fixture, DAY); /* 64 days and 20 hours have passed for one, 54 days and 20 hours for the other */
        assert_int_equal(stored(fixture, 1), 0);
        assert_int_equal(stored(fixture, 2), 1);
        run(fixture, 9 * DAY);
        assert_int_equal(stored(fixture, 2), 1);
        run(fixture, 4 * 3600);
        assert_int_equal(stored(fixture, 2), 0);
        assert_int_equal(draft_db_forget(fixture->db, &(DraftDbForget){ 0 }, &n, &fixture->err), 0);
    }
}

/* The machine was off for longer than the limit: old documents go in parts, an eighth of the limit each, and all of
 * them within an eighth of the limit. Documents that are stored afterwards stay. */
static void test_draft_db_age_off(void **state) {
    DraftDbFixture *fixture = *state;
    size_t n_before = 64;

    open_it(fixture);
    for (uint32_t day = 0; day < 64; day++) {
        assert_int_equal(draft_db_fixture_add(fixture, 1, day, 5), 0);
        run(fixture, DAY);
    }
    assert_int_equal(stored(fixture, 1), 64);
    restart(fixture, 100 * DAY, 0);
    assert_int_equal(draft_db_fixture_add(fixture, 2, 20, 5), 0);
    assert_int_equal(stored(fixture, 1), 64);
    for (int i = 0; i < 8 && n_before; i++) {
        size_t n;

        if (i % 2)
            restart(fixture, 60, 0);
        else
            run(fixture, DAY + 3600);
        n = stored(fixture, 1);
        assert_in_range(n_before - n, 1, 10);
        n_before = n;
    }
    assert_int_equal(n_before, 0);
    assert_int_equal(stored(fixture, 2), 1);
}

/* Dates that are shown, and by which a user forgets, are those of the clock; a date that is not set does not count. */
static void test_draft_db_age_dates(void **state) {
    DraftDbFixture *fixture = *state;
    uint64_t n, before = DRAFT_DB_FIXTURE_NOW + 100 * DAY;
    DraftDbStats stats;

    open_it(fixture);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 5), 0);
    restart(fixture, 60, -(int64_t)DRAFT_DB_FIXTURE_NOW);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 11, 5), 0);
    restart(fixture, 60, 200 * DAY);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 12, 5), 0);
    assert_int_equal(draft_db_stats(fixture->db, 1, &stats, &fixture->err), 0);
    assert_int_equal(stats.oldest_s, DRAFT_DB_FIXTURE_NOW);
    assert_int_equal(stats.newest_s, DRAFT_DB_FIXTURE_NOW + 200 * DAY + 120);
    assert_int_equal(draft_db_forget(fixture->db, &(DraftDbForget){ .before_s = &before }, &n, &fixture->err), 0);
    assert_int_equal(n, 2);
    assert_int_equal(stored(fixture, 1), 1);
}

/* --- the version before ------------------------------------------------------------------------------------------- */

/* A file of form 1, with a document for each of the fixture's first eight seconds; the date of the sixth was 200 days
 * ahead. */
static void make_old(DraftDbFixture *fixture) {
    _cleanup_(freep) char *text = NULL;
    sqlite3 *sql = NULL;
    size_t len_bytes;

    assert_int_equal(mkdir(fixture->folder, 0700), 0);
    assert_int_equal(file_slurp("test/golden/draftdb/form1.sql", 1 << 20, &text, &len_bytes, NULL), 0);
    assert_int_equal(sqlite3_open(fixture->path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sql, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
    assert_int_equal(chmod(fixture->path, 0600), 0);
}

static void test_draft_db_age_old_form(void **state) {
    DraftDbFixture *fixture = *state;
    uint32_t seeds[8];
    DraftDbStats stats;
    uint64_t n;

    make_old(fixture);
    fixture->now_s += 70;
    open_it(fixture);
    assert_int_equal(draft_db_fixture_seeds(fixture, 2, seeds, 8), 4);
    assert_int_equal(seeds[0], 7);
    assert_int_equal(stored(fixture, 1), 4);
    assert_int_equal(draft_db_stats(fixture->db, 2, &stats, &fixture->err), 0);
    assert_int_equal(stats.newest_s, DRAFT_DB_FIXTURE_NOW + 50 + 200 * DAY); /* as the date was shown */
    assert_int_equal(draft_db_fixture_add(fixture, 1, 100, 20), 0);
    open_it(fixture);
    assert_int_equal(stored(fixture, 1) + stored(fixture, 2), 9);

    /* Each document grows old from its date; the one from the future grows old from the next one's date. */
    fixture->now_s += AGE - 70 + 55 + 1;
    expire(fixture);
    assert_int_equal(draft_db_fixture_seeds(fixture, 2, seeds, 8), 2);
    fixture->now_s += 5;
    expire(fixture);
    assert_int_equal(draft_db_fixture_seeds(fixture, 2, seeds, 8), 1);
    assert_int_equal(seeds[0], 7);
    assert_int_equal(draft_db_forget(fixture->db, &(DraftDbForget){ 0 }, &n, &fixture->err), 0);
    assert_int_equal(n, 2);
}

/* Holds whatever the date is when the file is brought up. */
static void test_draft_db_age_old_form_wrong_date(void **state) {
    static const int64_t wrong[] = { 200 * DAY, -200 * DAY, -(int64_t)DRAFT_DB_FIXTURE_NOW, 20000 * DAY };
    DraftDbFixture *fixture = *state;

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        if (i) {
            draft_db_fixture_deinit(fixture);
            draft_db_fixture_init(fixture);
            fixture->limits = (DraftDbLimits){ .age_max_s = AGE };
        }
        make_old(fixture);
        fixture->now_s += 80;
        fixture->jump_s = wrong[i];
        open_it(fixture);
        run(fixture, 3600);
        assert_int_equal(stored(fixture, 1) + stored(fixture, 2), 8);
        restart(fixture, 60, 0);
        run(fixture, 60 * DAY);
        assert_int_equal(stored(fixture, 1) + stored(fixture, 2), 8);
        run(fixture, 4 * DAY);
        assert_int_equal(stored(fixture, 1) + stored(fixture, 2), 0);
    }
}

/* Damaged numbers of the clock: answers are what they were, or too old, and nothing faults. */
static void test_draft_db_age_damaged_clock(void **state) {
    static const char *const columns[] = { "boot_s",      "awake_s", "wall",  "ran", "behind",
                                           "behind_seen", "looked",  "start", "boot" };
    static const char *const values[] = { "-9223372036854775808", "9223372036854775807", "-1", "'text'", "x'00'" };
    DraftDbFixture *fixture = *state;

    open_it(fixture);
    for (size_t i = 0; i < ARRAY_LEN(columns) * ARRAY_LEN(values); i++) {
        char statement[256];
        int r;

        assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 5), 0);
        snprintf(statement, sizeof(statement),
                 "UPDATE clock SET %s = %s; INSERT OR REPLACE INTO pause VALUES(%s, %s, %s, %s)",
                 columns[i / ARRAY_LEN(values)], values[i % ARRAY_LEN(values)], i % 3 ? "1" : "-5",
                 values[i % ARRAY_LEN(values)], values[(i + 1) % ARRAY_LEN(values)],
                 values[(i + 2) % ARRAY_LEN(values)]);
        r = draft_db_sql_run(&fixture->db->file, statement, &fixture->err);
        assert_int_equal(r, 0);
        r = draft_db_fixture_open(fixture);
        assert_int_equal(r & ~DRAFT_DB_E_SET_ASIDE, 0);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    static const struct CMUnitTest tests[] = {
        TEST(test_draft_db_age_one_wrong_start),
        TEST(test_draft_db_age_off),
        TEST(test_draft_db_age_dates),
        TEST(test_draft_db_age_old_form),
        TEST(test_draft_db_age_old_form_wrong_date),
        TEST(test_draft_db_age_damaged_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
