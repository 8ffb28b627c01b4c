// SPDX-License-Identifier: Apache-2.0
/* The forward pass: runs the graph of a layer's operators, in the order of the architecture's table, for the rows of
 * one step, which one or more sequences share. This module knows no device. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "engine/step/row_groups.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"

#define ROPE_ROWS 16 /* rows of a thread at least: 20 us */

typedef struct RopeFill {
    const RopeRows *rope;
    size_t half;
    const Batch *batch;
} RopeFill;

static void fill_rope_rows(void *arg, size_t begin, size_t end, unsigned int worker) {
    const RopeFill *fill = arg;

    rope_rows_fill(fill->rope, fill->half, fill->batch, (BatchRange){ begin, end - begin });
}

static void fill_rope(EngineStep *step, const RopeRows *rope) {
    RopeFill fill = { .rope = rope, .half = step->engine->hparams.n_rot / 2, .batch = &step->batch };

    worker_pool_run(step->engine->backend->pool, fill_rope_rows, &fill, step->batch.n_rows, ROPE_ROWS);
}

/* Computes rotary tables and embeddings of all rows. */
static void begin_rows(EngineStep *step) {
    const Engine *engine = step->engine;
    const Hparams *hparams = &engine->hparams;
    const BackendLinear *embedding = weights_outside(engine->weights)->linears[ROLE_TOKEN_EMBD];

    if (engine->backend->ops->embed_ahead && weights_embedding_is_late(engine->weights))
        engine->backend->ops->embed_ahead(embedding, step->batch.tokens, step->batch.n_rows);
    fill_rope(step, &step->rope);
    if (hparams->rope.has_local && hparams->window.positions)
        fill_rope(step, &step->rope_local);
    engine->backend->ops->embed(engine->backend, embedding, step->batch.tokens, step->batch.n_rows,
                                hparams->embedding_scale, step->slots[SLOT_X]);
}

/* Computes embeddings and rotary tables, unless an earlier part of the step has. */
static int run_embedding(EngineStep *step, const EngineYield *yield, ErrText *err) {
    uint64_t start_ns;
    int r;

    if (step->has_rows)
        return 0;
    r = engine_step_hold(step, 0, -1, yield, err);
    if (r)
        return r;
    start_ns = engine_trace_begin(step->engine);
    begin_rows(step);
    step->has_rows = true;
    engine_trace_part(step->engine, tensor_role_name(ROLE_TOKEN_EMBD), "element-wise", start_ns, -1,
                      step->batch.n_rows);
    engine_step_let_go(step, 0);
    return 0;
}

/* Runs operators from the step's next one to the end of its run of layers, each on all rows. */
static int run_layers(EngineStep *step, const EngineYield *yield, bool *has_runp, ErrText *err) {
    Engine *engine = step->engine;
    const LayerGraph *layer = &engine->steps->layer;
    int r;

    for (; step->layer < step->run_end; step->layer++, step->node = 0) {
        const WeightsLayer *weights = weights_layer(engine->weights, step->layer);
        const LayerRows rows =
            step_rows_in_layer(step, (BatchRange){ 0, step->batch.n_rows }, step->layer, engine->backend);

        for (; step->node < layer->graph.n; step->node++) {
            const uint64_t start_ns = engine_trace_begin(engine);

            weights_turn(engine->weights);
            r = engine_step_look_up(step, *has_runp ? yield : NULL);
            if (r)
                return r;
            r = layer_run_node(&rows, &layer->nodes[step->node], weights->linears, weights->vectors, err);
            if (r)
                return r < 0 ? r : ENGINE_E_READ;
            *has_runp = true;
            engine_trace_node(engine, step->node, start_ns, step->layer, rows.rows, 0);
            engine_beat(engine);
        }
    }
    return 0;
}

static bool run_has_ended(const EngineStep *step) {
    return step->groups.n ? row_groups_have_ended(&step->groups) : step->layer == step->run_end;
}

/* Runs the next layers whose weights are there now, up to `end`, or the rest of such a run. A layer whose weights give
 * their place to others' is a run of its own, and its weights are held only while it runs: when the step has stopped,
 * another step may need the place. */
