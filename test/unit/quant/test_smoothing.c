// SPDX-License-Identifier: Apache-2.0
/* Tests of EdgeFlow's smoothing: factors, the search for alpha, and that a smoothed model computes the same
 * function. */
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
#include "base/min_max.h"
#include "engine/engine.h"
#include "model/hparams/arch.h"
#include "quant/smoothing.h"
#include "test/unit/fixtures/model_maker.h"

/* --- factors ------------------------------------------------------------------------------------------------------ */

static void test_smoothing_factors(void **state) {
    const float maxima[6] = { 1, 4, 16, 0, 1e30f, 1e-30f };
    float factors[6];

    for (int step = 0; step <= SMOOTHING_ALPHA_STEPS; step++) {
        const double alpha = (double)step / SMOOTHING_ALPHA_STEPS;

        smoothing_factors(maxima, 3, alpha, factors); /* geometric mean 4 */
        for (size_t i = 0; i < 3; i++)
            assert_true(fabs((double)factors[i] / pow((double)maxima[i] / 4, alpha) - 1) < 1e-7);
        smoothing_factors(maxima, 6, alpha, factors); /* a channel of zeros does not count; extremes are clamped */
        assert_true(factors[3] == 1);
        assert_true(fabs((double)factors[4] / pow(1024, alpha) - 1) < 1e-7);
        assert_true(fabs((double)factors[5] / pow(1024, -alpha) - 1) < 1e-7);
    }
    smoothing_factors(maxima + 3, 1, 1, factors);
    assert_true(factors[0] == 1);
}

/* Compares our own routines with the C library's, over the whole range of floats. */
static void test_smoothing_factors_accuracy(void **state) {
    uint64_t random = 1;

    for (int repeat = 0; repeat < 20000; repeat++) {
        float maxima[2], factors[2], mean;
        double alpha = (double)(test_random(&random) % 21) / 20, expected;

        maxima[0] = ldexpf(1 + (float)(test_random(&random) % 65536) / 65536, (int)(test_random(&random) % 200) - 100);
        maxima[1] = maxima[0] * (1 + (float)(test_random(&random) % 65536) / 256);
        smoothing_factors(maxima, 2, alpha, factors);
        mean = sqrtf(maxima[1] / maxima[0]);
        expected = pow((double)mean, alpha);
        assert_true(fabs((double)factors[1] / expected - 1) < 3e-7);
        assert_true(fabs((double)factors[0] * expected - 1) < 3e-7);
    }
}

static void test_smoothing_maxima(void **state) {
    const float x[6] = { 1, -5, 0, -2, 3, -0.0f };
    float maxima[3] = { 0, 0, 0.25f }, heads[8] = { 1, 2, 3, 4, 5, 0, 7, 8 }, values[4];

    smoothing_maxima(x, 2, 3, maxima);
    assert_true(maxima[0] == 2 && maxima[1] == 5 && maxima[2] == 0.25f);
    smoothing_share_heads(heads, 4, 2, 2); /* query heads 0, 1 read kv head 0, and 2, 3 kv head 1 */
    assert_true(heads[0] == 3 && heads[1] == 4 && heads[2] == 3 && heads[3] == 4);
    assert_true(heads[4] == 7 && heads[5] == 8 && heads[6] == 7 && heads[7] == 8);
    smoothing_value_factors(heads, 4, 2, 2, values);
    assert_true(values[0] == 3 && values[1] == 4 && values[2] == 7 && values[3] == 8);
}

/* --- a model's function stays the same
 * ------------------------------------------------------------------------------ */

typedef struct Shape {
    StrBuf *file;
    GgufFile *gguf;
    const ModelMaker *maker;
} Shape;

/* Returns a tensor's floats in the file's memory; NULL if the architecture has none. */
static float *tensor(const Shape *shape, TensorRole role, int layer) {
    char name[GGUF_TENSOR_NAME_MAX];
    const GgufTensor *found = gguf_tensor(shape->gguf, tensor_name(role, layer, name, sizeof(name)));

    return found ? (float *)(void *)(shape->file->data + found->offset_bytes) : NULL;
}

static void random_factors(float *factors, size_t n, uint64_t *random) {
    float *maxima = malloc(n * sizeof(*maxima));

    assert_non_null(maxima);
    for (size_t i = 0; i < n; i++)
        maxima[i] = expf(2 * test_random_normal(random));
    smoothing_factors(maxima, n, 0.7, factors);
    free(maxima);
}

/* Divides rows of w[n][k] by factors[n]. The importer divides the scales of channels instead. */
static void divide_rows(float *w, size_t n, size_t k, const float *factors) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j++)
            w[i * k + j] /= factors[i];
}

