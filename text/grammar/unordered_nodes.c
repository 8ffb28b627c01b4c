// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/unordered_nodes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/min_max.h"

/* Some member was there, perhaps one that may come again and is not noted. */
#define HAS_BEGUN (UINT64_C(1) << GRAMMAR_UNORDERED_MAX)

static uint32_t bytes_of(const RuleGraph *graph, const UnorderedRule *rule, uint32_t member, bool has_begun) {
    return graph->rules[graph->members[rule->first_member + member].rules[has_begun]].end_bytes;
}

uint32_t unordered_end_bytes(const RuleGraph *graph, const UnorderedRule *rule, uint64_t seen) {
    const uint64_t missing = rule->required & ~seen;
    const bool has_begun = seen & HAS_BEGUN;
    uint64_t n_bytes = 0, saved = 0;
    bool has_first = has_begun;

    /* One member may stand first, without a separator: the one that saves most. */
    for (uint32_t i = 0; i < rule->n_members; i++) {
        uint32_t first, later;

        if (!(missing >> i & 1))
            continue;
        first = bytes_of(graph, rule, i, false);
        later = bytes_of(graph, rule, i, true);
        if (first == REGEX_NEVER || later == REGEX_NEVER)
            return REGEX_NEVER;
        n_bytes += later;
        if (!has_begun && (!has_first || (later > first && later - first > saved)))
            saved = later > first ? later - first : 0;
        has_first = true;
    }
    return (uint32_t)MIN(n_bytes - saved, REGEX_BYTES_MAX);
}

static bool may_come(const UnorderedNodes *nodes, const UnorderedRule *rule, uint64_t seen, uint32_t member) {
    return !(seen >> member & 1) && bytes_of(nodes->graph, rule, member, seen & HAS_BEGUN) != REGEX_NEVER;
}

/* Finds or makes a node. */
static int intern(UnorderedNodes *nodes, uint32_t at, uint64_t seen, uint32_t *nodep) {
    const UnorderedRule *rule = &nodes->graph->unordered[at];
    const uint32_t key[] = { at, (uint32_t)seen, (uint32_t)(seen >> 32) }, n_before = nodes->keys.n;
    UnorderedNode *node;
    uint32_t id;

    if (n_before == nodes->room) {
        uint32_t room = MAX(2 * nodes->room, 64);
        UnorderedNode *grown = realloc(nodes->nodes, room * sizeof(*grown));

        if (!grown)
            return err_raise(-ENOMEM);
        nodes->nodes = grown;
        nodes->room = room;
    }
    if (tuple_store_intern(&nodes->keys, key, ARRAY_LEN(key), &id))
        return -ENOMEM;
    *nodep = nodes->graph->n_nodes + 1 + id;
    if (id != n_before)
        return 0;
    node = &nodes->nodes[id];
    *node = (UnorderedNode){ .node = { .rule = rule->rule,
                                       .end_bytes = unordered_end_bytes(nodes->graph, rule, seen),
                                       .is_final = !(rule->required & ~seen) } };
    for (uint32_t i = 0; i < rule->n_members; i++)
        node->n_left += may_come(nodes, rule, seen, i);
    return 0;
}

int unordered_nodes_edges(UnorderedNodes *nodes, uint32_t node, uint32_t *np) {
    size_t n_words;
    const uint32_t *key = tuple_store_words(&nodes->keys, node - nodes->graph->n_nodes - 1, &n_words);
    const uint32_t at = key[0];
    const uint64_t seen = key[1] | (uint64_t)key[2] << 32;
    const UnorderedRule *rule = &nodes->graph->unordered[at];
    uint32_t n = 0;

    for (uint32_t i = 0; i < rule->n_members; i++) {
        const bool may_repeat = rule->repeated >> i & 1;
        RuleEdge *edge = &nodes->edges[n];
        int r;

        if (!may_come(nodes, rule, seen, i))
            continue;
        edge->symbol = nodes->graph->members[rule->first_member + i].rules[!!(seen & HAS_BEGUN)] | SYMBOL_RULE;
        r = intern(nodes, at, seen | HAS_BEGUN | (may_repeat ? 0 : UINT64_C(1) << i), &edge->to);
        if (r)
            return r;
        n++;
    }
    *np = n;
    return 0;
}

int unordered_nodes_init(UnorderedNodes *nodes, const RuleGraph *graph) {
    uint32_t node;
    int r;

    *nodes = (UnorderedNodes){ .graph = graph };
    if (!graph->n_unordered)
        return 0;
    r = tuple_store_init(&nodes->keys);
    for (uint32_t i = 0; i < graph->n_unordered && !r; i++)
        r = intern(nodes, i, 0, &node);
    return r;
}

void unordered_nodes_deinit(UnorderedNodes *nodes) {
    if (nodes->graph && nodes->graph->n_unordered)
        tuple_store_deinit(&nodes->keys);
    free(nodes->nodes);
    *nodes = (UnorderedNodes){ 0 };
}

size_t unordered_nodes_memory_bytes(const UnorderedNodes *nodes) {
    return nodes->graph->n_unordered ? tuple_store_memory_bytes(&nodes->keys) + nodes->room * sizeof(*nodes->nodes) : 0;
}
