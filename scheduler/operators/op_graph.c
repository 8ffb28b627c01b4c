// SPDX-License-Identifier: Apache-2.0
#include "scheduler/operators/op_graph.h"

#include <assert.h>

const char *op_class_name(OpClass class) {
    static const char *const names[] = {
        [OP_CLASS_PRODUCT] = "product",
        [OP_CLASS_ATTENTION] = "attention",
        [OP_CLASS_ELEMENT_WISE] = "element-wise",
    };

    return names[class];
}

/* Whether the results depend on which of the two runs first. */
static bool conflicts(const OpNode *a, const OpNode *b) {
    return a->outputs & (b->inputs | b->outputs) || a->inputs & b->outputs;
}

void op_graph_add(OpGraph *graph, OpClass class, uint64_t inputs, uint64_t outputs, bool follows) {
    OpNode *node = &graph->nodes[graph->n];

    assert(graph->n < OP_GRAPH_NODES_MAX);
    *node = (OpNode){ .class = class, .inputs = inputs, .outputs = outputs, .follows = follows };
    for (size_t i = 0; i < graph->n; i++)
        if (conflicts(&graph->nodes[i], node))
            node->before |= UINT64_C(1) << i;
    graph->n++;
}

void op_graph_close(OpGraph *graph) {
    for (size_t i = 0; i < graph->n; i++)
        for (size_t j = 0; j < graph->n; j++)
            if (conflicts(&graph->nodes[j], &graph->nodes[i]))
                graph->nodes[i].before_layer |= UINT64_C(1) << j;
}

bool op_graph_allows(const OpGraph *graph, size_t node, uint64_t done, uint64_t done_layer) {
    return !(graph->nodes[node].before & ~done) && !(graph->nodes[node].before_layer & ~done_layer);
}
