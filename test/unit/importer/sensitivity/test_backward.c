// SPDX-License-Identifier: Apache-2.0
/* Tests gradients of the operators and of the answers, against differences of the operators in double precision. */
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
#include "base/err.h"
#include "importer/sensitivity/answer_gradient.h"
#include "importer/sensitivity/backward.h"
#include "quant/rounding/blas.h"
#include "test/unit/fixtures/model_maker.h"

#define MOST 4096

/* A function of values. The gradient is that of the sum of its outputs times weights. */
typedef struct Function {
    double (*loss)(const struct Function *function, const double *x);
    const float *weights; /* weights of the outputs */
    const float *other;   /* constants of the function */
    size_t rows, n;
    bool flag;
} Function;

static uint64_t seed;

static float random_value(void) {
    return (float)(test_random(&seed) % 20001) / 10000 - 1;
}

static void fill(float *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        values[i] = random_value();
}

/* Compares the gradient f32[n] with central differences, in parts of its largest value. */
static void check(const Function *function, const float *x, size_t n, const float *gradient) {
    static double at[MOST];
    double largest = 0, worst = 0;

    assert_true(n <= MOST);
    for (size_t i = 0; i < n; i++)
        at[i] = (double)x[i];
    for (size_t i = 0; i < n; i++) {
        const double step = 1e-5, middle = at[i];
        double high, low, expected;

        at[i] = middle + step;
        high = function->loss(function, at);
        at[i] = middle - step;
        low = function->loss(function, at);
        at[i] = middle;
        expected = (high - low) / (2 * step);
        largest = fmax(largest, fabs(expected));
        worst = fmax(worst, fabs(expected - (double)gradient[i]));
    }
    assert_true(largest > 1e-3);
    assert_true(worst < 2e-5 * largest);
}

/* --- norm, rotary positions, gate --------------------------------------------------------------------------------- */

static double norm_loss(const Function *f, const double *x) {
    double loss = 0;

    for (size_t row = 0; row < f->rows; row++) {
        double squares = 0;

        for (size_t i = 0; i < f->n; i++)
            squares += x[row * f->n + i] * x[row * f->n + i];
        for (size_t i = 0; i < f->n; i++)
            loss += x[row * f->n + i] / sqrt(squares / (double)f->n + 1e-2) * (double)f->other[i] *
                    (double)f->weights[row * f->n + i];
    }
    return loss;
}

static void test_norm(void **state) {
    enum {
        ROWS = 5,
        N = 24
    };
    float x[ROWS * N], w[N], d[ROWS * N], weights[ROWS * N];
    Function function = { norm_loss, weights, w, ROWS, N, false };

    fill(x, ROWS * N);
    fill(w, N);
    fill(weights, ROWS * N);
    memcpy(d, weights, sizeof(d));
    backward_norm(x, w, 1e-2f, ROWS, N, d, *state);
    check(&function, x, ROWS * N, d);
}

