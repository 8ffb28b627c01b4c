// SPDX-License-Identifier: Apache-2.0
#include "spec/control/model_control.h"

#include "base/min_max.h"
#include "spec/control/speculation_control.h"

enum {
    PAUSE_MIN = CONTROL_WINDOW,
    PAUSE_MAX = 1024
};

static const float kept = 0.95F; /* share of the sums that each step keeps */

void model_control_init(ModelControl *control, float loss_steps) {
    *control = (ModelControl){ .loss_steps = loss_steps, .pause_tokens = PAUSE_MIN };
}

bool model_control_is_on(const ModelControl *control) {
    return control->n_tokens >= control->pause_until;
}

/* Rests twice as long each time, until the model has paid again. */
static void rest(ModelControl *control) {
    control->pause_until = control->n_tokens + control->pause_tokens;
    control->pause_tokens = MIN(2 * control->pause_tokens, PAUSE_MAX);
    control->balance = 0;
    control->n_behind = 0;
}

/**
 * model_control_took() - learn what the model has gained in a step
 *
 * The tree without the model was grown first, so what the same step would have given without it is known. Two ways
 * through the same text are compared, and luck with the text is in neither. A further token is worth what a token takes
 * without the model.
 */
void model_control_took(ModelControl *control, const ModelControlStep *step) {
    float more, gain;

    control->n_tokens += step->n_tokens;
    if (!(step->plain_ms > 0))
        return;
    control->tokens_without = kept * control->tokens_without + (float)step->tokens_without;
    control->ms_without = kept * control->ms_without + step->ms_without;
    if (!step->has_drafted)
        return;
    more = (float)step->n_tokens - (float)step->tokens_without;
    gain = more * control->ms_without / control->tokens_without - (step->ms - step->ms_without);
    control->gained += more - (step->ms - step->ms_without) * control->tokens_without / control->ms_without;
    control->balance += gain / step->plain_ms;
    if (control->balance >= control->loss_steps) {
        control->balance = control->loss_steps;
        control->pause_tokens = PAUSE_MIN;
    }
    if (control->balance <= -control->loss_steps)
        rest(control);
}

void model_control_behind(ModelControl *control, uint64_t n_behind) {
    if (!control->n_behind) {
        control->n_behind = n_behind;
        control->behind_since = control->n_tokens;
    }
    if (control->n_tokens - control->behind_since < CONTROL_WINDOW)
        return;
    if (n_behind >= control->n_behind)
        rest(control);
    control->n_behind = model_control_is_on(control) ? n_behind : 0;
    control->behind_since = control->n_tokens;
}
