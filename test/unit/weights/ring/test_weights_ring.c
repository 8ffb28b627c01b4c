// SPDX-License-Identifier: Apache-2.0
/* Layers that are not in memory. The bits are those of an engine that has all layers, whatever their share in memory,
 * whoever makes the image, wherever a step stops and whatever runs meanwhile. Memory stays within the limit. A bad file
 * is an error with its name, and the next load succeeds. */
#undef NDEBUG
#include <limits.h>
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

#include "engine/core/engine_state.h"
#include "test/unit/fixtures/loaded_engine.h"
#include "test/unit/fixtures/patience.h"
#include "weights/weights_report.h"

typedef float Logits[LOADED_N_TOKENS * LOADED_N_VOCAB];

typedef struct PackageCase {
    double bits;
    bool static_activations, tied;
} PackageCase;

static const PackageCase packages[] = { { 8, false, false }, { 4.5, false, true }, { 8, true, false } };

static WeightsMemory of_layers(uint32_t percent) {
    return (WeightsMemory){ .is_set = true, .is_percent = true, .percent = percent };
}

/* A package, the place of its image, and the logits of an engine that has all weights in memory. */
typedef struct Case {
    char package[PATH_MAX], image[PATH_MAX];
    Logits expected;
    uint64_t weights_bytes, tokenizer_bytes;
} Case;

static void make_case(ImportFixture *fixture, const PackageCase *package, Case *it) {
    Loaded loaded = { 0 };
    ErrText err = { 0 };

    loaded_make_package(fixture, package->bits, package->static_activations, package->tied, it->package);
    assert_int_equal(weights_image_path(it->image, sizeof(it->image), fixture->cache, it->package), 0);
    (void)unlink(it->image);
    loaded_init(&loaded, it->package, 0);
    assert_int_equal(loaded_forward(&loaded, it->expected, &err), 0);
    assert_int_equal(engine_info(loaded.engine)->weights.n_streamed_layers, 0);
    it->weights_bytes = engine_info(loaded.engine)->weights.resident_bytes;
    it->tokenizer_bytes = tokenizer_memory_bytes(engine_tokenizer(loaded.engine));
    loaded_deinit(&loaded);
}

static Loaded streamed(const Case *it, uint32_t percent) {
    return (Loaded){ .image_path = it->image, .weights_memory = of_layers(percent) };
}

static void computes_the_same(Loaded *loaded, const Case *it) {
    ErrText err = { 0 };
    Logits logits = { 0 };

    if (loaded_forward(loaded, logits, &err))
        fail_msg("%s", err.text);
    assert_memory_equal(logits, it->expected, sizeof(logits));
}

/* --- bits --------------------------------------------------------------------------------------------------------- */

static void test_ring_bits(void **state) {
    static const uint32_t percents[] = { 0, 33, 75, 100 };
    static const Isa isas[] = { ISA_BEST, ISA_SCALAR };

    for (size_t i = 0; i < ARRAY_LEN(packages); i++) {
        Case it;

        make_case(*state, &packages[i], &it);
        for (size_t j = 0; j < ARRAY_LEN(percents); j++)
            for (int again = 0; again < (patience_is_short() ? 2 : 4); again++) { /* the first load makes the image */
                Loaded loaded = streamed(&it, percents[j]);
                const EngineInfo *info;

                if (!again)
                    (void)unlink(it.image);
                loaded.isa = isas[again / 2];
                loaded_init(&loaded, it.package, again % 2 ? LOADED_ARRIVING : 0);
                computes_the_same(&loaded, &it);
                sequence_rewind(loaded.sequence, 0);
                computes_the_same(&loaded, &it); /* another sweep */
                info = engine_info(loaded.engine);
                assert_int_equal(info->weights.n_streamed_layers, percents[j] == 100  ? 0
                                                                  : percents[j] == 75 ? 5
                                                                  : percents[j] == 33 ? 14
                                                                                      : 20);
                if (info->weights.n_streamed_layers) {
                    assert_true(weights_flash_counts(engine_weights(loaded.engine)).read_bytes >=
                                2 * info->weights.sweep_bytes);
                    assert_int_equal(access(it.image, F_OK), 0);
                }
                loaded_deinit(&loaded);
            }
    }
}

