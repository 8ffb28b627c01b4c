// SPDX-License-Identifier: Apache-2.0
#include "quant/rounding/hessian.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "quant/rotate.h"
#include "quant/rounding/blas.h"

/* The side of a tile of H: large enough for product kernels, small enough that 2 cores share the work evenly. */
#define TILE 256

static size_t n_tiles(size_t k) {
    return (k + TILE - 1) / TILE;
}

static size_t tile_len(size_t k, size_t tile) {
    return MIN(k - tile * TILE, TILE);
}

/* Computes the index-th pair (i, j) with first <= j <= i. */
static void tile_pair(size_t index, size_t first, size_t *ip, size_t *jp) {
    size_t i = 0;

    while (index > i)
        index -= ++i;
    *ip = first + i;
    *jp = first + index;
}

typedef struct AddLoop {
    float *h;
    const float *x;
    size_t rows, k;
} AddLoop;

static void add_tiles(void *arg, size_t begin, size_t end, unsigned int worker) {
    const AddLoop *loop = arg;
    size_t k = loop->k, i, j;

    for (size_t index = begin; index < end; index++) {
        tile_pair(index, 0, &i, &j);
        blas_product(&(BlasProduct){
            .m = tile_len(k, i),
            .n = tile_len(k, j),
            .k = loop->rows,
            .transpose_a = true,
            .alpha = 1,
            .beta = 1,
            .a = loop->x + i * TILE,
            .b = loop->x + j * TILE,
            .c = loop->h + i * TILE * k + j * TILE,
            .a_stride = k,
            .b_stride = k,
            .c_stride = k,
        });
    }
}

void hessian_add(float *h, const float *x, size_t rows, size_t k, WorkerPool *pool) {
    AddLoop loop = { .h = h, .x = x, .rows = rows, .k = k };

    worker_pool_run(pool, add_tiles, &loop, n_tiles(k) * (n_tiles(k) + 1) / 2, 1);
}

typedef struct ShrinkLoop {
    float *h;
    const float *prior; /* f32[k]: moments within a block, by the exclusive or of two indices */
    size_t k, block;
    float part;
} ShrinkLoop;

static void shrink_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const ShrinkLoop *loop = arg;

    for (size_t i = begin; i < end; i++) {
        size_t first = i / loop->block * loop->block;
        float *row = loop->h + i * loop->k;

        for (size_t j = 0; j <= i; j++)
            row[j] *= 1 - loop->part;
        for (size_t j = first; j <= i; j++)
            row[j] += loop->part * loop->prior[first + ((i - first) ^ (j - first))];
    }
}

/**
 * hessian_shrink() - draw the moments towards those of independent inputs
 *
 * A few thousand rows measure the energy of an input well and its correlations badly. Without shrinking, rounding
 * would compensate errors along directions that only the calibration text has; Ledoit and Wolf 2004 shrink a
 * covariance to a diagonal for the same reason. For inputs rotated by a Hadamard matrix H, entry (i, j) of H D H is
 * the (i xor j)-th value of the transform of D's diagonal.
 *
 * Return: 0 or -ENOMEM.
 */
int hessian_shrink(float *h, const float *energies, size_t k, uint32_t rotation_block, float part, WorkerPool *pool) {
    size_t block = rotation_block ? rotation_block : 1;
    _cleanup_(freep) float *prior = malloc(k * sizeof(*prior));
    ShrinkLoop loop = { h, prior, k, block, part };

    if (!prior)
        return -ENOMEM;
    memcpy(prior, energies, k * sizeof(*prior));
    if (rotation_block) {
        rotate_row(prior, k, rotation_block);
        for (size_t i = 0; i < k; i++)
            prior[i] *= rotate_factor(rotation_block);
    }
    worker_pool_run(pool, shrink_rows, &loop, k, 16);
    return 0;
}

/* --- factor ------------------------------------------------------------------------------------------------------- */

