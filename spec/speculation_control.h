// SPDX-License-Identifier: Apache-2.0
/* Decides how many rows the next step of a generation may have, so that speculation that does not pay costs next to
 * nothing. It learns what steps take from the times it is told; it reads no clock. */
#ifndef COORDGEN_SPEC_SPECULATION_CONTROL_H
#define COORDGEN_SPEC_SPECULATION_CONTROL_H

#include <stdint.h>

#include "spec/draft_growth.h"

enum {
    CONTROL_WINDOW = 64 /* tokens over which the loss is bounded */
};

/* Embedded; begins with speculation_control_init(). Losses are in plain steps. */
typedef struct SpeculationControl {
    float seen_ms[DRAFT_ROWS_MAX];    /* average of steps with i + 1 rows */
    uint32_t n_seen[DRAFT_ROWS_MAX];  /* 0: not measured, or too long ago */
    uint64_t seen_at[DRAFT_ROWS_MAX]; /* token count then */
    float ms[DRAFT_ROWS_MAX];         /* never falling; 0 until plain steps are measured */
    uint64_t n_tokens;                /* emitted so far */
    uint32_t n_since_plain;           /* steps with drafts since the last one without */
    uint64_t pause_until, pause_tokens, forget_after;
    float losses[CONTROL_WINDOW]; /* of the last steps, a ring */
    uint32_t emitted[CONTROL_WINDOW];
    uint32_t at; /* in the ring: the next one */
    float loss;  /* the most that any run of steps up to now has lost, within the window; at least 0 */
} SpeculationControl;

void speculation_control_init(SpeculationControl *control);
/* That the next step may have at most, the root's among them; 1: a plain step. */
uint32_t speculation_control_rows(const SpeculationControl *control);
/* For draft_growth(); valid until the next step is told. */
DraftCosts speculation_control_costs(const SpeculationControl *control);
/* A step with that many rows took ms (above 0) and emitted n_tokens. */
void speculation_control_took(SpeculationControl *control, uint32_t rows, uint32_t n_tokens, float ms);

#endif
