// SPDX-License-Identifier: Apache-2.0
/* Tests imports that look at activations. The bytes are the same for every number of threads and wherever the import
 * was stopped; the package describes itself, and answers as the model does. */
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
#include "engine/engine.h"
#include "importer/methods/calibrated_round.h"
#include "importer/methods/calibrated_smooth.h"
#include "model/package/package.h"
#include "quant/format/grid.h"
#include "quant/rotate.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/importer/import_fixture.h"

enum {
    N_VOCAB = 300,
};

static const char *const archs[] = { "llama", "qwen2", "gemma3" };

typedef struct Kind {
    const char *recipe;
    QuantAllocation allocation;
    double bits;
    bool is_static;
    double prune_percent;
} Kind;

static const Kind kinds[] = {
    { "compensated", QUANT_ALLOCATION_MODEL, 4.5, false, 0 },  { "compensated", QUANT_ALLOCATION_UNIFORM, 4, false, 0 },
    { "compensated", QUANT_ALLOCATION_TENSOR, 3.5, false, 0 }, { "edgeflow", QUANT_ALLOCATION_TENSOR, 5, false, 0 },
    { "int8", QUANT_ALLOCATION_UNIFORM, 8, true, 50 },         { "edgeflow", QUANT_ALLOCATION_UNIFORM, 6, false, 0 },
    { "compensated", QUANT_ALLOCATION_MODEL, 4.5, true, 70 },  { "edgeflow", QUANT_ALLOCATION_TENSOR, 5, true, 0 },
    { "compensated", QUANT_ALLOCATION_UNIFORM, 4, true, 100 },
};

/* Runs every method on every architecture if there is time; otherwise each method on one. */
static bool is_taken(size_t arch, size_t kind) {
    return patience_is_long() || kind % ARRAY_LEN(archs) == arch;
}

/* Weights as in LLaMA-Pro's added blocks, and nearly as small ones: rows without a scale. */
static void empty_rows(float *values, size_t n, size_t k) {
    for (size_t i = 0; i < k; i++) {
        values[k + i] = 0;
        values[2 * k + i] *= 0x1p-110f;
    }
}

/* Channels whose rows are those of a few inputs only, the case that smoothing serves. */
static void raise_rows(float *values, size_t n, size_t k) {
    for (size_t i = 0; i < k; i++) {
        values[3 * k + i] *= 8;
        values[17 * k + i] *= 8;
    }
}

static void change_layers(const ImportFixture *fixture, uint32_t n_layers) {
    static const char *const raised[] = { "attn_norm", "ffn_norm", "attn_v", "ffn_up" };
    static const char *const emptied[] = { "attn_output", "attn_k", "ffn_gate", "ffn_up" };
    char name[GGUF_TENSOR_NAME_MAX];

    for (uint32_t layer = 0; layer < n_layers; layer++) {
        for (size_t i = 0; i < ARRAY_LEN(raised); i++) {
            snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, raised[i]);
            import_fixture_change(fixture, name, raise_rows);
        }
        for (size_t i = 0; i < ARRAY_LEN(emptied); i++) {
            snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, emptied[i]);
            import_fixture_change(fixture, name, empty_rows);
        }
    }
}

static char text_path[400]; /* 3 windows of the project's text suffice for these tests */

