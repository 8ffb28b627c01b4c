// SPDX-License-Identifier: Apache-2.0
/* The fields of a generation's drafts. Private to engine/draft/drafting_state.c and its tests. */
#ifndef COORDGEN_ENGINE_DRAFTING_STATE_H
#define COORDGEN_ENGINE_DRAFTING_STATE_H

#include "engine/draft/drafting.h"
#include "spec/control/model_control.h"
#include "spec/control/speculation_control.h"

/* The tree of a generation's step, and what its verification gave. */
typedef struct DraftStep {
    DraftTree tree;                  /* the root alone: a step without drafts */
    StepCompany company;             /* rows of others in the step */
    uint16_t path[DRAFT_ROWS_MAX];   /* [n_path] rows of the tree where the text goes, the root first */
    uint32_t picked[DRAFT_ROWS_MAX]; /* [n_path] the token behind each row of the path */
    uint32_t n_path;
    uint32_t n_emitted;              /* picked tokens that became output */
    bool has_ended;                  /* behind the path comes a token that no row has */
    EngineTops tops[DRAFT_ROWS_MAX]; /* of each row; empty where nobody wants them */
    uint32_t look_layer;             /* number of layers that rows which the hook ended went through */
    uint64_t gone;                   /* bits of the rows that the hook ended, as the tree was drafted */
} DraftStep;

struct Drafting {
    Engine *engine;
    GenerationSpeculation options;
    DraftConstraint constraint;
    const SpecLab *lab;
    bool chains; /* there is no memory for trees, or the laboratory wants none */
    Speculator *speculator;
    SpeculationControl control;
    ModelControl model_control;
    DraftModelOps timed_ops; /* of options.model, with a clock */
    uint64_t model_step_ns;  /* duration of the draft model's passes for the tree of the step */
    uint64_t model_read_ns;  /* duration of its reading of the prompt in the step */
    uint64_t model_prompt_ns;
    size_t n_model_prompt; /* rows of the prompt that the draft model read in model_prompt_ns */
    size_t n_prompt;
    uint64_t user;
    size_t n_text; /* tokens of the text that the speculator has */
    DraftStep step;
    uint64_t took_ns; /* duration of the steps that gave n_output tokens */
    uint32_t n_output;
    void *hook;          /* generation of lab->hook; NULL: trees stay whole */
    DraftReport *report; /* of the generation */
};

#endif
