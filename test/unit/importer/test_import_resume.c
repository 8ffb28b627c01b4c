// SPDX-License-Identifier: Apache-2.0
/* Tests imports that are stopped (cancelled, killed, out of space) and resumed. */
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
#include "importer/files/import_journal.h"
#include "test/unit/importer/stopped_import.h"

/* --- cancel, kill, change, disk full ------------------------------------------------------------------------------ */

/* Before a layer is finished there is nothing to keep. */
static void test_import_resume_cancelled_early(void **state) {
    static const ImportStage stages[] = { IMPORT_STAGE_HASH, IMPORT_STAGE_CONVERT };
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    maker.n_vocab = 40000; /* more than one block to hash */
    import_fixture_source(fixture, &maker);
    for (size_t i = 0; i < ARRAY_LEN(stages); i++) {
        Interrupt at = { .stage = stages[i] };

        fixture->options.progress = stopped_import_interrupt;
        fixture->options.progress_arg = &at;
        fixture->options.cancelled = &at.cancelled;
        import_fixture_refusal(fixture, NULL, IMPORT_E_CANCELLED, "the import was cancelled");
        assert_true(at.done);
    }
}

/* --- going on ----------------------------------------------------------------------------------------------------- */

/* A method that mixes widths, changes a vector, and checks what it wrote when a layer is skipped. */
typedef struct Witness {
    uint64_t sums[STOPPED_IMPORT_LAYERS + 1];
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

static void test_import_resume_cancelled(void **state) {
    ImportFixture *fixture = *state;
    ImportMethod method = witness_method();
    char hash[SHA256_HEX_BYTES];

    stopped_import_source(fixture);
    fixture->options.method = &method;
    fixture->options.recipe.embedding_bits = 5;
    stopped_import_undisturbed(fixture, hash);
    assert_int_equal(witness.n_allocated, 1);
    for (size_t n = 1; n <= STOPPED_IMPORT_LAYERS; n++) {
        witness.n_allocated = witness.n_quantized = witness.n_skipped = 0;
        stopped_import_cancelled(fixture, n);
        fixture->options.n_threads = 1 + (unsigned int)n % 3;
        stopped_import_goes_on(fixture, n, hash);
        assert_int_equal(witness.n_allocated, 1);
        assert_int_equal(witness.n_quantized, STOPPED_IMPORT_LAYERS + 1);
        assert_int_equal(witness.n_skipped, n);
    }
    /* Interrupted several times. */
    for (size_t n = 1; n <= STOPPED_IMPORT_LAYERS; n++)
        stopped_import_cancelled(fixture, n);
    stopped_import_goes_on(fixture, STOPPED_IMPORT_LAYERS, hash);
}

/* A method that does not ask for the embedding's integers still gets the rest of that layer. */
static void test_import_resume_embedding_unseen(void **state) {
    ImportFixture *fixture = *state;
    ImportMethod method = witness_method();
    char hash[SHA256_HEX_BYTES];

    method.sees_outside = witness.sees_outside = false;
    stopped_import_source(fixture);
    fixture->options.method = &method;
    stopped_import_undisturbed(fixture, hash);
    stopped_import_cancelled(fixture, 2);
    stopped_import_goes_on(fixture, 2, hash);
    assert_int_equal(witness.n_skipped, 2);
}

/* Interrupted while finished layers are checked. */
static void test_import_resume_cancelled_in_resume(void **state) {
    ImportFixture *fixture = *state;
    Interrupt at = { .stage = IMPORT_STAGE_RESUME, .n_layers = 2 };
    char hash[SHA256_HEX_BYTES];
    ImportReport report;
    ErrText err;

    stopped_import_source(fixture);
    stopped_import_undisturbed(fixture, hash);
    stopped_import_cancelled(fixture, 4);
    fixture->options.progress = stopped_import_interrupt;
    fixture->options.progress_arg = &at;
    fixture->options.cancelled = &at.cancelled;
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, &err), IMPORT_E_CANCELLED);
    assert_non_null(strstr(err.text, "4 of 7 layers are kept"));
    atomic_store(&at.cancelled, false);
    stopped_import_goes_on(fixture, 4, hash);
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

