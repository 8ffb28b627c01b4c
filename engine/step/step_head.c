// SPDX-License-Identifier: Apache-2.0
/* The output head of a step: logits of the rows that want them, in blocks that sequences share. */
#include <assert.h>
#include <string.h>

#include "backends/numeric/exp_row.h"
#include "base/clock.h"
#include "base/min_max.h"
#include "base/system/cpu.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"

/* Rows that the head computes at once, reading its weights once. HEAD_ROWS is the smallest block; a larger one has a
 * multiple of it, if a step wants more rows and there is memory. */
#define HEAD_ROWS 16
#define HEAD_ROWS_MAX 64
#define CAP_VALUES 16384 /* logits of a thread at least */

typedef struct CapLoop {
    const ExpRow *exp;
    float *logits, cap;
} CapLoop;

static void cap_values(void *arg, size_t begin, size_t end, unsigned int worker) {
    const CapLoop *loop = arg;

    loop->exp->soft_cap(loop->logits + begin, end - begin, loop->cap);
}

/* Applies the soft cap, for models that have one. */
static void cap_logits(const Engine *engine, float *logits, size_t n) {
    CapLoop loop = { exp_row_select(cpu_features()), logits, engine->hparams.logit_cap };

    if (loop.cap > 0)
        worker_pool_run(engine->backend->pool, cap_values, &loop, n, CAP_VALUES);
}

/**
 * engine_step_logits() - run the head at some rows, behind the last layer
 * @rows:   [n] of the step's batch, at most the chunk
 * @logits: out: f32[n][n_vocab]
 *
 * Return: 0, ENGINE_E_READ or -errno, as engine_step_run().
 */
int engine_step_logits(EngineStep *step, const uint32_t *rows, size_t n, float *logits, ErrText *err) {
    const Engine *engine = step->engine;
    const BackendLinear *head;
    int r = engine_step_hold(step, 1 + engine->hparams.n_layers, -1, NULL, err);

    if (r)
        return r;
    head = weights_head(engine->weights);
    engine_step_gather(step, rows, n);
    r = engine->backend->ops->linear(engine->backend, &head, 1, &(LinearInput){ .x = step->slots[SLOT_NORM] }, n,
                                     &(LinearOutput){ .y = &logits }, err);
    if (!r)
        cap_logits(engine, logits, n * engine->hparams.n_vocab);
    return r > 0 ? ENGINE_E_READ : r;
}

/* Makes the shared block have room for so many rows; false: there is no memory. */
static bool has_block(Engine *engine, size_t rows) {
    return engine_has_head_rows(engine, rows * (size_t)engine->hparams.n_vocab * sizeof(float));
}

/* Returns how many rows go through the block at a time; 0: there is no memory for any. */
static size_t block_rows(Engine *engine, size_t n_rows) {
    const size_t wanted = (n_rows + HEAD_ROWS - 1) / HEAD_ROWS * HEAD_ROWS, most = MIN(wanted, HEAD_ROWS_MAX);

    return has_block(engine, most) ? most : has_block(engine, HEAD_ROWS) ? HEAD_ROWS : 0;
}

/* --- the most probable tokens ------------------------------------------------------------------------------------- */

/* Rows of the step whose logits follow each other in memory. */
typedef struct HeadBlock {
    EngineStep *step;
    const uint32_t *rows;
    const float *logits;
    EngineTops tops[HEAD_ROWS_MAX];
} HeadBlock;

static EngineSpan *span_of(const EngineStep *step, uint32_t row) {
    return &step->spans[step->batch.rows[row].sequence];
}

static EngineHead *head_of(const EngineStep *step, uint32_t row) {
    return &span_of(step, row)->head;
}

/* Returns the row's index among those of its span whose logits are wanted. */
static size_t output_index(const EngineStep *step, uint32_t row) {
    const EngineSpan *span = span_of(step, row);

    return step->batch.rows[row].number - (span->n - span->head.n_rows);
}

static void find_block_tops(void *arg, size_t begin, size_t end, unsigned int worker) {
    HeadBlock *block = arg;
    const size_t n_vocab = block->step->engine->hparams.n_vocab;

    for (size_t i = begin; i < end; i++) {
        const EngineHead *head = head_of(block->step, block->rows[i]);

        if (head->wants_tops)
            engine_tops(block->logits + i * n_vocab, head->n_top_outputs ? head->n_top_outputs : n_vocab,
                        &block->tops[i]);
    }
}

static bool wants_tops(const EngineStep *step) {
    for (size_t i = 0; i < step->n_spans; i++)
        if (step->spans[i].head.wants_tops)
            return true;
    return false;
}

