// SPDX-License-Identifier: Apache-2.0
/* Least squares from hidden states of a middle layer to those of the last one: moments in one pass over the states,
 * then the normal equations with ridge regularization towards the identity. The result does not depend on the number of
 * threads. */
#ifndef COORDGEN_TRAIN_EXIT_RIDGE_H
#define COORDGEN_TRAIN_EXIT_RIDGE_H

#include <stddef.h>

#include "base/err.h"
#include "base/system/worker_pool.h"

/* Embedded in its owner. Sums over states u and targets t: u u^T, (t - u) u^T, u and t - u. */
typedef struct ExitRidge {
    WorkerPool *pool;
    size_t n_embd, n;
    float *squares, *products; /* f32[n_embd][n_embd]; products: a row for the target, a column for the state */
    double *states, *differences;
} ExitRidge;

int exit_ridge_init(ExitRidge *ridge, WorkerPool *pool, size_t n_embd, ErrText *err);
void exit_ridge_deinit(ExitRidge *ridge);
/* Adds n examples: states and targets, f32[n][n_embd] each. */
void exit_ridge_add(ExitRidge *ridge, const float *states, const float *targets, size_t n);
/* Finds map f32[n_embd][n_embd] and bias f32[n_embd] that minimise |map u + bias - t|^2 + strength (mean square of u)
 * |map - identity|^2 an example. Return: 0, -EDOM (no moments to solve), -ENOMEM. */
int exit_ridge_solve(const ExitRidge *ridge, float strength, float *map, float *bias, ErrText *err);
/* Computes y f32[n][n_embd] = x map^T + bias. */
void exit_map_apply(WorkerPool *pool, const float *map, const float *bias, size_t n_embd, const float *x, size_t n,
                    float *y);

#endif
