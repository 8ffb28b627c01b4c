// SPDX-License-Identifier: Apache-2.0
#include "scheduler/requests/row_cut.h"

#include "base/min_max.h"

size_t row_cut_group_rows(size_t step_rows, size_t thread_rows, size_t block_positions) {
    const size_t wanted = (step_rows + ROW_CUT_GROUPS_WANTED - 1) / ROW_CUT_GROUPS_WANTED;
    const size_t rows = MAX(wanted, thread_rows);

    return (rows + block_positions - 1) / block_positions * block_positions;
}

/* Returns how many of `left` rows from `position` on fit into `room` rows: all, or those up to a border of the cache's
 * blocks, for one group reads a block as a whole while another group would write into it. */
static size_t rows_that_fit(size_t position, size_t left, size_t room, size_t block) {
    if (left <= room)
        return left;
    return (position + room) / block * block > position ? (position + room) / block * block - position : 0;
}

/* Returns how many of a sequence's rows, from its row `at` on, a group with `room` rows left takes. A tree is not cut:
 * a row may attend to any before it. */
static size_t rows_to_take(const Batch *batch, const BatchSequence *sequence, size_t at, size_t room, size_t block) {
    if (sequence->side)
        return sequence->rows.n <= room ? sequence->rows.n : 0;
    return rows_that_fit(batch->rows[sequence->rows.first + at].position, sequence->rows.n - at, room, block);
}

size_t row_cut(const Batch *batch, size_t group_rows, size_t block_positions, RowGroup *groups, size_t n_max) {
    size_t n_groups = 1;

    groups[0] = (RowGroup){ 0 };
    for (size_t i = 0; i < batch->n_sequences; i++) {
        const BatchSequence *sequence = &batch->sequences[i];

        if (sequence->side && sequence->rows.n > group_rows)
            return 0;
        for (size_t at = 0, n; at < sequence->rows.n; at += n) {
            RowGroup *group = &groups[n_groups - 1];

            n = rows_to_take(batch, sequence, at, group_rows - group->rows.n, block_positions);
            group->rows.n += n;
            if (n)
                continue;
            if (n_groups == n_max)
                return 0;
            groups[n_groups++] = (RowGroup){ .rows.first = sequence->rows.first + at, .continues = at };
        }
    }
    return n_groups;
}