typedef struct ByDiagonal {
    float value;
    uint32_t input;
} ByDiagonal;

static int rising(const void *a, const void *b) {
    const ByDiagonal *x = a, *y = b;

    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->input < y->input ? -1 : x->input > y->input;
}

static int order_by_diagonal(uint32_t *order, const float *h, size_t k, double *meanp) {
    _cleanup_(freep) ByDiagonal *diagonal = malloc(k * sizeof(*diagonal));
    double sum = 0;

    if (!diagonal)
        return -ENOMEM;
    for (size_t i = 0; i < k; i++) {
        diagonal[i] = (ByDiagonal){ h[i * k + i], (uint32_t)i };
        sum += (double)h[i * k + i];
    }
    if (!isfinite(sum) || sum <= 0)
        return HESSIAN_E_SINGULAR;
    qsort(diagonal, k, sizeof(*diagonal), rising);
    for (size_t i = 0; i < k; i++)
        order[i] = diagonal[i].input;
    *meanp = sum / (double)k;
    return 0;
}

typedef struct PermuteLoop {
    const float *h;
    float *to;
    const uint32_t *order;
    size_t k;
} PermuteLoop;

static float moment(const PermuteLoop *loop, size_t i, size_t j) {
    size_t a = loop->order[i], b = loop->order[j];

    return a > b ? loop->h[a * loop->k + b] : loop->h[b * loop->k + a];
}

static void permute_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const PermuteLoop *loop = arg;

    for (size_t i = begin; i < end; i++)
        for (size_t j = 0; j <= i; j++)
            loop->to[i * loop->k + j] = moment(loop, i, j);
}

static void fill_above_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const PermuteLoop *loop = arg;

    for (size_t i = begin; i < end; i++)
        for (size_t j = i + 1; j < loop->k; j++)
            loop->to[i * loop->k + j] = moment(loop, i, j);
}

typedef struct CholeskyLoop {
    float *a;
    size_t k, panel;
} CholeskyLoop;

/* Computes A_ip = A_ip L_pp^-T for the tiles below the panel's diagonal. */
static void solve_tiles(void *arg, size_t begin, size_t end, unsigned int worker) {
    const CholeskyLoop *loop = arg;
    size_t k = loop->k, p = loop->panel;

    for (size_t i = p + 1 + begin; i < p + 1 + end; i++)
        blas_solve_lower(loop->a + p * TILE * k + p * TILE, k, loop->a + i * TILE * k + p * TILE, tile_len(k, i),
                         tile_len(k, p), k);
}

/* Computes A_ij -= A_ip A_jp^T for the tiles right of the panel. */
static void update_tiles(void *arg, size_t begin, size_t end, unsigned int worker) {
    const CholeskyLoop *loop = arg;
    size_t k = loop->k, p = loop->panel, i, j;

    for (size_t index = begin; index < end; index++) {
        tile_pair(index, p + 1, &i, &j);
        blas_product(&(BlasProduct){
            .m = tile_len(k, i),
            .n = tile_len(k, j),
            .k = tile_len(k, p),
            .transpose_b = true,
            .alpha = -1,
            .beta = 1,
            .a = loop->a + i * TILE * k + p * TILE,
            .b = loop->a + j * TILE * k + p * TILE,
            .c = loop->a + i * TILE * k + j * TILE,
            .a_stride = k,
            .b_stride = k,
            .c_stride = k,
        });
    }
}

/* Replaces a by its lower Cholesky factor. */
static int cholesky(float *a, size_t k, WorkerPool *pool) {
    CholeskyLoop loop = { .a = a, .k = k };
    size_t n = n_tiles(k);

    for (loop.panel = 0; loop.panel < n; loop.panel++) {
        size_t below = n - loop.panel - 1;

        if (!blas_cholesky(a + loop.panel * TILE * k + loop.panel * TILE, tile_len(k, loop.panel), k))
            return HESSIAN_E_SINGULAR;
        worker_pool_run(pool, solve_tiles, &loop, below, 1);
        worker_pool_run(pool, update_tiles, &loop, below * (below + 1) / 2, 1);
    }
    return 0;
}

