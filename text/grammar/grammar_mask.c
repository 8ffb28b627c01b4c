// SPDX-License-Identifier: Apache-2.0
/* Masks: a walk over the token trie along the states of a matcher, without the tokens that are known to fit whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "text/grammar/grammar_matcher.h"
#include "text/grammar/grammar_matcher_private.h"
#include "text/grammar/grammar_plain.h"
#include "text/grammar/grammar_way.h"

/* --- walks -------------------------------------------------------------------------------------------------------- */

/* Gives tokens the bits of those that have the same bytes. */
static void set_doubles(const TokenTrie *trie, uint64_t *mask) {
    for (uint32_t i = 0; i < trie->n_doubles; i++) {
        const TokenDouble *pair = &trie->doubles[i];

        mask[pair->token / 64] &= ~(UINT64_C(1) << (pair->token % 64));
        mask[pair->token / 64] |= (mask[pair->first / 64] >> (pair->first % 64) & 1) << (pair->token % 64);
    }
}

enum {
    NODES_PER_FUEL = 16, /* nodes of a walk that take as long as a step which meets something new */
};

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

/* Takes fuel for visited nodes. 0 or the matcher's failure. */
static int burn_nodes(GrammarMatcher *matcher, uint32_t n_visited) {
    const uint64_t fuel = n_visited / NODES_PER_FUEL;

    if (matcher->regex.fuel < fuel && !matcher->regex.failure)
        matcher->regex.failure = GRAMMAR_E_TOO_COMPLEX;
    matcher->regex.fuel -= MIN(fuel, matcher->regex.fuel);
    return matcher->regex.failure;
}

/* Sets the allowed tokens of nodes begin..end - 1. A mispredicted branch costs as much as three nodes, so only the
 * question whether a byte is allowed is one: where no token ends, a bit is set that nobody reads. */
