// SPDX-License-Identifier: Apache-2.0
/* The most probable tokens of rows: from logits, or from the head's product while its pieces are in the cache, if
 * nobody wants the logits. The logits of a row are up to a megabyte; writing and reading them would cost about as much
 * as the product. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "backends/numeric/exp_row.h"
#include "backends/numeric/top_row.h"
#include "base/min_max.h"
#include "base/system/cpu.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"

/* The most probable tokens of a row in the pieces that a worker has seen so far. */
typedef struct RowTops {
    size_t n;
    uint32_t tokens[ENGINE_TOPS];
    float values[ENGINE_TOPS];
    float mass; /* sum of exp(logit - values[0]) */
} RowTops;

typedef struct TopsLoop {
    const TopRow *top;
    const ExpRow *exp;
    float logit_cap;
    size_t n_rows;
    RowTops *found; /* [threads][n_rows] */
    float *const *places;
} TopsLoop;

static float exp_of(const ExpRow *exp, float x) {
    float y;

    exp->exp(&x, 1, &y);
    return y;
}

/* Rescales the mass from the greatest value `before` to the one that the row has now. */
static void lift(const ExpRow *exp, RowTops *row, float before) {
    if (row->mass > 0 && before < row->values[0])
        row->mass *= exp_of(exp, before - row->values[0]);
}

static void shares(const ExpRow *exp, const RowTops *row, EngineTops *tops) {
    float values[ENGINE_TOPS];

    tops->n = (uint32_t)row->n;
    for (size_t i = 0; i < row->n; i++)
        values[i] = row->values[i] - row->values[0];
    exp->exp(values, row->n, values);
    for (size_t i = 0; i < row->n; i++)
        tops->tops[i] = (ContextTop){ row->tokens[i], values[i] / row->mass };
}

/* Looks through logits [first, first + n) of a row. */
static void look_at(const TopsLoop *loop, RowTops *row, const float *logits, size_t first, size_t n) {
    const float before = row->n ? row->values[0] : 0;

    row->n = loop->top->top(logits, n, first, ENGINE_TOPS, row->n, row->tokens, row->values);
    if (!row->n)
        return;
    lift(loop->exp, row, before);
    row->mass += loop->top->mass(logits, n, row->values[0]);
}

void engine_tops(const float *logits, size_t n_vocab, EngineTops *tops) {
    const TopsLoop loop = { .top = top_row_select(cpu_features()), .exp = exp_row_select(cpu_features()) };
    RowTops row = { 0 };

    look_at(&loop, &row, logits, 0, n_vocab);
    shares(loop.exp, &row, tops);
}

/* --- out of the product ------------------------------------------------------------------------------------------- */

static void take_piece(void *arg, size_t first, size_t n, float *y, unsigned int worker) {
    const TopsLoop *loop = arg;

    for (size_t r = 0; r < loop->n_rows; r++) {
        if (loop->logit_cap > 0)
            loop->exp->soft_cap(y + r * LINEAR_PIECE, n, loop->logit_cap);
        look_at(loop, &loop->found[worker * loop->n_rows + r], y + r * LINEAR_PIECE, first, n);
        if (loop->places[r])
            memcpy(loop->places[r] + first, y + r * LINEAR_PIECE, n * sizeof(*y));
    }
}

/* Returns whether value i of a comes before value j of b. */
static bool comes_first(const RowTops *a, size_t i, const RowTops *b, size_t j) {
    if (i == a->n || j == b->n)
        return i < a->n;
    return a->values[i] > b->values[j] || (!(a->values[i] < b->values[j]) && a->tokens[i] < b->tokens[j]);
}

static void join(const ExpRow *exp, RowTops *row, const RowTops *other) {
    const RowTops one = *row;
    RowTops two = *other;

    if (!other->n)
        return;
    row->n = MIN(one.n + two.n, ENGINE_TOPS);
    for (size_t at = 0, i = 0; at < row->n; at++) {
        const bool is_one = comes_first(&one, i, &two, at - i);

        row->tokens[at] = is_one ? one.tokens[i] : two.tokens[at - i];
        row->values[at] = is_one ? one.values[i] : two.values[at - i];
        i += is_one;
    }
    if (one.n)
        lift(exp, row, one.values[0]);
    two.values[0] = row->values[0];
    lift(exp, &two, other->values[0]);
    row->mass += two.mass;
}

