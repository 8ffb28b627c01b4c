// SPDX-License-Identifier: Apache-2.0
/* A tree of guessed tokens behind the last token of a text (the root), which the target verifies in one step. */
#ifndef COORDGEN_SPEC_DRAFT_TREE_H
#define COORDGEN_SPEC_DRAFT_TREE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DRAFT_NODES_MAX = 63,
    DRAFT_ROWS_MAX = DRAFT_NODES_MAX + 1, /* of a step: the root and all nodes */
    DRAFT_SOURCES_MAX = 7,
    DRAFT_ROOT = -1 /* as a parent: the root has no node */
};

/* Who proposed a token: statistics are kept by it (spec/tree/source_stats.h). */
typedef struct DraftCredit {
    uint8_t source, bucket, rank;
    bool of_prompt; /* DraftChoice has it */
} DraftCredit;

typedef struct DraftNode {
    uint32_t token;
    float reach;    /* probability that the text comes through here; at most the parent's */
    int16_t parent; /* an earlier node, or DRAFT_ROOT */
    uint8_t depth;  /* 1: behind the root */
    uint8_t n_credits;
    uint8_t others;                         /* sources that propose nothing but other tokens in its place, as bits */
    DraftCredit credits[DRAFT_SOURCES_MAX]; /* one a source at most */
} DraftNode;

/* Nodes are in the order in which they were added, rows as a step has them: row 0 is the root, then the chain of most
 * probable children, then all others, depth first. A parent comes before its children in both. */
typedef struct DraftTree {
    uint32_t n_nodes;
    DraftNode nodes[DRAFT_NODES_MAX];
    uint32_t n_rows;
    uint32_t tokens[DRAFT_ROWS_MAX];
    int16_t parents[DRAFT_ROWS_MAX]; /* rows; -1 for row 0 */
    int16_t node_of[DRAFT_ROWS_MAX]; /* nodes; DRAFT_ROOT for row 0 */
    uint8_t row_of[DRAFT_NODES_MAX];
} DraftTree;

/* The root alone, which is one row. */
void draft_tree_init(DraftTree *tree, uint32_t root_token);
/* A node whose parent is there; rows are stale until draft_tree_order(). */
void draft_tree_add(DraftTree *tree, const DraftNode *node);
void draft_tree_order(DraftTree *tree);
/* The row of that token behind a row, or -1: one step down the path that the target takes. */
int draft_tree_child(const DraftTree *tree, uint32_t row, uint32_t token);
/* Tokens that a verification is expected to emit if only the first n nodes are verified: 1 + their reach. */
double draft_tree_gain(const DraftTree *tree, uint32_t n);

#endif
