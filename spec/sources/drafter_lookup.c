// SPDX-License-Identifier: Apache-2.0
#include "spec/sources/drafter_lookup.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_key.h"

enum {
    CAPACITY_MIN = 1024,
    CAPACITY_MAX = 1 << 28,
    PLACES_A_TOKEN = 2 /* places of a table for each token: at least half of them stay free */
};

/* An n-gram's place has the index of the token behind its first occurrence; 0: a free place. An n-gram enters its table
 * once a token is behind it: the one at the text's end is absent unless it stood before. */
struct DrafterLookup {
    AccountTable *accounts;
    HashKey key;
    AccountedBlock block;               /* of the arrays text and places */
    uint32_t *text;                     /* [capacity] */
    uint32_t *places[LOOKUP_NGRAM_MAX]; /* by n-gram length less 1: [ */
    uint32_t n, capacity;               /* a power of two */
};

static_assert((1 + PLACES_A_TOKEN * LOOKUP_NGRAM_MAX) * sizeof(uint32_t) == LOOKUP_TOKEN_BYTES, "as the header says");

int drafter_lookup_new(AccountTable *accounts, DrafterLookup **lookupp) {
    _cleanup_(drafter_lookup_freep) DrafterLookup *lookup = calloc(1, sizeof(*lookup));
    int r;

    if (!lookup)
        return -ENOMEM;
    lookup->accounts = accounts;
    r = hash_key_init(&lookup->key);
    if (r)
        return r;
    *lookupp = steal(&lookup);
    return 0;
}

void drafter_lookup_free(DrafterLookup *lookup) {
    if (!lookup)
        return;
    accounted_block_deinit(&lookup->block);
    free(lookup);
}

/* There is one rank; buckets are by the length of what was found before. */
static float lookup_prior(uint16_t bucket, uint16_t rank) {
    static const float by_len[] = { 0.1F, 0.1F, 0.3F, 0.6F };

    return rank ? 0.001F : bucket <= LOOKUP_NGRAM_MAX ? by_len[bucket] : by_len[LOOKUP_NGRAM_MAX];
}

/* Returns the place of the n-gram before token `end`; a free place if the n-gram stands nowhere. The loop is not
 * base/hash_table's: here a key is compared in place, and no caller could do anything about a refused key. */
static uint32_t *lookup_place(const DrafterLookup *lookup, uint32_t len, uint32_t end) {
    const uint32_t *ngram = lookup->text + end - len, mask = PLACES_A_TOKEN * lookup->capacity - 1;
    uint32_t *places = lookup->places[len - 1];
    uint64_t hash = len;
    uint32_t at;

    for (uint32_t i = 0; i < len; i++)
        hash = hash_key_u64(&lookup->key, hash ^ ngram[i]);
    for (at = (uint32_t)hash & mask; places[at]; at = (at + 1) & mask)
        if (!memcmp(lookup->text + places[at] - len, ngram, len * sizeof(*ngram)))
            break;
    return &places[at];
}

/* Adds the n-grams before token `end`, which is there. */
static void lookup_index(DrafterLookup *lookup, uint32_t end) {
    for (uint32_t len = 1; len <= LOOKUP_NGRAM_MAX && len <= end; len++) {
        uint32_t *place = lookup_place(lookup, len, end);

        if (!*place)
            *place = end;
    }
}

/* Doubles the capacity until n tokens have room, and indexes anew what was there. */
static int lookup_reserve(DrafterLookup *lookup, size_t n) {
    AccountedBlock old = lookup->block;
    uint32_t capacity = lookup->capacity ? lookup->capacity : CAPACITY_MIN;
    AccountedBlock block;
    int r;

    if (n > CAPACITY_MAX)
        return DRAFTER_E_MEMORY;
    while (capacity < n)
        capacity *= 2;
    if (capacity == lookup->capacity)
        return 0;
    r = accounted_block_init(&block, lookup->accounts, ACCOUNT_DRAFTDB, (size_t)capacity * LOOKUP_TOKEN_BYTES);
    if (r)
        return r < 0 ? r : DRAFTER_E_MEMORY;
    if (lookup->n)
        memcpy(block.data, lookup->text, lookup->n * sizeof(*lookup->text));
    lookup->block = block;
    lookup->text = block.data;
    for (size_t i = 0; i < LOOKUP_NGRAM_MAX; i++)
        lookup->places[i] = lookup->text + (1 + PLACES_A_TOKEN * i) * capacity;
    lookup->capacity = capacity;
    for (uint32_t end = 1; end < lookup->n; end++)
        lookup_index(lookup, end);
    accounted_block_deinit(&old);
    return 0;
}

static int lookup_append(void *drafter, const uint32_t *tokens, size_t n) {
    DrafterLookup *lookup = drafter;
    int r = n > CAPACITY_MAX ? DRAFTER_E_MEMORY : lookup_reserve(lookup, lookup->n + n);

    if (r)
        return r;
    for (size_t i = 0; i < n; i++) {
        lookup->text[lookup->n] = tokens[i];
        lookup_index(lookup, lookup->n++);
    }
    return 0;
}

/* A cursor: a is where the text goes on, b the tokens that may still be drafted, c the length of what was found. */
static DraftCursor lookup_root(const void *drafter) {
    const DrafterLookup *lookup = drafter;

    for (uint32_t len = LOOKUP_NGRAM_MAX; len; len--) {
        const uint32_t place = len < lookup->n ? *lookup_place(lookup, len, lookup->n) : 0;

        if (place)
            return (DraftCursor){ place, LOOKUP_TOKENS, len };
    }
    return (DraftCursor){ 0 };
}

static size_t lookup_choices(const void *drafter, DraftCursor at, DraftChoice *choices, size_t max) {
    const DrafterLookup *lookup = drafter;

    if (!max || !at.b || at.a >= lookup->n)
        return 0;
    choices[0] =
        (DraftChoice){ .token = lookup->text[at.a], .bucket = (uint16_t)at.c, .next = { at.a + 1, at.b - 1, at.c } };
    return 1;
}

static DraftCursor lookup_follow(const void *drafter, DraftCursor at, uint32_t token) {
    DraftChoice choice;

    if (lookup_choices(drafter, at, &choice, 1) && choice.token == token)
        return choice.next;
    return (DraftCursor){ 0 };
}

static void lookup_self_free(void *self) {
    drafter_lookup_free(self);
}

const DrafterOps drafter_lookup_ops = {
    .prior = lookup_prior,
    .append = lookup_append,
    .root = lookup_root,
    .choices = lookup_choices,
    .follow = lookup_follow,
    .free = lookup_self_free,
};
