// SPDX-License-Identifier: Apache-2.0
/* The draft database when things go wrong: damaged files, a full disk, kill -9, others who have it open. */
#define _GNU_SOURCE
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/files/file_io.h"
#include "spec/db/draft_db_private.h"
#include "test/unit/spec/db/draft_db_fixture.h"

static bool there(const DraftDbFixture *fixture, const char *suffix) {
    char path[256];

    snprintf(path, sizeof(path), "%s%s", fixture->path, suffix);
    return !access(path, F_OK);
}

static uint32_t draw(uint64_t *random, uint32_t n) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*random >> 33) % n);
}

static void write_file(const char *path, const void *data, size_t len_bytes) {
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, data, len_bytes), 0);
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

/* Whatever a page has become, answers are whole and the user's own, or the file is set aside. Damage comes while the
 * file is closed, and in every other round also while it is open, where only reading meets it. */
static void test_draft_db_damage_pages(void **state) {
    enum {
        N = 120,
        ROUNDS = 120
    };
    DraftDbFixture *fixture = *state;
    _cleanup_(freep) char *whole = NULL;
    size_t len_bytes, n_set_aside = 0, n_dropped = 0;
    uint64_t random = 1;
    char log[256];

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(draft_db_fixture_add(fixture, i % 3, i, 10 + i * 7), 0);
    draft_db_fixture_close(fixture);
    assert_int_equal(file_slurp(fixture->path, 1 << 30, &whole, &len_bytes, NULL), 0);
    snprintf(log, sizeof(log), "%s-wal", fixture->path);

    for (int i = 0; i < ROUNDS; i++) {
        _cleanup_(freep) char *damaged = malloc(len_bytes);
        bool set_aside = false, open_before = i % 2;
        int r;

        assert_non_null(damaged);
        memcpy(damaged, whole, len_bytes);
        for (uint32_t k = 0, n = 1 + draw(&random, 20); k < n; k++)
            damaged[draw(&random, i % 4 < 2 ? 8192 : (uint32_t)len_bytes)] ^= (char)(1 + draw(&random, 255));
        write_file(fixture->path, open_before ? whole : damaged, len_bytes);
        r = draft_db_fixture_open(fixture);
        if (open_before) {
            assert_int_equal(r, 0);
            /* SQLite keeps the pages that it has read; a write by another connection makes it look again. */
            assert_int_equal(draft_db_fixture_add(fixture, 4, 1000, 10), 0);
            assert_int_equal(draft_db_sql_checkpoint(&fixture->db->file, &fixture->err), 0);
            assert_int_equal(draft_db_sql_run(&fixture->db->file, "PRAGMA shrink_memory", &fixture->err), 0);
            write_file(fixture->path, damaged, len_bytes);
        }
        for (uint32_t uid = 0; uid < 3; uid++) {
            DraftDbRead read = { 0 };
            DraftDbStats stats;

            set_aside |= r == DRAFT_DB_E_SET_ASIDE;
            assert_true(!r || r == DRAFT_DB_E_SET_ASIDE);
            r = draft_db_each(fixture->db, uid, draft_db_fixture_tokenizer, UINT64_MAX, draft_db_fixture_whole, &uid,
                              &read, &fixture->err);
            n_dropped += read.n_dropped;
            if (!r)
                r = draft_db_stats(fixture->db, uid, &stats, &fixture->err);
            if (!r)
                r = draft_db_fixture_add(fixture, uid, 2000, 100);
        }
        set_aside |= r == DRAFT_DB_E_SET_ASIDE;
        assert_true(!r || r == DRAFT_DB_E_SET_ASIDE);
        n_set_aside += set_aside;
        assert_true(!set_aside || there(fixture, ".corrupt-1"));
        assert_int_equal(draft_db_fixture_add(fixture, 0, 3000, 100) & ~DRAFT_DB_E_SET_ASIDE, 0);
        draft_db_fixture_close(fixture);
        unlink(log);
    }
    assert_in_range(n_set_aside, ROUNDS / 4, ROUNDS);
    assert_in_range(n_dropped, 1, ROUNDS * N);
    assert_true(there(fixture, ".corrupt-2"));
    assert_false(there(fixture, ".corrupt-3"));
}