static void make_source(ImportFixture *fixture, const char *arch) {
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    size_t len_bytes = 0;

    maker.arch = arch;
    maker.n_layers = 3;
    maker.n_vocab = N_VOCAB;
    maker.tied = !strcmp(arch, "gemma3");
    import_fixture_source(fixture, &maker);
    change_layers(fixture, maker.n_layers);
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

static void import_keep(ImportFixture *fixture) {
    ImportReport report;
    ErrText err = { 0 };

    if (import_run(fixture->source, fixture->out, &fixture->options, &report, &err))
        fail_msg("%s", err.text);
}

static void import(ImportFixture *fixture, char hex[SHA256_HEX_BYTES]) {
    import_keep(fixture);
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

/* Rounding, the search for scales and the model that is measured give the same bits at every level. BLAS chooses its
 * code for the machine, which is one machine here. */
static void test_calibrated_bytes_do_not_depend_on_instructions(void **state) {
    ImportFixture *fixture = *state;

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        char scalar[SHA256_HEX_BYTES], other[SHA256_HEX_BYTES];

        make_source(fixture, archs[i % ARRAY_LEN(archs)]);
        take(fixture, &kinds[i]);
        for (Isa isa = ISA_SCALAR; isa < _ISA_N; isa++) {
            if (!isa_present(isa))
                continue;
            import_fixture_import_at(fixture, isa);
            import_fixture_hash(fixture->out, isa ? other : scalar);
            assert_int_equal(remove(fixture->out), 0);
            if (isa)
                assert_string_equal(other, scalar);
        }
    }
}

typedef struct Stop {
    size_t n_layers; /* finished layers when the flag comes; 0: while it measures */
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
                ErrText err = { 0 };
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

/* Sets 3 layers of 4 operators, in the first linear of each. Pruned operators are the least important ones. */
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
        /* Matrices of a few blocks: Algorithm 1's widths are then widened to whole blocks, for no more bytes. */
        assert_true(bits <= kinds[i].bits * weights * (kinds[i].allocation == QUANT_ALLOCATION_TENSOR ? 1.2 : 1.0001));
        assert_true(bits >= (kinds[i].bits - 0.5) * weights);
        assert_int_equal(quant->rotated, strcmp(kinds[i].recipe, "edgeflow") != 0);
        assert_int_equal(quant->static_activations, kinds[i].is_static);
        check_operators(package, &report, &kinds[i]);
        assert_int_equal(remove(fixture->out), 0);
    }
}

/* --- is it still the model? --------------------------------------------------------------------------------------- */

enum {
    N_TOKENS = 256,
    MEAN_INPUTS = 72, /* 64, 64, 64 and 96 of a layer's operators */
};

/* Logits of all positions of one text of letters, of which the calibration text consists too, and the work of the
 * shadows. */
static ShadowCounts answer(EngineDevice device, const char *path, float *logits) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    AccountTable accounts;
    EngineOptions options = { .path = path, .load.device = device, .accounts = &accounts };
    Sequence *sequence = NULL;
    Engine *engine = NULL;
    _cleanup_(calibration_deinit) CalibrationText text = CALIBRATION_TEXT_NULL;
    _cleanup_(freep) uint32_t *tokens = NULL;
    size_t n_windows;
    ShadowCounts counts;
    ErrText err = { 0 };

    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, 2), 0);
    options.pool = pool;
    if (calibration_load(&text, text_path, &err) || engine_new(&engine, &options, &err) ||
        calibration_windows(&text, engine_tokenizer(engine), 1, N_TOKENS, &tokens, &n_windows, &err) ||
        sequence_new(&sequence, engine, N_TOKENS, &err) ||
        engine_forward(engine, sequence, tokens, N_TOKENS, N_TOKENS, logits, &err))
        fail_msg("%s", err.text);
    engine_backend(engine)->ops->shadow_counts(engine_backend(engine), &counts);
    sequence_free(sequence);
    engine_free(engine);
    return counts;
}

/* |a - b| / |b| over all positions. */
static double distance(const float *a, const float *b, size_t n) {
    double error = 0, norm = 0;

    for (size_t i = 0; i < n; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(error / norm);
}

static bool is_smoothed(const ImportFixture *fixture) {
    _cleanup_(gguf_freep) GgufFile *source = NULL;
    _cleanup_(package_freep) Package *package = NULL;
    const GgufTensor *norm;

    assert_int_equal(gguf_open(&source, fixture->source, NULL), 0);
    assert_int_equal(package_open(&package, fixture->out, NULL), 0);
    norm = gguf_tensor(package_file(package), "blk.0.attn_norm.weight");
    return memcmp(norm->data, gguf_tensor(source, norm->name)->data, norm->len_bytes) != 0;
}

static const Kind whole_kinds[] = {
    { "edgeflow", QUANT_ALLOCATION_UNIFORM, 8, false, 0 },
    { "compensated", QUANT_ALLOCATION_UNIFORM, 8, false, 0 },
    { "compensated", QUANT_ALLOCATION_UNIFORM, 8, true, 0 },
    { "edgeflow", QUANT_ALLOCATION_UNIFORM, 8, true, 0 },
};

/* With every width 8 only the rounding of activations is left: 1 to 4 % of the logits. Static activations keep a shadow
 * in every operator, whose outliers are about 1 in 200 values. */
static void test_calibrated_package_is_the_model(void **state) {
    static float expected[N_TOKENS * N_VOCAB], logits[N_TOKENS * N_VOCAB];
    ImportFixture *fixture = *state;

    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        make_source(fixture, archs[a]);
        (void)answer(ENGINE_DEVICE_REFERENCE, fixture->source, expected);
        for (size_t i = 0; i < ARRAY_LEN(whole_kinds); i++) {
            ShadowCounts counts;
            double error, outliers;

            if (!is_taken(a, i))
                continue;
            take(fixture, &whole_kinds[i]);
            import_keep(fixture);
            assert_int_equal(is_smoothed(fixture), fixture->options.recipe.smooth);
            counts = answer(ENGINE_DEVICE_CPU, fixture->out, logits);
            error = distance(logits, expected, N_TOKENS * N_VOCAB);
            if (!(error < 0.07))
                fail_msg("%s, %s: logits are off by %.3f", archs[a], whole_kinds[i].recipe, error);
            outliers = (double)counts.n_outliers / ((double)counts.n_rows * MEAN_INPUTS);
            if (whole_kinds[i].is_static && !(outliers > 0.0025 && outliers < 0.02))
                fail_msg("%s, %s: %.4f of the inputs are outliers", archs[a], whole_kinds[i].recipe, outliers);
            assert_int_equal(remove(fixture->out), 0);
        }
    }
}

