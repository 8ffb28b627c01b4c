// SPDX-License-Identifier: Apache-2.0
/* Files that are cut short by somebody else, at every moment of a load and beside steps: the load or the step fails and
 * names the file, what was computed before stays, and nothing that was computed from zeros is left anywhere. The
 * program is linked with --wrap: the file is cut at an allocation of the load. */
#undef NDEBUG
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory/map_guard.h"
#include "engine/core/engine_state.h"
#include "engine/generation.h"
#include "test/unit/fixtures/loaded_engine.h"
#include "weights/image/weights_image.h"

typedef float Logits[LOADED_N_TOKENS * LOADED_N_VOCAB];

/* --- the moment --------------------------------------------------------------------------------------------------- */

static const char *_Atomic victim; /* path of the file that is cut at an allocation after it was mapped */
static _Atomic off_t left_bytes;
static _Atomic long countdown; /* number of allocations left, counted from the map on */
static _Atomic bool is_mapped, is_cut;

void *__real_malloc(size_t len_bytes);
void *__real_calloc(size_t n, size_t len_bytes);
void *__real_mmap(void *data, size_t len_bytes, int protection, int flags, int fd, off_t offset_bytes);
void *__wrap_malloc(size_t len_bytes);
void *__wrap_calloc(size_t n, size_t len_bytes);
void *__wrap_mmap(void *data, size_t len_bytes, int protection, int flags, int fd, off_t offset_bytes);

static void count(void) {
    if (atomic_load(&is_mapped) && atomic_fetch_sub(&countdown, 1) == 0)
        atomic_store(&is_cut, !truncate(victim, left_bytes));
}

void *__wrap_malloc(size_t len_bytes) {
    count();
    return __real_malloc(len_bytes);
}

void *__wrap_calloc(size_t n, size_t len_bytes) {
    count();
    return __real_calloc(n, len_bytes);
}

static bool is_victim(int fd) {
    const char *path = victim;
    struct stat named, mapped;

    return path && fd >= 0 && !stat(path, &named) && !fstat(fd, &mapped) && named.st_ino == mapped.st_ino;
}

void *__wrap_mmap(void *data, size_t len_bytes, int protection, int flags, int fd, off_t offset_bytes) {
    void *mapped = __real_mmap(data, len_bytes, protection, flags, fd, offset_bytes);

    if (is_victim(fd))
        atomic_store(&is_mapped, true);
    count();
    return mapped;
}

static void cut_at(const char *path, long n_allocations, off_t left) {
    victim = path;
    left_bytes = left;
    atomic_store(&countdown, n_allocations);
    atomic_store(&is_cut, false);
    atomic_store(&is_mapped, false);
}

static void cut_no_more(void) {
    atomic_store(&is_mapped, false);
    victim = NULL;
}

/* cmocka takes the signal before each test. */
static void install(void) {
    signal(SIGBUS, SIG_DFL);
    map_guard_install();
}

static void copy_file(const char *from, const char *to) {
    _cleanup_(freep) char *data = NULL;
    size_t len_bytes;
    const char *slash = strrchr(to, '/');
    char folder[PATH_MAX];

    assert_int_equal(file_slurp(from, 64 << 20, &data, &len_bytes, NULL), 0);
    snprintf(folder, sizeof(folder), "%.*s", (int)(slash - to), to);
    test_write_file(folder, slash + 1, data, len_bytes);
}

static void assert_told(const ErrText *err, const char *path) {
    if (!strstr(err->text, path) || !strstr(err->text, "cut short"))
        fail_msg("'%s' does not say that %s was cut short", err->text, path);
}

/* --- loads -------------------------------------------------------------------------------------------------------- */

/* Loads a file that is cut at that moment, and computes if the load succeeds: the right bits, or an error that names
 * the file. Return: whether the moment came. */
static bool load_cut(Loaded *loaded, const EngineOptions *from, const char *path, const char *cut, long n_allocations,
                     off_t left, const Logits expected) {
    EngineOptions options = *from;
    ErrText err = { 0 };
    Logits logits;
    int r;

    loaded->sequence = NULL;
    loaded->engine = NULL;
    account_table_init(&loaded->accounts);
    assert_int_equal(worker_pool_new(&loaded->pool, 2), 0);
    options.path = path;
    options.pool = loaded->pool;
    options.accounts = &loaded->accounts;
    cut_at(cut, n_allocations, left);
    r = engine_new(&loaded->engine, &options, &err);
    cut_no_more();
    if (r) {
        assert_int_equal(r, ENGINE_E_MODEL);
        assert_told(&err, cut);
        assert_null(loaded->engine);
    } else {
        assert_int_equal(sequence_new(&loaded->sequence, loaded->engine, LOADED_N_TOKENS, &err), 0);
        r = loaded_forward(loaded, logits, &err);
        if (r) {
            assert_int_equal(r, ENGINE_E_READ);
            assert_told(&err, cut);
        } else {
            assert_memory_equal(logits, expected, sizeof(logits));
        }
    }
    loaded_deinit(loaded);
    return atomic_load(&is_cut);
}