/* Smooths every place of every layer with random factors, as in smoothing.h's table. */
static void smooth_model(const Shape *shape) {
    const ModelMaker *m = shape->maker;
    const size_t n_q = m->n_heads * m->head_size, n_kv = m->n_kv_heads * m->head_size;
    float embd[256], heads[256], values[256], ff[256];
    uint64_t random = 5;

    assert_true(m->n_embd <= 256 && n_q <= 256 && m->n_ff <= 256);
    for (int layer = 0; layer < (int)m->n_layers; layer++) {
        random_factors(embd, m->n_embd, &random);
        smoothing_divide(tensor(shape, ROLE_ATTN_NORM, layer), m->n_embd, embd);
        smoothing_multiply_columns(tensor(shape, ROLE_ATTN_Q, layer), n_q, m->n_embd, embd);
        smoothing_multiply_columns(tensor(shape, ROLE_ATTN_K, layer), n_kv, m->n_embd, embd);
        smoothing_multiply_columns(tensor(shape, ROLE_ATTN_V, layer), n_kv, m->n_embd, embd);

        for (size_t i = 0; i < n_q; i++)
            heads[i] = expf(test_random_normal(&random));
        smoothing_share_heads(heads, m->n_heads, m->n_kv_heads, m->head_size);
        smoothing_factors(heads, n_q, 1, heads);
        smoothing_value_factors(heads, m->n_heads, m->n_kv_heads, m->head_size, values);
        smoothing_multiply_columns(tensor(shape, ROLE_ATTN_OUTPUT, layer), m->n_embd, n_q, heads);
        divide_rows(tensor(shape, ROLE_ATTN_V, layer), n_kv, m->n_embd, values);
        if (tensor(shape, ROLE_ATTN_V_BIAS, layer))
            smoothing_divide(tensor(shape, ROLE_ATTN_V_BIAS, layer), n_kv, values);

        random_factors(embd, m->n_embd, &random);
        smoothing_divide(tensor(shape, ROLE_FFN_NORM, layer), m->n_embd, embd);
        smoothing_multiply_columns(tensor(shape, ROLE_FFN_GATE, layer), m->n_ff, m->n_embd, embd);
        smoothing_multiply_columns(tensor(shape, ROLE_FFN_UP, layer), m->n_ff, m->n_embd, embd);

        random_factors(ff, m->n_ff, &random);
        smoothing_multiply_columns(tensor(shape, ROLE_FFN_DOWN, layer), m->n_embd, m->n_ff, ff);
        divide_rows(tensor(shape, ROLE_FFN_UP, layer), m->n_ff, m->n_embd, ff);
    }
}

enum {
    N_TOKENS = 24
};

static void logits_of(const StrBuf *file, const char *folder, uint32_t n_vocab, float *logits) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    static AccountTable accounts;
    uint32_t tokens[N_TOKENS];
    Sequence *sequence;
    Engine *engine;
    char path[300];
    ErrText err;

    account_table_init(&accounts);
    test_write_file(folder, "model.gguf", file->data, file->len_bytes);
    snprintf(path, sizeof(path), "%s/model.gguf", folder);
    assert_int_equal(worker_pool_new(&pool, 1), 0);
    if (engine_new(&engine,
                   &(EngineOptions){
                       .path = path, .load.device = ENGINE_DEVICE_REFERENCE, .pool = pool, .accounts = &accounts },
                   &err))
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = i * 7 % n_vocab;
    assert_int_equal(sequence_new(&sequence, engine, N_TOKENS, &err), 0);
    assert_int_equal(engine_forward(engine, sequence, tokens, N_TOKENS, N_TOKENS, logits, NULL), 0);
    sequence_free(sequence);
    engine_free(engine);
}

/* Logits of the float model before and after, for every architecture: qwen2 has a bias on the values, gemma3 norms on
 * heads and after both blocks; query heads share kv heads. */
