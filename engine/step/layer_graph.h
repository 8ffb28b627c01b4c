// SPDX-License-Identifier: Apache-2.0
/* The operators of an architecture's layer as a graph, for a device: which of them run as one there, and what each node
 * reads and writes. Made once for an engine. */
#ifndef COORDGEN_ENGINE_LAYER_GRAPH_H
#define COORDGEN_ENGINE_LAYER_GRAPH_H

#include "backends/backend.h"
#include "model/hparams/arch.h"
#include "scheduler/op_graph.h"

/* Operators of the table, one behind the other, that run as one. */
typedef struct LayerNode {
    const ArchOp *first;
    size_t n_ops;
    const ArchOp *main; /* the one that most of the time goes to: the product, if there is one */
    /* Of a product that takes the operators before it into its input: the addition to the stream, the norm; or NULL. */
    const ArchOp *add, *norm;
    LinearGate gate; /* that it takes the gate behind it into its output by */
} LayerNode;

typedef struct LayerGraph {
    OpGraph graph;                       /* of the slots, a bit each */
    LayerNode nodes[OP_GRAPH_NODES_MAX]; /* [graph.n] */
} LayerGraph;

/* fuses: the device does (BackendOps.fuses). */
void layer_graph_init(LayerGraph *layer, const Arch *arch, bool fuses);

#endif