/* At 100 % no column is read on demand, whichever channels have outliers in the calibration text. Below, the channels
 * with most of the outliers are enough. */
static void test_calibrated_all_channels_hot(void **state) {
    static const Kind kind = { "int8", QUANT_ALLOCATION_UNIFORM, 8, true, 50 };
    static float some[N_TOKENS * N_VOCAB], all[N_TOKENS * N_VOCAB];
    ImportFixture *fixture = *state;
    ShadowCounts counts;
    ImportReport report;

    make_source(fixture, "llama");
    take(fixture, &kind);
    fixture->options.recipe.hot_percent = 99;
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
    assert_true(report.n_hot && report.n_hot < report.n_shadow_inputs);
    counts = answer(ENGINE_DEVICE_CPU, fixture->out, some);
    assert_true(counts.n_hot && counts.n_hot < counts.n_outliers && counts.n_columns_read);
    fixture->options.recipe.hot_percent = 100;
    assert_int_equal(import_run(fixture->source, fixture->out, &fixture->options, &report, NULL), 0);
    assert_true(report.n_shadows);
    assert_int_equal(report.n_hot, report.n_shadow_inputs);
    counts = answer(ENGINE_DEVICE_CPU, fixture->out, all);
    assert_true(counts.n_outliers && counts.n_hot == counts.n_outliers && !counts.n_columns_read);
    assert_memory_equal(all, some, sizeof(all));
}

/* --- what rounding is worth --------------------------------------------------------------------------------------- */

enum {
    ROUNDED_BITS = 4,
    CHANCE_ROWS = 64, /* about as many as a product has inputs: their correlations are chance */
    OTHER_ROWS = 256,
};

/* Outputs y of a linear and those of its integers: sums over rows and channels. */
typedef struct OutputSums {
    double error;   /* (y - rounded)^2 */
    double product; /* y rounded */
    double energy;  /* y^2 */
} OutputSums;

/* Sums over the linears of a model. */
typedef struct Errors {
    OutputSums plain, compensated, descended, corrected;
} Errors;

typedef struct Rounding {
    Calibrated *calibrated;
    const ImportLayer *layer;
    float *const *vectors;
    Errors seen;   /* rows that the factor is made of */
    Errors unseen; /* other rows, all of independent inputs */
    float *noise;  /* f32[CHANCE_ROWS + OTHER_ROWS][k], of any k of the model */
} Rounding;

/* Rows x, rotated as the weights are. */
static void add_outputs(OutputSums *sums, const CalibratedRounding *rounded, const float *x, size_t rows) {
    const size_t n = rounded->linear->n, k = rounded->linear->k;

    for (size_t c = 0; c < n; c++)
        for (size_t r = 0; r < rows; r++) {
            double y = 0, product = 0;

            for (size_t i = 0; i < k; i++) {
                y += (double)rounded->w[c * k + i] * (double)x[r * k + i];
                product += (double)rounded->scales[c] * rounded->q[c * k + i] * (double)x[r * k + i];
            }
            sums->error += (y - product) * (y - product);
            sums->product += y * product;
            sums->energy += y * y;
        }
}

/* Runs the steps of recipe `compensated` up to this one. */
typedef enum LastStep {
    STEP_SCALES,
    STEP_COMPENSATION,
    STEP_DESCENT,
    STEP_GAIN_CORRECTION,
} LastStep;

