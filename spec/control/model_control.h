// SPDX-License-Identifier: Apache-2.0
/* Decides whether a generation drafts with its model: only as long as that brings more than going without. Other
 * sources, and what all drafts together may lose, are the business of spec/control/speculation_control.h. Reads no
 * clock. */
#ifndef COORDGEN_SPEC_MODEL_CONTROL_H
#define COORDGEN_SPEC_MODEL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MODEL_LOSS_STEPS = 2, /* plain steps that the model may lose, or be ahead at most */
    /* For a model's own layers beside other sources: less than all drafts together may lose. */
    MODEL_LOSS_STEPS_SELF = 1
};

/* Embedded; begins with model_control_init(). */
typedef struct ModelControl {
    float loss_steps;
    float balance; /* plain steps that the model has gained lately, at most loss_steps */
    uint64_t n_tokens, pause_until, pause_tokens, behind_since;
    uint64_t n_behind; /* tokens of the text that the model had to read at behind_since; 0: none */
    /* Steps as they would have been without the model: sums in which old steps count less. */
    float tokens_without, ms_without;
    /* Tokens that the model brought, less those that the other sources would have given in the model's time */
    float gained;
} ModelControl;

/* A step with the model, and as it would have been without. */
typedef struct ModelControlStep {
    bool has_drafted;        /* whether the model drafted in the step */
    uint32_t n_tokens;       /* tokens that the step gave */
    uint32_t tokens_without; /* tokens that the step would have given without the model */
    float ms;                /* time of the step, the model's included */
    float ms_without;        /* time of the step without the model */
    float plain_ms;          /* time of a step without drafts; 0: not known, nothing is learned */
} ModelControlStep;

/* Begins with the model on. loss_steps: MODEL_LOSS_STEPS or MODEL_LOSS_STEPS_SELF. */
void model_control_init(ModelControl *control, float loss_steps);
bool model_control_is_on(const ModelControl *control);
void model_control_took(ModelControl *control, const ModelControlStep *step);
/* Notes that the model has still to read n_behind tokens of the text. If 64 tokens later it has not come nearer, it
 * rests. */
void model_control_behind(ModelControl *control, uint64_t n_behind);

#endif
