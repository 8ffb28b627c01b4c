// SPDX-License-Identifier: Apache-2.0
/* Masks: a walk over the token trie along the states of a matcher, without the tokens that are known to fit whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/grammar_matcher_private.h"
#include "text/grammar/grammar_way.h"

/* --- plain characters --------------------------------------------------------------------------------------------- */

enum {
    PLAIN_STATES_MAX = 6
};

typedef struct StateSet {
    uint32_t n;
    GrammarState states[PLAIN_STATES_MAX];
} StateSet;

static bool state_set_has(const StateSet *set, GrammarState state) {
    for (uint32_t i = 0; i < set->n; i++)
        if (set->states[i] == state)
            return true;
    return false;
}

/* Adds the states behind every byte first..last from every state of a set. Whether there are such, and not too many. */
static bool step_range(GrammarMatcher *matcher, const StateSet *from, uint8_t first, uint8_t last, StateSet *to) {
    for (uint32_t i = 0; i < from->n; i++) {
        ByteSet classes = { 0 };

        for (unsigned int byte = first; byte <= last; byte++) {
            const uint8_t class = matcher->regex.class_of[byte];
            GrammarState next;

            if (byte_set_has(&classes, class))
                continue;
            byte_set_add(&classes, class);
            next = matcher_step(matcher, from->states[i], class);
            if (next == STATE_DEAD)
                return false;
            if (state_set_has(to, next))
                continue;
            if (to->n == PLAIN_STATES_MAX)
                return false;
            to->states[to->n++] = next;
        }
    }
    return true;
}

/* Adds the states behind every plain character. UTF-8 by Unicode's table 3-7. */
static bool step_plain(GrammarMatcher *matcher, const StateSet *from, StateSet *to) {
    static const struct {
        uint8_t first, last, second_first, second_last, n_more;
    } leads[] = { { 0xc2, 0xdf, 0x80, 0xbf, 0 }, { 0xe0, 0xe0, 0xa0, 0xbf, 1 }, { 0xe1, 0xe1, 0x80, 0xbf, 1 },
                  { 0xe2, 0xe2, 0x81, 0xbf, 1 }, { 0xe3, 0xec, 0x80, 0xbf, 1 }, { 0xed, 0xed, 0x80, 0x9f, 1 },
                  { 0xee, 0xef, 0x80, 0xbf, 1 }, { 0xf0, 0xf0, 0x90, 0xbf, 2 }, { 0xf1, 0xf3, 0x80, 0xbf, 2 },
                  { 0xf4, 0xf4, 0x80, 0x8f, 2 } };
    StateSet lines = { 0 }, behind_lines = { 0 };

    /* Characters that begin with e2 80, without the two line ends of Unicode. */
    if (!step_range(matcher, from, 0xe2, 0xe2, &lines) || !step_range(matcher, &lines, 0x80, 0x80, &behind_lines) ||
        !step_range(matcher, &behind_lines, 0x80, 0xa7, to) || !step_range(matcher, &behind_lines, 0xaa, 0xbf, to))
        return false;
    if (!step_range(matcher, from, 0x20, '"' - 1, to) || !step_range(matcher, from, '"' + 1, '\\' - 1, to) ||
        !step_range(matcher, from, '\\' + 1, 0x7e, to))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(leads); i++) {
        StateSet behind_lead = { 0 }, behind = { 0 };

        if (!step_range(matcher, from, leads[i].first, leads[i].last, &behind_lead) ||
            !step_range(matcher, &behind_lead, leads[i].second_first, leads[i].second_last,
                        leads[i].n_more ? &behind : to))
            return false;
        for (int more = leads[i].n_more; more; more--) {
            StateSet last = { 0 };

            if (!step_range(matcher, &behind, 0x80, 0xbf, more > 1 ? &last : to))
                return false;
            behind = last;
        }
    }
    return true;
}

/* Counts the plain characters that the grammar allows next, whatever they are, up to TRIE_CHARS_LONG, or
 * TRIE_CHARS_ENDLESS. Where the text's characters lead to many states, the count may be too low. */
static uint32_t count_plain(GrammarMatcher *matcher, GrammarState state) {
    StateSet at = { 1, { state } };
    uint32_t n = 0;

    if (matcher->states[state].n_plain)
        return matcher->states[state].n_plain - 1u;
    for (; n < TRIE_CHARS_LONG; n++) {
        StateSet next = { 0 };
        bool is_same = true;

        /* A state that has been looked at tells the rest. */
        if (n && at.n == 1 && matcher->states[at.states[0]].n_plain) {
            n = MIN(n + matcher->states[at.states[0]].n_plain - 1u, TRIE_CHARS_ENDLESS);
            break;
        }
        if (!step_plain(matcher, &at, &next))
            break;
        for (uint32_t i = 0; i < next.n; i++)
            is_same = is_same && state_set_has(&at, next.states[i]);
        if (is_same) {
            n = TRIE_CHARS_ENDLESS;
            break;
        }
        at = next;
    }
    if (!matcher->regex.failure)
        matcher->states[state].n_plain = (uint8_t)(n + 1);
    return n;
}

/* --- walks -------------------------------------------------------------------------------------------------------- */

/* Sets tokens that have the bytes of a set one. */
static void set_doubles(const TokenTrie *trie, uint64_t *mask) {
    for (uint32_t i = 0; i < trie->n_doubles; i++) {
        const TokenDouble *pair = &trie->doubles[i];

        mask[pair->token / 64] |= (mask[pair->first / 64] >> (pair->first % 64) & 1) << (pair->token % 64);
    }
}

