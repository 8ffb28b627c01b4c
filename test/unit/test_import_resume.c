/* Imports that are stopped: cancelled, killed, out of space, and gone on with. */
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
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/f16.h"
#include "importer/import_journal.h"
#include "test/unit/import_fixture.h"

/* --- cancel, kill, change, disk full ------------------------------------------------------------------------------ */

typedef struct Interrupt {
    ImportStage stage;
    _Atomic bool cancelled;
    const char *append_to; /* or: the source grows meanwhile */
    const char *truncate;  /* or: it is cut in half */
    rlim_t limit_bytes;    /* or: no file may be longer any more */
    int pipe_fd;           /* or: say so and wait to be killed, */
    int go_fd;             /* or for a byte from here */
    size_t n_layers;       /* not before so many are finished */
    bool done;
} Interrupt;

static void interrupt(void *arg, const ImportProgress *progress) {
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

/* Before a layer is finished there is nothing to keep. */
static void test_import_resume_cancelled_early(void **state) {
    static const ImportStage stages[] = { IMPORT_STAGE_HASH, IMPORT_STAGE_CONVERT };
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.n_vocab = 40000; /* more than one block to hash */
    import_fixture_source(fixture, &maker);
    for (size_t i = 0; i < ARRAY_LEN(stages); i++) {
        Interrupt at = { .stage = stages[i] };

        fixture->options.progress = interrupt;
        fixture->options.progress_arg = &at;
        fixture->options.cancelled = &at.cancelled;
        import_fixture_refusal(fixture, NULL, IMPORT_E_CANCELLED, "the import was cancelled");
        assert_true(at.done);
    }
}

/* --- going on ----------------------------------------------------------------------------------------------------- */

#define N_LAYERS 6 /* and what lies outside */

/* A method that mixes widths and changes a vector, and sees what it wrote when a layer is skipped. */
typedef struct Witness {
    uint64_t sums[N_LAYERS + 1];
    size_t n_allocated, n_quantized, n_skipped;
    bool sees_outside;
    unsigned int sleep_ms; /* in the first layer */
} Witness;

static Witness witness;

static uint64_t sum_of(const ImportLayer *layer) {
    uint64_t sum = 1;

    for (size_t i = 0; i < layer->n_linears; i++) {
        const ImportLinear *linear = &layer->linears[i];

        for (size_t j = 0; linear->q && j < linear->n * linear->k; j++)
            sum = sum * 31 + (uint64_t)(linear->q[j] + 128);
        for (size_t j = 0; j < linear->n; j++)
            sum = sum * 31 + f32_to_bits(linear->scales[j]) + (uint64_t)linear->bits[j];
    }
    for (size_t i = 0; i < layer->n_vectors; i++)
        for (size_t j = 0; j < layer->vectors[i].n; j++)
            sum = sum * 31 + f32_to_bits(layer->vectors[i].values[j]);
    return sum;
}

static int witness_allocate(void *state, const ImportModel *model, ErrText *err) {
    witness.n_allocated++;
    for (size_t i = 1; i <= model->hparams.n_layers; i++)
        for (size_t j = 0; j < model->layers[i].n_linears; j++)
            for (size_t channel = 0; channel < model->layers[i].linears[j].n; channel++)
                model->layers[i].linears[j].bits[channel] = (int8_t)(1 + (channel + i) % 8);
    return 0;
}

static int witness_quantize(void *state, const ImportModel *model, const ImportLayer *layer, ErrText *err) {
    int r = import_method_plain.quantize(state, model, layer, err);

    if (r)
        return r;
    witness.n_quantized++;
    for (size_t i = 0; i < layer->n_linears; i++)
        assert_true(layer->linears[i].q || (layer->layer < 0 && !witness.sees_outside));
    for (size_t i = 0; i < layer->n_vectors; i++) /* float32 in these models */
        assert_memory_equal(layer->vectors[i].values, layer->vectors[i].source->data,
                            layer->vectors[i].n * sizeof(float));
    if (witness.sleep_ms && !layer->layer)
        (void)usleep(witness.sleep_ms * 1000);
    for (size_t i = 0; i < layer->n_vectors; i++)
        layer->vectors[i].values[0] += 1;
    witness.sums[layer->layer + 1] = sum_of(layer);
    return 0;
}

static int witness_skip(void *state, const ImportModel *model, const ImportLayer *layer, ErrText *err) {
    witness.n_skipped++;
    assert_true(witness.sums[layer->layer + 1] == sum_of(layer));
    return 0;
}

static ImportMethod witness_method(void) {
    ImportMethod method = import_method_plain;

    method.allocate = witness_allocate;
    method.quantize = witness_quantize;
    method.skip = witness_skip;
    method.sees_outside = true;
    witness = (Witness){ .sees_outside = true };
    return method;
}

static void make_larger_source(ImportFixture *fixture) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.n_layers = N_LAYERS;
    import_fixture_source(fixture, &maker);
}

