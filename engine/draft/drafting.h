// SPDX-License-Identifier: Apache-2.0
/* Drafts of one generation: the tree of its next step, what the target said of it, and what is learned from that. */
#ifndef COORDGEN_ENGINE_DRAFTING_H
#define COORDGEN_ENGINE_DRAFTING_H

#include "engine/draft/draft_pruning.h"
#include "engine/generation.h"
#include "spec/control/model_control.h"
#include "spec/control/prompt_rule.h"
#include "spec/control/speculation_control.h"

struct Drafting {
    Engine *engine;
    GenerationSpeculation options;
    const SpecLab *lab;
    bool chains; /* there is no memory for trees, or the lab wants none */
    Speculator *speculator;
    SpeculationControl control;
    ModelControl model_control;
    DraftModelOps timed_ops; /* of options.model, with a clock */
    uint64_t model_step_ns;  /* drafts of the step; its caller sets it back */
    uint64_t model_read_ns;  /* its reading of the prompt in the step; likewise */
    uint64_t model_prompt_ns;
    size_t n_model_prompt; /* rows of the prompt that it read in that time */
    size_t n_prompt;
    uint64_t user;
    size_t n_text;                   /* tokens that the speculator has of the text */
    DraftTree tree;                  /* of the step; the root alone: a plain one */
    StepCompany company;             /* beside it */
    uint16_t path[DRAFT_ROWS_MAX];   /* rows of the tree where the text goes, the root first */
    uint32_t picked[DRAFT_ROWS_MAX]; /* the token behind each of them */
    uint32_t n_path, n_emitted;      /* of the step's tokens, those that came out */
    bool has_ended;                  /* behind the last of them comes a token that is no row's */
    EngineTops tops[DRAFT_ROWS_MAX]; /* of each row; none where nobody wants them */
    uint64_t took_ns;                /* by steps that gave n_output tokens */
    uint32_t n_output;
    DraftPruning pruning;
    DraftReport *report; /* of the generation, which outlives this */
};

/* What the next step may have of a generation's drafts. */
typedef struct DraftingLimits {
    uint32_t rows;            /* the root's among them */
    uint32_t tokens_left;     /* that the text may still get, 1 at least */
    bool (*stops)(void *arg); /* ModelBudget has it */
    void *stops_arg;
} DraftingLimits;

/* What a generation's drafts begin with. */
typedef struct DraftingText {
    size_t n_prompt;
    uint32_t prompt_rows; /* rows of the prompt that are still to be computed */
    uint32_t output_max;  /* tokens at most */
    bool chains;          /* no memory for rows beside the cache: chains instead of trees */
} DraftingText;

/* Begins the drafts of a generation; report is zero, and filled from now on. 0, -ENOMEM. */
int drafting_new(Drafting **draftingp, Engine *engine, const GenerationOptions *options, DraftReport *report,
                 const DraftingText *text);
/* The engine remembers what was learned, for later generations. */
void drafting_free(Drafting *drafting);
DEFINE_CLEANUP(Drafting, drafting_free)

/* Whether the likely tokens at every row of a prompt are wanted: drafting_learn_prompt(). */
bool drafting_wants_prompt(const Drafting *drafting);
/* Among how many of a vocabulary's first tokens these, and those of drafts, are looked for; 0: all. */
size_t drafting_top_outputs(const Drafting *drafting, size_t n_vocab);
/* before: the token before this row's, or CONTEXT_NO_TOKEN. */
void drafting_learn_prompt(Drafting *drafting, uint32_t before, uint32_t token, const EngineTops *tops);
/* A step with rows of prompts alone, so many, was computed in ns. */
void drafting_prompt_took(Drafting *drafting, uint32_t rows, uint64_t ns);
/* The first n tokens of the prompt are computed: a draft model reads them as well, where that pays, a chunk at a time.
 * What was kept of an earlier request it reads in the steps to come, and does not draft before. */
void drafting_read_prompt(Drafting *drafting, const uint32_t *tokens, size_t n);
/* Grows the tree behind the text, tokens[n]. */
void drafting_grow(Drafting *drafting, const uint32_t *tokens, size_t n, DraftingLimits limits, StepCompany company);
/* Whether the most probable tokens of the tree's rows are wanted. */
bool drafting_wants_tops(const Drafting *drafting);
/* A row of the tree has its logits, and tops, or NULL where they were not wanted; rows come in rising order. Whether
 * the text comes through here: then the caller picks the token and tells it to drafting_pick(). */
bool drafting_row(Drafting *drafting, uint32_t row, const EngineTops *tops);
/* is_end: the answer ends with the token, whether or not it was drafted. */
void drafting_pick(Drafting *drafting, uint32_t token, bool is_end);
/* The step is over; n_tokens of those that were picked came out. before: the token before the root's, or
 * CONTEXT_NO_TOKEN. */
void drafting_learn(Drafting *drafting, uint32_t before, uint32_t n_tokens);
/* Of the step's tree, those that ended at the predictor's layer. */
uint32_t drafting_n_pruned(const Drafting *drafting);
/* And took so long, without the time of draft models; 0: something else has delayed it. */
void drafting_took(Drafting *drafting, uint64_t ns);
/* Times of steps by drafts in all, in such company. */
DraftCosts drafting_costs(const Drafting *drafting, StepCompany company);

#endif