/* Cuts at allocations of the load from the first to the last, to nothing or within the metadata. */
static void load_at_every_moment(ImportFixture *fixture, const EngineOptions *options, const char *path,
                                 const Logits expected) {
    Loaded loaded = { 0 };
    char copy[PATH_MAX];
    long n = 0;

    snprintf(copy, sizeof(copy), "%s/copy%s", fixture->folder, strrchr(path, '.'));
    do
        copy_file(path, copy);
    while (load_cut(&loaded, options, copy, copy, n, n % 2 ? 4096 : 0, expected) && (n += 1 + n / 16, true));
    assert_true(n > 50);
}

static void expect(Loaded *loaded, const char *path, Logits logits) {
    ErrText err = { 0 };

    loaded_init(loaded, path, 0);
    assert_int_equal(loaded_forward(loaded, logits, &err), 0);
    loaded_deinit(loaded);
}

static void test_cut_file_package_in_load(void **state) {
    ImportFixture *fixture = *state;
    char path[PATH_MAX];
    Loaded loaded = { 0 };
    EngineOptions options;
    Logits expected;

    install();
    loaded_make_package(fixture, 4.5, false, false, path);
    expect(&loaded, path, expected);
    options = loaded_options(&loaded, path, 0);
    load_at_every_moment(fixture, &options, path, expected);
    options = loaded_options(&loaded, path, LOADED_ARRIVING);
    load_at_every_moment(fixture, &options, path, expected);
}

/* An engine of the reference device reads the file during steps. */
static void init_reference(Loaded *loaded, const char *path) {
    EngineOptions options;
    ErrText err = { 0 };

    *loaded = (Loaded){ 0 };
    account_table_init(&loaded->accounts);
    assert_int_equal(worker_pool_new(&loaded->pool, 2), 0);
    options = loaded_options(loaded, path, 0);
    options.load.device = ENGINE_DEVICE_REFERENCE;
    if (engine_new(&loaded->engine, &options, &err))
        fail_msg("%s", err.text);
    assert_int_equal(sequence_new(&loaded->sequence, loaded->engine, LOADED_N_TOKENS, &err), 0);
}

static void test_cut_file_source_in_load(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    Loaded loaded = { 0 };
    EngineOptions options;
    ErrText err = { 0 };
    Logits expected;

    install();
    import_fixture_source(fixture, &maker);
    init_reference(&loaded, fixture->source);
    assert_int_equal(loaded_forward(&loaded, expected, &err), 0);
    loaded_deinit(&loaded);
    options = loaded_options(&loaded, fixture->source, 0);
    options.load.device = ENGINE_DEVICE_REFERENCE;
    load_at_every_moment(fixture, &options, fixture->source, expected);
}

/* Imports a file that is cut at that moment. Return: import_run()'s; after success also the package's hash. */
static int import_cut(ImportFixture *fixture, const char *path, long n_allocations, char hash[SHA256_HEX_BYTES],
                      ErrText *err) {
    ImportReport report;
    int r;

    copy_file(fixture->source, path);
    unlink(fixture->out);
    cut_at(path, n_allocations, n_allocations % 2 ? 4096 : 0);
    r = import_run(path, fixture->out, &fixture->options, &report, err);
    cut_no_more();
    if (!r)
        import_fixture_hash(fixture->out, hash);
    return r;
}