/* The hash of the package that an import makes which nobody disturbs; the package is removed. */
static void undisturbed(ImportFixture *fixture, char hash[SHA256_HEX_BYTES]) {
    ImportReport report;

    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
    assert_int_equal(report.resumed_layers, 0);
    assert_int_equal(report.n_layers, N_LAYERS + 1);
    import_fixture_hash(fixture->out, hash);
    assert_int_equal(unlink(fixture->out), 0);
    assert_int_equal(test_folder_count(fixture->folder), 1);
}

/* An import that is cancelled when n layers are finished. */
static void cancel_after(ImportFixture *fixture, size_t n) {
    Interrupt at = { .stage = IMPORT_STAGE_CONVERT, .n_layers = n };
    ImportOptions options = fixture->options;
    char expected[64];
    ImportReport report;
    ErrText err;

    options.progress = interrupt;
    options.progress_arg = &at;
    options.cancelled = &at.cancelled;
    assert_int_equal(import_run(fixture->source, fixture->out, &options, &report, &err), IMPORT_E_CANCELLED);
    snprintf(expected, sizeof(expected), "%zu of %d layers are kept", n, N_LAYERS + 1);
    if (!strstr(err.text, expected))
        fail_msg("'%s' lacks '%s'", err.text, expected);
    assert_int_equal(access(fixture->out, F_OK), -1);
    assert_int_equal(test_folder_count(fixture->folder), 3); /* the source, the part, the journal */
}

/* The import goes on with n layers, and makes the same package. */
static void expect_resumed(ImportFixture *fixture, size_t n, const char *expected_hash) {
    char hash[SHA256_HEX_BYTES];
    ImportReport report;
    ErrText err = { "" };

    if (import_run(fixture->source, fixture->out, &fixture->options, &report, &err))
        fail_msg("%s", err.text);
    assert_int_equal(report.resumed_layers, n);
    import_fixture_hash(fixture->out, hash);
    assert_string_equal(hash, expected_hash);
    assert_int_equal(unlink(fixture->out), 0);
    assert_int_equal(test_folder_count(fixture->folder), 1);
}

static void test_import_resume_cancelled(void **state) {
    ImportFixture *fixture = *state;
    ImportMethod method = witness_method();
    char hash[SHA256_HEX_BYTES];

    make_larger_source(fixture);
    fixture->options.method = &method;
    fixture->options.recipe.embedding_bits = 5;
    undisturbed(fixture, hash);
    assert_int_equal(witness.n_allocated, 1);
    for (size_t n = 1; n <= N_LAYERS; n++) {
        witness.n_allocated = witness.n_quantized = witness.n_skipped = 0;
        cancel_after(fixture, n);
        fixture->options.n_threads = 1 + (unsigned int)n % 3;
        expect_resumed(fixture, n, hash);
        assert_int_equal(witness.n_allocated, 1);
        assert_int_equal(witness.n_quantized, N_LAYERS + 1);
        assert_int_equal(witness.n_skipped, n);
    }
    /* Again and again. */
    for (size_t n = 1; n <= N_LAYERS; n++)
        cancel_after(fixture, n);
    expect_resumed(fixture, N_LAYERS, hash);
}

/* A method that does not ask for the integers of the embedding gets the rest of that layer all the same. */
static void test_import_resume_embedding_unseen(void **state) {
    ImportFixture *fixture = *state;
    ImportMethod method = witness_method();
    char hash[SHA256_HEX_BYTES];

    method.sees_outside = witness.sees_outside = false;
    make_larger_source(fixture);
    fixture->options.method = &method;
    undisturbed(fixture, hash);
    cancel_after(fixture, 2);
    expect_resumed(fixture, 2, hash);
    assert_int_equal(witness.n_skipped, 2);
}

