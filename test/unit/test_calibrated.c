/* Imports that look at activations: the same bytes whatever the number of threads and wherever they were stopped, and a
 * package that says what it is. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "importer/calibration_text.h"
#include "model/package.h"
#include "test/unit/import_fixture.h"

static const char *const archs[] = { "llama", "qwen2", "gemma3" };

typedef struct Kind {
    const char *recipe;
    QuantAllocation allocation;
    double bits;
    bool is_static;
    double prune_percent;
} Kind;

static const Kind kinds[] = {
    { "compensated", QUANT_ALLOCATION_MODEL, 4.5, false, 0 },
    { "compensated", QUANT_ALLOCATION_UNIFORM, 4, false, 0 },
    { "compensated", QUANT_ALLOCATION_TENSOR, 3.5, false, 0 },
    { "edgeflow", QUANT_ALLOCATION_TENSOR, 5, false, 0 },
    { "int8", QUANT_ALLOCATION_UNIFORM, 8, true, 50 },
    { "edgeflow", QUANT_ALLOCATION_UNIFORM, 6, false, 0 },
    { "compensated", QUANT_ALLOCATION_MODEL, 4.5, true, 70 },
    { "edgeflow", QUANT_ALLOCATION_TENSOR, 5, true, 0 },
    { "compensated", QUANT_ALLOCATION_UNIFORM, 4, true, 100 },
};

/* Every method on every architecture; under a sanitizer, where that takes minutes, each on one unless COORDGEN_LONG is
 * set. */
static bool is_taken(size_t arch, size_t kind) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const char *is_long = getenv("COORDGEN_LONG");

    return (is_long && *is_long) || kind % ARRAY_LEN(archs) == arch;
#else
    return true;
#endif
}

static char text_path[400]; /* 3 windows of the project's text: enough to see what is tested here */

static void make_source(ImportFixture *fixture, const char *arch) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    size_t len_bytes = 0;

    maker.arch = arch;
    maker.n_layers = 3;
    maker.n_vocab = 300;
    maker.tied = !strcmp(arch, "gemma3");
    import_fixture_source(fixture, &maker);
    test_write_file(fixture->folder, "text.txt", calibration_text(&len_bytes), 2500);
    assert_true(len_bytes > 2500);
    snprintf(text_path, sizeof(text_path), "%s/text.txt", fixture->folder);
    fixture->options.calibration_path = text_path;
}

static void take(ImportFixture *fixture, const Kind *kind) {
    QuantRecipe *recipe = &fixture->options.recipe;

    assert_int_equal(quant_recipe_named(recipe, kind->recipe), 0);
    quant_recipe_set_bits(recipe, kind->bits);
    recipe->allocation = kind->allocation;
    recipe->static_activations = kind->is_static;
    recipe->hot_percent = 20;
    recipe->prune_percent = kind->prune_percent;
    fixture->options.method = &import_method_calibrated;
}

static void import(ImportFixture *fixture, char hex[SHA256_HEX_BYTES]) {
    ImportReport report;
    ErrText err = { "" };
    int r = import_run(fixture->source, fixture->out, &fixture->options, &report, &err);

    if (r)
        fail_msg("%s", err.text);
    import_fixture_hash(fixture->out, hex);
    assert_int_equal(remove(fixture->out), 0);
}

static void test_calibrated_bytes_do_not_depend_on_threads(void **state) {
    ImportFixture *fixture = *state;

    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        make_source(fixture, archs[a]);
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
            char one[SHA256_HEX_BYTES], other[SHA256_HEX_BYTES];

            if (!is_taken(a, i))
                continue;
            take(fixture, &kinds[i]);
            fixture->options.n_threads = 1;
            import(fixture, one);
            for (fixture->options.n_threads = 2; fixture->options.n_threads <= 3; fixture->options.n_threads++) {
                import(fixture, other);
                assert_string_equal(one, other);
            }
        }
    }
}

typedef struct Stop {
    size_t n_layers; /* that are done when it comes; 0: while it measures */
    _Atomic bool cancelled;
} Stop;

static void stop_there(void *arg, const ImportProgress *progress) {
    Stop *stop = arg;

    if (stop->n_layers ? progress->stage == IMPORT_STAGE_CONVERT && progress->done_layers >= stop->n_layers
                       : progress->stage == IMPORT_STAGE_MEASURE)
        atomic_store(&stop->cancelled, true);
}

