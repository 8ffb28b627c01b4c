// SPDX-License-Identifier: Apache-2.0
/* Every architecture beside another implementation, on a tiny model (test/golden/README.md): the reference device's
 * logits, the error of int8, and the same bits of the cpu device everywhere. */
#undef NDEBUG
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/system/cpu.h"
#include "engine/engine.h"
#include "importer/calibration_text.h"
#include "test/unit/fixtures/golden_hash.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/golden/golden_arch.h"
#include "test/unit/importer/import_fixture.h"

#define REFERENCE_TOLERANCE 2e-4
#define PERPLEXITY_RATIO_MAX 1.025

typedef struct Run {
    EngineDevice device;
    Isa isa;
    unsigned int threads;
    uint32_t chunk_tokens;
    const char *image_path;   /* layers are read from this image; NULL: they stay in memory */
    uint32_t first, n_tokens; /* tokens of the text; 0: all */
} Run;

/* Computes logits of all positions of the text. */
static void run_model(const char *path, const Run *run, float *logits) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    _cleanup_(engine_freep) Engine *engine = NULL;
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    const uint32_t n_tokens = run->n_tokens ? run->n_tokens : GOLDEN_ARCH_TOKENS;
    AccountTable accounts;
    ErrText err = { 0 };

    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, run->threads), 0);
    if (engine_new(&engine,
                   &(EngineOptions){ .path = path,
                                     .load.device = run->device,
                                     .load.isa = run->isa,
                                     .load.chunk_tokens = run->chunk_tokens,
                                     .image_path = run->image_path,
                                     .load.weights.memory = { .is_set = run->image_path, .is_percent = true },
                                     .pool = pool,
                                     .accounts = &accounts },
                   &err))
        fail_msg("%s", err.text);
    assert_int_equal(engine_info(engine)->n_vocab, GOLDEN_ARCH_VOCAB);
    assert_int_equal(sequence_new(&sequence, engine, GOLDEN_ARCH_TOKENS, &err), 0);
    for (uint32_t first = 0, n; first < n_tokens; first += n) {
        uint32_t tokens[GOLDEN_ARCH_TOKENS];

        n = MIN(n_tokens - first, run->chunk_tokens);
        for (uint32_t i = 0; i < n; i++)
            tokens[i] = golden_arch_token(run->first + first + i);
        assert_int_equal(engine_forward(engine, sequence, tokens, n, n, logits + first * GOLDEN_ARCH_VOCAB, NULL), 0);
    }
}

/* Computes the greatest and the root mean square difference, beside the root mean square of the golden values. */
static void compare(const GoldenArch *model, const float *logits, double *greatestp, double *rmsp) {
    double squares = 0, differences = 0, greatest = 0;

    for (size_t row = 0; row < GOLDEN_ARCH_ROWS; row++)
        for (size_t i = 0; i < GOLDEN_ARCH_VOCAB; i++) {
            const double golden = (double)model->logits[row * GOLDEN_ARCH_VOCAB + i],
                         difference = (double)logits[golden_arch_position(row) * GOLDEN_ARCH_VOCAB + i] - golden;

            squares += golden * golden;
            differences += difference * difference;
            greatest = MAX(fabs(difference), greatest);
        }
    *rmsp = sqrt(differences / squares);
    *greatestp = greatest / sqrt(squares / (GOLDEN_ARCH_ROWS * GOLDEN_ARCH_VOCAB));
}

static void test_golden_arch_reference(void **state) {
    ImportFixture *fixture = *state;

    for (size_t i = 0; i < golden_arch_n(); i++) {
        const GoldenArch *model = golden_arch_at(i);

        import_fixture_source(fixture, &model->maker);
        for (uint32_t chunk_tokens = 1; chunk_tokens <= GOLDEN_ARCH_TOKENS; chunk_tokens += 13) {
            static float logits[GOLDEN_ARCH_TOKENS * GOLDEN_ARCH_VOCAB];
            double greatest, rms;

            run_model(fixture->source, &(Run){ ENGINE_DEVICE_REFERENCE, ISA_BEST, 2, chunk_tokens, NULL, 0, 0 },
                      logits);
            compare(model, logits, &greatest, &rms);
            if (getenv("COORDGEN_SHOW") && chunk_tokens == 1)
                print_message("%s: reference %.3g of the root mean square at most\n", model->name, greatest);
            if (!(greatest <= REFERENCE_TOLERANCE))
                fail_msg("%s, chunks of %" PRIu32 ": logits differ by %g of their root mean square", model->name,
                         chunk_tokens, greatest);
        }
    }
}

