// SPDX-License-Identifier: Apache-2.0
/* The rows of a step: checks of spans, the batch that is made of them, dropping of rows between layers, and the rows
 * that become positions of their sequences. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/min_max.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"

/* --- spans -------------------------------------------------------------------------------------------------------- */

/* Returns the depth of a tree's deepest row, 1 for row 0; 0: the parents are invalid. */
static size_t tree_depth(const int16_t *parents, size_t n) {
    uint8_t depths[ENGINE_TREE_ROWS_MAX];
    size_t deepest = 1;

    if (!n || n > ENGINE_TREE_ROWS_MAX || parents[0] != -1)
        return 0;
    depths[0] = 1;
    for (size_t i = 1; i < n; i++) {
        if (parents[i] < 0 || parents[i] >= (int)i)
            return 0;
        depths[i] = depths[parents[i]] + 1;
        deepest = MAX(depths[i], deepest);
    }
    return deepest;
}

/* Positions from the sequence's end on that the rows take, with those of the tree that they grow; 0: the parents are
 * bad. */
static size_t positions_of(const EngineSpan *span) {
    int16_t parents[ENGINE_TREE_ROWS_MAX];

    if (!span->parents)
        return span->grows_tree ? 0 : span->n;
    if (span->grows_tree)
        return tree_depth(parents, open_tree_with(&span->sequence->tree, span->parents, span->n, parents));
    return tree_depth(span->parents, span->n);
}

/* Rows in the sequence's pages at their positions; those behind them have slots beside. */
static size_t in_place(const EngineSpan *span) {
    if (span->grows_tree)
        return span->sequence->tree.n ? 0 : 1;
    return span->parents ? batch_tree_in_place(span->parents, span->n) : span->n;
}

static int check_span(const Engine *engine, const EngineSpan *span, size_t room) {
    const Sequence *sequence = span->sequence;
    size_t n_positions;

    if (!span->n || span->n > room || span->head.n_rows > span->n || sequence->in_step ||
        (sequence->tree.n && !span->grows_tree) || (span->head.on_demand && !span->head.take))
        return -EINVAL;
    n_positions = positions_of(span);
    if (!n_positions)
        return -EINVAL;
    if (n_positions > sequence->capacity_tokens - sequence->n_tokens)
        return ENGINE_E_CONTEXT;
    for (size_t i = 0; i < span->n; i++)
        if (span->tokens[i] >= engine->hparams.n_vocab)
            return -EINVAL;
    return 0;
}

int step_rows_check(const Engine *engine, const EngineSpan *spans, size_t n_spans) {
    size_t rows = 0;

    if (!n_spans || n_spans > ENGINE_SPANS_MAX)
        return -EINVAL;
    for (size_t i = 0; i < n_spans; i++) {
        int r = check_span(engine, &spans[i], engine->steps->chunk_tokens - rows);

        if (r)
            return r;
        rows += spans[i].n;
        for (size_t j = 0; j < i; j++)
            if (spans[j].sequence == spans[i].sequence)
                return -EINVAL;
    }
    return 0;
}

int step_rows_reserve(const EngineSpan *spans, size_t n_spans, ErrText *err) {
    for (size_t i = 0; i < n_spans; i++) {
        int r = sequence_make_writable(spans[i].sequence, positions_of(&spans[i]), err);

        if (!r && (spans[i].grows_tree || in_place(&spans[i]) < spans[i].n))
            r = sequence_make_side(spans[i].sequence, err);
        if (r)
            return r;
    }
    return 0;
}

/* --- batch -------------------------------------------------------------------------------------------------------- */

static void add_span(EngineStep *step, const EngineSpan *span) {
    Batch *batch = &step->batch;
    const Sequence *sequence = span->sequence;
    const size_t first = batch->n_rows;
    void *side = sequence->side ? sequence->side->memory.data : NULL;
    int16_t parents[ENGINE_TREE_ROWS_MAX];

    if (span->grows_tree) {
        open_tree_with(&sequence->tree, span->parents, span->n, parents);
        batch_add_open_tree(batch, sequence->blocks, side, sequence->n_tokens, parents, sequence->tree.n, span->n);
    } else if (span->parents)
        batch_add_tree(batch, sequence->blocks, side, sequence->n_tokens, span->parents, span->n);
    else
        batch_add_chain(batch, sequence->blocks, sequence->n_tokens, span->n);
    memcpy(batch->tokens + first, span->tokens, span->n * sizeof(*span->tokens));
}

void step_rows_fill(EngineStep *step) {
    step->batch.n_rows = step->batch.n_sequences = step->batch.earlier.n = 0;
    for (size_t i = 0; i < step->n_spans; i++) {
        EngineSpan *span = &step->spans[i];

        add_span(step, span);
        span->sequence->in_step = true;
        span->is_cancelled = false;
        span->wait_ns = 0;
        span->n_kept = span->grows_tree ? 0 : in_place(span);
        span->kept = NULL;
    }
}

LayerRows step_rows_in_layer(const EngineStep *step, BatchRange rows, uint32_t layer, Backend *backend) {
    const Hparams *hparams = &step->engine->hparams;

    return (LayerRows){
        .hparams = hparams,
        .backend = backend,
        .batch = &step->batch,
        .rows = rows,
        .layer = layer,
        .kv = engine_kv_layer(step->engine, layer),
        .balance = weights_layer(step->engine->weights, layer)->balance,
        .slots = step->slots,
        .rope = hparams_layer_turns_locally(hparams, layer) ? &step->rope_local : &step->rope,
    };
}