/* While the layers that are there are checked. */
static void test_import_resume_cancelled_in_resume(void **state) {
    ImportFixture *fixture = *state;
    Interrupt at = { .stage = IMPORT_STAGE_RESUME, .n_layers = 2 };
    char hash[SHA256_HEX_BYTES];
    ImportReport report;
    ErrText err;

    make_larger_source(fixture);
    undisturbed(fixture, hash);
    cancel_after(fixture, 4);
    fixture->options.progress = interrupt;
    fixture->options.progress_arg = &at;
    fixture->options.cancelled = &at.cancelled;
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, &err), IMPORT_E_CANCELLED);
    assert_non_null(strstr(err.text, "4 of 7 layers are kept"));
    atomic_store(&at.cancelled, false);
    expect_resumed(fixture, 4, hash);
}

static void change_file(const char *path, off_t at) {
    uint8_t byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static off_t length_of(const char *path) {
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

/* Cancels after 4 layers, damages, and expects the same package from fewer or as many. */
static void test_import_resume_damaged(void **state) {
    ImportFixture *fixture = *state;
    char hash[SHA256_HEX_BYTES], part[320], journal[320];
    ImportReport report;
    uint64_t random = 5;

    make_larger_source(fixture);
    undisturbed(fixture, hash);
    snprintf(part, sizeof(part), "%s.part", fixture->out);
    snprintf(journal, sizeof(journal), "%s.part.journal", fixture->out);
    for (size_t i = 0; i < 60; i++) {
        const char *path = i % 2 ? part : journal;
        char found[SHA256_HEX_BYTES];

        cancel_after(fixture, 4);
        if (i < 40)
            change_file(path, (off_t)(test_random(&random) % (uint64_t)length_of(path)));
        else if (i < 56)
            assert_int_equal(truncate(path, (off_t)(test_random(&random) % (uint64_t)length_of(path))), 0);
        else
            assert_int_equal(unlink(path), 0);
        assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
        assert_true(report.resumed_layers <= 4);
        import_fixture_hash(fixture->out, found);
        assert_string_equal(found, hash);
        assert_int_equal(unlink(fixture->out), 0);
        assert_int_equal(test_folder_count(fixture->folder), 1);
    }
    /* The padding behind the embedding, which no tensor has: it counts. */
    cancel_after(fixture, 4);
    change_file(part, length_of(part) - 1);
    expect_resumed(fixture, 0, hash);
}

/* A link that someone else put there would lead our writes elsewhere. */
static void test_import_resume_not_our_file(void **state) {
    ImportFixture *fixture = *state;
    char part[320], precious[320];
    ImportReport report;
    ErrText err;

    make_larger_source(fixture);
    snprintf(part, sizeof(part), "%s.part", fixture->out);
    snprintf(precious, sizeof(precious), "%s/precious", fixture->folder);
    test_write_file(fixture->folder, "precious", "precious", 8);
    assert_int_equal(symlink(precious, part), 0);
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, &err), -ELOOP);
    assert_int_equal(unlink(part), 0);
    assert_int_equal(link(precious, part), 0);
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, &err), IMPORT_E_EXISTS);
    assert_non_null(strstr(err.text, "out.cgm.part: is not a file of ours: remove it or name another output"));
    assert_int_equal(length_of(precious), 8);
}

/* --- source and space --------------------------------------------------------------------------------------------- */

static void test_import_resume_source_changes(void **state) {
    static const ImportStage stages[] = { IMPORT_STAGE_HASH, IMPORT_STAGE_CONVERT };
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    for (size_t i = 0; i < ARRAY_LEN(stages); i++) {
        Interrupt at = { .stage = stages[i], .append_to = fixture->source };

        import_fixture_source(fixture, &maker);
        fixture->options.progress = interrupt;
        fixture->options.progress_arg = &at;
        import_fixture_refusal(fixture, NULL, IMPORT_E_CHANGED, "the file changed while it was read");
    }
}