static int run_next_layers(EngineStep *step, uint32_t end, const EngineYield *yield, bool *has_runp, ErrText *err) {
    const uint32_t last = step->in_layers ? step->run_end - 1 : step->layer, stage = 1 + last;
    int r = engine_step_hold(step, stage, (int32_t)last, yield, err);

    if (r)
        return r;
    if (!step->in_layers) {
        const uint32_t run_end = weights_run_end(step->engine->weights, stage) - 1;

        step->run_end = MIN(run_end, end);
        step->in_layers = true;
        row_groups_cut(step, step->run_end);
    }
    r = step->groups.n ? row_groups_run(step, yield, err) : run_layers(step, yield, has_runp, err);
    *has_runp = true;
    if (run_has_ended(step)) {
        step->layer = step->run_end;
        step->node = 0;
        step->in_layers = false;
    }
    engine_step_let_go(step, stage);
    return r;
}

/* Tells the weights the rows of the step, those of its prompts, and those that follow, which graphs are loaded by. */
static void expect_rows(const EngineStep *step) {
    size_t n_behind = 0, decode_rows = 0;

    for (size_t i = 0; i < step->n_spans; i++) {
        n_behind += step->spans[i].n_behind;
        decode_rows += step->spans[i].decodes ? step->spans[i].n : 0;
    }
    weights_expect(step->engine->weights, step->batch.n_rows, step->batch.n_rows - decode_rows, n_behind, step->layer);
}

/**
 * engine_step_layers() - run a step up to the end of layer `end` - 1
 * @end: at most n_layers; a step that has stopped gets the same again
 *
 * Embeddings are computed before the first layer. Return: 0; ENGINE_E_YIELDED, ENGINE_E_WAITING, and other answers, as
 * engine_step_run().
 */
