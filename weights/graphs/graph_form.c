// SPDX-License-Identifier: Apache-2.0
#include "weights/graphs/graph_form.h"

#include <stdio.h>
#include <string.h>

#include "base/min_max.h"

#define PACKED_MARGIN 1.1

const Choice graph_form_choices[] = {
    { "auto", GRAPH_FORM_AUTO },
    { "packed", GRAPH_FORM_PACKED },
    { "materialised", GRAPH_FORM_MATERIALISED },
    { NULL, 0 },
};

const char *graph_form_name(GraphForm form) {
    return choice_name(graph_form_choices, form);
}

static bool are_known(const GraphFormCosts *costs) {
    return costs->bytes_per_s > 0 && costs->expand_ns > 0;
}

GraphFormChoice graph_form_choose(const GraphFormCosts *costs) {
    GraphFormChoice choice = { .form = GRAPH_FORM_MATERIALISED };
    double read_ns;

    if (!are_known(costs))
        return choice;
    choice.materialised_ns = (double)costs->materialised_bytes * 1e9 / costs->bytes_per_s;
    read_ns = (double)costs->packed_bytes * 1e9 / costs->bytes_per_s;
    choice.packed_ns = MAX(read_ns, costs->expand_ns);
    if (choice.packed_ns * PACKED_MARGIN < choice.materialised_ns)
        choice.form = GRAPH_FORM_PACKED;
    return choice;
}

void graph_form_explain(const GraphFormCosts *costs, const GraphFormChoice *choice, char *text, size_t room_bytes) {
    if (!are_known(costs)) {
        snprintf(text, room_bytes, "%s: how fast the disk is was not to be found out", graph_form_name(choice->form));
        return;
    }
    snprintf(text, room_bytes,
             "%s: at %.0f MB/s the %.1f MB of materialised graphs take %.1f ms to read, the %.1f MB of packed ones "
             "%.1f ms, of which expanding takes %.1f ms beside it",
             graph_form_name(choice->form), costs->bytes_per_s / 1e6, (double)costs->materialised_bytes / 1e6,
             choice->materialised_ns / 1e6, (double)costs->packed_bytes / 1e6, choice->packed_ns / 1e6,
             costs->expand_ns / 1e6);
}