static void round_up_to(LastStep last, const Rounding *rounding, const CalibratedRounding *rounded, const float *x,
                        size_t rows, OutputSums *sums) {
    QuantRecipe recipe = *rounding->calibrated->model->recipe;
    ImportModel model = *rounding->calibrated->model;
    Calibrated calibrated = *rounding->calibrated;
    CalibratedRounding call = *rounded;
    ErrText err;

    recipe.compensate = last >= STEP_COMPENSATION;
    recipe.descend = last >= STEP_DESCENT;
    recipe.correct_gain = last >= STEP_GAIN_CORRECTION;
    model.recipe = &recipe;
    calibrated.model = &model;
    call.factor = last >= STEP_COMPENSATION ? call.factor : NULL;
    assert_int_equal(calibrated_round(&calibrated, &call, &err), 0);
    add_outputs(sums, &call, x, rows);
}

/* Makes a factor of the first n_seen of the rows, and judges it on rows x[n_judged]. */
static void add_errors(const Rounding *rounding, CalibratedRounding *rounded, const float *x, size_t n_seen,
                       const float *judged, size_t n_judged, Errors *errors) {
    _cleanup_(hessian_factor_deinit) HessianFactor factor = { 0 };
    const ImportLinear *linear = rounded->linear;
    ErrText err;

    assert_int_equal(
        calibrated_factor(rounding->calibrated, &factor, x, n_seen, linear->k, linear->rotation_block, &err), 0);
    rounded->factor = &factor;
    round_up_to(STEP_SCALES, rounding, rounded, judged, n_judged, &errors->plain);
    round_up_to(STEP_COMPENSATION, rounding, rounded, judged, n_judged, &errors->compensated);
    round_up_to(STEP_DESCENT, rounding, rounded, judged, n_judged, &errors->descended);
    round_up_to(STEP_GAIN_CORRECTION, rounding, rounded, judged, n_judged, &errors->corrected);
}

/* Rounds a linear in all ways; the linear on the device has 8 bits. */
static void round_linear(Rounding *rounding, const ImportLinear *linear, const float *w, const float *x, size_t rows,
                         BackendLinear **linearp) {
    const size_t n = linear->n, k = linear->k;
    _cleanup_(freep) float *rotated = malloc(rows * k * sizeof(*rotated));
    _cleanup_(freep) float *scales = malloc(n * sizeof(*scales));
    _cleanup_(freep) int8_t *q = malloc(n * k), *bits = malloc(n);
    CalibratedRounding rounded = { linear, NULL, w, bits, q, scales, NULL };
    ErrText err;

    assert_true(rotated && scales && q && bits);
    memcpy(rotated, x, rows * k * sizeof(*rotated));
    for (size_t r = 0; r < rows; r++)
        rotate_row(rotated + r * k, k, linear->rotation_block);
    memset(bits, ROUNDED_BITS, n);
    add_errors(rounding, &rounded, x, rows, rotated, rows, &rounding->seen);
    add_errors(rounding, &rounded, rounding->noise, CHANCE_ROWS, rounding->noise + CHANCE_ROWS * k, OTHER_ROWS,
               &rounding->unseen);
    memset(bits, GRID_BITS_MAX, n);
    rounded.factor = NULL;
    assert_int_equal(calibrated_round(rounding->calibrated, &rounded, &err), 0);
    assert_int_equal(calibrated_linear_new(rounding->calibrated, linearp, linear, q, scales, rounding->vectors, &err),
                     0);
}

/* The query heads of a kv head share their factors, however different their inputs are: attn_v has one channel for
 * all of them. */
static void check_shared_factors(const Rounding *rounding, const ArchOp *op, float *const *w) {
    const Hparams *hparams = &rounding->calibrated->model->hparams;
    const size_t k = hparams->n_heads * hparams->head_size, group = hparams->n_heads / hparams->n_kv_heads;
    float x[OTHER_ROWS * 64], factors[64];
    bool smooths = false;
    ErrText err;

    assert_true(k == 64 && group == 2);
    for (size_t i = 0; i < ARRAY_LEN(x); i++)
        x[i] = rounding->noise[i] * (float)(1 + i % k / hparams->head_size) * (i % hparams->head_size == 5 ? 30 : 1);
    assert_int_equal(
        calibrated_smoothing(rounding->calibrated, rounding->layer, op, x, OTHER_ROWS, k, w, false, factors, &err), 0);
    for (size_t i = 0; i < k; i++) {
        smooths = smooths || factors[i] != 1;
        assert_true(factors[i] == factors[i ^ hparams->head_size]);
    }
    assert_true(smooths);
}

