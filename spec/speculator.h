// SPDX-License-Identifier: Apache-2.0
/* Speculation of one generation: its sources of drafts, their statistics and counters. A source for which there is no
 * memory is off from then on; the generation goes on without it. Same calls, same trees, with the same C library. */
#ifndef COORDGEN_SPEC_SPECULATOR_H
#define COORDGEN_SPEC_SPECULATOR_H

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "spec/draft_report.h"
#include "spec/sources/context_map.h"
#include "spec/sources/history.h"
#include "spec/speculation_choice.h"
#include "spec/tree/draft_growth.h"
#include "spec/tree/draft_rounds.h"
#include "spec/tree/draft_shadows.h"

typedef struct SpeculatorOptions {
    uint32_t sources; /* bits 1 << SpeculationSource */
    uint32_t nodes_max;
    bool chains;              /* no trees: there is no memory for rows beside a cache, or the lab wants none */
    const SourceStats *stats; /* of the user's generations before, or NULL; copied */
    History *history;         /* of the source "history"; may go before the speculator. NULL: none */
    DraftModel model;         /* of the source "model"; outlives the speculator. No ops: none */
    const SpecLab *lab;       /* outlives the speculator. NULL in the product */
    DraftReport *report; /* begins as zero here; outlives the speculator, which counts sources, nodes and lengths */
} SpeculatorOptions;

/* What the model did for the last tree. */
typedef struct SpeculatorModelStep {
    bool has_drafted;        /* else it was not asked, or is not with the text yet */
    size_t n_behind;         /* tokens of the text that it has still to read */
    uint32_t rows_without;   /* that the tree would have had without it */
    uint32_t tokens_without; /* that this tree would have given, once the verification is told */
    DraftRoundsReport report;
} SpeculatorModelStep;

typedef struct Speculator Speculator;

int speculator_new(AccountTable *accounts, const SpeculatorOptions *options, Speculator **speculatorp); /* 0, -ENOMEM */
void speculator_free(Speculator *speculator);
DEFINE_CLEANUP(Speculator, speculator_free)
/* What the text has now behind what it had: the prompt, then all tokens that are emitted. */
void speculator_append(Speculator *speculator, const uint32_t *tokens, size_t n);
void speculator_observe(Speculator *speculator, uint32_t before, uint32_t token, const ContextTop *top, size_t n,
                        bool is_prompt);
/* Tokens of the text that the model, where it is a source, has still to read. */
size_t speculator_n_behind(const Speculator *speculator);
/* Brings it so many tokens nearer, however long that takes. */
void speculator_follow(Speculator *speculator, size_t most);
/* Behind the last token of the text, which is the tree's root. model: what drafting with the model may take; NULL:
 * without it. */
void speculator_draft(Speculator *speculator, DraftLimits limits, DraftCosts costs, const ModelBudget *model,
                      DraftTree *tree);
/* The candidates behind the rows of the tree that was drafted last, or a part of it. */
size_t speculator_edges(const Speculator *speculator, const DraftTree *tree, DraftEdge edges[SHADOW_EDGES_MAX]);
void speculator_verified(Speculator *speculator, const DraftTree *tree, const uint32_t *accepted, uint32_t n_accepted,
                         uint32_t next, const uint32_t *top_of_rows);
const SourceStats *speculator_stats(const Speculator *speculator);
const SpeculatorModelStep *speculator_model_step(const Speculator *speculator);
/* Those that are on, as bits. */
uint32_t speculator_sources(const Speculator *speculator);

#endif