/* llama.cpp ignores the windows of Mistral and Phi-3. In a model of one layer a window is all that remains of a text.
 * Rotary positions are relative, so the window alone, from position 0, gives the same logits. */
static void test_golden_arch_windows(void **state) {
    enum {
        WINDOW = 9
    };
    static const char *const names[] = { "mistral", "phi3_short" };
    static const ModelMakerKey window = { "attention.sliding_window", GGUF_U32, WINDOW, NULL };
    static float logits[GOLDEN_ARCH_TOKENS * GOLDEN_ARCH_VOCAB], alone[GOLDEN_ARCH_TOKENS * GOLDEN_ARCH_VOCAB];
    ImportFixture *fixture = *state;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        ModelMaker maker = golden_arch_find(names[i])->maker;
        double differences[2] = { 0 }, squares = 0;

        maker.n_layers = 1;
        maker.keys = &window; /* no stretched context, whose magnitude is not relative */
        maker.n_keys = 1;
        import_fixture_source(fixture, &maker);
        run_model(fixture->source, &(Run){ ENGINE_DEVICE_REFERENCE, ISA_BEST, 2, 16, NULL, 0, 0 }, logits);
        for (size_t longer = 0; longer < 2; longer++) {
            const Run run = { ENGINE_DEVICE_REFERENCE, ISA_BEST, 2, 16, NULL, GOLDEN_ARCH_TOKENS - WINDOW - longer,
                              WINDOW + longer };
            const float *last = alone + (run.n_tokens - 1) * GOLDEN_ARCH_VOCAB,
                        *expected = logits + (GOLDEN_ARCH_TOKENS - 1) * GOLDEN_ARCH_VOCAB;

            if (longer) {
                maker.keys = NULL;
                maker.n_keys = 0;
                import_fixture_source(fixture, &maker); /* a longer window sees one position more */
            }
            run_model(fixture->source, &run, alone);
            for (size_t j = 0; j < GOLDEN_ARCH_VOCAB; j++) {
                differences[longer] += pow((double)last[j] - (double)expected[j], 2);
                squares += pow((double)expected[j], 2) / 2;
            }
        }
        if (!(differences[0] < 1e-9 * squares && differences[1] > 1e-5 * squares))
            fail_msg("%s: a text of the window differs by %g, one longer by one token by %g", names[i],
                     sqrt(differences[0] / squares), sqrt(differences[1] / squares));
    }
}

static void expect_bits(const GoldenArch *model, const char *kind, const char *package, uint64_t expected,
                        double error) {
    static float logits[GOLDEN_ARCH_TOKENS * GOLDEN_ARCH_VOCAB];
    const uint32_t step = expected == model->int8 ? 13 : 39; /* packed weights have the same operators around them */
    double greatest, rms;

    for (Isa isa = ISA_SCALAR; isa < _ISA_N; isa++)
        for (uint32_t chunk_tokens = 1; chunk_tokens <= GOLDEN_ARCH_TOKENS; chunk_tokens += step) {
            uint64_t hash;

            if (!patience_takes_isa(isa))
                continue;
            run_model(package, &(Run){ ENGINE_DEVICE_CPU, isa, 1 + chunk_tokens % 2, chunk_tokens, NULL, 0, 0 },
                      logits);
            hash = hash_of(HASH_START, logits, sizeof(logits));
            if (getenv("COORDGEN_SHOW") && isa == ISA_SCALAR && chunk_tokens == 1) {
                print_message("%s, %s: 0x%016" PRIx64 "\n", model->name, kind, hash);
                expected = hash;
            }
            if (hash != expected)
                fail_msg("%s, %s, %s, chunks of %" PRIu32 ": 0x%016" PRIx64 ", expected 0x%016" PRIx64, model->name,
                         kind, isa_name(isa), chunk_tokens, hash, expected);
        }
    compare(model, logits, &greatest, &rms);
    if (getenv("COORDGEN_SHOW"))
        print_message("%s, %s: error %.4f of the root mean square\n", model->name, kind, rms);
    if (!(rms <= error))
        fail_msg("%s, %s: the error is %g of the root mean square, above %g", model->name, kind, rms, error);
}

