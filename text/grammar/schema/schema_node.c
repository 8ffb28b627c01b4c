// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/schema/schema_node.h"

#include <stdlib.h>
#include <string.h>

#include "text/grammar/schema/schema_source.h"

enum {
    BUCKETS = 4096,
    NODES_MAX = 20000,
    NESTING_MAX = 256, /* schemas that are computed for one another */
};

typedef struct SchemaNodes {
    SchemaNode *items;
    size_t n, room;
    uint32_t buckets[BUCKETS]; /* 0: empty, as no conjunction is SCHEMA_NODE_NOTHING */
    SchemaExpand *expand;
    size_t nesting;
    size_t n_probes;
    bool probe_was_cut;
} SchemaNodes;

static const SchemaSet no_value;

int schema_nodes_init(SchemaCompiler *c, SchemaExpand *expand) {
    SchemaNodes *nodes = calloc(1, sizeof(*nodes));
    SchemaSet *any = schema_alloc(c, 1, sizeof(*any));

    c->nodes = nodes;
    if (!nodes || !any)
        return c->r = err_no_memory(c->err);
    nodes->room = 64;
    nodes->items = calloc(nodes->room, sizeof(*nodes->items));
    if (!nodes->items)
        return c->r = err_no_memory(c->err);
    *any = schema_set_any();
    nodes->expand = expand;
    nodes->items[SCHEMA_NODE_NOTHING] = (SchemaNode){ .set = &no_value, .state = SCHEMA_NODE_KNOWN };
    nodes->items[SCHEMA_NODE_ANY] = (SchemaNode){ .set = any, .state = SCHEMA_NODE_KNOWN };
    nodes->n = 2;
    return 0;
}

void schema_nodes_deinit(SchemaCompiler *c) {
    if (c->nodes)
        free(c->nodes->items);
    free(c->nodes);
    c->nodes = NULL;
}

size_t schema_nodes_count(const SchemaCompiler *c) {
    return c->nodes->n;
}

SchemaNode *schema_node_at(SchemaCompiler *c, uint32_t node) {
    return &c->nodes->items[node];
}

/* --- conjunctions ------------------------------------------------------------------------------------------------- */

static bool literals_equal(SchemaLiteral a, SchemaLiteral b) {
    return a.schema == b.schema && a.is_negated == b.is_negated;
}

/* Copies the literals without repetition and without those that are always true. False: one is never true. */
static bool simplify(const SchemaLiteral *literals, size_t n, SchemaLiteral *out, size_t *np) {
    *np = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *schema = literals[i].schema;
        bool is_true = json_is_true(schema) || (json_is_object(schema) && !json_object_size(schema));
        bool is_known = false;

        if (is_true || json_is_false(schema)) {
            if (is_true == literals[i].is_negated)
                return false;
            continue;
        }
        for (size_t k = 0; k < *np; k++) {
            if (out[k].schema == schema && out[k].is_negated != literals[i].is_negated)
                return false;
            is_known |= literals_equal(out[k], literals[i]);
        }
        if (!is_known)
            out[(*np)++] = literals[i];
    }
    return true;
}

/* The sum over the literals does not depend on their order. */
static size_t bucket_of(const SchemaLiteral *literals, size_t n) {
    uint64_t hash = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t one = (uint64_t)(uintptr_t)literals[i].schema * 2 + literals[i].is_negated;

        one *= 0x9e3779b97f4a7c15u;
        hash += one ^ one >> 29;
    }
    return (hash * 0xbf58476d1ce4e5b9u) >> 52;
}

static bool has_literals(const SchemaNode *node, const SchemaLiteral *literals, size_t n) {
    if (node->n_literals != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        while (k < n && !literals_equal(node->literals[i], literals[k]))
            k++;
        if (k == n)
            return false;
    }
    return true;
}

uint32_t schema_node(SchemaCompiler *c, const SchemaLiteral *literals, size_t n) {
    SchemaNodes *nodes = c->nodes;
    SchemaLiteral *own = schema_alloc(c, n + 1, sizeof(*own));
    uint32_t *bucket, at;

    if (!own || !schema_step(c, 1) || !simplify(literals, n, own, &n))
        return SCHEMA_NODE_NOTHING;
    if (!n)
        return SCHEMA_NODE_ANY;
    bucket = &nodes->buckets[bucket_of(own, n)];
    for (at = *bucket; at && !has_literals(&nodes->items[at], own, n);)
        at = nodes->items[at].next;
    if (at)
        return at;
    if (nodes->n == nodes->room) {
        SchemaNode *more = nodes->n < NODES_MAX ? realloc(nodes->items, 2 * nodes->room * sizeof(*more)) : NULL;

        if (!more) {
            c->r = nodes->n < NODES_MAX
                       ? err_no_memory(c->err)
                       : err_set(c->err, GRAMMAR_E_TOO_COMPLEX, "the schema has too many combinations of alternatives");
            return SCHEMA_NODE_NOTHING;
        }
        nodes->items = more;
        nodes->room *= 2;
    }
    at = (uint32_t)nodes->n++;
    nodes->items[at] = (SchemaNode){ .literals = own, .n_literals = n, .next = *bucket };
    return *bucket = at;
}

/* --- sets --------------------------------------------------------------------------------------------------------- */

static SchemaSet compute(SchemaCompiler *c, uint32_t node) {
    const SchemaLiteral *literals = c->nodes->items[node].literals;
    size_t n = c->nodes->items[node].n_literals;
    SchemaSet set;

    if (n == 1)
        return c->nodes->expand(c, literals[0]);
    set = *schema_node_set(c, schema_node(c, &literals[0], 1));
    for (size_t i = 1; i < n && !c->r; i++)
        set = schema_set_and(c, &set, schema_node_set(c, schema_node(c, &literals[i], 1)));
    return set;
}

const SchemaSet *schema_node_set(SchemaCompiler *c, uint32_t node) {
    SchemaNodes *nodes = c->nodes;
    const SchemaNode *known = &nodes->items[node];
    SchemaSet *set;

    if (known->state == SCHEMA_NODE_KNOWN)
        return known->set;
    if (known->state == SCHEMA_NODE_BUSY) {
        nodes->probe_was_cut = true;
        if (!nodes->n_probes)
            schema_invalid(c, known->literals[0].schema, "$ref", "the schema refers to itself without end");
        return nodes->items[SCHEMA_NODE_ANY].set;
    }
    if (nodes->nesting >= NESTING_MAX && !c->r)
        c->r =
            err_set(c->err, GRAMMAR_E_TOO_COMPLEX, "more than %d schemas refer to one another in a row", NESTING_MAX);
    set = schema_alloc(c, 1, sizeof(*set));
    if (!set)
        return &no_value;
    nodes->items[node].state = SCHEMA_NODE_BUSY;
    nodes->nesting++;
    *set = compute(c, node);
    nodes->nesting--;
    nodes->items[node].set = set;
    nodes->items[node].state = nodes->probe_was_cut ? SCHEMA_NODE_NEW : SCHEMA_NODE_KNOWN;
    return set;
}

void schema_probe_begin(SchemaCompiler *c) {
    c->nodes->n_probes++;
}

bool schema_probe_end(SchemaCompiler *c) {
    bool was_cut = c->nodes->probe_was_cut;

    if (!--c->nodes->n_probes)
        c->nodes->probe_was_cut = false;
    return was_cut;
}
