// SPDX-License-Identifier: Apache-2.0
#include "weights/weights_report.h"

#include <stdio.h>

#include "scheduler/graphs/graph_switch.h"

WeightsRingCounts weights_flash_counts(const Weights *weights) {
    return weights_ring(weights) ? weights_ring_counts(weights_ring(weights)) : (WeightsRingCounts){ 0 };
}

bool weights_graph_counts(const Weights *weights, WeightsGraphsCounts *counts) {
    if (!weights_graphs(weights))
        return false;
    *counts = weights_graphs_counts(weights_graphs(weights));
    return true;
}

void weights_graph_explain(const Weights *weights, char *text, size_t room_bytes) {
    if (weights_graphs(weights))
        graph_switch_explain(weights_graphs_switch(weights_graphs(weights)), text, room_bytes);
    else
        snprintf(text, room_bytes, "no graphs on this device");
}

int weights_load_graphs(Weights *weights, ErrText *err) {
    return weights_graphs(weights) ? weights_graphs_load_all(weights_graphs(weights), err) : 0;
}
