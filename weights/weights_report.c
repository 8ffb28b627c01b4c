// SPDX-License-Identifier: Apache-2.0
#include "weights/weights_report.h"

#include <stdio.h>

#include "scheduler/graph_switch.h"

uint32_t weights_arrived_permille(const Weights *weights) {
    return weights->arrival ? weights_arrival_permille(weights->arrival) : 1000;
}

WeightsRingCounts weights_flash_counts(const Weights *weights) {
    return weights->ring ? weights_ring_counts(weights->ring) : (WeightsRingCounts){ 0 };
}

const char *weights_flash_way(const Weights *weights) {
    if (weights->graphs)
        return weights_graphs_way(weights->graphs);
    return weights->ring ? weights_ring_way(weights->ring) : "";
}

void weights_set_flash_limit(Weights *weights, ReadLimit limit) {
    if (weights->ring)
        weights_ring_set_limit(weights->ring, limit);
    if (weights->graphs)
        weights_graphs_set_limit(weights->graphs, limit);
}

bool weights_graph_counts(const Weights *weights, WeightsGraphsCounts *counts) {
    if (!weights->graphs)
        return false;
    *counts = weights_graphs_counts(weights->graphs);
    return true;
}

void weights_graph_explain(const Weights *weights, char *text, size_t room_bytes) {
    if (weights->graphs)
        graph_switch_explain(weights_graphs_switch(weights->graphs), text, room_bytes);
    else
        snprintf(text, room_bytes, "no graphs on this device");
}

const char *weights_graph_form_why(const Weights *weights) {
    return weights->graph_form_why;
}

int weights_load_graphs(Weights *weights, ErrText *err) {
    return weights->graphs ? weights_graphs_load_all(weights->graphs, err) : 0;
}
