// SPDX-License-Identifier: Apache-2.0
/* Computes windows of a training set with the target and its draft model: a text, and the target's continuation. */
#ifndef COORDGEN_TRAIN_EXIT_COLLECT_H
#define COORDGEN_TRAIN_EXIT_COLLECT_H

#include "engine/draft/draft_pair.h"
#include "engine/engine.h"
#include "tools/train/exit_set.h"

/* Embedded in its owner; exit_collect_init() sets it. */
typedef struct ExitCollect {
    Engine *target, *draft;
    DraftPair *pair; /* engines outlive the pair, the pair outlives this struct */
    Sequence *target_text, *draft_text;
    float *logits; /* f32[n_vocab] of the larger vocabulary */
} ExitCollect;

/* Begins. Both engines need chunks of at least window_tokens. Return: 0, -errno or ENGINE_E_MEMORY, with a text. */
int exit_collect_init(ExitCollect *collect, Engine *target, Engine *draft, DraftPair *pair, uint32_t window_tokens,
                      ErrText *err);
void exit_collect_deinit(ExitCollect *collect);
/* Extends tokens[n_text] of text to tokens[n] by the target's greedy continuation. Return: 0, or -errno with a text. */
int exit_collect_say(ExitCollect *collect, uint32_t *tokens, size_t n_text, size_t n, ErrText *err);
/* Computes the window of these tokens. Return: 0, or -errno with a text. */
int exit_collect_window(ExitCollect *collect, const ExitSetShape *shape, const uint32_t *tokens, ExitWindow *window,
                        ErrText *err);

#endif
