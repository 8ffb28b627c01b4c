// SPDX-License-Identifier: Apache-2.0
#include "spec/sources/drafter_sam.h"

#include "base/min_max.h"
#include "spec/sources/suffix_automaton.h"

enum {
    LINKS_MAX = 32 /* shorter matches that are asked for one node: a text of one token has as many as tokens */
};

struct DrafterSam {
    SuffixAutomaton *automaton;
    SuffixMatch match; /* the text's end matched with what was there before its last token */
};

int drafter_sam_new(AccountTable *accounts, DrafterSam **samp) {
    _cleanup_(drafter_sam_freep) DrafterSam *sam = calloc(1, sizeof(*sam));
    int r;

    if (!sam)
        return -ENOMEM;
    r = suffix_automaton_new(accounts, &sam->automaton);
    if (r < 0)
        return r;
    *samp = steal(&sam);
    return 0;
}

void drafter_sam_free(DrafterSam *sam) {
    if (!sam)
        return;
    suffix_automaton_free(sam->automaton);
    free(sam);
}

uint32_t drafter_sam_draft_tokens(const DrafterSam *sam) {
    return sam->match.len < SAM_DRAFT_MAX / SAM_DRAFT_FACTOR ? 1 + SAM_DRAFT_FACTOR * sam->match.len : SAM_DRAFT_MAX;
}

static float sam_prior(uint16_t bucket, uint16_t rank) {
    float wrong = 0.75F;

    for (uint16_t i = 0; i < bucket && i < DRAFT_BUCKETS; i++)
        wrong *= 0.75F;
    return (1 - wrong) / (float)(1 + 2 * rank);
}

static int sam_append(void *drafter, const uint32_t *tokens, size_t n) {
    DrafterSam *sam = drafter;
    int r = suffix_automaton_reserve(sam->automaton, n);

    if (r)
        return r;
    for (size_t i = 0; i < n; i++) {
        SuffixMatch match = suffix_automaton_follow(sam->automaton, sam->match, tokens[i]);

        r = suffix_automaton_append(sam->automaton, &tokens[i], 1);
        if (r)
            return r;
        sam->match = suffix_automaton_settled(sam->automaton, match);
    }
    return 0;
}

static DraftCursor sam_root(const void *drafter) {
    const DrafterSam *sam = drafter;

    return (DraftCursor){ .a = sam->match.state, .b = sam->match.len };
}

static DraftCursor sam_follow(const void *drafter, DraftCursor at, uint32_t token) {
    const DrafterSam *sam = drafter;
    SuffixMatch match = suffix_automaton_settled(sam->automaton, (SuffixMatch){ at.a, at.b });

    match = suffix_automaton_follow(sam->automaton, match, token);
    return (DraftCursor){ .a = match.state, .b = match.len };
}

/* Classes of match lengths, two to each doubling: they begin at 1, 2, 3, 4, 6, 8, 12, ... */
static uint16_t bucket_of(uint32_t len) {
    uint16_t bits = (uint16_t)(31 - __builtin_clz(len | 1));
    uint16_t bucket = bits ? (uint16_t)(2 * bits - 1 + (len >> (bits - 1) & 1)) : 0;

    return bucket < DRAFT_BUCKETS ? bucket : DRAFT_BUCKETS - 1;
}

static size_t add(DraftChoice *choices, size_t n, uint32_t token, uint32_t len) {
    for (size_t i = 0; i < n; i++)
        if (choices[i].token == token)
            return n;
    choices[n] = (DraftChoice){ .token = token, .bucket = bucket_of(len), .rank = (uint16_t)n };
    return n + 1;
}

static size_t sam_choices(const void *drafter, DraftCursor at, DraftChoice *choices, size_t max) {
    const DrafterSam *sam = drafter;
    const SuffixAutomaton *automaton = sam->automaton;
    SuffixMatch match = suffix_automaton_settled(automaton, (SuffixMatch){ at.a, at.b });
    size_t n = 0;

    max = MIN(max, DRAFT_CHOICES_MAX);
    for (int i = 0; i < LINKS_MAX && match.state && n < max; i++) {
        uint32_t tokens[DRAFT_CHOICES_MAX], end = suffix_automaton_first_end(automaton, match.state);
        size_t n_nexts = suffix_automaton_nexts(automaton, match.state, tokens, DRAFT_CHOICES_MAX);

        if (end < suffix_automaton_n_tokens(automaton))
            n = add(choices, n, suffix_automaton_token(automaton, end), match.len);
        for (size_t j = 0; j < n_nexts && n < max; j++)
            n = add(choices, n, tokens[j], match.len);
        match.state = suffix_automaton_link(automaton, match.state);
        match.len = suffix_automaton_len(automaton, match.state);
    }
    for (size_t i = 0; i < n; i++)
        choices[i].next = sam_follow(drafter, at, choices[i].token);
    return n;
}

static void sam_self_free(void *self) {
    drafter_sam_free(self);
}

const DrafterOps drafter_sam_ops = {
    .prior = sam_prior,
    .append = sam_append,
    .root = sam_root,
    .choices = sam_choices,
    .follow = sam_follow,
    .free = sam_self_free,
};
