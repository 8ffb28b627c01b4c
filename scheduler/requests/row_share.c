// SPDX-License-Identifier: Apache-2.0
#include "scheduler/requests/row_share.h"

#include "base/min_max.h"

#define NOBODY ((Priority)(PRIORITY_BACKGROUND - 1))

static Priority top_of(const RowShare *share) {
    return MAX(share->waiting, share->answering);
}

RowShare row_share_begin(const RowClaim *claims, size_t n, size_t rows, size_t shared_rows) {
    RowShare share = { .waiting = NOBODY, .answering = NOBODY, .gives_background = true };

    for (size_t i = 0; i < n; i++) {
        const RowClaim *claim = &claims[i];
        Priority *highest = claim->is_prompt ? &share.waiting : &share.answering;

        if (!claim->is_live)
            continue;
        if (claim->standing.priority > *highest)
            *highest = claim->standing.priority;
        if (claim->is_prompt)
            continue;
        rows = MIN(rows, shared_rows);
        if (claim->standing.priority > PRIORITY_BACKGROUND && claim->n_undivided + 1 < ROW_SHARE_BACKGROUND_STEPS)
            share.gives_background = false;
    }
    share.all = rows;
    share.lower = MIN(rows, ROW_SHARE_LOWER_ROWS);
    return share;
}

/**
 * row_share_of_prompt() - rows that a prompt may have of those that are left
 *
 * While a generation waits for its first token, prompts of lower classes get nothing, unless waiting has raised them to
 * its rank. Then, and while it answers, they get ROW_SHARE_LOWER_ROWS together, so that its tokens do not wait for a
 * whole chunk; background prompts get those in one step of ROW_SHARE_BACKGROUND_STEPS.
 */
size_t row_share_of_prompt(const RowShare *share, Standing standing) {
    if (standing.priority >= top_of(share))
        return share->all;
    if (standing.rank < share->waiting)
        return 0;
    if (standing.priority == PRIORITY_BACKGROUND && share->answering > share->waiting && !share->gives_background)
        return 0;
    return MIN(share->lower, share->all);
}

void row_share_take(RowShare *share, bool is_prompt, Priority priority, size_t rows) {
    share->all -= rows;
    if (is_prompt && priority < top_of(share))
        share->lower -= MIN(rows, share->lower);
}

size_t row_share_wanted(const RowShare *share, const RowClaim *claims, size_t n) {
    size_t rows = 0;

    for (size_t i = 0; i < n && rows < share->all; i++)
        if (claims[i].is_live && claims[i].is_prompt)
            rows += MIN(claims[i].n_rows, row_share_of_prompt(share, claims[i].standing));
    return MIN(rows, share->all);
}
