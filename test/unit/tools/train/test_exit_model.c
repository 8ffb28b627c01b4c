// SPDX-License-Identifier: Apache-2.0
/* The default model's early-exit predictor, trained on a short text: the same file whether or not the run was killed on
 * its way; loaded beside its package, generations that it prunes have the tokens and logits of plain ones; a file that
 * was damaged is refused. */
#undef NDEBUG
#include <errno.h>
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

#include "base/cleanup.h"
#include "engine/generation.h"
#include "model/hparams/hparams.h"
#include "test/unit/fixtures/golden_hash.h"
#include "test/unit/fixtures/real_model.h"
#include "tools/exit/exit_pruning.h"
#include "tools/train/exit_training.h"

enum {
    OUTPUT = 40
};

static uint32_t layer; /* not one of those from the middle on, which are measured together */

static char folder[] = "/tmp/coordgen-exit-model-XXXXXX";
static char once[PATH_MAX], again[PATH_MAX];

static int setup(void **state) {
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    Hparams hparams;

    assert_int_equal(gguf_open(&file, real_model_path(), NULL), 0);
    assert_int_equal(hparams_read(&hparams, file, NULL), 0);
    layer = hparams.n_layers / 2 - 1;
    assert_non_null(mkdtemp(folder));
    snprintf(once, sizeof(once), "%s/once.exit", folder);
    snprintf(again, sizeof(again), "%s/again.exit", folder);
    return 0;
}

static int teardown(void **state) {
    unlink(once);
    unlink(again);
    return rmdir(folder);
}

static ExitTrainingOptions options_of(const char *output, uint32_t epochs) {
    return (ExitTrainingOptions){ .model = real_model_path(),
                                  .draft = real_model_path(),
                                  .output = output,
                                  .layer = layer,
                                  .epochs = epochs,
                                  .windows = 10,
                                  .window = 32,
                                  .say = 8,
                                  .threads = 2,
                                  .isa = ISA_BEST,
                                  .answers = 2,
                                  .progress_fd = -1 };
}

static void load(const char *path, char **datap, size_t *len_bytesp) {
    assert_int_equal(file_slurp(path, 64 << 20, datap, len_bytesp, NULL), 0);
}

static off_t size_of(const char *path) {
    struct stat st;

    return stat(path, &st) ? 0 : st.st_size;
}