static double layer_norm_loss(const Function *f, const double *x) {
    double loss = 0;

    for (size_t row = 0; row < f->rows; row++, x += f->n) {
        double mean = 0, squares = 0;

        for (size_t i = 0; i < f->n; i++)
            mean += x[i] / (double)f->n;
        for (size_t i = 0; i < f->n; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        for (size_t i = 0; i < f->n; i++)
            loss += (x[i] - mean) / sqrt(squares / (double)f->n + 1e-2) * (double)f->other[i] *
                    (double)f->weights[row * f->n + i];
    }
    return loss;
}

static void test_layer_norm(void **state) {
    enum {
        ROWS = 5,
        N = 24
    };
    float x[ROWS * N], w[N], d[ROWS * N], weights[ROWS * N];
    Function function = { layer_norm_loss, weights, w, ROWS, N, false };

    fill(x, ROWS * N);
    fill(w, N);
    fill(weights, ROWS * N);
    memcpy(d, weights, sizeof(d));
    backward_layer_norm(x, w, 1e-2f, ROWS, N, d, *state);
    check(&function, x, ROWS * N, d);
}

/* flag: GELU */
static double activation_loss(const Function *f, const double *x) {
    double loss = 0;

    for (size_t i = 0; i < f->n; i++) {
        const double y = f->flag ? 0.5 * x[i] * (1 + tanh(0.79788456080286536 * (x[i] + 0.044715 * x[i] * x[i] * x[i])))
                                 : x[i] / (1 + exp(-x[i]));

        loss += y * (double)f->weights[i];
    }
    return loss;
}

static void test_activation(void **state) {
    enum {
        N = 90
    };
    float x[N], d[N], weights[N];

    for (int gelu = 0; gelu < 2; gelu++) {
        Function function = { activation_loss, weights, NULL, 1, N, gelu };

        fill(x, N);
        fill(weights, N);
        memcpy(d, weights, sizeof(d));
        backward_activation(x, N, gelu, d, *state);
        check(&function, x, N, d);
    }
}

enum {
    ROPE_ROWS = 3,
    ROPE_HEADS = 2,
    ROPE_HEAD = 16,
    ROPE_ROT = 12,
    ROPE_N = ROPE_ROWS * ROPE_HEADS * ROPE_HEAD
};

/* other: angles f32[rows][n_rot / 2] */
static double rope_loss(const Function *f, const double *x) {
    double loss = 0;

    for (size_t i = 0; i < ROPE_N; i++) {
        size_t row = i / ROPE_HEAD / ROPE_HEADS, at = i % ROPE_HEAD, half = ROPE_ROT / 2;
        size_t pair = f->flag ? at % half : at / 2, partner = f->flag ? (at + half) % ROPE_ROT : at ^ 1;
        bool second = f->flag ? at >= half : at % 2;
        double y = x[i];

        if (at < ROPE_ROT) {
            double angle = (double)f->other[row * half + pair];

            y = x[i] * cos(angle) + (second ? 1 : -1) * x[i - at + partner] * sin(angle);
        }
        loss += y * (double)f->weights[i];
    }
    return loss;
}

static void test_rope(void **state) {
    float x[ROPE_N], d[ROPE_N], weights[ROPE_N], angles[ROPE_ROWS * ROPE_ROT / 2], c[ROPE_ROWS * ROPE_ROT / 2],
        s[ROPE_ROWS * ROPE_ROT / 2];

    fill(x, ROPE_N);
    fill(weights, ROPE_N);
    for (size_t i = 0; i < ARRAY_LEN(angles); i++) {
        angles[i] = 3 * random_value();
        c[i] = cosf(angles[i]);
        s[i] = sinf(angles[i]);
    }
    for (int neox = 0; neox < 2; neox++) {
        Function function = { rope_loss, weights, angles, ROPE_ROWS, 0, neox };

        memcpy(d, weights, sizeof(d));
        backward_rope(d, c, s, ROPE_ROWS, ROPE_HEADS, ROPE_HEAD, ROPE_ROT, neox);
        check(&function, x, ROPE_N, d);
    }
}

/* x: gates, then ups */
static double gated_loss(const Function *f, const double *x) {
    double loss = 0;

    for (size_t i = 0; i < f->n; i++) {
        double g = x[i],
               value = f->flag ? 0.5 * g * (1 + tanh(sqrt(2 / M_PI) * (g + 0.044715 * g * g * g))) : g / (1 + exp(-g));

        loss += value * x[f->n + i] * (double)f->weights[i];
    }
    return loss;
}

static void test_gated(void **state) {
    enum {
        N = 200
    };
    float x[2 * N], d[2 * N], weights[N];

    fill(x, 2 * N);
    fill(weights, N);
    for (size_t i = 0; i < N; i++)
        x[i] *= 6;
    for (int gelu = 0; gelu < 2; gelu++) {
        Function function = { gated_loss, weights, NULL, 1, N, gelu };

        memcpy(d, weights, sizeof(weights));
        backward_gated(x, x + N, N, gelu, d, d + N, *state);
        check(&function, x, 2 * N, d);
    }
}

static void test_linear(void **state) {
    enum {
        ROWS = 131,
        N = 7,
        K = 9
    }; /* whole pieces of work and a rest */
    float dy[ROWS * N], w[N * K], dx[ROWS * K];

    fill(dy, ROWS * N);
    fill(w, N * K);
    for (size_t i = 0; i < ROWS * K; i++)
        dx[i] = 1;
    backward_linear(dy, w, ROWS, N, K, dx, *state);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t i = 0; i < K; i++) {
            double expected = 1; /* it adds */

            for (size_t j = 0; j < N; j++)
                expected += (double)dy[row * N + j] * (double)w[j * K + i];
            assert_true(fabs(expected - (double)dx[row * K + i]) < 1e-5);
        }
}

/* --- attention ---------------------------------------------------------------------------------------------------- */

enum {
    WINDOWS = 2,
    WINDOW = 9,
    HEADS = 4,
    KV_HEADS = 2,
    HEAD = 8,
    ROWS = WINDOWS * WINDOW,
    Q_LEN = ROWS * HEADS * HEAD,
    KV_LEN = ROWS * KV_HEADS * HEAD,
};

