// SPDX-License-Identifier: Apache-2.0
/* Nodes: conjunctions of schemas ("fits A, fits B, does not fit C"), each with a number. Equal conjunctions are one
 * node, so that recursive schemas come to an end. */
#ifndef COORDGEN_SCHEMA_NODE_H
#define COORDGEN_SCHEMA_NODE_H

#include "text/grammar/schema/schema_set.h"

enum {
    SCHEMA_NODE_NOTHING, /* no value */
    SCHEMA_NODE_ANY,     /* every value */
};

typedef enum SchemaNodeState {
    SCHEMA_NODE_NEW,
    SCHEMA_NODE_BUSY, /* the set is being computed: a schema that needs itself at the same value */
    SCHEMA_NODE_KNOWN,
} SchemaNodeState;

typedef struct SchemaNode {
    const SchemaLiteral *literals;
    size_t n_literals;
    const SchemaSet *set;
    SchemaNodeState state;
    bool is_probed, is_empty; /* schema_node_is_empty() */
    uint32_t next;            /* with the same hash */
} SchemaNode;

int schema_nodes_init(SchemaCompiler *c, SchemaExpand *expand);
void schema_nodes_deinit(SchemaCompiler *c);
size_t schema_nodes_count(const SchemaCompiler *c);
/* Returns the node of a conjunction. */
uint32_t schema_node(SchemaCompiler *c, const SchemaLiteral *literals, size_t n);
/* Returns the node; valid until the next node is made. */
SchemaNode *schema_node_at(SchemaCompiler *c, uint32_t node);
/* Returns the values that fit the node; never NULL. */
const SchemaSet *schema_node_set(SchemaCompiler *c, uint32_t node);
/* Between these two calls a schema that needs itself counts as one that allows everything; its set is computed again
 * later. schema_probe_end() returns whether that happened. */
void schema_probe_begin(SchemaCompiler *c);
bool schema_probe_end(SchemaCompiler *c);

#endif
