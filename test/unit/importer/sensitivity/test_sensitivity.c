// SPDX-License-Identifier: Apache-2.0
/* Tests the losses that are measured against models whose matrices are rounded one by one. */
#undef NDEBUG
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "importer/import_rows.h"
#include "importer/methods/calibrated_round.h"
#include "importer/sensitivity/answer_gradient.h"
#include "importer/sensitivity/sensitivity_allocate.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"
#include "test/unit/fixtures/patience.h"
#include "test/unit/importer/import_fixture.h"

enum {
    LAYERS = 2,
    VOCAB = 300,
    FIRST_ROW = 64,
};

/* Nats that answers differ by when the activations' roundings fall differently, with a margin. One direction of the
 * answers shows a single linear's loss within a factor of a few, if its errors move all answers alike. */
#define NOISE 2e-5

/* All layers on the device, for answers. */
typedef struct Model {
    Calibrated *calibrated;
    LayerWalk *walk;
    BackendLinear *linears[LAYERS][_ROLE_N];
    float *vectors[LAYERS][_ROLE_N];
    size_t *rows, n_rows;
    float *expected, *logits; /* f32[n_rows][VOCAB] */
} Model;

/* Rounds plainly, as a model without error compensation is. */
static void round_linear(Model *model, const ImportLinear *linear, int bits) {
    Calibrated *calibrated = model->calibrated;
    BackendLinear **place = &model->linears[linear->layer][linear->role];
    _cleanup_(freep) float *w = malloc(linear->n * linear->k * sizeof(*w));
    _cleanup_(freep) float *scales = malloc(linear->n * sizeof(*scales));
    _cleanup_(freep) int8_t *q = malloc(linear->n * linear->k);
    _cleanup_(freep) int8_t *widths = malloc(linear->n);
    CalibratedRounding rounding = { linear, NULL, w, widths, q, scales, NULL };
    ErrText err;

    assert_true(w && scales && q && widths);
    memset(widths, bits, linear->n);
    assert_int_equal(import_read_linear(calibrated->model, linear, w, &err), 0);
    assert_int_equal(calibrated_round(calibrated, &rounding, &err), 0);
    calibrated->backend->ops->linear_free(*place);
    assert_int_equal(calibrated_linear_new(calibrated, place, linear, q, scales, model->vectors[linear->layer], &err),
                     0);
}

static void answer(Model *model, float *logits) {
    Calibrated *calibrated = model->calibrated;
    ErrText err;

    layer_walk_embed(model->walk, calibrated->embedding, calibrated->tokens);
    for (uint32_t i = 0; i < LAYERS; i++)
        assert_int_equal(layer_walk_layer(model->walk, i, model->linears[i], model->vectors[i], NULL, NULL, &err), 0);
    assert_int_equal(
        layer_walk_logits(model->walk, calibrated->outside, calibrated->head, model->rows, model->n_rows, logits, &err),
        0);
}

static double log_sum(const float *logits) {
    double sum = 0;

    for (size_t i = 0; i < VOCAB; i++)
        sum += exp((double)logits[i]);
    return log(sum);
}

/* Measures nats an answer. */
static double divergence(Model *model) {
    double sum = 0;

    answer(model, model->logits);
    for (size_t row = 0; row < model->n_rows; row++) {
        const float *expected = model->expected + row * VOCAB, *logits = model->logits + row * VOCAB;
        double all = log_sum(expected), changed = log_sum(logits);

        for (size_t i = 0; i < VOCAB; i++) {
            double p = (double)expected[i] - all;

            sum += exp(p) * (p - ((double)logits[i] - changed));
        }
    }
    return sum / (double)model->n_rows;
}

static void model_init(Model *model, Calibrated *calibrated) {
    const ImportModel *source = calibrated->model;
    ErrText err;

    *model = (Model){ .calibrated = calibrated };
    assert_int_equal(source->hparams.n_layers, LAYERS);
    assert_int_equal(source->hparams.n_vocab, VOCAB);
    assert_int_equal(calibrated_walk_new(calibrated, &model->walk, calibrated->n_windows, &err), 0);
    model->rows = calloc(layer_walk_n_rows(model->walk), sizeof(*model->rows));
    assert_non_null(model->rows);
    for (size_t row = 0; row < layer_walk_n_rows(model->walk); row++)
        if (row % CALIBRATION_WINDOW_TOKENS >= FIRST_ROW)
            model->rows[model->n_rows++] = row;
    model->expected = malloc(model->n_rows * VOCAB * sizeof(float));
    model->logits = malloc(model->n_rows * VOCAB * sizeof(float));
    assert_true(model->expected && model->logits);
    for (uint32_t i = 0; i < LAYERS; i++) {
        assert_int_equal(calibrated_vectors_read(calibrated, &source->layers[1 + i], model->vectors[i], &err), 0);
        for (size_t j = 0; j < source->layers[1 + i].n_linears; j++)
            round_linear(model, &source->layers[1 + i].linears[j], GRID_BITS_MAX);
    }
    answer(model, model->expected);
}

