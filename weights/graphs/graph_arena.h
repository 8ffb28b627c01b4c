// SPDX-License-Identifier: Apache-2.0
/* The bounded memory of a device's graphs: slots of one block each, on the account of graphs. The arena never exceeds
 * its limit, which is checked whenever a slot is taken. */
#ifndef COORDGEN_WEIGHTS_GRAPH_ARENA_H
#define COORDGEN_WEIGHTS_GRAPH_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/account.h"
#include "base/memory/page_populator.h"

#define GRAPH_SLOTS_MAX 128
#define GRAPH_SLOT_NONE SIZE_MAX

enum {
    GRAPH_ARENA_E_LIMIT = 1, /* the arena's own limit, or the account's */
};

/* Thread: one. Zero: nothing to free. */
typedef struct GraphArena {
    AccountedBlock memory;
    PagePopulator *populator; /* touches the pages ahead of the first loads; or NULL */
    uint8_t *slots;           /* [n_slots][slot_bytes] in the memory, aligned as reads need it */
    size_t slot_bytes, n_slots;
    bool is_taken[GRAPH_SLOTS_MAX];
    uint64_t limit_bytes, used_bytes, peak_bytes; /* of the slots that are taken */
} GraphArena;

/* limit_bytes: for all slots together. 0, GRAPH_ARENA_E_LIMIT, -ENOMEM. */
int graph_arena_init(GraphArena *arena, AccountTable *accounts, size_t n_slots, size_t slot_bytes,
                     uint64_t limit_bytes);
void graph_arena_deinit(GraphArena *arena);
/* Takes a free slot; GRAPH_SLOT_NONE: there is none. */
size_t graph_arena_take(GraphArena *arena);
void graph_arena_give(GraphArena *arena, size_t slot);
uint8_t *graph_arena_at(const GraphArena *arena, size_t slot);

#endif
