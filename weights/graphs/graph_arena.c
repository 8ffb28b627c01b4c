// SPDX-License-Identifier: Apache-2.0
#include "weights/graphs/graph_arena.h"

#include <assert.h>

#include "base/files/extent_reader.h"
#include "base/min_max.h"

int graph_arena_init(GraphArena *arena, AccountTable *accounts, size_t n_slots, size_t slot_bytes,
                     uint64_t limit_bytes) {
    int r;

    assert(n_slots && n_slots <= GRAPH_SLOTS_MAX && slot_bytes % EXTENT_ALIGNMENT == 0);
    *arena = (GraphArena){ .slot_bytes = slot_bytes, .n_slots = n_slots, .limit_bytes = limit_bytes };
    if (slot_bytes > limit_bytes / n_slots)
        return GRAPH_ARENA_E_LIMIT;
    r = accounted_block_init(&arena->memory, accounts, ACCOUNT_GRAPHS, n_slots * slot_bytes + EXTENT_ALIGNMENT);
    if (r)
        return r == ACCOUNT_E_LIMIT ? GRAPH_ARENA_E_LIMIT : r;
    arena->slots =
        (uint8_t *)arena->memory.data + (EXTENT_ALIGNMENT - (uintptr_t)arena->memory.data % EXTENT_ALIGNMENT);
    /* Graphs are loaded into the first slots first. */
    (void)page_populator_new(
        &arena->populator,
        &(PageRange){ .data = arena->memory.data, .len_bytes = arena->memory.len_bytes, .is_huge = true }, 1);
    return 0;
}

void graph_arena_deinit(GraphArena *arena) {
    page_populator_free(arena->populator);
    accounted_block_deinit(&arena->memory);
    *arena = (GraphArena){ 0 };
}

size_t graph_arena_take(GraphArena *arena) {
    for (size_t slot = 0; slot < arena->n_slots; slot++) {
        if (arena->is_taken[slot])
            continue;
        arena->is_taken[slot] = true;
        arena->used_bytes += arena->slot_bytes;
        assert(arena->used_bytes <= arena->limit_bytes);
        arena->peak_bytes = MAX(arena->used_bytes, arena->peak_bytes);
        return slot;
    }
    return GRAPH_SLOT_NONE;
}

void graph_arena_give(GraphArena *arena, size_t slot) {
    assert(slot < arena->n_slots && arena->is_taken[slot]);
    arena->is_taken[slot] = false;
    arena->used_bytes -= arena->slot_bytes;
}

uint8_t *graph_arena_at(const GraphArena *arena, size_t slot) {
    assert(slot < arena->n_slots && arena->is_taken[slot]);
    return arena->slots + slot * arena->slot_bytes;
}