/* Hands the logits of n rows (at most HEAD_ROWS_MAX) to their spans. */
static void hand_out(EngineStep *step, const uint32_t *rows, size_t n, const float *logits) {
    const size_t n_vocab = step->engine->hparams.n_vocab;
    HeadBlock block = { .step = step, .rows = rows, .logits = logits };

    if (wants_tops(step))
        worker_pool_run(step->engine->backend->pool, find_block_tops, &block, n, 1);
    for (size_t i = 0; i < n; i++) {
        EngineSpan *span = span_of(step, rows[i]);
        EngineHead *head = &span->head;
        const size_t number = step->batch.rows[rows[i]].number, index = output_index(step, rows[i]);

        head->next_row = ENGINE_NO_ROW;
        if (head->take)
            head->take(span, number, logits + i * n_vocab, head->wants_tops ? &block.tops[i] : NULL);
        else if (logits + i * n_vocab != head->logits + index * n_vocab)
            memcpy(head->logits + index * n_vocab, logits + i * n_vocab, n_vocab * sizeof(*logits));
        assert(head->next_row == ENGINE_NO_ROW || (head->on_demand && head->next_row > number));
    }
}

/* --- logits ------------------------------------------------------------------------------------------------------- */

/* Runs the head at so many rows at a time, of any sequences, through the shared block. */
static int run_together(EngineStep *step, size_t n_rows, size_t at_once, ErrText *err) {
    for (size_t first = 0; first < n_rows; first += at_once) {
        const size_t n = MIN(n_rows - first, at_once);
        int r = engine_step_logits(step, step->outputs + first, n, step->engine->steps->head_rows.data, err);

        if (r)
            return r;
        hand_out(step, step->outputs + first, n, step->engine->steps->head_rows.data);
    }
    return 0;
}

/* Returns how many rows, from the first on, the head can write straight into the logits of their span; else 1. */
static size_t rows_apart(const EngineStep *step, const uint32_t *rows, size_t n) {
    const BatchRow *first = &step->batch.rows[rows[0]];
    size_t run = 1;

    while (!head_of(step, rows[0])->take && run < n && step->batch.rows[rows[run]].sequence == first->sequence &&
           step->batch.rows[rows[run]].number == first->number + run)
        run++;
    return run;
}

/* Runs the head without the shared block: the rows of each span go into the span's own logits. */
static int run_apart(EngineStep *step, size_t n_rows, ErrText *err) {
    for (size_t first = 0, n; first < n_rows; first += n) {
        const uint32_t *rows = step->outputs + first;
        const EngineHead *head = head_of(step, rows[0]);
        const size_t index = head->take ? 0 : output_index(step, rows[0]);
        float *logits = head->logits + index * step->engine->hparams.n_vocab;
        int r;

        n = rows_apart(step, rows, n_rows - first);
        r = engine_step_logits(step, rows, n, logits, err);
        if (r)
            return r;
        if (head->take)
            hand_out(step, rows, 1, logits);
    }
    return 0;
}

/* Returns whether rows go through the shared block: rows of several spans, or several of a span with take(). */
static bool shares_block(const EngineStep *step, size_t n_rows) {
    return n_rows > 1 && (step->n_spans > 1 || step->spans[0].head.take);
}

/* Returns whether only the most probable tokens of the row are wanted. */
static bool is_tops_only(const EngineStep *step, uint32_t row) {
    return output_index(step, row) < head_of(step, row)->n_tops_only;
}

/* Returns the place for the row's logits in its span; NULL: the span has none. */
static float *place_of(const EngineStep *step, uint32_t row) {
    const EngineHead *head = head_of(step, row);

    if (!head->take)
        return head->logits + output_index(step, row) * step->engine->hparams.n_vocab;
    return head->n_tops_only && head->n_tops_only + 1 == head->n_rows ? head->logits : NULL;
}

/* How a row goes through the head. */
typedef enum HeadWay {
    HEAD_SHORT,  /* most probable tokens of the first part of the vocabulary, piece by piece */
    HEAD_PIECES, /* most probable tokens of all, while each piece of logits is in the cache */
    HEAD_LOGITS,
} HeadWay;

/* Returns whether a span wants the most probable tokens alone, of all the vocabulary. */
static bool has_tops_only(const EngineStep *step) {
    for (size_t i = 0; i < step->n_spans; i++)
        if (step->spans[i].head.n_tops_only && !step->spans[i].head.n_top_outputs)
            return true;
    return false;
}

/* Chooses how a row goes through the head. If some rows go in pieces of all outputs, rows with a place for their logits
 * go with them, so that the head is read once. */
static HeadWay way_of(const EngineStep *step, uint32_t row, bool has_pieces) {
    if (is_tops_only(step, row))
        return head_of(step, row)->n_top_outputs ? HEAD_SHORT : HEAD_PIECES;
    return has_pieces && place_of(step, row) ? HEAD_PIECES : HEAD_LOGITS;
}

/* Returns whether a row is among the first that the head runs at. A span on demand adds later rows one by one. */
static bool wants_logits(const EngineStep *step, uint32_t row) {
    const EngineSpan *span = span_of(step, row);
    const size_t number = step->batch.rows[row].number;

    return span->head.on_demand ? !number : number >= span->n - span->head.n_rows;
}

