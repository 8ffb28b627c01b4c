// SPDX-License-Identifier: Apache-2.0
/* The model that is imported, as methods see it: layers with their matrices and vectors. */
#ifndef COORDGEN_IMPORTER_IMPORT_MODEL_H
#define COORDGEN_IMPORTER_IMPORT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/system/worker_pool.h"
#include "importer/calibration_text.h"
#include "importer/import_monitor.h"
#include "model/hparams/arch.h"
#include "model/hparams/hparams.h"
#include "quant/format/recipe.h"

/* Linears that share their input, with static activations: what becomes of that input. */
typedef struct ImportOperator {
    int layer;
    const ArchOp *op;
    size_t k;
    float scale, importance; /* as in package.h */
    bool shadow;
    uint8_t *is_hot; /* [k], the core's: 1 for inputs whose columns stay in memory; all 0 without shadow */
} ImportOperator;

/* A matrix of the model and what it becomes. */
typedef struct ImportLinear {
    TensorRole role;
    int layer; /* -1 outside */
    const GgufTensor *source;
    size_t n, k;
    uint32_t rotation_block;        /* of its inputs, and so of its weights */
    const ImportOperator *operator; /* NULL: dynamic-row */
    int8_t *bits;                   /* [n], the core's */
    int8_t *q;                      /* [n][k], the core's; NULL but while its layer is at work */
    float *scales;                  /* [n], the core's */
} ImportLinear;

/* A norm, bias or rope_freqs: comes filled from the source. */
typedef struct ImportVector {
    TensorRole role;
    int layer;
    const GgufTensor *source;
    size_t n;
    float *values; /* [n], the core's; NULL but while its layer is at work */
} ImportVector;

typedef struct ImportLayer {
    int layer;
    ImportLinear *linears; /* [n_linears], in file order */
    size_t n_linears;
    ImportVector *vectors;
    size_t n_vectors;
} ImportLayer;

/* What a method sees of the import; const to it. */
typedef struct ImportModel {
    const QuantRecipe *recipe;
    ImportMonitor *monitor;
    const char *source_path;
    const GgufFile *source;
    const int *source_fds; /* of the source's parts, one where it is one file */
    Hparams hparams;
    WorkerPool *pool;
    const CalibrationText *calibration; /* NULL when the recipe needs none */
    double bits;               /* average that allocate() is to reach: recipe.bits, or fewer for a budget of bytes */
    ImportLayer *layers;       /* [n_layers + 1]: layers[0] is what lies outside, layers[1 + i] is layer i */
    ImportOperator *operators; /* [n_operators], of all layers in their order; none without static activations */
    size_t n_operators;
} ImportModel;

#endif
