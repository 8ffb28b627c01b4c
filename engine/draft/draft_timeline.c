// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/draft_timeline.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/account_refusal.h"
#include "base/min_max.h"
#include "engine/draft/draft_pass.h"
#include "engine/kv/sequence_state.h"

typedef struct DraftTimeline {
    DraftPair *pair;
    Sequence *sequence; /* NULL: the model is off */
    int off;            /* why the model is off: the answer of all calls; 0: it is on */
    size_t capacity_tokens;
    uint32_t *tokens; /* [capacity_tokens] tokens of the sequence's positions */
    uint32_t n_tree;  /* rows of the sequence's open tree */
    uint32_t tree_tokens[ENGINE_TREE_ROWS_MAX];
    int16_t tree_parents[ENGINE_TREE_ROWS_MAX];
    Bill bill;
} DraftTimeline;

/* --- life --------------------------------------------------------------------------------------------------------- */

static void timeline_free(DraftTimeline *timeline) {
    sequence_free(timeline->sequence);
    bill_settle(&timeline->bill);
    free(timeline->tokens);
    free(timeline);
}
DEFINE_CLEANUP(DraftTimeline, timeline_free)

/* Translates an answer of the engine, and frees the memory of a model that is off after it. */
static int ended(DraftTimeline *timeline, int r) {
    r = draft_pass_ended(r, &timeline->off);
    if (timeline->off) {
        timeline->sequence = sequence_free(timeline->sequence);
        timeline->n_tree = 0;
    }
    return r;
}

/* --- the text ----------------------------------------------------------------------------------------------------- */

/* Returns how many positions of the sequence have the text's tokens. */
static size_t n_same(const DraftTimeline *timeline, const uint32_t *text, size_t n) {
    const size_t n_done = sequence_n_tokens(timeline->sequence);
    size_t same = 0;

    while (same < n_done && same < n && timeline->tokens[same] == text[same])
        same++;
    return same;
}

static int child_of(const DraftTimeline *timeline, int row, uint32_t token) {
    for (uint32_t i = (uint32_t)(row + 1); i < timeline->n_tree; i++)
        if (timeline->tree_parents[i] == row && timeline->tree_tokens[i] == token)
            return (int)i;
    return -1;
}

/* Ends the open tree; rows along which the text's first n tokens go on become positions. */
static int close_tree(DraftTimeline *timeline, const uint32_t *text, size_t n) {
    const size_t n_done = sequence_n_tokens(timeline->sequence);
    uint16_t way[ENGINE_TREE_ROWS_MAX];
    size_t n_way = 0;

    for (int row = -1; n_done + n_way < n; way[n_way++] = (uint16_t)row) {
        row = child_of(timeline, row, text[n_done + n_way]);
        if (row < 0)
            break;
    }
    memcpy(timeline->tokens + n_done, text + n_done, n_way * sizeof(*text));
    timeline->n_tree = 0;
    return sequence_close_tree(timeline->sequence, way, n_way);
}

/* Writes n tokens as the draft reads them: a target with a longer table has tokens of its own. */
static void make_readable(const DraftPair *pair, const uint32_t *tokens, size_t n, uint32_t *readable) {
    for (size_t i = 0; i < n; i++)
        readable[i] = tokens[i] < pair->n_tokens ? tokens[i] : pair->stand_in;
}

/* Computes the text up to its n-th token, in chunks of the engine. The draft reads the stand-in for tokens that it does
 * not have. */
static int append(DraftTimeline *timeline, const uint32_t *text, size_t n) {
    Engine *engine = timeline->pair->engine;

    for (size_t at = sequence_n_tokens(timeline->sequence), step; at < n; at += step) {
        int r;

        step = MIN(n - at, engine_chunk_tokens(engine));
        make_readable(timeline->pair, text + at, step, timeline->tokens + at);
        r = engine_forward(engine, timeline->sequence, timeline->tokens + at, step, 0, NULL, NULL);
        if (r)
            return r;
        memcpy(timeline->tokens + at, text + at, step * sizeof(*text));
    }
    return 0;
}

/* See DraftModelOps. Time O(n) for the comparison, which is a fraction of a microsecond a thousand tokens. */
static int timeline_follow(void *self, const uint32_t *text, size_t n) {
    DraftTimeline *timeline = self;
    size_t same;
    int r;

    if (timeline->off)
        return timeline->off;
    if (!n)
        return ended(timeline, -EINVAL);
    if (n > timeline->capacity_tokens)
        return ended(timeline, ENGINE_E_CONTEXT);
    same = n_same(timeline, text, n - 1);
    if (same < sequence_n_tokens(timeline->sequence)) {
        sequence_rewind(timeline->sequence, same);
        timeline->n_tree = 0;
    }
    r = close_tree(timeline, text, n - 1);
    if (!r)
        r = append(timeline, text, n - 1);
    return ended(timeline, r);
}