/* Layers come from the disk for every step. */
static void expect_streamed(const GoldenArch *model, const char *folder, const char *package) {
    static float logits[GOLDEN_ARCH_TOKENS * GOLDEN_ARCH_VOCAB], expected[GOLDEN_ARCH_TOKENS * GOLDEN_ARCH_VOCAB];
    char image_path[300];

    snprintf(image_path, sizeof(image_path), "%s/image", folder);
    run_model(package, &(Run){ ENGINE_DEVICE_CPU, ISA_BEST, 2, 16, image_path, 0, 0 }, logits);
    assert_int_equal(remove(image_path), 0);
    run_model(package, &(Run){ ENGINE_DEVICE_CPU, ISA_BEST, 2, 16, NULL, 0, 0 }, expected);
    if (memcmp(logits, expected, sizeof(logits)) != 0)
        fail_msg("%s: other logits with streamed layers", model->name);
}

/* A single wrong integer changes the hashes; the error says whether these are the right numbers. */
static void test_golden_arch_int8(void **state) {
    ImportFixture *fixture = *state;

    for (size_t i = 0; i < golden_arch_n(); i++) {
        const GoldenArch *model = golden_arch_at(i);

        expect_bits(model, "8 bits", import_fixture_package(fixture, &model->maker, 8, false), model->int8,
                    model->int8_error);
        if (model->maker.n_layers > WEIGHTS_RING_SLOTS)
            expect_streamed(model, fixture->folder, import_fixture_package(fixture, &model->maker, 8, false));
        expect_bits(model, "4.5 bits", import_fixture_package(fixture, &model->maker, 4.5, false), model->packed, 0.25);
        expect_bits(model, "8 bits, static activations", import_fixture_package(fixture, &model->maker, 8, true),
                    model->with_static, INFINITY);
    }
}

/* Computes p[n] of logits[n]. */
static void softmax(const float *logits, size_t n, double *p) {
    double greatest = (double)logits[0], sum = 0;

    for (size_t i = 1; i < n; i++)
        greatest = MAX((double)logits[i], greatest);
    for (size_t i = 0; i < n; i++)
        sum += p[i] = exp((double)logits[i] - greatest);
    for (size_t i = 0; i < n; i++)
        p[i] /= sum;
}

/* Returns the perplexity of `logits` on tokens drawn as `writer` expects them, the mean over all that could be drawn. A
 * model of random weights can expect no other text than its own. */
static double perplexity_of(const float *logits, const float *writer) {
    double nll = 0;

    for (size_t row = 0; row < GOLDEN_ARCH_TOKENS; row++) {
        double drawn[GOLDEN_ARCH_VOCAB], expected[GOLDEN_ARCH_VOCAB];

        softmax(writer + row * GOLDEN_ARCH_VOCAB, GOLDEN_ARCH_VOCAB, drawn);
        softmax(logits + row * GOLDEN_ARCH_VOCAB, GOLDEN_ARCH_VOCAB, expected);
        for (size_t i = 0; i < GOLDEN_ARCH_VOCAB; i++)
            nll -= drawn[i] > 0 ? drawn[i] * log(expected[i]) : 0;
    }
    return exp(nll / GOLDEN_ARCH_TOKENS);
}

