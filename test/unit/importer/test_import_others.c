// SPDX-License-Identifier: Apache-2.0
/* Tests imports of one package by several processes: waiting, taking over, discarding and clearing up. */
#define _GNU_SOURCE
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "importer/files/import_journal.h"
#include "test/unit/importer/stopped_import.h"

typedef struct Waiting {
    StoppedImport other;
    _Atomic bool cancelled;
    bool let_go; /* or is cancelled */
    size_t n_seen;
} Waiting;

static void while_waiting(void *arg, const ImportProgress *progress) {
    Waiting *waiting = arg;

    if (progress->stage != IMPORT_STAGE_WAIT)
        return;
    assert_int_equal(progress->other_pid, waiting->other.pid);
    if (waiting->n_seen++)
        return;
    if (waiting->let_go)
        assert_int_equal(write(waiting->other.go_fd, "g", 1), 1);
    else
        atomic_store(&waiting->cancelled, true);
}

static void test_import_others_two_at_once(void **state) {
    ImportFixture *fixture = *state;
    Waiting waiting = { .let_go = false };
    char hash[SHA256_HEX_BYTES], found[SHA256_HEX_BYTES], path[PATH_MAX];
    ImportReport report;
    bool was_there;
    ErrText err;
    int status;

    stopped_import_source(fixture);
    stopped_import_undisturbed(fixture, hash);
    waiting.other = stopped_import_start(fixture, fixture->out, 2);
    assert_int_equal(import_discard(fixture->source, fixture->out, &fixture->options, path, &was_there, &err), -EBUSY);
    assert_non_null(strstr(err.text, "is working on it: stop that import first"));
    fixture->options.progress = while_waiting;
    fixture->options.progress_arg = &waiting;
    fixture->options.cancelled = &waiting.cancelled;
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, &err), IMPORT_E_CANCELLED);
    assert_int_equal(waiting.n_seen, 1);
    /* The other import's files are not touched. This time it is waited for, and nothing is left to do. */
    atomic_store(&waiting.cancelled, false);
    waiting.let_go = true;
    waiting.n_seen = 0;
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, &err), 0);
    assert_true(report.already_imported && waiting.n_seen);
    assert_int_equal(waitpid(waiting.other.pid, &status, 0), waiting.other.pid);
    assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
    close(waiting.other.go_fd);
    import_fixture_hash(fixture->out, found);
    assert_string_equal(found, hash);
    assert_int_equal(test_folder_count(fixture->folder), 2);
}

/* The other import dies while it is waited for: its work is taken over. */
static void test_import_others_other_dies(void **state) {
    ImportFixture *fixture = *state;
    Waiting waiting = { .let_go = true };
    char hash[SHA256_HEX_BYTES], found[SHA256_HEX_BYTES];
    ImportReport report;
    int status;
    pid_t killer;

    stopped_import_source(fixture);
    stopped_import_undisturbed(fixture, hash);
    waiting.other = stopped_import_start(fixture, fixture->out, 2);
    killer = fork();
    if (!killer) {
        (void)usleep(300 * 1000);
        kill(waiting.other.pid, SIGKILL);
        _exit(0);
    }
    waiting.n_seen = 1; /* does not let it go */
    fixture->options.progress = while_waiting;
    fixture->options.progress_arg = &waiting;
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
    assert_true(!report.already_imported && waiting.n_seen > 1);
    assert_int_equal(waitpid(waiting.other.pid, &status, 0), waiting.other.pid);
    assert_int_equal(waitpid(killer, &status, 0), killer);
    close(waiting.other.go_fd);
    import_fixture_hash(fixture->out, found);
    assert_string_equal(found, hash);
}

static void own_journal(const char *path) {
    static const uint8_t fingerprint[JOURNAL_DIGEST_BYTES] = { 1 };
    ImportJournal *journal = NULL;

    assert_int_equal(import_journal_open(&journal, path, fingerprint, NULL), 0);
    import_journal_free(journal);
}

