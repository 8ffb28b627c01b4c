// SPDX-License-Identifier: Apache-2.0
/* Inside of the calibrated method: what its parts share. method_calibrated.c: the model on a device and the walk of the
 * calibration rows through it; calibrated_round.c: the linears of one operator become integers; sensitivity.c: where
 * the bits go; calibrated_profile.c: static activations. */
#ifndef COORDGEN_IMPORTER_CALIBRATED_H
#define COORDGEN_IMPORTER_CALIBRATED_H

#include "engine/step/layer_walk.h"
#include "importer/import_private.h"
#include "quant/format/recipe_spec.h"
#include "quant/rounding/hessian.h"

typedef struct Sensitivity Sensitivity;

typedef struct Calibrated {
    const ImportModel *model;
    AccountTable accounts; /* without limits: an import serves nobody */
    Backend *backend;
    uint32_t *tokens; /* [n_windows][CALIBRATION_WINDOW_TOKENS] */
    size_t n_windows;
    BackendLinear *embedding, *head; /* as the package will have them; one object when they are tied */
    float *outside[_ROLE_N];         /* vectors outside the layers, by role; ours */
    LayerWalk *walk;                 /* of the quantized model; NULL before its first layer */
    Sensitivity *sensitivity;        /* NULL until it is measured */
    double *peaks;                   /* likewise: of all channels, smoothed, in the order of operators */
    void *plain;                     /* of import_method_plain, whose allocations need no calibration */
} Calibrated;

/* --- method_calibrated.c ------------------------------------------------------------------------------------------ */

int calibrated_cancelled(const Calibrated *calibrated, ErrText *err); /* IMPORT_E_CANCELLED */
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

/* --- calibrated_round.c ------------------------------------------------------------------------------------------- */

/* One linear: from its weights f32 w[n][k] to q and scales at the widths of `bits`. */
typedef struct CalibratedRounding {
    const ImportLinear *linear;
    const HessianFactor *factor; /* NULL: rounded plainly */
    const float *w;
    const int8_t *bits; /* [n] */
    int8_t *q;          /* out: [n][k] */
    float *scales;      /* out: [n] */
    double *errors;     /* out, [n] or NULL: with a factor, every channel's error over the calibration rows, before gain
                         * correction */
} CalibratedRounding;

int calibrated_round(Calibrated *calibrated, const CalibratedRounding *rounding, ErrText *err);
/* Second moments of the inputs x f32[rows][k], rotated by blocks first (0: not), factored. */
int calibrated_factor(Calibrated *calibrated, HessianFactor *factor, const float *x, size_t rows, size_t k,
                      uint32_t rotation_block, ErrText *err);

/* --- calibrated_smooth.c ------------------------------------------------------------------------------------------ */

int calibrated_smoothing(Calibrated *calibrated, const ImportLayer *layer, const ArchOp *op, const float *x,
                         size_t rows, size_t k, float *const *w, bool by_bits, float *factors, ErrText *err);
int calibrated_fold(Calibrated *calibrated, const ImportLayer *layer, const ArchOp *op, float *x, size_t rows, size_t k,
                    const float *factors, float *const *vectors, ErrText *err);
int calibrated_allocate_smoothed(Calibrated *calibrated, ErrText *err);

/* --- calibrated_profile.c ----------------------------------------------------------------------------------------- */

/* Fills model->operators: scales, importance, who keeps a shadow, hot channels. */
int calibrated_profile(Calibrated *calibrated, ErrText *err);

/* --- sensitivity.c ------------------------------------------------------------------------------------------------ */

enum {
    SENSITIVITY_BITS = 4,
};

/* How much the model's answers suffer from fewer bits in each part of it, measured on calibration rows. */
struct Sensitivity {
    uint32_t n_layers;
    double *(*losses)[_ROLE_N]; /* [n_layers]: f64[n] of a linear's channels, nats an answer at SENSITIVITY_BITS */
};

int sensitivity_measure(Sensitivity **sensitivityp, Calibrated *calibrated, ErrText *err);
Sensitivity *sensitivity_free(Sensitivity *sensitivity);
DEFINE_CLEANUP(Sensitivity, sensitivity_free)
void sensitivity_spec_without(char spec[RECIPE_SPEC_MAX], const ImportModel *model);

/* --- sensitivity_allocate.c --------------------------------------------------------------------------------------- */

/* Fills the bits of every linear of the layers: at most average_bits a weight. */
int sensitivity_allocate(const Sensitivity *sensitivity, const Calibrated *calibrated, double average_bits,
                         ErrText *err);

#endif
