// SPDX-License-Identifier: Apache-2.0
/* The form that graphs are loaded in. A materialised graph comes from a file of its own, as it is in memory. A packed
 * graph comes from the package, which has fewer bytes, and is expanded on the way (EdgeFlow 4.2). The disk's speed
 * decides which form is faster. */
#ifndef COORDGEN_WEIGHTS_GRAPH_FORM_H
#define COORDGEN_WEIGHTS_GRAPH_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strings/choice.h"

typedef enum GraphForm {
    GRAPH_FORM_AUTO,
    GRAPH_FORM_PACKED,
    GRAPH_FORM_MATERIALISED,
    _GRAPH_FORM_N,
} GraphForm;

extern const Choice graph_form_choices[];    /* GraphForm */
const char *graph_form_name(GraphForm form); /* "auto" */

/* Costs of all graphs of a kind. */
typedef struct GraphFormCosts {
    uint64_t materialised_bytes, packed_bytes;
    double bytes_per_s; /* of the disk */
    double expand_ns;   /* of expanding all of them by one thread */
} GraphFormCosts;

typedef struct GraphFormChoice {
    GraphForm form; /* never auto */
    double materialised_ns, packed_ns;
} GraphFormChoice;

/* Chooses the form that is loaded sooner: reading alone, or reading and expanding at the same time. The packed form
 * must be faster by a tenth, for the processor that expands does not compute meanwhile. Unknown costs: materialised. */
GraphFormChoice graph_form_choose(const GraphFormCosts *costs);
/* Writes one line for people. */
void graph_form_explain(const GraphFormCosts *costs, const GraphFormChoice *choice, char *text, size_t room_bytes);

#endif