/* Cancels after 4 layers, damages a file, and expects the same package from at most as many layers. */
static void test_import_resume_damaged(void **state) {
    ImportFixture *fixture = *state;
    char hash[SHA256_HEX_BYTES], part[320], journal[320];
    ImportReport report;
    uint64_t random = 5;

    stopped_import_source(fixture);
    stopped_import_undisturbed(fixture, hash);
    snprintf(part, sizeof(part), "%s.part", fixture->out);
    snprintf(journal, sizeof(journal), "%s.part.journal", fixture->out);
    for (size_t i = 0; i < 60; i++) {
        const char *path = i % 2 ? part : journal;
        char found[SHA256_HEX_BYTES];

        stopped_import_cancelled(fixture, 4);
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
    /* The padding behind the embedding belongs to no tensor, but counts. */
    stopped_import_cancelled(fixture, 4);
    change_file(part, length_of(part) - 1);
    stopped_import_goes_on(fixture, 0, hash);
}

/* A link that someone else put there would lead writes elsewhere. */
static void test_import_resume_not_our_file(void **state) {
    ImportFixture *fixture = *state;
    char part[320], precious[320];
    ImportReport report;
    ErrText err;

    stopped_import_source(fixture);
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
        fixture->options.progress = stopped_import_interrupt;
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
    fixture->options.progress = stopped_import_interrupt;
    fixture->options.progress_arg = &at;
    import_fixture_refusal(fixture, NULL, IMPORT_E_NO_SPACE, "File too large; free some space");
    assert_true(at.done);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

/* A source that becomes shorter than its header claims is an error, not a signal. */
static void test_import_resume_source_shrinks(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    Interrupt at = { .stage = IMPORT_STAGE_CONVERT, .truncate = fixture->source };

    import_fixture_source(fixture, &maker);
    fixture->options.progress = stopped_import_interrupt;
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

/* Checks that a small disk has no room for a file of this name (NULL: for the cache and a package in it), and that the
 * error has these words. false: the disk cannot be mounted. */
static bool refuses_on_disk(ImportFixture *fixture, const char *mount_options, const char *name, const char *text) {
    char out[400], mounted[300];
    ImportOptions options = fixture->options;
    ImportReport report;
    ErrText err;
    int r;

    snprintf(mounted, sizeof(mounted), "%s/small", fixture->folder);
    assert_int_equal(mkdir(mounted, 0700), 0);
    if (geteuid() || mount("tmpfs", mounted, "tmpfs", 0, mount_options)) {
        print_message("skipped: a small tmpfs cannot be mounted (%s)\n", geteuid() ? "not root" : strerror(errno));
        return false;
    }
    snprintf(out, sizeof(out), "%s/%s", mounted, name ? name : "cache/");
    if (!name)
        options.cache_dir = out;
    r = import_run(fixture->source, name ? out : NULL, &options, &report, &err);
    if (test_folder_count(mounted))
        r = -1;
    assert_int_equal(umount(mounted), 0);
    assert_int_equal(rmdir(mounted), 0);
    assert_int_equal(r, IMPORT_E_NO_SPACE);
    assert_memory_equal(err.text, out, strlen(out));
    assert_non_null(strstr(err.text, ": the package needs "));
    if (!strstr(err.text, text))
        fail_msg("'%s' lacks '%s'", err.text, text);
    return true;
}

/* No room for the package; for the part, the second file; for the journal, the third; for the cache's folder. */
static void test_import_resume_disk_full(void **state) {
    static const char full[] = "No space left on device; free some space";
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;

    import_fixture_source(fixture, &maker);
    if (!refuses_on_disk(fixture, "size=64k", "out.cgm", "(0.1 MB) are free there; free some space"))
        skip();
    assert_true(refuses_on_disk(fixture, "size=64m,nr_inodes=1", "out.cgm", full));
    assert_true(refuses_on_disk(fixture, "size=64m,nr_inodes=2", "out.cgm", full));
    assert_true(refuses_on_disk(fixture, "size=64m,nr_inodes=1", NULL, full));
}

static void test_import_resume_killed(void **state) {
    ImportFixture *fixture = *state;
    ImportMethod method = witness_method();
    char hash[SHA256_HEX_BYTES];

    stopped_import_source(fixture);
    fixture->options.method = &method;
    stopped_import_undisturbed(fixture, hash);
    witness.sleep_ms = 1100; /* longer than work may go unrecorded */
    stopped_import_kill(stopped_import_start(fixture, fixture->out, 4));
    assert_int_equal(test_folder_count(fixture->folder), 3);
    assert_int_equal(access(fixture->out, F_OK), -1);
    witness.sleep_ms = 0;
    stopped_import_goes_on_with(fixture, 2, 4, hash);
    /* An import of some milliseconds records its first layer, and more if there is time. */
    stopped_import_kill(stopped_import_start(fixture, fixture->out, 4));
    stopped_import_goes_on_with(fixture, 1, 4, hash);
    /* Killed before anything was recorded. */
    stopped_import_kill(stopped_import_start(fixture, fixture->out, 0));
    stopped_import_goes_on(fixture, 0, hash);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_import_resume_cancelled_early),  WITH_FOLDER(test_import_resume_cancelled),
        WITH_FOLDER(test_import_resume_embedding_unseen), WITH_FOLDER(test_import_resume_cancelled_in_resume),
        WITH_FOLDER(test_import_resume_damaged),          WITH_FOLDER(test_import_resume_not_our_file),
        WITH_FOLDER(test_import_resume_source_changes),   WITH_FOLDER(test_import_resume_source_shrinks),
        WITH_FOLDER(test_import_resume_write_fails),      WITH_FOLDER(test_import_resume_file_size_limit),
        WITH_FOLDER(test_import_resume_disk_full),        WITH_FOLDER(test_import_resume_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
