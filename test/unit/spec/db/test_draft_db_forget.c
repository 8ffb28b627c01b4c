// SPDX-License-Identifier: Apache-2.0
/* Forgetting without room: on file systems that are full to the last byte it deletes what it should and nothing else,
 * and leaves no byte of it. */
#define _GNU_SOURCE
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/file_io.h"
#include "spec/db/draft_db_private.h"
#include "test/unit/spec/db/draft_db_fixture.h"

enum {
    N = 120 /* most documents */
};

static bool mounted(DraftDbFixture *fixture, unsigned int kib, const char *options) {
    bool is_mounted = draft_db_fixture_mount(fixture, kib, options);

    if (!is_mounted)
        print_message("no tmpfs can be mounted here: %s\n", strerror(errno));
    return is_mounted;
}

static void unmounted(DraftDbFixture *fixture) {
    draft_db_fixture_close(fixture);
    draft_db_fixture_unmount(fixture);
}

/* Adds documents of users 1 to 3 in turns until no more fit; returns how many. */
static uint32_t add_all(DraftDbFixture *fixture) {
    uint32_t n = 0;

    while (n < N && !draft_db_fixture_add(fixture, 1 + n % 3, n, 20 + n * 37 % 1500))
        n++;
    return n;
}

/* Checks which of n documents have bytes in the files: those of the users in the mask, and no others. */
static void assert_held(DraftDbFixture *fixture, uint32_t n, unsigned int users) {
    for (uint32_t i = 0; i < n; i++) {
        uint8_t mark[DRAFT_DB_FIXTURE_MARK_BYTES];
        const uint32_t uid = 1 + i % 3;

        draft_db_fixture_mark(fixture, uid, i, 20 + i * 37 % 1500, mark);
        if (draft_db_fixture_holds(fixture, mark, sizeof(mark)) != !!(users & 1u << uid))
            fail_msg("document %u of user %u", i, uid);
    }
}

static uint32_t documents_of(uint32_t n, uint32_t uid) {
    return n / 3 + (n % 3 >= uid);
}

/* Forgets one user's answers, then another's: the rest is whole, also after a start. The files are closed for the
 * search. */
static void forget_in_turns(DraftDbFixture *fixture, uint32_t n) {
    unsigned int left = 2 | 4 | 8;

    for (uint32_t uid = 1; uid <= 3; uid++) {
        const DraftDbForget what = { .uid = &uid };
        uint64_t n_forgotten = 77;
        int r = draft_db_forget(fixture->db, &what, &n_forgotten, &fixture->err);

        if (r)
            fail_msg("user %u: %d: %s", uid, r, fixture->err.text);
        assert_int_equal(n_forgotten, documents_of(n, uid));
        left &= ~(1u << uid);
        for (int start = 0; start < 2; start++) {
            for (uint32_t other = 1; other <= 3; other++)
                assert_int_equal(draft_db_fixture_seeds(fixture, other, NULL, 0),
                                 left & 1u << other ? documents_of(n, other) : 0);
            draft_db_fixture_close(fixture);
            assert_held(fixture, n, left);
            draft_db_fixture_fill_disk(fixture);
            assert_int_equal(draft_db_fixture_open(fixture), 0);
        }
    }
}

/* Cases: nearly everything in the log; the log as long as the file; nearly everything in the file. */
static void test_draft_db_forget_full_disk(void **state) {
    static const unsigned int kib[] = { 300, 1500, 8000 };
    DraftDbFixture *fixture = *state;

    for (size_t i = 0; i < ARRAY_LEN(kib); i++) {
        uint32_t n;

        if (!mounted(fixture, kib[i], ""))
            skip();
        assert_int_equal(draft_db_fixture_open(fixture), 0);
        n = add_all(fixture);
        assert_in_range(n, 6, N);
        if (i == 2)
            assert_int_equal(draft_db_sql_checkpoint(&fixture->db->file, &fixture->err), 0);
        draft_db_fixture_fill_disk(fixture);
        forget_in_turns(fixture, n);
        unmounted(fixture);
    }
}