/* A write that fails in the middle, after the space was reserved. */
static void test_import_resume_write_fails(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    Interrupt at = { .stage = IMPORT_STAGE_CONVERT, .limit_bytes = 65536 };
    struct rlimit old;

    import_fixture_source(fixture, &maker);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    fixture->options.progress = interrupt;
    fixture->options.progress_arg = &at;
    import_fixture_refusal(fixture, NULL, IMPORT_E_NO_SPACE, "File too large; free some space");
    assert_true(at.done);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

/* A source that becomes shorter than its header said: an error, not a signal. */
static void test_import_resume_source_shrinks(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    Interrupt at = { .stage = IMPORT_STAGE_CONVERT, .truncate = fixture->source };

    import_fixture_source(fixture, &maker);
    fixture->options.progress = interrupt;
    fixture->options.progress_arg = &at;
    import_fixture_refusal(fixture, NULL, IMPORT_E_CHANGED, "the file became shorter while it was read");
}

static void test_import_resume_file_size_limit(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    struct rlimit old, small = { 65536, 65536 };

    import_fixture_source(fixture, &maker);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    import_fixture_refusal(fixture, NULL, IMPORT_E_NO_SPACE, "the package needs ");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

static void test_import_resume_disk_full(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportReport report;
    char out[400], mounted[300];
    ErrText err;
    int r;

    import_fixture_source(fixture, &maker);
    snprintf(mounted, sizeof(mounted), "%s/small", fixture->folder);
    assert_int_equal(mkdir(mounted, 0700), 0);
    if (geteuid() || mount("tmpfs", mounted, "tmpfs", 0, "size=64k")) {
        print_message("skipped: a small tmpfs cannot be mounted (%s)\n", geteuid() ? "not root" : strerror(errno));
        skip();
    }
    snprintf(out, sizeof(out), "%s/out.cgm", mounted);
    r = import_run(fixture->source, out, &fixture->options, &report, &err);
    if (test_folder_count(mounted))
        r = -1;
    assert_int_equal(umount(mounted), 0);
    assert_int_equal(r, IMPORT_E_NO_SPACE);
    assert_memory_equal(err.text, out, strlen(out));
    assert_non_null(strstr(err.text, ": the package needs "));
    assert_non_null(strstr(err.text, "(0.1 MB) are free there"));
}

/* --- several processes -------------------------------------------------------------------------------------------- */

typedef struct Other {
    pid_t pid;
    int go_fd; /* a byte lets it go on */
} Other;

/* Starts an import that stops when n layers are finished. */
static Other start_stuck_import(ImportFixture *fixture, const char *out, size_t n) {
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

        fixture->options.progress = interrupt;
        fixture->options.progress_arg = &at;
        _exit(import_run(fixture->source, out, &fixture->options, &report, NULL) ? 1 : 0);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    close(go[0]);
    return (Other){ pid, go[1] };
}

static void kill_import(Other other) {
    int status;

    kill(other.pid, SIGKILL);
    assert_int_equal(waitpid(other.pid, &status, 0), other.pid);
    assert_true(WIFSIGNALED(status));
    close(other.go_fd);
}

static void test_import_resume_killed(void **state) {
    ImportFixture *fixture = *state;
    ImportMethod method = witness_method();
    char hash[SHA256_HEX_BYTES];

    make_larger_source(fixture);
    fixture->options.method = &method;
    undisturbed(fixture, hash);
    witness.sleep_ms = 1100; /* longer than what may go unrecorded */
    kill_import(start_stuck_import(fixture, fixture->out, 4));
    assert_int_equal(test_folder_count(fixture->folder), 3);
    assert_int_equal(access(fixture->out, F_OK), -1);
    witness.sleep_ms = 0;
    expect_resumed(fixture, 2, hash);
    /* Killed before anything was recorded. */
    kill_import(start_stuck_import(fixture, fixture->out, 0));
    expect_resumed(fixture, 0, hash);
}

typedef struct Waiting {
    Other other;
    _Atomic bool cancelled;
    bool let_go; /* or be cancelled */
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

static void test_import_resume_two_at_once(void **state) {
    ImportFixture *fixture = *state;
    Waiting waiting = { .let_go = false };
    char hash[SHA256_HEX_BYTES], found[SHA256_HEX_BYTES], path[PATH_MAX];
    ImportReport report;
    bool was_there;
    ErrText err;
    int status;

    make_larger_source(fixture);
    undisturbed(fixture, hash);
    waiting.other = start_stuck_import(fixture, fixture->out, 2);
    assert_int_equal(import_discard(fixture->source, fixture->out, &fixture->options, path, &was_there, &err), -EBUSY);
    assert_non_null(strstr(err.text, "is working on it: stop that import first"));
    fixture->options.progress = while_waiting;
    fixture->options.progress_arg = &waiting;
    fixture->options.cancelled = &waiting.cancelled;
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, &err), IMPORT_E_CANCELLED);
    assert_int_equal(waiting.n_seen, 1);
    /* What the other one has is not touched; this time it is waited for, and nothing is left to do. */
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

/* The other one dies while it is waited for: its work is taken over. */
static void test_import_resume_other_dies(void **state) {
    ImportFixture *fixture = *state;
    Waiting waiting = { .let_go = true };
    char hash[SHA256_HEX_BYTES], found[SHA256_HEX_BYTES];
    ImportReport report;
    int status;
    pid_t killer;

    make_larger_source(fixture);
    undisturbed(fixture, hash);
    waiting.other = start_stuck_import(fixture, fixture->out, 2);
    killer = fork();
    if (!killer) {
        (void)usleep(300 * 1000);
        kill(waiting.other.pid, SIGKILL);
        _exit(0);
    }
    waiting.n_seen = 1; /* do not let it go */
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

/* A process has taken the lock and not yet written its name: first nobody's stands there, then a dead one's. */
static void test_import_resume_owner_unknown(void **state) {
    ImportFixture *fixture = *state;
    char part[PATH_MAX + 8], journal[PATH_MAX + 16], path[PATH_MAX], owner[64];
    bool found;
    ErrText err;
    int status, fd;
    pid_t pid;

    make_larger_source(fixture);
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

static void test_import_resume_discard(void **state) {
    ImportFixture *fixture = *state;
    char path[PATH_MAX], hash[SHA256_HEX_BYTES];
    bool found;

    make_larger_source(fixture);
    undisturbed(fixture, hash);
    cancel_after(fixture, 3);
    assert_int_equal(import_discard(fixture->source, fixture->out, &fixture->options, path, &found, NULL), 0);
    assert_true(found);
    assert_string_equal(path, fixture->out);
    assert_int_equal(test_folder_count(fixture->folder), 1);
    assert_int_equal(import_discard(fixture->source, fixture->out, &fixture->options, path, &found, NULL), 0);
    assert_false(found);
    expect_resumed(fixture, 0, hash);
}

static void make_old(const char *path) {
    struct timespec times[2];

    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= 8 * 24 * 3600;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* In the cache folder the next import of any model clears up what is old. */
static void test_import_resume_cache_cleaned(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    char part[PATH_MAX + 8], journal[PATH_MAX + 16], path[PATH_MAX];
    ImportReport report;
    bool found;

    make_larger_source(fixture);
    kill_import(start_stuck_import(fixture, NULL, 1));
    assert_int_equal(test_folder_count(fixture->cache), 2);
    test_write_file(fixture->cache, "other.cgm.tmp-abcdef", "an earlier version's", 20);
    maker.seed = 2;
    import_fixture_source(fixture, &maker);
    assert_int_equal(import_run(fixture->source, NULL, &fixture->options, &report, NULL), 0);
    assert_int_equal(test_folder_count(fixture->cache), 3); /* the package, and what may be gone on with */

    make_larger_source(fixture);
    assert_int_equal(import_discard(fixture->source, NULL, &fixture->options, path, &found, NULL), 0);
    assert_true(found);
    kill_import(start_stuck_import(fixture, NULL, 1));
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
        WITH_FOLDER(test_import_resume_cancelled_early),  WITH_FOLDER(test_import_resume_cancelled),
        WITH_FOLDER(test_import_resume_embedding_unseen), WITH_FOLDER(test_import_resume_cancelled_in_resume),
        WITH_FOLDER(test_import_resume_damaged),          WITH_FOLDER(test_import_resume_not_our_file),
        WITH_FOLDER(test_import_resume_source_changes),   WITH_FOLDER(test_import_resume_source_shrinks),
        WITH_FOLDER(test_import_resume_write_fails),      WITH_FOLDER(test_import_resume_file_size_limit),
        WITH_FOLDER(test_import_resume_disk_full),        WITH_FOLDER(test_import_resume_killed),
        WITH_FOLDER(test_import_resume_two_at_once),      WITH_FOLDER(test_import_resume_other_dies),
        WITH_FOLDER(test_import_resume_owner_unknown),    WITH_FOLDER(test_import_resume_discard),          WITH_FOLDER(test_import_resume_cache_cleaned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
