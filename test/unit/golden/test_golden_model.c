// SPDX-License-Identifier: Apache-2.0
/* Recorded bits of whole models: small models of fixed weights are imported and run on every instruction set of the
 * machine, and the logits have these hashes on every machine. See test_golden_bits.c for the operators. */
#undef NDEBUG
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/files/file_io.h"
#include "base/min_max.h"
#include "base/system/cpu.h"
#include "engine/engine.h"
#include "importer/calibration_text.h"
#include "test/unit/fixtures/golden_hash.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/importer/import_fixture.h"

/* The whole vocabulary, each token once. */
enum {
    N_TOKENS = 40
};

typedef struct GoldenModel {
    const char *arch;
    double bits;
    uint64_t logits;
    bool is_static;
} GoldenModel;

/* Computes logits of the positions of a text, in steps of chunk_tokens. */
static uint64_t hash_of_logits(const char *package, Isa isa, unsigned int threads, uint32_t chunk_tokens) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    _cleanup_(engine_freep) Engine *engine = NULL;
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    float logits[N_TOKENS * N_TOKENS];
    AccountTable accounts;
    uint64_t hash = HASH_START;
    ErrText err = { 0 };

    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, threads), 0);
    if (engine_new(&engine,
                   &(EngineOptions){ .path = package,
                                     .load.device = ENGINE_DEVICE_CPU,
                                     .load.isa = isa,
                                     .load.chunk_tokens = chunk_tokens,
                                     .pool = pool,
                                     .accounts = &accounts },
                   &err))
        fail_msg("%s", err.text);
    assert_int_equal(engine_info(engine)->n_vocab, N_TOKENS);
    assert_int_equal(sequence_new(&sequence, engine, N_TOKENS, &err), 0);
    for (uint32_t first = 0; first < N_TOKENS; first += chunk_tokens) {
        uint32_t tokens[N_TOKENS], n = MIN(N_TOKENS - first, chunk_tokens);

        for (uint32_t i = 0; i < n; i++)
            tokens[i] = (first + i) * 7 % N_TOKENS;
        assert_int_equal(engine_forward(engine, sequence, tokens, n, n, logits, NULL), 0);
        hash = hash_of(hash, logits, (size_t)n * N_TOKENS * sizeof(*logits));
    }
    return hash;
}

static void test_golden_model_logits(void **state) {
    static const GoldenModel models[] = {
        { "llama", 8, 0x135de6054a9defd0, false },    { "llama", 4.5, 0x1429246278027abc, false },
        { "llama", 3, 0x6b3e3c079f10c056, false },    { "qwen2", 8, 0xdc848fc2093463a5, false },
        { "qwen2", 5.25, 0x152fe85336e4ca23, false }, { "gemma3", 8, 0xa952924fa68ae466, false },
        { "gemma3", 6.5, 0x2577246d48b181f3, false }, { "gemma3", 2, 0x1afb879b6a792d62, false },
        { "llama", 8, 0x06bc44bbe3e64e46, true },     { "gemma3", 4.5, 0xd78aace721691e4b, true },
    };
    ImportMethod method = import_method_plain;
    ImportFixture *fixture = *state;

    for (size_t m = 0; m < ARRAY_LEN(models); m++) {
        ModelMaker maker = MODEL_MAKER_DEFAULT;
        ImportReport report;
        ErrText err = { 0 };

        maker.arch = models[m].arch;
        maker.seed = 100 + m;
        import_fixture_source(fixture, &maker);
        quant_recipe_set_bits(&fixture->options.recipe, models[m].bits);
        fixture->options.recipe.search_scales = models[m].bits < 8;
        fixture->options.recipe.embedding_bits = m % 2 ? 6 : 8;
        /* Imports without calibration, whose rounding depends on the machine. */
        method.profile = import_fixture_profile;
        fixture->options.method = &method;
        fixture->options.recipe.static_activations = models[m].is_static;
        if (import_run(fixture->source, NULL, &fixture->options, &report, &err))
            fail_msg("%s", err.text);
        for (Isa isa = ISA_SCALAR; isa < _ISA_N; isa++)
            for (uint32_t chunk_tokens = 1; chunk_tokens <= 40; chunk_tokens += patience_is_short() ? 39 : 13) {
                uint64_t hash;

                if (!isa_present(isa))
                    continue;
                hash = hash_of_logits(report.path, isa, 1 + chunk_tokens % 2, chunk_tokens);
                if (hash != models[m].logits)
                    fail_msg("%s of %g bits, %s, chunks of %" PRIu32 ": 0x%016" PRIx64 ", expected 0x%016" PRIx64 "\n",
                             models[m].arch, models[m].bits, isa_name(isa), chunk_tokens, hash, models[m].logits);
            }
    }
}

