// SPDX-License-Identifier: Apache-2.0
/* Memory of one account for many objects that live about as long: carved out of large regions on huge pages, so that
 * objects of less than a huge page are read as fast as large ones; on small ones where huge ones take long to come. */
#ifndef COORDGEN_BASE_ARENA_H
#define COORDGEN_BASE_ARENA_H

#include <stddef.h>

#include "base/cleanup.h"
#include "base/memory/account.h"

typedef struct Arena Arena;
typedef struct ArenaRegion ArenaRegion;

/* One object's memory. Zero: none. */
typedef struct ArenaBlock {
    void *data; /* zeroed at first, aligned to 64 */
    size_t len_bytes;
    ArenaRegion *region;
    Bill bill;
} ArenaBlock;

typedef enum ArenaPages {
    ARENA_PAGES_CHEAP, /* what comes sooner */
    ARENA_PAGES_HUGE,
    ARENA_PAGES_SMALL,
} ArenaPages;

/* accounts outlives the arena. 0 or -ENOMEM. Thread: one at a time, for all functions. */
int arena_new(Arena **arenap, AccountTable *accounts, AccountId id);
/* All blocks must have been given back. */
Arena *arena_free(Arena *arena);
DEFINE_CLEANUP(Arena, arena_free)

/* Of regions from now on; without this: ARENA_PAGES_CHEAP. */
void arena_set_pages(Arena *arena, ArenaPages pages);
int arena_take(Arena *arena, ArenaBlock *block, size_t len_bytes);
/* The memory of all blocks that were taken comes ahead of its use, the oldest first, by a thread of its own
 * (base/memory/page_populator), until that is done or a block is given back. It costs nothing if it cannot be. */
void arena_populate(Arena *arena);
void arena_give(ArenaBlock *block);

#endif