static void test_calibrated_resumes_with_the_same_bytes(void **state) {
    ImportFixture *fixture = *state;

    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        size_t n_stopped = 0, n_taken = 0;

        make_source(fixture, archs[a]);
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
            char whole[SHA256_HEX_BYTES], resumed[SHA256_HEX_BYTES];

            if (!is_taken(a, i))
                continue;
            n_taken++;
            take(fixture, &kinds[i]);
            import(fixture, whole);
            for (size_t n = 0; n <= 2; n += 2) {
                Stop stop = { .n_layers = n };
                ImportReport report;
                ErrText err = { "" };
                int r;

                fixture->options.progress = stop_there;
                fixture->options.progress_arg = &stop;
                fixture->options.cancelled = &stop.cancelled;
                r = import_run(fixture->source, fixture->out, &fixture->options, &report, &err);
                fixture->options.progress = NULL;
                fixture->options.cancelled = NULL;
                if (!r) /* the flag came when all was done; uniform widths need no measuring */
                    continue;
                assert_int_equal(r, IMPORT_E_CANCELLED);
                n_stopped++;
                import(fixture, resumed);
                assert_string_equal(whole, resumed);
            }
        }
        assert_true(n_taken && n_stopped >= n_taken);
    }
}

/* 3 layers of 4 operators; in the first linear of each. Those that are pruned are the least important ones. */
static void check_operators(const Package *package, const ImportReport *report, const Kind *kind) {
    static const size_t firsts[] = { 1, 4, 5, 7 };
    size_t n_shadows = 0, n_hot = 0, n_inputs = 0;
    float least = INFINITY, most = 0;

    assert_int_equal(report->n_operators, kind->is_static ? 12 : 0);
    for (size_t i = 0; kind->is_static && i < 12; i++) {
        const PackageLinear *linear = package_linear_at(package, i / 4 * 7 + firsts[i % 4]);
        const PackageActivations *activations = &linear->activations;

        assert_true(activations->scale > 1e-6f && activations->scale < 10);
        assert_true(activations->n_hot <= linear->k / 5);
        n_hot += activations->n_hot;
        n_shadows += activations->shadow;
        n_inputs += activations->shadow ? linear->k : 0;
        if (activations->shadow)
            least = fminf(least, activations->importance);
        else
            most = fmaxf(most, activations->importance);
    }
    assert_true(least >= most);
    if (kind->is_static)
        assert_int_equal(n_shadows, 12 - (size_t)(kind->prune_percent / 100 * 12));
    assert_true((n_hot > 0) == (n_shadows > 0));
    assert_int_equal(report->n_shadows, n_shadows);
    assert_int_equal(report->n_hot, n_hot);
    assert_int_equal(report->n_shadow_inputs, n_inputs);
}

static void test_calibrated_package_says_what_it_is(void **state) {
    ImportFixture *fixture = *state;

    make_source(fixture, "llama");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        _cleanup_(package_freep) Package *package = NULL;
        ImportReport report;
        const PackageQuant *quant;
        ErrText err;
        double bits = 0, weights = 0;

        take(fixture, &kinds[i]);
        assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, &err), 0);
        assert_int_equal(package_open(&package, fixture->out, &err), 0);
        quant = package_quant(package);
        assert_string_equal(quant->recipe, kinds[i].recipe);
        assert_int_equal(strlen(quant->calibration_sha256), 64);
        for (size_t j = 0; j < package_n_linears(package); j++) {
            const PackageLinear *linear = package_linear_at(package, j);

            if (strncmp(linear->name, "blk.", 4))
                continue;
            weights += (double)linear->n * (double)linear->k;
            for (size_t c = 0; c < linear->n; c++)
                bits += (double)linear->bits[c] * (double)linear->k;
        }
        assert_true(bits <= kinds[i].bits * weights * 1.0001);
        assert_true(bits >= (kinds[i].bits - 0.5) * weights);
        assert_int_equal(quant->rotated, strcmp(kinds[i].recipe, "edgeflow") != 0);
        assert_int_equal(quant->static_activations, kinds[i].is_static);
        check_operators(package, &report, &kinds[i]);
        assert_int_equal(remove(fixture->out), 0);
    }
}

static void test_calibrated_refuses_a_text_that_is_too_short(void **state) {
    ImportFixture *fixture = *state;

    make_source(fixture, "llama");
    take(fixture, &kinds[1]);
    test_write_file(fixture->folder, "text.txt", "too short", 9);
    import_fixture_refusal(fixture, fixture->out, IMPORT_E_UNSUPPORTED, "text.txt");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_calibrated_bytes_do_not_depend_on_threads),
        WITH_FOLDER(test_calibrated_resumes_with_the_same_bytes),
        WITH_FOLDER(test_calibrated_package_says_what_it_is),
        WITH_FOLDER(test_calibrated_refuses_a_text_that_is_too_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
