// SPDX-License-Identifier: Apache-2.0
/* Refines a map towards the target's shares of the candidates (exit_loss.h): Adam on map and bias, an epoch at a time.
 * A checkpoint after each epoch lets a killed run go on to the same bytes. */
#ifndef COORDGEN_TRAIN_EXIT_REFINE_H
#define COORDGEN_TRAIN_EXIT_REFINE_H

#include "base/system/worker_pool.h"
#include "engine/engine.h"
#include "tools/train/exit_loss.h"

/* Embedded in its owner; exit_refine_init() sets it. Parameters are f32[n_embd + 1][n_embd]: the map's rows, then the
 * bias. */
typedef struct ExitRefine {
    Engine *engine; /* engine of the head */
    ExitHead head;
    WorkerPool *pool;
    ExitSet *set;
    uint32_t layer;  /* index of the set's */
    uint32_t epochs; /* in all */
    uint32_t epoch;  /* epochs that are done */
    uint64_t n_steps;
    double least;                      /* loss of `best` on the even held-out windows, which tune; negative: none yet */
    float *now, *best, *mean, *square; /* parameters, and Adam's moments */
    char *path;                        /* file of the checkpoint; NULL: none */
} ExitRefine;

/* Begins with a map f32[n_embd][n_embd] and bias, or goes on from a checkpoint of the same set, layer and epochs.
 * Return: 0 or -errno, with a text. */
int exit_refine_init(ExitRefine *refine, Engine *engine, WorkerPool *pool, ExitSet *set, uint32_t layer,
                     uint32_t epochs, const float *map, const float *bias, const char *path, ErrText *err);
void exit_refine_deinit(ExitRefine *refine);
/* Runs an epoch. @done is called after each window with windows done and all; may be NULL. Return: 0 or -errno, with a
 * text. */
typedef void ExitRefineFn(void *arg, uint64_t done, uint64_t all);
int exit_refine_epoch(ExitRefine *refine, ExitRefineFn *done, void *arg, ErrText *err);
/* Returns the parts of a model that exit_loss() needs; valid as long as the engine. */
ExitHead exit_head(const Engine *engine);
/* Copies the head's rows of n samples, f32[n][EXIT_CHOICES][n_embd]; the rows that a sample lacks are token 0's. */
void exit_head_rows(Engine *engine, const ExitSample *samples, size_t n, float *rows);

#endif
