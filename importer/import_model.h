// SPDX-License-Identifier: Apache-2.0
/* The model that is imported, as methods see it: layers with their matrices and vectors. "The core" is the importer
 * around the methods (import_work.c), which owns the memory. */
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

/* The input that some linears share, and how it is quantized; with static activations only. */
typedef struct ImportOperator {
    int layer;
    const ArchOp *op;
    size_t k;
    float scale, importance; /* as in package_format.h */
    bool shadow;
    uint8_t *is_hot; /* [k], the core's: 1 for inputs whose columns stay in memory; all 0 without a shadow */
} ImportOperator;

/* A matrix of the model with its integers. */
typedef struct ImportLinear {
    TensorRole role;
    int layer; /* -1 outside */
    const GgufTensor *source;
    size_t n, k;
    uint32_t rotation_block; /* size of the rotated blocks of its inputs, and thus of its weights; 0: not rotated */
    const ImportOperator *operator; /* NULL: dynamic-row */
    int8_t *bits;                   /* [n], the core's */
    int8_t *q;                      /* [n][k], the core's; NULL except while its layer is at work */
    float *scales;                  /* [n], the core's */
} ImportLinear;

/* A norm, bias or rope_freqs, filled from the source. */
typedef struct ImportVector {
    TensorRole role;
    int layer;
    const GgufTensor *source;
    size_t n;
    float *values; /* [n], the core's; NULL except while its layer is at work */
} ImportVector;

typedef struct ImportLayer {
    int layer;
    ImportLinear *linears; /* [n_linears], in file order */
    size_t n_linears;
    ImportVector *vectors;
    size_t n_vectors;
} ImportLayer;

/* The part of an import that its method sees, read only. */
typedef struct ImportModel {
    const QuantRecipe *recipe;
    ImportMonitor *monitor;
    const char *source_path;
    const GgufFile *source;
    const int *source_fds; /* [parts of the source] */
    Hparams hparams;
    WorkerPool *pool;
    const CalibrationText *calibration; /* NULL when the recipe needs none */
    double bits;         /* average width that allocate() is to reach: recipe.bits, or less to meet a budget of bytes */
    ImportLayer *layers; /* [n_layers + 1]: layers[0] holds the tensors outside the layers, layers[1 + i] is layer i */
    ImportOperator *operators; /* [n_operators], of all layers in their order; none without static activations */
    size_t n_operators;
} ImportModel;

/* The layer's linear with this role, or NULL. */
ImportLinear *import_linear_of(const ImportLayer *layer, TensorRole role);
/* Counts the channels of all linears of the layers; linears outside the layers do not count. */
size_t import_n_channels(const ImportModel *model);

#endif
