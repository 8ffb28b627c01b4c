// SPDX-License-Identifier: Apache-2.0
/* What a predictor does to the trees of real generations: which rows would go on at which loss, and then, with it and
 * without, rows that went on, tokens a step, the time of verifications. */
#ifndef COORDGEN_TRAIN_EXIT_TREES_H
#define COORDGEN_TRAIN_EXIT_TREES_H

#include "engine/draft/draft_pair.h"
#include "engine/generation.h"
#include "tools/train/exit_watch.h"

typedef struct ExitTreesRun {
    uint64_t n_tokens, n_steps;  /* of output; steps that gave them */
    uint64_t n_rows, n_gone;     /* of these steps; of them, those that ended at the predictor's layer */
    uint64_t verify_ns, exit_ns; /* steps without drafting; of that, asking the predictor */
} ExitTreesRun;

typedef enum ExitTreesWay {
    EXIT_TREES_MIXTURE,
    EXIT_TREES_WITHOUT_SHADOWS,
    EXIT_TREES_UNGUARDED,
    EXIT_TREES_DRAFT_ALONE, /* by the draft's own share, as if nobody had been asked */
    _EXIT_TREES_WAYS,
} ExitTreesWay;

extern const char *const exit_trees_ways[_EXIT_TREES_WAYS];

/* Of one policy. */
typedef struct ExitTrees {
    ExitKept kept[_EXIT_TREES_WAYS]; /* at 95 % of the right drafts of the half that tunes, on the other */
    ExitTreesRun without, with;      /* of the prompts for figures, at the mixture's threshold */
} ExitTrees;

/* Prompts u32[n_prompt] each, n_output tokens of output; every other one, from the first on, tunes thresholds. */
typedef struct ExitTreesWork {
    Engine *target; /* with the predictor */
    DraftPair *pair;
    const uint32_t *const *prompts; /* [n_prompts] */
    size_t n_prompts, n_prompt, n_output;
    PruningMix mix_alone; /* without shadows */
} ExitTreesWork;

/* By the policy (NULL: the product's own), as many rows as it wants: watched; then without pruning and with it, in
 * turns. 0; -EPROTO: it has answered other tokens; -errno. */
int exit_trees_run(const ExitTreesWork *work, const DraftPolicyOps *policy, ExitTrees *trees, ErrText *err);

#endif