static void model_deinit(Model *model) {
    for (uint32_t i = 0; i < LAYERS; i++) {
        calibrated_linears_free(model->calibrated, model->linears[i]);
        calibrated_vectors_free(model->vectors[i]);
    }
    layer_walk_free(model->walk);
    free(model->rows);
    free(model->expected);
    free(model->logits);
}

static double product(const float *a, const float *b, size_t n) {
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Moves the stream of one row a step up its gradient and a step down. The gain in the answer's direction is the slope,
 * blurred by rounding the stream to int8. */
static void check_slope(Model *model, size_t row) {
    Calibrated *calibrated = model->calibrated;
    const size_t width = calibrated->model->hparams.n_embd;
    _cleanup_(freep) float *gradients = malloc(layer_walk_n_rows(model->walk) * width * sizeof(float));
    _cleanup_(freep) float *kept = malloc(width * sizeof(float));
    float *stream = layer_walk_stream(model->walk) + row * width, *gradient = gradients + row * width;
    float logits[3][VOCAB]; /* as it is, down, up */
    double step, slope;
    ErrText err;

    assert_true(gradients && kept);
    assert_int_equal(answer_gradient(calibrated, model->walk, &row, 1, gradients, &err), 0);
    memcpy(kept, stream, width * sizeof(float));
    step = 0.1 * sqrt(product(stream, stream, width) / product(gradient, gradient, width));
    for (int i = 0; i < 3; i++) {
        for (size_t j = 0; j < width; j++)
            stream[j] = kept[j] + (i ? (float)((2 * i - 3) * step) * gradient[j] : 0);
        assert_int_equal(
            layer_walk_logits(model->walk, calibrated->outside, calibrated->head, &row, 1, logits[i], &err), 0);
    }
    memcpy(stream, kept, width * sizeof(float));
    answer_direction(logits[0], VOCAB, row);
    slope = (product(logits[0], logits[2], VOCAB) - product(logits[0], logits[1], VOCAB)) /
            (2 * step * product(gradient, gradient, width));
    if (!(slope > 0.9 && slope < 1.1))
        fail_msg("row %zu: %g of the gradient", row, slope);
}

/* Runs between begin() and end() of the calibrated method: measures, and compares with the real losses. */
static int compare(void *state, const ImportModel *source, ErrText *err) {
    _cleanup_(sensitivity_freep) Sensitivity *sensitivity = NULL;
    double all_foretold = 0, all_found = 0;
    Model model;

    assert_int_equal(sensitivity_measure(&sensitivity, state, err), 0);
    model_init(&model, state);
    for (size_t i = 0; i < model.n_rows; i += 97)
        check_slope(&model, model.rows[i]);
    for (uint32_t i = 0; i < LAYERS; i++)
        for (size_t j = 0; j < source->layers[1 + i].n_linears; j++) {
            const ImportLinear *linear = &source->layers[1 + i].linears[j];
            /* An activation's input has a slope, and little else in the way. */
            const double most = linear->role == ROLE_FFN_UP ? 2 : 6;
            double foretold = 0, found;

            for (size_t c = 0; c < linear->n; c++)
                foretold += sensitivity->losses[i][linear->role][c];
            round_linear(&model, linear, SENSITIVITY_BITS);
            found = divergence(&model);
            round_linear(&model, linear, GRID_BITS_MAX);
            if (fmax(foretold, found) > NOISE && !(found < most * foretold && foretold < most * found))
                fail_msg("%s: foretold %.3g nats, found %.3g", linear->source->name, foretold, found);
            all_foretold += foretold;
            all_found += found;
        }
    model_deinit(&model);
    if (!(all_found < 2 * all_foretold && all_foretold < 2 * all_found))
        fail_msg("all linears: foretold %.3g nats, found %.3g", all_foretold, all_found);
    return sensitivity_allocate(sensitivity, state, source->bits, err);
}

static void test_sensitivity_foretells_the_divergence(void **state) {
    static const char *const archs[] = { "llama", "qwen2", "gemma3", "qwen3", "phi3", "gemma2", "phi2" };
    static const ModelMakerKey caps[] = { { "attn_logit_softcapping", GGUF_F32, 3, NULL },
                                          { "final_logit_softcapping", GGUF_F32, 3, NULL } };
    ImportFixture *fixture = *state;
    ImportMethod method = import_method_calibrated;
    static char text_path[400];
    size_t len_bytes = 0;

    test_write_file(fixture->folder, "text.txt", calibration_text(&len_bytes), 2500); /* 3 windows */
    snprintf(text_path, sizeof(text_path), "%s/text.txt", fixture->folder);
    fixture->options.calibration_path = text_path;
    method.allocate = compare;
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        ModelMaker maker = MODEL_MAKER_DEFAULT;
        ImportReport report;
        ErrText err = { 0 };

        if (patience_is_short() && i &&
            i + 2 < ARRAY_LEN(archs)) /* llama, and the architectures that differ most from it */
            continue;
        maker.arch = archs[i];
        maker.n_vocab = VOCAB;
        maker.n_embd = i == 2 ? 64 : 96;
        maker.tied = i == 2;
        maker.is_fused = i % 2;
        if (!strcmp(archs[i], "gemma2")) {
            maker.is_balanced = true; /* otherwise the caps leave too little to compare */
            maker.keys = caps;
            maker.n_keys = ARRAY_LEN(caps);
        }
        import_fixture_source(fixture, &maker);
        assert_int_equal(quant_recipe_named(&fixture->options.recipe, "compensated"), 0);
        quant_recipe_set_bits(&fixture->options.recipe, 5);
        fixture->options.recipe.allocation = QUANT_ALLOCATION_MODEL;
        fixture->options.recipe.compensate = fixture->options.recipe.descend = false;
        fixture->options.method = &method;
        if (import_run(fixture->source, fixture->out, &fixture->options, &report, &err))
            fail_msg("%s", err.text);
        assert_int_equal(remove(fixture->out), 0);
    }
}

