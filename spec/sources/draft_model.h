// SPDX-License-Identifier: Apache-2.0
/* A draft model as spec/ sees it: a small model that says which tokens are likely behind the rows of a tree. Who it is
 * and where it runs is its owner's business. */
#ifndef COORDGEN_SPEC_DRAFT_MODEL_H
#define COORDGEN_SPEC_DRAFT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/sources/context_map.h"
#include "spec/sources/drafter.h"

/* A row of the tree behind a text. Row 0 is the text's last token; every other one follows an earlier row. */
typedef struct DraftModelRow {
    int16_t parent; /* -1 for row 0 */
    uint32_t token;
} DraftModelRow;

/* What the model holds for likely behind a row, most probable first; shares of all its tokens. */
typedef struct DraftModelTops {
    uint32_t n;
    ContextTop tops[DRAFT_CHOICES_MAX];
} DraftModelTops;

typedef struct DraftModelOps {
    /* Brings the model to the text, whose last token is row 0 of the tree that begins; the tree of before is gone. What
     * the model had computed of the text, or of the old tree where the text went, is not computed again. 0; -EBUSY: it
     * cannot compute now, and may be asked again; DRAFTER_E_MEMORY, -errno: it is off from now on. */
    int (*follow)(void *self, const uint32_t *text, size_t n);
    /* Computes n rows more of the tree, numbered behind those that are there, in one pass. Likewise. */
    int (*expand)(void *self, const DraftModelRow *rows, size_t n, DraftModelTops *tops);
    /* What a pass of so many rows takes, as measured; 0: not known yet. */
    float (*cost_ms)(const void *self, uint32_t n_rows);
    uint32_t rows_max; /* of a tree, all passes together */
    bool has_text;     /* by itself, as it comes: following computes nothing */
} DraftModelOps;

typedef struct DraftModel {
    const DraftModelOps *ops; /* NULL: there is none */
    void *self;
} DraftModel;

#endif
