// SPDX-License-Identifier: Apache-2.0
/* What the parts of a load share: weights_plan.c says where every matrix will be, weights_load.c makes them. Private to
 * weights/. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_PRIVATE_H
#define COORDGEN_WEIGHTS_WEIGHTS_PRIVATE_H

#include "weights/weights.h"

/* A matrix of the package. */
typedef struct PlannedMatrix {
    StreamMatrix matrix;
    int layer;          /* -1: outside */
    size_t image_bytes; /* of its integers, as memory has them; 0 where nobody has asked */
} PlannedMatrix;

typedef struct WeightsLoader {
    Weights *weights;
    const GgufFile *file;
    Package *package; /* NULL for a source GGUF */
    const WeightsOptions *options;
    PlannedMatrix *matrices; /* of the package, in the order in which they are loaded, which is that of the file */
    size_t n_matrices;
    size_t n_placed; /* of them */
    size_t n_pinned; /* layers that stay in memory */
    bool without_image;
    GraphForm graph_form; /* of graphs: what was chosen */
    bool comes_whole;     /* all of the package comes, layers that are not to stay too */
    bool past_layers;     /* a layer has come: what lies outside of them comes behind them now */
    ErrText *err;
} WeightsLoader;

/* Lists the package's matrices, and begins what their integers come through. 0, BACKEND_E_*, -errno. */
int weights_plan(WeightsLoader *loader);
/* For graphs: graph_form, and their pieces of the package. 0, BACKEND_E_WEIGHTS, -ENOMEM. */
int weights_plan_graph_form(WeightsLoader *loader);
/* A folder of notes beside an image; NULL: none. The caller frees it. Private to weights/. */
char *weights_plan_notes(const char *image_path, const char *name);
/* Whether a layer (-1: what is outside) goes through the ring. */
bool weights_plan_streams(const WeightsLoader *loader, int layer);

#endif
