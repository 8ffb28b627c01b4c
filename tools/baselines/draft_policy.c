// SPDX-License-Identifier: Apache-2.0
#include "tools/baselines/draft_policy.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "spec/speculation_choice.h"

enum {
    POLICY_E_LIMIT = 3 /* no further pass in this step: the model's rows or time are used up, or somebody waits */
};

const uint32_t specinfer_children[SPECINFER_LEVELS] = { 1, 1, 3, 1, 1, 1, 1, 1 };

typedef struct PolicyNode {
    DraftNode node; /* the parent is a PolicyNode or DRAFT_ROOT, the reach the product of probabilities */
    float probability;
    int16_t model_row; /* MODEL_NOWHERE: not computed */
    bool is_in;        /* in the tree, for policies that look at more nodes */
} PolicyNode;

typedef struct Policy {
    const DraftRounds *step;
    const DraftPolicyState *state;
    DraftRoundsReport *report;
    uint32_t root_token, nodes_max, depth_max;
    uint32_t n;
    PolicyNode nodes[POLICY_NODES_MAX];
} Policy;

/* --- what all of them do ------------------------------------------------------------------------------------------ */

static float reach_of(const Policy *p, int at) {
    return at == DRAFT_ROOT ? 1 : p->nodes[at].node.reach;
}

static uint32_t depth_of(const Policy *p, int at) {
    return at == DRAFT_ROOT ? 0 : p->nodes[at].node.depth;
}

static bool can_pass(const Policy *p, uint32_t n_rows) {
    return !draft_rounds_stops(p->step) && n_rows <= model_drafter_n_left(p->step->model) &&
           draft_rounds_affords(p->step, p->report, n_rows);
}

/* Computes nodes (DRAFT_ROOT: the root) in one pass. 0, POLICY_E_LIMIT, errors as DraftModelOps. */
static int compute(Policy *p, const int *nodes, uint32_t n) {
    DraftModelRow rows[MODEL_ROWS_MAX];
    const uint32_t first = model_drafter_n_rows(p->step->model);

    if (!n || !can_pass(p, n))
        return POLICY_E_LIMIT;
    for (uint32_t i = 0; i < n; i++) {
        const int at = nodes[i], parent = at == DRAFT_ROOT ? DRAFT_ROOT : p->nodes[at].node.parent;

        if (at == DRAFT_ROOT) {
            rows[i] = (DraftModelRow){ MODEL_NOWHERE, p->root_token };
            continue;
        }
        rows[i].parent = parent == DRAFT_ROOT ? 0 : p->nodes[parent].model_row;
        rows[i].token = p->nodes[at].node.token;
        p->nodes[at].model_row = (int16_t)(first + i);
    }
    return draft_rounds_compute(p->step, p->report, rows, n);
}

static const DraftModelTops *tops_of(const Policy *p, int at) {
    return model_drafter_tops(p->step->model, at == DRAFT_ROOT ? 0 : (uint32_t)p->nodes[at].model_row);
}

/* Adds the node's choice of that rank, with the chance that the policy gives it; DRAFT_ROOT: no room. */
static int add_child(Policy *p, int at, uint32_t rank, float chance) {
    const ContextTop top = tops_of(p, at)->tops[rank];
    PolicyNode *node = &p->nodes[p->n];

    if (p->n == POLICY_NODES_MAX)
        return DRAFT_ROOT;
    *node = (PolicyNode){ .probability = top.probability, .model_row = MODEL_NOWHERE, .is_in = true };
    node->node = (DraftNode){ .token = top.token,
                              .reach = reach_of(p, at) * chance,
                              .parent = (int16_t)at,
                              .depth = (uint8_t)(depth_of(p, at) + 1),
                              .n_credits = 1 };
    node->node.credits[0] =
        (DraftCredit){ SPECULATION_MODEL, (uint8_t)model_drafter_bucket(top.probability), (uint8_t)rank, false };
    return (int)p->n++;
}

/* Orders the nodes from `from` on, the best first; equal nodes as they were added, so that parents come before
 * children. Returns how many. */
static uint32_t by_reach(const Policy *p, uint32_t from, int *order) {
    uint32_t n = 0;

    for (uint32_t i = from; i < p->n; i++) {
        uint32_t at = n++;

        for (; at && p->nodes[order[at - 1]].node.reach < p->nodes[i].node.reach; at--)
            order[at] = order[at - 1];
        order[at] = (int)i;
    }
    return n;
}

