// SPDX-License-Identifier: Apache-2.0
/* The matrices of graphs as they lie in a package, cut into pieces of whole blocks of outputs: so that one is expanded
 * while the next ones are read. */
#ifndef COORDGEN_WEIGHTS_GRAPH_PIECES_H
#define COORDGEN_WEIGHTS_GRAPH_PIECES_H

#include <stddef.h>
#include <stdint.h>

#include "weights/residency/weight_stream.h"

#define GRAPH_PIECE_BYTES ((size_t)1 << 20) /* of a piece, unless a block by itself has more */

typedef struct GraphPiece {
    size_t matrix;     /* by its place in the list */
    size_t begin, end; /* blocks of 16 outputs */
    uint64_t offset_bytes;
    size_t len_bytes;
} GraphPiece;

/* Of n matrices, one behind the other. The caller frees *piecesp. 0, -EINVAL: widths without a layout; -ENOMEM. */
int graph_pieces_cut(GraphPiece **piecesp, size_t *n_piecesp, const StreamMatrix *matrices, size_t n);

#endif