static void test_smoothing_keeps_function(void **state) {
    static const char *const archs[] = { "llama", "qwen2", "gemma3" };
    static float before[N_TOKENS * 40], after[N_TOKENS * 40];
    char folder[256];

    test_folder_make(folder);
    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        _cleanup_(str_buf_deinit) StrBuf file = { 0 };
        ModelMaker maker = MODEL_MAKER_DEFAULT;
        Shape shape = { .file = &file, .maker = &maker };
        double largest = 0, difference = 0;
        ErrText err;

        maker.arch = archs[a];
        maker.seed = 3 + a;
        model_maker_run(&maker, &file);
        logits_of(&file, folder, maker.n_vocab, before);
        assert_int_equal(gguf_parse(&shape.gguf, file.data, file.len_bytes, "made", &err), 0);
        assert_int_equal(!!tensor(&shape, ROLE_ATTN_V_BIAS, 0), !strcmp(archs[a], "qwen2"));
        assert_int_equal(!!tensor(&shape, ROLE_POST_ATTN_NORM, 0), !strcmp(archs[a], "gemma3"));
        smooth_model(&shape);
        shape.gguf = gguf_free(shape.gguf);
        logits_of(&file, folder, maker.n_vocab, after);
        assert_memory_not_equal(before, after, sizeof(before)); /* rounding: the weights have changed */
        for (size_t i = 0; i < ARRAY_LEN(before); i++) {
            const double size = fabs((double)before[i]), change = fabs((double)before[i] - (double)after[i]);

            /* Avoids fmax(), on whose vectorization gcc 12 for AArch64 stops with an internal error. */
            largest = MAX(size, largest);
            difference = MAX(change, difference);
        }
        print_message("%s: logits up to %g, changed by at most %g\n", archs[a], largest, difference);
        assert_true(largest > 0.01 && difference < 2e-5 * largest);
    }
    test_folder_remove(folder);
}

/* --- the search --------------------------------------------------------------------------------------------------- */

enum {
    ROWS = 100,
    K = 300,
    N = 150
};

typedef struct Inputs {
    float x[ROWS * K], w[2][N * K], maxima[K];
    SmoothingLinear linears[2];
    SmoothingGroup group;
} Inputs;

/* Makes inputs some of whose channels are `outlier` times as large. */
static void make_inputs(Inputs *inputs, float outlier, uint64_t seed) {
    uint64_t random = seed;

    for (size_t i = 0; i < ROWS * K; i++)
        inputs->x[i] = test_random_normal(&random) * (i % K % 50 == 7 ? outlier : 1);
    for (size_t l = 0; l < 2; l++) {
        for (size_t i = 0; i < N * K; i++)
            inputs->w[l][i] = test_random_normal(&random) * (l ? 5 : 1);
        inputs->linears[l] = (SmoothingLinear){ inputs->w[l], l ? N : N - 60, NULL };
    }
    memset(inputs->maxima, 0, sizeof(inputs->maxima));
    smoothing_maxima(inputs->x, ROWS, K, inputs->maxima);
    inputs->group = (SmoothingGroup){ inputs->x, ROWS, K, inputs->maxima, inputs->linears, 2, 8, GRID_UNIFORM, true };
}

static double error_at(const Inputs *inputs, double alpha) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    float factors[K];
    double error = -1;

    assert_int_equal(worker_pool_new(&pool, 1), 0);
    smoothing_factors(inputs->maxima, K, alpha, factors);
    assert_int_equal(smoothing_error(&inputs->group, factors, pool, &error), 0);
    return error;
}

static void test_smoothing_search(void **state) {
    static Inputs inputs;
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    float factors[K], expected[K];
    double alpha, best;

    assert_int_equal(worker_pool_new(&pool, 2), 0);
    for (int wide = 0; wide < 2; wide++) {
        make_inputs(&inputs, wide ? 60 : 1, 7);
        assert_int_equal(smoothing_search(&inputs.group, pool, &alpha, factors), 0);
        best = error_at(&inputs, alpha);
        for (int step = 0; step <= SMOOTHING_ALPHA_STEPS; step++)
            assert_true(error_at(&inputs, (double)step / SMOOTHING_ALPHA_STEPS) >= best);
        smoothing_factors(inputs.maxima, K, alpha, expected);
        assert_memory_equal(factors, expected, sizeof(factors));
        print_message("outliers of %d: alpha %.2f, error %.2e instead of %.2e\n", wide ? 60 : 1, alpha, best,
                      error_at(&inputs, 0));
        assert_true(wide ? alpha > 0.2 && best < 0.5 * error_at(&inputs, 0) : best > 0.7 * error_at(&inputs, 0));
    }
}

/* The error of 8 and 8 bits is small, falls with every bit, and equals that of a product computed in float64. */
static void test_smoothing_error_value(void **state) {
    static Inputs inputs;
    static int8_t bits[N];
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    float ones[K];
    double last = 1, error;

    assert_int_equal(worker_pool_new(&pool, 1), 0);
    make_inputs(&inputs, 1, 8);
    for (size_t i = 0; i < K; i++)
        ones[i] = 1;
    for (int b = 1; b <= 8; b++) {
        inputs.group.average_bits = b;
        assert_int_equal(smoothing_error(&inputs.group, ones, pool, &error), 0);
        assert_true(error < last * 0.6);
        last = error;
        memset(bits, b, sizeof(bits));
        inputs.linears[0].bits = inputs.linears[1].bits = bits; /* equal for all: the channels are alike */
        assert_int_equal(smoothing_error(&inputs.group, ones, pool, &error), 0);
        assert_true(fabs(error / last - 1) < 0.35);
        inputs.linears[0].bits = inputs.linears[1].bits = NULL;
    }
    /* at 8 bits: weights off by a third of half a step each way, activations as well */
    assert_true(last > 2e-5 && last < 4e-4);
}

