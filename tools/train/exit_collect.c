// SPDX-License-Identifier: Apache-2.0
#include "tools/train/exit_collect.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "engine/generation.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"
#include "tools/exit/early_exit.h"

int exit_collect_init(ExitCollect *collect, Engine *target, Engine *draft, DraftPair *pair, uint32_t window_tokens,
                      ErrText *err) {
    const uint32_t a = engine_info(target)->n_vocab, b = engine_info(draft)->n_vocab;
    int r;

    *collect = (ExitCollect){ .target = target, .draft = draft, .pair = pair };
    collect->logits = malloc(MAX(a, b) * sizeof(float));
    if (!collect->logits)
        return err_no_memory(err);
    r = sequence_new(&collect->target_text, target, window_tokens, err);
    if (!r)
        r = sequence_new(&collect->draft_text, draft, window_tokens, err);
    if (r)
        exit_collect_deinit(collect);
    return r;
}

void exit_collect_deinit(ExitCollect *collect) {
    sequence_free(collect->target_text);
    sequence_free(collect->draft_text);
    free(collect->logits);
    *collect = (ExitCollect){ 0 };
}

/* --- what the target says ----------------------------------------------------------------------------------------- */

typedef struct Said {
    uint32_t *tokens;
    size_t n;
} Said;

static void take_said(void *arg, const GenerationDelta *delta) {
    Said *said = arg;

    for (size_t i = 0; i < delta->n_tokens; i++)
        said->tokens[said->n++] = delta->tokens[i];
}

int exit_collect_say(ExitCollect *collect, uint32_t *tokens, size_t n_text, size_t n, ErrText *err) {
    const GenerationOptions options = {
        .max_tokens = (uint32_t)(n - n_text),
        .ignore_end = true,
        .no_reuse = true,
        .sampler = SAMPLER_OPTIONS_GREEDY,
        .speculation = { .sources = SPECULATION_AUTO },
    };
    _cleanup_(generation_freep) Generation *generation = NULL;
    Said said = { tokens + n_text, 0 };
    int r;

    if (n == n_text)
        return 0;
    r = generation_new(&generation, collect->target, tokens, n_text, &options, err);
    while (!r && generation_end(generation) == GENERATION_RUNNING)
        r = generation_step(generation, take_said, &said, err);
    if (r)
        return r;
    return said.n == n - n_text ? 0 : err_set(err, -EINVAL, "the model's context is too short for windows of %zu", n);
}

/* --- a window ----------------------------------------------------------------------------------------------------- */

typedef struct Taking {
    ExitCollect *collect;
    ExitSample *samples;
} Taking;

static void take_draft(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops) {
    const Taking *taking = span->head.arg;
    ExitSample *sample = &taking->samples[row];

    for (uint32_t i = 0; i < tops->n && sample->n < EXIT_CHOICES; i++) {
        if (tops->tops[i].token >= taking->collect->pair->n_tokens)
            continue;
        sample->tokens[sample->n] = tops->tops[i].token;
        sample->q[sample->n++] = tops->tops[i].probability;
    }
}

static void take_target(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops) {
    const Taking *taking = span->head.arg;
    ExitSample *sample = &taking->samples[row];
    double most = -INFINITY, sum = 0;

    sample->best = tops->n ? tops->tops[0].token : 0;
    for (uint32_t i = 0; i < sample->n; i++)
        most = fmax(most, (double)logits[sample->tokens[i]]);
    for (uint32_t i = 0; i < sample->n; i++)
        sum += exp((double)logits[sample->tokens[i]] - most);
    for (uint32_t i = 0; i < sample->n; i++)
        sample->p[i] = (float)(exp((double)logits[sample->tokens[i]] - most) / sum);
}

static EngineSpan span_of(Sequence *sequence, const uint32_t *tokens, size_t n, float *logits, EngineLogitsFn *take,
                          Taking *taking) {
    return (EngineSpan){ .sequence = sequence,
                         .tokens = tokens,
                         .n = n,
                         .head = { .n_rows = n, .logits = logits, .take = take, .arg = taking, .wants_tops = true } };
}

/* Runs the target's layers one by one and copies its states between them; the step leaves nothing behind. */
static int run_target(EngineStep *step, const ExitSetShape *shape, ExitWindow *window, ErrText *err) {
    int r = 0;

    for (uint32_t i = 0; !r && i < shape->n_layers; i++) {
        r = engine_step_layers(step, shape->layers[i], NULL, err);
        if (!r)
            early_exit_scale(step->slots[SLOT_X], shape->window_tokens, shape->n_embd, window->states[i]);
    }
    if (!r)
        r = engine_step_layers(step, step->engine->hparams.n_layers, NULL, err);
    if (r)
        return r;
    early_exit_scale(step->slots[SLOT_X], shape->window_tokens, shape->n_embd, window->last);
    return engine_step_heads(step, err);
}

int exit_collect_window(ExitCollect *collect, const ExitSetShape *shape, const uint32_t *tokens, ExitWindow *window,
                        ErrText *err) {
    const size_t n = shape->window_tokens;
    Taking taking = { collect, window->samples };
    EngineSpan span = span_of(collect->draft_text, tokens, n, collect->logits, take_draft, &taking);
    EngineStep *step;
    int r;

    memset(window->samples, 0, n * sizeof(*window->samples));
    sequence_rewind(collect->draft_text, 0);
    r = engine_forward_spans(collect->draft, &span, 1, err);
    if (r)
        return r;
    span = span_of(collect->target_text, tokens, n, collect->logits, take_target, &taking);
    r = engine_step_begin(&step, collect->target, &span, 1, err);
    if (r)
        return r;
    r = run_target(step, shape, window, err);
    engine_step_drop(step);
    return r;
}
