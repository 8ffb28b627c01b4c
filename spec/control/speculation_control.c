// SPDX-License-Identifier: Apache-2.0
#include "spec/control/speculation_control.h"

#include <assert.h>
#include <string.h>

#include "base/min_max.h"

enum {
    WARM = 2, /* plain steps before any draft: the first one reads what is not in memory yet */
    PAUSE_MIN = CONTROL_WINDOW,
    PAUSE_MAX = 1024,
    PLAIN_EVERY = 64,  /* most steps between plain ones: what drafts are weighed against must not grow old */
    FORGET_MIN = 1024, /* tokens after which a measured time no longer counts */
    FORGET_MAX = 1 << 24,
    GUESSED = 8, /* steps of a generation that show how its times differ from another's */
};

static const float budget = 0.03F * CONTROL_WINDOW; /* plain steps that a window may take longer than without drafts */
static const float outlier = 1.5F;    /* times what was expected: a longer step had to wait for something else */
static const float had_waited = 0.8F; /* share of the expected time, below which earlier steps had to wait */
/* a row of a step takes more than one of a prompt: few rows leave the device's tiles empty, and all go through the
 * head */
static const float prompt_factor = 2;
static const StepCompany alone = { 0, 0 };
/* With a draft model a step may lose two thirds of what is left, because one pass already takes its share; the model
 * has four fifths of that, rows the rest. With half, or with less for the model, a good model's chains are too short
 * beside a target in memory; with more, one wrong draft ends all drafts for too long (test_policy_gain). */
static const float times_rows = 2, times_model = 1.5F, model_share = 0.8F;

void speculation_control_init(SpeculationControl *control, const SpeculationControl *like) {
    *control = (SpeculationControl){ .pause_tokens = PAUSE_MIN, .forget_after = FORGET_MIN };
    if (!like)
        return;
    control->row_ms = like->row_ms;
    if (!(like->ms[0] > 0))
        return;
    memcpy(control->seen_ms, like->seen_ms, sizeof(control->seen_ms));
    memcpy(control->ms, like->ms, sizeof(control->ms));
    for (uint32_t i = 0; i < CONTROL_ROWS; i++) {
        control->n_seen[i] = MIN(like->n_seen[i], WARM);
        control->seen_at[i] = like->seen_at[i] - like->n_tokens; /* times keep their age */
    }
    control->n_guessed = GUESSED;
}

static void fill(SpeculationControl *control) {
    uint32_t first = 0;

    while (first < CONTROL_ROWS && !control->n_seen[first])
        first++;
    if (first < CONTROL_ROWS && control->n_seen[first] >= WARM)
        row_times_fill(control->seen_ms, control->n_seen, CONTROL_ROWS, control->row_ms, control->ms);
}

void speculation_control_prompt(SpeculationControl *control, uint32_t rows, float ms) {
    const float row_ms = prompt_factor * ms / (float)rows;

    assert(rows);
    if (row_ms > 0 && (!(control->row_ms > 0) || row_ms < control->row_ms))
        control->row_ms = row_ms;
}

/* Returns the time of a row past the table, and of a row of a prompt. */
static float row_ms(const SpeculationControl *control) {
    return (control->ms[CONTROL_ROWS - 1] - control->ms[0]) / (CONTROL_ROWS - 1);
}

static float step_ms(const SpeculationControl *control, uint32_t rows, uint32_t prompt_rows) {
    const uint32_t known = MIN(rows, CONTROL_ROWS);

    return control->ms[known - 1] + row_ms(control) * (float)(rows - known + prompt_rows);
}

/* Returns the plain steps that a step loses in which the generation has `rows` rows, drafts for model_ms with a model,
 * and gets n_tokens. */
static float loss_of(const SpeculationControl *control, uint32_t rows, StepCompany company, uint32_t n_tokens,
                     float model_ms) {
    float plain = step_ms(control, company.rows + 1, company.prompt_rows);

    if (!(control->ms[0] > 0))
        return 0;
    return (step_ms(control, company.rows + rows, company.prompt_rows) + model_ms) / plain - (float)n_tokens;
}

/* Forgets old times: rows that are no longer chosen may have got cheaper. Row counts that the budget cannot pay are
 * tried ever more seldom. */
static void forget_old(SpeculationControl *control) {
    bool dear = false;

    for (uint32_t i = 1; i < CONTROL_ROWS; i++) {
        if (!control->n_seen[i] || control->n_tokens - control->seen_at[i] < control->forget_after)
            continue;
        dear = dear || loss_of(control, i + 1, alone, 1, 0) > budget;
        control->n_seen[i] = 0;
    }
    if (dear && control->forget_after < FORGET_MAX)
        control->forget_after *= 2;
}

/* Stretches times taken over from another generation, whose steps had fewer or more positions to look back on. The
 * first own step sets the factor, and so does one that shows that the first had to wait. Past the rows that were
 * measured, times are a guess that only a faster step corrects. */
static void stretch(SpeculationControl *control, uint32_t rows, float ms) {
    const float most = step_ms(control, rows, 0);
    uint32_t measured = CONTROL_ROWS;
    float least, factor;

    while (measured > 1 && !control->n_seen[measured - 1])
        measured--;
    least = step_ms(control, MIN(rows, measured), 0);
    factor = ms < least ? ms / least : ms > most ? ms / most : 1;
    if (control->n_guessed < GUESSED && factor > had_waited)
        return;
    for (uint32_t i = 0; i < CONTROL_ROWS; i++)
        control->seen_ms[i] *= factor;
}

