// SPDX-License-Identifier: Apache-2.0
/* What the weights of a model tell of reads and of graphs, on any device. */
#ifndef COORDGEN_WEIGHTS_REPORT_H
#define COORDGEN_WEIGHTS_REPORT_H

#include "weights/weights.h"

/* Returns what was read of layers that are not in memory; all zero where all are. Thread: the one that computes, for
 * all functions. */
WeightsRingCounts weights_flash_counts(const Weights *weights);
/* Counts how graphs came and went; false: not a device of static graphs. */
bool weights_graph_counts(const Weights *weights, WeightsGraphsCounts *counts);
/* Writes why graphs are loaded when they are, as a line. */
void weights_graph_explain(const Weights *weights, char *text, size_t room_bytes);
/* Waits until every block has a graph; all else must have arrived. Return: as weights_graphs_load_all(). */
int weights_load_graphs(Weights *weights, ErrText *err);

#endif
