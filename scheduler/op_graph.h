// SPDX-License-Identifier: Apache-2.0
/* Operators as a graph: what each reads and writes, and so which of them wait for which. A model's layer is one, which
 * the rows of a chunk go through once a layer; a node of the work is then (chunk, layer, operator). Policies choose the
 * order, and any that the graph allows gives the same results. Knows no model and no device. */
#ifndef COORDGEN_SCHEDULER_OP_GRAPH_H
#define COORDGEN_SCHEDULER_OP_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What kind of processor an operator wants, where they differ. */
typedef enum OpClass {
    OP_CLASS_PRODUCT,      /* a matrix product: weights that many rows share */
    OP_CLASS_ATTENTION,    /* reads what earlier rows of the sequence have stored */
    OP_CLASS_ELEMENT_WISE, /* all else */
} OpClass;

const char *op_class_name(OpClass class); /* "product", "attention", "element-wise" */

#define OP_GRAPH_NODES_MAX 64

typedef struct OpNode {
    OpClass class;
    const char *name;         /* for people; set by the caller, or NULL */
    uint64_t inputs, outputs; /* buffers of the chunk's rows, a bit each; one may be both */
    bool follows;             /* it reads what the same node has stored for earlier rows of the sequence, too */
    /* Set by op_graph_add(), op_graph_close(): nodes, a bit each, that must have ended before. */
    uint64_t before;       /* in the same layer */
    uint64_t before_layer; /* in the layer before */
} OpNode;

typedef struct OpGraph {
    OpNode nodes[OP_GRAPH_NODES_MAX]; /* in an order that may be run */
    size_t n;
} OpGraph;

/* Behind those that are there: it waits for each that writes what it reads or writes, or reads what it writes. At most
 * OP_GRAPH_NODES_MAX. */
void op_graph_add(OpGraph *graph, OpClass class, uint64_t inputs, uint64_t outputs, bool follows);
/* No more nodes: what those of the next layer wait for in this one. */
void op_graph_close(OpGraph *graph);
/* Whether a node may run: `done` and `done_layer` are the nodes that have ended in its layer and in the layer before;
 * for the first layer all bits of the latter. */
bool op_graph_allows(const OpGraph *graph, size_t node, uint64_t done, uint64_t done_layer);

#endif
