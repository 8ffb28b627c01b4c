// SPDX-License-Identifier: Apache-2.0
/* Measures a predictor on trees of real generations: which rows would go on at which loss; then, with it and without,
 * rows that went on, tokens a step and times of verification. */
#ifndef COORDGEN_TRAIN_EXIT_TREES_H
#define COORDGEN_TRAIN_EXIT_TREES_H

#include "engine/draft/draft_pair.h"
#include "engine/generation.h"
#include "tools/exit/exit_pruning.h"
#include "tools/train/exit_watch.h"

typedef struct ExitTreesRun {
    uint64_t n_tokens, n_steps;  /* tokens of output; steps that gave them */
    uint64_t n_rows, n_gone;     /* rows of these steps; rows that ended at the predictor's layer */
    uint64_t verify_ns, exit_ns; /* time of steps without drafting; part of it for asking the predictor */
} ExitTreesRun;

typedef enum ExitTreesWay {
    EXIT_TREES_MIXTURE,
    EXIT_TREES_WITHOUT_SHADOWS,
    EXIT_TREES_UNGUARDED,
    EXIT_TREES_DRAFT_ALONE, /* by the draft's own share, without the predictor */
    _EXIT_TREES_WAYS,
} ExitTreesWay;

extern const char *const exit_trees_ways[_EXIT_TREES_WAYS];

/* Figures of one policy. */
typedef struct ExitTrees {
    /* At the threshold that keeps 95 % of the tuning half's right drafts, measured on the other half. */
    ExitKept kept[_EXIT_TREES_WAYS];
    ExitTreesRun without, with; /* on the prompts for figures, at the mixture's threshold */
} ExitTrees;

/* Prompts u32[n_prompt] each, with n_output tokens of output. Every other prompt, from the first on, tunes
 * thresholds. */
typedef struct ExitTreesWork {
    EarlyExit *exit; /* the target's predictor */
    DraftPair *pair;
    const uint32_t *const *prompts; /* [n_prompts] */
    size_t n_prompts, n_prompt, n_output;
    PruningMix mix_alone; /* without shadows */
} ExitTreesWork;

/* Answers by the policy (NULL: the product's own trees) with as many rows as it wants: once watched, then without
 * pruning and with it, in turns. Return: 0, -EPROTO (pruning changed an answer), or -errno, with a text. */
int exit_trees_run(const ExitTreesWork *work, const DraftPolicyOps *policy, ExitTrees *trees, ErrText *err);

#endif
