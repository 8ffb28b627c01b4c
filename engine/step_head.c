// SPDX-License-Identifier: Apache-2.0
/* The output head of a step: logits of the rows that want them, in blocks that sequences share. */
#include <string.h>

#include "engine/engine_private.h"

/* Rows of the head that are computed at once; its weights are read once for them. So many where a step wants no more, or
 * where there is no memory for a larger block; a larger one has a multiple of it. */
#define HEAD_ROWS 16
#define HEAD_ROWS_MAX 64

/* Rows of the step, normalised, close together in SLOT_NORM. */
static void gather(EngineStep *step, const uint32_t *rows, size_t n) {
    const Engine *engine = step->engine;
    const Hparams *hparams = &engine->hparams;

    for (size_t i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && rows[i + run] == rows[i] + run;)
            run++;
        engine->backend->ops->norm(engine->backend, step->slots[SLOT_X] + rows[i] * hparams->n_embd,
                                   engine->weights->outside.vectors[ROLE_OUTPUT_NORM], hparams->norm_eps, run,
                                   hparams->n_embd, step->slots[SLOT_NORM] + i * hparams->n_embd);
    }
}

/**
 * engine_step_logits() - the head of some rows, behind the last layer
 * @rows:   [n] of the step's batch, at most the chunk
 * @logits: out: f32[n][n_vocab]
 *
 * Return: 0, ENGINE_E_READ or -errno, as engine_step_run().
 */
int engine_step_logits(EngineStep *step, const uint32_t *rows, size_t n, float *logits, ErrText *err) {
    const Engine *engine = step->engine;
    const BackendLinear *head;
    int r = engine_step_take_in(step, 1 + engine->hparams.n_layers, -1, err);

    if (r)
        return r;
    head = weights_head(engine->weights);
    gather(step, rows, n);
    r = engine->backend->ops->linear(engine->backend, &head, 1, &(LinearInput){ .x = step->slots[SLOT_NORM] }, n,
                                     &(LinearOutput){ .y = &logits }, err);
    return r > 0 ? ENGINE_E_READ : r;
}

/* The shared block has room for so many rows. */
static bool has_block(Engine *engine, size_t rows) {
    const size_t len_bytes = rows * (size_t)engine->hparams.n_vocab * sizeof(float);
    AccountedBlock block;

    if (engine->head_rows.len_bytes >= len_bytes)
        return true;
    if (accounted_block_init(&block, engine->accounts, ACCOUNT_ACTIVATIONS, len_bytes))
        return false;
    accounted_block_deinit(&engine->head_rows);
    engine->head_rows = block;
    return true;
}

/* Rows that go through the block at a time; 0: there is no memory for any. */
static size_t block_rows(Engine *engine, size_t n_rows) {
    const size_t wanted = (n_rows + HEAD_ROWS - 1) / HEAD_ROWS * HEAD_ROWS,
                 most = wanted < HEAD_ROWS_MAX ? wanted : HEAD_ROWS_MAX;

    return has_block(engine, most) ? most : has_block(engine, HEAD_ROWS) ? HEAD_ROWS : 0;
}

/* A row of the step to whoever wants its logits, which are at `logits`. */
static void hand_out(EngineStep *step, uint32_t row, const float *logits) {
    EngineSpan *span = &step->spans[step->batch.rows[row].sequence];
    const size_t n_vocab = step->engine->hparams.n_vocab, span_row = step->span_rows[row],
                 index = span_row - (span->n - span->n_logit_rows);

    if (span->take)
        span->take(span, span_row, logits);
    else if (logits != span->logits + index * n_vocab)
        memcpy(span->logits + index * n_vocab, logits, n_vocab * sizeof(*logits));
}

/* So many rows at a time, whichever sequences they are of. */
static int run_together(EngineStep *step, size_t n_rows, size_t at_once, ErrText *err) {
    const size_t n_vocab = step->engine->hparams.n_vocab;

    for (size_t first = 0; first < n_rows; first += at_once) {
        const size_t n = n_rows - first < at_once ? n_rows - first : at_once;
        const float *logits = step->engine->head_rows.data;
        int r = engine_step_logits(step, step->outputs + first, n, step->engine->head_rows.data, err);

        if (r)
            return r;
        for (size_t i = 0; i < n; i++)
            hand_out(step, step->outputs[first + i], logits + i * n_vocab);
    }
    return 0;
}

/* Where the span's logits have room for the row and those behind it, into that; else one by one. How many that were. */
static size_t rows_apart(const EngineStep *step, const uint32_t *rows, size_t n) {
    const uint32_t sequence = step->batch.rows[rows[0]].sequence;
    size_t run = 1;

    while (!step->spans[sequence].take && run < n && step->batch.rows[rows[run]].sequence == sequence &&
           step->span_rows[rows[run]] == step->span_rows[rows[0]] + run)
        run++;
    return run;
}

/* Each span's rows into its own logits. */
static int run_apart(EngineStep *step, size_t n_rows, ErrText *err) {
    for (size_t first = 0, n; first < n_rows; first += n) {
        const uint32_t *rows = step->outputs + first;
        EngineSpan *span = &step->spans[step->batch.rows[rows[0]].sequence];
        const size_t index = span->take ? 0 : step->span_rows[rows[0]] - (span->n - span->n_logit_rows);
        float *logits = span->logits + index * step->engine->hparams.n_vocab;
        int r;

        n = rows_apart(step, rows, n_rows - first);
        r = engine_step_logits(step, rows, n, logits, err);
        if (r)
            return r;
        if (span->take)
            hand_out(step, rows[0], logits);
    }
    return 0;
}

/* Whether rows go through the shared block: those of several spans, or several of one that takes them one by one. */
static bool shares_block(const EngineStep *step, size_t n_rows) {
    return n_rows > 1 && (step->n_spans > 1 || step->spans[0].take);
}

static size_t find_outputs(EngineStep *step) {
    size_t n = 0;

    for (size_t row = 0; row < step->batch.n_rows; row++)
        if (step->batch.rows[row].wants_logits)
            step->outputs[n++] = (uint32_t)row;
    return n;
}

/* Most chunks of a prompt have no row whose logits are wanted: no head runs then, and the trace has none. */
int engine_step_heads(EngineStep *step, ErrText *err) {
    Engine *engine = step->engine;
    const size_t n_rows = find_outputs(step), at_once = shares_block(step, n_rows) ? block_rows(engine, n_rows) : 0;
    uint64_t start_ns;
    int r = engine_step_take_in(step, 1 + engine->hparams.n_layers, -1, err);

    if (r || !n_rows)
        return r;
    start_ns = engine_trace_begin(engine);
    r = at_once ? run_together(step, n_rows, at_once, err) : run_apart(step, n_rows, err);
    engine_trace_part(engine, tensor_role_name(ROLE_OUTPUT), "product", start_ns, -1, n_rows);
    return r;
}