/* Forgets all at once, and by date. */
static void test_draft_db_forget_full_disk_which(void **state) {
    DraftDbFixture *fixture = *state;
    const uint64_t before_s = DRAFT_DB_FIXTURE_NOW;
    uint64_t n_forgotten;
    uint32_t n;

    if (!mounted(fixture, 500, ""))
        skip();
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_freeze(fixture->db, 9, true, &fixture->err), 0);
    n = add_all(fixture);
    draft_db_fixture_fill_disk(fixture);
    assert_int_equal(
        draft_db_forget(fixture->db, &(DraftDbForget){ .before_s = &before_s }, &n_forgotten, &fixture->err), 0);
    assert_int_equal(n_forgotten, 0);
    draft_db_fixture_fill_disk(fixture);
    assert_int_equal(draft_db_forget(fixture->db, &(DraftDbForget){ 0 }, &n_forgotten, &fixture->err), 0);
    assert_int_equal(n_forgotten, n);
    assert_held(fixture, n, 0);
    assert_int_equal(draft_db_forget(fixture->db, &(DraftDbForget){ 0 }, &n_forgotten, &fixture->err), 0);
    assert_int_equal(n_forgotten, 0);
    assert_int_equal(draft_db_fixture_add(fixture, 9, 1, 5), DRAFT_DB_E_FROZEN);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 1, 5), 0); /* there is room now */
    unmounted(fixture);
}

/* A database of form 1 without room for the new form is read, and forgotten from. */
static void test_draft_db_forget_full_disk_old_form(void **state) {
    DraftDbFixture *fixture = *state;
    _cleanup_(freep) char *text = NULL;
    DraftDbStats stats;
    sqlite3 *sql = NULL;
    size_t len_bytes;
    uint64_t n;

    if (!mounted(fixture, 200, ""))
        skip();
    assert_int_equal(file_slurp("test/golden/draftdb/form1.sql", 1 << 20, &text, &len_bytes, NULL), 0);
    assert_int_equal(sqlite3_open(fixture->path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sql, text, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
    assert_int_equal(chmod(fixture->path, 0600), 0);
    draft_db_fixture_fill_disk(fixture);
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_stats(fixture->db, 1, &stats, &fixture->err), 0);
    assert_int_equal(stats.n_documents, 4);
    assert_int_equal(draft_db_fixture_seeds(fixture, 2, NULL, 0), 4);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 1, 5), DRAFT_DB_E_FULL);
    assert_int_equal(
        draft_db_forget(fixture->db, &(DraftDbForget){ .uid = (const uint32_t[]){ 1 } }, &n, &fixture->err), 0);
    assert_int_equal(n, 4);
    assert_int_equal(draft_db_fixture_seeds(fixture, 1, NULL, 0), 0);
    assert_int_equal(draft_db_fixture_seeds(fixture, 2, NULL, 0), 4);
    unmounted(fixture);
}

/* Without room for a database, what was set aside is forgotten, and a new database begins as soon as there is room. */
static void test_draft_db_forget_full_disk_set_aside(void **state) {
    DraftDbFixture *fixture = *state;
    char path[256];
    uint64_t n;
    int fd;

    if (!mounted(fixture, 200, ""))
        skip();
    fd = open(fixture->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(file_write_all(fd, "this is no database at all", 26), 0);
    close(fd);
    draft_db_fixture_fill_disk(fixture);
    assert_int_equal(draft_db_fixture_open(fixture), DRAFT_DB_E_FULL);
    assert_non_null(fixture->db);
    assert_non_null(strstr(fixture->err.text, "no room for a new one"));
    assert_int_equal(draft_db_fixture_add(fixture, 1, 1, 5), DRAFT_DB_E_FULL);
    snprintf(path, sizeof(path), "%s.corrupt-1", fixture->path);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(draft_db_forget(fixture->db, &(DraftDbForget){ 0 }, &n, &fixture->err), 0);
    assert_int_equal(n, 0);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(path, sizeof(path), "%s/filler/zeros", fixture->folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 1, 5), 0);
    unmounted(fixture);
}

/* A limit of the process stands for a full disk: no mount is needed. */
static void test_draft_db_forget_file_limit(void **state) {
    DraftDbFixture *fixture = *state;
    struct rlimit limit, small;
    uint32_t n;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 500000;
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    n = add_all(fixture);
    assert_in_range(n, 6, N - 1);
    for (uint32_t uid = 1; uid <= 3; uid++) {
        uint64_t n_forgotten;

        assert_int_equal(draft_db_forget(fixture->db, &(DraftDbForget){ .uid = &uid }, &n_forgotten, &fixture->err), 0);
        assert_int_equal(n_forgotten, documents_of(n, uid));
        assert_int_equal(draft_db_fixture_seeds(fixture, 3, NULL, 0), uid < 3 ? documents_of(n, 3) : 0);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    draft_db_fixture_close(fixture);
    assert_held(fixture, n, 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, draft_db_fixture_setup, draft_db_fixture_teardown)
    static const struct CMUnitTest tests[] = {
        TEST(test_draft_db_forget_full_disk),          TEST(test_draft_db_forget_full_disk_which),
        TEST(test_draft_db_forget_full_disk_old_form), TEST(test_draft_db_forget_full_disk_set_aside),
        TEST(test_draft_db_forget_file_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