typedef struct UnitLoop {
    HessianFactor *factor;
    const float *inverse; /* f32[k]: 1 / diagonal */
} UnitLoop;

static void unit_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const UnitLoop *loop = arg;
    size_t k = loop->factor->k;

    for (size_t i = begin; i < end; i++) {
        float *row = loop->factor->m + i * k;

        for (size_t j = 0; j < i; j++)
            row[j] *= loop->inverse[j];
        row[i] = 1;
    }
}

static int make_unit(HessianFactor *factor, WorkerPool *pool) {
    _cleanup_(freep) float *inverse = malloc(factor->k * sizeof(*inverse));
    UnitLoop loop = { .factor = factor, .inverse = inverse };

    if (!inverse)
        return -ENOMEM;
    for (size_t i = 0; i < factor->k; i++) {
        float diagonal = factor->m[i * factor->k + i];

        if (!isfinite(diagonal) || diagonal <= 0)
            return HESSIAN_E_SINGULAR;
        factor->d[i] = diagonal * diagonal;
        inverse[i] = 1 / diagonal;
    }
    worker_pool_run(pool, unit_rows, &loop, factor->k, 16);
    return 0;
}

void hessian_factor_deinit(HessianFactor *factor) {
    free(factor->order);
    free(factor->m);
    free(factor->d);
    free(factor->diagonal);
    *factor = (HessianFactor){ 0 };
}

static int make_factor(HessianFactor *made, const float *h, double damping, WorkerPool *pool) {
    size_t k = made->k;
    PermuteLoop permute = { .h = h, .k = k };
    double mean;
    int r;

    made->order = malloc(k * sizeof(*made->order));
    made->m = malloc(k * k * sizeof(*made->m));
    made->d = malloc(k * sizeof(*made->d));
    made->diagonal = malloc(k * sizeof(*made->diagonal));
    if (!made->order || !made->m || !made->d || !made->diagonal)
        return -ENOMEM;
    r = order_by_diagonal(made->order, h, k, &mean);
    if (r)
        return r;
    permute.to = made->m;
    permute.order = made->order;
    worker_pool_run(pool, permute_rows, &permute, k, 16);
    for (size_t i = 0; i < k; i++)
        made->diagonal[i] = made->m[i * k + i] += (float)(damping * mean);
    r = cholesky(made->m, k, pool);
    if (!r)
        r = make_unit(made, pool);
    if (!r)
        worker_pool_run(pool, fill_above_rows, &permute, k, 16);
    return r;
}

/**
 * hessian_factor() - damp the moments, order the inputs, factor
 * @h:       f32[k][k] from malloc(), lower triangle; taken over
 * @damping: 0.01 in OPTQ
 *
 * Rounding goes from the last position to the first. In rising order of energy, the inputs with the most energy are
 * therefore rounded first, while most others can still compensate their errors. With P H P^T = M D M^T the error of a
 * row e = w - q under H is the sum over positions c of d[c] * (e_c + sum over j > c of e_j m[j][c])^2, which
 * compensated rounding minimizes term by term. One Cholesky factorization takes k^3 / 3 multiplications; OPTQ's form
 * (arXiv:2210.17323), with the factor of the inverse, takes three times as many and gives the same rounding.
 *
 * Return: 0, HESSIAN_E_SINGULAR, -ENOMEM; factor is zero after an error.
 */
int hessian_factor(HessianFactor *factor, float *h, size_t k, double damping, WorkerPool *pool) {
    _cleanup_(hessian_factor_deinit) HessianFactor made = { .k = k };
    int r = make_factor(&made, h, damping, pool);

    free(h);
    *factor = r ? (HessianFactor){ 0 } : made;
    if (!r)
        made = (HessianFactor){ 0 };
    return r;
}