/* The load that makes the image is given up at each of its stages: nothing is left behind, and the next load is whole.
 * */
static void test_ring_given_up(void **state) {
    Case it;

    make_case(*state, &packages[1], &it);
    for (size_t n = 0; n < 400; n += patience_is_short() ? 111 : 37) {
        Loaded loaded = streamed(&it, 0);
        ErrText err = { 0 };

        (void)unlink(it.image);
        loaded_init(&loaded, it.package, LOADED_ARRIVING);
        for (size_t i = 0; i < n && engine_is_arriving(loaded.engine); i++)
            assert_int_equal(engine_arrive(loaded.engine, &err), 0);
        loaded_deinit(&loaded);
        loaded = streamed(&it, 0);
        loaded_init(&loaded, it.package, LOADED_ARRIVING);
        computes_the_same(&loaded, &it);
        loaded_deinit(&loaded);
    }
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* A step stops before every operator, and where it waits; at every third stop another sequence has a whole step, which
 * sweeps over all layers. */
static void test_ring_making_way(void **state) {
    static const _Atomic bool wanted = true;
    uint32_t tokens[LOADED_CHUNK];
    Case it;

    for (uint32_t i = 0; i < LOADED_CHUNK; i++)
        tokens[i] = i * 7 % LOADED_N_VOCAB;
    make_case(*state, &packages[0], &it);
    for (uint32_t percent = 0; percent <= 50; percent += 50) {
        static float logits[LOADED_CHUNK * LOADED_N_VOCAB], others[LOADED_CHUNK * LOADED_N_VOCAB];
        Loaded loaded = streamed(&it, percent);
        Sequence *other;
        EngineStep *step;
        ErrText err = { 0 };
        size_t n = 0, n_waits = 0;
        int r;

        loaded_init(&loaded, it.package, LOADED_ARRIVING);
        assert_int_equal(sequence_new(&other, loaded.engine, LOADED_N_TOKENS, &err), 0);
        EngineSpan span = { .sequence = loaded.sequence,
                            .tokens = tokens,
                            .n = LOADED_CHUNK,
                            .head = { .n_rows = LOADED_CHUNK, .logits = logits } };
        assert_int_equal(engine_step_begin(&step, loaded.engine, &span, 1, &err), 0);
        for (;;) {
            r = engine_step_run(step, &(EngineYield){ .wanted = &wanted, .no_waiting = true }, &err);
            if (r != ENGINE_E_YIELDED && r != ENGINE_E_WAITING)
                break;
            n_waits += r == ENGINE_E_WAITING;
            if (r == ENGINE_E_WAITING || n++ % 3)
                continue;
            sequence_rewind(other, 0);
            assert_int_equal(engine_forward(loaded.engine, other, tokens, LOADED_CHUNK, LOADED_CHUNK, others, &err), 0);
            assert_memory_equal(others, it.expected, sizeof(others));
        }
        if (r)
            fail_msg("%d: %s", r, err.text);
        assert_memory_equal(logits, it.expected, sizeof(logits));
        assert_true(n_waits > 0);
        sequence_free(other);
        loaded_deinit(&loaded);
    }
}

/* A cancel that comes while a layer is on its way ends the step before the layer is there. */
static void test_ring_cancel(void **state) {
    static _Atomic bool cancelled;
    const uint32_t tokens[] = { 1, 2, 3 };
    Case it;
    Loaded loaded;
    EngineStep *step;
    ErrText err = { 0 };
    EngineSpan span;
    int r;

    make_case(*state, &packages[0], &it);
    loaded = streamed(&it, 0);
    loaded_init(&loaded, it.package, 0); /* makes the image */
    loaded_deinit(&loaded);
    loaded = streamed(&it, 0);
    loaded.flash_limit = (ReadLimit){ .latency_us = 3600u * 1000000u }; /* no layer ever comes */
    loaded_init(&loaded, it.package, 0);
    atomic_store(&cancelled, false);
    sequence_set_cancel(loaded.sequence, &cancelled);
    span = (EngineSpan){ .sequence = loaded.sequence, .tokens = tokens, .n = 3 };
    assert_int_equal(engine_step_begin(&step, loaded.engine, &span, 1, &err), 0);
    assert_int_equal(engine_step_run(step, &(EngineYield){ .no_waiting = true }, &err), ENGINE_E_WAITING);
    atomic_store(&cancelled, true);
    r = engine_step_run(step, NULL, &err);
    assert_int_equal(r, ENGINE_E_CANCELLED);
    assert_int_equal(sequence_n_tokens(loaded.sequence), 0);
    loaded_deinit(&loaded);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* The peak of a load and two sweeps on the account is what the engine tells, while the image is made and when it is
 * there. The peak is within the share given, plus the ring and the weights outside the layers. */
static void test_ring_memory(void **state) {
    static const uint32_t percents[] = { 0, 25, 50 };
    Case it;

    make_case(*state, &packages[0], &it);
    for (size_t i = 0; i < ARRAY_LEN(percents); i++)
        for (int again = 0; again < 2; again++) {
            Loaded loaded = streamed(&it, percents[i]);
            const EngineInfo *info;
            uint64_t layers_bytes;

            if (!again)
                (void)unlink(it.image);
            loaded_init(&loaded, it.package, 0);
            computes_the_same(&loaded, &it);
            info = engine_info(loaded.engine);
            assert_int_equal(atomic_load(&loaded.accounts.peak_bytes[ACCOUNT_WEIGHTS]),
                             info->weights.resident_bytes + it.tokenizer_bytes);
            layers_bytes = info->weights.sweep_bytes * 20 / info->weights.n_streamed_layers;
            assert_true(info->weights.resident_bytes <= it.weights_bytes - layers_bytes +
                                                            layers_bytes * percents[i] / 100 +
                                                            info->weights.ring_bytes + 64 * 20 * 7);
            loaded_deinit(&loaded);
        }
}

static void test_ring_size(void **state) {
    Case it;
    Loaded loaded;
    EngineOptions options;
    ErrText err = { 0 };
    uint64_t least_bytes;
    const char *number;

    make_case(*state, &packages[0], &it);
    /* A limit that is too small says how much is enough: that is enough, and a byte less is not. */
    loaded = streamed(&it, 0);
    loaded.weights_memory = (WeightsMemory){ .is_set = true, .bytes = 1 };
    account_table_init(&loaded.accounts);
    assert_int_equal(worker_pool_new(&loaded.pool, 2), 0);
    options = loaded_options(&loaded, it.package, 0);
    assert_int_equal(engine_new(&loaded.engine, &options, &err), ENGINE_E_MEMORY);
    assert_non_null(strstr(err.text, it.package));
    number = strrchr(err.text, ' ');
    least_bytes = strtoull(number, NULL, 10);
    options.load.weights.memory.bytes = least_bytes - 1;
    assert_int_equal(engine_new(&loaded.engine, &options, &err), ENGINE_E_MEMORY);
    worker_pool_free(loaded.pool);
    loaded_accounts_are_empty(&loaded.accounts);
    for (uint64_t bytes = least_bytes; bytes < it.weights_bytes + 20000; bytes += it.weights_bytes / 5) {
        loaded = streamed(&it, 0);
        loaded.weights_memory = (WeightsMemory){ .is_set = true, .bytes = bytes };
        loaded_init(&loaded, it.package, 0);
        computes_the_same(&loaded, &it);
        assert_true(engine_info(loaded.engine)->weights.resident_bytes <= bytes);
        if (bytes == least_bytes)
            assert_int_equal(engine_info(loaded.engine)->weights.n_streamed_layers, 20);
        loaded_deinit(&loaded);
    }
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static void fails_to_load(const Case *it, const char *image, int code, const char *text) {
    Loaded loaded = streamed(it, 0);
    EngineOptions options;
    ErrText err = { 0 };

    loaded.image_path = image;
    account_table_init(&loaded.accounts);
    assert_int_equal(worker_pool_new(&loaded.pool, 2), 0);
    options = loaded_options(&loaded, it->package, 0);
    assert_int_equal(engine_new(&loaded.engine, &options, &err), code);
    if (!strstr(err.text, text))
        fail_msg("'%s' in '%s'", text, err.text);
    worker_pool_free(loaded.pool);
    loaded_accounts_are_empty(&loaded.accounts);
}

/* If the image cannot be made the load fails and says why; nothing of the image stays. */
static void test_ring_no_image(void **state) {
    const struct rlimit small = { .rlim_cur = 100 << 10, .rlim_max = RLIM_INFINITY };
    struct rlimit before;
    char elsewhere[PATH_MAX + 32];
    Case it;

    make_case(*state, &packages[0], &it);
    fails_to_load(&it, NULL, ENGINE_E_MODEL, "cache folder");
    snprintf(elsewhere, sizeof(elsewhere), "%s/under/a/file", it.package);
    fails_to_load(&it, elsewhere, -ENOTDIR, it.package);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fails_to_load(&it, it.image, -EFBIG, it.image);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(access(it.image, F_OK), -1);
}

/* The image is cut short while it is in use: this step and all later ones fail with its name, and the next load makes
 * another image. */
static void test_ring_image_cut(void **state) {
    Case it;
    Loaded loaded;
    ErrText err = { 0 };
    Logits logits;
    struct stat st;

    make_case(*state, &packages[0], &it);
    loaded = streamed(&it, 0);
    loaded_init(&loaded, it.package, 0);
    computes_the_same(&loaded, &it);
    assert_int_equal(stat(it.image, &st), 0);
    assert_int_equal(truncate(it.image, st.st_size / 2), 0);
    sequence_rewind(loaded.sequence, 0);
    assert_int_equal(loaded_forward(&loaded, logits, &err), ENGINE_E_READ);
    assert_non_null(strstr(err.text, it.image));
    assert_int_equal(engine_check_whole(loaded.engine, &err), ENGINE_E_READ);
    assert_int_equal(access(it.image, F_OK), -1);
    loaded_deinit(&loaded);
    loaded = streamed(&it, 0);
    loaded_init(&loaded, it.package, LOADED_ARRIVING);
    computes_the_same(&loaded, &it);
    loaded_deinit(&loaded);
}

/* An image with a damaged head, or of another package, is made anew. */
static void test_ring_image_of_no_use(void **state) {
    Case it;

    make_case(*state, &packages[0], &it);
    for (int i = 0; i < 3; i++) {
        Loaded loaded = streamed(&it, 25);

        loaded_init(&loaded, it.package, 0);
        computes_the_same(&loaded, &it);
        loaded_deinit(&loaded);
        if (i == 0) {
            assert_int_equal(truncate(it.image, 100), 0);
        } else {
            FILE *file = fopen(it.image, "r+b");

            assert_non_null(file);
            assert_int_equal(fseek(file, 24, SEEK_SET), 0);
            assert_int_equal(fputc(0x55, file), 0x55);
            fclose(file);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_ring_bits),     WITH_FOLDER(test_ring_given_up),  WITH_FOLDER(test_ring_making_way),
        WITH_FOLDER(test_ring_cancel),   WITH_FOLDER(test_ring_memory),    WITH_FOLDER(test_ring_size),
        WITH_FOLDER(test_ring_no_image), WITH_FOLDER(test_ring_image_cut), WITH_FOLDER(test_ring_image_of_no_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