#define SCALE 0.7

static double soft_cap; /* 0: none */

/* x: queries, keys, values; n: positions seen */
static double attention_loss(const Function *f, const double *x) {
    const double *k = x + Q_LEN, *v = k + KV_LEN;
    double loss = 0;

    for (size_t row = 0; row < ROWS; row++)
        for (size_t head = 0; head < HEADS; head++) {
            size_t window = row / WINDOW * WINDOW, kv = head / (HEADS / KV_HEADS) * HEAD;
            size_t first = f->n && row - window + 1 > f->n ? row + 1 - f->n : window;
            double sum = 0, out[HEAD] = { 0 };

            for (size_t at = first; at <= row; at++) {
                double score = 0;

                for (size_t i = 0; i < HEAD; i++)
                    score += x[(row * HEADS + head) * HEAD + i] * k[at * KV_HEADS * HEAD + kv + i];
                score *= SCALE;
                score = exp(soft_cap > 0 ? soft_cap * tanh(score / soft_cap) : score);
                sum += score;
                for (size_t i = 0; i < HEAD; i++)
                    out[i] += score * v[at * KV_HEADS * HEAD + kv + i];
            }
            for (size_t i = 0; i < HEAD; i++)
                loss += out[i] / sum * (double)f->weights[(row * HEADS + head) * HEAD + i];
        }
    return loss;
}

static void test_attention(void **state) {
    static float x[Q_LEN + 2 * KV_LEN], d[Q_LEN + 2 * KV_LEN], weights[Q_LEN];

    fill(x, ARRAY_LEN(x));
    fill(weights, Q_LEN);
    for (size_t i = 0; i < 10; i++) {
        const size_t sees = i / 2 * 4;
        Function function = { attention_loss, weights, NULL, ROWS, sees, false };
        BackwardAttention call = {
            .q = x,
            .k = x + Q_LEN,
            .v = x + Q_LEN + KV_LEN,
            .d_q = d,
            .d_k = d + Q_LEN,
            .d_v = d + Q_LEN + KV_LEN,
            .n_windows = WINDOWS,
            .window = WINDOW,
            .n_heads = HEADS,
            .n_kv_heads = KV_HEADS,
            .head_size = HEAD,
            .sees = sees,
            .scale = (float)SCALE,
            .soft_cap = i % 2 ? 1.5f : 0,
        };

        soft_cap = (double)call.soft_cap;
        for (size_t j = 0; j < ARRAY_LEN(d); j++)
            d[j] = 7; /* must be overwritten */
        memcpy(d, weights, sizeof(weights));
        assert_int_equal(backward_attention(&call, *state), 0);
        check(&function, x, ARRAY_LEN(x), d);
    }
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* Over many signs the mean square of the directions is the Fisher matrix of the softmax. */
static void test_answer_direction(void **state) {
    enum {
        N = 5,
        SEEDS = 40000
    };
    const float logits[N] = { 1.5f, -0.5f, 0, 2, -3 };
    double p[N], sum = 0, moments[N][N] = { 0 };

    for (size_t i = 0; i < N; i++)
        sum += p[i] = exp((double)logits[i]);
    for (uint64_t s = 0; s < SEEDS; s++) {
        float z[N];
        double total = 0;

        memcpy(z, logits, sizeof(z));
        answer_direction(z, N, s);
        for (size_t i = 0; i < N; i++) {
            total += (double)z[i];
            for (size_t j = 0; j < N; j++)
                moments[i][j] += (double)z[i] * (double)z[j] / SEEDS;
        }
        assert_true(fabs(total) < 1e-6); /* a shift of all logits changes no answer */
    }
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            assert_true(fabs(moments[i][j] - ((i == j ? p[i] / sum : 0) - p[i] * p[j] / sum / sum)) < 0.004);
}

static int setup(void **state) {
    WorkerPool *pool;
    ErrText err;

    if (worker_pool_new(&pool, 2) || blas_load(&err))
        return -1;
    *state = pool;
    return 0;
}

static int teardown(void **state) {
    worker_pool_free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer_norm), cmocka_unit_test(test_activation),
        cmocka_unit_test(test_norm),       cmocka_unit_test(test_rope),
        cmocka_unit_test(test_gated),      cmocka_unit_test(test_linear),
        cmocka_unit_test(test_attention),  cmocka_unit_test(test_answer_direction),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