/* Makes the best nodes the tree's. A node that cannot come is worth no row. */
static void emit(const Policy *p, DraftTree *tree) {
    int order[POLICY_NODES_MAX];
    int16_t places[POLICY_NODES_MAX];
    const uint32_t n = by_reach(p, 0, order);

    for (uint32_t i = 0; i < n && tree->n_nodes < p->nodes_max; i++) {
        const PolicyNode *from = &p->nodes[order[i]];
        DraftNode node = from->node;

        if (!from->is_in || !(node.reach > 0))
            continue;
        node.parent = node.parent == DRAFT_ROOT ? DRAFT_ROOT : places[node.parent];
        places[order[i]] = (int16_t)tree->n_nodes;
        draft_tree_add(tree, &node);
    }
    draft_tree_order(tree);
}

/* --- chain-sd (Leviathan et al. 2023) ----------------------------------------------------------------------------- */

static int grow_chain(Policy *p) {
    const uint32_t most = MIN(p->nodes_max, CHAIN_SD_TOKENS);
    int at = DRAFT_ROOT, r;

    while (p->n < most && depth_of(p, at) < p->depth_max) {
        r = compute(p, &at, 1);
        if (r)
            return r;
        if (!tops_of(p, at)->n)
            break;
        at = add_child(p, at, 0, tops_of(p, at)->tops[0].probability);
    }
    return 0;
}

/* --- specinfer (Miao et al. 2024) --------------------------------------------------------------------------------- */

static int grow_specinfer(Policy *p) {
    int level[DRAFT_NODES_MAX] = { DRAFT_ROOT };
    uint32_t n = 1;
    int r;

    for (uint32_t i = 0; i < SPECINFER_LEVELS && i < p->depth_max && n && p->n < p->nodes_max; i++) {
        int next[DRAFT_NODES_MAX];
        uint32_t n_next = 0;

        r = compute(p, level, n);
        if (r)
            return r;
        for (uint32_t j = 0; j < n; j++)
            for (uint32_t k = 0; k < specinfer_children[i] && k < tops_of(p, level[j])->n; k++)
                if (p->n < p->nodes_max)
                    next[n_next++] = add_child(p, level[j], k, tops_of(p, level[j])->tops[k].probability);
        memcpy(level, next, n_next * sizeof(*level));
        n = n_next;
    }
    return 0;
}

/* --- opt-tree (Wang et al. 2025) ---------------------------------------------------------------------------------- */

/* Returns the tokens that the best nodes of all layers give. */
static float expected(const Policy *p, uint32_t budget) {
    int order[POLICY_NODES_MAX];
    const uint32_t n = by_reach(p, 0, order);
    float sum = 0;

    for (uint32_t i = 0; i < n && i < budget; i++)
        sum += p->nodes[order[i]].node.reach;
    return sum;
}

/* Fills a layer with the best of what all nodes of the last layer propose; others are dropped. Returns how many. */
static uint32_t next_layer(Policy *p, int *layer, uint32_t n, uint32_t budget) {
    static_assert(OPT_TREE_NODES * (DRAFT_CHOICES_MAX + OPT_TREE_DEPTH) <= POLICY_NODES_MAX,
                  "all layers and a new one");
    const uint32_t from = p->n;
    PolicyNode kept[OPT_TREE_NODES];
    int order[POLICY_NODES_MAX];

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < budget && k < tops_of(p, layer[i])->n; k++)
            add_child(p, layer[i], k, tops_of(p, layer[i])->tops[k].probability);
    n = by_reach(p, from, order);
    n = MIN(n, budget);
    for (uint32_t i = 0; i < n; i++)
        kept[i] = p->nodes[order[i]];
    p->n = from;
    for (uint32_t i = 0; i < n; i++) {
        layer[i] = (int)p->n;
        p->nodes[p->n++] = kept[i];
    }
    return n;
}

static int grow_opt_tree(Policy *p) {
    const uint32_t budget = MIN(p->nodes_max, OPT_TREE_NODES);
    int layer[OPT_TREE_NODES] = { DRAFT_ROOT };
    float before = 0, now;
    uint32_t n = 1;
    int r;

    p->nodes_max = budget;
    for (uint32_t depth = 0; depth < OPT_TREE_DEPTH && depth < p->depth_max && n; depth++) {
        const uint32_t left = model_drafter_n_left(p->step->model);

        r = compute(p, layer, MIN(n, left));
        if (r)
            return r;
        n = next_layer(p, layer, MIN(n, left), budget);
        now = expected(p, budget);
        if (!(now - before > OPT_TREE_GAIN_MIN))
            break;
        before = now;
    }
    return 0;
}

/* --- edgellm (Xu et al. 2024) ------------------------------------------------------------------------------------- */

