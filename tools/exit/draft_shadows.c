// SPDX-License-Identifier: Apache-2.0
#include "tools/exit/draft_shadows.h"

#include <stddef.h>

/* Lists the children of a row; 0: nobody asks for its candidates. A row may have more than SHADOWS_EACH, but all rows
 * together no more than there are rows. */
static size_t add_children(const DraftTree *tree, uint32_t row, DraftEdge *edges) {
    size_t n = 0;

    for (uint32_t child = row + 1; child < tree->n_rows; child++)
        if (tree->parents[child] == (int)row)
            edges[n++] = (DraftEdge){ row, tree->tokens[child], (int16_t)child };
    return n;
}

static bool has_token(const DraftEdge *edges, size_t n, uint32_t token) {
    for (size_t i = 0; i < n; i++)
        if (edges[i].token == token)
            return true;
    return false;
}

static size_t add_shadows(const Drafter *drafter, DraftCursor at, uint32_t row, DraftEdge *edges, size_t n) {
    DraftChoice choices[DRAFT_CHOICES_MAX];
    const size_t n_choices = drafter->ops->choices(drafter->self, at, choices, DRAFT_CHOICES_MAX);

    for (size_t i = 0; i < n_choices && n < SHADOWS_EACH; i++)
        if (!has_token(edges, n, choices[i].token))
            edges[n++] = (DraftEdge){ row, choices[i].token, -1 };
    return n;
}

size_t draft_shadows(const DraftTree *tree, DraftSources sources, DraftEdge edges[SHADOW_EDGES_MAX]) {
    DraftCursor cursors[DRAFT_ROWS_MAX][DRAFT_SOURCES_MAX];
    size_t n = 0;

    for (uint32_t row = 0; row < tree->n_rows; row++) {
        size_t n_behind;

        for (uint32_t i = 0; i < sources.n; i++) {
            const Drafter *drafter = &sources.drafters[i];

            if (drafter->ops)
                cursors[row][i] =
                    row ? drafter->ops->follow(drafter->self, cursors[tree->parents[row]][i], tree->tokens[row])
                        : drafter->ops->root(drafter->self);
        }
        n_behind = add_children(tree, row, edges + n);
        for (uint32_t i = 0; n_behind && i < sources.n; i++)
            if (sources.drafters[i].ops)
                n_behind = add_shadows(&sources.drafters[i], cursors[row][i], row, edges + n, n_behind);
        n += n_behind;
    }
    return n;
}
