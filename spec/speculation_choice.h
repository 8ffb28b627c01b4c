// SPDX-License-Identifier: Apache-2.0
/* The sources that a generation's drafts are made of, as users name them. */
#ifndef COORDGEN_SPEC_SPECULATION_CHOICE_H
#define COORDGEN_SPEC_SPECULATION_CHOICE_H

#include <stdint.h>

#include "base/err.h"

typedef enum SpeculationSource {
    SPECULATION_LOOKUP,
    SPECULATION_SAM,
    SPECULATION_HISTORY,
    SPECULATION_CALIBRATION,
    SPECULATION_TABLE,
    SPECULATION_REUSE,
    SPECULATION_MODEL,
    SPECULATION_GRAMMAR,
    _SPECULATION_N
} SpeculationSource;

/* The sources of `auto`: lookup finds nothing that sam does not, calibration little that the table has not. The model
 * takes part where there is one, the grammar where the text has one. */
#define SPECULATION_AUTO                                                                                               \
    (1u << SPECULATION_SAM | 1u << SPECULATION_HISTORY | 1u << SPECULATION_TABLE | 1u << SPECULATION_REUSE |           \
     1u << SPECULATION_MODEL | 1u << SPECULATION_GRAMMAR)

enum {
    SPECULATION_CHOICE_E_TEXT = 1 /* the text names no sources */
};

/* Reads "auto" (or "ours"), "off", or names of sources with commas between, as bits 1 << SpeculationSource. 0, or
 * SPECULATION_CHOICE_E_TEXT with the text. */
int speculation_parse(const char *text, uint32_t *sourcesp, ErrText *err);
const char *speculation_source_name(SpeculationSource source);

#endif