/* --- widths of given losses --------------------------------------------------------------------------------------- */

enum {
    N_GIVEN = 3,
    N_CHANNELS = 2 * PACK_BLOCK_CHANNELS,
};

/* A model of one layer, whose linears have two blocks of channels each. */
typedef struct Given {
    GgufTensor sources[N_GIVEN];
    ImportLinear linears[N_GIVEN];
    int8_t bits[N_GIVEN][N_CHANNELS];
    double values[N_GIVEN][N_CHANNELS], *losses[1][_ROLE_N];
    ImportLayer layers[2];
    QuantRecipe recipe;
    ImportModel model;
    Calibrated calibrated;
    Sensitivity sensitivity;
} Given;

static void given_init(Given *given, const double losses[N_GIVEN][2]) {
    *given = (Given){ .layers = { { .layer = -1 }, { .linears = given->linears, .n_linears = N_GIVEN } },
                      .model = { .source_path = "none", .recipe = &given->recipe, .layers = given->layers },
                      .calibrated = { .model = &given->model },
                      .sensitivity = { .n_layers = 1, .losses = given->losses } };
    assert_int_equal(quant_recipe_named(&given->recipe, "compensated"), 0);
    for (size_t i = 0; i < N_GIVEN; i++) {
        const TensorRole role = (TensorRole[]){ ROLE_ATTN_Q, ROLE_ATTN_K, ROLE_ATTN_V }[i];

        tensor_name(role, 0, given->sources[i].name, sizeof(given->sources[i].name));
        given->linears[i] = (ImportLinear){
            .role = role, .source = &given->sources[i], .n = N_CHANNELS, .k = 64, .bits = given->bits[i]
        };
        given->losses[0][role] = given->values[i];
        for (size_t c = 0; c < N_CHANNELS; c++)
            given->values[i][c] = losses[i][c / PACK_BLOCK_CHANNELS];
    }
}

/* A channel without a measured loss counts as 0.3 of its linear's mean loss, 1 here. It gets more bits than channels of
 * another linear that lose 0.06 each, and fewer than those that lose 1.2. */
static void test_sensitivity_allocates_by_linear_too(void **state) {
    static const double losses[N_GIVEN][2] = { { 0, 2 }, { 0.06, 0.06 }, { 1.2, 1.2 } };
    static const int8_t bits[N_GIVEN][2] = { { 4, 6 }, { 3, 3 }, { 6, 6 } };
    ErrText err = { 0 };
    Given given;

    for (Grid grid = GRID_UNIFORM; grid < _GRID_N; grid++) {
        given_init(&given, losses);
        given.recipe.grid = grid;
        assert_int_equal(sensitivity_allocate(&given.sensitivity, &given.calibrated, 4.75, &err), 0);
        for (size_t i = 0; i < N_GIVEN; i++)
            for (size_t c = 0; c < N_CHANNELS; c++)
                assert_int_equal(given.bits[i][c], bits[i][c / PACK_BLOCK_CHANNELS]);
    }
}

static void test_sensitivity_refuses_losses_that_are_no_numbers(void **state) {
    static const double losses[][N_GIVEN][2] = { { { 1, 1 }, { 1, NAN }, { 1, 1 } },
                                                 { { 1, 1 }, { INFINITY, 1 }, { 1, 1 } } };

    for (size_t i = 0; i < ARRAY_LEN(losses); i++) {
        ErrText err = { 0 };
        Given given;

        given_init(&given, losses[i]);
        assert_int_equal(sensitivity_allocate(&given.sensitivity, &given.calibrated, 4.75, &err), IMPORT_E_UNSUPPORTED);
        assert_non_null(strstr(err.text, "tensor 'blk.0.attn_k.weight'"));
        assert_non_null(strstr(err.text, "--recipe compensated:5:allocation=uniform measures nothing"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sensitivity_allocates_by_linear_too),
        cmocka_unit_test(test_sensitivity_refuses_losses_that_are_no_numbers),
        WITH_FOLDER(test_sensitivity_foretells_the_divergence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
