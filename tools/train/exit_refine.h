// SPDX-License-Identifier: Apache-2.0
/* Refines a map by what the target holds for likely among the candidates (exit_loss.h): Adam on map and bias, an
 * epoch at a time. A checkpoint behind each epoch lets a run that was killed go on; it gives the same bytes then. */
#ifndef COORDGEN_TRAIN_EXIT_REFINE_H
#define COORDGEN_TRAIN_EXIT_REFINE_H

#include "base/system/worker_pool.h"
#include "engine/engine.h"
#include "tools/train/exit_loss.h"

/* Embedded; by exit_refine_init(). f32[n_embd + 1][n_embd] each: the map's rows, then the bias. */
typedef struct ExitRefine {
    Engine *engine; /* whose head it is */
    ExitHead head;
    WorkerPool *pool;
    ExitSet *set;
    uint32_t layer;  /* index of the set's */
    uint32_t epochs; /* in all */
    uint32_t epoch;  /* that are done */
    uint64_t n_steps;
    double least; /* loss of `best` on windows that are held out, of which the even ones tune; negative: none yet */
    float *now, *best, *mean, *square; /* parameters, and Adam's moments */
    char *path;                        /* of the checkpoint; NULL: none */
} ExitRefine;

/* Begins with a map f32[n_embd][n_embd] and bias, or goes on from a checkpoint of the same set, layer and epochs. */
int exit_refine_init(ExitRefine *refine, Engine *engine, WorkerPool *pool, ExitSet *set, uint32_t layer,
                     uint32_t epochs, const float *map, const float *bias, const char *path, ErrText *err);
void exit_refine_deinit(ExitRefine *refine);
/* done(arg, windows, of all) is called behind each window; may be NULL. 0, -errno, with a text. */
typedef void ExitRefineFn(void *arg, uint64_t done, uint64_t all);
int exit_refine_epoch(ExitRefine *refine, ExitRefineFn *done, void *arg, ErrText *err);
/* What exit_loss() needs of a model; as long as its engine. */
ExitHead exit_head(const Engine *engine);
/* Rows of the head of n samples: f32[n][EXIT_CHOICES][n_embd]; those that a sample has not are of token 0. */
void exit_head_rows(Engine *engine, const ExitSample *samples, size_t n, float *rows);

#endif
