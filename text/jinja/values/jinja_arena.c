// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/values/jinja_arena.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

#define CHUNK_FIRST_BYTES ((size_t)1 << 13)
#define CHUNK_MAX_BYTES ((size_t)1 << 18)
#define ARENA_ALIGNMENT 16

struct JinjaArenaChunk {
    _Alignas(ARENA_ALIGNMENT) JinjaArenaChunk *next;
    size_t len_bytes;
};

void jinja_arena_init(JinjaArena *arena, uint64_t limit_bytes, AccountTable *accounts, AccountId account) {
    *arena = (JinjaArena){ .limit_bytes = limit_bytes, .accounts = accounts, .account = account };
}

void jinja_arena_deinit(JinjaArena *arena) {
    JinjaArenaChunk *chunk = arena->chunks;

    while (chunk) {
        JinjaArenaChunk *next = chunk->next;

        free(chunk);
        chunk = next;
    }
    bill_settle(&arena->bill);
    *arena = (JinjaArena){ 0 };
}

static int arena_grow(JinjaArena *arena, size_t len_bytes) {
    size_t room_bytes = arena->room_bytes ? 2 * arena->room_bytes : CHUNK_FIRST_BYTES, all_bytes;
    JinjaArenaChunk *chunk;

    if (room_bytes > CHUNK_MAX_BYTES)
        room_bytes = CHUNK_MAX_BYTES;
    if (room_bytes < len_bytes)
        room_bytes = len_bytes;
    all_bytes = sizeof(*chunk) + room_bytes;
    if (all_bytes > arena->limit_bytes - arena->taken_bytes)
        return JINJA_ARENA_E_LIMIT;
    if (arena->accounts && account_charge(arena->accounts, arena->account, &arena->bill, all_bytes))
        return JINJA_ARENA_E_ACCOUNT;
    chunk = calloc(1, all_bytes);
    if (!chunk)
        return err_raise(-ENOMEM);
    *chunk = (JinjaArenaChunk){ .next = arena->chunks, .len_bytes = room_bytes };
    arena->chunks = chunk;
    arena->taken_bytes += all_bytes;
    arena->used_bytes = 0;
    arena->room_bytes = room_bytes;
    return 0;
}

void *jinja_arena_take(JinjaArena *arena, size_t len_bytes) {
    char *data;

    if (len_bytes > arena->limit_bytes) {
        arena->failure = JINJA_ARENA_E_LIMIT;
        return NULL;
    }
    len_bytes = (len_bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (!arena->chunks || len_bytes > arena->room_bytes - arena->used_bytes) {
        arena->failure = arena_grow(arena, len_bytes);
        if (arena->failure)
            return NULL;
    }
    data = (char *)(arena->chunks + 1) + arena->used_bytes;
    arena->used_bytes += len_bytes;
    return data;
}
