// SPDX-License-Identifier: Apache-2.0
/* What the weights of a model tell of themselves: their arrival, reads of those that are not in memory, graphs. */
#ifndef COORDGEN_WEIGHTS_REPORT_H
#define COORDGEN_WEIGHTS_REPORT_H

#include "weights/weights.h"

/* Returns how much of the weights has arrived. Thread: the one that computes, for all functions. */
uint32_t weights_arrived_permille(const Weights *weights);
/* Returns what was read of layers that are not in memory; all zero where all are. */
WeightsRingCounts weights_flash_counts(const Weights *weights);
/* Returns how they, or graphs, are read, as "io_uring, direct"; "" where all weights are in memory. */
const char *weights_flash_way(const Weights *weights);
/* Sets how fast they, or graphs, are read at most, from now on. */
void weights_set_flash_limit(Weights *weights, ReadLimit limit);
/* Counts how graphs came and went; false: not a device of static graphs. */
bool weights_graph_counts(const Weights *weights, WeightsGraphsCounts *counts);
/* Writes why graphs are loaded when they are, as a line. */
void weights_graph_explain(const Weights *weights, char *text, size_t room_bytes);
/* Returns why graphs are loaded in the form that they are; "": nobody had to choose. */
const char *weights_graph_form_why(const Weights *weights);
/* Waits until every block has a graph; all else must have arrived. Return: as weights_graphs_load_all(). */
int weights_load_graphs(Weights *weights, ErrText *err);

#endif
