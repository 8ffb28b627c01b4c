// SPDX-License-Identifier: Apache-2.0
/* Methods turn the linears of a layer into integers. The importer's core (import_work.c) knows files, places, the
 * journal and progress; a method knows weights. The core calls, in this order and on one thread (the method may use the
 * pool):
 *   begin()
 *   profile()    with static activations only: fills the operators; not called when the journal has them
 *   allocate()   fills `bits` of every linear of the layers, at most model->bits on average; called again with fewer
 *                bits while a budget of bytes is not met, so a method keeps its measurements; not called when the
 *                journal has the bits
 *   per layer, -1 first (the tensors outside the layers), then 0, 1, ...:
 *     quantize() fills q and scales of the layer's linears, and may change its vectors;
 *     skip()     is called instead for a layer that an earlier import has finished: q, scales and vectors are those in
 *                the file
 *   end()
 * Embedding and head are the core's: recipe.embedding_bits wide, rounded plainly and written by panels. For layer -1 a
 * method gets their scales, and their q if it sees_outside (otherwise NULL), and fills neither; it may change the
 * vectors of that layer only. The result of a method depends only on source, recipe and calibration text: not on
 * threads, and not on the moment when an import was killed. */
#ifndef COORDGEN_IMPORTER_IMPORT_METHOD_H
#define COORDGEN_IMPORTER_IMPORT_METHOD_H

#include <stdbool.h>

#include "base/err.h"
#include "importer/import_model.h"

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
/* Methods that look at activations: smoothing, sensitivity, compensation. Needs LAPACK: only programs that name this
 * method link it (the service does not). */
extern const ImportMethod import_method_calibrated;

#endif
