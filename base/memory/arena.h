// SPDX-License-Identifier: Apache-2.0
/* Memory of one account for many objects of about the same lifetime, cut from large regions. The regions are on huge
 * pages, so that small objects are read as fast as large ones; if huge pages come slowly, the regions are on small
 * pages. */
#ifndef COORDGEN_BASE_ARENA_H
#define COORDGEN_BASE_ARENA_H

#include <stddef.h>

#include "base/cleanup.h"
#include "base/memory/account.h"

typedef struct Arena Arena;
typedef struct ArenaRegion ArenaRegion;

/* The memory of one object. Zero: none. */
typedef struct ArenaBlock {
    void *data; /* zeroed at first, aligned to 64 */
    size_t len_bytes;
    ArenaRegion *region;
    Bill bill;
} ArenaBlock;

typedef enum ArenaPages {
    ARENA_PAGES_CHEAP, /* the pages that come sooner */
    ARENA_PAGES_HUGE,
    ARENA_PAGES_SMALL,
} ArenaPages;

/* Makes an arena of an account; accounts outlives it. 0 or -ENOMEM. Thread: one at a time, for all functions. */
int arena_new(Arena **arenap, AccountTable *accounts, AccountId id);
/* Requires that all blocks were given back. */
Arena *arena_free(Arena *arena);
DEFINE_CLEANUP(Arena, arena_free)

/* Sets the pages of later regions; the default is ARENA_PAGES_CHEAP. */
void arena_set_pages(Arena *arena, ArenaPages pages);
int arena_take(Arena *arena, ArenaBlock *block, size_t len_bytes);
/* Starts a thread (base/memory/page_populator) that touches the memory of all taken blocks ahead of its use, oldest
 * first. The thread ends when all is touched or a block is given back. A failure only means that memory comes later.
 * */
void arena_populate(Arena *arena);
void arena_give(ArenaBlock *block);

#endif