/* A walk over the tokens of a slice. */
typedef struct Walk {
    GrammarMatcher *matcher;
    uint32_t n_left; /* tokens count if a way of so many more leads to an end; UINT32_MAX: whatever the way is */
    uint64_t *mask;
    GrammarState states[TOKEN_TRIE_BYTES_MAX + 1]; /* before each byte of the token under way */
    const uint32_t *tables[TOKEN_TRIE_BYTES_MAX + 1];
} Walk;

/* Finds the state behind a byte of a class, where the way is not known yet. */
static GrammarState find_next(Walk *walk, uint32_t depth, uint8_t class) {
    if (!walk->tables[depth])
        walk->tables[depth] = matcher_table_new(walk->matcher, walk->states[depth]);
    return walk->tables[depth] ? matcher_step(walk->matcher, walk->states[depth], class) : STATE_DEAD;
}

/* Sets the allowed tokens of nodes begin..end - 1. A mispredicted branch costs as much as three nodes, so only the
 * question whether a byte is allowed is one: where no token ends, a bit is set that nobody reads. */
static int walk_nodes(Walk *walk, uint32_t begin, uint32_t end) {
    GrammarMatcher *matcher = walk->matcher;
    const TrieNode *nodes = matcher->trie->nodes;
    const uint8_t *class_of = matcher->regex.class_of;
    const bool is_limited = walk->n_left != UINT32_MAX;
    uint64_t unread = 0;

    for (uint32_t i = begin; i < end;) {
        const TrieNode node = nodes[i];
        const uint8_t class = class_of[node.byte];
        const uint32_t *table = walk->tables[node.depth];
        GrammarState next = table ? table[class] : STATE_UNKNOWN;
        uint64_t *word;

        if (next == STATE_UNKNOWN) {
            next = find_next(walk, node.depth, class);
            if (matcher->regex.failure)
                return matcher->regex.failure;
        }
        if (next == STATE_DEAD) {
            i += node.n_nodes;
            continue;
        }
        word = node.token == TRIE_TOKEN_NONE ? &unread : &walk->mask[node.token / 64];
        if (is_limited && word != &unread && matcher_end_tokens(matcher, next) > walk->n_left)
            word = &unread;
        *word |= UINT64_C(1) << (node.token % 64);
        walk->states[node.depth + 1] = next;
        walk->tables[node.depth + 1] = matcher->states[next].next;
        i++;
    }
    return matcher->regex.failure;
}

/* Sets the allowed tokens of a slice. First bytes that are refused are not even looked at, as the nodes of the others
 * lie far apart in memory. */
static int walk_slice(Walk *walk, GrammarState start, const TrieSlice *slice) {
    const uint8_t *class_of = walk->matcher->regex.class_of;
    int r = 0;

    walk->states[0] = start;
    walk->tables[0] = matcher_table(walk->matcher, start);
    if (!walk->tables[0])
        return walk->matcher->regex.failure;
    for (unsigned int byte = 0; byte < 256 && !r; byte++) {
        const uint32_t root = slice->roots[byte];

        if (root != UINT32_MAX && walk->tables[0][class_of[byte]] != STATE_DEAD)
            r = walk_nodes(walk, root, root + walk->matcher->trie->nodes[root].n_nodes);
    }
    return r;
}

static int make_mask(GrammarMatcher *matcher, GrammarState state, uint64_t *mask) {
    static const uint32_t n_chars[] = { UINT32_MAX, TRIE_CHARS_SHORT, TRIE_CHARS_LONG, TRIE_CHARS_ENDLESS };
    const size_t n_words = TOKEN_MASK_WORDS(matcher->trie->n_tokens);
    const uint32_t n_plain = count_plain(matcher, state);
    Walk walk;
    int r = matcher->regex.failure;

    walk.matcher = matcher;
    walk.n_left = UINT32_MAX;
    walk.mask = mask;
    memset(mask, 0, n_words * sizeof(*mask));
    for (int i = 0; i < _TRIE_SLICES_N && !r; i++) {
        const TrieSlice *slice = &matcher->trie->slices[i];

        if (n_plain < n_chars[i]) {
            r = walk_slice(&walk, state, slice);
            continue;
        }
        for (size_t w = 0; w < n_words; w++)
            mask[w] |= slice->mask[w];
    }
    set_doubles(matcher->trie, mask);
    return r;
}

int grammar_matcher_mask(GrammarMatcher *matcher, GrammarState state, uint64_t *mask) {
    const size_t n_bytes = TOKEN_MASK_WORDS(matcher->trie->n_tokens) * sizeof(*mask);
    KeptMask *kept = &matcher->masks[state % MASKS_N];
    int r;

    if (kept->words && kept->state == state) {
        memcpy(mask, kept->words, n_bytes);
        return 0;
    }
    matcher_begin_call(matcher);
    r = make_mask(matcher, state, mask);
    if (r)
        return r;
    if (!kept->words)
        kept->words = malloc(MAX(n_bytes, 1));
    if (kept->words) {
        memcpy(kept->words, mask, n_bytes);
        kept->state = state;
    }
    return 0;
}

int grammar_matcher_mask_to_end(GrammarMatcher *matcher, GrammarState state, uint32_t n_left, uint64_t *mask) {
    Walk walk;
    int r = 0;

    matcher_begin_call(matcher);
    walk.matcher = matcher;
    walk.n_left = n_left - 1;
    walk.mask = mask;
    memset(mask, 0, TOKEN_MASK_WORDS(matcher->trie->n_tokens) * sizeof(*mask));
    for (int i = 0; i < _TRIE_SLICES_N && !r && n_left; i++)
        r = walk_slice(&walk, state, &matcher->trie->slices[i]);
    set_doubles(matcher->trie, mask);
    return r;
}
