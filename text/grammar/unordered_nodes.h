// SPDX-License-Identifier: Apache-2.0
/* Nodes of rules whose members come in any order. A node says which members were there already. The nodes of n members
 * are up to 2^n, so that each is made when a text first leads to it. */
#ifndef COORDGEN_TEXT_UNORDERED_NODES_H
#define COORDGEN_TEXT_UNORDERED_NODES_H

#include "text/grammar/rule_graph.h"

typedef struct UnorderedNode {
    RuleNode node;   /* first_edge is not used */
    uint32_t n_left; /* members that may come next */
} UnorderedNode;

typedef struct UnorderedNodes {
    const RuleGraph *graph;
    TupleStore keys; /* rule in graph->unordered, what was there (low word, high word) */
    UnorderedNode *nodes;
    uint32_t room;
    RuleEdge edges[GRAMMAR_UNORDERED_MAX]; /* of the node that was asked for last */
} UnorderedNodes;

/* Makes the starts of the graph's rules. Numbers of nodes follow those of the graph and its end. 0 or -ENOMEM. */
int unordered_nodes_init(UnorderedNodes *nodes, const RuleGraph *graph);
void unordered_nodes_deinit(UnorderedNodes *nodes);
size_t unordered_nodes_memory_bytes(const UnorderedNodes *nodes);
/* Fills nodes->edges with the edges of a node, *np: out, and makes the nodes that they lead to. 0 or -ENOMEM. */
int unordered_nodes_edges(UnorderedNodes *nodes, uint32_t node, uint32_t *np);

static inline const UnorderedNode *unordered_node(const UnorderedNodes *nodes, uint32_t node) {
    return &nodes->nodes[node - nodes->graph->n_nodes - 1];
}

#endif
