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
    POLICY_NODES_MAX = 1024 /* most nodes that a policy looks at, beside those that it drafts */
};

/* children of every node of a level, the root's level first */
extern const uint32_t specinfer_children[SPECINFER_LEVELS];

/* Parameters that no paper gives are marked [R]: our reading of the rule. */
#define OPT_TREE_GAIN_MIN 0.5F      /* expected tokens that a layer must add */
#define EDGELLM_SIDE_MIN 0.1F       /* [R] reach of a branch beside the most probable one */
#define EDGELLM_ALPHA_MIN 1e-6F     /* [R] lowest threshold, from which it can come back */
#define EDGELLM_ALPHA_MAX 0.9F      /* [R] highest threshold: above 1 nothing would ever be drafted */
#define LEVER_RELIABILITY_KEPT 0.9F /* [R] share of the average that each observation keeps */
#define LEVER_RELIABILITY_MIN 0.2F  /* [R] */
#define LEVER_RELIABILITY_MAX 1.2F  /* [R] */
#define LEVER_CHANCE_MAX 0.999F     /* [R] most of reliability times probability */

/* State of a policy, learned from verifications. */
typedef struct DraftPolicyState {
    float alpha;       /* edgellm: a trunk that is less probable is verified */
    float reliability; /* lever: reliability of the draft's probabilities */
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
