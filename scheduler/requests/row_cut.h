// SPDX-License-Identifier: Apache-2.0
/* How the rows of a step are cut into groups that go through the layers each at its own pace (wavefront, op_queues). */
#ifndef COORDGEN_SCHEDULER_ROW_CUT_H
#define COORDGEN_SCHEDULER_ROW_CUT_H

#include <stdbool.h>
#include <stddef.h>

#include "backends/batch.h"

/* A step that is long for its groups has about so many of them, and they are larger. */
#define ROW_CUT_GROUPS_WANTED 32

typedef struct RowGroup {
    BatchRange rows;
    bool continues; /* the group begins within the sequence that the group before ends with */
} RowGroup;

/* Returns the rows of a group in steps of step_rows, where a thread does best with thread_rows: whole blocks of the
 * cache, which have block_positions each. */
size_t row_cut_group_rows(size_t step_rows, size_t thread_rows, size_t block_positions);
/* Cuts a batch into groups of at most group_rows rows. Returns their number; 0: there would be more than n_max, or a
 * tree is larger than a group. */
size_t row_cut(const Batch *batch, size_t group_rows, size_t block_positions, RowGroup *groups, size_t n_max);

#endif