bool engine_has_head_rows(Engine *engine, size_t len_bytes) {
    AccountedBlock block;

    if (engine->steps->head_rows.len_bytes >= len_bytes)
        return true;
    if (accounted_block_init(&block, engine->accounts, ACCOUNT_ACTIVATIONS, len_bytes))
        return false;
    accounted_block_deinit(&engine->steps->head_rows);
    engine->steps->head_rows = block;
    return true;
}

void engine_step_gather(EngineStep *step, const uint32_t *rows, size_t n) {
    const Engine *engine = step->engine;
    const Hparams *hparams = &engine->hparams;

    for (size_t i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && rows[i + run] == rows[i] + run;)
            run++;
        layer_norm_rows(engine->backend, hparams, weights_outside(engine->weights)->vectors, ROLE_OUTPUT_NORM,
                        step->slots[SLOT_X] + rows[i] * hparams->n_embd, run, hparams->n_embd,
                        step->slots[SLOT_NORM] + i * hparams->n_embd);
    }
}

static size_t scratch_floats(size_t n_threads, size_t n) {
    return n_threads * n * LINEAR_PIECE;
}

size_t engine_tops_rows(Engine *engine, size_t n) {
    const Backend *backend = engine->backend;
    const size_t n_threads = worker_pool_n_threads(backend->pool);

    if (!backend->ops->linear_pieces || !backend->ops->has_pieces(weights_head(engine->weights)))
        return 0;
    for (size_t rows = MIN(n, TOPS_ROWS_MAX); rows; rows /= 2)
        if (engine_has_head_rows(engine,
                                 scratch_floats(n_threads, rows) * sizeof(float) + n_threads * rows * sizeof(RowTops)))
            return rows;
    return 0;
}

/**
 * engine_step_tops() - find the most probable tokens of rows, without logits that nobody wants
 * @rows:      [n] of the step's batch, at most engine_tops_rows()
 * @n_outputs: first outputs of the vocabulary that are looked at; all of them if a row has a place
 * @tops:      out: [n]
 * @places:    [n]: where a row's logits f32[n_vocab] go, without overlaps; NULL: nowhere
 *
 * Return: 0, ENGINE_E_READ or -errno, as engine_step_run().
 */
int engine_step_tops(EngineStep *step, const uint32_t *rows, size_t n, size_t n_outputs, EngineTops *tops,
                     float *const *places, ErrText *err) {
    Engine *engine = step->engine;
    const size_t n_threads = worker_pool_n_threads(engine->backend->pool);
    float *scratch = engine->steps->head_rows.data;
    TopsLoop loop = { .top = top_row_select(cpu_features()),
                      .exp = exp_row_select(cpu_features()),
                      .logit_cap = engine->hparams.logit_cap,
                      .n_rows = n,
                      .found = (RowTops *)(scratch + scratch_floats(n_threads, n)),
                      .places = places };
    int r = engine_step_hold(step, 1 + engine->hparams.n_layers, -1, NULL, err);

    if (r)
        return r;
    memset(loop.found, 0, n_threads * n * sizeof(*loop.found));
    engine_step_gather(step, rows, n);
    r = engine->backend->ops->linear_pieces(engine->backend, weights_head(engine->weights), step->slots[SLOT_NORM], n,
                                            n_outputs, scratch, take_piece, &loop, err);
    for (size_t i = 0; !r && i < n; i++) {
        for (size_t worker = 1; worker < n_threads; worker++)
            join(loop.exp, &loop.found[i], &loop.found[worker * n + i]);
        shares(loop.exp, &loop.found[i], &tops[i]);
    }
    return r > 0 ? ENGINE_E_READ : r;
}
