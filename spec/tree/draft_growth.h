// SPDX-License-Identifier: Apache-2.0
/* Grows a draft tree best first from the proposals of several sources, and cuts it where a step emits most tokens for
 * its time. */
#ifndef COORDGEN_SPEC_DRAFT_GROWTH_H
#define COORDGEN_SPEC_DRAFT_GROWTH_H

#include <stdbool.h>

#include "spec/sources/drafter.h"
#include "spec/sources/draft_tree.h"
#include "spec/tree/source_stats.h"

typedef struct DraftLimits {
    uint32_t nodes_max; /* above DRAFT_NODES_MAX: that */
    uint32_t depth_max;
    uint32_t tokens_left; /* that the text may still get: a step emits one more than it accepts */
} DraftLimits;

/* Measured time of a step: ms[i] of one with i + 1 rows, each above 0. Any shape: plateaus, cliffs. */
typedef struct DraftCosts {
    const float *ms;
    uint32_t n_rows; /* at most; 0: no step has a known time, nothing is drafted */
    float more_ms;   /* that each of them takes beside, for what others compute in it */
} DraftCosts;

/* drafters[i] is the source i of the statistics; without ops it is off. */
typedef struct DraftSources {
    const Drafter *drafters;
    uint32_t n;
    const SourceStats *stats;
} DraftSources;

/* chain: without siblings, the most probable token alone behind each. */
void draft_growth(DraftTree *tree, uint32_t root_token, DraftSources sources, DraftLimits limits, DraftCosts costs,
                  bool chain);
/* Before it is cut: which nodes would come if the tree could be larger. */
uint32_t draft_growth_uncut(DraftTree *tree, uint32_t root_token, DraftSources sources, DraftLimits limits,
                            DraftCosts costs, bool chain);
/* Leaves the first n nodes. */
void draft_growth_cut(DraftTree *tree, uint32_t n);

#endif
