// SPDX-License-Identifier: Apache-2.0
/* The calibrated method's state: the model on a device, and the walk of the calibration rows through it. */
#ifndef COORDGEN_IMPORTER_CALIBRATED_H
#define COORDGEN_IMPORTER_CALIBRATED_H

#include "engine/step/layer_walk.h"
#include "importer/import_model.h"

typedef struct Calibrated {
    const ImportModel *model;
    AccountTable accounts; /* without limits: an import serves nobody */
    Backend *backend;
    uint32_t *tokens; /* [n_windows][CALIBRATION_WINDOW_TOKENS] */
    size_t n_windows;
    BackendLinear *embedding, *head; /* as the package will have them; one object when they are tied */
    float *outside[_ROLE_N];         /* vectors outside the layers, by role; ours */
    LayerWalk *walk;                 /* of the quantized model; NULL before its first layer */
    struct Sensitivity *sensitivity; /* NULL until it is measured */
    double *peaks;                   /* likewise: of all channels, smoothed, in the order of operators */
    void *plain;                     /* of import_method_plain, whose allocations need no calibration */
} Calibrated;

/* A matrix of integers on the device; vectors are those of its layer (for its bias), by role. Dynamic-row. */
int calibrated_linear_new(Calibrated *calibrated, BackendLinear **linearp, const ImportLinear *linear, const int8_t *q,
                          const float *scales, float *const *vectors, ErrText *err);
/* The linear's own integers, with the activations that the package will have: static-tensor too. */
int calibrated_linear_final(Calibrated *calibrated, BackendLinear **linearp, const ImportLinear *linear,
                            float *const *vectors, ErrText *err);
/* Frees those of [_ROLE_N] that are there. */
void calibrated_linears_free(Calibrated *calibrated, BackendLinear **linears);
/* Vectors of a layer, read from the source; freed by calibrated_vectors_free(). */
int calibrated_vectors_read(Calibrated *calibrated, const ImportLayer *layer, float **vectors, ErrText *err);
void calibrated_vectors_free(float **vectors);
const ImportLinear *calibrated_linear_of(const ImportLayer *layer, TensorRole role);
/* Weights of the operator's linears, f32[n][k] each, rotated if they are; to be freed also after an error. */
int calibrated_read(Calibrated *calibrated, const ImportLayer *layer, const ArchOp *op, float **w, ErrText *err);
/* A walk of its own over the first n_windows, with the embedding done. */
int calibrated_walk_new(Calibrated *calibrated, LayerWalk **walkp, size_t n_windows, ErrText *err);

#endif
