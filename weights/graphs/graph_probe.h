// SPDX-License-Identifier: Apache-2.0
/* Measures how fast the disk reads a package, and how fast the device expands it: on a part of the package, once for
 * each state of the file on a kind of machine. */
#ifndef COORDGEN_WEIGHTS_GRAPH_PROBE_H
#define COORDGEN_WEIGHTS_GRAPH_PROBE_H

#include "backends/backend.h"
#include "weights/graphs/graph_pieces.h"

typedef struct GraphProbe {
    double bytes_per_s, expand_ns_per_weight;
} GraphProbe;

/* Measures with pieces[n_pieces] of the package. The first pieces are those of the matrix, which has static activations
 * and image_bytes by linear_image_bytes(). notes: a folder where the result is noted; NULL: nowhere. false: the
 * measurement has failed. */
bool graph_probe(GraphProbe *probe, Backend *backend, int fd, const char *path, const GraphPiece *pieces,
                 size_t n_pieces, const StreamMatrix *matrix, size_t image_bytes, const char *notes);

#endif