static void test_cut_file_source_in_import(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    char path[PATH_MAX], expected[SHA256_HEX_BYTES], hash[SHA256_HEX_BYTES];
    ErrText err = { 0 };
    bool came = true;

    install();
    import_fixture_source(fixture, &maker);
    snprintf(path, sizeof(path), "%s/copy.gguf", fixture->folder);
    assert_int_equal(import_cut(fixture, path, LONG_MAX, expected, &err), 0);
    for (long n = 0; came; n += 1 + n / 8) {
        const int r = import_cut(fixture, path, n, hash, &err);

        came = atomic_load(&is_cut);
        if (!r) { /* all had been read */
            assert_string_equal(hash, expected);
            continue;
        }
        if (r != IMPORT_E_CHANGED)
            fail_msg("cut at allocation %ld: %d, %s", n, r, err.text);
        assert_non_null(strstr(err.text, path));
        assert_int_equal(access(fixture->out, F_OK), -1);
    }
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* The step that reads lost bytes fails, and so do all later ones; the sequence is as it was. */
static void forward_fails(Loaded *loaded, const char *cut) {
    const size_t n_tokens = sequence_n_tokens(loaded->sequence);
    uint32_t token = 1;
    float logits[LOADED_N_VOCAB];

    for (size_t i = 0; i < 2; i++) {
        ErrText err = { 0 };

        assert_int_equal(engine_forward(loaded->engine, loaded->sequence, &token, 1, 1, logits, &err), ENGINE_E_READ);
        assert_told(&err, cut);
        assert_int_equal(sequence_n_tokens(loaded->sequence), n_tokens);
    }
    assert_int_equal(engine_check_whole(loaded->engine, NULL), ENGINE_E_READ);
}

static void test_cut_file_source_in_use(void **state) {
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    uint32_t token = 3;
    float logits[LOADED_N_VOCAB];
    Loaded loaded;
    ErrText err = { 0 };

    install();
    import_fixture_source(fixture, &maker);
    init_reference(&loaded, fixture->source);
    assert_int_equal(engine_forward(loaded.engine, loaded.sequence, &token, 1, 1, logits, &err), 0);
    assert_int_equal(engine_check_whole(loaded.engine, &err), 0);
    assert_int_equal(truncate(fixture->source, 8192), 0);
    forward_fails(&loaded, fixture->source);
    loaded_deinit(&loaded);
}

/* Makes a package, and the image by a first load. */
static void make_image(ImportFixture *fixture, Loaded *loaded, char package[PATH_MAX], char image[PATH_MAX],
                       Logits expected) {
    ErrText err = { 0 };

    loaded_make_package(fixture, 8, false, false, package);
    assert_int_equal(weights_image_path(image, PATH_MAX, fixture->cache, package), 0);
    loaded->image_path = image;
    loaded_init(loaded, package, 0);
    assert_int_equal(loaded_forward(loaded, expected, &err), 0);
    assert_int_equal(weights_wait_image(engine_weights(loaded->engine), &err), 0);
    loaded_deinit(loaded);
}

static void test_cut_file_image_in_load(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX], kept[PATH_MAX + 8];
    Loaded loaded = { 0 };
    EngineOptions options;
    Logits expected;
    long n = 0;

    install();
    make_image(fixture, &loaded, package, image, expected);
    snprintf(kept, sizeof(kept), "%s.kept", image);
    copy_file(image, kept);
    for (int arriving = 0; arriving < 2; arriving++, n = 0) {
        options = loaded_options(&loaded, package, arriving ? LOADED_ARRIVING : 0);
        do {
            copy_file(kept, image);
            assert_int_equal(chmod(image, 0600), 0);
        } while (load_cut(&loaded, &options, package, image, n, 4096, expected) && (n += 1 + n / 16, true));
        assert_true(n > 50);
    }
}

static void test_cut_file_image_in_use(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    Loaded loaded = { 0 };
    Logits expected, logits;
    uint32_t token = 3;
    ErrText err = { 0 };

    install();
    make_image(fixture, &loaded, package, image, expected);
    loaded_init(&loaded, package, 0);
    assert_true(weights_are_mapped(loaded.engine->weights));
    assert_int_equal(engine_forward(loaded.engine, loaded.sequence, &token, 1, 1, logits, &err), 0);
    assert_int_equal(truncate(image, 4096), 0);
    forward_fails(&loaded, image);
    assert_int_equal(access(image, F_OK), -1);
    loaded_deinit(&loaded);
    /* The package has all weights. */
    loaded_init(&loaded, package, 0);
    assert_false(weights_are_mapped(loaded.engine->weights));
    assert_int_equal(loaded_forward(&loaded, logits, &err), 0);
    assert_memory_equal(logits, expected, sizeof(logits));
    loaded_deinit(&loaded);
}

