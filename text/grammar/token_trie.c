// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/token_trie.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/min_max.h"
#include "base/strings/utf8.h"
#include "text/grammar/token_trie_private.h"

/* Which slice a token belongs to; _TRIE_SLICES_N: none, for a token that is never allowed. */
static TrieSliceKind slice_of(TokenBytes token) {
    uint32_t n_chars = 0;

    if (!token.n_bytes || token.n_bytes > TOKEN_TRIE_BYTES_MAX)
        return _TRIE_SLICES_N;
    for (uint32_t at = 0; at < token.n_bytes; n_chars++) {
        const uint8_t byte = token.bytes[at];
        const size_t n = utf8_sequence(token.bytes + at, token.n_bytes - at);

        if (!n || byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f ||
            (n == 3 && !memcmp(token.bytes + at, "\xe2\x80", 2) && (token.bytes[at + 2] & 0xfe) == 0xa8))
            return TRIE_SLICE_OTHER;
        at += (uint32_t)n;
    }
    return n_chars <= TRIE_CHARS_SHORT  ? TRIE_SLICE_SHORT
           : n_chars <= TRIE_CHARS_LONG ? TRIE_SLICE_LONG
                                        : TRIE_SLICE_ENDLESS;
}

/* A token to sort. */
typedef struct Entry {
    TokenBytes token;
    uint32_t id;
    TrieSliceKind slice;
} Entry;

