// SPDX-License-Identifier: Apache-2.0
/* What turns the linears of a layer into integers. The importer's core (importer.c) knows files, places, the journal
 * and progress; a method knows weights. The core calls, in this order and on one thread (the pool is the method's to
 * use):
 *   begin()
 *   profile()                with static activations: fills the operators; not called when the journal has them
 *   allocate()               fills `bits` of every linear of the layers, so that their average is at most model->bits;
 *                            called again with fewer bits while a budget of bytes is not met, so what it measures is
 *                            kept; not called when the journal has the bits
 *   per layer, -1 first (what lies outside the layers), then 0, 1, ...:
 *     quantize()             fills q and scales of the layer's linears, and may change its vectors;
 *     skip()                 instead, for a layer that an earlier, killed import has finished: q, scales and vectors
 *                            are those it wrote
 *   end()
 * Embedding and head are the core's: their bits are recipe.embedding_bits, they are rounded plainly and written by
 * panels. For layer -1 a method gets their scales, and their q if it says that it sees_outside (else NULL), and fills
 * neither; only the vectors of that layer are its own.
 * What a method writes depends on source, recipe and calibration text alone: not on threads, not on where it was
 * killed. */
#ifndef COORDGEN_IMPORTER_IMPORT_METHOD_H
#define COORDGEN_IMPORTER_IMPORT_METHOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/system/worker_pool.h"
#include "importer/calibration_text.h"
#include "importer/importer.h"
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
    const ImportOptions *options; /* recipe, calibration, cancel, progress */
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

typedef struct ImportMethod {
    int (*begin)(void **statep, const ImportModel *model, ErrText *err);
    void (*end)(void *state);                                            /* NULL state is legal */
    int (*profile)(void *state, const ImportModel *model, ErrText *err); /* NULL: the method has no calibration */
    int (*allocate)(void *state, const ImportModel *model, ErrText *err);
    int (*quantize)(void *state, const ImportModel *model, const ImportLayer *layer, ErrText *err);
    /* NULL: finished layers are not read back. */
    int (*skip)(void *state, const ImportModel *model, const ImportLayer *layer, ErrText *err);
    bool sees_outside;
} ImportMethod;

/* Rounding without calibration: rows are read, rotated and rounded one by one. */
extern const ImportMethod import_method_plain;
/* Everything that looks at activations: smoothing, sensitivity, compensation. Needs LAPACK: only programs that name it
 * link that (the service does not). */
extern const ImportMethod import_method_calibrated;

/* Dequantizes a whole linear of the source into f32 w[n][k], rotated when the linear is; all threads. 0,
 * IMPORT_E_CORRUPT (a value that is not finite), IMPORT_E_CHANGED, IMPORT_E_CANCELLED, -errno. */
int import_read_linear(const ImportModel *model, const ImportLinear *linear, float *w, ErrText *err);
/* The linear's q by columns, int8[k][n], to be freed by the caller; all threads. 0, -ENOMEM. */
int import_linear_columns(const ImportModel *model, const ImportLinear *linear, int8_t **columnsp, ErrText *err);
/* For long work inside a layer: whether to stop. */
bool import_is_cancelled(const ImportModel *model);
/* Parts that are done, 0..1: in begin() and allocate() of the measuring, in quantize() of the layer. */
void import_report_part(const ImportModel *model, double done);

#endif
