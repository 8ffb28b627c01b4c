// SPDX-License-Identifier: Apache-2.0
/* Published rules by which trees grow from a draft model's own probabilities alone: what our own growth is measured
 * against. A SpecLab takes one as its policy; its state is a DraftPolicyState. */
#ifndef COORDGEN_BASELINES_DRAFT_POLICY_H
#define COORDGEN_BASELINES_DRAFT_POLICY_H

#include "spec/tree/draft_rounds.h"

enum {
    CHAIN_SD_TOKENS = 8,
    SPECINFER_LEVELS = 8,
    OPT_TREE_NODES = 50,
    OPT_TREE_DEPTH = 10,
    POLICY_NODES_MAX = 1024 /* that a policy looks at, beside those that it drafts */
};

extern const uint32_t specinfer_children[SPECINFER_LEVELS]; /* of every node of a level, the root's first */

/* Whose parameters nobody gives are marked [R]: our reading of the rule. */
#define OPT_TREE_GAIN_MIN 0.5F      /* tokens that a layer must add to those expected */
#define EDGELLM_SIDE_MIN 0.1F       /* [R] reach of a branch beside the most probable one */
#define EDGELLM_ALPHA_MIN 1e-6F     /* [R] of the threshold, so that it can come back */
#define EDGELLM_ALPHA_MAX 0.9F      /* [R] above 1 nothing would ever be drafted */
#define LEVER_RELIABILITY_KEPT 0.9F /* [R] of the average, at each observation */
#define LEVER_RELIABILITY_MIN 0.2F  /* [R] */
#define LEVER_RELIABILITY_MAX 1.2F  /* [R] */
#define LEVER_CHANCE_MAX 0.999F     /* [R] of reliability times probability */

/* What policies learn from verifications. */
typedef struct DraftPolicyState {
    float alpha;       /* edgellm: a trunk is verified when it is less probable */
    float reliability; /* lever: of the draft's probabilities */
} DraftPolicyState;

typedef enum DraftPolicy {
    POLICY_CHAIN_SD, /* a chain of fixed length (Leviathan et al. 2023) */
    POLICY_EDGELLM,
    POLICY_SPECINFER,
    POLICY_OPT_TREE,
    POLICY_LEVER, /* the only one that weighs costs */
    _POLICY_N
} DraftPolicy;

extern const DraftPolicyOps draft_policies[_POLICY_N];

#endif
