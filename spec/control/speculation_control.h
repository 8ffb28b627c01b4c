// SPDX-License-Identifier: Apache-2.0
/* Decides how many rows the next step of a generation may have, so that speculation that does not pay costs next to
 * nothing. Learns step times from what it is told; reads no clock. */
#ifndef COORDGEN_SPEC_SPECULATION_CONTROL_H
#define COORDGEN_SPEC_SPECULATION_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "spec/control/row_times.h"
#include "spec/tree/draft_growth.h"

enum {
    CONTROL_WINDOW = 64,         /* tokens over which the loss is bounded */
    CONTROL_ROWS = ROW_TIMES_MAX /* most rows of a step, of all generations together, whose time is known */
};

/* What a step computes beside the generation's own rows. */
typedef struct StepCompany {
    uint32_t rows;        /* rows of other generations that decode, their drafts included */
    uint32_t prompt_rows; /* rows of other generations' prompts */
} StepCompany;

/* A draft model's part of a step; all zero: there is none. */
typedef struct ModelShare {
    bool is_on;
    /* Time that the model surely takes, at most speculation_control_model_ms(); 0: whoever grows the tree keeps the
     * model and its rows within the step's time */
    float ms;
} ModelShare;

/* Embedded; begins with speculation_control_init(). Losses are in plain steps. */
typedef struct SpeculationControl {
    float seen_ms[CONTROL_ROWS];    /* [i]: average time of steps with i + 1 rows */
    uint32_t n_seen[CONTROL_ROWS];  /* 0: not measured, or too long ago */
    uint64_t seen_at[CONTROL_ROWS]; /* [i]: n_tokens at the last such step */
    uint32_t n_guessed;             /* steps that may still correct times taken over from another generation */
    float ms[CONTROL_ROWS];         /* [i]: time of i + 1 rows, never falling; 0 until steps are measured */
    float row_ms;                   /* most that a further row takes, as prompts have shown; 0: not known */
    uint64_t n_tokens;              /* tokens emitted so far */
    uint32_t n_since_plain;         /* steps with drafts since the last one without */
    uint64_t pause_until, pause_tokens, forget_after;
    float losses[CONTROL_WINDOW]; /* losses of the last steps, a ring */
    uint32_t emitted[CONTROL_WINDOW];
    uint32_t at; /* index of the ring's next entry */
    float loss;  /* most that a run of steps up to now has lost within the window; at least 0 */
} SpeculationControl;

/* Begins; like: what another generation has learned of the same model's steps, or NULL. */
void speculation_control_init(SpeculationControl *control, const SpeculationControl *like);
/* Notes that some rows of a prompt (at least 1) were computed in ms, waits for weights excluded. */
void speculation_control_prompt(SpeculationControl *control, uint32_t rows, float ms);
/* Returns the ms that the next step may take longer than a plain one, for a draft model and the rows of its tree
 * together; 0: the model may not draft. */
float speculation_control_longer_ms(const SpeculationControl *control, StepCompany company);
/* Returns the model's part of speculation_control_longer_ms(). */
float speculation_control_model_ms(const SpeculationControl *control, StepCompany company);
/* Returns the rows that the generation may have in the next step, the root's included; 1: a plain step. */
uint32_t speculation_control_rows(const SpeculationControl *control, StepCompany company, ModelShare model);
/* Returns costs by rows of the generation, for draft_growth(); valid until the next step is told. */
DraftCosts speculation_control_costs(const SpeculationControl *control, StepCompany company);
/* Learns from a step: the generation had `rows` rows in it, the step took ms and gave n_tokens, and a draft model took
 * model_ms before it. ms is 0 if something else has delayed the step: its time teaches nothing. */
void speculation_control_took(SpeculationControl *control, uint32_t rows, StepCompany company, uint32_t n_tokens,
                              float ms, float model_ms);

#endif