/* Files that are no database, and databases of somebody else. */
static void test_draft_db_damage_set_aside(void **state) {
    static const char garbage[] = "This is not a database, but it is quite long for one that is not, and goes on.";
    DraftDbFixture *fixture = *state;
    char second[256];
    uint64_t n;

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 5), 0);
    assert_int_equal(draft_db_sql_run(&fixture->db->file, "PRAGMA user_version = 99", &fixture->err), 0);
    assert_int_equal(draft_db_fixture_open(fixture), DRAFT_DB_E_SET_ASIDE);
    assert_non_null(strstr(fixture->err.text, "drafts.db.corrupt-1"));
    assert_non_null(strstr(fixture->err.text, "version"));
    assert_int_equal(draft_db_fixture_seeds(fixture, 1, NULL, 0), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 11, 5), 0);
    draft_db_fixture_close(fixture);

    write_file(fixture->path, garbage, sizeof(garbage));
    assert_int_equal(draft_db_fixture_open(fixture), DRAFT_DB_E_SET_ASIDE);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 12, 5), 0);
    assert_int_equal(draft_db_sql_run(&fixture->db->file, "DROP TRIGGER document_added", &fixture->err), 0);
    assert_int_equal(draft_db_fixture_open(fixture), DRAFT_DB_E_SET_ASIDE);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 13, 5), 0);
    assert_int_equal(draft_db_sql_run(&fixture->db->file, "UPDATE app SET bytes = 1", &fixture->err), 0);
    assert_int_equal(draft_db_fixture_open(fixture), DRAFT_DB_E_SET_ASIDE);
    assert_true(there(fixture, ".corrupt-1") && there(fixture, ".corrupt-2"));
    assert_false(there(fixture, ".corrupt-3"));

    /* Set-aside files have an age, too: from when they were last written. */
    fixture->limits.age_max_s = 1000;
    fixture->now_s = (uint64_t)time(NULL) + 900;
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_true(there(fixture, ".corrupt-1") && there(fixture, ".corrupt-2"));
    snprintf(second, sizeof(second), "%s.corrupt-2", fixture->path);
    assert_int_equal(utimensat(AT_FDCWD, second, (const struct timespec[2]){ { .tv_sec = 1 }, { .tv_sec = 1 } }, 0), 0);
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_true(there(fixture, ".corrupt-1"));
    assert_false(there(fixture, ".corrupt-2"));

    /* Forgetting deletes set-aside files: nobody knows what is in them. */
    assert_int_equal(
        draft_db_forget(fixture->db, &(DraftDbForget){ .uid = (const uint32_t[]){ 77 } }, &n, &fixture->err), 0);
    assert_false(there(fixture, ".corrupt-1") || there(fixture, ".corrupt-2"));
}

/* SQLite deletes the log of a database that is gone, instead of applying it to the new one; the module relies on it. */
static void test_draft_db_damage_log_alone(void **state) {
    DraftDbFixture *fixture = *state;
    _cleanup_(freep) char *log = NULL;
    size_t len_bytes;
    char path[256];

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 5), 0);
    snprintf(path, sizeof(path), "%s-wal", fixture->path);
    assert_int_equal(file_slurp(path, 1 << 30, &log, &len_bytes, NULL), 0);
    draft_db_fixture_close(fixture);
    assert_int_equal(unlink(fixture->path), 0);
    write_file(path, log, len_bytes);
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_seeds(fixture, 1, NULL, 0), 0);
}

/* Damaged rows that look intact are dropped one by one, also where damage has given one to another user. */
static void test_draft_db_damage_rows(void **state) {
    DraftDbFixture *fixture = *state;
    uint32_t seeds[4], uid = 2;
    DraftDbRead read;

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(draft_db_fixture_add(fixture, 1, i, 50), 0);
    assert_int_equal(draft_db_sql_run(&fixture->db->file,
                                      "UPDATE document SET uid = 2 WHERE id = 2;"
                                      "UPDATE document SET n_prompt = n_prompt + 1 WHERE id = 3;"
                                      "UPDATE document SET time = -1 WHERE id = 4;"
                                      "UPDATE document SET blob = zeroblob(5000000) WHERE id = 5;"
                                      "UPDATE document SET n_tokens = 49 WHERE id = 6;"
                                      "UPDATE document SET blob = 'text' WHERE id = 7;",
                                      &fixture->err),
                     0);
    assert_int_equal(draft_db_each(fixture->db, 2, draft_db_fixture_tokenizer, UINT64_MAX, draft_db_fixture_whole, &uid,
                                   &read, &fixture->err),
                     0);
    assert_int_equal(read.n_documents, 0);
    assert_int_equal(read.n_dropped, 1);
    uid = 1;
    assert_int_equal(draft_db_each(fixture->db, 1, draft_db_fixture_tokenizer, UINT64_MAX, draft_db_fixture_whole, &uid,
                                   &read, &fixture->err),
                     0);
    assert_int_equal(read.n_documents, 2);
    assert_int_equal(read.n_dropped, 5);
    assert_int_equal(draft_db_fixture_seeds(fixture, 1, seeds, 4), 2);
    assert_int_equal(seeds[0], 7);
    assert_int_equal(seeds[1], 0);
}

/* --- others who have it ------------------------------------------------------------------------------------------- */

/* Starts a process that opens the file with SQLite, runs the statement, and keeps the file so until its end of the pipe
 * is closed. */
