// SPDX-License-Identifier: Apache-2.0
/* Operators as a graph: what each reads and writes, and therefore which operator waits for which. A graph is one layer
 * of a model, and the rows of a chunk go through it once a layer; a node of the work is (chunk, layer, operator).
 * Policies choose the order, and every order that the graph allows gives the same results. The graph knows no model and
 * no device. */
#ifndef COORDGEN_SCHEDULER_OP_GRAPH_H
#define COORDGEN_SCHEDULER_OP_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kind of processor that an operator wants, where processors differ. */
typedef enum OpClass {
    OP_CLASS_PRODUCT,      /* a matrix product: weights that many rows share */
    OP_CLASS_ATTENTION,    /* reads what earlier rows of the sequence have stored */
    OP_CLASS_ELEMENT_WISE, /* all other operators */
} OpClass;

const char *op_class_name(OpClass class); /* "product", "attention", "element-wise" */

#define OP_GRAPH_NODES_MAX 64

typedef struct OpNode {
    OpClass class;
    const char *name;         /* for people; set by the caller, or NULL */
    uint64_t inputs, outputs; /* buffers of the chunk's rows, a bit each; a buffer may be both */
    bool follows;             /* the node also reads what it has stored for earlier rows of the sequence */
    /* Set by op_graph_add(), op_graph_close(): nodes, a bit each, that must have ended before. */
    uint64_t before;       /* in the same layer */
    uint64_t before_layer; /* in the layer before */
} OpNode;

typedef struct OpGraph {
    OpNode nodes[OP_GRAPH_NODES_MAX]; /* in an order that may be run */
    size_t n;
} OpGraph;

/* Appends a node. The node waits for each earlier one that writes what it reads or writes, or reads what it writes. At
 * most OP_GRAPH_NODES_MAX. */
void op_graph_add(OpGraph *graph, OpClass class, uint64_t inputs, uint64_t outputs, bool follows);
/* Ends the graph: finds what nodes of the next layer wait for in this one. */
void op_graph_close(OpGraph *graph);
/* Whether a node may run: `done` and `done_layer` are the nodes that have ended in its layer and in the layer before;
 * for the first layer all bits of the latter. */
bool op_graph_allows(const OpGraph *graph, size_t node, uint64_t done, uint64_t done_layer);

#endif