/* A step meets the cut while later weights are still on their way: the load fails, too. */
static void test_cut_file_image_arriving(void **state) {
    static const _Atomic bool wanted = true;
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX];
    uint32_t tokens[] = { 1, 2, 3 };
    float logits[LOADED_N_VOCAB];
    Logits expected;
    Loaded loaded = { 0 };
    EngineStep *step;
    EngineSpan span;
    ErrText err = { 0 }, again = { 0 };

    install();
    make_image(fixture, &loaded, package, image, expected);
    loaded_init(&loaded, package, LOADED_ARRIVING);
    span = (EngineSpan){
        .sequence = loaded.sequence, .tokens = tokens, .n = ARRAY_LEN(tokens), .head = { .n_rows = 1, .logits = logits }
    };
    assert_int_equal(engine_step_begin(&step, loaded.engine, &span, 1, &err), 0);
    assert_int_equal(engine_step_run(step, &(EngineYield){ .wanted = &wanted }, &err), ENGINE_E_YIELDED);
    assert_int_equal(truncate(image, 4096), 0);
    assert_int_equal(engine_step_run(step, NULL, &err), ENGINE_E_READ);
    assert_told(&err, image);
    assert_int_equal(sequence_n_tokens(loaded.sequence), 0);
    assert_true(engine_is_arriving(loaded.engine));
    assert_int_equal(engine_arrive(loaded.engine, &again), ENGINE_E_MODEL);
    assert_told(&again, image);
    loaded_deinit(&loaded);
}

/* Another image has the image's name by then, and stays. */
static void test_cut_file_image_of_another(void **state) {
    ImportFixture *fixture = *state;
    char package[PATH_MAX], image[PATH_MAX], moved[PATH_MAX + 8];
    Loaded loaded = { 0 };
    Logits logits;

    install();
    make_image(fixture, &loaded, package, image, logits);
    loaded_init(&loaded, package, 0);
    snprintf(moved, sizeof(moved), "%s.moved", image);
    assert_int_equal(rename(image, moved), 0);
    copy_file(moved, image);
    assert_int_equal(truncate(moved, 4096), 0);
    forward_fails(&loaded, image);
    assert_int_equal(access(image, F_OK), 0);
    loaded_deinit(&loaded);
}

/* Nobody gets pages that a step has filled from zeros: the generation fails without a token, and only what was computed
 * before is found again. */
static void test_cut_file_nothing_kept(void **state) {
    enum {
        N_PROMPT = 400,
        N_BEFORE = 128
    }; /* pages of 64 */
    ImportFixture *fixture = *state;
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    GenerationOptions greedy = { .max_tokens = 4, .sampler = SAMPLER_OPTIONS_GREEDY, .user = 1000 };
    uint32_t prompt[N_PROMPT];
    Generation *generation;
    EngineOptions options;
    PrefixCache *cache;
    Loaded loaded = { 0 };
    ErrText err = { 0 };
    uint64_t kept_bytes;

    install();
    import_fixture_source(fixture, &maker);
    for (uint32_t i = 0; i < N_PROMPT; i++)
        prompt[i] = (i * 7 + 3) % LOADED_N_VOCAB;
    assert_int_equal(prefix_cache_new(&cache, UINT64_MAX), 0);
    account_table_init(&loaded.accounts);
    assert_int_equal(worker_pool_new(&loaded.pool, 2), 0);
    options = loaded_options(&loaded, fixture->source, 0);
    options.load.device = ENGINE_DEVICE_REFERENCE;
    options.prefix_cache = cache;
    options.load.chunk_tokens = N_BEFORE;
    if (engine_new(&loaded.engine, &options, &err))
        fail_msg("%s", err.text);
    assert_int_equal(generation_new(&generation, loaded.engine, prompt, N_BEFORE, &greedy, &err), 0);
    assert_int_equal(generation_step(generation, NULL, NULL, &err), 0);
    generation_free(generation);
    kept_bytes = prefix_cache_kept_bytes(cache);
    assert_true(kept_bytes > 0);

    assert_int_equal(generation_new(&generation, loaded.engine, prompt, N_PROMPT, &greedy, &err), 0);
    assert_int_equal(truncate(fixture->source, 8192), 0);
    assert_int_equal(generation_step(generation, NULL, NULL, &err), GENERATION_E_READ);
    assert_told(&err, fixture->source);
    assert_int_equal(generation_usage(generation)->n_output_tokens, 0);
    generation_free(generation);
    assert_int_equal(prefix_cache_kept_bytes(cache), kept_bytes);
    loaded_deinit(&loaded);
    assert_int_equal(prefix_cache_kept_bytes(cache), 0);
    prefix_cache_free(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_cut_file_package_in_load),  WITH_FOLDER(test_cut_file_source_in_load),
        WITH_FOLDER(test_cut_file_source_in_import), WITH_FOLDER(test_cut_file_image_in_load),
        WITH_FOLDER(test_cut_file_source_in_use),    WITH_FOLDER(test_cut_file_image_in_use),
        WITH_FOLDER(test_cut_file_image_of_another), WITH_FOLDER(test_cut_file_nothing_kept),
        WITH_FOLDER(test_cut_file_image_arriving),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
