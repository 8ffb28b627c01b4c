// SPDX-License-Identifier: Apache-2.0
/* Candidates behind the rows of a tree, in the tree or not, among which a predictor gives shares. A candidate that is
 * not in the tree is a shadow: without shadows an only child would have the whole share. */
#ifndef COORDGEN_EXIT_DRAFT_SHADOWS_H
#define COORDGEN_EXIT_DRAFT_SHADOWS_H

#include "spec/tree/draft_growth.h"

enum {
    SHADOWS_EACH = 16, /* candidates behind one row */
    SHADOW_EDGES_MAX = DRAFT_ROWS_MAX * SHADOWS_EACH
};

/* A token behind a row. */
typedef struct DraftEdge {
    uint32_t row;
    uint32_t token;
    int16_t child; /* the token's row in the tree; -1: a shadow */
} DraftEdge;

/* Fills edges[returned], for all rows that have children: grouped by rising rows, each row's children first and all of
 * them. Nothing may have been appended since the tree was drafted. */
size_t draft_shadows(const DraftTree *tree, DraftSources sources, DraftEdge edges[SHADOW_EDGES_MAX]);

#endif
