// SPDX-License-Identifier: Apache-2.0
/* Passes of a draft model over rows of a tree, by an engine: what draft_timeline and self_draft share. */
#ifndef COORDGEN_ENGINE_DRAFT_PASS_H
#define COORDGEN_ENGINE_DRAFT_PASS_H

#include "engine/step/engine_step.h"
#include "spec/control/row_times.h"
#include "spec/sources/draft_model.h"

typedef struct DraftPass {
    Engine *engine;
    Sequence *sequence; /* whose open tree grows */
    float *logits;      /* scratch f32[n_vocab] of the engine */
    uint32_t n_tokens;  /* only ids below this are proposed, and nothing behind a row whose token is another one */
    RowTimes *times;    /* durations of passes, which run() is measured for */
    /* Computes a span; may put other tokens into it, for the call. Return: as engine_forward_spans(). */
    int (*run)(void *arg, EngineSpan *span);
    void *arg; /* of run */
} DraftPass;

/* Computes n rows more of the tree, 1..ENGINE_TREE_ROWS_MAX, in passes of at most a chunk of the engine. Return: 0, or
 * what run() answered. */
int draft_pass_rows(const DraftPass *pass, const DraftModelRow *rows, size_t n, DraftModelTops *tops);
/* Translates an answer of the engine into one of DraftModelOps. *offp is set to an answer that turns the model off. A
 * pass that was cancelled, or found no memory for a step (-EBUSY), turns nothing off. */
int draft_pass_ended(int r, int *offp);

#endif