static int compare_entries(const void *a, const void *b) {
    const Entry *x = a, *y = b;
    int order = (int)x->slice - (int)y->slice;

    if (!order)
        order = memcmp(x->token.bytes, y->token.bytes, MIN(x->token.n_bytes, y->token.n_bytes));
    if (!order)
        order = (x->token.n_bytes > y->token.n_bytes) - (x->token.n_bytes < y->token.n_bytes);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static uint32_t common_bytes(TokenBytes a, TokenBytes b) {
    const uint32_t n = MIN(a.n_bytes, b.n_bytes);
    uint32_t i = 0;

    while (i < n && a.bytes[i] == b.bytes[i])
        i++;
    return i;
}

/* Adds the sorted tokens of a slice to the nodes, which have room. */
static void add_slice(TokenTrie *trie, TrieSlice *slice, const Entry *entries, size_t n) {
    uint32_t open[TOKEN_TRIE_BYTES_MAX], n_open = 0; /* nodes of the last token's bytes */

    slice->begin = trie->n_nodes;
    memset(slice->roots, 0xff, sizeof(slice->roots));
    for (size_t i = 0; i < n; i++) {
        const TokenBytes token = entries[i].token;
        const uint32_t n_common = i ? common_bytes(entries[i - 1].token, token) : 0;

        slice->mask[entries[i].id / 64] |= UINT64_C(1) << (entries[i].id % 64);
        if (i && n_common == token.n_bytes) { /* the same bytes again: sorting puts shorter tokens first */
            trie->doubles[trie->n_doubles++] = (TokenDouble){ trie->nodes[trie->n_nodes - 1].token, entries[i].id };
            continue;
        }
        for (; n_open > n_common; n_open--)
            trie->nodes[open[n_open - 1]].n_nodes = trie->n_nodes - open[n_open - 1];
        for (; n_open < token.n_bytes; n_open++) {
            open[n_open] = trie->n_nodes;
            trie->nodes[trie->n_nodes++] =
                (TrieNode){ .byte = token.bytes[n_open], .token = TRIE_TOKEN_NONE, .depth = n_open };
        }
        trie->nodes[trie->n_nodes - 1].token = entries[i].id;
    }
    while (n_open--)
        trie->nodes[open[n_open]].n_nodes = trie->n_nodes - open[n_open];
    slice->end = trie->n_nodes;
    for (uint32_t at = slice->begin; at < slice->end; at += trie->nodes[at].n_nodes)
        slice->roots[trie->nodes[at].byte] = at;
}

static int allocate(TokenTrie *trie, size_t n_bytes) {
    const uint32_t n = MAX(trie->n_tokens, 1);

    trie->bytes = malloc(MAX(n_bytes, 1));
    trie->ends = malloc(n * sizeof(*trie->ends));
    trie->doubles = malloc(n * sizeof(*trie->doubles));
    trie->nodes = malloc(MAX(n_bytes, 1) * sizeof(*trie->nodes));
    for (int i = 0; i < _TRIE_SLICES_N; i++) {
        trie->slices[i].mask = calloc(TOKEN_MASK_WORDS(n), sizeof(*trie->slices[i].mask));
        if (!trie->slices[i].mask)
            return err_raise(-ENOMEM);
    }
    return trie->bytes && trie->ends && trie->doubles && trie->nodes ? 0 : err_raise(-ENOMEM);
}

int token_trie_new(TokenTrie **triep, const TokenBytes *tokens, uint32_t n_tokens) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = calloc(1, sizeof(*trie));
    _cleanup_(freep) Entry *entries = malloc(MAX(n_tokens, 1) * sizeof(*entries));
    size_t n_bytes = 0, n_entries = 0;
    TrieNode *nodes;
    TokenDouble *doubles;
    int r;

    if (!trie || !entries)
        return err_raise(-ENOMEM);
    trie->n_refs = 1;
    trie->n_tokens = n_tokens;
    for (uint32_t id = 0; id < n_tokens; id++)
        n_bytes += tokens[id].n_bytes;
    if (n_tokens > TRIE_TOKEN_NONE - 1 || n_bytes >= 1u << 24)
        return err_raise(-EINVAL);
    r = allocate(trie, n_bytes);
    if (r)
        return r;
    n_bytes = 0;
    for (uint32_t id = 0; id < n_tokens; id++) {
        if (tokens[id].n_bytes)
            memcpy(trie->bytes + n_bytes, tokens[id].bytes, tokens[id].n_bytes);
        n_bytes += tokens[id].n_bytes;
        trie->ends[id] = (uint32_t)n_bytes;
        entries[n_entries] = (Entry){ token_trie_bytes(trie, id), id, slice_of(tokens[id]) };
        n_entries += entries[n_entries].slice != _TRIE_SLICES_N;
    }
    if (n_entries)
        qsort(entries, n_entries, sizeof(*entries), compare_entries);
    for (size_t i = 0, slice = 0, end; slice < _TRIE_SLICES_N; slice++, i = end) {
        for (end = i; end < n_entries && entries[end].slice == slice;)
            end++;
        add_slice(trie, &trie->slices[slice], entries + i, end - i);
    }
    nodes = realloc(trie->nodes, MAX(trie->n_nodes, 1) * sizeof(*nodes));
    trie->nodes = nodes ? nodes : trie->nodes;
    doubles = realloc(trie->doubles, MAX(trie->n_doubles, 1) * sizeof(*doubles));
    trie->doubles = doubles ? doubles : trie->doubles;
    *triep = steal(&trie);
    return 0;
}

TokenTrie *token_trie_ref(TokenTrie *trie) {
    trie->n_refs++;
    return trie;
}

TokenTrie *token_trie_unref(TokenTrie *trie) {
    if (!trie || --trie->n_refs)
        return NULL;
    for (int i = 0; i < _TRIE_SLICES_N; i++)
        free(trie->slices[i].mask);
    free(trie->bytes);
    free(trie->ends);
    free(trie->doubles);
    free(trie->nodes);
    free(trie);
    return NULL;
}

uint32_t token_trie_n_tokens(const TokenTrie *trie) {
    return trie->n_tokens;
}

TokenBytes token_trie_bytes(const TokenTrie *trie, uint32_t token) {
    const uint32_t begin = token ? trie->ends[token - 1] : 0;

    return (TokenBytes){ trie->bytes + begin, trie->ends[token] - begin };
}

size_t token_trie_memory_bytes(const TokenTrie *trie) {
    return sizeof(*trie) + (trie->n_tokens ? trie->ends[trie->n_tokens - 1] : 0) +
           trie->n_nodes * sizeof(*trie->nodes) + trie->n_tokens * sizeof(*trie->ends) +
           trie->n_doubles * sizeof(*trie->doubles) +
           _TRIE_SLICES_N * TOKEN_MASK_WORDS(trie->n_tokens) * sizeof(uint64_t);
}
