// SPDX-License-Identifier: Apache-2.0
/* Self-drafting: the first layers of a model, with its output head behind them, draft for the model. A draft model
 * (spec/sources/draft_model.h) by the generation's own engine, behind a text that the engine has computed already. */
#ifndef COORDGEN_ENGINE_SELF_DRAFT_H
#define COORDGEN_ENGINE_SELF_DRAFT_H

#include "engine/kv/sequence.h"
#include "spec/sources/draft_model.h"

/* Returns the number of layers that may draft: those in memory, if others are read in every step; 0: none. */
uint32_t self_draft_layers(const Engine *engine);
/* Returns the number of layers that draft beside the sources of a request (bits, 1 << SpeculationSource); 0: none.
 * Beside other sources two thirds of all layers are needed: fewer layers guess worse than those sources. */
uint32_t self_draft_layers_for(const Engine *engine, uint32_t sources);

/* Makes a draft model of the first n_layers (1 or more) of the sequence's model. The sequence and logits, scratch of
 * f32[n_vocab], outlive it. 0, -EINVAL (no such layers), -ENOMEM, with a text. */
int self_draft_new(DraftModel *modelp, Sequence *sequence, uint32_t n_layers, float *logits, ErrText *err);
void self_draft_free(DraftModel *model); /* sets ops to NULL; ops may be NULL */

#endif