typedef struct GoldenPackage {
    const char *arch, *recipe;
    double bits;
    bool is_static;
    uint64_t file;
} GoldenPackage;

static uint64_t hash_of_file(const char *path) {
    _cleanup_(mapped_file_deinit) MappedFile file = { 0 };

    assert_int_equal(mapped_file_open(&file, path, NULL), 0);
    return hash_of(HASH_START, file.data, file.len_bytes);
}

/* Hashes of packages: an importer that makes other bytes of the same settings must raise IMPORT_REVISION, and these
 * hashes change with it. Moments are left out, because BLAS sums them as suits the machine. */
static void test_golden_model_packages(void **state) {
    static const GoldenPackage packages[] = {
        { "llama", "int8", 8, false, 0xfb0c7801029ecd80 },    { "qwen2", "int8", 4.5, false, 0xd38720c0511ca49f },
        { "gemma3", "int8", 8, true, 0xd1577161f7aa7bc2 },    { "llama", "edgeflow", 5, false, 0x46a53cf784645634 },
        { "qwen2", "edgeflow", 4, true, 0xf441017b8a09bfc2 }, { "gemma3", "edgeflow", 6, false, 0x1397aa5050fb13a5 },
    };
    ImportFixture *fixture = *state;
    QuantRecipe *recipe = &fixture->options.recipe;
    char text[300];
    size_t len_bytes;

    test_write_file(fixture->folder, "text.txt", calibration_text(&len_bytes), 2500);
    snprintf(text, sizeof(text), "%s/text.txt", fixture->folder);
    for (size_t p = 0; p < ARRAY_LEN(packages); p++) {
        ModelMaker maker = MODEL_MAKER_DEFAULT;

        maker.arch = packages[p].arch;
        maker.seed = 200 + p;
        maker.n_vocab = 300; /* checks that the text has enough tokens */
        import_fixture_source(fixture, &maker);
        assert_int_equal(quant_recipe_named(recipe, packages[p].recipe), 0);
        quant_recipe_set_bits(recipe, packages[p].bits);
        recipe->static_activations = packages[p].is_static;
        recipe->hot_percent = recipe->prune_percent = 20;
        recipe->grid = p % 3 == 1 ? GRID_NORMAL : GRID_UNIFORM;
        fixture->options.method = quant_recipe_needs_calibration(recipe) ? &import_method_calibrated : NULL;
        fixture->options.calibration_path = fixture->options.method ? text : NULL;
        for (Isa isa = ISA_SCALAR; isa < _ISA_N; isa++) {
            uint64_t hash;

            if (!patience_takes_isa(isa))
                continue;
            import_fixture_import_at(fixture, isa);
            hash = hash_of_file(fixture->out);
            assert_int_equal(remove(fixture->out), 0);
            if (getenv("COORDGEN_SHOW")) {
                print_message("%s by %s at %g bits, %s: 0x%016" PRIx64 "\n", packages[p].arch, packages[p].recipe,
                              packages[p].bits, isa_name(isa), hash);
                continue;
            }
            if (hash != packages[p].file)
                fail_msg("%s by %s at %g bits, %s: 0x%016" PRIx64 ", expected 0x%016" PRIx64 "\n", packages[p].arch,
                         packages[p].recipe, packages[p].bits, isa_name(isa), hash, packages[p].file);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_golden_model_logits),
        WITH_FOLDER(test_golden_model_packages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
