// SPDX-License-Identifier: Apache-2.0
/* What a predictor does to the trees of real generations: rows that go on, tokens a step, the time of verifications,
 * with it and without. */
#ifndef COORDGEN_TRAIN_EXIT_TREES_H
#define COORDGEN_TRAIN_EXIT_TREES_H

#include "engine/draft_pair.h"
#include "engine/generation.h"

typedef struct ExitTreesRun {
    uint64_t n_tokens, n_steps;  /* of output; steps that gave them */
    uint64_t n_rows, n_gone;     /* of these steps; of them, those that ended at the predictor's layer */
    uint64_t verify_ns, exit_ns; /* steps without drafting; of that, asking the predictor */
} ExitTreesRun;

/* Prompts u32[n_prompts][prompt_stride], of which the first n_prompt tokens are the prompt; n_output tokens each. */
typedef struct ExitTreesWork {
    Engine *target; /* with the predictor */
    DraftPair *pair;
    const uint32_t *prompts;
    size_t n_prompts, prompt_stride, n_prompt, n_output;
    float threshold;
} ExitTreesWork;

/* By the policy, as many rows as it wants: without the predictor, and with it, in turns. 0; -EPROTO: it has answered
 * other tokens; -errno. */
int exit_trees_run(const ExitTreesWork *work, SpeculationPolicy policy, ExitTreesRun *without, ExitTreesRun *with,
                   ErrText *err);

#endif
