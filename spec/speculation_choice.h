// SPDX-License-Identifier: Apache-2.0
/* What a generation's drafts are made of: its sources and, where a draft model is one of them, the policy by which
 * trees are grown; as users name it. */
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
    _SPECULATION_N
} SpeculationSource;

/* How trees are grown. All but the first are baselines: they grow from the draft model's own probabilities alone. */
typedef enum SpeculationPolicy {
    POLICY_OURS,     /* all sources in one tree, by learned chances (spec/tree/draft_rounds.h); zero, so that it is the
                      * default */
    POLICY_FLASH_AR, /* no drafts */
    POLICY_CHAIN_SD, /* a chain of fixed length */
    POLICY_EDGELLM,
    POLICY_SPECINFER,
    POLICY_OPT_TREE,
    POLICY_LEVER,
    _POLICY_N
} SpeculationPolicy;

/* Of `auto`: lookup finds nothing that sam does not, calibration little that the table has not. The model is one of
 * them where there is one. */
#define SPECULATION_AUTO                                                                                               \
    (1u << SPECULATION_SAM | 1u << SPECULATION_HISTORY | 1u << SPECULATION_TABLE | 1u << SPECULATION_REUSE |           \
     1u << SPECULATION_MODEL)

enum {
    SPECULATION_CHOICE_E_TEXT = 1 /* a text that is none */
};

/* All zero: no drafts. */
typedef struct SpeculationChoice {
    uint32_t sources; /* bits 1 << SpeculationSource */
    SpeculationPolicy policy;
} SpeculationChoice;

/* "auto", "off", the name of a policy, or names of sources with commas between. 0, or SPECULATION_CHOICE_E_TEXT with
 * the text. */
int speculation_parse(const char *text, SpeculationChoice *choicep, ErrText *err);
const char *speculation_source_name(SpeculationSource source);
const char *speculation_policy_name(SpeculationPolicy policy);

#endif