/* Collects the rows that go through the head this way, into step->outputs. Return: how many. */
static size_t find_outputs(EngineStep *step, bool has_pieces, HeadWay way) {
    size_t n = 0;

    for (uint32_t row = 0; row < step->batch.n_rows; row++) {
        if (wants_logits(step, row) && way_of(step, row, has_pieces) == way)
            step->outputs[n++] = row;
    }
    return n;
}

/* Collects the rows that take() has put into next_row, one of a span at most. A row that was dropped ends the span's
 * way. Return: how many. */
static size_t find_next_outputs(EngineStep *step) {
    size_t n = 0;

    for (size_t i = 0; i < step->n_spans; i++) {
        const EngineHead *head = &step->spans[i].head;
        const BatchRange rows = step->batch.sequences[i].rows;
        size_t row;

        if (!head->on_demand || head->next_row == ENGINE_NO_ROW)
            continue;
        row = step_rows_find(step, rows.first, rows.first + rows.n, (uint32_t)head->next_row);
        if (row < rows.first + rows.n)
            step->outputs[n++] = (uint32_t)row;
    }
    return n;
}

/* Returns the outputs of the head that rows of this way need. */
static size_t n_outputs_of(const EngineStep *step, HeadWay way) {
    const size_t n_vocab = step->engine->hparams.n_vocab;
    size_t most = 0;

    for (size_t i = 0; way == HEAD_SHORT && i < step->n_spans; i++)
        most = MAX(step->spans[i].head.n_top_outputs, most);
    return way == HEAD_SHORT && most < n_vocab ? most : n_vocab;
}

/* Finds the most probable tokens of rows, so many at a time, and the logits of those that have a place for them. */
static int run_tops(EngineStep *step, size_t n_rows, HeadWay way, size_t at_once, ErrText *err) {
    const size_t n_outputs = n_outputs_of(step, way);
    EngineTops tops[TOPS_ROWS_MAX];
    float *places[TOPS_ROWS_MAX];

    for (size_t first = 0; first < n_rows; first += at_once) {
        const uint32_t *rows = step->outputs + first;
        const size_t n = MIN(n_rows - first, at_once);
        int r;

        for (size_t i = 0; i < n; i++)
            places[i] = is_tops_only(step, rows[i]) ? NULL : place_of(step, rows[i]);
        r = engine_step_tops(step, rows, n, n_outputs, tops, places, err);
        if (r)
            return r;
        for (size_t i = 0; i < n; i++) {
            EngineSpan *span = span_of(step, rows[i]);

            if (span->head.take)
                span->head.take(span, step->batch.rows[rows[i]].number, places[i], &tops[i]);
        }
    }
    return 0;
}

static int run_logits(EngineStep *step, size_t n_rows, ErrText *err) {
    const size_t at_once = shares_block(step, n_rows) ? block_rows(step->engine, n_rows) : 0;

    return at_once ? run_together(step, n_rows, at_once, err) : run_apart(step, n_rows, err);
}

/* Runs the head at the rows in step->outputs, for their spans. */
static int run_head(EngineStep *step, size_t n_rows, HeadWay way, ErrText *err) {
    Engine *engine = step->engine;
    const uint64_t start_ns = clock_now_ns();
    const size_t tops_rows = way == HEAD_LOGITS ? 0 : engine_tops_rows(engine, n_rows);
    int r = tops_rows ? run_tops(step, n_rows, way, tops_rows, err) : run_logits(step, n_rows, err);
    uint64_t ns;

    engine_trace_part(engine, tensor_role_name(ROLE_OUTPUT), "product", start_ns, -1, n_rows);
    ns = clock_now_ns() - start_ns;
    for (size_t i = 0; i < n_rows; i++)
        head_of(step, step->outputs[i])->ns += ns / n_rows;
    return r;
}

/* Most chunks of a prompt have no row whose logits are wanted: the head does not run then, nor does the trace show it.
 * Rows of spans on demand go through the head together, one of each span at a time. */
int engine_step_heads(EngineStep *step, ErrText *err) {
    int r = engine_step_hold(step, 1 + step->engine->hparams.n_layers, -1, NULL, err);
    const bool has_pieces = has_tops_only(step);
    size_t n_rows;

    for (size_t i = 0; i < step->n_spans; i++)
        step->spans[i].head.ns = 0;
    for (HeadWay way = HEAD_SHORT; !r && way < HEAD_LOGITS; way++) {
        n_rows = find_outputs(step, has_pieces, way);
        if (n_rows)
            r = run_head(step, n_rows, way, err);
    }
    for (n_rows = find_outputs(step, has_pieces, HEAD_LOGITS); !r && n_rows; n_rows = find_next_outputs(step))
        r = run_head(step, n_rows, HEAD_LOGITS, err);
    return r;
}