int engine_step_layers(EngineStep *step, uint32_t end, const EngineYield *yield, ErrText *err) {
    bool has_run = false;
    int r = run_embedding(step, yield, err);

    if (!r)
        expect_rows(step);

    while (!r && step->layer < end)
        r = run_next_layers(step, end, yield, &has_run, err);
    return r ? r : engine_step_look_up(step, has_run ? yield : NULL);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static EngineStep *free_step(Engine *engine) {
    for (size_t i = 0; i < engine->steps->n; i++)
        if (!engine->steps->step[i].is_taken)
            return &engine->steps->step[i];
    return NULL;
}

/**
 * engine_step_begin() - prepare a step that may stop before an operator and resume later
 * @spans: the caller's, with all that they point to, until the step's end
 *
 * A step has memory of its own for its rows, so that another step can run while it waits. Its sequences take part in no
 * other step. Thread: the one that computes. Return: 0; -EBUSY: there is no memory for one more step; -EINVAL,
 * ENGINE_E_CONTEXT.
 */
int engine_step_begin(EngineStep **stepp, Engine *engine, EngineSpan *spans, size_t n_spans, ErrText *err) {
    EngineStep *step = free_step(engine);
    int r = step_rows_check(engine, spans, n_spans);

    if (r)
        return r;
    if (!step)
        return err_set(err, -EBUSY, "another step has made way already");
    r = step_rows_reserve(spans, n_spans, err);
    if (r)
        return r;
    step->is_taken = true;
    step->spans = spans;
    step->n_spans = n_spans;
    step->layer = 0;
    step->node = 0;
    step->n_looked = 0;
    step->has_rows = step->in_layers = false;
    step_rows_fill(step);
    *stepp = step;
    return 0;
}

EngineStep *engine_step_drop(EngineStep *step) {
    if (!step)
        return NULL;
    for (size_t i = 0; i < step->n_spans; i++)
        step->spans[i].sequence->in_step = false;
    step->is_taken = false;
    return NULL;
}

/* Returns the layers to run before the next look of a span; n_layers: there is no other look. */
static uint32_t next_look(const EngineStep *step) {
    uint32_t layer = step->engine->hparams.n_layers;

    for (size_t i = 0; i < step->n_spans; i++)
        if (step->spans[i].look.layer > step->n_looked)
            layer = MIN(layer, step->spans[i].look.layer);
    return layer;
}

/* Lets the spans look that asked for it behind this layer, and drops the rows that they end. */
static int look_at_rows(EngineStep *step, uint32_t layer, ErrText *err) {
    int n = 0;

    for (size_t i = 0; n >= 0 && i < step->n_spans; i++) {
        const EngineSpan *span = &step->spans[i];
        const float *hidden = step->slots[SLOT_X] + step->batch.sequences[i].rows.first * step->engine->hparams.n_embd;
        uint16_t rows[ENGINE_TREE_ROWS_MAX];

        if (span->look.layer != layer || span->is_cancelled)
            continue;
        n = span->look.call(span->look.arg, hidden, rows, err);
        if (n > 0 && (size_t)n < span->n)
            n = engine_step_keep(step, i, rows, (size_t)n);
    }
    step->n_looked = layer;
    return MIN(n, 0);
}

/* Runs all layers, with the looks of spans between them. */
static int run_all_layers(EngineStep *step, const EngineYield *yield, ErrText *err) {
    const uint32_t n_layers = step->engine->hparams.n_layers;
    int r = 0;

    for (uint32_t layer = next_look(step); !r && layer < n_layers; layer = next_look(step)) {
        r = engine_step_layers(step, layer, yield, err);
        if (!r)
            r = look_at_rows(step, layer, err);
    }
    return r ? r : engine_step_layers(step, n_layers, yield, err);
}

/**
 * engine_step_run() - run a step, or resume it
 * @yield: when to stop before an operator; NULL: never. At least one operator runs before
 *
 * Results do not depend on where the step stopped, nor on what ran meanwhile: all data that goes from one operator to
 * the next is in the step's own rows and in the sequences' caches, past their n_tokens and beside. Thread: the one that
 * computes. Return: ENGINE_E_YIELDED, ENGINE_E_WAITING; else the step has ended, with the answer of
 * engine_forward_spans().
 */
int engine_step_run(EngineStep *step, const EngineYield *yield, ErrText *err) {
    int r = engine_check_whole(step->engine, err);

    if (!r)
        r = run_all_layers(step, yield, err);
    if (r == ENGINE_E_YIELDED || r == ENGINE_E_WAITING)
        return r;
    if (!r)
        r = engine_step_hidden(step, err);
    if (!r)
        r = engine_step_heads(step, err);
    if (!r) /* pages of a cut file read as zeros: nobody may see these logits, and no position may be kept */
        r = engine_check_whole(step->engine, err);
    if (!r)
        engine_step_commit(step);
    engine_step_drop(step);
    return r;
}

/**
 * engine_forward_spans() - append tokens to several sequences and compute them together
 *
 * The weights are read once for all rows. The result of a sequence does not depend on the others, because every
 * operator works row by row. Keys and values are written past n_tokens, which moves only at the end: a sequence whose
 * part was cancelled stays as it was, and all do if weights could not be read. Thread: the one that computes.
 * Return: 0, ENGINE_E_CONTEXT, ENGINE_E_CANCELLED; ENGINE_E_READ, with a text that names package and tensor; -EINVAL;
 * after sequence_rewind() into positions that others read too: ENGINE_E_MEMORY or -ENOMEM, with a text.
 */
int engine_forward_spans(Engine *engine, EngineSpan *spans, size_t n_spans, ErrText *err) {
    EngineStep *step = NULL;
    int r = engine_step_begin(&step, engine, spans, n_spans, err);

    return r ? r : engine_step_run(step, NULL, err);
}

/* See engine_forward_spans(). */
int engine_forward(Engine *engine, Sequence *sequence, const uint32_t *tokens, size_t n, size_t n_logit_rows,
                   float *logits, ErrText *err) {
    EngineSpan span = {
        .sequence = sequence, .tokens = tokens, .n = n, .head = { .n_rows = n_logit_rows, .logits = logits }
    };
    int r = engine_forward_spans(engine, &span, 1, err);

    return !r && span.is_cancelled ? ENGINE_E_CANCELLED : r;
}
