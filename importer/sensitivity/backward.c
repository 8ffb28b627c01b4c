// SPDX-License-Identifier: Apache-2.0
#include "importer/sensitivity/backward.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "quant/rounding/blas.h"

/* Rows of a piece of work: fixed, so that every product is called with the same shapes for any number of threads. */
#define PIECE_ROWS 64

typedef struct NormLoop {
    const float *x, *w;
    float eps;
    size_t n;
    float *d;
} NormLoop;

static void norm_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const NormLoop *loop = arg;
    size_t n = loop->n;

    for (size_t row = begin; row < end; row++) {
        const float *x = loop->x + row * n;
        float *d = loop->d + row * n;
        double squares = 0, product = 0;

        for (size_t i = 0; i < n; i++) {
            squares += (double)x[i] * (double)x[i];
            product += (double)x[i] * (double)d[i] * (double)loop->w[i];
        }
        double inverse = 1 / sqrt(squares / (double)n + (double)loop->eps);
        float scale = (float)inverse, along = (float)(product * inverse * inverse * inverse / (double)n);

        for (size_t i = 0; i < n; i++)
            d[i] = scale * loop->w[i] * d[i] - along * x[i];
    }
}

void backward_norm(const float *x, const float *w, float eps, size_t rows, size_t n, float *dy, WorkerPool *pool) {
    NormLoop loop = { x, w, eps, n, dy };

    worker_pool_run(pool, norm_rows, &loop, rows, 1);
}

/* With u = (x - mean) inverse and g = dy w: dx = inverse (g - mean(g) - u mean(g u)). */
static void layer_norm_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const NormLoop *loop = arg;
    const size_t n = loop->n;

    for (size_t row = begin; row < end; row++) {
        const float *x = loop->x + row * n;
        float *d = loop->d + row * n;
        double mean = 0, squares = 0, gradient = 0, along = 0, inverse;

        for (size_t i = 0; i < n; i++)
            mean += (double)x[i] / (double)n;
        for (size_t i = 0; i < n; i++) {
            const double u = (double)x[i] - mean, g = (double)d[i] * (double)loop->w[i];

            squares += u * u;
            gradient += g;
            along += g * u;
        }
        inverse = 1 / sqrt(squares / (double)n + (double)loop->eps);
        gradient /= (double)n;
        along *= inverse * inverse / (double)n;
        for (size_t i = 0; i < n; i++)
            d[i] = (float)(inverse * ((double)d[i] * (double)loop->w[i] - gradient - ((double)x[i] - mean) * along));
    }
}

void backward_layer_norm(const float *x, const float *w, float eps, size_t rows, size_t n, float *dy,
                         WorkerPool *pool) {
    NormLoop loop = { x, w, eps, n, dy };

    worker_pool_run(pool, layer_norm_rows, &loop, rows, 1);
}

void backward_rope(float *d, const float *cos, const float *sin, size_t rows, size_t n_heads, size_t head_size,
                   size_t n_rot, bool neox) {
    size_t half = n_rot / 2, apart = neox ? half : 1, step = neox ? 1 : 2;

    for (size_t head = 0; head < rows * n_heads; head++, d += head_size) {
        const float *c = cos + head / n_heads * half, *s = sin + head / n_heads * half;

        for (size_t i = 0; i < half; i++) {
            float *a = &d[i * step], *b = a + apart, first = *a;

            *a = first * c[i] + *b * s[i];
            *b = *b * c[i] - first * s[i];
        }
    }
}

typedef struct GatedLoop {
    const float *gate, *up;
    bool gelu;
    float *d_gate, *d_up;
} GatedLoop;

static void activation_at(float x, bool gelu, float *valuep, float *slopep) {
    if (gelu) {
        const float a = 0.7978845608f, b = 0.044715f; /* sqrt(2 / pi) and the cubic of the tanh form */
        const float t = tanhf(a * (x + b * x * x * x));

        *valuep = 0.5f * x * (1 + t);
        *slopep = 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * a * (1 + 3 * b * x * x);
    } else {
        const float sigmoid = 1 / (1 + expf(-x));

        *valuep = x * sigmoid;
        *slopep = sigmoid * (1 + x * (1 - sigmoid));
    }
}

