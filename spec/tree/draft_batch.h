// SPDX-License-Identifier: Apache-2.0
/* Which rows of a draft tree a draft model computes in its next pass: those that bring most, each with its
 * ancestors. */
#ifndef COORDGEN_SPEC_DRAFT_BATCH_H
#define COORDGEN_SPEC_DRAFT_BATCH_H

#include <stdbool.h>

#include "spec/sources/draft_tree.h"

/* Rows in the order of a draft tree: depth first. */
typedef struct DraftBatchRows {
    uint32_t n;
    float values[DRAFT_ROWS_MAX];     /* what computing the row is expected to bring, at least 0 */
    bool is_computed[DRAFT_ROWS_MAX]; /* the row, and so all of its ancestors, are computed */
    uint8_t sizes[DRAFT_ROWS_MAX];    /* rows of the row's subtree, itself included */
} DraftBatchRows;

/* best[i][k]: the most that up to k rows from row i on bring. */
typedef struct DraftBatchTable {
    float best[DRAFT_ROWS_MAX + 1][DRAFT_ROWS_MAX + 1];
} DraftBatchTable;

void draft_batch_table(DraftBatchTable *table, const DraftBatchRows *rows, uint32_t k_max);
/* Picks the rows that bring best[0][k], at most k of them, parents first; returns how many. */
uint32_t draft_batch_pick(const DraftBatchTable *table, const DraftBatchRows *rows, uint32_t k, uint8_t *picked);

#endif