static pid_t start_holder(const DraftDbFixture *fixture, const char *statement, int *endp) {
    int ready[2], end[2];
    char byte = 0;
    pid_t child;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(end, O_CLOEXEC), 0);
    child = fork();
    assert_true(child >= 0);
    if (!child) {
        sqlite3 *other = NULL;

        close(end[1]);
        if (sqlite3_open(fixture->path, &other) || sqlite3_exec(other, statement, NULL, NULL, NULL) ||
            write(ready[1], &byte, 1) != 1 || read(end[0], &byte, 1) < 0)
            _exit(1);
        sqlite3_close(other);
        _exit(0);
    }
    close(ready[1]);
    close(end[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    *endp = end[1];
    return child;
}

static void end_holder(pid_t child, int end) {
    int status;

    close(end);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* The process that has the file, with whatever lock, is named at once; the file opens as soon as that process has
 * gone. */
static void test_draft_db_damage_held(void **state) {
    static const char *const statements[] = { "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "BEGIN; SELECT * FROM document",
                                              "PRAGMA locking_mode = EXCLUSIVE; SELECT * FROM document" };
    DraftDbFixture *fixture = *state;

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, 10, 5), 0);
    for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
        const uint64_t start_ns = clock_now_ns();
        char name[64];
        pid_t child;
        int end;

        draft_db_fixture_close(fixture);
        child = start_holder(fixture, statements[i], &end);
        assert_int_equal(draft_db_fixture_open(fixture), DRAFT_DB_E_BUSY);
        assert_null(fixture->db);
        snprintf(name, sizeof(name), "process %d uses this draft database", (int)child);
        assert_non_null(strstr(fixture->err.text, name));
        assert_true(clock_now_ns() - start_ns < UINT64_C(20) * 1000 * 1000 * 1000); /* SQLite's waits were 2 s each */
        end_holder(child, end);
        assert_int_equal(draft_db_fixture_open(fixture), 0);
        assert_int_equal(draft_db_fixture_seeds(fixture, 1, NULL, 0), 1);
    }
}

/* Files that another process empties or overwrites while they are in use: no map of them exists that could fault. */
static void test_draft_db_damage_cut_in_use(void **state) {
    static const char *const suffixes[] = { "", "-wal", "-shm" };
    DraftDbFixture *fixture = *state;

    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        char path[256];
        int r = 0;

        assert_int_equal(draft_db_fixture_open(fixture) & ~DRAFT_DB_E_SET_ASIDE, 0);
        for (uint32_t k = 0; k < 50; k++)
            assert_int_equal(draft_db_fixture_add(fixture, 1, k, 500), 0);
        snprintf(path, sizeof(path), "%s%s", fixture->path, suffixes[i]);
        assert_int_equal(there(fixture, suffixes[i]), i < 2);
        if (i < 2)
            assert_int_equal(truncate(path, 0), 0);
        assert_int_equal(draft_db_sql_run(&fixture->db->file, "PRAGMA shrink_memory", &fixture->err), 0);
        for (uint32_t k = 0; k < 50; k++) {
            DraftDbRead read;
            uint32_t uid = 1;

            r = draft_db_each(fixture->db, 1, draft_db_fixture_tokenizer, UINT64_MAX, draft_db_fixture_whole, &uid,
                              &read, &fixture->err);
            assert_int_equal(r & ~DRAFT_DB_E_SET_ASIDE, 0);
            assert_int_equal(draft_db_fixture_add(fixture, 1, 100 + k, 500) & ~DRAFT_DB_E_SET_ASIDE, 0);
        }
        assert_int_equal(draft_db_fixture_add(fixture, 1, 1000, 500), 0);
    }
}

/* --- a full disk -------------------------------------------------------------------------------------------------- */

/* Adds until there is no room, then goes on as soon as there is: what was stored is there, and nothing else. */
static void fill(DraftDbFixture *fixture, uint32_t *n_storedp) {
    uint32_t n = *n_storedp;
    int r;

    while (!(r = draft_db_fixture_add(fixture, 1, n, 2000)) && n < 1000)
        n++;
    assert_int_equal(r, DRAFT_DB_E_FULL);
    assert_non_null(strstr(fixture->err.text, "no room for the draft database"));
    assert_int_equal(draft_db_fixture_add(fixture, 1, n, 2000), DRAFT_DB_E_FULL);
    assert_int_equal(draft_db_fixture_seeds(fixture, 1, NULL, 0), n);
    *n_storedp = n;
}

static void test_draft_db_damage_file_limit(void **state) {
    DraftDbFixture *fixture = *state;
    struct rlimit limit, small;
    uint32_t n = 0;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 700000;
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fill(fixture, &n);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, n, 2000), 0);
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    assert_int_equal(draft_db_fixture_seeds(fixture, 1, NULL, 0), n + 1);
}

