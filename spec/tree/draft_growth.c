// SPDX-License-Identifier: Apache-2.0
#include "spec/tree/draft_growth.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/min_max.h"

enum {
    MERGED_MAX = DRAFT_SOURCES_MAX * DRAFT_CHOICES_MAX, /* distinct tokens behind one node */
    POOL = DRAFT_NODES_MAX + 1
};

/* A node that may be added, with the cursors of the sources that proposed it. */
typedef struct Candidate {
    DraftNode node;
    DraftCursor nexts[DRAFT_SOURCES_MAX]; /* by credit */
} Candidate;

typedef struct Growth {
    DraftTree *tree;
    DraftSources sources;
    uint32_t nodes_max, depth_max;
    bool chain;                                             /* no siblings */
    DraftCursor cursors[DRAFT_ROWS_MAX][DRAFT_SOURCES_MAX]; /* [0]: the root's cursors; [i + 1]: those of node i */
    uint32_t places[DRAFT_ROWS_MAX];                        /* of the same nodes in the grammar, if there is one */
    Candidate pool[POOL];
    uint8_t order[POOL]; /* slots of the pool: the first n_open hold candidates by falling reach, the others are free */
    uint32_t n_open;
} Growth;

/* Adds a candidate. Only as many are kept as nodes may still be added: the others could not become nodes in any case.
 * On equal reach the earlier candidate stays ahead. */
static void open_candidate(Growth *g, const Candidate *candidate) {
    uint32_t keep = g->nodes_max - g->tree->n_nodes, at = g->n_open;
    uint8_t slot;

    while (at && candidate->node.reach > g->pool[g->order[at - 1]].node.reach)
        at--;
    if (at >= keep)
        return;
    if (g->n_open >= keep)
        g->n_open = keep - 1;
    slot = g->order[g->n_open];
    memmove(&g->order[at + 1], &g->order[at], g->n_open - at);
    g->order[at] = slot;
    g->pool[slot] = *candidate;
    g->n_open++;
}

static Candidate *merged_for(Candidate *merged, uint32_t *np, uint32_t token) {
    for (uint32_t i = 0; i < *np; i++)
        if (merged[i].node.token == token)
            return &merged[i];
    merged[*np].node = (DraftNode){ .token = token };
    return &merged[(*np)++];
}

/* Removes the choices that the grammar refuses. Ranks count those that are left, because the target chooses among them
 * alone. */
static size_t cut_refused(const Growth *g, int at, DraftChoice *choices, size_t n) {
    size_t n_kept = 0;
    uint32_t n_cut = 0, last = 0;

    if (!g->sources.grammar)
        return n;
    for (size_t i = 0; i < n; i++) {
        const uint32_t rank = choices[i].rank;

        n_cut = rank <= last ? 0 : n_cut; /* some sources begin anew, with choices of another kind */
        last = rank;
        if (!grammar_drafter_allows(g->sources.grammar, g->places[at + 1], choices[i].token)) {
            n_cut++;
            continue;
        }
        choices[n_kept] = choices[i];
        choices[n_kept++].rank = (uint16_t)(rank - n_cut);
    }
    return n_kept;
}

/* Collects what all sources propose behind a node (-1: the root): each token once, its chance in `reach`. Returns how
 * many. */
