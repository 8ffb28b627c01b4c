// SPDX-License-Identifier: Apache-2.0
/* Sequences: timelines of positions with their keys and values, in pages that sequences and the prefix cache share. */
#ifndef COORDGEN_ENGINE_SEQUENCE_H
#define COORDGEN_ENGINE_SEQUENCE_H

#include "backends/batch.h"
#include "base/cleanup.h"
#include "engine/core/engine_core.h"
#include "engine/kv/prefix_cache.h"

#define ENGINE_TREE_ROWS_MAX (BATCH_SLOTS_MAX + 1)

typedef struct Sequence Sequence;

/* Returns bytes on the account kv of a sequence with so many positions. */
uint64_t engine_kv_bytes(const Engine *engine, size_t capacity_tokens);
/* Returns bytes on the account kv of the pages that n_tokens positions fill. */
uint64_t engine_kv_full_bytes(const Engine *engine, size_t n_tokens);
/* Returns bytes on the account kv that a sequence takes more from its first tree with branches on. */
uint64_t engine_kv_tree_bytes(const Engine *engine);

/* Makes an empty sequence with room for capacity_tokens positions (1..n_context), reserved on the account kv. 0,
 * ENGINE_E_CONTEXT, ENGINE_E_MEMORY, -ENOMEM, with a text. Thread: the one that computes, for all of these. */
int sequence_new(Sequence **sequencep, Engine *engine, size_t capacity_tokens, ErrText *err);
/* Makes a sequence that begins with what is kept of the prompt for this user; outcomep: why not with more. */
int sequence_new_for(Sequence **sequencep, Engine *engine, const uint32_t *prompt, size_t n_prompt, uint64_t user,
                     bool of_session, size_t capacity_tokens, PrefixOutcome *outcomep, ErrText *err);
/* Makes a sequence that will begin with the first n_shared positions of another one, which does not have all of them
 * yet. Its pages are reserved now, except those that it will share. Until sequence_feed() it waits, and has no
 * positions. */
int sequence_new_behind(Sequence **sequencep, Sequence *first, size_t n_shared, size_t capacity_tokens, ErrText *err);
bool sequence_is_waiting(const Sequence *sequence);
/* Gives the sequences behind this one their positions, which it must have by now. They wait no more. */
void sequence_feed(Sequence *first);
/* Keeps the sequence's positions, which have these tokens, for later prompts of the user. Unless the sequence grows, an
 * open tree ends. */
void sequence_keep(Sequence *sequence, const uint32_t *tokens, uint64_t user, bool grows, PrefixPin *pin);
Sequence *sequence_free(Sequence *sequence);
DEFINE_CLEANUP(Sequence, sequence_free)
size_t sequence_n_tokens(const Sequence *sequence);
/* Forgets the positions from n_tokens on (at most those that the sequence has), and an open tree. */
void sequence_rewind(Sequence *sequence, size_t n_tokens);
/* Sets the flag that steps read before every operator; NULL: none. The flag outlives the sequence. */
void sequence_set_cancel(Sequence *sequence, const _Atomic bool *cancelled);
/* Ends the open tree: rows[n], a way down from row 0, become the next positions; n is 0: no row does. Return: 0;
 * -EINVAL: there is no such way, and nothing has changed. */
int sequence_close_tree(Sequence *sequence, const uint16_t *rows, size_t n);

#endif
