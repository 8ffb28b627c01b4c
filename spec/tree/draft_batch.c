// SPDX-License-Identifier: Apache-2.0
#include "spec/tree/draft_batch.h"

#include <assert.h>

/* Whether a row is taken. If it is not, nothing of its subtree is. */
static bool is_taken(const DraftBatchTable *table, const DraftBatchRows *rows, uint32_t row, uint32_t k) {
    return k && rows->values[row] + table->best[row + 1][k - 1] > table->best[row + rows->sizes[row]][k];
}

/**
 * draft_batch_table() - find the best choices of up to k_max rows (at most DRAFT_ROWS_MAX)
 *
 * The result is exact. In depth-first order every choice within a subtree begins with the subtree's first row, so one
 * pass from the last row to the first sees every choice that is closed under parents. Time: n x k_max sums.
 */
void draft_batch_table(DraftBatchTable *table, const DraftBatchRows *rows, uint32_t k_max) {
    assert(rows->n <= DRAFT_ROWS_MAX && k_max <= DRAFT_ROWS_MAX);
    for (uint32_t k = 0; k <= k_max; k++)
        table->best[rows->n][k] = 0;
    for (uint32_t row = rows->n; row-- > 0;)
        for (uint32_t k = 0; k <= k_max; k++)
            if (rows->is_computed[row])
                table->best[row][k] = table->best[row + 1][k];
            else
                table->best[row][k] = is_taken(table, rows, row, k) ? rows->values[row] + table->best[row + 1][k - 1]
                                                                    : table->best[row + rows->sizes[row]][k];
}

uint32_t draft_batch_pick(const DraftBatchTable *table, const DraftBatchRows *rows, uint32_t k, uint8_t *picked) {
    uint32_t n = 0;

    for (uint32_t row = 0; row < rows->n;) {
        if (rows->is_computed[row]) {
            row++;
        } else if (is_taken(table, rows, row, k)) {
            picked[n++] = (uint8_t)row++;
            k--;
        } else {
            row += rows->sizes[row];
        }
    }
    return n;
}
