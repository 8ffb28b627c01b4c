// SPDX-License-Identifier: Apache-2.0
/* Speculation of one generation: its sources of drafts and their statistics. A source that finds no memory is off from
 * then on, and the generation goes on without it. Equal calls give equal trees, with the same C library. */
#ifndef COORDGEN_SPEC_SPECULATOR_H
#define COORDGEN_SPEC_SPECULATOR_H

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "spec/draft_report.h"
#include "spec/sources/context_map.h"
#include "spec/sources/grammar_drafter.h"
#include "spec/sources/history.h"
#include "spec/speculation_choice.h"
#include "spec/tree/draft_growth.h"
#include "spec/tree/draft_rounds.h"

typedef struct SpeculatorOptions {
    uint32_t sources; /* bits 1 << SpeculationSource */
    uint32_t nodes_max;
    bool chains;              /* drafts are chains: there is no memory for rows beside a cache, or the lab wants none */
    const SourceStats *stats; /* statistics of the user's earlier generations, or NULL; copied */
    History *history;         /* for the source "history"; may go before the speculator. NULL: none */
    DraftModel model;         /* for the source "model"; outlives the speculator. No ops: none */
    DraftGrammar grammar;     /* of the text, for the source "grammar" and to cut drafts; outlives the speculator */
    const SpecLab *lab;       /* NULL in the product; outlives the speculator */
    DraftReport *report;      /* zeroed here, then counts sources, nodes and lengths; outlives the speculator */
} SpeculatorOptions;

/* What the draft model did for the last tree. */
typedef struct SpeculatorModelStep {
    bool has_drafted;        /* false: the model was not asked, or has not read the whole text */
    size_t n_behind;         /* tokens of the text that the model has still to read */
    uint32_t rows_without;   /* rows of the tree without the model */
    uint32_t tokens_without; /* tokens that this tree would have given, known once the verification is */
    DraftRoundsReport report;
} SpeculatorModelStep;

typedef struct Speculator Speculator;

int speculator_new(AccountTable *accounts, const SpeculatorOptions *options, Speculator **speculatorp); /* 0, -ENOMEM */
void speculator_free(Speculator *speculator);
DEFINE_CLEANUP(Speculator, speculator_free)
/* Appends tokens to the text: the prompt first, then all tokens that are emitted. */
void speculator_append(Speculator *speculator, const uint32_t *tokens, size_t n);
void speculator_observe(Speculator *speculator, uint32_t before, uint32_t token, const ContextTop *top, size_t n,
                        bool is_prompt);
/* Returns how many tokens of the text the model has still to read; 0 where the model is no source. */
size_t speculator_n_behind(const Speculator *speculator);
/* Lets the model read at most that many tokens, however long that takes. */
void speculator_follow(Speculator *speculator, size_t most);
/* Grows the tree behind the last token of the text, which is the root. model: what drafting with the model may take;
 * NULL: the model does not draft. */
void speculator_draft(Speculator *speculator, DraftLimits limits, DraftCosts costs, const ModelBudget *model,
                      DraftTree *tree);
/* Returns the drafters behind the tree that was drafted last, valid until the next call that changes the speculator. */
DraftSources speculator_drafters(const Speculator *speculator);
/* Returns whether the grammar allows a token behind a row of the step's tree; true where the text has none. */
bool speculator_allows(const Speculator *speculator, const DraftTree *tree, uint32_t row, uint32_t token);
void speculator_verified(Speculator *speculator, const DraftTree *tree, const uint32_t *accepted, uint32_t n_accepted,
                         uint32_t next, const uint32_t *top_of_rows);
const SourceStats *speculator_stats(const Speculator *speculator);
const SpeculatorModelStep *speculator_model_step(const Speculator *speculator);
/* Returns the sources that are on, as bits 1 << SpeculationSource. */
uint32_t speculator_sources(const Speculator *speculator);

#endif
