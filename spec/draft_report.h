// SPDX-License-Identifier: Apache-2.0
/* What drafts brought one generation. The thread that computes fills it where each thing happens, and any thread may
 * read it meanwhile: single counters are right, sums over several of them may be a step apart until the end. */
#ifndef COORDGEN_SPEC_DRAFT_REPORT_H
#define COORDGEN_SPEC_DRAFT_REPORT_H

#include <stdint.h>

#include "spec/control/prompt_rule.h"
#include "spec/speculation_choice.h"
#include "spec/sources/draft_tree.h"

typedef struct DraftReport {
    /* Set when the generation begins, before any other thread looks. */
    PromptRuleChoice prompt; /* whether drafts learn from the prompt, and why */
    PromptRuleChoice model;  /* whether the draft model reads the prompt, and why */

    /* Steps that decode: all but the one that ends the prompt. */
    _Atomic uint64_t n_steps;
    _Atomic uint64_t n_verifications; /* steps with drafts */
    _Atomic uint64_t n_rows;          /* rows that the steps computed for this generation */
    _Atomic uint64_t n_rows_idle;     /* rows that the device computed beside these, up to whole tiles */
    _Atomic uint64_t step_ns;         /* the steps as a whole */
    _Atomic uint64_t head_ns;         /* output projection and sampling; of a shared step its share */

    /* Sources of drafts. */
    _Atomic uint32_t sources;                 /* sources that are on, as bits 1 << SpeculationSource */
    _Atomic uint64_t drafted[_SPECULATION_N]; /* nodes that each source proposed, alone or with others */
    _Atomic uint64_t accepted[_SPECULATION_N];
    _Atomic uint64_t accepted_of_prompt;      /* nodes that only what was learned from the prompt proposed */
    _Atomic uint64_t lengths[DRAFT_ROWS_MAX]; /* [i]: verifications that accepted i nodes */
    _Atomic uint64_t draft_ns;                /* growing trees and learning from them, draft model excluded */

    /* The draft model. */
    _Atomic uint64_t n_model_passes; /* passes behind the text */
    _Atomic uint64_t n_model_rows;   /* rows that these passes computed */
    _Atomic uint64_t model_ns;       /* the passes, and reading prompt and text */

    /* Learning from the prompt. */
    _Atomic uint64_t n_prompt_rows; /* rows of the prompt whose logits were computed for it */
    _Atomic uint64_t prompt_head_ns;
} DraftReport;

/* Adds the counters and times of another report. Choices about the prompt stay those of @to. */
void draft_report_add(DraftReport *to, const DraftReport *from);

#endif