static int round_op(void *arg, const ArchOp *op, float *x, size_t rows, size_t k, BackendLinear **linears,
                    ErrText *err) {
    Rounding *rounding = arg;
    float *w[OP_WEIGHTS_MAX] = { 0 };

    assert_int_equal(calibrated_read(rounding->calibrated, rounding->layer, op, w, err), 0);
    if (op->w[0] == ROLE_ATTN_OUTPUT)
        check_shared_factors(rounding, op, w);
    for (size_t i = 0; i < op->n; i++)
        round_linear(rounding, import_linear_of(rounding->layer, op->w[i]), w[i], x, rows, &linears[op->w[i]]);
    for (size_t i = 0; i < op->n; i++)
        free(w[i]);
    return 0;
}

/* Replaces allocate(): runs between begin() and end() of the calibrated method. */
static int judge_rounding(void *state, const ImportModel *model, ErrText *err) {
    _cleanup_(layer_walk_freep) LayerWalk *walk = NULL;
    const size_t n_noise = (CHANCE_ROWS + OTHER_ROWS) * (size_t)model->hparams.n_ff;
    Rounding rounding = { .calibrated = state, .noise = malloc(n_noise * sizeof(float)) };
    const Errors *seen = &rounding.seen, *unseen = &rounding.unseen;
    double lost, still_lost;
    uint64_t seed = 1;

    assert_non_null(rounding.noise);
    for (size_t i = 0; i < n_noise; i++)
        rounding.noise[i] = test_random_normal(&seed);
    assert_int_equal(calibrated_walk_new(state, &walk, rounding.calibrated->n_windows, err), 0);
    for (uint32_t i = 0; i < model->hparams.n_layers; i++) {
        BackendLinear *linears[_ROLE_N] = { 0 };
        float *vectors[_ROLE_N] = { 0 };

        rounding.layer = &model->layers[1 + i];
        rounding.vectors = vectors;
        assert_int_equal(calibrated_vectors_read(state, rounding.layer, vectors, err), 0);
        assert_int_equal(layer_walk_layer(walk, i, linears, vectors, round_op, &rounding, err), 0);
        calibrated_linears_free(state, linears);
        calibrated_vectors_free(vectors);
    }
    free(rounding.noise);
    assert_true(seen->compensated.error < 0.15 * seen->plain.error);     /* found: 0.06 */
    assert_true(seen->descended.error < 0.97 * seen->compensated.error); /* 0.92 */
    assert_true(unseen->compensated.error < 1.3 * unseen->plain.error);  /* 1.04; 2.9 without shrinking */
    /* in the size of outputs; shrunk moments are not quite those of the rows */
    lost = 1 - seen->descended.product / seen->descended.energy;       /* 0.0002 */
    still_lost = 1 - seen->corrected.product / seen->corrected.energy; /* -0.0004 */
    assert_true(lost > 0 && fabs(still_lost) < 0.001);
    assert_true(seen->corrected.error < 0.97 * seen->descended.error); /* 0.92 */
    return import_method_calibrated.allocate(state, model, err);
}

static void test_calibrated_rounding_suits_the_rows(void **state) {
    ImportFixture *fixture = *state;
    ImportMethod method = import_method_calibrated;

    make_source(fixture, "llama");
    take(fixture, &kinds[1]);
    method.allocate = judge_rounding;
    fixture->options.method = &method;
    import_keep(fixture);
}

static void test_calibrated_refuses_a_text_that_is_too_short(void **state) {
    ImportFixture *fixture = *state;

    make_source(fixture, "llama");
    take(fixture, &kinds[1]);
    test_write_file(fixture->folder, "text.txt", "too short", 9);
    import_fixture_refusal(fixture, fixture->out, IMPORT_E_CALIBRATION, "text.txt");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_calibrated_bytes_do_not_depend_on_threads),
        WITH_FOLDER(test_calibrated_bytes_do_not_depend_on_instructions),
        WITH_FOLDER(test_calibrated_resumes_with_the_same_bytes),
        WITH_FOLDER(test_calibrated_package_says_what_it_is),
        WITH_FOLDER(test_calibrated_package_is_the_model),
        WITH_FOLDER(test_calibrated_all_channels_hot),
        WITH_FOLDER(test_calibrated_rounding_suits_the_rows),
        WITH_FOLDER(test_calibrated_refuses_a_text_that_is_too_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