/* A process has the lock but has not written its id yet: first no id stands there, then a dead process's. */
static void test_import_others_owner_unknown(void **state) {
    ImportFixture *fixture = *state;
    char part[PATH_MAX + 8], journal[PATH_MAX + 16], path[PATH_MAX], owner[64];
    bool found;
    ErrText err;
    int status, fd;
    pid_t pid;

    stopped_import_source(fixture);
    snprintf(part, sizeof(part), "%s.part", fixture->out);
    snprintf(journal, sizeof(journal), "%s.part.journal", fixture->out);
    fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(import_discard(fixture->source, fixture->out, &fixture->options, path, &found, &err), -EBUSY);
    assert_non_null(strstr(err.text, "another process is working on it"));
    pid = fork();
    if (!pid) {
        own_journal(journal);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(import_journal_owner(journal), pid);
    pid = fork();
    if (!pid) {
        (void)usleep(100 * 1000);
        own_journal(journal);
        pause();
    }
    assert_int_equal(import_discard(fixture->source, fixture->out, &fixture->options, path, &found, &err), -EBUSY);
    snprintf(owner, sizeof(owner), "process %d is working on it", (int)pid);
    assert_non_null(strstr(err.text, owner));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(fd);
    assert_int_equal(import_discard(fixture->source, fixture->out, &fixture->options, path, &found, &err), 0);
    assert_true(found);
}

static void test_import_others_discard(void **state) {
    ImportFixture *fixture = *state;
    char path[PATH_MAX], hash[SHA256_HEX_BYTES];
    bool found;

    stopped_import_source(fixture);
    stopped_import_undisturbed(fixture, hash);
    stopped_import_cancelled(fixture, 3);
    assert_int_equal(import_discard(fixture->source, fixture->out, &fixture->options, path, &found, NULL), 0);
    assert_true(found);
    assert_string_equal(path, fixture->out);
    assert_int_equal(test_folder_count(fixture->folder), 1);
    assert_int_equal(import_discard(fixture->source, fixture->out, &fixture->options, path, &found, NULL), 0);
    assert_false(found);
    stopped_import_goes_on(fixture, 0, hash);
}

/* --- beside a package that is there ------------------------------------------------------------------------------- */

/* Checks that an import finds the package, and that n files are in the folder then. */
static void finds_package(ImportFixture *fixture, size_t n) {
    ImportReport report;

    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
    assert_true(report.already_imported);
    assert_int_equal(test_folder_count(fixture->folder), n);
}

/* Files left by a kill between the rename and the end, and by one while those are cleared up. */
static void test_import_others_leftover_cleared(void **state) {
    ImportFixture *fixture = *state;
    char journal[320];
    ImportReport report;

    stopped_import_source(fixture);
    snprintf(journal, sizeof(journal), "%s.part.journal", fixture->out);
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
    finds_package(fixture, 2);
    own_journal(journal);
    finds_package(fixture, 2);
    own_journal(journal);
    test_write_file(fixture->folder, "out.cgm.part", "", 0);
    finds_package(fixture, 2);
}

/* A journal and a part of a process that has just begun and has the lock. */
static void test_import_others_lock_respected(void **state) {
    ImportFixture *fixture = *state;
    char part[320], journal[320];
    ImportReport report;
    int fd;

    stopped_import_source(fixture);
    snprintf(part, sizeof(part), "%s.part", fixture->out);
    snprintf(journal, sizeof(journal), "%s.part.journal", fixture->out);
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
    fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    own_journal(journal);
    finds_package(fixture, 4);
    close(fd);
    finds_package(fixture, 2);
}

/* An import with other settings is to replace the package: its files stay, whether it runs or was killed. */
static void test_import_others_other_settings_kept(void **state) {
    ImportFixture *fixture = *state;
    StoppedImport other;
    char hash[SHA256_HEX_BYTES], found[SHA256_HEX_BYTES];
    ImportReport report;
    int status;

    stopped_import_source(fixture);
    fixture->options.recipe.embedding_bits = 5;
    stopped_import_undisturbed(fixture, hash);
    fixture->options.recipe.embedding_bits = 8;
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
    fixture->options.recipe.embedding_bits = 5;
    stopped_import_kill(stopped_import_start(fixture, fixture->out, 3));
    fixture->options.recipe.embedding_bits = 8;
    finds_package(fixture, 4);
    fixture->options.recipe.embedding_bits = 5;
    other = stopped_import_start(fixture, fixture->out, 5);
    fixture->options.recipe.embedding_bits = 8;
    finds_package(fixture, 4);
    assert_int_equal(write(other.go_fd, "g", 1), 1);
    assert_int_equal(waitpid(other.pid, &status, 0), other.pid);
    assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
    close(other.go_fd);
    import_fixture_hash(fixture->out, found);
    assert_string_equal(found, hash);
    assert_int_equal(test_folder_count(fixture->folder), 2);
}

static void make_old(const char *path) {
    struct timespec times[2];

    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= 8 * 24 * 3600;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* In the cache folder the next import of any model clears up old files. */
static void test_import_others_cache_cleaned(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    char part[PATH_MAX + 8], journal[PATH_MAX + 16], path[PATH_MAX];
    ImportReport report;
    bool found;

    stopped_import_source(fixture);
    stopped_import_kill(stopped_import_start(fixture, NULL, 1));
    assert_int_equal(test_folder_count(fixture->cache), 2);
    test_write_file(fixture->cache, "other.cgm.tmp-abcdef", "an earlier version's", 20);
    maker.seed = 2;
    import_fixture_source(fixture, &maker);
    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &report, NULL), 0);
    assert_int_equal(test_folder_count(fixture->cache), 3); /* the package, and the part that can be resumed */

    stopped_import_source(fixture);
    assert_int_equal(import_discard(fixture->source, NULL, &fixture->options, path, &found, NULL), 0);
    assert_true(found);
    stopped_import_kill(stopped_import_start(fixture, NULL, 1));
    snprintf(part, sizeof(part), "%s.part", path);
    snprintf(journal, sizeof(journal), "%s.part.journal", path);
    make_old(part);
    make_old(journal);
    maker.seed = 3;
    import_fixture_source(fixture, &maker);
    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &report, NULL), 0);
    assert_int_equal(test_folder_count(fixture->cache), 2); /* two packages */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_import_others_two_at_once),         WITH_FOLDER(test_import_others_other_dies),
        WITH_FOLDER(test_import_others_owner_unknown),       WITH_FOLDER(test_import_others_discard),
        WITH_FOLDER(test_import_others_leftover_cleared),    WITH_FOLDER(test_import_others_lock_respected),
        WITH_FOLDER(test_import_others_other_settings_kept), WITH_FOLDER(test_import_others_cache_cleaned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
