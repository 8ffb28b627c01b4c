// SPDX-License-Identifier: Apache-2.0
#include "spec/drafter_lookup.h"

#include <string.h>

enum {
    CAPACITY_MIN = 1024,
    CAPACITY_MAX = 1 << 30
};

struct DrafterLookup {
    AccountTable *accounts;
    AccountedBlock block;
    uint32_t *text;
    uint32_t n, capacity;
};

int drafter_lookup_new(AccountTable *accounts, DrafterLookup **lookupp) {
    DrafterLookup *lookup = calloc(1, sizeof(*lookup));

    if (!lookup)
        return -ENOMEM;
    lookup->accounts = accounts;
    *lookupp = lookup;
    return 0;
}

void drafter_lookup_free(DrafterLookup *lookup) {
    if (!lookup)
        return;
    accounted_block_deinit(&lookup->block);
    free(lookup);
}

/* By rank there is one alone; by length of what was found before. */
static float lookup_prior(uint16_t bucket, uint16_t rank) {
    static const float by_len[] = { 0.1F, 0.1F, 0.3F, 0.6F };

    return rank ? 0.001F : bucket <= LOOKUP_NGRAM_MAX ? by_len[bucket] : by_len[LOOKUP_NGRAM_MAX];
}

static int lookup_append(void *drafter, const uint32_t *tokens, size_t n) {
    DrafterLookup *lookup = drafter;
    uint32_t capacity = lookup->capacity ? lookup->capacity : CAPACITY_MIN;
    AccountedBlock block;
    int r;

    if (n > CAPACITY_MAX - lookup->n)
        return DRAFTER_E_MEMORY;
    while (capacity < lookup->n + n)
        capacity *= 2;
    if (capacity > lookup->capacity) {
        r = accounted_block_init(&block, lookup->accounts, ACCOUNT_DRAFTDB, capacity * sizeof(*lookup->text));
        if (r)
            return r < 0 ? r : DRAFTER_E_MEMORY;
        if (lookup->n)
            memcpy(block.data, lookup->text, lookup->n * sizeof(*lookup->text));
        accounted_block_deinit(&lookup->block);
        lookup->block = block;
        lookup->text = block.data;
        lookup->capacity = capacity;
    }
    if (n)
        memcpy(lookup->text + lookup->n, tokens, n * sizeof(*tokens));
    lookup->n += (uint32_t)n;
    return 0;
}

/* a: where the text goes on, b: tokens that may still be drafted, c: length of what was found. */
static DraftCursor lookup_root(const void *drafter) {
    const DrafterLookup *lookup = drafter;

    for (uint32_t len = LOOKUP_NGRAM_MAX; len; len--)
        for (uint32_t i = 0; i + len < lookup->n; i++)
            if (!memcmp(lookup->text + i, lookup->text + lookup->n - len, len * sizeof(*lookup->text)))
                return (DraftCursor){ i + len, LOOKUP_TOKENS, len };
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

const DrafterOps drafter_lookup_ops = {
    .name = "lookup",
    .prior = lookup_prior,
    .append = lookup_append,
    .root = lookup_root,
    .choices = lookup_choices,
    .follow = lookup_follow,
};