/* Trains in a child, which is killed when the work file has grown past the first window or the checkpoint is there. */
static void train_and_kill(const ExitTrainingOptions *options, const char *watched, off_t bytes) {
    const pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (!child) {
        ExitTrainingReport report;
        ErrText err;

        _exit(exit_training_run(options, &report, &err) ? 1 : 0);
    }
    while (size_of(watched) <= bytes) {
        assert_int_equal(waitpid(child, &status, WNOHANG), 0); /* it has not ended before */
        usleep(1000);
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void test_exit_model_resumed(void **state) {
    ExitTrainingOptions options = options_of(once, 2);
    _cleanup_(freep) char *first = NULL, *second = NULL;
    char part[PATH_MAX + 8], checkpoint[PATH_MAX + 16];
    size_t first_bytes, second_bytes;
    ExitTrainingReport report;
    ErrText err;

    if (exit_training_run(&options, &report, &err))
        fail_msg("%s", err.text);
    assert_string_equal(report.path, once);
    assert_int_equal(report.n_windows, 10);
    assert_int_equal(report.n_held_out, 2);
    assert_int_equal(report.n_measured, 1);
    assert_int_equal(report.refined.layer, layer);
    assert_true(report.refined.quality[EXIT_N_EDGES] > 32);
    for (int i = 0; i < _EXIT_QUALITY_N; i++)
        assert_true(report.refined.quality[i] > 0 && (i == EXIT_N_EDGES || report.refined.quality[i] <= 1));
    assert_int_equal(report.n_trees, EXIT_POLICIES);
    for (uint32_t i = 0; i < EXIT_POLICIES; i++) {
        const ExitTrees *trees = &report.trees[i];

        assert_true(trees->with.n_tokens == 8 && trees->without.n_tokens == 8);
        assert_true(trees->with.exit_ns && !trees->without.exit_ns && !trees->without.n_gone);
        assert_true(trees->with.n_gone < trees->with.n_rows);
        for (size_t way = 0; way < _EXIT_TREES_WAYS; way++) {
            const ExitKept *kept = &trees->kept[way];

            assert_true(kept->rows > 0 && kept->rows <= kept->tiles && kept->tiles <= 1);
            assert_true(kept->drafts <= kept->tokens && kept->tokens <= 1);
        }
    }
    options = options_of(again, 2);
    snprintf(part, sizeof(part), "%s.part", again);
    snprintf(checkpoint, sizeof(checkpoint), "%s.%u.checkpoint", again, layer);
    train_and_kill(&options, part, 300);
    train_and_kill(&options, checkpoint, 0);
    assert_int_equal(size_of(again), 0);
    if (exit_training_run(&options, &report, &err))
        fail_msg("%s", err.text);
    assert_int_equal(size_of(part), 0); /* they have gone */
    assert_int_equal(size_of(checkpoint), 0);
    load(once, &first, &first_bytes);
    load(again, &second, &second_bytes);
    assert_int_equal(first_bytes, second_bytes);
    assert_memory_equal(first, second, first_bytes);
}

typedef struct Given {
    uint64_t logits;
    size_t n;
    uint32_t ids[OUTPUT];
} Given;

static uint32_t n_vocab;

static void take_logits(void *arg, const float *logits) {
    Given *given = arg;

    given->logits = hash_of(given->logits, logits, n_vocab * sizeof(*logits));
}

static void take(void *arg, const GenerationDelta *delta) {
    Given *given = arg;

    for (size_t i = 0; i < delta->n_tokens; i++)
        given->ids[given->n++] = delta->tokens[i];
}

static void generate(Engine *engine, const GenerationSpeculation *speculation, Given *given) {
    static const char text[] = "1. Read the file. 2. Count the words. 3. Print the number. 1. Read the file. 2. Count";
    const GenerationOptions options = {
        .max_tokens = OUTPUT,
        .ignore_end = true,
        .no_reuse = true,
        .sampler = SAMPLER_OPTIONS_GREEDY,
        .speculation = *speculation,
        .on_logits = take_logits,
        .on_logits_arg = given,
    };
    TokenList tokens = { 0 };
    Generation *generation;
    ErrText err = { 0 };

    *given = (Given){ .logits = HASH_START };
    n_vocab = engine_info(engine)->n_vocab;
    assert_int_equal(tokenizer_encode(engine_tokenizer(engine), text, strlen(text), 0, &tokens, NULL), 0);
    if (generation_new(&generation, engine, tokens.ids, tokens.n, &options, &err))
        fail_msg("%s", err.text);
    while (generation_end(generation) == GENERATION_RUNNING)
        assert_int_equal(generation_step(generation, take, given, &err), 0);
    generation_free(generation);
    token_list_deinit(&tokens);
}

static void damage(const char *path) {
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, 5000), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, 5000), 1);
    close(fd);
}

static void test_exit_model_pruned(void **state) {
    const GenerationSpeculation none = { 0 };
    _cleanup_(early_exit_deinit) EarlyExit exit = { 0 };
    RealModel model;
    Given plain;
    ErrText err;

    real_model_open(&model, ENGINE_DEVICE_CPU, ISA_BEST, 2, 0);
    generate(model.engine, &none, &plain);
    assert_int_equal(plain.n, OUTPUT);
    if (early_exit_load(&exit, model.engine, once, &err))
        fail_msg("%s", err.text);
    assert_int_equal(exit.layer, layer);
    for (int way = 0; way < 3; way++) {
        ExitPruning pruning = { .exit = &exit, .mode = way < 2 ? EXIT_PRUNING_ALWAYS : EXIT_PRUNING_CONTROLLED };
        SpecLab lab = { .always = way < 2 };
        const GenerationSpeculation speculation = { .sources = SPECULATION_AUTO,
                                                    .lab = &lab,
                                                    .head_on_demand = way == 1 };
        Given given;

        exit_pruning_hook(&pruning, &lab);
        generate(model.engine, &speculation, &given);
        assert_int_equal(given.n, OUTPUT);
        assert_memory_equal(given.ids, plain.ids, sizeof(plain.ids));
        assert_int_equal(given.logits, plain.logits);
        assert_int_equal(pruning.report.n_rows > 0, way < 2);
    }
    damage(again);
    assert_int_equal(early_exit_load(&exit, model.engine, again, &err), ENGINE_E_MODEL);
    assert_non_null(strstr(err.text, "again.exit is damaged: its checksum is wrong"));
    assert_int_equal(exit.layer, layer); /* as it was */
    early_exit_deinit(&exit);
    real_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_model_resumed),
        cmocka_unit_test(test_exit_model_pruned),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
