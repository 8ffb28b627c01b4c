// SPDX-License-Identifier: Apache-2.0
/* The types of weights (weights/weights.h). */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_TYPES_H
#define COORDGEN_WEIGHTS_WEIGHTS_TYPES_H

#include "backends/backend.h"
#include "model/hparams/hparams.h"
#include "model/package/package.h"
#include "weights/graphs/weights_graphs.h"
#include "weights/residency/weights_arrival.h"
#include "weights/residency/weights_check.h"
#include "weights/ring/weights_ring.h"
#include "weights/weights_options.h"

/* Tensors of one layer, or of the parts outside the layers, by role; NULL: the model has none. */
typedef struct WeightsLayer {
    BackendLinear *linears[_ROLE_N];
    float *vectors[_ROLE_N];
    float *balance; /* AttentionCall.balance of a layer of a package, or NULL */
} WeightsLayer;

typedef struct WeightsCounts {
    uint64_t resident_bytes; /* on the account of the weights */
    uint64_t n_parameters;
    uint64_t layer_products, head_products; /* multiplications by one row */
    uint64_t embedding_bytes;               /* of an embedding that is not the head, too */
} WeightsCounts;

/* The file that weights are loaded from, and what accompanies the load. */
typedef struct WeightsSource {
    const GgufFile *file; /* a source GGUF, or the package's file */
    Package *package;     /* NULL: the file is a source GGUF; a package and its file live until the weights arrived */
    const WeightsCheck *check;   /* of the package, until the weights have arrived; NULL: nothing is compared */
    const char *image_path;      /* of the package's image, used or made (weights/image/weights_image); NULL: none */
    bool new_image;              /* an existing image is not used but made anew */
    _Atomic uint64_t *heartbeat; /* goes up as tensors come; may be NULL */
    Trace *const *tracep;        /* where a trace stands if there is one; may be NULL */
} WeightsSource;

typedef struct Weights Weights; /* thread: the one that computes, for all calls without another word */

#endif
