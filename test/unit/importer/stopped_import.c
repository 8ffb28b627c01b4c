// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#undef NDEBUG
#include "test/unit/importer/stopped_import.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

void stopped_import_interrupt(void *arg, const ImportProgress *progress) {
    Interrupt *at = arg;

    assert_true(progress->done_bytes <= progress->total_bytes);
    assert_true(progress->done_layers <= progress->n_layers);
    if (progress->stage != at->stage || progress->done_layers < at->n_layers || at->done)
        return;
    at->done = true;
    if (at->append_to) {
        int fd = open(at->append_to, O_WRONLY | O_APPEND | O_CLOEXEC);

        assert_int_equal(write(fd, "x", 1), 1);
        close(fd);
    } else if (at->truncate) {
        struct stat st;

        assert_int_equal(stat(at->truncate, &st), 0);
        assert_int_equal(truncate(at->truncate, st.st_size / 2), 0);
    } else if (at->limit_bytes) {
        struct rlimit limit;

        assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
        limit.rlim_cur = at->limit_bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    } else if (at->pipe_fd) {
        char byte;

        assert_int_equal(write(at->pipe_fd, "k", 1), 1);
        if (at->go_fd)
            assert_int_equal(read(at->go_fd, &byte, 1), 1);
        else
            pause();
    } else {
        atomic_store(&at->cancelled, true);
    }
}

void stopped_import_source(ImportFixture *fixture) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.n_layers = STOPPED_IMPORT_LAYERS;
    import_fixture_source(fixture, &maker);
}

void stopped_import_undisturbed(ImportFixture *fixture, char hash[SHA256_HEX_BYTES]) {
    ImportReport report;

    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
    assert_int_equal(report.resumed_layers, 0);
    assert_int_equal(report.n_layers, STOPPED_IMPORT_LAYERS + 1);
    import_fixture_hash(fixture->out, hash);
    assert_int_equal(unlink(fixture->out), 0);
    assert_int_equal(test_folder_count(fixture->folder), 1);
}

void stopped_import_goes_on_with(ImportFixture *fixture, size_t least, size_t most, const char *expected_hash) {
    char hash[SHA256_HEX_BYTES];
    ImportReport report;
    ErrText err = { 0 };

    if (import_run(fixture->source, fixture->out, &fixture->options, &report, &err))
        fail_msg("%s", err.text);
    assert_in_range(report.resumed_layers, least, most);
    import_fixture_hash(fixture->out, hash);
    assert_string_equal(hash, expected_hash);
    assert_int_equal(unlink(fixture->out), 0);
    assert_int_equal(test_folder_count(fixture->folder), 1);
}

void stopped_import_goes_on(ImportFixture *fixture, size_t n, const char *expected_hash) {
    stopped_import_goes_on_with(fixture, n, n, expected_hash);
}

void stopped_import_cancelled(ImportFixture *fixture, size_t n) {
    Interrupt at = { .stage = IMPORT_STAGE_CONVERT, .n_layers = n };
    ImportOptions options = fixture->options;
    char expected[64];
    ImportReport report;
    ErrText err;

    options.progress = stopped_import_interrupt;
    options.progress_arg = &at;
    options.cancelled = &at.cancelled;
    assert_int_equal(import_run(fixture->source, fixture->out, &options, &report, &err), IMPORT_E_CANCELLED);
    snprintf(expected, sizeof(expected), "%zu of %d layers are kept", n, STOPPED_IMPORT_LAYERS + 1);
    if (!strstr(err.text, expected))
        fail_msg("'%s' lacks '%s'", err.text, expected);
    assert_int_equal(access(fixture->out, F_OK), -1);
    assert_int_equal(test_folder_count(fixture->folder), 3); /* the source, the part, the journal */
}

StoppedImport stopped_import_start(ImportFixture *fixture, const char *out, size_t n) {
    ImportReport report;
    int ends[2], go[2];
    pid_t pid;
    char byte;

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(go), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        Interrupt at = { .stage = IMPORT_STAGE_CONVERT, .pipe_fd = ends[1], .go_fd = go[0], .n_layers = n };

        fixture->options.progress = stopped_import_interrupt;
        fixture->options.progress_arg = &at;
        _exit(import_run(fixture->source, out, &fixture->options, &report, NULL) ? 1 : 0);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    close(go[0]);
    return (StoppedImport){ pid, go[1] };
}

void stopped_import_kill(StoppedImport other) {
    int status;

    kill(other.pid, SIGKILL);
    assert_int_equal(waitpid(other.pid, &status, 0), other.pid);
    assert_true(WIFSIGNALED(status));
    close(other.go_fd);
}
