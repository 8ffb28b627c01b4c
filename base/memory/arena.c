// SPDX-License-Identifier: Apache-2.0
#include "base/memory/arena.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/memory/page_populator.h"
#include "base/memory/page_size.h"
#include "base/min_max.h"
#include "base/system/kernel_call.h"

enum {
    ALIGNMENT = 64,
    TRIES = 2,                 /* measurements; an interrupt may disturb one */
    ASK_AGAIN_NS = 1000000000, /* a load takes its memory in far less time */
};

static const size_t huge_bytes = (size_t)2 << 20, region_bytes = (size_t)64 << 20;

/* A range of addresses, which becomes memory as blocks touch it. Blocks are cut from the front, and no place is used
 * twice: a new block is always zero. The region is unmapped when its last block is given back. */
struct ArenaRegion {
    Arena *arena;
    ArenaRegion *next;
    uint8_t *data;
    size_t len_bytes, used_bytes;
    size_t n_blocks; /* blocks that are not given back yet */
    bool is_huge;    /* asks for huge pages */
};

struct Arena {
    AccountTable *accounts;
    AccountId id;
    ArenaRegion *regions; /* newest first; blocks are cut from the first one */
    ArenaPages pages;
    bool are_dear; /* huge pages were slow at the last measurement */
    uint64_t asked_ns;
    PagePopulator *populator; /* NULL: none */
};

static size_t align_up(size_t n, size_t alignment) {
    return (n + alignment - 1) / alignment * alignment;
}

int arena_new(Arena **arenap, AccountTable *accounts, AccountId id) {
    Arena *arena = calloc(1, sizeof(*arena));

    if (!arena)
        return err_raise(-ENOMEM);
    *arena = (Arena){ .accounts = accounts, .id = id };
    *arenap = arena;
    return 0;
}

static void region_drop(ArenaRegion *region) {
    ArenaRegion **link = &region->arena->regions;

    while (*link != region)
        link = &(*link)->next;
    *link = region->next;
    munmap(region->data, region->len_bytes);
    free(region);
}

Arena *arena_free(Arena *arena) {
    if (!arena)
        return NULL;
    page_populator_free(arena->populator);
    while (arena->regions) {
        assert(!arena->regions->n_blocks);
        region_drop(arena->regions);
    }
    free(arena);
    return NULL;
}

void arena_set_pages(Arena *arena, ArenaPages pages) {
    arena->pages = pages;
}

/**
 * huge_pages_are_dear() - measure whether a huge page takes longer than the small pages in its place
 * @data: untouched memory of huge pages; the first pages are touched
 *
 * The host of a virtual machine takes free memory back in pieces of a huge page. When such a piece is touched, the
 * host finds its pages one by one again, at seconds a GB. Small pages come from pieces that are partly in use, which
 * the host left alone, as long as there are some; then small pages take as long as huge ones.
 */
static bool huge_pages_are_dear(uint8_t *data, size_t len_bytes) {
    bool are_dear = len_bytes >= TRIES * huge_bytes;

    for (size_t i = 0; i < TRIES && are_dear; i++) {
        const uint64_t start_ns = clock_now_ns();

        are_dear = !madvise(data + i * huge_bytes, huge_bytes, MADV_POPULATE_WRITE) &&
                   page_populator_is_dear(clock_now_ns() - start_ns);
    }
    return are_dear;
}

/* Chooses the pages of a new region; true: huge ones. */
static bool choose_pages(Arena *arena, uint8_t *data, size_t len_bytes) {
    const uint64_t now_ns = clock_now_ns();
    bool are_small = arena->pages == ARENA_PAGES_SMALL;

    (void)madvise(data, len_bytes, MADV_HUGEPAGE);
    if (arena->pages == ARENA_PAGES_CHEAP) {
        if (!arena->asked_ns || now_ns - arena->asked_ns > ASK_AGAIN_NS) {
            arena->are_dear = huge_pages_are_dear(data, len_bytes);
            arena->asked_ns = now_ns;
        }
        are_small = arena->are_dear;
    }
    if (are_small)
        (void)madvise(data, len_bytes, MADV_NOHUGEPAGE);
    return !are_small;
}

