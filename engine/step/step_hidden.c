// SPDX-License-Identifier: Apache-2.0
/* Hidden states of a step: the rows of spans that want them, behind the last layer and the output norm. */
#include "base/min_max.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"

/* Hands the states of one span's rows over, in blocks that the slot of normalised rows holds. */
static void hand_out(EngineStep *step, EngineSpan *span, BatchRange range) {
    const size_t n_embd = step->engine->hparams.n_embd;

    for (size_t first = 0, n; first < range.n; first += n) {
        n = MIN(range.n - first, step->engine->steps->chunk_tokens);
        for (size_t i = 0; i < n; i++)
            step->outputs[i] = (uint32_t)(range.first + first + i);
        engine_step_gather(step, step->outputs, n);
        for (size_t i = 0; i < n; i++)
            span->take_hidden(span, step->batch.rows[range.first + first + i].number,
                              step->slots[SLOT_NORM] + i * n_embd);
    }
}

int engine_step_hidden(EngineStep *step, ErrText *err) {
    int r = 0;

    for (size_t i = 0; i < step->n_spans; i++) {
        EngineSpan *span = &step->spans[i];

        if (!span->take_hidden || span->is_cancelled)
            continue;
        r = engine_step_hold(step, 1 + step->engine->hparams.n_layers, -1, NULL, err); /* has the norm's weights */
        if (r)
            return r;
        hand_out(step, span, step->batch.sequences[i].rows);
    }
    return r;
}
