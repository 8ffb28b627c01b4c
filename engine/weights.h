/* The weights of a model on a device: matrices in the device's layout, norms and biases as float32 vectors. */
#ifndef COORDGEN_ENGINE_WEIGHTS_H
#define COORDGEN_ENGINE_WEIGHTS_H

#include "backends/backend.h"
#include "base/account.h"
#include "engine/weight_stream.h"
#include "model/hparams.h"
#include "model/package.h"

/* Tensors of one layer, or of the parts outside the layers, by role; NULL where there is none. */
typedef struct WeightsLayer {
    BackendLinear *linears[_ROLE_N];
    float *vectors[_ROLE_N];
} WeightsLayer;

typedef struct Weights {
    const Hparams *hparams;
    Backend *backend;
    WeightsLayer outside;
    WeightsLayer *layers; /* [n_layers] */
    Bill vectors_bill;
    ColumnFile columns; /* the package, kept open when columns are read from it on demand; else fd is -1 */
    uint64_t n_parameters;
    uint64_t layer_products, head_products; /* multiplications by one row */
    uint64_t embedding_bytes;               /* of an embedding that is not the head too */
    /* How the integers of a package came: bytes from the page cache, bytes read ahead, and the way of those. */
    uint64_t cached_bytes, read_bytes;
    char way[32];
} Weights;

typedef struct WeightsOptions {
    AccountTable *accounts;
    WeightReading reading;       /* of a package */
    _Atomic uint64_t *heartbeat; /* goes up as tensors come; may be NULL */
} WeightsOptions;

/* From a source GGUF, or from a package when that is not NULL (file is then the package's). */
int weights_new(Weights **weightsp, Backend *backend, const Hparams *hparams, const GgufFile *file, Package *package,
                const WeightsOptions *options, ErrText *err);
Weights *weights_free(Weights *weights);
DEFINE_CLEANUP(Weights, weights_free)

/* The head: output.weight, or the embedding when they are tied. */
const BackendLinear *weights_head(const Weights *weights);

#endif
