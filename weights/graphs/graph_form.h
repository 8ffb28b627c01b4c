// SPDX-License-Identifier: Apache-2.0
/* Where graphs are loaded from: a file of their own that has them as they are in memory (materialised), or the package,
 * which has fewer bytes and is expanded on the way (packed; EdgeFlow 4.2). Which is sooner follows from the disk. */
#ifndef COORDGEN_WEIGHTS_GRAPH_FORM_H
#define COORDGEN_WEIGHTS_GRAPH_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum GraphForm {
    GRAPH_FORM_AUTO,
    GRAPH_FORM_PACKED,
    GRAPH_FORM_MATERIALISED,
    _GRAPH_FORM_N,
} GraphForm;

const char *graph_form_name(GraphForm form); /* "auto" */
bool graph_form_named(const char *name, GraphForm *formp);

/* Of all graphs of a kind. */
typedef struct GraphFormCosts {
    uint64_t materialised_bytes, packed_bytes;
    double bytes_per_s; /* of the disk */
    double expand_ns;   /* by one thread */
} GraphFormCosts;

typedef struct GraphFormChoice {
    GraphForm form; /* never auto */
    double materialised_ns, packed_ns;
} GraphFormChoice;

/* The one that is there sooner: reading alone, or reading and expanding at the same time. Packed must be so by a tenth,
 * for what expands does not compute meanwhile. Costs that were not found out: materialised. */
GraphFormChoice graph_form_choose(const GraphFormCosts *costs);
/* One line, for people. */
void graph_form_explain(const GraphFormCosts *costs, const GraphFormChoice *choice, char *text, size_t room_bytes);

#endif
