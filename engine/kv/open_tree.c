// SPDX-License-Identifier: Apache-2.0
/* Open trees: several steps compute a tree behind a sequence's positions, then one way down is kept, or none. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "engine/kv/sequence_state.h"

size_t open_tree_with(const OpenTree *tree, const int16_t *more, size_t n, int16_t parents[ENGINE_TREE_ROWS_MAX]) {
    if (n > ENGINE_TREE_ROWS_MAX - tree->n)
        return 0;
    memcpy(parents, tree->parents, tree->n * sizeof(*parents));
    memcpy(parents + tree->n, more, n * sizeof(*parents));
    return tree->n + n;
}

void open_tree_grow(OpenTree *tree, const int16_t *more, size_t n) {
    assert(n <= ENGINE_TREE_ROWS_MAX - tree->n);
    memcpy(tree->parents + tree->n, more, n * sizeof(*more));
    tree->n += n;
}

static bool is_way(const OpenTree *tree, const uint16_t *rows, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (rows[i] >= tree->n || tree->parents[rows[i]] != (i ? (int)rows[i - 1] : -1))
            return false;
    return true;
}

/**
 * sequence_close_tree() - keep a way down from row 0 of the open tree as positions, or nothing
 * @rows: [n] of the whole tree, each behind the row that it follows, from row 0 on; n is 0: no row is kept
 *
 * Appended tokens get the bits that they would get after plain decoding of that way. No memory is needed: the pages of
 * all positions that a row may get became the sequence's own when the row was computed. Thread: the one that computes;
 * no step of the sequence has begun. Return: 0, also if no tree is open and n is 0; -EINVAL.
 */
int sequence_close_tree(Sequence *sequence, const uint16_t *rows, size_t n) {
    KvMove moves[ENGINE_TREE_ROWS_MAX];

    assert(!sequence->in_step);
    if (!is_way(&sequence->tree, rows, n))
        return -EINVAL;
    for (size_t i = 1; i < n; i++) /* row 0 is at its position already */
        moves[i - 1] = sequence_move(sequence, rows[i] - (size_t)1, sequence->n_tokens + i);
    if (n > 1)
        engine_move_rows(sequence->engine, moves, n - 1);
    sequence->n_tokens += n;
    sequence->tree.n = 0;
    return 0;
}
