// SPDX-License-Identifier: Apache-2.0
/* A tree of guessed tokens behind the last token of a text (the root). The target verifies all of it in one step. */
#ifndef COORDGEN_SPEC_DRAFT_TREE_H
#define COORDGEN_SPEC_DRAFT_TREE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DRAFT_NODES_MAX = 63,
    DRAFT_ROWS_MAX = DRAFT_NODES_MAX + 1, /* rows of a step: the root and all nodes */
    DRAFT_SOURCES_MAX = 8,
    DRAFT_ROOT = -1 /* the root as a parent: it has no node */
};

/* Who proposed a token; statistics are kept by it (spec/tree/source_stats.h). */
typedef struct DraftCredit {
    uint8_t source, bucket, rank;
    bool of_prompt; /* as in DraftChoice */
} DraftCredit;

typedef struct DraftNode {
    uint32_t token;
    float reach;    /* probability that the text comes through here; at most the parent's */
    int16_t parent; /* an earlier node, or DRAFT_ROOT */
    uint8_t depth;  /* 1: behind the root */
    uint8_t n_credits;
    uint8_t others;                         /* sources that propose only other tokens in its place, as bits */
    DraftCredit credits[DRAFT_SOURCES_MAX]; /* at most one for each source */
} DraftNode;

/* Nodes are in the order in which they were added. Rows are as a step has them: row 0 is the root, then comes the chain
 * of most probable children, then all others, depth first. A parent comes before its children in both. */
typedef struct DraftTree {
    uint32_t n_nodes;
    DraftNode nodes[DRAFT_NODES_MAX];
    uint32_t n_rows;
    uint32_t tokens[DRAFT_ROWS_MAX];
    int16_t parents[DRAFT_ROWS_MAX]; /* parent rows; -1 for row 0 */
    int16_t node_of[DRAFT_ROWS_MAX]; /* node of each row; DRAFT_ROOT for row 0 */
    uint8_t row_of[DRAFT_NODES_MAX];
} DraftTree;

/* Begins a tree with the root alone, which is one row. */
void draft_tree_init(DraftTree *tree, uint32_t root_token);
/* Adds a node whose parent is there; rows are stale until draft_tree_order(). */
void draft_tree_add(DraftTree *tree, const DraftNode *node);
void draft_tree_order(DraftTree *tree);
/* Cuts the tree to these rows (rising, closed under parents, row 0 first), as if no others had been drafted. */
void draft_tree_keep(DraftTree *tree, const uint16_t *rows, uint32_t n);
/* Returns the row of that token behind a row, or -1: one step down the path that the target takes. */
int draft_tree_child(const DraftTree *tree, uint32_t row, uint32_t token);
/* Returns the tokens that a verification of the first n nodes is expected to emit: 1 + their reach. */
double draft_tree_gain(const DraftTree *tree, uint32_t n);

#endif
