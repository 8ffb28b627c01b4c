// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar.h"

#include <stdlib.h>

#include "text/grammar/grammar_private.h"

Grammar *grammar_ref(Grammar *grammar) {
    grammar->n_refs++;
    return grammar;
}

Grammar *grammar_unref(Grammar *grammar) {
    if (!grammar || --grammar->n_refs)
        return NULL;
    byte_regex_free(grammar->regex);
    rule_graph_deinit(&grammar->graph);
    free(grammar);
    return NULL;
}

size_t grammar_memory_bytes(const Grammar *grammar) {
    return sizeof(*grammar) + byte_regex_memory_bytes(grammar->regex) + rule_graph_memory_bytes(&grammar->graph);
}
