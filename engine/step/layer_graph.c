// SPDX-License-Identifier: Apache-2.0
/*
 * If the device fuses operators, a norm whose output only a product reads becomes a part of that product's input, and
 * an addition to the stream just before the norm likewise: rows become int8 without a way through memory. Two products
 * of which one gates the other become one output. The slots between fused operators are not written. The bits are the
 * same.
 */
#include "engine/step/layer_graph.h"

#include <assert.h>
#include <string.h>

/* Returns whether no operator from `at` on reads the slot before it is written again. */
static bool is_done_with(const Arch *arch, size_t at, Slot slot) {
    for (size_t i = at; i < arch->n_ops; i++) {
        if (arch_op_reads(&arch->ops[i]) & SLOT_BIT(slot))
            return false;
        if (arch_op_writes(&arch->ops[i]) & SLOT_BIT(slot))
            return true;
    }
    return slot != SLOT_X; /* the next layer reads the stream */
}

/* Fuses the operators from `at` on into the input of the product behind them, if that is possible. */
static void fuse_input(const Arch *arch, size_t at, LayerNode *node) {
    const ArchOp *op = &arch->ops[at];
    const size_t n_add =
        op->kind == OP_ADD && at + 1 < arch->n_ops && op[1].kind == OP_NORM && op[1].in == SLOT_X ? 1 : 0;
    const ArchOp *norm = op + n_add, *linear = norm + 1;

    if (norm->kind != OP_NORM || at + n_add + 1 >= arch->n_ops || linear->kind != OP_LINEAR ||
        linear->in != norm->out[0] || !is_done_with(arch, at + n_add + 2, linear->in))
        return;
    node->add = n_add ? op : NULL;
    node->norm = norm;
    node->main = linear;
    node->n_ops = n_add + 2;
}

/* Fuses the gate behind a product into its output, if both outputs of the product are for the gate. */
static void fuse_gate(const Arch *arch, LayerNode *node) {
    const ArchOp *op = node->main;
    const size_t at = (size_t)(op - arch->ops);

    if (op->kind != OP_LINEAR || op->n != 2 || op->out[0] != SLOT_GATE || op->out[1] != SLOT_UP ||
        at + 1 == arch->n_ops || op[1].kind != OP_GATED || op[1].in != SLOT_GATE ||
        !is_done_with(arch, at + 2, SLOT_UP))
        return;
    node->gate = arch->activation == ACTIVATION_GELU ? LINEAR_GATE_GELU : LINEAR_GATE_SILU;
    node->n_ops++;
}

static OpClass class_of(const LayerNode *node) {
    return node->main->kind == OP_LINEAR      ? OP_CLASS_PRODUCT
           : node->main->kind == OP_ATTENTION ? OP_CLASS_ATTENTION
                                              : OP_CLASS_ELEMENT_WISE;
}

/* Adds a node: its inputs are slots that it reads before it writes them. Slots between its operators count as outputs,
 * because a device may write them. */
static void add_node(OpGraph *graph, const LayerNode *node) {
    uint64_t inputs = 0, outputs = 0;

    for (size_t i = 0; i < node->n_ops; i++) {
        inputs |= arch_op_reads(&node->first[i]) & ~outputs;
        outputs |= arch_op_writes(&node->first[i]);
    }
    op_graph_add(graph, class_of(node), inputs, outputs, node->main->kind == OP_ATTENTION);
    graph->nodes[graph->n - 1].name = arch_op_name(node->main);
}

void layer_graph_init(LayerGraph *layer, const Arch *arch, bool fuses) {
    memset(layer, 0, sizeof(*layer));
    for (size_t at = 0; at < arch->n_ops;) {
        LayerNode *node = &layer->nodes[layer->graph.n];

        assert(layer->graph.n < OP_GRAPH_NODES_MAX);
        *node = (LayerNode){ .first = &arch->ops[at], .n_ops = 1, .main = &arch->ops[at] };
        if (fuses) {
            fuse_input(arch, at, node);
            fuse_gate(arch, node);
        }
        add_node(&layer->graph, node);
        at += node->n_ops;
    }
    op_graph_close(&layer->graph);
}
