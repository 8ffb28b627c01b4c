// SPDX-License-Identifier: Apache-2.0
/* The operators of an architecture's layer as a graph, for a device: which operators the device runs as one, and what
 * each node reads and writes. Made once for an engine. */
#ifndef COORDGEN_ENGINE_LAYER_GRAPH_H
#define COORDGEN_ENGINE_LAYER_GRAPH_H

#include "backends/backend.h"
#include "model/hparams/arch.h"
#include "scheduler/operators/op_graph.h"

/* Consecutive operators of the table that run as one. */
typedef struct LayerNode {
    const ArchOp *first;
    size_t n_ops;
    const ArchOp *main; /* the operator that takes most of the time: the product, if there is one */
    /* Operators before a product that its input takes in: the addition to the stream, the norm; or NULL. */
    const ArchOp *add, *norm;
    LinearGate gate; /* operator behind a product that its output takes in */
} LayerNode;

typedef struct LayerGraph {
    OpGraph graph;                       /* dependencies by slots, a bit each */
    LayerNode nodes[OP_GRAPH_NODES_MAX]; /* [graph.n] */
} LayerGraph;

/* Makes the graph of an architecture; fuses: the device can fuse operators (BackendOps.fuses). */
void layer_graph_init(LayerGraph *layer, const Arch *arch, bool fuses);

#endif
