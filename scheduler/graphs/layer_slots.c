// SPDX-License-Identifier: Apache-2.0
/*
 * Layers are used in a circle. `next` is the layer that is expected to be asked for. A layer is needed the later, the
 * farther it lies behind `next`; the layer that was used last is needed last. A layer that is in no slot gets an empty
 * slot, or that of a layer needed later. A slot that is released therefore gets the first layer of the circle that is
 * in no slot, and with a slot for every layer no layer ever gives way.
 *
 * A call for another layer than `next` turns the circle there. A step that made way asks where it had stopped, and the
 * other step where it goes on. Layers that somebody waits for are kept, or the two would take each other's half-read
 * layers away for ever. Such layers are read before all that is read ahead, the last one asked for first, and get slots
 * in the order in which they were first asked for. If such a layer is whole, and LAYER_SLOTS_STALE_ASKS calls have been
 * for others, whoever wanted it was cancelled or makes way for long, and the layer is kept no longer.
 */
#include "scheduler/graphs/layer_slots.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"

int layer_slots_init(LayerSlots *slots, size_t n_layers, size_t n_slots) {
    assert(n_layers && n_slots && n_slots <= LAYER_SLOTS_MAX);
    memset(slots, 0, sizeof(*slots));
    slots->layers = calloc(n_layers, sizeof(slots->layers[0]));
    if (!slots->layers)
        return -ENOMEM;
    slots->n_layers = n_layers;
    slots->n_slots = n_slots;
    for (size_t i = 0; i < n_layers; i++)
        slots->layers[i].slot = LAYER_SLOTS_NONE;
    for (size_t i = 0; i < n_slots; i++)
        slots->slots[i].layer = LAYER_SLOTS_NONE;
    return 0;
}

void layer_slots_deinit(LayerSlots *slots) {
    free(slots->layers);
    slots->layers = NULL;
}

/* --- slots -------------------------------------------------------------------------------------------------------- */

static size_t distance(const LayerSlots *slots, size_t layer) {
    return (layer + slots->n_layers - slots->next) % slots->n_layers;
}

static bool has_ended(const LayerSlots *slots, const LayerSlot *slot) {
    return slot->result || slot->n_there == slots->layers[slot->layer].n_pieces;
}

static bool is_stale(const LayerSlots *slots, const SlotLayer *layer, uint64_t since) {
    return slots->asks - MAX(layer->asked, since) > LAYER_SLOTS_STALE_ASKS;
}

static bool is_kept(const LayerSlots *slots, const LayerSlot *slot) {
    const SlotLayer *layer = &slots->layers[slot->layer];

    return slot->n_holds || (layer->asked && !(has_ended(slots, slot) && is_stale(slots, layer, slot->ended)));
}

/* Empties a slot. Reads that are under way into it must end before another layer has it. */
static void give_up(LayerSlots *slots, LayerSlot *slot) {
    SlotLayer *layer = &slots->layers[slot->layer];

    assert(!slot->n_holds);
    slots->n_in_vain += !slot->result && !slot->was_held && slot->n_there == layer->n_pieces;
    layer->slot = LAYER_SLOTS_NONE;
    layer->asked = 0;
    *slot = (LayerSlot){ .layer = LAYER_SLOTS_NONE, .n_under_way = slot->n_under_way };
}

/* Gives a layer an empty slot, or that of a layer that is needed later. false: none can be had now. */
static bool give_slot(LayerSlots *slots, size_t index) {
    SlotLayer *layer = &slots->layers[index];
    LayerSlot *found = NULL;

    for (size_t i = 0; i < slots->n_slots; i++) {
        LayerSlot *slot = &slots->slots[i];

        if (slot->layer == LAYER_SLOTS_NONE) {
            found = slot;
            if (!slot->n_under_way)
                break;
        } else if (!(found && found->layer == LAYER_SLOTS_NONE) && !is_kept(slots, slot) &&
                   (layer->asked || distance(slots, slot->layer) > distance(slots, index)) &&
                   (!found || distance(slots, slot->layer) > distance(slots, found->layer))) {
            found = slot;
        }
    }
    if (!found)
        return false;
    if (found->layer != LAYER_SLOTS_NONE)
        give_up(slots, found);
    if (found->n_under_way)
        return false;
    *found = (LayerSlot){ .layer = index };
    layer->slot = (size_t)(found - slots->slots);
    return true;
}

