// SPDX-License-Identifier: Apache-2.0
/* Whether a generation drafts with its model: only as long as that brings more than going without it. The other sources
 * are not its business, nor is what drafts lose in all (spec/control/speculation_control.h). It reads no clock. */
#ifndef COORDGEN_SPEC_MODEL_CONTROL_H
#define COORDGEN_SPEC_MODEL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MODEL_LOSS_STEPS = 2, /* plain steps that it may lose against going without, and be ahead at most */
    MODEL_LOSS_STEPS_SELF =
        1 /* where a model's own layers draft beside other sources: so that what they lose is not all
                               * that drafts may lose together (spec/control/speculation_control.h) */
};

/* Embedded; begins with model_control_init(). */
typedef struct ModelControl {
    float loss_steps;
    float balance; /* plain steps that it has gained lately, at most what it may lose */
    uint64_t n_tokens, pause_until, pause_tokens, behind_since;
    uint64_t n_behind;                /* tokens of the text, at behind_since; 0: it is with the text */
    float tokens_without, ms_without; /* of steps as they would have been, sums of which old ones count less */
    float gained; /* tokens that it brought, in what others would have taken for them; without its own time's worth */
} ModelControl;

/* A step. */
typedef struct ModelControlStep {
    bool has_drafted;        /* with the model */
    uint32_t n_tokens;       /* that it gave */
    uint32_t tokens_without; /* that it would have given without the model */
    float ms;                /* that it took, the model's time among it */
    float ms_without;        /* that it would have taken */
    float plain_ms;          /* of one without drafts; 0: not known, nothing is learned */
} ModelControlStep;

/* loss_steps: MODEL_LOSS_STEPS*. */
void model_control_init(ModelControl *control, float loss_steps);
bool model_control_is_on(const ModelControl *control);
void model_control_took(ModelControl *control, const ModelControlStep *step);
/* The model is behind the text by so many tokens, and what it may take of a step brings it no nearer, or nearer: if 64
 * tokens later it is no nearer, it rests. */
void model_control_behind(ModelControl *control, uint64_t n_behind);

#endif