static void gated_values(void *arg, size_t begin, size_t end, unsigned int worker) {
    const GatedLoop *loop = arg;

    for (size_t i = begin; i < end; i++) {
        float d = loop->d_gate[i], value, slope;

        activation_at(loop->gate[i], loop->gelu, &value, &slope);
        loop->d_up[i] = d * value;
        loop->d_gate[i] = d * loop->up[i] * slope;
    }
}

static void activation_values(void *arg, size_t begin, size_t end, unsigned int worker) {
    const GatedLoop *loop = arg;

    for (size_t i = begin; i < end; i++) {
        float value, slope;

        activation_at(loop->gate[i], loop->gelu, &value, &slope);
        loop->d_gate[i] *= slope;
    }
}

void backward_activation(const float *x, size_t n, bool gelu, float *d, WorkerPool *pool) {
    GatedLoop loop = { .gate = x, .gelu = gelu, .d_gate = d };

    worker_pool_run(pool, activation_values, &loop, n, 1024);
}

void backward_gated(const float *gate, const float *up, size_t n, bool gelu, float *d_gate, float *d_up,
                    WorkerPool *pool) {
    GatedLoop loop = { gate, up, gelu, d_gate, d_up };

    worker_pool_run(pool, gated_values, &loop, n, 1024);
}

typedef struct LinearLoop {
    const float *dy, *w;
    size_t rows, n, k;
    float *dx;
} LinearLoop;

static void linear_pieces(void *arg, size_t begin, size_t end, unsigned int worker) {
    const LinearLoop *loop = arg;

    for (size_t first = begin * PIECE_ROWS; first < end * PIECE_ROWS && first < loop->rows; first += PIECE_ROWS)
        blas_product(&(BlasProduct){
            .m = MIN(loop->rows - first, PIECE_ROWS),
            .n = loop->k,
            .k = loop->n,
            .alpha = 1,
            .beta = 1,
            .a = loop->dy + first * loop->n,
            .b = loop->w,
            .c = loop->dx + first * loop->k,
            .a_stride = loop->n,
            .b_stride = loop->k,
            .c_stride = loop->k,
        });
}

void backward_linear(const float *dy, const float *w, size_t rows, size_t n, size_t k, float *dx, WorkerPool *pool) {
    LinearLoop loop = { dy, w, rows, n, k, dx };

    worker_pool_run(pool, linear_pieces, &loop, (rows + PIECE_ROWS - 1) / PIECE_ROWS, 1);
}

/* --- attention ---------------------------------------------------------------------------------------------------- */

typedef struct AttentionLoop {
    const BackwardAttention *call;
    size_t n_squares; /* scratch of a thread: probabilities, their gradients, and with a soft cap its slopes */
    float *scratch;   /* f32[n_threads][n_squares][window][window] */
} AttentionLoop;

/* Caps the scores, and stores the slopes of the cap. */
static void cap_square(float *scores, float *slopes, size_t n, float cap) {
    for (size_t i = 0; i < n; i++) {
        const float t = tanhf(scores[i] / cap);

        scores[i] = cap * t;
        slopes[i] = 1 - t * t;
    }
}

/* Turns row t of the scores into probabilities; positions that the query does not see get 0. */
static void softmax_row(float *scores, size_t t, size_t window, size_t sees) {
    size_t first = sees && t + 1 > sees ? t + 1 - sees : 0;
    float largest = scores[first];
    double sum = 0;

    for (size_t i = first; i <= t; i++)
        largest = MAX(scores[i], largest);
    for (size_t i = first; i <= t; i++)
        sum += (double)(scores[i] = expf(scores[i] - largest));
    for (size_t i = 0; i < window; i++)
        scores[i] = i < first || i > t ? 0 : scores[i] / (float)sum;
}

