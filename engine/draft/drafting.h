// SPDX-License-Identifier: Apache-2.0
/* Drafts of one generation: the tree of its next step, what the target said of it, and what is learned from that. */
#ifndef COORDGEN_ENGINE_DRAFTING_H
#define COORDGEN_ENGINE_DRAFTING_H

#include "base/cleanup.h"
#include "engine/draft/draft_constraint.h"
#include "engine/draft/draft_options.h"
#include "engine/step/engine_step.h"
#include "spec/control/speculation_control.h"

/* Thread: the one that computes, for all functions. */
typedef struct Drafting Drafting;

typedef struct DraftingOptions {
    GenerationSpeculation speculation;
    DraftConstraint constraint; /* of the answer, which outlives the drafting; all zero: none */
    bool chains;                /* chains instead of trees: there is no memory for trees */
    uint64_t user;              /* whose memory of earlier drafts is used and written */
    size_t n_prompt;            /* tokens of the prompt */
    uint32_t prompt_rows;       /* of these, still to be computed */
    uint32_t output_max;        /* tokens of output at most */
    DraftReport *report;        /* zero; filled from now on, and outlives the drafting */
} DraftingOptions;

/* What the next step may have of a generation's drafts. */
typedef struct DraftingLimits {
    uint32_t rows;            /* of the tree, the root included */
    uint32_t tokens_left;     /* that the text may still get, at least 1 */
    bool (*stops)(void *arg); /* as ModelBudget has it */
    void *stops_arg;
} DraftingLimits;

/* 0, -ENOMEM. */
int drafting_new(Drafting **draftingp, Engine *engine, const DraftingOptions *options);
/* Leaves what was learned to later generations of the engine. */
void drafting_free(Drafting *drafting);
DEFINE_CLEANUP(Drafting, drafting_free)

/* Returns the durations of steps by the number of rows of all drafts, in such company. */
DraftCosts drafting_costs(const Drafting *drafting, StepCompany company);

/* --- the prompt --------------------------------------------------------------------------------------------------- */

/* Returns whether drafting_learn_prompt() wants the likely tokens at every row of a prompt. */
bool drafting_wants_prompt(const Drafting *drafting);
/* Returns among how many of a vocabulary's first tokens likely ones are looked for; 0: all. */
size_t drafting_top_outputs(const Drafting *drafting, size_t n_vocab);
/* Learns from a row of the prompt. before: the token before the row's, or CONTEXT_NO_TOKEN. */
void drafting_learn_prompt(Drafting *drafting, uint32_t before, uint32_t token, const EngineTops *tops);
/* Records that a step with rows of prompts alone, so many, took ns. */
void drafting_prompt_took(Drafting *drafting, uint32_t rows, uint64_t ns);
/* Lets the draft model read up to a chunk of the prompt, where that pays. The first n tokens of the prompt are
 * computed, and head_ns is what the head took at rows to learn from. What was kept of an earlier request is read in
 * later steps; the draft model proposes nothing before it has all. */
void drafting_read_prompt(Drafting *drafting, const uint32_t *tokens, size_t n, uint64_t head_ns);

/* --- a step ------------------------------------------------------------------------------------------------------- */

/* Grows the tree behind the text, tokens[n]. */
void drafting_grow(Drafting *drafting, const uint32_t *tokens, size_t n, DraftingLimits limits, StepCompany company);
/* Returns the tree of the step, which its caller may cut; the root alone: a step without drafts. */
DraftTree *drafting_tree(Drafting *drafting);
/* Makes chains of this tree and all later ones: there is no memory for trees. */
void drafting_use_chains(Drafting *drafting);
/* Asks in the span for the rows of the tree and for what drafting_row() takes. */
void drafting_fill_span(const Drafting *drafting, EngineSpan *span);
/* Settles what the step has beside the tree, and whether the laboratory's hook looks at the span. */
void drafting_begin_step(Drafting *drafting, EngineSpan *span, StepCompany company);
/* Takes a row of the tree, whose logits are computed, and its tops, or NULL where they were not wanted; rows come in
 * rising order. Return: whether the text comes through this row, *depthp rows behind the root; then the caller picks
 * the token behind it, for drafting_pick(). */
bool drafting_row(Drafting *drafting, uint32_t row, const EngineTops *tops, size_t *depthp);
/* Takes the token behind the row. Return: whether a row of the tree has it; if not, or if is_end (the answer ends with
 * the token), the span keeps the rows of the text. */
bool drafting_pick(Drafting *drafting, uint32_t token, bool is_end, EngineSpan *span);
/* Returns the picked tokens, one behind each row that the span kept. */
const uint32_t *drafting_picked(const Drafting *drafting);
/* Learns from the step, of which n_tokens of the picked ones became output. before: the token before the root's, or
 * CONTEXT_NO_TOKEN; head_ns: what the head took at the tree's rows. */
void drafting_learn(Drafting *drafting, uint32_t before, uint32_t n_tokens, uint64_t head_ns);
/* Returns how many rows of the step's tree the laboratory's hook ended. */
uint32_t drafting_n_gone(const Drafting *drafting);
/* Records the step's duration in ns, draft models excluded; 0 if something else delayed the step. */
void drafting_took(Drafting *drafting, uint64_t ns);
/* Returns what the draft model took of the step, in ns. */
uint64_t drafting_model_ns(const Drafting *drafting);
/* Begins to count the draft model's time of the next step. */
void drafting_end_step(Drafting *drafting);

#endif
