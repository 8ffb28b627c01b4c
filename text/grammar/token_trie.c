// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/token_trie.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/min_max.h"
#include "text/grammar/plain_chars.h"
#include "text/grammar/token_trie_private.h"

/* A token to sort. */
typedef struct Entry {
    TokenBytes token;
    uint32_t id;
    uint16_t slice;   /* TrieSliceKind */
    uint16_t n_chars; /* of a plain token */
} Entry;

/* Finds out whether a token is plain. */
static Entry entry_of(TokenBytes token, uint32_t id) {
    Entry entry = { token, id, TRIE_SLICE_PLAIN, 0 };
    PlainPlace place = PLAIN_BOUNDARY;

    for (uint32_t i = 0; i < token.n_bytes && place != PLAIN_NONE; i++) {
        place = plain_step(place, token.bytes[i]);
        entry.n_chars += place == PLAIN_BOUNDARY;
    }
    if (place != PLAIN_BOUNDARY)
        entry.slice = TRIE_SLICE_OTHER;
    return entry;
}

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

/* --- plain tokens ------------------------------------------------------------------------------------------------- */

static void set_bit(uint64_t *mask, uint32_t token) {
    mask[token / 64] |= UINT64_C(1) << (token % 64);
}

static int compare_lengths(const void *a, const void *b) {
    const LongToken *x = a, *y = b;

    return x->n_chars != y->n_chars ? (x->n_chars < y->n_chars ? -1 : 1)
                                    : (x->token > y->token) - (x->token < y->token);
}

/* Makes the masks of plain tokens by their length, and the list of the long ones. */
static int sort_lengths(TokenTrie *trie, const Entry *entries, size_t n) {
    const size_t n_words = TOKEN_MASK_WORDS(MAX(trie->n_tokens, 1));

    trie->all_plain = calloc(n_words, sizeof(*trie->all_plain));
    if (!trie->all_plain)
        return err_raise(-ENOMEM);
    for (int i = 0; i <= TRIE_CHARS_MAX; i++) {
        trie->plain[i] = calloc(n_words, sizeof(**trie->plain));
        if (!trie->plain[i])
            return err_raise(-ENOMEM);
    }
    for (size_t i = 0; i < n; i++) {
        set_bit(trie->all_plain, entries[i].id);
        if (entries[i].n_chars <= TRIE_CHARS_MAX)
            set_bit(trie->plain[entries[i].n_chars], entries[i].id);
        else
            trie->n_long++;
    }
    for (int i = 1; i <= TRIE_CHARS_MAX; i++)
        for (size_t w = 0; w < n_words; w++)
            trie->plain[i][w] |= trie->plain[i - 1][w];
    trie->long_tokens = calloc(MAX(trie->n_long, 1), sizeof(*trie->long_tokens));
    if (!trie->long_tokens)
        return err_raise(-ENOMEM);
    trie->n_long = 0;
    for (size_t i = 0; i < n; i++)
        if (entries[i].n_chars > TRIE_CHARS_MAX)
            trie->long_tokens[trie->n_long++] =
                (LongToken){ entries[i].id, MIN(entries[i].n_chars, TRIE_CHARS_ENDLESS) };
    qsort(trie->long_tokens, trie->n_long, sizeof(*trie->long_tokens), compare_lengths);
    return 0;
}

/* Finds the place behind each plain node and the characters below it. */
static int measure_nodes(TokenTrie *trie) {
    const TrieSlice *slice = &trie->slices[TRIE_SLICE_PLAIN];
    const uint32_t n = slice->end - slice->begin;
    const TrieNode *nodes = trie->nodes + slice->begin;
    TrieReach before[TOKEN_TRIE_BYTES_MAX + 1] = { { 0, PLAIN_BOUNDARY } }; /* by depth: characters, place */

    trie->reach = calloc(MAX(n, 1), sizeof(*trie->reach));
    if (!trie->reach)
        return err_raise(-ENOMEM);
    for (uint32_t i = 0; i < n; i++)
        before[nodes[i].depth + 1].place = trie->reach[i].place =
            (uint8_t)plain_step(before[nodes[i].depth].place, nodes[i].byte);
    for (uint32_t i = n; i--;)
        for (uint32_t child = i + 1; child < i + nodes[i].n_nodes; child += nodes[child].n_nodes) {
            const uint32_t n_chars = trie->reach[child].n_chars + (trie->reach[child].place == PLAIN_BOUNDARY);

            trie->reach[i].n_chars = (uint8_t)MIN(MAX(trie->reach[i].n_chars, n_chars), TRIE_CHARS_ENDLESS);
        }
    return 0;
}

/* --- the trie ----------------------------------------------------------------------------------------------------- */

static int allocate(TokenTrie *trie, size_t n_bytes) {
    const uint32_t n = MAX(trie->n_tokens, 1);

    trie->bytes = malloc(MAX(n_bytes, 1));
    trie->ends = malloc(n * sizeof(*trie->ends));
    trie->doubles = malloc(n * sizeof(*trie->doubles));
    trie->nodes = malloc(MAX(n_bytes, 1) * sizeof(*trie->nodes));
    return trie->bytes && trie->ends && trie->doubles && trie->nodes ? 0 : err_raise(-ENOMEM);
}

int token_trie_new(TokenTrie **triep, const TokenBytes *tokens, uint32_t n_tokens) {
    _cleanup_(token_trie_unrefp) TokenTrie *trie = calloc(1, sizeof(*trie));
    _cleanup_(freep) Entry *entries = malloc(MAX(n_tokens, 1) * sizeof(*entries));
    size_t n_bytes = 0, n_entries = 0, n_others = 0;
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
        if (!tokens[id].n_bytes || tokens[id].n_bytes > TOKEN_TRIE_BYTES_MAX)
            continue;
        entries[n_entries] = entry_of(token_trie_bytes(trie, id), id);
        n_others += entries[n_entries++].slice == TRIE_SLICE_OTHER;
    }
    if (n_entries)
        qsort(entries, n_entries, sizeof(*entries), compare_entries);
    add_slice(trie, &trie->slices[TRIE_SLICE_OTHER], entries, n_others);
    add_slice(trie, &trie->slices[TRIE_SLICE_PLAIN], entries + n_others, n_entries - n_others);
    r = sort_lengths(trie, entries + n_others, n_entries - n_others);
    if (!r)
        r = measure_nodes(trie);
    if (r)
        return r;
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
    for (int i = 0; i <= TRIE_CHARS_MAX; i++)
        free(trie->plain[i]);
    free(trie->all_plain);
    free(trie->long_tokens);
    free(trie->reach);
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
           (trie->slices[TRIE_SLICE_PLAIN].end - trie->slices[TRIE_SLICE_PLAIN].begin) * sizeof(*trie->reach) +
           trie->n_long * sizeof(*trie->long_tokens) +
           (TRIE_CHARS_MAX + 2) * TOKEN_MASK_WORDS(trie->n_tokens) * sizeof(uint64_t);
}
