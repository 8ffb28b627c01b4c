// SPDX-License-Identifier: Apache-2.0
/* Decides which layer of a model is in which slot of a ring, and which piece of a layer is read next. Knows no file and
 * no thread: the layer reader (weights/ring/layer_reader) carries it out. */
#ifndef COORDGEN_SCHEDULER_LAYER_SLOTS_H
#define COORDGEN_SCHEDULER_LAYER_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAYER_SLOTS_MAX 16
#define LAYER_SLOTS_NONE SIZE_MAX
/* A layer that was waited for and is whole is kept for so many calls for other layers. */
#define LAYER_SLOTS_STALE_ASKS 16

/* A layer of the circle. */
typedef struct SlotLayer {
    size_t n_pieces; /* 1.. */
    size_t slot;     /* LAYER_SLOTS_NONE: in none */
    uint64_t asked;  /* time of the last call for it, on the clock of LayerSlots.asks; 0: nobody waits for it */
    uint64_t since;  /* time of the first of these calls */
    uint64_t n_came; /* pieces that have ever come */
    bool has_failed; /* the layer is not read ahead until somebody asks for it */
} SlotLayer;

typedef struct LayerSlot {
    size_t layer;       /* LAYER_SLOTS_NONE: the slot is empty */
    size_t n_begun;     /* pieces whose reads have begun */
    size_t n_there;     /* pieces that have come */
    size_t n_under_way; /* reads of the layer, or of the one that was given up */
    size_t n_holds;
    bool was_held;       /* since the slot has this layer */
    int result;          /* of the piece that failed first; 0: none has */
    size_t failed_piece; /* which piece that is */
    uint64_t ended;      /* time when the layer became whole, or failed */
} LayerSlot;

typedef struct LayerSlots {
    SlotLayer *layers; /* [n_layers] */
    size_t n_layers;
    LayerSlot slots[LAYER_SLOTS_MAX];
    size_t n_slots;
    size_t next;   /* layer that is expected to be asked for */
    uint64_t asks; /* number of calls so far: the clock of `asked`, `since` and `ended` */
    uint64_t n_in_vain;
} LayerSlots;

/* Makes n_slots empty slots. The caller then sets n_pieces of each layer. 0, -ENOMEM. deinit of a zero struct does
 * nothing. */
int layer_slots_init(LayerSlots *slots, size_t n_layers, size_t n_slots);
void layer_slots_deinit(LayerSlots *slots);

/* Asks for a layer. Returns its slot if the layer is whole or has failed. NULL: the caller waits for the layer, and the
 * circle goes on from it. */
LayerSlot *layer_slots_ask(LayerSlots *slots, size_t layer);
/* Returns the slot of a layer that is whole or has failed; else NULL. */
LayerSlot *layer_slots_ended(LayerSlots *slots, size_t layer);
/* Holds a layer that was asked for and is whole. It stays until as many releases. */
void layer_slots_hold(LayerSlots *slots, LayerSlot *slot);
void layer_slots_release(LayerSlots *slots, size_t layer);
/* Gives up a layer whose failure was told. It is read again when somebody asks for it. */
void layer_slots_told(LayerSlots *slots, LayerSlot *slot);

/* Returns the piece to be read next, and counts its read as begun. NULL: nothing is to be read. */
LayerSlot *layer_slots_begin(LayerSlots *slots, size_t *piecep);
/* Records that a piece of the slot has come, or failed with `result`. */
void layer_slots_came(LayerSlots *slots, LayerSlot *slot, size_t piece, int result);

#endif
