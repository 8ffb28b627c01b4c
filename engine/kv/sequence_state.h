// SPDX-License-Identifier: Apache-2.0
/* The fields of a sequence, and what a step does with them. Private to engine/. */
#ifndef COORDGEN_ENGINE_SEQUENCE_STATE_H
#define COORDGEN_ENGINE_SEQUENCE_STATE_H

#include "engine/core/engine_state.h"
#include "engine/kv/kv_page.h"
#include "engine/kv/sequence.h"

/* A tree that steps grow behind a sequence's positions. Row 0 is at the next position, row i + 1 in slot i of the side
 * block. */
typedef struct OpenTree {
    size_t n; /* rows; 0: no tree is open */
    int16_t parents[ENGINE_TREE_ROWS_MAX];
} OpenTree;

struct Sequence {
    Engine *engine;
    size_t n_tokens, capacity_tokens;
    size_t n_pages;                /* of capacity_tokens */
    KvPage **pages;                /* [n_pages] */
    void **blocks;                 /* [n_pages] memory of the pages, as BatchSequence has it */
    KvPage *side;                  /* block of tree rows that have slots; NULL before the first such tree */
    OpenTree tree;                 /* behind the positions */
    const _Atomic bool *cancelled; /* may be NULL */
    bool in_step;                  /* a step of the sequence has begun and not ended */
    LIST_HEAD(, Sequence) behind;  /* sequences that wait for positions of this one */
    bool is_waiting;               /* it has no positions until sequence_feed() */
    Sequence *first;               /* sequence that it waits for; NULL: none, or freed */
    size_t n_awaited;              /* positions that it waits for */
    LIST_ENTRY(Sequence) link;     /* in first->behind */
};

/* Evicts kept prefixes if that allows to charge so many bytes to the account. */
void engine_make_room(Engine *engine, AccountId id, uint64_t len_bytes);

/* Makes a sequence whose first n_tokens positions are those of the pages, which it shares. */
int sequence_new_after(Sequence **sequencep, Engine *engine, KvPage *const *pages, size_t n_tokens,
                       size_t capacity_tokens, ErrText *err);
/* Makes the pages of the next n positions the sequence's own. 0, ENGINE_E_MEMORY, -ENOMEM. */
int sequence_make_writable(Sequence *sequence, size_t n, ErrText *err);
/* Gives the sequence a side block until it is freed. 0, ENGINE_E_MEMORY, -ENOMEM. */
int sequence_make_side(Sequence *sequence, ErrText *err);
/* Returns where a layer's keys and values are in every page. */
KvLayer engine_kv_layer(const Engine *engine, uint32_t layer);
/* Returns the move of position `from` of the side block to position `to` of the sequence. */
KvMove sequence_move(const Sequence *sequence, size_t from, size_t to);
/* Copies keys and values along the moves, in all layers. */
void engine_move_rows(const Engine *engine, const KvMove *moves, size_t n);

/* Writes the tree with n rows more to parents. Return: rows of that tree; 0: there would be too many. */
size_t open_tree_with(const OpenTree *tree, const int16_t *more, size_t n, int16_t parents[ENGINE_TREE_ROWS_MAX]);
/* Adds n rows to the tree. */
void open_tree_grow(OpenTree *tree, const int16_t *more, size_t n);

#endif
