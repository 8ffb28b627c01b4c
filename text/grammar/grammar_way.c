// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/grammar_way.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "text/grammar/grammar_matcher_private.h"

uint32_t matcher_end_bytes(GrammarMatcher *matcher, GrammarState state) {
    uint32_t n_bytes = REGEX_NEVER;
    size_t n;

    if (matcher->states[state].end_bytes != REGEX_UNKNOWN)
        return matcher->states[state].end_bytes;
    matcher_threads(matcher, state, &n);
    for (size_t i = 0; i < n; i++) {
        const StateThread thread = matcher_threads(matcher, state, &n)[i];
        const uint32_t here = byte_regex_end_bytes(&matcher->regex, thread.rest);
        const uint32_t behind = parser_rows_end_bytes(&matcher->rows, thread.row, thread.lexeme);

        if (here != REGEX_NEVER && behind != REGEX_NEVER)
            n_bytes = MIN(n_bytes, (uint32_t)MIN((uint64_t)here + behind, REGEX_BYTES_MAX));
    }
    if (matcher->states[state].is_end)
        n_bytes = 0;
    if (!matcher->regex.failure)
        matcher->states[state].end_bytes = n_bytes;
    return n_bytes;
}

/* Returns the class of the byte that a short way goes on with; CLASS_NONE: a failure. */
static uint32_t end_class(GrammarMatcher *matcher, GrammarState state) {
    const uint32_t n_bytes = matcher_end_bytes(matcher, state);
    uint32_t best_bytes = REGEX_NEVER, best = CLASS_NONE;

    if (matcher->states[state].end_class != CLASS_NONE)
        return matcher->states[state].end_class;
    for (uint32_t class = 0; class < matcher->regex.n_classes && best_bytes >= n_bytes; class ++) {
        const GrammarState next = matcher_step(matcher, state, class);
        const uint32_t rest = next == STATE_DEAD ? REGEX_NEVER : matcher_end_bytes(matcher, next);

        if (matcher->regex.failure)
            return CLASS_NONE;
        if (rest < best_bytes) {
            best_bytes = rest;
            best = class;
        }
    }
    matcher->states[state].end_class = (uint16_t)best;
    return best;
}

/* --- tokens ------------------------------------------------------------------------------------------------------- */

/* Places in the slices of a trie that bytes lead to. */
typedef struct TriePlaces {
    uint32_t begin[_TRIE_SLICES_N], end[_TRIE_SLICES_N]; /* nodes below */
} TriePlaces;

/* Goes along a byte. *is_tokenp: a token ends there. Whether there are tokens that go on so. */
static bool step_places(const TokenTrie *trie, TriePlaces *places, uint8_t byte, bool *is_tokenp) {
    bool has_more = false;

    *is_tokenp = false;
    for (int i = 0; i < _TRIE_SLICES_N; i++) {
        uint32_t at = places->begin[i];

        while (at < places->end[i] && trie->nodes[at].byte != byte)
            at += trie->nodes[at].n_nodes;
        if (at >= places->end[i]) {
            places->end[i] = places->begin[i];
            continue;
        }
        *is_tokenp = *is_tokenp || trie->nodes[at].token != TRIE_TOKEN_NONE;
        places->begin[i] = at + 1;
        places->end[i] = at + trie->nodes[at].n_nodes;
        has_more = has_more || places->begin[i] < places->end[i];
    }
    return has_more;
}

/* Returns the state behind the longest token along the way of a state that is no end; STATE_DEAD: there is none. */
static GrammarState step_token(GrammarMatcher *matcher, GrammarState state) {
    const TokenTrie *trie = matcher->trie;
    GrammarState found = STATE_DEAD;
    TriePlaces places;
    bool has_more = true, is_token;

    for (int i = 0; i < _TRIE_SLICES_N; i++) {
        places.begin[i] = trie->slices[i].begin;
        places.end[i] = trie->slices[i].end;
    }
    while (has_more && !matcher->states[state].is_end) {
        const uint32_t class = end_class(matcher, state);

        if (class == CLASS_NONE)
            break;
        has_more = step_places(trie, &places, matcher->regex.sample_of[class], &is_token);
        state = matcher_step(matcher, state, class);
        if (state == STATE_DEAD)
            break;
        found = is_token ? state : found;
    }
    return found;
}

uint32_t matcher_end_tokens(GrammarMatcher *matcher, GrammarState state) {
    GrammarState *way = NULL;
    size_t n = 0, room = 0;
    uint32_t n_tokens = 0;

    while (matcher->states[state].end_tokens == REGEX_UNKNOWN && !matcher->states[state].is_end) {
        if (n == room) {
            GrammarState *grown = realloc(way, (2 * room + 64) * sizeof(*way));

            if (!grown) {
                matcher->regex.failure = err_raise(-ENOMEM);
                break;
            }
            way = grown;
            room = 2 * room + 64;
        }
        way[n++] = state;
        state = step_token(matcher, state);
        if (matcher->regex.failure)
            break;
    }
    if (matcher->regex.failure) {
        free(way);
        return REGEX_NEVER;
    }
    n_tokens = matcher->states[state].is_end ? 0 : matcher->states[state].end_tokens;
    while (n--) {
        n_tokens = n_tokens == REGEX_NEVER ? REGEX_NEVER : MIN(n_tokens + 1, REGEX_BYTES_MAX);
        matcher->states[way[n]].end_tokens = n_tokens;
    }
    free(way);
    return n_tokens;
}

/* --- what callers ask --------------------------------------------------------------------------------------------- */

int grammar_matcher_end_bytes(GrammarMatcher *matcher, GrammarState state, uint32_t *n_bytesp) {
    uint32_t n_bytes;

    matcher_begin_call(matcher);
    n_bytes = matcher_end_bytes(matcher, state);
    if (matcher->regex.failure)
        return matcher->regex.failure;
    *n_bytesp = n_bytes >= REGEX_BYTES_MAX ? UINT32_MAX : n_bytes;
    return 0;
}

int grammar_matcher_end_tokens(GrammarMatcher *matcher, GrammarState state, uint32_t *n_tokensp) {
    uint32_t n_tokens;

    matcher_begin_call(matcher);
    n_tokens = matcher_end_tokens(matcher, state);
    if (matcher->regex.failure)
        return matcher->regex.failure;
    *n_tokensp = n_tokens;
    return 0;
}

int grammar_matcher_forced(GrammarMatcher *matcher, GrammarState state, uint8_t *bytes, size_t n_max,
                           size_t *n_bytesp) {
    const ByteRegex *regex = &matcher->regex;
    size_t n = 0;

    matcher_begin_call(matcher);
    for (; n < n_max && !matcher->states[state].is_end; n++) {
        GrammarState only = STATE_DEAD;
        uint32_t n_ways = 0;

        for (unsigned int byte = 0; byte < 256 && n_ways < 2; byte++) {
            const GrammarState next = matcher_step(matcher, state, regex->class_of[byte]);

            if (regex->failure)
                return regex->failure;
            if (next == STATE_DEAD)
                continue;
            n_ways++;
            only = next;
            bytes[n] = (uint8_t)byte;
        }
        if (n_ways != 1)
            break;
        state = only;
    }
    *n_bytesp = n;
    return 0;
}
