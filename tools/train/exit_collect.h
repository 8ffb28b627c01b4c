// SPDX-License-Identifier: Apache-2.0
/* Windows of a training set, by the target and its draft model: text, and what the target says behind it. */
#ifndef COORDGEN_TRAIN_EXIT_COLLECT_H
#define COORDGEN_TRAIN_EXIT_COLLECT_H

#include "engine/draft/draft_pair.h"
#include "engine/engine.h"
#include "tools/train/exit_set.h"

/* Embedded; by exit_collect_init(). */
typedef struct ExitCollect {
    Engine *target, *draft;
    DraftPair *pair; /* the engines outlive it, as it does this */
    Sequence *target_text, *draft_text;
    float *logits; /* f32[n_vocab] of the larger one */
} ExitCollect;

/* Both engines have chunks of window_tokens at least. 0, -errno, ENGINE_E_MEMORY, with a text. */
int exit_collect_init(ExitCollect *collect, Engine *target, Engine *draft, DraftPair *pair, uint32_t window_tokens,
                      ErrText *err);
void exit_collect_deinit(ExitCollect *collect);
/* tokens[n_text] of text become tokens[n]: the target goes on, greedily. 0, -errno, with a text. */
int exit_collect_say(ExitCollect *collect, uint32_t *tokens, size_t n_text, size_t n, ErrText *err);
/* Likewise: the window of these tokens. */
int exit_collect_window(ExitCollect *collect, const ExitSetShape *shape, const uint32_t *tokens, ExitWindow *window,
                        ErrText *err);

#endif