static uint32_t gather(const Growth *g, int at, Candidate *merged) {
    uint32_t n = 0, proposing = 0;

    for (uint32_t s = 0; s < g->sources.n; s++) {
        const Drafter *drafter = &g->sources.drafters[s];
        DraftChoice choices[DRAFT_CHOICES_MAX];
        size_t n_choices;

        if (!drafter->ops)
            continue;
        n_choices = drafter->ops->choices(drafter->self, g->cursors[at + 1][s], choices, DRAFT_CHOICES_MAX);
        n_choices = cut_refused(g, at, choices, n_choices);
        proposing |= n_choices ? 1u << s : 0;
        for (size_t i = 0; i < n_choices; i++) {
            Candidate *candidate = merged_for(merged, &n, choices[i].token);

            candidate->nexts[candidate->node.n_credits] = choices[i].next;
            candidate->node.credits[candidate->node.n_credits++] =
                (DraftCredit){ (uint8_t)s, (uint8_t)choices[i].bucket, (uint8_t)choices[i].rank, choices[i].of_prompt };
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        DraftNode *node = &merged[i].node;

        node->others = (uint8_t)proposing;
        for (uint32_t j = 0; j < node->n_credits; j++)
            node->others &= (uint8_t) ~(1u << node->credits[j].source);
        node->reach = source_stats_joint_chance(g->sources.stats, node);
    }
    return n;
}

/* Makes the chances of siblings exclude each other: the most probable one keeps its chance, and the others share the
 * rest where they have more. Scaling all of them instead would let a crowd of unlikely tokens take from one that is all
 * but certain, and no chain would be long. */
static void share_chance(Candidate *merged, uint32_t n) {
    uint32_t best = 0;
    float rest = 0, left;

    for (uint32_t i = 1; i < n; i++)
        best = merged[i].node.reach > merged[best].node.reach ? i : best;
    for (uint32_t i = 0; i < n; i++)
        rest += i == best ? 0 : merged[i].node.reach;
    left = n ? 1 - merged[best].node.reach : 0;
    for (uint32_t i = 0; rest > left && i < n; i++)
        merged[i].node.reach *= i == best ? 1 : left / rest;
}

/* Makes candidates of everything that can come next behind a node. */
static void expand(Growth *g, int at) {
    const DraftNode *parent = at == DRAFT_ROOT ? NULL : &g->tree->nodes[at];
    uint8_t depth = parent ? parent->depth : 0;
    Candidate merged[MERGED_MAX];
    uint32_t n;

    if (depth >= g->depth_max)
        return;
    n = gather(g, at, merged);
    share_chance(merged, n);
    for (uint32_t i = 0; i < n; i++) {
        DraftNode *node = &merged[i].node;

        node->reach *= parent ? parent->reach : 1;
        node->parent = (int16_t)at;
        node->depth = (uint8_t)(depth + 1);
        open_candidate(g, &merged[i]);
    }
}

/* Makes a node of the best candidate. Sources that did not propose the token follow it. */
static void take_best(Growth *g) {
    uint8_t slot = g->order[0];
    const Candidate *best = &g->pool[slot];
    uint32_t at = g->tree->n_nodes;
    DraftCursor *cursors = g->cursors[at + 1];

    draft_tree_add(g->tree, &best->node);
    if (g->sources.grammar)
        g->places[at + 1] =
            grammar_drafter_step(g->sources.grammar, g->places[best->node.parent + 1], best->node.token);
    for (uint32_t s = 0; s < g->sources.n; s++) {
        const Drafter *drafter = &g->sources.drafters[s];

        if (drafter->ops)
            cursors[s] = drafter->ops->follow(drafter->self, g->cursors[best->node.parent + 1][s], best->node.token);
    }
    for (uint32_t i = 0; i < best->node.n_credits; i++)
        cursors[best->node.credits[i].source] = best->nexts[i];
    g->n_open--;
    memmove(&g->order[0], &g->order[1], g->n_open);
    g->order[g->n_open] = slot;
    if (g->chain)
        g->n_open = 0;
    expand(g, (int)at);
}

static double step_ms(DraftCosts costs, uint32_t n_nodes) {
    return (double)(costs.ms[n_nodes] + costs.more_ms);
}

/* Returns the n with the most tokens per time, the smallest of several. Every n is looked at: costs have plateaus and
 * cliffs, on which a greedy walk stops too early. */
static uint32_t best_n(const DraftTree *tree, DraftCosts costs) {
    double gain = 1, best_gain = 1, best_ms = step_ms(costs, 0);
    uint32_t best = 0;

    for (uint32_t n = 1; n <= tree->n_nodes; n++) {
        const double ms = step_ms(costs, n);

        gain += (double)tree->nodes[n - 1].reach;
        if (gain * best_ms > best_gain * ms) {
            best = n;
            best_gain = gain;
            best_ms = ms;
        }
    }
    return best;
}

/* Whether a larger tree can have a better ratio than the best so far, if all further nodes are as likely as the first
 * of them. None is likelier, so looking further after a no would be in vain. */
static bool can_pay(const Growth *g, DraftCosts costs, double gain, double best_ratio) {
    const double reach = (double)g->pool[g->order[0]].node.reach;

    for (uint32_t n = g->tree->n_nodes + 1; n <= g->nodes_max; n++) {
        gain += reach;
        if (gain > best_ratio * step_ms(costs, n))
            return true;
    }
    return false;
}

static void grow_nodes(Growth *g, DraftCosts costs) {
    double gain = 1, best_ratio = 1 / step_ms(costs, 0), ratio;

    while (g->n_open && g->tree->n_nodes < g->nodes_max && can_pay(g, costs, gain, best_ratio)) {
        take_best(g);
        gain += (double)g->tree->nodes[g->tree->n_nodes - 1].reach;
        ratio = gain / step_ms(costs, g->tree->n_nodes);
        best_ratio = MAX(ratio, best_ratio);
    }
}

/**
 * draft_growth_uncut() - grow all nodes that are worth a look
 * @tree: overwritten, rows in order
 * @chain: no siblings
 *
 * Nodes come by falling reach: the first n are the best n, and closed under parents.
 * Allocates nothing; about 20 KiB of stack. Return: how many nodes are worth most for their time, for
 * draft_growth_cut().
 */
uint32_t draft_growth_uncut(DraftTree *tree, uint32_t root_token, DraftSources sources, DraftLimits limits,
                            DraftCosts costs, bool chain) {
    Growth g = { .tree = tree, .sources = sources, .chain = chain };

    assert(sources.n <= DRAFT_SOURCES_MAX);
    draft_tree_init(tree, root_token);
    if (!costs.n_rows || !limits.tokens_left)
        return 0;
    g.nodes_max = MIN(limits.nodes_max, DRAFT_NODES_MAX);
    g.nodes_max = MIN(g.nodes_max, costs.n_rows - 1);
    g.depth_max = MIN(limits.depth_max, limits.tokens_left - 1);
    if (!g.nodes_max)
        return 0;
    for (uint32_t i = 0; i < POOL; i++)
        g.order[i] = (uint8_t)i;
    for (uint32_t s = 0; s < sources.n; s++)
        if (sources.drafters[s].ops)
            g.cursors[0][s] = sources.drafters[s].ops->root(sources.drafters[s].self);
    if (sources.grammar)
        g.places[0] = grammar_drafter_root(sources.grammar);
    expand(&g, DRAFT_ROOT);
    grow_nodes(&g, costs);
    draft_tree_order(tree);
    return best_n(tree, costs);
}

void draft_growth_cut(DraftTree *tree, uint32_t n) {
    if (tree->n_nodes == n)
        return;
    tree->n_nodes = n;
    draft_tree_order(tree);
}

/**
 * draft_growth() - grow the tree that is worth most for its time behind the sources' text
 * @tree: overwritten, rows in order; the root alone means plain decoding
 *
 * G(n), the tokens that a step with the best n nodes emits on average, is 1 + the sum of their reach. The tree has the
 * smallest n with the highest G(n) / ms of n + 1 rows.
 */
void draft_growth(DraftTree *tree, uint32_t root_token, DraftSources sources, DraftLimits limits, DraftCosts costs,
                  bool chain) {
    draft_growth_cut(tree, draft_growth_uncut(tree, root_token, sources, limits, costs, chain));
}
