// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/unordered_nodes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/min_max.h"

static bool may_come(const UnorderedNodes *nodes, const UnorderedRule *rule, uint64_t seen, uint32_t member) {
    return !(seen >> member & 1) && rule_graph_member_bytes(nodes->graph, rule, member) != REGEX_NEVER;
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
    *node =
        (UnorderedNode){ .node = { .rule = rule->rule,
                                   .end_bytes = rule_graph_unordered_bytes(nodes->graph, rule, seen),
                                   .is_final = !(rule->required & ~seen) && !(seen & UNORDERED_BEHIND_SEPARATOR) } };
    for (uint32_t i = 0; i < rule->n_members; i++)
        node->n_left += may_come(nodes, rule, seen, i);
    if (seen & UNORDERED_BEHIND_MEMBER)
        node->n_left = node->n_left && nodes->graph->rules[rule->separator].end_bytes != REGEX_NEVER;
    return 0;
}

int unordered_nodes_edges(UnorderedNodes *nodes, uint32_t node, uint32_t *np) {
    const uint32_t id = node - nodes->graph->n_nodes - 1;
    size_t n_words;
    const uint32_t *key = tuple_store_words(&nodes->keys, id, &n_words);
    const uint32_t at = key[0];
    const uint64_t state = key[1] | (uint64_t)key[2] << 32, seen = state & UNORDERED_MEMBERS;
    const UnorderedRule *rule = &nodes->graph->unordered[at];
    uint32_t n = 0;
    int r = 0;

    if (state & UNORDERED_BEHIND_MEMBER) {
        *np = nodes->nodes[id].n_left;
        nodes->edges[0].symbol = rule->separator | SYMBOL_RULE;
        return *np ? intern(nodes, at, seen | UNORDERED_BEHIND_SEPARATOR, &nodes->edges[0].to) : 0;
    }
    for (uint32_t i = 0; i < rule->n_members && !r; i++) {
        const uint64_t bit = rule->repeated >> i & 1 ? 0 : UINT64_C(1) << i;

        if (!may_come(nodes, rule, seen, i))
            continue;
        nodes->edges[n].symbol = nodes->graph->members[rule->first_member + i] | SYMBOL_RULE;
        r = intern(nodes, at, seen | bit | UNORDERED_BEHIND_MEMBER, &nodes->edges[n++].to);
    }
    *np = n;
    return r;
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
