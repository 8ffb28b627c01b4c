// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "daemon/users/tally.h"

#include <search.h>
#include <stdlib.h>

static int tally_compare(const void *a, const void *b) {
    const uid_t left = ((const Tally *)a)->uid, right = ((const Tally *)b)->uid;

    return left < right ? -1 : left > right;
}

void tally_table_deinit(TallyTable *table) {
    tdestroy(table->users, free);
    table->users = NULL;
}

static Tally *find(const TallyTable *table, uid_t uid) {
    const Tally key = { .uid = uid };
    Tally *const *node = tfind(&key, &table->users, tally_compare);

    return node ? *node : NULL;
}

static Tally *find_or_add(TallyTable *table, uid_t uid) {
    Tally *tally = find(table, uid);

    if (tally)
        return tally;
    tally = calloc(1, sizeof(*tally));
    if (!tally)
        return NULL;
    tally->uid = uid;
    if (!tsearch(tally, &table->users, tally_compare)) {
        free(tally);
        return NULL;
    }
    return tally;
}

void tally_note(TallyTable *table, uid_t uid, TallyOutcome outcome, uint32_t n_prompt_tokens, uint32_t n_cached_tokens,
                uint32_t n_output_tokens) {
    Tally *const tallies[] = { &table->all, find_or_add(table, uid) };

    for (size_t i = 0; i < 2; i++) {
        if (!tallies[i])
            continue;
        tallies[i]->n_requests[outcome]++;
        tallies[i]->n_prompt_tokens += n_prompt_tokens;
        tallies[i]->n_cached_tokens += n_cached_tokens;
        tallies[i]->n_output_tokens += n_output_tokens;
    }
}

Tally tally_of(const TallyTable *table, uid_t uid) {
    const Tally *tally = find(table, uid);

    return tally ? *tally : (Tally){ .uid = uid };
}
