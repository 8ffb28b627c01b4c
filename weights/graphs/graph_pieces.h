// SPDX-License-Identifier: Apache-2.0
/* Cuts the matrices of graphs, as they lie in a package, into pieces of whole blocks of outputs. One piece can be
 * expanded while the next ones are read. */
#ifndef COORDGEN_WEIGHTS_GRAPH_PIECES_H
#define COORDGEN_WEIGHTS_GRAPH_PIECES_H

#include <stddef.h>
#include <stdint.h>

#include "weights/residency/weight_stream.h"

#define GRAPH_PIECE_BYTES ((size_t)1 << 20) /* at most in a piece, unless a single block has more */

typedef struct GraphPiece {
    size_t matrix;     /* index in the list of matrices */
    size_t begin, end; /* blocks of 16 outputs */
    uint64_t offset_bytes;
    size_t len_bytes;
} GraphPiece;

/* Cuts n matrices, one after the other. The caller frees *piecesp. 0, -EINVAL: widths without a layout; -ENOMEM. */
int graph_pieces_cut(GraphPiece **piecesp, size_t *n_piecesp, const StreamMatrix *matrices, size_t n);

#endif
