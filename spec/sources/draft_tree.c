// SPDX-License-Identifier: Apache-2.0
#include "spec/sources/draft_tree.h"

#include <assert.h>
#include <stddef.h>

void draft_tree_init(DraftTree *tree, uint32_t root_token) {
    tree->n_nodes = 0;
    tree->n_rows = 1;
    tree->tokens[0] = root_token;
    tree->parents[0] = -1;
    tree->node_of[0] = DRAFT_ROOT;
}

void draft_tree_add(DraftTree *tree, const DraftNode *node) {
    const DraftNode *parent = node->parent == DRAFT_ROOT ? NULL : &tree->nodes[node->parent];

    assert(tree->n_nodes < DRAFT_NODES_MAX && node->parent < (int)tree->n_nodes);
    assert(node->depth == (parent ? parent->depth : 0) + 1 && node->reach <= (parent ? parent->reach : 1));
    tree->nodes[tree->n_nodes++] = *node;
}

/* Returns the next sibling behind `parent` after `last` (DRAFT_ROOT: the first): siblings come by falling reach, then
 * as they were added. DRAFT_ROOT: there is none. */
static int next_sibling(const DraftTree *tree, int parent, int last) {
    int best = DRAFT_ROOT;

    for (int i = 0; i < (int)tree->n_nodes; i++) {
        const DraftNode *node = &tree->nodes[i];

        if (node->parent != parent)
            continue;
        if (last != DRAFT_ROOT &&
            (node->reach > tree->nodes[last].reach || (node->reach == tree->nodes[last].reach && i <= last)))
            continue;
        if (best == DRAFT_ROOT || node->reach > tree->nodes[best].reach)
            best = i;
    }
    return best;
}

/* Orders the rows depth first, most probable child first. The chain of most probable children comes out first, so a
 * device that cannot have a tree takes the rows up to the chain's end. */
void draft_tree_order(DraftTree *tree) {
    int at = DRAFT_ROOT, last = DRAFT_ROOT;

    tree->n_rows = 1;
    for (;;) {
        int next = next_sibling(tree, at, last);

        if (next != DRAFT_ROOT) {
            tree->tokens[tree->n_rows] = tree->nodes[next].token;
            tree->parents[tree->n_rows] = (int16_t)(at == DRAFT_ROOT ? 0 : tree->row_of[at]);
            tree->node_of[tree->n_rows] = (int16_t)next;
            tree->row_of[next] = (uint8_t)tree->n_rows++;
            at = next;
            last = DRAFT_ROOT;
        } else if (at == DRAFT_ROOT) {
            return;
        } else {
            last = at;
            at = tree->nodes[at].parent;
        }
    }
}

int draft_tree_child(const DraftTree *tree, uint32_t row, uint32_t token) {
    for (uint32_t i = row + 1; i < tree->n_rows; i++)
        if (tree->parents[i] == (int)row && tree->tokens[i] == token)
            return (int)i;
    return -1;
}

double draft_tree_gain(const DraftTree *tree, uint32_t n) {
    double gain = 1;

    for (uint32_t i = 0; i < n; i++)
        gain += (double)tree->nodes[i].reach;
    return gain;
}

void draft_tree_keep(DraftTree *tree, const uint16_t *rows, uint32_t n) {
    bool is_kept[DRAFT_NODES_MAX] = { false };
    int16_t moved[DRAFT_NODES_MAX];
    uint32_t n_nodes = 0;

    for (uint32_t i = 1; i < n; i++)
        is_kept[tree->node_of[rows[i]]] = true;
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        DraftNode node = tree->nodes[i];

        if (!is_kept[i])
            continue;
        if (node.parent != DRAFT_ROOT)
            node.parent = moved[node.parent];
        moved[i] = (int16_t)n_nodes;
        tree->nodes[n_nodes++] = node;
    }
    tree->n_nodes = n_nodes;
    draft_tree_order(tree);
    assert(tree->n_rows == n);
}
