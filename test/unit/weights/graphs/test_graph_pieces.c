// SPDX-License-Identifier: Apache-2.0
/* Matrices of a package cut into pieces: every block is in one piece, in order; no piece is larger than allowed, and
 * each is where the package has it. */
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "quant/format/pack.h"
#include "test/unit/fixtures/model_maker.h"
#include "weights/graphs/graph_pieces.h"

enum {
    N_MATRICES = 5,
};

static const struct {
    size_t n, k;
    int widths; /* 0: int8; 1..8; 9: mixed */
} shapes[N_MATRICES] = { { 5000, 1000, 0 }, { 1, 1, 0 }, { 4000, 2048, 5 }, { 40, 131072, 9 }, { 100, 64, 9 } };

static uint64_t block_offset(const StreamMatrix *matrix, const PackPlan *plan, size_t block) {
    return matrix->bits ? plan->offsets[block] : MIN(block * 16, matrix->n) * matrix->k;
}

static void test_graph_pieces_cut(void **state) {
    StreamMatrix matrices[N_MATRICES];
    PackPlan plans[N_MATRICES] = { { 0 } };
    uint64_t seed = 5, offset_bytes = 4096;
    GraphPiece *pieces;
    size_t n_pieces, at = 0;

    for (size_t i = 0; i < N_MATRICES; i++) {
        int8_t *bits = malloc(shapes[i].n);

        assert_non_null(bits);
        for (size_t c = 0; c < shapes[i].n; c++)
            bits[c] = (int8_t)(shapes[i].widths < 9 ? shapes[i].widths : 1 + (int)(test_random(&seed) % 8));
        matrices[i] = (StreamMatrix){ .offset_bytes = offset_bytes, .n = shapes[i].n, .k = shapes[i].k };
        if (shapes[i].widths) {
            matrices[i].bits = bits;
            assert_int_equal(pack_plan_init(&plans[i], GRID_UNIFORM, bits, shapes[i].n, shapes[i].k), 0);
        } else {
            free(bits);
        }
        offset_bytes += 10000000;
    }
    assert_int_equal(graph_pieces_cut(&pieces, &n_pieces, matrices, N_MATRICES), 0);
    for (size_t i = 0; i < N_MATRICES; i++) {
        const size_t n_blocks = (matrices[i].n + 15) / 16;

        for (size_t block = 0; block < n_blocks; block = pieces[at++].end) {
            const GraphPiece *piece = &pieces[at];
            const uint64_t from = block_offset(&matrices[i], &plans[i], block);

            assert_true(at < n_pieces);
            assert_true(piece->matrix == i && piece->begin == block && piece->end > block && piece->end <= n_blocks);
            assert_int_equal(piece->offset_bytes, matrices[i].offset_bytes + from);
            assert_int_equal(piece->len_bytes, block_offset(&matrices[i], &plans[i], piece->end) - from);
            assert_true(piece->len_bytes <= GRAPH_PIECE_BYTES || piece->end == block + 1);
            if (piece->end < n_blocks)
                assert_true(block_offset(&matrices[i], &plans[i], piece->end + 1) - from > GRAPH_PIECE_BYTES);
        }
    }
    assert_int_equal(at, n_pieces);
    free(pieces);
    for (size_t i = 0; i < N_MATRICES; i++) {
        free((void *)matrices[i].bits);
        pack_plan_deinit(&plans[i]);
    }
}

static void test_graph_pieces_widths(void **state) {
    const int8_t bits[2] = { 4, 9 };
    const StreamMatrix matrices[2] = { { .n = 20, .k = 64 }, { .n = 2, .k = 64, .bits = bits } };
    GraphPiece *pieces;
    size_t n_pieces;

    assert_int_equal(graph_pieces_cut(&pieces, &n_pieces, matrices, 2), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_graph_pieces_cut),
                                        cmocka_unit_test(test_graph_pieces_widths) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
