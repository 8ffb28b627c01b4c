// SPDX-License-Identifier: Apache-2.0
#include "tools/train/exit_ridge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "quant/rounding/blas.h"

#define PIECE 64 /* rows of a matrix in one call of the library */

int exit_ridge_init(ExitRidge *ridge, WorkerPool *pool, size_t n_embd, ErrText *err) {
    int r = blas_load(err);

    if (r)
        return r;
    *ridge = (ExitRidge){ .pool = pool,
                          .n_embd = n_embd,
                          .squares = calloc(n_embd, n_embd * sizeof(float)),
                          .products = calloc(n_embd, n_embd * sizeof(float)),
                          .states = calloc(n_embd, sizeof(double)),
                          .differences = calloc(n_embd, sizeof(double)) };
    if (ridge->squares && ridge->products && ridge->states && ridge->differences)
        return 0;
    exit_ridge_deinit(ridge);
    return err_no_memory(err);
}

void exit_ridge_deinit(ExitRidge *ridge) {
    free(ridge->squares);
    free(ridge->products);
    free(ridge->states);
    free(ridge->differences);
    *ridge = (ExitRidge){ 0 };
}

/* Computes c[from, to) += alpha a^T[from, to) b, with a, b f32[n][k]. */
typedef struct Moments {
    const float *a, *b;
    size_t n, k;
    float alpha;
    float *c;
} Moments;

static void add_moments(void *arg, size_t begin, size_t end, unsigned int worker) {
    const Moments *moments = arg;

    for (size_t at = begin; at < end; at += PIECE)
        blas_product(&(BlasProduct){ .m = MIN(end - at, PIECE),
                                     .n = moments->k,
                                     .k = moments->n,
                                     .transpose_a = true,
                                     .alpha = moments->alpha,
                                     .beta = 1,
                                     .a = moments->a + at,
                                     .a_stride = moments->k,
                                     .b = moments->b,
                                     .b_stride = moments->k,
                                     .c = moments->c + at * moments->k,
                                     .c_stride = moments->k });
}

void exit_ridge_add(ExitRidge *ridge, const float *states, const float *targets, size_t n) {
    const size_t k = ridge->n_embd;
    Moments moments = { .a = states, .b = states, .n = n, .k = k, .alpha = 1, .c = ridge->squares };

    worker_pool_run(ridge->pool, add_moments, &moments, k, PIECE);
    moments.a = targets;
    moments.c = ridge->products;
    worker_pool_run(ridge->pool, add_moments, &moments, k, PIECE);
    moments.a = states;
    moments.alpha = -1;
    worker_pool_run(ridge->pool, add_moments, &moments, k, PIECE);
    for (size_t row = 0; row < n; row++)
        for (size_t i = 0; i < k; i++) {
            ridge->states[i] += (double)states[row * k + i];
            ridge->differences[i] += (double)targets[row * k + i] - (double)states[row * k + i];
        }
    ridge->n += n;
}

typedef struct Solve {
    const float *factor;
    float *map;
    size_t k;
} Solve;

static void solve_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const Solve *solve = arg;

    for (size_t at = begin; at < end; at += PIECE) {
        const size_t m = MIN(end - at, PIECE);

        blas_solve_lower(solve->factor, solve->k, solve->map + at * solve->k, m, solve->k, solve->k);
        blas_solve_lower_back(solve->factor, solve->k, solve->map + at * solve->k, m, solve->k, solve->k);
    }
}

/* Turns the moments into those about the means; returns their trace. */
static double centre(const ExitRidge *ridge, float *squares, float *products) {
    const size_t k = ridge->n_embd;
    const double n = (double)ridge->n;
    double trace = 0;

    for (size_t i = 0; i < k; i++) {
        for (size_t j = 0; j < k; j++) {
            squares[i * k + j] = (float)((double)ridge->squares[i * k + j] - ridge->states[i] * ridge->states[j] / n);
            products[i * k + j] =
                (float)((double)ridge->products[i * k + j] - ridge->differences[i] * ridge->states[j] / n);
        }
        trace += (double)squares[i * k + i];
    }
    return trace;
}

int exit_ridge_solve(const ExitRidge *ridge, float strength, float *map, float *bias, ErrText *err) {
    const size_t k = ridge->n_embd;
    _cleanup_(freep) float *squares = malloc(k * k * sizeof(float));
    Solve solve = { .factor = squares, .map = map, .k = k };
    double trace;

    if (!squares)
        return err_no_memory(err);
    if (!ridge->n)
        return err_set(err, -EDOM, "there is nothing to learn from");
    trace = centre(ridge, squares, map);
    for (size_t i = 0; i < k; i++)
        squares[i * k + i] += strength * (float)(trace / (double)k) + 1e-6F;
    if (!blas_cholesky(squares, k, k))
        return err_set(err, -EDOM, "the hidden states are too much alike: more text is needed");
    worker_pool_run(ridge->pool, solve_rows, &solve, k, PIECE);
    for (size_t i = 0; i < k; i++) {
        double sum = ridge->differences[i];

        for (size_t j = 0; j < k; j++)
            sum -= (double)map[i * k + j] * ridge->states[j];
        bias[i] = (float)(sum / (double)ridge->n);
        map[i * k + i] += 1;
    }
    return 0;
}

typedef struct Apply {
    const float *map, *bias, *x;
    size_t k, n;
    float *y;
} Apply;

static void apply_columns(void *arg, size_t begin, size_t end, unsigned int worker) {
    const Apply *apply = arg;

    for (size_t at = begin; at < end; at += PIECE) {
        const size_t n = MIN(end - at, PIECE);

        blas_product(&(BlasProduct){ .m = apply->n,
                                     .n = n,
                                     .k = apply->k,
                                     .transpose_b = true,
                                     .alpha = 1,
                                     .a = apply->x,
                                     .a_stride = apply->k,
                                     .b = apply->map + at * apply->k,
                                     .b_stride = apply->k,
                                     .c = apply->y + at,
                                     .c_stride = apply->k });
        for (size_t row = 0; row < apply->n; row++)
            for (size_t i = at; i < at + n; i++)
                apply->y[row * apply->k + i] += apply->bias[i];
    }
}

void exit_map_apply(WorkerPool *pool, const float *map, const float *bias, size_t n_embd, const float *x, size_t n,
                    float *y) {
    Apply apply = { map, bias, x, n_embd, n, y };

    worker_pool_run(pool, apply_columns, &apply, n_embd, PIECE);
}