/* Returns the layer that was asked for first, of those that are waited for and in no slot. */
static size_t first_without(LayerSlots *slots) {
    size_t first = LAYER_SLOTS_NONE;

    for (size_t i = 0; i < slots->n_layers; i++) {
        SlotLayer *layer = &slots->layers[i];

        if (!layer->asked || layer->slot != LAYER_SLOTS_NONE)
            continue;
        if (is_stale(slots, layer, 0))
            layer->asked = 0;
        else if (first == LAYER_SLOTS_NONE || layer->since < slots->layers[first].since)
            first = i;
    }
    return first;
}

/* Gives slots to layers that need one. false: a layer that is waited for gets a slot when reads into it have ended. */
static bool give_slots(LayerSlots *slots) {
    size_t index;

    while ((index = first_without(slots)) != LAYER_SLOTS_NONE)
        if (!give_slot(slots, index))
            break;
    for (size_t i = 0; index != LAYER_SLOTS_NONE && i < slots->n_slots; i++)
        if (slots->slots[i].layer == LAYER_SLOTS_NONE)
            return false;
    for (size_t i = 0; index == LAYER_SLOTS_NONE && i < slots->n_layers; i++) {
        const size_t ahead = (slots->next + i) % slots->n_layers;
        const SlotLayer *layer = &slots->layers[ahead];

        if (layer->slot == LAYER_SLOTS_NONE && !layer->has_failed && !give_slot(slots, ahead))
            break;
    }
    return true;
}

/* --- use ---------------------------------------------------------------------------------------------------------- */

LayerSlot *layer_slots_ended(LayerSlots *slots, size_t layer) {
    const size_t slot = slots->layers[layer].slot;

    return slot != LAYER_SLOTS_NONE && has_ended(slots, &slots->slots[slot]) ? &slots->slots[slot] : NULL;
}

LayerSlot *layer_slots_ask(LayerSlots *slots, size_t index) {
    SlotLayer *layer = &slots->layers[index];
    LayerSlot *slot = layer_slots_ended(slots, index);

    slots->asks++;
    if (slot)
        return slot;
    if (!layer->asked)
        layer->since = slots->asks;
    layer->asked = slots->asks;
    layer->has_failed = false;
    slots->next = index;
    return NULL;
}

void layer_slots_hold(LayerSlots *slots, LayerSlot *slot) {
    assert(has_ended(slots, slot) && !slot->result);
    slot->n_holds++;
    slot->was_held = true;
    slots->layers[slot->layer].asked = 0;
    slots->next = (slot->layer + 1) % slots->n_layers;
}

void layer_slots_release(LayerSlots *slots, size_t layer) {
    const size_t slot = slots->layers[layer].slot;

    assert(slot != LAYER_SLOTS_NONE && slots->slots[slot].n_holds);
    slots->slots[slot].n_holds--;
}

void layer_slots_told(LayerSlots *slots, LayerSlot *slot) {
    assert(slot->result);
    slots->layers[slot->layer].has_failed = true;
    slots->next = slot->layer;
    give_up(slots, slot);
}

/* --- reads -------------------------------------------------------------------------------------------------------- */

/* Whether a layer's pieces go before those of another: first what was asked for last, then by the circle. */
static bool goes_before(const LayerSlots *slots, size_t a, size_t b) {
    const uint64_t asked_a = slots->layers[a].asked, asked_b = slots->layers[b].asked;

    return asked_a != asked_b ? asked_a > asked_b : distance(slots, a) < distance(slots, b);
}

LayerSlot *layer_slots_begin(LayerSlots *slots, size_t *piecep) {
    LayerSlot *first = NULL;

    if (!give_slots(slots))
        return NULL; /* other reads would delay that layer */
    for (size_t i = 0; i < slots->n_slots; i++) {
        LayerSlot *slot = &slots->slots[i];

        if (slot->layer != LAYER_SLOTS_NONE && !slot->result && slot->n_begun < slots->layers[slot->layer].n_pieces &&
            (!first || goes_before(slots, slot->layer, first->layer)))
            first = slot;
    }
    if (!first)
        return NULL;
    first->n_under_way++;
    *piecep = first->n_begun++;
    return first;
}

void layer_slots_came(LayerSlots *slots, LayerSlot *slot, size_t piece, int result) {
    assert(slot->n_under_way);
    slot->n_under_way--;
    if (slot->layer == LAYER_SLOTS_NONE || slot->result)
        return;
    if (result) {
        slot->result = result;
        slot->failed_piece = piece;
    } else {
        slot->n_there++;
        slots->layers[slot->layer].n_came++;
    }
    if (has_ended(slots, slot))
        slot->ended = slots->asks;
}