/* Computes one head in one window. Gradients are added to those of k and v, which the heads of a group share. */
static void attention_head(const BackwardAttention *call, size_t row, size_t head, float *p, float *d_p,
                           float *slopes) {
    const size_t size = call->head_size, t_n = call->window, q_stride = call->n_heads * size,
                 kv_stride = call->n_kv_heads * size, kv_head = head / (call->n_heads / call->n_kv_heads);
    const float *q = call->q + row * q_stride + head * size, *k = call->k + row * kv_stride + kv_head * size,
                *v = call->v + row * kv_stride + kv_head * size;
    float *d_q = call->d_q + row * q_stride + head * size, *d_k = call->d_k + row * kv_stride + kv_head * size,
          *d_v = call->d_v + row * kv_stride + kv_head * size;
    BlasProduct outer = { .m = t_n, .n = t_n, .k = size, .transpose_b = true, .c_stride = t_n };
    BlasProduct inner = { .m = t_n, .n = size, .k = t_n, .a_stride = t_n };

    outer.alpha = call->scale, outer.a = q, outer.a_stride = q_stride, outer.b = k, outer.b_stride = kv_stride;
    outer.c = p;
    blas_product(&outer);
    if (call->soft_cap > 0)
        cap_square(p, slopes, t_n * t_n, call->soft_cap);
    for (size_t t = 0; t < t_n; t++)
        softmax_row(p + t * t_n, t, t_n, call->sees);
    outer.alpha = 1, outer.a = d_q, outer.b = v, outer.c = d_p;
    blas_product(&outer);
    /* d_v += p^T dy, while d_q still holds dy. */
    inner.transpose_a = true, inner.alpha = 1, inner.beta = 1, inner.a = p, inner.b = d_q, inner.b_stride = q_stride;
    inner.c = d_v, inner.c_stride = kv_stride;
    blas_product(&inner);
    for (size_t t = 0; t < t_n; t++) {
        double mean = 0;

        for (size_t i = 0; i <= t; i++)
            mean += (double)p[t * t_n + i] * (double)d_p[t * t_n + i];
        for (size_t i = 0; i < t_n; i++)
            d_p[t * t_n + i] = p[t * t_n + i] * (d_p[t * t_n + i] - (float)mean);
    }
    for (size_t i = 0; call->soft_cap > 0 && i < t_n * t_n; i++)
        d_p[i] *= slopes[i];
    inner.alpha = call->scale, inner.a = d_p, inner.b = q, inner.c = d_k;
    blas_product(&inner);
    inner.transpose_a = false, inner.beta = 0, inner.b = k, inner.b_stride = kv_stride, inner.c = d_q;
    inner.c_stride = q_stride;
    blas_product(&inner);
}

/* Computes pieces of work: a key-value head in a window, with its group of heads one after the other. */
static void attention_groups(void *arg, size_t begin, size_t end, unsigned int worker) {
    const AttentionLoop *loop = arg;
    const BackwardAttention *call = loop->call;
    const size_t square = call->window * call->window, group = call->n_heads / call->n_kv_heads;
    float *p = loop->scratch + worker * loop->n_squares * square;

    for (size_t item = begin; item < end; item++) {
        size_t row = item / call->n_kv_heads * call->window, kv_head = item % call->n_kv_heads;

        for (size_t head = kv_head * group; head < (kv_head + 1) * group; head++)
            attention_head(call, row, head, p, p + square, p + 2 * square);
    }
}

/**
 * backward_attention() - compute the gradients of queries, keys and values
 *
 * The probabilities are computed again for every head and window. Scratch of a thread: two or three matrices
 * f32[window][window].
 * Return: 0 or -ENOMEM.
 */
int backward_attention(const BackwardAttention *call, WorkerPool *pool) {
    size_t kv_len = call->n_windows * call->window * call->n_kv_heads * call->head_size;
    const size_t n_squares = call->soft_cap > 0 ? 3 : 2;
    _cleanup_(freep) float *scratch =
        malloc(worker_pool_n_threads(pool) * n_squares * call->window * call->window * sizeof(*scratch));
    AttentionLoop loop = { call, n_squares, scratch };

    if (!scratch)
        return -ENOMEM;
    memset(call->d_k, 0, kv_len * sizeof(*call->d_k));
    memset(call->d_v, 0, kv_len * sizeof(*call->d_v));
    worker_pool_run(pool, attention_groups, &loop, call->n_windows * call->n_kv_heads, 1);
    return 0;
}