/* --- the tree ----------------------------------------------------------------------------------------------------- */

/* Computes a pass, for DraftPass. */
static int timeline_run(void *self, EngineSpan *span) {
    DraftTimeline *timeline = self;
    uint32_t readable[ENGINE_TREE_ROWS_MAX];
    int r;

    memcpy(timeline->tree_tokens + timeline->n_tree, span->tokens, span->n * sizeof(*span->tokens));
    memcpy(timeline->tree_parents + timeline->n_tree, span->parents, span->n * sizeof(*span->parents));
    make_readable(timeline->pair, span->tokens, span->n, readable);
    span->tokens = readable;
    r = engine_forward_spans(timeline->pair->engine, span, 1, NULL);
    if (!r)
        timeline->n_tree += (uint32_t)span->n;
    return r;
}

/* See DraftModelOps. No token is proposed that the two models do not share, and none behind a token that the draft
 * cannot read: drafting goes on when the text does. */
static int timeline_expand(void *self, const DraftModelRow *rows, size_t n, DraftModelTops *tops) {
    DraftTimeline *timeline = self;
    DraftPair *pair = timeline->pair;
    const DraftPass pass = {
        .engine = pair->engine,
        .sequence = timeline->sequence,
        .logits = pair->logits.data,
        .n_tokens = pair->n_tokens,
        .times = &pair->times,
        .run = timeline_run,
        .arg = timeline,
    };

    if (timeline->off)
        return timeline->off;
    if (!n || n > ENGINE_TREE_ROWS_MAX - timeline->n_tree)
        return ended(timeline, -EINVAL);
    return ended(timeline, draft_pass_rows(&pass, rows, n, tops));
}

static float timeline_cost_ms(const void *self, uint32_t n_rows) {
    const DraftTimeline *timeline = self;

    return row_times_ms(&timeline->pair->times, n_rows);
}

static const DraftModelOps timeline_ops = {
    .follow = timeline_follow,
    .expand = timeline_expand,
    .cost_ms = timeline_cost_ms,
    .rows_max = ENGINE_TREE_ROWS_MAX,
};

/**
 * draft_timeline_new() - a draft model for one generation
 * @capacity_tokens: tokens of its text; the last rows of a tree need room there, too
 *
 * Thread: the one that computes, for all calls. Calls of the model answer what draft_model.h says, -EIO if weights
 * could not be read, -EINVAL for invalid rows.
 */
int draft_timeline_new(DraftModel *modelp, DraftPair *pair, size_t capacity_tokens, ErrText *err) {
    Engine *engine = pair->engine;
    const size_t n_context = engine_info(engine)->n_context;
    _cleanup_(timeline_freep) DraftTimeline *timeline = NULL;
    size_t tokens_bytes;
    int r;

    if (!capacity_tokens)
        return err_set(err, -EINVAL, "a draft model for no token");
    timeline = calloc(1, sizeof(*timeline));
    if (!timeline)
        return err_no_memory(err);
    timeline->pair = pair;
    timeline->capacity_tokens = MIN(capacity_tokens, n_context);
    tokens_bytes = timeline->capacity_tokens * sizeof(*timeline->tokens);
    engine_make_room(engine, ACCOUNT_ACTIVATIONS, tokens_bytes);
    r = account_charge(engine_accounts(engine), ACCOUNT_ACTIVATIONS, &timeline->bill, tokens_bytes);
    if (r)
        return account_refused(err, DRAFT_PAIR_E_MEMORY, r, engine_accounts(engine), ACCOUNT_ACTIVATIONS, tokens_bytes,
                               "the state of a draft model");
    timeline->tokens = malloc(tokens_bytes);
    if (!timeline->tokens)
        return err_no_memory(err);
    r = sequence_new(&timeline->sequence, engine, timeline->capacity_tokens, err);
    if (r)
        return r == ENGINE_E_MEMORY ? DRAFT_PAIR_E_MEMORY : r > 0 ? err_fold(r) : r;
    *modelp = (DraftModel){ .ops = &timeline_ops, .self = steal(&timeline) };
    return 0;
}

void draft_timeline_free(DraftModel *model) {
    if (model->ops)
        timeline_free(model->self);
    *model = (DraftModel){ 0 };
}

uint64_t draft_timeline_kv_bytes(const DraftModel *model) {
    const DraftTimeline *timeline = model->self;

    if (!model->ops || !timeline->sequence)
        return 0;
    return engine_kv_bytes(timeline->pair->engine, timeline->capacity_tokens) +
           engine_kv_tree_bytes(timeline->pair->engine);
}

void draft_timeline_set_cancel(const DraftModel *model, const _Atomic bool *cancelled) {
    const DraftTimeline *timeline = model->self;

    assert(model->ops == &timeline_ops);
    if (timeline->sequence)
        sequence_set_cancel(timeline->sequence, cancelled);
}