static void measure(SpeculationControl *control, uint32_t rows, float ms) {
    uint32_t i = rows - 1;
    float most;

    if (control->n_guessed)
        stretch(control, rows, ms);
    control->n_guessed -= control->n_guessed ? 1 : 0;
    most = outlier * (control->n_seen[i] ? control->seen_ms[i] : control->ms[i]);
    ms = most > 0 && most < ms ? most : ms;
    if (control->n_seen[i] < ROW_TIMES_AVERAGED)
        control->n_seen[i]++;
    control->seen_ms[i] += (ms - control->seen_ms[i]) / (float)control->n_seen[i];
    control->seen_at[i] = control->n_tokens;
}

/* Returns the loss of the worst run of steps that ends now. The sum over the window would not do: a gain would leave
 * the window before the losses that it paid for. */
static float worst_run(const SpeculationControl *control) {
    float sum = 0, worst = 0;
    uint32_t n_tokens = 0;

    for (uint32_t i = 1; i <= CONTROL_WINDOW; i++) {
        uint32_t step = (control->at + CONTROL_WINDOW - i) % CONTROL_WINDOW;

        n_tokens += control->emitted[step];
        if (!control->emitted[step] || n_tokens > CONTROL_WINDOW)
            break;
        sum += control->losses[step];
        worst = MAX(sum, worst);
    }
    return worst;
}

/* Whether a step with that many rows may be in vain. It takes only a part of what is left of the budget, so that one
 * large tree does not end all drafts for a window. */
static bool can_afford(const SpeculationControl *control, uint32_t rows, StepCompany company, ModelShare model) {
    const float times = model.is_on ? times_model : times_rows;

    return control->loss + times * loss_of(control, rows, company, 1, model.ms) <= budget;
}

/* Pauses drafts when not even two rows can be afforded, twice as long each time, until drafts have paid again. */
static void pace(SpeculationControl *control, bool gained) {
    if (gained && control->loss <= 0)
        control->pause_tokens = PAUSE_MIN;
    if (!(control->ms[0] > 0) || control->n_tokens < control->pause_until ||
        can_afford(control, 2, alone, (ModelShare){ 0 }))
        return;
    control->pause_until = control->n_tokens + control->pause_tokens;
    control->pause_tokens = MIN(2 * control->pause_tokens, PAUSE_MAX);
}

void speculation_control_took(SpeculationControl *control, uint32_t rows, StepCompany company, uint32_t n_tokens,
                              float ms, float model_ms) {
    float loss;

    assert(rows >= 1 && rows <= DRAFT_ROWS_MAX && n_tokens >= 1 && n_tokens <= rows);
    control->n_tokens += n_tokens;
    control->n_since_plain = rows > 1 ? control->n_since_plain + 1 : 0;
    if (ms > 0 && !company.prompt_rows && company.rows + rows <= CONTROL_ROWS)
        measure(control, company.rows + rows, ms);
    forget_old(control);
    fill(control);
    loss = rows > 1 || model_ms > 0 ? loss_of(control, rows, company, n_tokens, model_ms) : 0;
    control->losses[control->at] = loss;
    control->emitted[control->at] = n_tokens;
    control->at = (control->at + 1) % CONTROL_WINDOW;
    control->loss = worst_run(control);
    pace(control, loss < 0);
}

/* Whether a step without drafts in that company has a known time: a step with at most as many rows was measured. */
static bool has_base(const SpeculationControl *control, StepCompany company) {
    for (uint32_t i = 0; i < CONTROL_ROWS && i <= company.rows; i++)
        if (control->n_seen[i])
            return control->ms[0] > 0;
    return false;
}

/* Whether the next step may have drafts at all. */
static bool may_draft(const SpeculationControl *control, StepCompany company) {
    return has_base(control, company) && control->n_tokens >= control->pause_until &&
           control->n_since_plain < PLAIN_EVERY;
}

float speculation_control_longer_ms(const SpeculationControl *control, StepCompany company) {
    const float plain = step_ms(control, company.rows + 1, company.prompt_rows);

    if (!may_draft(control, company) || control->loss >= budget)
        return 0;
    return (budget - control->loss) / times_model * plain;
}

float speculation_control_model_ms(const SpeculationControl *control, StepCompany company) {
    return model_share * speculation_control_longer_ms(control, company);
}

/**
 * speculation_control_rows() - choose how many rows the generation may have in the next step
 *
 * If all drafts of this step and of one more like it were wrong, the last 64 tokens must still take at most 1.03 times
 * as long as plain steps. No step has more than twice as many rows as were ever measured: the time of more is a guess.
 */
uint32_t speculation_control_rows(const SpeculationControl *control, StepCompany company, ModelShare model) {
    uint32_t most = company.rows + 1, rows = 1;

    if (!may_draft(control, company))
        return 1;
    for (uint32_t i = 0; i < CONTROL_ROWS; i++)
        most = control->n_seen[i] && 2 * (i + 1) > most ? 2 * (i + 1) : most;
    most -= company.rows;
    most = MIN(most, DRAFT_ROWS_MAX);
    while (rows < most && can_afford(control, rows + 1, company, model))
        rows++;
    return rows;
}

DraftCosts speculation_control_costs(const SpeculationControl *control, StepCompany company) {
    const uint32_t at = MIN(company.rows, CONTROL_ROWS - 1);

    if (!(control->ms[0] > 0))
        return (DraftCosts){ 0 };
    return (DraftCosts){
        .ms = control->ms + at,
        .n_rows = MIN(CONTROL_ROWS - at, DRAFT_ROWS_MAX),
        .more_ms = step_ms(control, company.rows + 1, company.prompt_rows) - control->ms[at],
    };
}
