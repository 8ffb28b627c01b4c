// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/engine/draft/counted_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/core/engine_state.h"

CountedEngine counted;

static BackendOps counting_ops;
static const BackendOps *real_ops;
static const BackendLinear *head;

static void count_embed(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows,
                        float factor, float *y) {
    counted.n_computed += rows;
    real_ops->embed(backend, embedding, tokens, rows, factor, y);
}

static int cancel_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in,
                         size_t rows, const LinearOutput *out, ErrText *err) {
    if (counted.cancel_after && !--counted.cancel_after) {
        counted.cancelled = true;
        counted.cancelled_in_head = linears[0] == head;
    }
    return real_ops->linear(backend, linears, n, in, rows, out, err);
}

void counted_begin(Engine *engine) {
    if (engine->backend->ops != &counting_ops) /* an earlier test has failed */
        real_ops = engine->backend->ops;
    counting_ops = *real_ops;
    counting_ops.embed = count_embed;
    counting_ops.linear = cancel_linear;
    engine->backend->ops = &counting_ops;
    head = weights_head(engine->weights);
    counted.n_computed = counted.cancel_after = 0;
    counted.cancelled = false;
}

void counted_end(Engine *engine) {
    engine->backend->ops = real_ops;
}

void counted_check(size_t n) {
    assert_int_equal(counted.n_computed, n);
    counted.n_computed = 0;
}

static void take(EngineSpan *span, size_t row, const float *logits, const EngineTops *tops) {
    *(EngineTops *)span->head.arg = *tops;
}

EngineTops counted_plain_tops(Engine *engine, Sequence *sequence, const uint32_t *way, size_t n) {
    const size_t before = sequence_n_tokens(sequence);
    float *logits = malloc(engine_info(engine)->n_vocab * sizeof(*logits));
    EngineTops tops;

    assert_non_null(logits);
    for (size_t i = 0; i < n; i++) {
        EngineSpan span = { .sequence = sequence,
                            .tokens = &way[i],
                            .n = 1,
                            .head = { .n_rows = 1, .logits = logits, .take = take, .arg = &tops, .wants_tops = true } };

        assert_int_equal(engine_forward_spans(engine, &span, 1, NULL), 0);
    }
    sequence_rewind(sequence, before);
    free(logits);
    return tops;
}
