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
/* Everything that looks at activations: smoothing, sensitivity, compensation. Needs LAPACK: only programs that name it
 * link that (the service does not). */
extern const ImportMethod import_method_calibrated;

#endif
