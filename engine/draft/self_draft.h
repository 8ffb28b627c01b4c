// SPDX-License-Identifier: Apache-2.0
/* A model that drafts for itself: its first layers and the output head behind them, at rows of the tree behind a text
 * that it has computed already. What spec/sources/draft_model.h wants, by the generation's own engine. */
#ifndef COORDGEN_ENGINE_SELF_DRAFT_H
#define COORDGEN_ENGINE_SELF_DRAFT_H

#include "engine/kv/sequence.h"
#include "spec/sources/draft_model.h"

/* Layers of the model that are worth it: those in memory, where others are read in every step; 0: none. */
uint32_t self_draft_layers(const Engine *engine);
/* Those that draft beside the sources of a request (bits, 1 << SpeculationSource). A trial beside others pays from two
 * thirds of all layers on: a layer further from the last one guesses less than the text at hand has. 0: none. */
uint32_t self_draft_layers_for(const Engine *engine, uint32_t sources);

/* By the first n_layers (1 or more) of the sequence's model. Sequence and logits, f32[n_vocab] for anything, outlive
 * it. 0, -EINVAL (no such layers), -ENOMEM, with a text. */
int self_draft_new(DraftModel *modelp, Sequence *sequence, uint32_t n_layers, float *logits, ErrText *err);
void self_draft_free(DraftModel *model); /* ops becomes NULL; there may be none */

#endif
