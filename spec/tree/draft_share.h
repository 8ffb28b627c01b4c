// SPDX-License-Identifier: Apache-2.0
/* Picks what several generations verify in one step from the trees that each has grown for itself. */
#ifndef COORDGEN_SPEC_DRAFT_SHARE_H
#define COORDGEN_SPEC_DRAFT_SHARE_H

#include "spec/tree/draft_growth.h"

enum {
    DRAFT_SHARE_MAX = 64
};

/* Cuts a tree to its most probable chain. */
void draft_share_chain(DraftTree *tree);
/* Cuts n trees (at most DRAFT_SHARE_MAX) to the nodes, nodes_max in all at most, that together give most for the step's
 * time. weights[i] is what a token of tree i counts; costs.ms[i] is the time of a step with i nodes of all trees. */
void draft_share_cut(DraftTree *const *trees, const float *weights, size_t n, uint32_t nodes_max, DraftCosts costs);

#endif