/* The result's bits do not depend on the number of threads. */
static void test_smoothing_threads(void **state) {
    static Inputs inputs;
    float expected[K], factors[K];
    double expected_alpha = 0, alpha;

    make_inputs(&inputs, 30, 9);
    inputs.group.average_bits = 4.3;
    for (unsigned int n = 1; n <= 5; n++) {
        _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
        static double expected_error;
        double error;

        assert_int_equal(worker_pool_new(&pool, n), 0);
        assert_int_equal(smoothing_search(&inputs.group, pool, &alpha, factors), 0);
        assert_int_equal(smoothing_error(&inputs.group, factors, pool, &error), 0);
        if (n == 1) {
            memcpy(expected, factors, sizeof(factors));
            expected_alpha = alpha;
            expected_error = error;
        }
        assert_memory_equal(factors, expected, sizeof(factors));
        assert_memory_equal(&alpha, &expected_alpha, sizeof(alpha));
        assert_memory_equal(&error, &expected_error, sizeof(error));
    }
}

static void test_smoothing_edges(void **state) {
    static Inputs inputs;
    static int8_t bits[N];
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    float factors[K], one[1] = { 3 }, zero[4] = { 0 };
    const float nan_x[1] = { NAN };
    SmoothingLinear single = { one, 1, NULL };
    SmoothingGroup group = { one, 1, 1, one, &single, 1, 8, GRID_UNIFORM, true };
    double alpha = 77, error = 77;

    assert_int_equal(worker_pool_new(&pool, 2), 0);
    assert_int_equal(smoothing_search(&group, pool, &alpha, factors), 0); /* one weight, one row */
    assert_true(alpha == 0 && factors[0] == 1);
    assert_int_equal(smoothing_error(&group, factors, pool, &error), 0);
    assert_true(error < 1e-12);
    group.x = group.maxima = zero;
    assert_int_equal(smoothing_search(&group, pool, &alpha, factors), 0); /* nothing but zeros */
    assert_true(alpha == 0 && factors[0] == 1);

    alpha = error = 77;
    group.x = nan_x;
    assert_int_equal(smoothing_search(&group, pool, &alpha, factors), SMOOTHING_E_NOT_FINITE);
    make_inputs(&inputs, 1, 10);
    inputs.w[1][5] = INFINITY;
    assert_int_equal(smoothing_search(&inputs.group, pool, &alpha, factors), SMOOTHING_E_NOT_FINITE);
    make_inputs(&inputs, 1, 10);
    inputs.group.average_bits = 0.5;
    assert_int_equal(smoothing_search(&inputs.group, pool, &alpha, factors), -EINVAL);
    inputs.group.average_bits = 8;
    inputs.group.rows = 0;
    assert_int_equal(smoothing_search(&inputs.group, pool, &alpha, factors), -EINVAL);
    inputs.group.rows = ROWS;
    inputs.group.n_linears = 0;
    assert_int_equal(smoothing_error(&inputs.group, factors, pool, &error), -EINVAL);
    inputs.group.n_linears = 8;
    assert_int_equal(smoothing_error(&inputs.group, factors, pool, &error), -EINVAL);
    inputs.group.n_linears = 2;
    inputs.linears[0].bits = bits; /* widths of 0 */
    assert_int_equal(smoothing_error(&inputs.group, factors, pool, &error), -EINVAL);
    inputs.linears[0].bits = NULL;
    inputs.group.k = SMOOTHING_INPUTS_MAX + 1;
    assert_int_equal(smoothing_error(&inputs.group, factors, pool, &error), -EINVAL);
    assert_true(alpha == 77 && error == 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smoothing_factors), cmocka_unit_test(test_smoothing_factors_accuracy),
        cmocka_unit_test(test_smoothing_maxima),  cmocka_unit_test(test_smoothing_keeps_function),
        cmocka_unit_test(test_smoothing_search),  cmocka_unit_test(test_smoothing_error_value),
        cmocka_unit_test(test_smoothing_threads), cmocka_unit_test(test_smoothing_edges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
