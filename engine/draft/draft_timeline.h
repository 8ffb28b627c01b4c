// SPDX-License-Identifier: Apache-2.0
/* A draft model of one generation (spec/sources/draft_model.h), by an engine of its own: the draft's timeline of the
 * text, and the tree behind the text that it computes pass by pass. */
#ifndef COORDGEN_ENGINE_DRAFT_TIMELINE_H
#define COORDGEN_ENGINE_DRAFT_TIMELINE_H

#include <stdatomic.h>

#include "engine/draft/draft_pair.h"
#include "spec/sources/draft_model.h"

/* Makes a draft model for a text of at most capacity_tokens, or of the draft's context if that is shorter; reserved on
 * the account kv. The pair outlives it. 0, DRAFT_PAIR_E_MEMORY, -EINVAL (no capacity), -ENOMEM, with a text. */
int draft_timeline_new(DraftModel *modelp, DraftPair *pair, size_t capacity_tokens, ErrText *err);
void draft_timeline_free(DraftModel *model); /* sets ops to NULL; ops may be NULL */
/* Returns its bytes on the account kv; 0: there is no model, or it is off. */
uint64_t draft_timeline_kv_bytes(const DraftModel *model);
/* Sets the flag that the draft's passes read before every operator, to end with -ECANCELED; NULL: none. The flag
 * outlives the model. */
void draft_timeline_set_cancel(const DraftModel *model, const _Atomic bool *cancelled);

#endif
