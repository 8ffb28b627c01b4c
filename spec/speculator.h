// SPDX-License-Identifier: Apache-2.0
/* Speculation of one generation: its sources of drafts, their statistics and counters. A source for which there is no
 * memory is off from then on; the generation goes on without it. Same calls, same trees, with the same C library. */
#ifndef COORDGEN_SPEC_SPECULATOR_H
#define COORDGEN_SPEC_SPECULATOR_H

#include <stdbool.h>

#include "base/account.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "spec/context_map.h"
#include "spec/draft_growth.h"

typedef enum SpeculationSource {
    SPECULATION_LOOKUP,
    SPECULATION_SAM,
    SPECULATION_HISTORY,
    SPECULATION_CALIBRATION,
    SPECULATION_TABLE,
    SPECULATION_REUSE,
    _SPECULATION_N
} SpeculationSource;

/* Of `auto`: lookup finds nothing that sam does not, calibration little that the table has not. */
#define SPECULATION_AUTO                                                                                               \
    (1u << SPECULATION_SAM | 1u << SPECULATION_HISTORY | 1u << SPECULATION_TABLE | 1u << SPECULATION_REUSE)

enum {
    SPECULATOR_E_SOURCES = 1 /* text that names no set of sources */
};

typedef struct SpeculatorOptions {
    uint32_t sources; /* bits 1 << SpeculationSource */
    uint32_t nodes_max;
    bool chains;              /* no trees */
    const SourceStats *stats; /* of the user's generations before, or NULL; copied */
    Drafter history; /* a HistoryReader (spec/history.h), which outlives the speculator; without ops: there is none */
} SpeculatorOptions;

typedef struct SpeculatorCounts {
    uint64_t drafted[_SPECULATION_N]; /* nodes that the source proposed, alone or with others */
    uint64_t accepted[_SPECULATION_N];
    uint64_t accepted_of_prompt;      /* proposed by nothing but what was learned from rows of the prompt */
    uint64_t lengths[DRAFT_ROWS_MAX]; /* [i]: verifications that accepted i nodes */
} SpeculatorCounts;

/* "auto", "off" or names with commas between. 0, or SPECULATOR_E_SOURCES with the text. */
int speculation_parse(const char *text, uint32_t *sourcesp, ErrText *err);
const char *speculation_source_name(SpeculationSource source);

typedef struct Speculator Speculator;

int speculator_new(AccountTable *accounts, const SpeculatorOptions *options, Speculator **speculatorp); /* 0, -ENOMEM */
void speculator_free(Speculator *speculator);
DEFINE_CLEANUP(Speculator, speculator_free)
/* What the text has now behind what it had: the prompt, then all tokens that are emitted. */
void speculator_append(Speculator *speculator, const uint32_t *tokens, size_t n);
void speculator_observe(Speculator *speculator, uint32_t before, uint32_t token, const ContextTop *top, size_t n,
                        bool is_prompt);
/* Behind the last token of the text, which is the tree's root. */
void speculator_draft(const Speculator *speculator, DraftLimits limits, DraftCosts costs, DraftTree *tree);
void speculator_verified(Speculator *speculator, const DraftTree *tree, const uint32_t *accepted, uint32_t n_accepted,
                         uint32_t next, const uint32_t *top_of_rows);
const SpeculatorCounts *speculator_counts(const Speculator *speculator);
const SourceStats *speculator_stats(const Speculator *speculator);
/* Those that are on, as bits. */
uint32_t speculator_sources(const Speculator *speculator);

#endif