static void test_draft_db_damage_full_disk(void **state) {
    DraftDbFixture *fixture = *state;
    uint32_t n = 0;

    if (!draft_db_fixture_mount(fixture, 1024, "")) {
        print_message("no tmpfs can be mounted here: %s\n", strerror(errno));
        skip();
    }
    assert_int_equal(draft_db_fixture_open(fixture), 0);
    fill(fixture, &n);
    assert_int_equal(draft_db_fixture_open(fixture), 0); /* the service starts with the disk full */
    assert_int_equal(draft_db_fixture_seeds(fixture, 1, NULL, 0), n);
    assert_int_equal(mount("none", fixture->folder, "tmpfs", MS_REMOUNT, "size=8m"), 0);
    assert_int_equal(draft_db_fixture_add(fixture, 1, n, 2000), 0);
    draft_db_fixture_close(fixture);
    draft_db_fixture_unmount(fixture);
}

/* --- kill -9 ------------------------------------------------------------------------------------------------------ */

/* Runs a process that adds from `first` on for ever and reports what is stored; some of that is forgotten or
 * evicted. */
static void child_adds(DraftDbFixture *fixture, uint32_t first, int report) {
    int r = draft_db_fixture_open(fixture);

    for (uint32_t i = first; !r; i++) {
        r = draft_db_fixture_add(fixture, 1 + i % 2, i, 1 + i * 37 % 2500);
        if (!r && write(report, &i, sizeof(i)) != sizeof(i))
            r = -EPIPE;
    }
    _exit(r < 0 ? 99 : 100 + r);
}

/* Every reported document is there, and every document that is there is whole; of unreported ones at most the last is
 * there. */
static uint32_t check_stored(DraftDbFixture *fixture, uint32_t n_reported) {
    static uint32_t seeds[65536];
    static bool stored[65536];
    uint32_t n_stored = 0;

    assert_int_equal(draft_db_fixture_open(fixture), 0);
    memset(stored, 0, sizeof(stored));
    for (uint32_t uid = 1; uid <= 2; uid++) {
        size_t n = draft_db_fixture_seeds(fixture, uid, seeds, ARRAY_LEN(seeds));

        assert_true(n < ARRAY_LEN(seeds));
        for (size_t i = 0; i < n; i++) {
            assert_true(seeds[i] < ARRAY_LEN(stored) && seeds[i] % 2 == uid - 1 && !stored[seeds[i]]);
            stored[seeds[i]] = true;
            n_stored++;
        }
    }
    for (uint32_t i = 0; i < n_stored; i++)
        assert_true(stored[i]);
    assert_in_range(n_stored, n_reported, n_reported + 1);
    draft_db_fixture_close(fixture);
    return n_stored;
}

/* Every fourth kill may come before the writer has stored anything; the others come behind its first document, however
 * long a busy machine takes for that. */
static void test_draft_db_damage_killed(void **state) {
    DraftDbFixture *fixture = *state;
    const int n_kills = getenv("COORDGEN_LONG") ? 300 : 20;
    uint64_t random = (uint64_t)time(NULL);
    uint32_t n_stored = 0;

    print_message("seed %llu\n", (unsigned long long)random);
    for (int i = 0; i < n_kills; i++) {
        struct timespec wait = { .tv_nsec = (long)draw(&random, i % 4 ? 60000000 : 8000000) };
        uint32_t seed, n_reported = n_stored;
        int report[2], status;
        pid_t child;

        assert_int_equal(pipe2(report, O_CLOEXEC), 0);
        child = fork();
        assert_true(child >= 0);
        if (!child)
            child_adds(fixture, n_stored, report[1]);
        close(report[1]);
        if (i % 4)
            assert_int_equal(poll(&(struct pollfd){ .fd = report[0], .events = POLLIN }, 1, 60000), 1);
        nanosleep(&wait, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        while (read(report[0], &seed, sizeof(seed)) == sizeof(seed)) {
            assert_int_equal(seed, n_reported);
            n_reported++;
        }
        close(report[0]);
        n_stored = check_stored(fixture, n_reported);
    }
    assert_in_range(n_stored, n_kills / 4 * 3, 65535);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, draft_db_fixture_setup, draft_db_fixture_teardown)
    static const struct CMUnitTest tests[] = {
        TEST(test_draft_db_damage_pages),      TEST(test_draft_db_damage_set_aside),
        TEST(test_draft_db_damage_log_alone),  TEST(test_draft_db_damage_rows),
        TEST(test_draft_db_damage_held),       TEST(test_draft_db_damage_cut_in_use),
        TEST(test_draft_db_damage_file_limit), TEST(test_draft_db_damage_full_disk),
        TEST(test_draft_db_damage_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
