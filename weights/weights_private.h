// SPDX-License-Identifier: Apache-2.0
/* What the parts of a load share: weights_plan.c says where every matrix will be, weights_load.c makes them, weights.c
 * serves them. Private to weights/. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_PRIVATE_H
#define COORDGEN_WEIGHTS_WEIGHTS_PRIVATE_H

#include "weights/weights_types.h"

/* The arrival of a package. */
typedef struct WeightsComing {
    WeightsArrival *arrival;   /* integers that have not come yet; NULL: all are there */
    const WeightsCheck *check; /* of package and image, until the weights have arrived; may be NULL */
    bool was_compared;         /* all that the file has checksums for */
    WeightsArrivalWay way;
} WeightsComing;

/* The images of the matrices. */
typedef struct WeightsImages {
    char *path;         /* where an image belongs; NULL: none is wanted */
    char *package_path; /* of the key; absolute */
    WeightsImageKey key;
    WeightsImageHow how;
    WeightsImage *mapped;       /* holds the matrices that are in memory; or NULL */
    WeightsImageWriter *writer; /* makes one for the next load; or NULL */
    int writer_result;          /* why there is no writer, though one was wanted: -errno; or 0 */
    WeightsImage *streamed;     /* of the ring or the graphs, until they start and own it; or NULL */
    ImageFile *file;            /* of that image, while this load makes it; or NULL */
} WeightsImages;

/* What graphs come from. */
typedef struct WeightsGraphForm {
    GraphPiece *pieces; /* [n_pieces] of the package, until the graphs start */
    size_t n_pieces;
    bool is_packed; /* they come from the package: */
    int package_fd; /* the package's own */
    char why[300];  /* that was chosen; "": nobody was asked */
} WeightsGraphForm;

/* The limit on reads of layers and graphs. */
typedef struct WeightsDisk {
    ReadLimit limit;
    SharedLimiter shared; /* the same limit, for all reads together */
    bool is_shared;       /* all reads have it together */
} WeightsDisk;

struct Weights {
    const Hparams *hparams;
    Backend *backend;
    WeightsLayer outside;
    WeightsLayer *layers; /* [n_layers] */
    Bill vectors_bill;
    ColumnFile columns; /* the package, kept open when columns are read from it on demand; else fd is -1 */
    WeightsCounts counts;
    WeightsComing coming;
    WeightsImages images;
    WeightsRing *ring;     /* of the layers that are not in memory; NULL: all are */
    WeightsGraphs *graphs; /* of the layers, on a device of static graphs; NULL: on another */
    WeightsGraphForm form;
    WeightsDisk disk;
};

/* A matrix of the package. */
typedef struct PlannedMatrix {
    StreamMatrix matrix;
    int layer;          /* -1: outside */
    size_t image_bytes; /* of its integers, as memory has them; 0: nobody has asked */
} PlannedMatrix;

typedef struct WeightsLoader {
    Weights *weights;
    const WeightsSource *source;
    const char *image_path; /* the source's, or NULL if the load has no use for an image */
    const WeightsOptions *options;
    PlannedMatrix *matrices; /* of the package, in the order in which they are loaded, which is that of the file */
    size_t n_matrices;
    size_t n_placed;      /* of them */
    size_t n_pinned;      /* layers that stay in memory */
    bool without_image;   /* an existing image is not used */
    GraphForm graph_form; /* that was chosen for graphs */
    bool comes_whole;     /* all of the package comes, also layers that are not to stay */
    bool past_layers;     /* a layer has come: what lies outside of them comes behind them now */
    ErrText *err;
} WeightsLoader;

/* Lists the package's matrices, and begins what their integers come through. 0, BACKEND_E_*, -errno. */
int weights_plan(WeightsLoader *loader);
/* For graphs: chooses graph_form, and cuts the package into their pieces. 0, BACKEND_E_WEIGHTS, -ENOMEM. */
int weights_plan_graph_form(WeightsLoader *loader);
/* Names a folder of notes beside an image; NULL: none. The caller frees it. */
char *weights_notes_folder(const char *image_path, const char *name);
/* Whether a layer (-1: what is outside) goes through the ring. */
bool weights_plan_streams(const WeightsLoader *loader, int layer);
/* Starts the reads of the ring, or of the graphs. 0 or -errno. */
int weights_start_ring(Weights *weights, ErrText *err);

#endif
