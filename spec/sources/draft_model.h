// SPDX-License-Identifier: Apache-2.0
/* A draft model as spec/ sees it: a small model that predicts likely tokens behind the rows of a tree. Its owner knows
 * which model it is and where it runs. */
#ifndef COORDGEN_SPEC_DRAFT_MODEL_H
#define COORDGEN_SPEC_DRAFT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/sources/context_map.h"
#include "spec/sources/drafter.h"

/* A row of the tree behind a text. Row 0 is the text's last token; each other row follows an earlier one. */
typedef struct DraftModelRow {
    int16_t parent; /* -1 for row 0 */
    uint32_t token;
} DraftModelRow;

/* The model's likely tokens behind a row, most probable first, with their shares of the whole vocabulary. */
typedef struct DraftModelTops {
    uint32_t n;
    ContextTop tops[DRAFT_CHOICES_MAX];
} DraftModelTops;

typedef struct DraftModelOps {
    /* Lets the model read the text, whose last token is row 0 of a new tree; the old tree is gone. What was computed of
     * the text, or of the old tree where the text went, is not computed again. 0; -EBUSY: the model cannot compute now,
     * and may be asked again; DRAFTER_E_MEMORY, -errno: the model is off from now on. */
    int (*follow)(void *self, const uint32_t *text, size_t n);
    /* Computes n rows of the tree in one pass, numbered on from those that are there. Errors as follow(). */
    int (*expand)(void *self, const DraftModelRow *rows, size_t n, DraftModelTops *tops);
    /* Returns the measured ms of a pass of n_rows; 0: not known yet. */
    float (*cost_ms)(const void *self, uint32_t n_rows);
    uint32_t rows_max; /* most rows of a tree, of all passes together */
    bool has_text;     /* the model has the text by itself: follow() computes nothing */
} DraftModelOps;

typedef struct DraftModel {
    const DraftModelOps *ops; /* NULL: there is none */
    void *self;
} DraftModel;

#endif
