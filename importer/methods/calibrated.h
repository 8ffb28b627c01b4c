// SPDX-License-Identifier: Apache-2.0
/* The calibrated method's state: the model on a device, and the walk of the calibration rows through it. */
#ifndef COORDGEN_IMPORTER_CALIBRATED_H
#define COORDGEN_IMPORTER_CALIBRATED_H

#include "engine/step/layer_walk.h"
#include "importer/import_model.h"
#include "importer/methods/calibrated_balance.h"

typedef struct Calibrated {
    const ImportModel *model;
    AccountTable accounts; /* without limits: an import serves nobody */
    Backend *backend;
    uint32_t *tokens; /* [n_windows][CALIBRATION_WINDOW_TOKENS] */
    size_t n_windows;
    BackendLinear *embedding, *head; /* with the integers that the package will have; one object when they are tied */
    float *outside[_ROLE_N];         /* vectors outside the layers, by role; owned */
    CalibratedBalance balance;       /* of the walks' attention */
    LayerWalk *walk;                 /* walk through the quantized model; NULL before its first layer */
    struct Sensitivity *sensitivity; /* NULL until it is measured */
    double *peaks; /* peaks of all channels, smoothed, in the order of operators; NULL until they are measured */
    void *plain;   /* state of import_method_plain, whose allocations need no calibration */
} Calibrated;

/* Puts a matrix of integers of 8 bits on the device, dynamic-row. vectors: those of its layer, by role, for its bias
 * and the balance of attention. */
int calibrated_linear_new(Calibrated *calibrated, BackendLinear **linearp, const ImportLinear *linear, const int8_t *q,
                          const float *scales, float *const *vectors, ErrText *err);
/* Puts the linear's own integers on the device, with the activations that the package will have: static-tensor too. */
int calibrated_linear_final(Calibrated *calibrated, BackendLinear **linearp, const ImportLinear *linear,
                            float *const *vectors, ErrText *err);
/* Frees all of [_ROLE_N] that are not NULL. */
void calibrated_linears_free(Calibrated *calibrated, BackendLinear **linears);
/* Reads the vectors of a layer from the source; calibrated_vectors_free() frees them. */
int calibrated_vectors_read(Calibrated *calibrated, const ImportLayer *layer, float **vectors, ErrText *err);
void calibrated_vectors_free(float **vectors);
/* Reads the weights of the operator's linears, f32[n][k] each, rotated if the linears are; to be freed also after an
 * error. */
int calibrated_read(Calibrated *calibrated, const ImportLayer *layer, const ArchOp *op, float **w, ErrText *err);
/* Makes a separate walk over the first n_windows, with the embedding done. */
int calibrated_walk_new(Calibrated *calibrated, LayerWalk **walkp, size_t n_windows, ErrText *err);

#endif
