// SPDX-License-Identifier: Apache-2.0
/* Which rows of a draft tree a draft model computes in its next pass: those that bring most, each with its
 * ancestors. */
#ifndef COORDGEN_SPEC_DRAFT_BATCH_H
#define COORDGEN_SPEC_DRAFT_BATCH_H

#include <stdbool.h>

#include "spec/sources/draft_tree.h"

/* Rows as a draft tree has them: depth first. */
typedef struct DraftBatchRows {
    uint32_t n;
    float values[DRAFT_ROWS_MAX];     /* what computing it is expected to bring, at least 0 */
    bool is_computed[DRAFT_ROWS_MAX]; /* then its ancestors are too */
    uint8_t sizes[DRAFT_ROWS_MAX];    /* rows of its subtree, itself among them */
} DraftBatchRows;

/* best[i][k]: the most that k rows at most bring of those from i on. */
typedef struct DraftBatchTable {
    float best[DRAFT_ROWS_MAX + 1][DRAFT_ROWS_MAX + 1];
} DraftBatchTable;

void draft_batch_table(DraftBatchTable *table, const DraftBatchRows *rows, uint32_t k_max);
/* The rows that bring best[0][k], k of them at most, parents first; returns how many. */
uint32_t draft_batch_pick(const DraftBatchTable *table, const DraftBatchRows *rows, uint32_t k, uint8_t *picked);

#endif