/* Finds the branch with the largest reach that can be extended; false: none. */
static bool best_branch(const Policy *p, int *atp) {
    bool found = !p->n;

    *atp = DRAFT_ROOT;
    for (uint32_t i = 0; i < p->n; i++) {
        const PolicyNode *node = &p->nodes[i];

        if (node->model_row != MODEL_NOWHERE || node->node.depth >= p->depth_max)
            continue;
        if (!found || node->node.reach > reach_of(p, *atp))
            *atp = (int)i;
        found = true;
    }
    return found;
}

static int grow_edgellm(Policy *p) {
    int at, trunk = DRAFT_ROOT, r;
    float trunk_reach = 1;

    while (p->n < p->nodes_max && trunk_reach >= p->state->alpha && best_branch(p, &at)) {
        const uint32_t first = p->n;
        const DraftModelTops *tops;

        r = compute(p, &at, 1);
        if (r)
            return r;
        tops = tops_of(p, at);
        if (!tops->n && at == DRAFT_ROOT)
            break;
        for (uint32_t k = 0; k < tops->n && p->n < p->nodes_max; k++)
            if (!k || reach_of(p, at) * tops->tops[k].probability >= EDGELLM_SIDE_MIN)
                add_child(p, at, k, tops->tops[k].probability);
        if (at == trunk && p->n > first) {
            trunk = (int)first;
            trunk_reach = reach_of(p, trunk);
        }
    }
    return 0;
}

/* Returns the rows of the trunk, the root not counted: the chain of most probable children, which comes first. */
static uint32_t trunk_of(const DraftTree *tree) {
    uint32_t n = 1;

    while (n < tree->n_rows && tree->parents[n] == (int)n - 1)
        n++;
    return n - 1;
}

static void learn_alpha(DraftPolicyState *state, const DraftTree *tree, uint32_t n_accepted) {
    const uint32_t n = trunk_of(tree), right = MIN(n_accepted, n);

    if (!n)
        return;
    state->alpha *= right == n ? 0.5F : powf(2, (float)(n - right) / (float)n);
    state->alpha = state->alpha < EDGELLM_ALPHA_MIN ? EDGELLM_ALPHA_MIN : MIN(EDGELLM_ALPHA_MAX, state->alpha);
}

/* --- lever -------------------------------------------------------------------------------------------------------- */

static void add_frontier(Policy *p, int at) {
    const DraftModelTops *tops = tops_of(p, at);

    for (uint32_t k = 0; k < tops->n; k++) {
        const float chance = p->state->reliability * tops->tops[k].probability;
        const int child = add_child(p, at, k, MIN(chance, LEVER_CHANCE_MAX));

        if (child != DRAFT_ROOT)
            p->nodes[child].is_in = false;
    }
}

static double lever_ms(const Policy *p, uint32_t n_nodes) {
    return (double)(p->step->costs.ms[n_nodes] + p->step->costs.more_ms + draft_rounds_spent_ms(p->step, p->report));
}

/* Returns how many of the frontier's best nodes join the tree as one item: the number with the most tokens for its
 * additional time, so that rows of a tile come together. 0: no number is above the tree's own rate (Eq. 6). */
static uint32_t lever_item(const Policy *p, const int *frontier, uint32_t n, uint32_t n_in, double gain) {
    const double own = gain / lever_ms(p, n_in);
    double sum = 0, best_sum = 0, best_ms = 0;
    uint32_t best = 0, n_expanded = 0;

    for (uint32_t i = 1; i <= n && n_in + i <= p->nodes_max; i++) {
        const PolicyNode *node = &p->nodes[frontier[i - 1]];
        double ms;

        n_expanded += node->node.depth < p->depth_max;
        if (n_expanded && !can_pass(p, n_expanded))
            break;
        sum += (double)node->node.reach;
        ms = lever_ms(p, n_in + i) - lever_ms(p, n_in) +
             (n_expanded ? (double)draft_rounds_pass_ms(p->step, n_expanded) : 0);
        if (sum <= own * ms || (best && sum * best_ms <= best_sum * ms))
            continue;
        best = i;
        best_sum = sum;
        best_ms = ms;
    }
    return best;
}

static uint32_t frontier_of(const Policy *p, int *frontier) {
    int order[POLICY_NODES_MAX];
    const uint32_t n = by_reach(p, 0, order);
    uint32_t n_frontier = 0;

    for (uint32_t i = 0; i < n && n_frontier < DRAFT_NODES_MAX; i++)
        if (!p->nodes[order[i]].is_in)
            frontier[n_frontier++] = order[i];
    return n_frontier;
}

