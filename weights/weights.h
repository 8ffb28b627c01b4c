// SPDX-License-Identifier: Apache-2.0
/* The weights of a model on a device: matrices in the device's layout, norms and biases as float32 vectors. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_H
#define COORDGEN_WEIGHTS_WEIGHTS_H

#include "backends/backend.h"
#include "base/account.h"
#include "model/hparams.h"
#include "model/package.h"
#include "weights/weights_arrival.h"
#include "weights/weights_check.h"

/* Tensors of one layer, or of the parts outside the layers, by role; NULL where there is none. */
typedef struct WeightsLayer {
    BackendLinear *linears[_ROLE_N];
    float *vectors[_ROLE_N];
} WeightsLayer;

typedef struct Weights {
    const Hparams *hparams;
    Backend *backend;
    AccountTable *accounts;
    WeightsLayer outside;
    WeightsLayer *layers; /* [n_layers] */
    Bill vectors_bill;
    ColumnFile columns;      /* the package, kept open when columns are read from it on demand; else fd is -1 */
    WeightsArrival *arrival; /* integers of the package that have not come yet; NULL: all are there */
    char *image_path;        /* where an image of the matrices belongs; NULL: none is wanted */
    char *package_path;      /* of the image's key; absolute */
    WeightsImageKey image_key;
    WeightsImage *image; /* that they are in; or NULL */
    WeightsImageWriter *image_writer;
    uint64_t resident_bytes; /* on the account of the weights */
    uint64_t n_parameters;
    uint64_t layer_products, head_products; /* multiplications by one row */
    uint64_t embedding_bytes;               /* of an embedding that is not the head too */
    WeightsArrivalWay way;                  /* of a package */
} Weights;

typedef struct WeightsOptions {
    AccountTable *accounts;
    WeightReading reading;       /* of a package */
    _Atomic uint64_t *heartbeat; /* goes up as tensors come; may be NULL */
    const WeightsCheck *check;   /* of a package; until its weights have arrived; NULL: nothing is compared */
    const char *image_path;      /* of a package: its image, used and made (weights/weights_image); NULL: none */
    Trace *const *tracep;        /* where a trace stands when there is one; may be NULL */
} WeightsOptions;

/* From a source GGUF, or from a package when that is not NULL (file is then the package's). A package and its file must
 * live until its weights have arrived. */
int weights_new(Weights **weightsp, Backend *backend, const Hparams *hparams, const GgufFile *file, Package *package,
                const WeightsOptions *options, ErrText *err);
Weights *weights_free(Weights *weights);
DEFINE_CLEANUP(Weights, weights_free)

/* Whether what a stage multiplies with is there: 0 is what comes before the layers, 1 + i layer i, 1 + n_layers the
 * rest. */
bool weights_have(const Weights *weights, uint32_t stage);
/* Takes in the next few MiB of a package, in the order of the stages. Not all must be there. 0, BACKEND_E_MEMORY,
 * BACKEND_E_WEIGHTS, -errno: the same again in every later call, with its text. Thread: the one that computes. */
int weights_advance(Weights *weights, ErrText *err);

/* Whether all that was read of the image so far was the file's, if there is one: as weights_image_check(). Any thread. */
int weights_check_whole(const Weights *weights, ErrText *err);

/* Waits for the image that is being written, if one is. 0 or -errno, with a text. */
int weights_wait_image(Weights *weights, ErrText *err);

/* The head: output.weight, or the embedding when they are tied. */
const BackendLinear *weights_head(const Weights *weights);

#endif
