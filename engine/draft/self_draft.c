// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/self_draft.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "engine/draft/draft_pass.h"
#include "engine/kv/sequence_state.h"
#include "engine/step/step_parts.h"
#include "spec/speculation_choice.h"

/* The sequence's steps have computed all layers of the text except for its last token, which is row 0 of the tree. Rows
 * of the tree have keys and values of the first layers only, at places that a verification overwrites: the position
 * behind the text, and the side block. Nobody else may see this tree, therefore it is the sequence's open tree only
 * while a pass runs. */
typedef struct SelfDraft {
    Sequence *sequence;
    uint32_t n_layers;
    float *logits; /* f32[n_vocab] */
    int off;       /* why the model is off: the answer of all calls; 0: it is on */
    OpenTree tree;
} SelfDraft;

uint32_t self_draft_layers(const Engine *engine) {
    const EngineInfo *info = engine_info(engine);

    return info->weights.n_streamed_layers ? info->n_layers - info->weights.n_streamed_layers : 0;
}

uint32_t self_draft_layers_for(const Engine *engine, uint32_t sources) {
    const uint32_t n_layers = self_draft_layers(engine);
    const bool is_alone = sources == 1u << SPECULATION_MODEL;

    return is_alone || 3 * n_layers >= 2 * engine_info(engine)->n_layers ? n_layers : 0;
}

/* See DraftModelOps. The text must be the sequence's tokens and one more. */
static int self_follow(void *self, const uint32_t *text, size_t n) {
    SelfDraft *draft = self;

    if (draft->off)
        return draft->off;
    if (n != sequence_n_tokens(draft->sequence) + 1)
        return draft_pass_ended(-EINVAL, &draft->off);
    draft->tree.n = 0;
    return 0;
}

/* --- the tree ----------------------------------------------------------------------------------------------------- */

/* Computes the span by the first layers and the head, as engine_forward_spans() does by all layers. */
static int run_layers(const SelfDraft *draft, EngineSpan *span) {
    Engine *engine = draft->sequence->engine;
    EngineStep *step = NULL;
    int r = engine_step_begin(&step, engine, span, 1, NULL);

    if (r)
        return r;
    r = engine_check_whole(engine, NULL);
    if (!r)
        r = engine_step_layers(step, draft->n_layers, NULL, NULL);
    if (!r)
        r = engine_step_heads(step, NULL);
    if (!r) /* pages of a cut file read as zeros */
        r = engine_check_whole(engine, NULL);
    if (!r)
        engine_step_commit(step);
    engine_step_drop(step);
    return r;
}

/* Computes a pass, for DraftPass. */
static int self_run(void *self, EngineSpan *span) {
    SelfDraft *draft = self;
    int r;

    draft->sequence->tree = draft->tree;
    r = run_layers(draft, span);
    draft->tree = draft->sequence->tree;
    draft->sequence->tree.n = 0;
    return r;
}

/* See DraftModelOps. Rows of the embedding behind the tokenizer's table are padding, and never proposed. */
static int self_expand(void *self, const DraftModelRow *rows, size_t n, DraftModelTops *tops) {
    SelfDraft *draft = self;
    Engine *engine = draft->sequence->engine;
    const DraftPass pass = {
        .engine = engine,
        .sequence = draft->sequence,
        .logits = draft->logits,
        .n_tokens = tokenizer_n_tokens(engine_tokenizer(engine)),
        .times = &engine->speculation.self_times,
        .run = self_run,
        .arg = draft,
    };

    if (draft->off)
        return draft->off;
    if (!n || n > ENGINE_TREE_ROWS_MAX - draft->tree.n || draft->sequence->tree.n)
        return draft_pass_ended(-EINVAL, &draft->off);
    return draft_pass_ended(draft_pass_rows(&pass, rows, n, tops), &draft->off);
}

static float self_cost_ms(const void *self, uint32_t n_rows) {
    const SelfDraft *draft = self;

    return row_times_ms(&draft->sequence->engine->speculation.self_times, n_rows);
}

static const DraftModelOps self_ops = {
    .follow = self_follow,
    .expand = self_expand,
    .cost_ms = self_cost_ms,
    .rows_max = ENGINE_TREE_ROWS_MAX,
    .has_text = true,
};

/**
 * self_draft_new() - use the first layers of a sequence's model as a draft model for its text
 * @n_layers: 1 to all layers; those that are not in memory are read in every pass
 * @logits:   scratch f32[n_vocab], overwritten in every pass
 *
 * The first layers use the sequence's own keys and values. The head behind a middle layer guesses poorly (the logit
 * lens); its caller measures what it costs and brings. No step of the sequence may run between follow() and the last
 * expand() behind it. The sequence's flag cancels passes (sequence_set_cancel()). Thread: the one that computes, for
 * all calls. Calls of the model answer what draft_model.h says, -EIO if weights could not be read, -EBUSY without
 * memory for a step, -EINVAL for invalid rows and for a text that is not the sequence's.
 */
int self_draft_new(DraftModel *modelp, Sequence *sequence, uint32_t n_layers, float *logits, ErrText *err) {
    const uint32_t most = engine_info(sequence->engine)->n_layers;
    SelfDraft *draft;

    if (!n_layers || n_layers > most)
        return err_set(err, -EINVAL, "%u layers cannot draft for their model, which has %u", n_layers, most);
    draft = calloc(1, sizeof(*draft));
    if (!draft)
        return err_no_memory(err);
    *draft = (SelfDraft){ .sequence = sequence, .n_layers = n_layers, .logits = logits };
    *modelp = (DraftModel){ .ops = &self_ops, .self = draft };
    return 0;
}

void self_draft_free(DraftModel *model) {
    if (model->ops)
        free(model->self);
    *model = (DraftModel){ 0 };
}
