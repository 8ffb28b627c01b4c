// SPDX-License-Identifier: Apache-2.0
#include "tools/exit/exit_control.h"

#include "base/min_max.h"

enum {
    WARM = 8,        /* trials before the first decision */
    AGAIN = 3,       /* trials after a pause */
    TRIAL_EVERY = 8, /* steps from one trial to the next while pruning is on */
    PAUSE_MIN = 64,  /* tokens */
    PAUSE_MAX = 4096
};

static const float kept = 0.97F;         /* share of the sums that each trial keeps */
static const float kept_of_rest = 0.25F; /* share of the sums that a pause keeps: the text behind it is another one */
static const float prior_lost = 0.5F;    /* tokens that an assumed trial before the first one lost */

const float exit_thresholds[EXIT_THRESHOLDS] = { -1, -1.7F, -2.4F, -3.2F, -4.2F, -5.5F };

void exit_control_init(ExitControl *control) {
    *control = (ExitControl){ .pause_tokens = PAUSE_MIN, .n_trials_left = WARM };
}

ExitChoice exit_control_choose(const ExitControl *control) {
    if (control->n_tokens < control->pause_until)
        return EXIT_REST;
    return control->is_on && control->n_since_trial + 1 < TRIAL_EVERY ? EXIT_PRUNE : EXIT_TRIAL;
}

uint32_t exit_control_threshold(const ExitControl *control) {
    return control->best;
}

static float gain_of(const ExitControl *control, uint32_t i) {
    return (control->saved_ms[i] - control->lost_ms[i] - prior_lost * control->token_ms - control->asked_ms) /
           (control->n + 1);
}

static void forget(ExitControl *control, float share) {
    control->n *= share;
    control->asked_ms *= share;
    for (uint32_t i = 0; i < EXIT_THRESHOLDS; i++) {
        control->saved_ms[i] *= share;
        control->lost_ms[i] *= share;
    }
}

/* Rests where nothing is gained, twice as long each time until something is. */
static void decide(ExitControl *control) {
    control->best = 0;
    for (uint32_t i = 1; i < EXIT_THRESHOLDS; i++)
        if (gain_of(control, i) > gain_of(control, control->best))
            control->best = i;
    control->is_on = gain_of(control, control->best) > 0;
    if (control->is_on) {
        control->pause_tokens = PAUSE_MIN;
        return;
    }
    forget(control, kept_of_rest);
    control->n_trials_left = AGAIN;
    control->pause_until = control->n_tokens + control->pause_tokens;
    control->pause_tokens = MIN(2 * control->pause_tokens, PAUSE_MAX);
}

/**
 * exit_control_tried() - learn from a step in which all rows went on
 *
 * A lost token costs what a token takes now, whoever drafted it. The predictor's time is paid in each step that asks
 * it, pruned or not.
 */
void exit_control_tried(ExitControl *control, const ExitTrial *trial) {
    if (!(trial->token_ms > 0))
        return;
    control->n_since_trial = 0;
    control->token_ms = trial->token_ms;
    forget(control, kept);
    control->n++;
    control->asked_ms += trial->asked_ms;
    for (uint32_t i = 0; i < EXIT_THRESHOLDS; i++) {
        control->saved_ms[i] += trial->saved_ms[i];
        control->lost_ms[i] += (float)trial->n_lost[i] * trial->token_ms;
    }
    if (control->n_trials_left)
        control->n_trials_left--;
    if (!control->n_trials_left)
        decide(control);
}

void exit_control_pruned(ExitControl *control) {
    control->n_since_trial++;
}

void exit_control_emitted(ExitControl *control, uint32_t n_tokens) {
    control->n_tokens += n_tokens;
}
