// SPDX-License-Identifier: Apache-2.0
/* Inside of the layer reader: which layer is in which slot, and which piece of one is read next. Knows no file and no
 * thread. */
#ifndef COORDGEN_SCHEDULER_LAYER_SLOTS_H
#define COORDGEN_SCHEDULER_LAYER_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAYER_SLOTS_MAX 16
#define LAYER_SLOTS_NONE SIZE_MAX
/* What was waited for and is there is kept for so many calls for other layers. */
#define LAYER_SLOTS_STALE_ASKS 16

/* A layer of the circle. */
typedef struct SlotLayer {
    size_t n_pieces; /* 1.. */
    size_t slot;     /* LAYER_SLOTS_NONE: in none */
    uint64_t asked;  /* somebody waits for it, and has asked last then; 0: nobody */
    uint64_t since;  /* and has waited since then */
    uint64_t n_came; /* pieces, ever */
    bool has_failed; /* not read ahead until somebody asks for it */
} SlotLayer;

typedef struct LayerSlot {
    size_t layer;   /* LAYER_SLOTS_NONE: of nobody */
    size_t n_begun; /* pieces */
    size_t n_there;
    size_t n_under_way; /* of the layer, or of the one that was given up */
    size_t n_holds;
    bool was_held; /* since it is that layer's */
    int result;    /* of the piece that failed first, and which it is */
    size_t failed_piece;
    uint64_t ended; /* whole, or failed, since then */
} LayerSlot;

typedef struct LayerSlots {
    SlotLayer *layers; /* [n_layers] */
    size_t n_layers;
    LayerSlot slots[LAYER_SLOTS_MAX];
    size_t n_slots;
    size_t next;   /* layer that is expected to be asked for */
    uint64_t asks; /* so far: the clock of `asked` and its kin */
    uint64_t n_in_vain;
} LayerSlots;

/* The pieces of each layer are the caller's to set, before all else. 0, -ENOMEM. deinit of a zero struct does
 * nothing. */
int layer_slots_init(LayerSlots *slots, size_t n_layers, size_t n_slots);
void layer_slots_deinit(LayerSlots *slots);

/* Somebody asks for a layer: its slot when it is whole or has failed, or NULL: who asks waits for it, and the circle
 * goes on from it. */
LayerSlot *layer_slots_ask(LayerSlots *slots, size_t layer);
/* The slot of a layer that is whole or has failed; NULL. */
LayerSlot *layer_slots_ended(LayerSlots *slots, size_t layer);
/* Of what was asked for and is whole: it stays until as many releases. */
void layer_slots_hold(LayerSlots *slots, LayerSlot *slot);
void layer_slots_release(LayerSlots *slots, size_t layer);
/* Of what has failed, when that was told: it is read again when somebody asks for it. */
void layer_slots_told(LayerSlots *slots, LayerSlot *slot);

/* The piece to be read next, which counts as begun then; NULL: nothing is to be read. */
LayerSlot *layer_slots_begin(LayerSlots *slots, size_t *piecep);
/* A piece of the slot has come, or failed with `result`. */
void layer_slots_came(LayerSlots *slots, LayerSlot *slot, size_t piece, int result);

#endif
