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
#include "weights/residency/weights_memory.h"
#include "weights/ring/weights_ring.h"

/* Tensors of one layer, or of the parts outside the layers, by role; NULL: the model has none. */
typedef struct WeightsLayer {
    BackendLinear *linears[_ROLE_N];
    float *vectors[_ROLE_N];
} WeightsLayer;

typedef struct WeightsCounts {
    uint64_t resident_bytes; /* on the account of the weights */
    uint64_t n_parameters;
    uint64_t layer_products, head_products; /* multiplications by one row */
    uint64_t embedding_bytes;               /* of an embedding that is not the head, too */
} WeightsCounts;

typedef struct WeightsOptions {
    /* For a package: */
    WeightReading reading;
    const WeightsCheck *check; /* lives until the weights have arrived; NULL: nothing is compared */
    const char *image_path;    /* the image, used and made (weights/image/weights_image); NULL: none */
    WeightsImageHow image_how; /* flags: WEIGHTS_IMAGE_ANEW: an image that is there is not used */
    WeightsMemory memory;      /* if that is not all, image_path must say where an image may be */
    ReadLimit flash_limit;     /* how fast layers that are not in memory are read at most, and graphs */
    bool limits_all;           /* the limit is that of all reads of the package together */
    GraphsOptions graphs;      /* on a device of static graphs, which wants image_path too */
    /* For any file: */
    _Atomic uint64_t *heartbeat; /* goes up as tensors come; may be NULL */
    Trace *const *tracep;        /* where a trace stands when there is one; may be NULL */
} WeightsOptions;

typedef struct Weights Weights; /* thread: the one that computes, for all calls without another word */

#endif
