// SPDX-License-Identifier: Apache-2.0
/* Which rows of a step go to whom, where generations of several classes share it: those that answer have theirs, and
 * prompts share what is left by class. Knows no generation: it is told claims. */
#ifndef COORDGEN_SCHEDULER_ROW_SHARE_H
#define COORDGEN_SCHEDULER_ROW_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/requests/priority.h"

/* Rows of prompts that a step takes of lower classes while somebody reads an answer of a higher one. */
#define ROW_SHARE_LOWER_ROWS 16
/* Background prompts have rows in one of so many steps, beside an answer of a higher class. */
#define ROW_SHARE_BACKGROUND_STEPS 8

/* A generation that may have rows in the step. */
typedef struct RowClaim {
    Standing standing;
    bool is_live;         /* it runs, and is not cancelled */
    bool is_prompt;       /* its prompt is not computed yet; else it answers */
    size_t n_rows;        /* of the prompt, not computed yet */
    uint32_t n_undivided; /* steps since one with rows of background prompts, where it answers */
} RowClaim;

/* Rows that are still to be given away. */
typedef struct RowShare {
    size_t all;
    size_t lower;       /* of them, for prompts of lower classes */
    Priority waiting;   /* the highest class of those that wait for their first token, below all where there is none */
    Priority answering; /* the highest class of those that answer, likewise */
    bool gives_background; /* background prompts have their turn beside an answer of a higher class */
} RowShare;

/* A step of `rows` rows, or of shared_rows where somebody's token waits for its end. */
RowShare row_share_begin(const RowClaim *claims, size_t n, size_t rows, size_t shared_rows);
/* Returns how many rows a prompt may have now. */
size_t row_share_of_prompt(const RowShare *share, Standing standing);
/* A generation of this class has taken rows. */
void row_share_take(RowShare *share, bool is_prompt, Priority priority, size_t rows);
/* Returns how many of the rows left prompts are going to take: what drafts are weighed against. */
size_t row_share_wanted(const RowShare *share, const RowClaim *claims, size_t n);

#endif
