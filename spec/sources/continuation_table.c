// SPDX-License-Identifier: Apache-2.0
#include "spec/sources/continuation_table.h"

#include "base/min_max.h"

typedef struct Continuations {
    uint32_t tokens[DRAFT_CHOICES_MAX];
    uint16_t chances[DRAFT_CHOICES_MAX]; /* in parts of 65535 */
    uint16_t n;
    bool of_prompt;
} Continuations;

struct ContinuationTable {
    ContextMap *pairs, *singles;
    DraftCursor end; /* cursor of the text */
};

int continuation_table_new(AccountTable *accounts, ContinuationTable **tablep) {
    _cleanup_(continuation_table_freep) ContinuationTable *table = calloc(1, sizeof(*table));
    int r;

    if (!table)
        return -ENOMEM;
    r = context_map_new(accounts, sizeof(Continuations), CONTINUATION_PAIRS_MAX, &table->pairs);
    if (r < 0)
        return r;
    r = context_map_new(accounts, sizeof(Continuations), CONTINUATION_TOKENS_MAX, &table->singles);
    if (r < 0)
        return r;
    *tablep = steal(&table);
    return 0;
}

void continuation_table_free(ContinuationTable *table) {
    if (!table)
        return;
    context_map_free(table->pairs);
    context_map_free(table->singles);
    free(table);
}

static uint16_t quantized(float probability) {
    return probability >= 1 ? UINT16_MAX : probability > 0 ? (uint16_t)(probability * UINT16_MAX) : 0;
}

static int keep(ContextMap *map, uint64_t key, const ContextTop *top, size_t n, bool of_prompt) {
    Continuations *continuations;
    void *value;
    int r = context_map_put(map, key, &value);

    if (r)
        return r;
    continuations = value;
    continuations->n = n < DRAFT_CHOICES_MAX ? (uint16_t)n : DRAFT_CHOICES_MAX;
    continuations->of_prompt = of_prompt;
    for (uint32_t i = 0; i < continuations->n; i++) {
        continuations->tokens[i] = top[i].token;
        continuations->chances[i] = quantized(top[i].probability);
    }
    return 0;
}

int continuation_table_observe(ContinuationTable *table, uint32_t before, uint32_t token, const ContextTop *top,
                               size_t n, bool of_prompt) {
    int r;

    if (!n)
        return 0;
    r = keep(table->singles, token, top, n, of_prompt);
    if (r || before == CONTEXT_NO_TOKEN)
        return r;
    return keep(table->pairs, context_pair(before, token), top, n, of_prompt);
}

/* Single tokens, which tell less than pairs, have the lower half of the buckets. */
static float table_prior(uint16_t bucket, uint16_t rank) {
    float typical = context_class_typical(bucket % CONTEXT_CLASSES), most = 1 / (float)(1 + rank);

    return MIN(typical, most) * (bucket < CONTEXT_CLASSES ? 0.5F : 0.8F);
}

static int table_append(void *drafter, const uint32_t *tokens, size_t n) {
    ContinuationTable *table = drafter;

    for (size_t i = 0; i < n; i++)
        table->end = context_follow(table->end, tokens[i]);
    return 0;
}

static DraftCursor table_root(const void *drafter) {
    const ContinuationTable *table = drafter;

    return table->end;
}

static DraftCursor table_follow(const void *drafter, DraftCursor at, uint32_t token) {
    (void)drafter;
    return context_follow(at, token);
}

static size_t add_all(const Continuations *from, uint16_t first_bucket, DraftCursor at, DraftChoice *choices, size_t n,
                      size_t max) {
    for (uint32_t i = 0; from && i < from->n && n < max; i++) {
        size_t seen = 0;

        while (seen < n && choices[seen].token != from->tokens[i])
            seen++;
        if (seen < n)
            continue;
        choices[n++] = (DraftChoice){
            .token = from->tokens[i],
            .bucket = (uint16_t)(first_bucket + context_class((float)from->chances[i] / UINT16_MAX)),
            .rank = (uint16_t)i,
            .of_prompt = from->of_prompt,
            .next = context_follow(at, from->tokens[i]),
        };
    }
    return n;
}

/* Lists what came behind the pair, then what else came behind its second token; ranks count within each. */
static size_t table_choices(const void *drafter, DraftCursor at, DraftChoice *choices, size_t max) {
    const ContinuationTable *table = drafter;
    size_t n = 0;

    max = MIN(max, DRAFT_CHOICES_MAX);
    if (at.c >= 2)
        n = add_all(context_map_find(table->pairs, context_pair(at.a, at.b)), CONTEXT_CLASSES, at, choices, n, max);
    if (at.c)
        n = add_all(context_map_find(table->singles, at.b), 0, at, choices, n, max);
    return n;
}

static void table_self_free(void *self) {
    continuation_table_free(self);
}

const DrafterOps continuation_table_ops = {
    .prior = table_prior,
    .append = table_append,
    .root = table_root,
    .choices = table_choices,
    .follow = table_follow,
    .free = table_self_free,
};
