// SPDX-License-Identifier: Apache-2.0
/* Packages that are compared with their checksums while they are loaded. One changed bit anywhere fails the load, or
 * the step that needs the layer, and the layer is named. A package that was compared is not compared again. Comparing
 * changes no bit of the results. */
#undef NDEBUG
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/step/step_state.h"
#include "test/unit/fixtures/loaded_engine.h"
#include "test/unit/fixtures/patience.h"
#include "weights/image/weights_image.h"

typedef float Logits[LOADED_N_TOKENS * LOADED_N_VOCAB];

typedef struct PackageCase {
    double bits;
    bool static_activations, tied;
} PackageCase;

static const PackageCase packages[] = { { 8, false, false }, { 4.5, false, true }, { 8, true, false } };

/* Changes a byte to another value, but not to -128, which no load takes; or sets it back. Return: the byte before. */
static uint8_t put_byte(const char *path, uint64_t at, const uint8_t *byte) {
    _cleanup_(closep) int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t before, after;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &before, 1, (off_t)at), 1);
    after = byte ? *byte : (uint8_t)(before ^ (before == 0x81 ? 2 : 1));
    assert_int_equal(pwrite(fd, &after, 1, (off_t)at), 1);
    return before;
}

static uint64_t length_of(const char *path) {
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

static int begin(Loaded *loaded, const EngineOptions *from, ErrText *err) {
    EngineOptions options = *from;

    *loaded = (Loaded){ 0 };
    account_table_init(&loaded->accounts);
    assert_int_equal(worker_pool_new(&loaded->pool, 2), 0);
    options.pool = loaded->pool;
    options.accounts = &loaded->accounts;
    return engine_new(&loaded->engine, &options, err);
}

/* Loads, computes, and returns how many bytes were compared. */
static uint64_t run(const EngineOptions *options, Logits logits) {
    Loaded loaded;
    ErrText err = { 0 };
    uint64_t compared_bytes;

    if (begin(&loaded, options, &err))
        fail_msg("%s", err.text);
    assert_int_equal(sequence_new(&loaded.sequence, loaded.engine, LOADED_N_TOKENS, &err), 0);
    if (loaded_forward(&loaded, logits, &err))
        fail_msg("%s", err.text);
    assert_false(engine_is_arriving(loaded.engine));
    assert_int_equal(weights_wait_image(engine_weights(loaded.engine), &err), 0);
    compared_bytes = engine_info(loaded.engine)->weights.compared_bytes;
    loaded_deinit(&loaded);
    return compared_bytes;
}

static void refuse(const EngineOptions *options, const char *text) {
    Loaded loaded;
    ErrText err = { 0 };

    assert_int_equal(begin(&loaded, options, &err), ENGINE_E_MODEL);
    if (!strstr(err.text, options->path) || !strstr(err.text, text) || !strstr(err.text, "import the model again"))
        fail_msg("'%s' does not name %s, '%s' and the remedy", err.text, options->path, text);
    assert_null(loaded.engine);
    loaded_deinit(&loaded);
}

static EngineOptions options_of(const char *path, WeightsChecking checking) {
    const Loaded none = { 0 };
    EngineOptions options = loaded_options(&none, path, 0);

    options.load.weights.checking = checking;
    return options;
}

/* --- what passes -------------------------------------------------------------------------------------------------- */

static void test_weights_check_bits(void **state) {
    static const WeightReading readings[] = { WEIGHT_READING_BEST, WEIGHT_READING_THREADS, WEIGHT_READING_CACHED };

    for (size_t i = 0; i < ARRAY_LEN(packages); i++) {
        EngineOptions options;
        char path[PATH_MAX];
        Logits expected, logits;

        loaded_make_package(*state, packages[i].bits, packages[i].static_activations, packages[i].tied, path);
        options = options_of(path, WEIGHTS_CHECKING_NOTHING);
        assert_int_equal(run(&options, expected), 0);
        options.load.weights.checking = WEIGHTS_CHECKING_ALL;
        for (size_t j = 0; j < 2 * ARRAY_LEN(readings); j++) {
            options.load.weights.reading = readings[j / 2];
            options.arriving = j % 2;
            memset(logits, 0, sizeof(logits));
            assert_int_equal(run(&options, logits), length_of(path));
            assert_memory_equal(logits, expected, sizeof(logits));
        }
    }
}

/* A comparison is noted for the state of the file, if that state is some seconds old. */
static void test_weights_check_once(void **state) {
    ImportFixture *fixture = *state;
    EngineOptions options;
    uint64_t compared_bytes, head_bytes;
    unsigned int n_tries = 0;
    uint8_t byte;
    char path[PATH_MAX];
    Logits logits;

    loaded_make_package(fixture, 4.5, false, false, path);
    options = options_of(path, WEIGHTS_CHECKING_NEW);
    assert_int_equal(run(&options, logits), length_of(path)); /* there is no folder for notes */
    assert_int_equal(run(&options, logits), length_of(path));
    options.cache_dir = fixture->cache;
    do {
        compared_bytes = run(&options, logits);
        usleep(compared_bytes == length_of(path) ? 300000 : 0);
    } while (compared_bytes == length_of(path) && ++n_tries < 40);
    assert_true(n_tries > 0); /* everything was compared at least once */
    head_bytes = compared_bytes;
    assert_true(head_bytes > 1000 && head_bytes < length_of(path) / 2);
    assert_int_equal(run(&options, logits), head_bytes);
    options.arriving = true;
    assert_int_equal(run(&options, logits), head_bytes);
    options.load.weights.checking = WEIGHTS_CHECKING_ALL;
    assert_int_equal(run(&options, logits), length_of(path));
    /* Another state of the file. */
    options.load.weights.checking = WEIGHTS_CHECKING_NEW;
    options.arriving = false;
    byte = put_byte(path, length_of(path) - 1, NULL);
    refuse(&options, "is damaged");
    refuse(&options, "is damaged");
    put_byte(path, length_of(path) - 1, &byte);
    assert_int_equal(run(&options, logits), length_of(path));
}

/* With an image the package's layers are not read. If they must be compared, the image is not used, and stays. */
static void test_weights_check_image(void **state) {
    ImportFixture *fixture = *state;
    char path[PATH_MAX], image[PATH_MAX];
    EngineOptions options;
    Logits expected, logits;
    struct stat before, after;

    loaded_make_package(fixture, 8, false, false, path);
    assert_int_equal(weights_image_path(image, sizeof(image), fixture->cache, path), 0);
    options = options_of(path, WEIGHTS_CHECKING_NEW);
    options.image_path = image;
    assert_int_equal(run(&options, expected), length_of(path));
    assert_int_equal(stat(image, &before), 0);
    assert_true(run(&options, logits) < length_of(path) / 2);
    assert_memory_equal(logits, expected, sizeof(logits));
    options.load.weights.checking = WEIGHTS_CHECKING_ALL;
    assert_int_equal(run(&options, logits), length_of(path));
    assert_memory_equal(logits, expected, sizeof(logits));
    assert_int_equal(stat(image, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

/* --- what does not ------------------------------------------------------------------------------------------------ */

/* A damaged byte in any tensor, or in the padding behind it, is found by every way of reading. Errors that the load
 * finds by itself are told as before. */
static void test_weights_check_every_tensor(void **state) {
    static const WeightReading readings[] = { WEIGHT_READING_BEST, WEIGHT_READING_THREADS, WEIGHT_READING_CACHED };

    for (size_t i = 0; i < ARRAY_LEN(packages); i++) {
        _cleanup_(package_freep) Package *package = NULL;
        EngineOptions options;
        const GgufFile *file;
        ErrText err = { 0 };
        char path[PATH_MAX];
        Logits logits;

        loaded_make_package(*state, packages[i].bits, packages[i].static_activations, packages[i].tied, path);
        assert_int_equal(package_open(&package, path, &err), 0);
        file = package_file(package);
        for (size_t j = 0; j < gguf_n_tensors(file); j += (patience_is_short() ? 71 : 7) + j % 5) {
            const GgufTensor *tensor = gguf_tensor_at(file, j);
            const uint64_t at = tensor->offset_bytes + tensor->len_bytes;
            const char *dot = strchr(tensor->name, '.');
            const uint64_t next =
                j + 1 < gguf_n_tensors(file) ? gguf_tensor_at(file, j + 1)->offset_bytes : gguf_len_bytes(file);
            uint8_t byte;
            char text[80] = ": what begins with ";

            if (!strncmp(tensor->name, "blk.", 4))
                snprintf(text, sizeof(text), ": layer %.*s is not as it was written",
                         (int)strspn(dot + 1, "0123456789"), dot + 1);
            options = options_of(path, j % 2 ? WEIGHTS_CHECKING_ALL : WEIGHTS_CHECKING_NEW);
            options.load.weights.reading = readings[j % ARRAY_LEN(readings)];
            if (!strstr(tensor->name, ".bits")) { /* the load itself checks the sum of widths */
                byte = put_byte(path, at - 1, NULL);
                refuse(&options, text);
                options.load.weights.checking = WEIGHTS_CHECKING_NOTHING;
                assert_int_equal(run(&options, logits), 0);
                put_byte(path, at - 1, &byte);
            }
            options.load.weights.checking = WEIGHTS_CHECKING_ALL;
            if (next > at) {
                byte = put_byte(path, next - 1, NULL);
                refuse(&options, text);
                put_byte(path, next - 1, &byte);
            }
        }
    }
}

static uint64_t find(const char *path, const char *text) {
    _cleanup_(freep) char *data = NULL;
    size_t len_bytes;
    const char *found;

    assert_int_equal(file_slurp(path, 64 << 20, &data, &len_bytes, NULL), 0);
    found = memmem(data, len_bytes, text, strlen(text));
    assert_non_null(found);
    return (uint64_t)(found - data);
}

static void test_weights_check_head(void **state) {
    EngineOptions options;
    char path[PATH_MAX];
    Logits logits;
    uint64_t at;
    uint8_t byte;

    loaded_make_package(*state, 8, false, false, path);
    at = find(path, "tokenizer.ggml.pre") + 30; /* within the value: the tokenizer may complain first */
    byte = put_byte(path, at, NULL);
    for (int checking = WEIGHTS_CHECKING_NEW; checking <= WEIGHTS_CHECKING_ALL; checking++) {
        options = options_of(path, (WeightsChecking)checking);
        refuse(&options, "its head is not as it was written");
    }
    put_byte(path, at, &byte);
    options = options_of(path, WEIGHTS_CHECKING_ALL);
    assert_int_equal(run(&options, logits), length_of(path));
}

/* A package of an importer that made no checksums. */
static void test_weights_check_without_checksums(void **state) {
    EngineOptions options;
    char path[PATH_MAX];
    Logits logits;

    loaded_make_package(*state, 8, false, false, path);
    put_byte(path, find(path, PACKAGE_KEY_CHECKSUMS) + strlen(PACKAGE_KEY_CHECKSUMS) - 1, NULL);
    options = options_of(path, WEIGHTS_CHECKING_NEW);
    assert_int_equal(run(&options, logits), 0);
    options.load.weights.checking = WEIGHTS_CHECKING_ALL;
    refuse(&options, "has no checksums");
}

/* Steps run as far as the layers are whole: a damaged later layer is found before it is computed with. */
static void test_weights_check_arriving(void **state) {
    static const _Atomic bool wanted = true;
    Logits logits;
    uint32_t token = 3;
    EngineOptions options;
    EngineSpan span;
    EngineStep *step;
    char path[PATH_MAX], told[64];
    Loaded loaded;
    ErrText err = { 0 }, again = { 0 };
    int r;

    loaded_make_package(*state, 8, false, false, path);
    for (uint32_t layer = 0; layer < 20; layer += 7) {
        _cleanup_(package_freep) Package *package = NULL;
        char name[GGUF_TENSOR_NAME_MAX];
        const GgufTensor *tensor;
        uint8_t byte;

        assert_int_equal(package_open(&package, path, &err), 0);
        tensor = gguf_tensor(package_file(package), tensor_name(ROLE_FFN_DOWN, (int)layer, name, sizeof(name)));
        assert_non_null(tensor);
        byte = put_byte(path, tensor->offset_bytes, NULL);
        options = options_of(path, WEIGHTS_CHECKING_ALL);
        options.arriving = true;
        assert_int_equal(begin(&loaded, &options, &err), 0);
        assert_int_equal(sequence_new(&loaded.sequence, loaded.engine, LOADED_N_TOKENS, &err), 0);
        span = (EngineSpan){
            .sequence = loaded.sequence, .tokens = &token, .n = 1, .head = { .n_rows = 1, .logits = logits }
        };
        assert_int_equal(engine_step_begin(&step, loaded.engine, &span, 1, &err), 0);
        while ((r = engine_step_run(step, &(EngineYield){ .wanted = &wanted }, &err)) == ENGINE_E_YIELDED)
            assert_true(step->layer < layer || (step->layer == layer && !step->node));
        assert_int_equal(r, ENGINE_E_READ);
        snprintf(told, sizeof(told), ": layer %u is not as it was written", layer);
        assert_non_null(strstr(err.text, told));
        assert_int_equal(sequence_n_tokens(loaded.sequence), 0);
        assert_int_equal(engine_arrive(loaded.engine, &again), ENGINE_E_MODEL);
        assert_string_equal(again.text, err.text);
        loaded_deinit(&loaded);
        put_byte(path, tensor->offset_bytes, &byte);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_weights_check_bits),     WITH_FOLDER(test_weights_check_once),
        WITH_FOLDER(test_weights_check_image),    WITH_FOLDER(test_weights_check_every_tensor),
        WITH_FOLDER(test_weights_check_head),     WITH_FOLDER(test_weights_check_without_checksums),
        WITH_FOLDER(test_weights_check_arriving),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
