// SPDX-License-Identifier: Apache-2.0
/* The weights of a model on a device: matrices in the device's layout, norms and biases as float32 vectors. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_H
#define COORDGEN_WEIGHTS_WEIGHTS_H

#include "backends/backend.h"
#include "base/memory/account.h"
#include "model/hparams/hparams.h"
#include "model/package/package.h"
#include "weights/graphs/weights_graphs.h"
#include "weights/residency/weights_arrival.h"
#include "weights/residency/weights_check.h"
#include "weights/residency/weights_memory.h"
#include "weights/ring/weights_ring.h"

/* Tensors of one layer, or of the parts outside the layers, by role; NULL where there is none. */
typedef struct WeightsLayer {
    BackendLinear *linears[_ROLE_N];
    float *vectors[_ROLE_N];
} WeightsLayer;

/* Of the package, for graphs. */
typedef struct WeightsGraphsPieces {
    GraphPiece *pieces;
    size_t n;
} WeightsGraphsPieces;

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
    WeightsImageHow image_how;        /* of that */
    int image_result;                 /* why there is no writer where there should be one: -errno; or 0 */
    WeightsRing *ring;                /* of the layers that are not in memory; NULL: all are */
    WeightsGraphs *graphs;            /* of the layers, on a device of static graphs; NULL: on another */
    WeightsGraphsPieces graph_pieces; /* until they start */
    bool graphs_are_packed;           /* they come from the package, of file descriptor and path: */
    int package_fd;                   /* the package's */
    char graph_form_why[300];         /* that was chosen; "": nobody was asked */
    WeightsImage *ring_image;         /* until the ring starts, or the graphs, whose it is then; or NULL */
    ImageFile *image_file;            /* of the image that is made for it while the weights arrive; or NULL */
    ReadLimit flash_limit;            /* of the ring, or the graphs */
    SharedLimiter disk;               /* the same, where all reads have it together */
    bool limits_all;                  /* they have */
    const WeightsCheck *check;        /* of the package and the image; until the weights have arrived; may be NULL */
    bool was_compared;                /* all that the file has for it, with checksums */
    uint64_t resident_bytes;          /* on the account of the weights */
    uint64_t n_parameters;
    uint64_t layer_products, head_products; /* multiplications by one row */
    uint64_t embedding_bytes;               /* of an embedding that is not the head too */
    WeightsArrivalWay way;                  /* of a package */
} Weights;

enum {
    WEIGHTS_E_WAITING = 16, /* beside BACKEND_E_* */
};

typedef struct WeightsOptions {
    AccountTable *accounts;
    WeightReading reading;       /* of a package */
    _Atomic uint64_t *heartbeat; /* goes up as tensors come; may be NULL */
    const WeightsCheck *check;   /* of a package; until its weights have arrived; NULL: nothing is compared */
    const char *image_path;      /* of a package: its image, used and made (weights/image/weights_image); NULL: none */
    bool optional_image;         /* one that is not needed is only made where the disk has room (image_room) */
    bool new_image;              /* one that is there is not used, but made anew */
    WeightsMemory memory;        /* of a package; where that is not all, image_path must say where an image may be */
    ReadLimit flash_limit;       /* how fast layers that are not in memory are read at most, and graphs */
    bool limits_all;             /* and all that comes of the package, together with them */
    GraphsOptions graphs;        /* on a device of static graphs, which wants image_path too */
    Trace *const *tracep;        /* where a trace stands when there is one; may be NULL */
} WeightsOptions;

/* From a source GGUF, or from a package when that is not NULL (file is then the package's). A package and its file must
 * live until its weights have arrived. */
int weights_new(Weights **weightsp, Backend *backend, const Hparams *hparams, const GgufFile *file, Package *package,
                const WeightsOptions *options, ErrText *err);
Weights *weights_free(Weights *weights);
DEFINE_CLEANUP(Weights, weights_free)

/* The ring begins to read, or the graphs. 0 or -errno. Private to weights/. */
int weights_start_ring(Weights *weights, ErrText *err);

/* --- stages: 0 is what comes before the layers, 1 + i layer i, 1 + n_layers the rest ------------------------------ */

/* Whether what a stage multiplies with has come to stay. */
bool weights_have(const Weights *weights, uint32_t stage);
/* What a stage multiplies with stays where it is until weights_release(): 0; WEIGHTS_E_WAITING: it is on its way; a
 * piece has come, or none within wait_ns, and whoever still wants it asks again. Else as weights_advance(). Thread: the
 * one that computes, for all of these. */
int weights_acquire(Weights *weights, uint32_t stage, uint64_t wait_ns, ErrText *err);
/* end: layers below are computed. */
void weights_release(Weights *weights, uint32_t stage, uint32_t end);
/* A step of so many rows, prompt_rows of them of prompts, comes to a layer, and n_behind rows of its prompts come in
 * later steps: what graphs of the device are loaded by. */
void weights_expect(Weights *weights, size_t rows, size_t prompt_rows, size_t n_behind, uint32_t layer);
/* Between operators: loads go on. */
void weights_turn(Weights *weights);
/* The stages from this one on, which is held, up to the one that is returned can be used at once: they have come to
 * stay, or are held with it. */
uint32_t weights_run_end(const Weights *weights, uint32_t stage);
/* Takes in the next few MiB of a package, in the order of the stages. Not all must be there. 0, BACKEND_E_MEMORY,
 * BACKEND_E_WEIGHTS, -errno: the same again in every later call, with its text. Thread: the one that computes. */
int weights_advance(Weights *weights, ErrText *err);

/* Whether all that was read of an image so far was the file's, if there is one: as weights_image_check(),
 * weights_ring_check(). Any thread. */
int weights_check_whole(const Weights *weights, ErrText *err);

/* Whether the embedding can be used, but may have to be read from the disk row by row. Any thread. */
bool weights_embedding_is_late(const Weights *weights);
/* What has become of the image. When all weights are there; any thread. */
ImageReport weights_image_report(const Weights *weights);
/* Waits for the image that is being written, if one is. 0 or -errno, with a text. */
int weights_wait_image(Weights *weights, ErrText *err);

/* The head: output.weight, or the embedding when they are tied. */
const BackendLinear *weights_head(const Weights *weights);

#endif