/* --- fewer rows --------------------------------------------------------------------------------------------------- */

/* Moves all that a step has of row `from` to an earlier row. */
static void move_row(EngineStep *step, size_t to, size_t from) {
    const Hparams *hparams = &step->engine->hparams;
    const RopeRows *const ropes[] = { &step->rope, &step->rope_local };
    const size_t half = hparams->n_rot / 2;

    if (to == from)
        return;
    memcpy(step->slots[SLOT_X] + to * hparams->n_embd, step->slots[SLOT_X] + from * hparams->n_embd,
           hparams->n_embd * sizeof(float));
    for (size_t i = 0; i < ARRAY_LEN(ropes); i++) {
        memcpy(ropes[i]->cos + to * half, ropes[i]->cos + from * half, half * sizeof(float));
        memcpy(ropes[i]->sin + to * half, ropes[i]->sin + from * half, half * sizeof(float));
    }
    step->batch.tokens[to] = step->batch.tokens[from];
    step->batch.rows[to] = step->batch.rows[from];
}

size_t step_rows_find(const EngineStep *step, size_t at, size_t end, uint32_t number) {
    while (at < end && step->batch.rows[at].number != number)
        at++;
    return at;
}

/* Returns whether the step still has these rows of the span, and they rise, each behind the row that it follows. */
static bool can_keep(const EngineStep *step, size_t index, const uint16_t *rows, size_t n) {
    const EngineSpan *span = &step->spans[index];
    const BatchRange all = step->batch.sequences[index].rows;
    const size_t end = all.first + all.n;
    bool is_kept[ENGINE_TREE_ROWS_MAX] = { false };
    size_t at = all.first;

    if (!n || rows[0] || span->grows_tree) /* later steps refer to rows of an open tree by their numbers */
        return false;
    for (size_t i = 0; i < n; i++, at++) {
        at = step_rows_find(step, at, end, rows[i]);
        if (at == end || (span->parents ? i && !is_kept[span->parents[rows[i]]] : rows[i] != i))
            return false;
        if (span->parents)
            is_kept[rows[i]] = true;
    }
    return true;
}

/**
 * engine_step_keep() - drop all rows of a span but some
 * @rows: [n] numbers of the span as the caller gave it, rising, from row 0 on, each with the row that it follows
 *
 * Called between layers. Results of the rows that stay do not change, because none of them attends to a dropped one.
 * By default the step appends the leading chain of the rows that stay.
 *
 * Return: 0; -EINVAL: the rows are invalid, or of a tree that stays open, and nothing has changed.
 */
int engine_step_keep(EngineStep *step, size_t index, const uint16_t *rows, size_t n) {
    Batch *batch = &step->batch;
    BatchRange *all = &batch->sequences[index].rows;
    EngineSpan *span = &step->spans[index];
    const size_t first = all->first, end = first + all->n, n_gone = all->n - n;
    size_t n_chain = 0;

    assert(!step->in_layers && !step->node);
    if (!can_keep(step, index, rows, n))
        return -EINVAL;
    for (size_t i = 0, from = first; i < n; i++, from++) {
        from = step_rows_find(step, from, end, rows[i]);
        move_row(step, first + i, from);
        if (i && span->parents)
            batch->rows[first + i].parent =
                (uint32_t)step_rows_find(step, first, first + i, (uint32_t)span->parents[rows[i]]);
    }
    for (size_t row = end; row < batch->n_rows; row++) {
        move_row(step, row - n_gone, row);
        if (batch->rows[row - n_gone].parent < batch->n_rows) /* rows of earlier steps stay where they are */
            batch->rows[row - n_gone].parent -= (uint32_t)n_gone;
    }
    batch->n_rows -= n_gone;
    all->n = n;
    for (size_t i = index + 1; i < batch->n_sequences; i++)
        batch->sequences[i].rows.first -= n_gone;
    while (n_chain < n && n_chain < in_place(span) && rows[n_chain] == n_chain)
        n_chain++;
    span->n_kept = MIN(span->n_kept, n_chain);
    return 0;
}

/* --- what stays --------------------------------------------------------------------------------------------------- */

static bool is_path(const EngineSpan *span) {
    if (span->grows_tree)
        return !span->n_kept;
    if (!span->kept)
        return span->n_kept <= in_place(span);
    for (size_t i = 0; i < span->n_kept; i++)
        if (span->kept[i] >= span->n ||
            (i && span->parents ? span->parents[span->kept[i]] != (int)span->kept[i - 1] : span->kept[i] != i))
            return false;
    return true;
}

/* Moves kept rows that have a slot to their positions, which nobody else reads. */
static void move_kept(const Engine *engine, const EngineSpan *span) {
    const Sequence *sequence = span->sequence;
    const size_t n_in_place = in_place(span);
    KvMove moves[ENGINE_TREE_ROWS_MAX];
    size_t n = 0;

    for (size_t i = 0; span->kept && i < span->n_kept; i++)
        if (span->kept[i] >= n_in_place)
            moves[n++] = sequence_move(sequence, span->kept[i] - n_in_place, sequence->n_tokens + i);
    if (n)
        engine_move_rows(engine, moves, n);
}

void engine_step_commit(EngineStep *step) {
    for (size_t i = 0; i < step->n_spans; i++) {
        const EngineSpan *span = &step->spans[i];

        if (span->is_cancelled)
            continue;
        assert(is_path(span));
        if (span->grows_tree) {
            open_tree_grow(&span->sequence->tree, span->parents, span->n);
            continue;
        }
        move_kept(step->engine, span);
        span->sequence->n_tokens += span->n_kept;
    }
}