/* Maps a huge page more than asked for and cuts the map to huge borders, because older kernels give any address. */
static uint8_t *map_huge(Arena *arena, size_t len_bytes, bool *is_hugep) {
    uint8_t *mapped =
        mmap(NULL, len_bytes + huge_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t before;

    if (mapped == MAP_FAILED)
        return NULL;
    before = align_up((uintptr_t)mapped, huge_bytes) - (uintptr_t)mapped;
    if (before)
        munmap(mapped, before);
    munmap(mapped + before + len_bytes, huge_bytes - before);
    *is_hugep = choose_pages(arena, mapped + before, len_bytes);
    return mapped + before;
}

static int add_region(Arena *arena, size_t least_bytes) {
    size_t len_bytes = align_up(MAX(least_bytes, region_bytes), huge_bytes);
    ArenaRegion *region = calloc(1, sizeof(*region));

    if (!region)
        return err_raise(-ENOMEM);
    *region = (ArenaRegion){ .arena = arena, .next = arena->regions, .len_bytes = len_bytes };
    region->data = map_huge(arena, len_bytes, &region->is_huge);
    if (!region->data) {
        free(region);
        return err_raise(-ENOMEM);
    }
    arena->regions = region;
    return 0;
}

/**
 * arena_take() - charge, then cut zeroed memory
 * @block: overwritten; arena_give() gives memory and charge back, before the arena is freed
 *
 * Return: 0, ACCOUNT_E_LIMIT, or -ENOMEM; on failure block is empty and nothing stays charged.
 */
int arena_take(Arena *arena, ArenaBlock *block, size_t len_bytes) {
    size_t cut_bytes;
    ArenaRegion *region;
    int r;

    *block = (ArenaBlock){ 0 };
    if (!len_bytes)
        return 0;
    if (len_bytes > SIZE_MAX / 4)
        return err_raise(-ENOMEM);
    cut_bytes = align_up(len_bytes, ALIGNMENT);
    r = account_charge(arena->accounts, arena->id, &block->bill, cut_bytes);
    if (r)
        return r;
    region = arena->regions;
    if (!region || region->len_bytes - region->used_bytes < cut_bytes) {
        r = add_region(arena, cut_bytes);
        if (r) {
            bill_settle(&block->bill);
            return r;
        }
        region = arena->regions;
    }
    block->data = region->data + region->used_bytes;
    block->len_bytes = len_bytes;
    block->region = region;
    region->used_bytes += cut_bytes;
    region->n_blocks++;
    return 0;
}

void arena_populate(Arena *arena) {
    _cleanup_(freep) PageRange *ranges = NULL;
    size_t n = 0, at;

    arena->populator = page_populator_free(arena->populator);
    for (const ArenaRegion *region = arena->regions; region; region = region->next)
        n++;
    ranges = n ? calloc(n, sizeof(*ranges)) : NULL;
    if (!ranges)
        return;
    at = n;
    for (const ArenaRegion *region = arena->regions; region; region = region->next)
        ranges[--at] = (PageRange){ .data = region->data,
                                    .len_bytes = page_round_up(region->used_bytes),
                                    .is_huge = region->is_huge && arena->pages == ARENA_PAGES_CHEAP };
    (void)page_populator_new(&arena->populator, ranges, n);
}

void arena_give(ArenaBlock *block) {
    ArenaRegion *region = block->region;

    if (region)
        region->arena->populator = page_populator_free(region->arena->populator);
    if (region && !--region->n_blocks) {
        region_drop(region);
    } else if (region) { /* whole pages go back now: other blocks may keep the region for long */
        /* The kernel rounds the end up to its pages, so bytes of a neighbour must not share the last one. */
        uintptr_t begin = page_round_up((uintptr_t)block->data),
                  end = page_round_down((uintptr_t)block->data + block->len_bytes);

        if (begin < end)
            (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
    }
    bill_settle(&block->bill);
    *block = (ArenaBlock){ 0 };
}
