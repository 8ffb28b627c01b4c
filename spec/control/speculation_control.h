// SPDX-License-Identifier: Apache-2.0
/* Decides how many rows the next step of a generation may have, so that speculation that does not pay costs next to
 * nothing. It learns what steps take from the times it is told; it reads no clock. */
#ifndef COORDGEN_SPEC_SPECULATION_CONTROL_H
#define COORDGEN_SPEC_SPECULATION_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "spec/control/row_times.h"
#include "spec/tree/draft_growth.h"

enum {
    CONTROL_WINDOW = 64,         /* tokens over which the loss is bounded */
    CONTROL_ROWS = ROW_TIMES_MAX /* of a step, all generations' together, whose time is known */
};

/* What a step computes beside the generation's own rows. */
typedef struct StepCompany {
    uint32_t rows;        /* of others that decode, their drafts among them */
    uint32_t prompt_rows; /* of others' prompts */
} StepCompany;

/* A draft model's part of a step; all zero: there is none. */
typedef struct ModelShare {
    bool is_on;
    float ms; /* taken for sure, speculation_control_model_ms() at most; 0: whoever grows the tree has an eye on it */
} ModelShare;

/* Embedded; begins with speculation_control_init(). Losses are in plain steps. */
typedef struct SpeculationControl {
    float seen_ms[CONTROL_ROWS];    /* average of steps with i + 1 rows */
    uint32_t n_seen[CONTROL_ROWS];  /* 0: not measured, or too long ago */
    uint64_t seen_at[CONTROL_ROWS]; /* token count then */
    uint32_t n_guessed;     /* steps that may still say how another generation, whose times these are, differs */
    float ms[CONTROL_ROWS]; /* never falling; 0 until steps are measured */
    float row_ms;           /* that a row more takes at most, as prompts have shown; 0: not known */
    uint64_t n_tokens;      /* emitted so far */
    uint32_t n_since_plain; /* steps with drafts since the last one without */
    uint64_t pause_until, pause_tokens, forget_after;
    float losses[CONTROL_WINDOW]; /* of the last steps, a ring */
    uint32_t emitted[CONTROL_WINDOW];
    uint32_t at; /* in the ring: the next one */
    float loss;  /* the most that any run of steps up to now has lost, within the window; at least 0 */
} SpeculationControl;

/* like: what another generation has learned of the same model's steps, or NULL. */
void speculation_control_init(SpeculationControl *control, const SpeculationControl *like);
/* Some rows of a prompt (1 or more) were computed in ms, without what the step waited for weights. */
void speculation_control_prompt(SpeculationControl *control, uint32_t rows, float ms);
/* That the next step may take longer than a plain one for a draft model and the rows of its tree together; 0: the model
 * may not draft. */
float speculation_control_longer_ms(const SpeculationControl *control, StepCompany company);
/* Of that, for the model. */
float speculation_control_model_ms(const SpeculationControl *control, StepCompany company);
/* That the generation may have in the next step at most, the root's among them; 1: a plain step. */
uint32_t speculation_control_rows(const SpeculationControl *control, StepCompany company, ModelShare model);
/* By rows of the generation, for draft_growth(); valid until the next step is told. */
DraftCosts speculation_control_costs(const SpeculationControl *control, StepCompany company);
/* A step in which the generation had that many rows took ms (above 0) and gave it n_tokens; before it a draft model
 * took model_ms. ms is 0 where something else has delayed the step: nothing is learned of times then. */
void speculation_control_took(SpeculationControl *control, uint32_t rows, StepCompany company, uint32_t n_tokens,
                              float ms, float model_ms);

#endif
