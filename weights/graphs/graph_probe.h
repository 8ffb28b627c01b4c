// SPDX-License-Identifier: Apache-2.0
/* How fast the disk reads a package, and the device expands what is in it: tried on a part of the package, once for
 * each state of the file on a kind of machine. */
#ifndef COORDGEN_WEIGHTS_GRAPH_PROBE_H
#define COORDGEN_WEIGHTS_GRAPH_PROBE_H

#include "backends/backend.h"
#include "weights/graphs/graph_pieces.h"

typedef struct GraphProbe {
    double bytes_per_s, expand_ns_per_weight;
} GraphProbe;

/* With pieces[n_pieces] of the package, the first of which are the matrix's, of static activations; image_bytes: as
 * linear_image_bytes() says of it. notes: a folder where it is noted; NULL: nowhere. false: it was not to be found
 * out. */
bool graph_probe(GraphProbe *probe, Backend *backend, int fd, const char *path, const GraphPiece *pieces,
                 size_t n_pieces, const StreamMatrix *matrix, size_t image_bytes, const char *notes);

#endif
