// SPDX-License-Identifier: Apache-2.0
/* Grows a draft tree best first from the proposals of several sources, and cuts it where a step emits the most tokens
 * for its time. */
#ifndef COORDGEN_SPEC_DRAFT_GROWTH_H
#define COORDGEN_SPEC_DRAFT_GROWTH_H

#include <stdbool.h>

#include "spec/sources/drafter.h"
#include "spec/sources/draft_tree.h"
#include "spec/sources/grammar_drafter.h"
#include "spec/tree/source_stats.h"

typedef struct DraftLimits {
    uint32_t nodes_max; /* at most; more than DRAFT_NODES_MAX counts as that */
    uint32_t depth_max;
    uint32_t tokens_left; /* tokens that the text may still get: a step emits one more than it accepts */
} DraftLimits;

/* Measured times of steps: ms[i] is that of a step with i + 1 rows, each above 0. Plateaus and cliffs are allowed. */
typedef struct DraftCosts {
    const float *ms;
    uint32_t n_rows; /* length of ms; 0: no step has a known time, nothing is drafted */
    float more_ms;   /* time that each step takes in addition, for what others compute in it */
} DraftCosts;

/* drafters[i] is source i of the statistics, and off without ops. */
typedef struct DraftSources {
    const Drafter *drafters;
    uint32_t n;
    const SourceStats *stats;
    GrammarDrafter *grammar; /* keeps tokens that the text may not have out of the tree; NULL: it may have all */
} DraftSources;

/* Grows the tree that is worth most for its time. chain: no siblings, only the most probable token behind each. */
void draft_growth(DraftTree *tree, uint32_t root_token, DraftSources sources, DraftLimits limits, DraftCosts costs,
                  bool chain);
/* Grows all nodes that were worth a look; returns how many of them draft_growth() would keep. */
uint32_t draft_growth_uncut(DraftTree *tree, uint32_t root_token, DraftSources sources, DraftLimits limits,
                            DraftCosts costs, bool chain);
/* Keeps the first n nodes. */
void draft_growth_cut(DraftTree *tree, uint32_t n);

#endif
