// SPDX-License-Identifier: Apache-2.0
/* A draft model beside one generation: its own timeline of the text, and the tree behind it that it computes pass by
 * pass. What spec/sources/draft_model.h wants, by an engine. */
#ifndef COORDGEN_ENGINE_DRAFT_TIMELINE_H
#define COORDGEN_ENGINE_DRAFT_TIMELINE_H

#include <stdatomic.h>

#include "engine/draft/draft_pair.h"
#include "spec/sources/draft_model.h"

/* For a text of capacity_tokens at most, or as many as the draft's context has; reserved from the kv account. Outlives
 * no pair. 0, DRAFT_PAIR_E_MEMORY, -EINVAL (no capacity), -ENOMEM, with a text. */
int draft_timeline_new(DraftModel *modelp, DraftPair *pair, size_t capacity_tokens, ErrText *err);
void draft_timeline_free(DraftModel *model); /* ops becomes NULL; there may be none */
/* Of the kv account; 0: there is none, or it is off. */
uint64_t draft_timeline_kv_bytes(const DraftModel *model);
/* Looked at before every operator of the draft's passes, which end with -ECANCELED then; NULL: none. Outlives the
 * model. */
void draft_timeline_set_cancel(const DraftModel *model, const _Atomic bool *cancelled);

#endif