/* The perplexity of 8 bits; test/golden/README.md has the numbers. */
static void test_golden_arch_perplexity(void **state) {
    static float writer[GOLDEN_ARCH_TOKENS * GOLDEN_ARCH_VOCAB], logits[GOLDEN_ARCH_TOKENS * GOLDEN_ARCH_VOCAB];
    ImportFixture *fixture = *state;

    for (size_t i = 0; i < golden_arch_n(); i++) {
        const GoldenArch *model = golden_arch_at(i);
        const char *package = import_fixture_package(fixture, &model->maker, 8, false);
        double reference, ratio;

        run_model(fixture->source, &(Run){ ENGINE_DEVICE_REFERENCE, ISA_BEST, 2, 16, NULL, 0, 0 }, writer);
        run_model(package, &(Run){ ENGINE_DEVICE_CPU, ISA_BEST, 2, 16, NULL, 0, 0 }, logits);
        reference = perplexity_of(writer, writer);
        ratio = perplexity_of(logits, writer) / reference;
        if (getenv("COORDGEN_SHOW"))
            print_message("%s: perplexity %.3f, at 8 bits times %.4f\n", model->name, reference, ratio);
        if (!(ratio >= 1 && ratio <= PERPLEXITY_RATIO_MAX))
            fail_msg("%s: the perplexity %g becomes %.4f times that at 8 bits", model->name, reference, ratio);
    }
}

/* Every recipe that uses the model's inputs, of the architectures that differ in what factors are folded into, in what
 * shares an input and in how gradients go back. Widths are 8 bits, so that rounding hides no error of a recipe. */
static void test_golden_arch_recipes(void **state) {
    static const char *const names[] = { "qwen3", "phi3_long", "gemma2", "smollm3", "phi2" };
    static const struct {
        const char *recipe;
        QuantAllocation allocation;
        double bits, error;
        bool is_static;
    } recipes[] = {
        { "edgeflow", QUANT_ALLOCATION_UNIFORM, 8, 0.045, false },
        { "compensated", QUANT_ALLOCATION_MODEL, 6, 0.12, false },
        { "edgeflow", QUANT_ALLOCATION_TENSOR, 6, 0.12, true },
    };
    static float logits[GOLDEN_ARCH_TOKENS * GOLDEN_ARCH_VOCAB];
    ImportFixture *fixture = *state;
    QuantRecipe *recipe = &fixture->options.recipe;
    char text[300];
    size_t len_bytes;

    test_write_file(fixture->folder, "text.txt", calibration_text(&len_bytes), 2500);
    snprintf(text, sizeof(text), "%s/text.txt", fixture->folder);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        for (size_t r = 0; r < ARRAY_LEN(recipes); r++) {
            const GoldenArch *model = golden_arch_find(names[i]);
            double greatest, rms;

            if (patience_is_short() && i % ARRAY_LEN(recipes) != r)
                continue;
            import_fixture_source(fixture, &model->maker);
            assert_int_equal(quant_recipe_named(recipe, recipes[r].recipe), 0);
            quant_recipe_set_bits(recipe, recipes[r].bits);
            recipe->allocation = recipes[r].allocation;
            recipe->static_activations = recipes[r].is_static;
            recipe->hot_percent = recipe->prune_percent = 20;
            fixture->options.method = &import_method_calibrated;
            fixture->options.calibration_path = text;
            import_fixture_import_at(fixture, ISA_BEST);
            run_model(fixture->out, &(Run){ ENGINE_DEVICE_CPU, ISA_BEST, 2, 16, NULL, 0, 0 }, logits);
            assert_int_equal(remove(fixture->out), 0);
            compare(model, logits, &greatest, &rms);
            if (getenv("COORDGEN_SHOW"))
                print_message("%s, %s %g: error %.4f of the root mean square\n", names[i], recipes[r].recipe,
                              recipes[r].bits, rms);
            if (!(rms <= recipes[r].error))
                fail_msg("%s, %s: the error is %g of the root mean square", names[i], recipes[r].recipe, rms);
        }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_golden_arch_reference), WITH_FOLDER(test_golden_arch_windows),
        WITH_FOLDER(test_golden_arch_int8),      WITH_FOLDER(test_golden_arch_perplexity),
        WITH_FOLDER(test_golden_arch_recipes),
    };

    if (argc == 3 && !strcmp(argv[1], "--write")) {
        golden_arch_write(argv[2]);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
