// SPDX-License-Identifier: Apache-2.0
#include "weights/graphs/graph_pieces.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/min_max.h"
#include "quant/format/pack.h"

typedef struct PieceList {
    GraphPiece *pieces;
    size_t n, room;
} PieceList;

static int append(PieceList *list, const GraphPiece *piece) {
    if (list->n == list->room) {
        const size_t room = list->room ? 2 * list->room : 256;
        GraphPiece *pieces = reallocarray(list->pieces, room, sizeof(*pieces));

        if (!pieces)
            return err_raise(-ENOMEM);
        list->pieces = pieces;
        list->room = room;
    }
    list->pieces[list->n++] = *piece;
    return 0;
}

/* Returns where a block begins, from the matrix's first byte: by the plan of a packed matrix, else by rows of int8. */
static uint64_t block_offset(const StreamMatrix *matrix, const PackPlan *plan, size_t block) {
    const size_t row = block * PACK_BLOCK_CHANNELS;

    return matrix->bits ? plan->offsets[block] : (uint64_t)(MIN(row, matrix->n)) * matrix->k;
}

static int cut_matrix(PieceList *list, const StreamMatrix *matrix, size_t index) {
    const size_t n_blocks = (matrix->n + PACK_BLOCK_CHANNELS - 1) / PACK_BLOCK_CHANNELS;
    _cleanup_(pack_plan_deinit) PackPlan plan = { 0 };
    int r = matrix->bits ? pack_plan_init(&plan, matrix->grid, matrix->bits, matrix->n, matrix->k) : 0;

    for (size_t begin = 0, end; begin < n_blocks && !r; begin = end) {
        const uint64_t at = block_offset(matrix, &plan, begin);

        for (end = begin + 1; end < n_blocks; end++)
            if (block_offset(matrix, &plan, end + 1) - at > GRAPH_PIECE_BYTES)
                break;
        r = append(list, &(GraphPiece){ .matrix = index,
                                        .begin = begin,
                                        .end = end,
                                        .offset_bytes = matrix->offset_bytes + at,
                                        .len_bytes = (size_t)(block_offset(matrix, &plan, end) - at) });
    }
    return r;
}

int graph_pieces_cut(GraphPiece **piecesp, size_t *n_piecesp, const StreamMatrix *matrices, size_t n) {
    PieceList list = { NULL, 0, 0 };
    int r = 0;

    for (size_t i = 0; i < n && !r; i++)
        r = cut_matrix(&list, &matrices[i], i);
    if (r) {
        free(list.pieces);
        return r;
    }
    *piecesp = list.pieces;
    *n_piecesp = list.n;
    return 0;
}
