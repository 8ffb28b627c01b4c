// SPDX-License-Identifier: Apache-2.0
/* Speculation of one generation: what it may do. */
#ifndef COORDGEN_ENGINE_DRAFT_OPTIONS_H
#define COORDGEN_ENGINE_DRAFT_OPTIONS_H

#include "spec/draft_report.h"
#include "spec/sources/draft_model.h"
#include "spec/sources/history.h"
#include "spec/speculator.h"
#include "spec/tree/spec_lab.h"

/* How a generation speculates: a step computes several tokens, from drafts, and the output is the same to the bit. All
 * zero: without drafts. */
typedef struct GenerationSpeculation {
    uint32_t sources;     /* bits 1 << SpeculationSource */
    uint32_t rows_max;    /* of this generation in a step, the last token's included; 0: DRAFT_ROWS_MAX */
    bool head_on_demand;  /* the head runs only at rows where the text goes, one after the other, unless a source wants
                          * the likely tokens at all rows */
    History *history;     /* earlier texts of the user, for the source of that name; may be freed before the generation;
                       * NULL: none. Thread: the one that computes */
    DraftModel model;     /* draft model of this generation alone, which it outlives; without ops: none. Thread: the one
                       * that computes */
    uint32_t self_layers; /* without a draft model: number of the model's first layers that draft for it; 0: none
                           * (engine/draft/self_draft.h) */
    const SpecLab *lab;   /* switches of the laboratory, which outlive the generation; NULL in the product */
} GenerationSpeculation;

#endif
