// SPDX-License-Identifier: Apache-2.0
/* Memory of one template or of one rendering: taken piece by piece, freed as a whole, bounded, on an account. */
#ifndef COORDGEN_TEXT_JINJA_ARENA_H
#define COORDGEN_TEXT_JINJA_ARENA_H

#include <stddef.h>

#include "base/memory/account.h"

enum {
    JINJA_ARENA_E_LIMIT = 1,   /* the arena's own limit */
    JINJA_ARENA_E_ACCOUNT = 2, /* the account's limit */
};

typedef struct JinjaArenaChunk JinjaArenaChunk;

typedef struct JinjaArena {
    JinjaArenaChunk *chunks;
    size_t used_bytes, room_bytes; /* in the newest chunk */
    uint64_t taken_bytes;          /* in all chunks */
    uint64_t limit_bytes;
    AccountTable *accounts; /* NULL: the memory is on no account */
    AccountId account;
    Bill bill;
    int failure; /* JINJA_ARENA_E_*, -ENOMEM: the reason of the last failure */
} JinjaArena;

void jinja_arena_init(JinjaArena *arena, uint64_t limit_bytes, AccountTable *accounts, AccountId account);
void jinja_arena_deinit(JinjaArena *arena);
/* Takes zeroed memory, aligned to 16. NULL: arena->failure says why. */
void *jinja_arena_take(JinjaArena *arena, size_t len_bytes);

#endif