static int grow_lever(Policy *p) {
    int expanded[DRAFT_NODES_MAX] = { DRAFT_ROOT }, frontier[DRAFT_NODES_MAX];
    uint32_t n_expanded = 1, n_in = 0, n;
    double gain = 1;
    int r;

    for (;;) {
        if (n_expanded) {
            r = compute(p, expanded, n_expanded);
            if (r)
                return r;
        }
        for (uint32_t i = 0; i < n_expanded; i++)
            add_frontier(p, expanded[i]);
        n = lever_item(p, frontier, frontier_of(p, frontier), n_in, gain);
        if (!n)
            return 0;
        n_expanded = 0;
        for (uint32_t i = 0; i < n; i++) {
            PolicyNode *node = &p->nodes[frontier[i]];

            node->is_in = true;
            n_in++;
            gain += (double)node->node.reach;
            if (node->node.depth < p->depth_max)
                expanded[n_expanded++] = frontier[i];
        }
    }
}

static void learn_reliability(DraftPolicyState *state, const ModelDrafter *model, const DraftTree *tree,
                              const uint32_t *accepted, uint32_t n_accepted, uint32_t next) {
    int row = model_drafter_n_rows(model) ? 0 : MODEL_NOWHERE;

    for (uint32_t i = 0; i <= n_accepted && row != MODEL_NOWHERE; i++) {
        const uint32_t token = i < n_accepted ? tree->tokens[accepted[i]] : next;
        const DraftModelTops *tops = model_drafter_tops(model, (uint32_t)row);
        float sum = 0, hit = 0;

        for (uint32_t k = 0; k < tops->n; k++) {
            sum += tops->tops[k].probability;
            hit = tops->tops[k].token == token ? 1 : hit;
        }
        if (sum > 0)
            state->reliability = LEVER_RELIABILITY_KEPT * state->reliability + (1 - LEVER_RELIABILITY_KEPT) * hit / sum;
        state->reliability = state->reliability < LEVER_RELIABILITY_MIN
                                 ? LEVER_RELIABILITY_MIN
                                 : MIN(LEVER_RELIABILITY_MAX, state->reliability);
        row = model_drafter_child(model, row, token);
    }
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* Grows the tree of one rule: rows in order, nodes by falling reach as the rule estimates it. report->spent_ms has what
 * the model took of the step before. A tree ends where rows, tokens or the model's time do, whatever the rule says.
 * About 100 KiB of stack. */
static int grow_by(int (*rule)(Policy *p), const DraftPolicyState *state, DraftTree *tree, uint32_t root_token,
                   const DraftRounds *step, DraftRoundsReport *report) {
    const DraftLimits limits = step->limits;
    const uint32_t depth_max = limits.tokens_left ? limits.tokens_left - 1 : 0;
    Policy p;
    int r;

    p.step = step;
    p.state = state;
    p.report = report;
    p.root_token = root_token;
    p.n = 0;
    p.depth_max = MIN(limits.depth_max, depth_max);
    p.nodes_max = MIN(limits.nodes_max, DRAFT_NODES_MAX);
    draft_tree_init(tree, root_token);
    if (!step->costs.n_rows || !p.depth_max)
        return 0;
    p.nodes_max = MIN(p.nodes_max, step->costs.n_rows - 1);
    r = p.nodes_max ? rule(&p) : 0;
    if (r && r != POLICY_E_LIMIT)
        return r;
    emit(&p, tree);
    return 0;
}

static void *policy_new(void) {
    DraftPolicyState *state = malloc(sizeof(*state));

    if (state)
        *state = (DraftPolicyState){ .alpha = 0.01F, .reliability = 1 };
    return state;
}

static void policy_learn(void *self, const ModelDrafter *model, const DraftTree *tree, const uint32_t *accepted,
                         uint32_t n_accepted, uint32_t next) {
    learn_alpha(self, tree, n_accepted);
    learn_reliability(self, model, tree, accepted, n_accepted, next);
}

#define POLICY(rule)                                                                                                   \
    static int policy_##rule(void *self, DraftTree *tree, uint32_t root_token, const DraftRounds *step,                \
                             DraftRoundsReport *report) {                                                              \
        return grow_by(grow_##rule, self, tree, root_token, step, report);                                             \
    }
POLICY(chain)
POLICY(edgellm)
POLICY(specinfer)
POLICY(opt_tree)
POLICY(lever)

const DraftPolicyOps draft_policies[_POLICY_N] = {
    [POLICY_CHAIN_SD] = { "chain-sd", policy_new, free, policy_chain, policy_learn },
    [POLICY_EDGELLM] = { "edgellm", policy_new, free, policy_edgellm, policy_learn },
    [POLICY_SPECINFER] = { "specinfer", policy_new, free, policy_specinfer, policy_learn },
    [POLICY_OPT_TREE] = { "opt-tree", policy_new, free, policy_opt_tree, policy_learn },
    [POLICY_LEVER] = { "lever", policy_new, free, policy_lever, policy_learn },
};