static int walk_nodes(Walk *walk, uint32_t begin, uint32_t end) {
    GrammarMatcher *matcher = walk->matcher;
    const TrieNode *nodes = matcher->trie->nodes;
    const uint8_t *class_of = matcher->regex.class_of;
    const bool is_limited = walk->n_left != UINT32_MAX;
    uint32_t n_visited = 0;
    uint64_t unread = 0;

    for (uint32_t i = begin; i < end; n_visited++) {
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
    return burn_nodes(matcher, n_visited);
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

/* --- plain tokens ------------------------------------------------------------------------------------------------- */

enum {
    ASK_NODES = 8,     /* below fewer nodes a walk costs no more than the question whether all tokens are allowed */
    COUNT_NODES = 256, /* below fewer nodes a walk costs no more than the count that answers it */
};

/* Whether every token below a plain node is allowed in the state behind the node's byte. */
static bool allows_all(GrammarMatcher *matcher, GrammarState state, uint32_t node) {
    const TrieReach *reach = &matcher->trie->reach[node - matcher->trie->slices[TRIE_SLICE_PLAIN].begin];
    const MatcherState *known = &matcher->states[state];
    bool is_exact;

    if (matcher->trie->nodes[node].n_nodes < COUNT_NODES && (!known->n_plain || known->plain_place != reach->place))
        return false;
    return matcher_count_plain(matcher, state, reach->place, &is_exact) >= reach->n_chars;
}

/* Sets or clears the bits of the tokens of nodes begin..end - 1, without a branch that a processor cannot foresee. */
static void put_tokens(const TokenTrie *trie, uint32_t begin, uint32_t end, bool is_set, uint64_t *mask) {
    uint64_t unread = 0;

    for (uint32_t i = begin; i < end; i++) {
        const uint32_t token = trie->nodes[i].token;
        uint64_t *word = token == TRIE_TOKEN_NONE ? &unread : &mask[token / 64];
        const uint64_t bit = UINT64_C(1) << (token % 64);

        *word = is_set ? *word | bit : *word & ~bit;
    }
}

/* Sets the allowed tokens of a first byte, whose node is `root`. */
static int walk_plain_root(Walk *walk, uint32_t root) {
    GrammarMatcher *matcher = walk->matcher;
    const TrieNode *nodes = matcher->trie->nodes;
    const uint8_t *class_of = matcher->regex.class_of;
    const uint32_t end = root + nodes[root].n_nodes;
    uint32_t n_visited = 0;
    uint64_t unread = 0;

    for (uint32_t i = root; i < end; n_visited++) {
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
        if (node.n_nodes >= ASK_NODES && allows_all(matcher, next, i)) {
            put_tokens(matcher->trie, i, i + node.n_nodes, true, walk->mask);
            i += node.n_nodes;
            continue;
        }
        word = node.token == TRIE_TOKEN_NONE ? &unread : &walk->mask[node.token / 64];
        *word |= UINT64_C(1) << (node.token % 64);
        walk->states[node.depth + 1] = next;
        walk->tables[node.depth + 1] = matcher->states[next].next;
        i++;
    }
    return burn_nodes(matcher, n_visited);
}

/* Sets the allowed plain tokens where their number of characters does not say it. If the tokens of most first bytes are
 * allowed whatever they are, those of the other bytes are taken away. */
static int walk_plain(Walk *walk, GrammarState start) {
    GrammarMatcher *matcher = walk->matcher;
    const TokenTrie *trie = matcher->trie;
    const TrieSlice *slice = &trie->slices[TRIE_SLICE_PLAIN];
    uint32_t n_whole = 0;
    bool is_whole[256] = { false }, is_most;
    int r = 0;

    walk->states[0] = start;
    walk->tables[0] = matcher_table(matcher, start);
    if (!walk->tables[0])
        return matcher->regex.failure;
    for (unsigned int byte = 0; byte < 256; byte++) {
        const uint32_t root = slice->roots[byte];
        GrammarState next;

        if (root == UINT32_MAX || walk->tables[0][matcher->regex.class_of[byte]] == STATE_DEAD)
            continue;
        next = matcher_step(matcher, start, matcher->regex.class_of[byte]);
        is_whole[byte] = next != STATE_DEAD && allows_all(matcher, next, root);
        n_whole += is_whole[byte] ? trie->nodes[root].n_nodes : 0;
        if (matcher->regex.failure)
            return matcher->regex.failure;
    }
    is_most = n_whole > (slice->end - slice->begin) / 2;
    for (size_t w = 0; w < TOKEN_MASK_WORDS(trie->n_tokens) && is_most; w++)
        walk->mask[w] |= trie->all_plain[w];
    for (unsigned int byte = 0; byte < 256 && !r; byte++) {
        const uint32_t root = slice->roots[byte];

        if (root == UINT32_MAX)
            continue;
        if (is_whole[byte] != is_most)
            put_tokens(trie, root, root + trie->nodes[root].n_nodes, is_whole[byte], walk->mask);
        if (!is_whole[byte] && walk->tables[0][matcher->regex.class_of[byte]] != STATE_DEAD)
            r = walk_plain_root(walk, root);
    }
    return r;
}

/* Sets the allowed plain tokens. Those of no more characters than may come whatever they are need no walk. */
static int add_plain(Walk *walk, GrammarState start) {
    const TokenTrie *trie = walk->matcher->trie;
    const size_t n_words = TOKEN_MASK_WORDS(trie->n_tokens);
    bool is_exact;
    const uint32_t n_plain = matcher_count_plain(walk->matcher, start, PLAIN_BOUNDARY, &is_exact);
    const bool is_all = n_plain >= (trie->n_long ? trie->long_tokens[trie->n_long - 1].n_chars : TRIE_CHARS_MAX);
    const uint64_t *ready = is_all ? trie->all_plain : trie->plain[MIN(n_plain, TRIE_CHARS_MAX)];
    int r = walk->matcher->regex.failure;

    if (!r && !is_all && !is_exact)
        r = walk_plain(walk, start);
    if (r)
        return r;
    for (size_t w = 0; w < n_words && n_plain; w++)
        walk->mask[w] |= ready[w];
    for (uint32_t i = 0; !is_all && i < trie->n_long && trie->long_tokens[i].n_chars <= n_plain; i++)
        walk->mask[trie->long_tokens[i].token / 64] |= UINT64_C(1) << (trie->long_tokens[i].token % 64);
    return 0;
}

/* --- masks -------------------------------------------------------------------------------------------------------- */

static int make_mask(GrammarMatcher *matcher, GrammarState state, uint64_t *mask) {
    Walk walk;
    int r;

    walk.matcher = matcher;
    walk.n_left = UINT32_MAX;
    walk.mask = mask;
    memset(mask, 0, TOKEN_MASK_WORDS(matcher->trie->n_tokens) * sizeof(*mask));
    r = add_plain(&walk, state);
    if (!r)
        r = walk_slice(&walk, state, &matcher->trie->slices[TRIE_SLICE_OTHER]);
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
