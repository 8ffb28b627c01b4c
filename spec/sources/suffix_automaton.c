// SPDX-License-Identifier: Apache-2.0
#include "spec/sources/suffix_automaton.h"

#include <assert.h>
#include <stdbool.h>

#include "base/hash_key.h"
#include "spec/sources/chunk_list.h"
#include "spec/sources/drafter.h"

enum {
    TOKENS_MAX = 1 << 30, /* most tokens: twice as many states are still numbers of 32 bits */
    NOWHERE = UINT32_MAX, /* the link of the root */
    STATES_SHIFT = 13,    /* chunks of 256, 96 and 64 KiB */
    EDGES_SHIFT = 12,
    TEXT_SHIFT = 14
};

/* An edge; `to` 0: no edge, since none leads to the root. */
typedef struct State {
    uint32_t link, len, first_end, last_end;
    uint32_t token, to; /* the state's first edge */
    uint32_t spill;     /* the state's newest further edge + 1, or 0 */
    uint32_t count;
} State;

/* Edges are found by linear hashing, not by base/hash_table, which moves all keys at once as it grows. There is one
 * bucket more than there are edges: a further edge splits one bucket, and no edge waits for the whole table to double.
 * Edge i holds the head of bucket i, whatever that edge is. */
typedef struct Edge {
    uint32_t from, token, to;
    uint32_t next;  /* next further edge of the same state, as spill */
    uint32_t chain; /* the next edge + 1 of the same bucket, or 0 */
    uint32_t head;  /* head of bucket i, as chain */
} Edge;

struct SuffixAutomaton {
    AccountTable *accounts;
    HashKey key;
    ChunkList states, edges, text;
    uint32_t n, n_states, n_edges, last;
    uint32_t n_text; /* tokens of the text that is being appended */
    uint64_t n_new;  /* tokens and borders of earlier texts, without texts that were a substring already */
    bool is_new;     /* whether the text that is being appended is no substring */
    uint64_t steps;
};

static_assert(2 * sizeof(State) + sizeof(Edge) + sizeof(uint32_t) == SUFFIX_AUTOMATON_TOKEN_BYTES,
              "bytes a token as the header has them");

int suffix_automaton_new(AccountTable *accounts, SuffixAutomaton **automatonp) {
    _cleanup_(suffix_automaton_freep) SuffixAutomaton *automaton = calloc(1, sizeof(*automaton));
    int r;

    if (!automaton)
        return -ENOMEM;
    r = hash_key_init(&automaton->key);
    if (r < 0)
        return r;
    automaton->accounts = accounts;
    chunk_list_init(&automaton->states, sizeof(State), STATES_SHIFT);
    chunk_list_init(&automaton->edges, sizeof(Edge), EDGES_SHIFT);
    chunk_list_init(&automaton->text, sizeof(uint32_t), TEXT_SHIFT);
    *automatonp = steal(&automaton);
    return 0;
}

void suffix_automaton_free(SuffixAutomaton *automaton) {
    if (!automaton)
        return;
    chunk_list_deinit(&automaton->states);
    chunk_list_deinit(&automaton->edges);
    chunk_list_deinit(&automaton->text);
    free(automaton);
}

static State *state_at(const SuffixAutomaton *a, uint32_t i) {
    return chunk_list_at(&a->states, i);
}

static Edge *edge_at(const SuffixAutomaton *a, uint32_t i) {
    return chunk_list_at(&a->edges, i);
}

static uint32_t edge_hash(const SuffixAutomaton *a, uint32_t from, uint32_t token) {
    return (uint32_t)hash_key_u64(&a->key, (uint64_t)from << 32 | token);
}

/* Returns the highest bit of the last bucket's number: buckets from there on are split already. */
static uint32_t top_bit(uint32_t last_bucket) {
    return last_bucket ? 1u << (31 - __builtin_clz(last_bucket)) : 0;
}

static uint32_t *bucket_of(const SuffixAutomaton *a, uint32_t hash) {
    uint32_t bit = top_bit(a->n_edges), at = bit ? hash & (2 * bit - 1) : 0;

    return &edge_at(a, at > a->n_edges ? at & (bit - 1) : at)->head;
}

/* Returns where the edge leads, to read or to change; NULL: there is no edge. */
static uint32_t *edge_find(const SuffixAutomaton *a, uint32_t from, uint32_t token) {
    State *state = state_at(a, from);

    if (!state->to)
        return NULL;
    if (state->token == token)
        return &state->to;
    if (!state->spill)
        return NULL;
    for (uint32_t i = *bucket_of(a, edge_hash(a, from, token)); i;) {
        Edge *edge = edge_at(a, i - 1);

        if (edge->from == from && edge->token == token)
            return &edge->to;
        i = edge->chain;
    }
    return NULL;
}

/* Fills the newest bucket with its edges from the bucket that had them so far. */
static void split_bucket(SuffixAutomaton *a) {
    uint32_t bit = top_bit(a->n_edges);
    uint32_t *chain = &edge_at(a, a->n_edges & ~bit)->head, *new_head = &edge_at(a, a->n_edges)->head;

    while (*chain) {
        Edge *edge = edge_at(a, *chain - 1);

        if (edge_hash(a, edge->from, edge->token) & bit) {
            uint32_t moved = *chain;

            *chain = edge->chain;
            edge->chain = *new_head;
            *new_head = moved;
        } else {
            chain = &edge->chain;
        }
    }
}

static void edge_add(SuffixAutomaton *a, uint32_t from, uint32_t token, uint32_t to) {
    State *state = state_at(a, from);
    Edge *edge;
    uint32_t *head;

    if (!state->to) {
        state->token = token;
        state->to = to;
        return;
    }
    assert(a->n_edges + 1 < a->edges.n_items);
    edge = edge_at(a, a->n_edges++);
    split_bucket(a);
    head = bucket_of(a, edge_hash(a, from, token));
    *edge = (Edge){ from, token, to, .next = state->spill, .chain = *head, .head = edge->head };
    *head = state->spill = a->n_edges;
}

/* Returns the room that n further tokens take at worst: 2 states each. A state has its first edge within itself.
 * Further edges are never more than tokens and borders: an edge outside a spanning tree belongs to a suffix of its own
 * (the longest string to its state, the edge, and on to the end of a text), and each text ends in one state without an
 * edge. Texts that are substrings of others are not needed for that. */
typedef struct Needs {
    uint64_t states, edges, text;
} Needs;

static Needs needs_for(const SuffixAutomaton *a, size_t n) {
    return (Needs){ .states = (a->n_states ? a->n_states : 1) + 2 * (uint64_t)n,
                    .edges = a->n_new + a->n_text + n + 1 + 1, /* a border, and one bucket more than edges */
                    .text = a->n + (uint64_t)n };
}

static uint32_t state_add(SuffixAutomaton *a) {
    assert(a->n_states < a->states.n_items);
    return a->n_states++;
}

static uint32_t clone(SuffixAutomaton *a, uint32_t of, uint32_t len) {
    uint32_t copy = state_add(a);
    State from = *state_at(a, of), *to = state_at(a, copy);

    *to = from;
    to->len = len;
    to->to = to->spill = 0;
    if (from.to)
        edge_add(a, copy, from.token, from.to);
    for (uint32_t i = from.spill; i; i = edge_at(a, i - 1)->next)
        edge_add(a, copy, edge_at(a, i - 1)->token, edge_at(a, i - 1)->to);
    state_at(a, of)->link = copy;
    return copy;
}

/* Returns the state of p's longest string with the token behind it, where p has such an edge. */
static uint32_t exact_next(SuffixAutomaton *a, uint32_t p, uint32_t token) {
    uint32_t q = *edge_find(a, p, token), len = state_at(a, p)->len + 1, copy;

    if (state_at(a, q)->len == len)
        return q;
    copy = clone(a, q, len);
    for (; p != NOWHERE; p = state_at(a, p)->link, a->steps++) {
        uint32_t *to = edge_find(a, p, token);

        if (!to || *to != q)
            break;
        *to = copy;
    }
    return copy;
}

static uint32_t new_state(SuffixAutomaton *a, uint32_t token) {
    uint32_t p = a->last, new = state_add(a), link;

    *state_at(a, new) = (State){ .len = state_at(a, p)->len + 1, .first_end = a->n };
    for (; p != NOWHERE && !edge_find(a, p, token); p = state_at(a, p)->link, a->steps++)
        edge_add(a, p, token, new);
    link = p == NOWHERE ? 0 : exact_next(a, p, token);
    state_at(a, new)->link = link;
    a->is_new = true;
    return new;
}

/* Counts the suffixes of the text once more. They have as many states as the text's end came before in longer and
 * longer contexts: few in a text that people write, as many as tokens in a text of one token. Counting all of them
 * would cost that many a token, so only the longest are counted: RECENT states beside the whole text's. */
static void count_suffixes(SuffixAutomaton *a) {
    uint32_t p = a->last;

    for (int i = 0; i <= SUFFIX_AUTOMATON_RECENT && p; i++) {
        State *state = state_at(a, p);

        state->last_end = a->n;
        state->count++;
        p = state->link;
    }
}

/* Behind a border the text may be a substring already: it needs no state then. */
static void extend(SuffixAutomaton *a, uint32_t token) {
    *(uint32_t *)chunk_list_at(&a->text, a->n++) = token;
    a->n_text++;
    a->last = edge_find(a, a->last, token) ? exact_next(a, a->last, token) : new_state(a, token);
    count_suffixes(a);
}

/* Returns 0; -ENOMEM or DRAFTER_E_MEMORY (the account's limit, or 2^30 tokens): the texts are as they were. */
int suffix_automaton_reserve(SuffixAutomaton *a, size_t n) {
    Needs needs = needs_for(a, n);
    int r;

    if (n > TOKENS_MAX || needs.text > TOKENS_MAX)
        return DRAFTER_E_MEMORY;
    r = chunk_list_reserve(&a->states, a->accounts, needs.states);
    if (!r)
        r = chunk_list_reserve(&a->edges, a->accounts, needs.edges);
    if (!r)
        r = chunk_list_reserve(&a->text, a->accounts, needs.text);
    if (!r && !a->n_states) {
        state_at(a, 0)->link = NOWHERE;
        a->n_states = 1;
    }
    return r;
}

/* Appends tokens. Errors as reserve, with nothing taken in. */
int suffix_automaton_append(SuffixAutomaton *a, const uint32_t *tokens, size_t n) {
    int r = suffix_automaton_reserve(a, n);

    if (r)
        return r;
    for (size_t i = 0; i < n; i++)
        extend(a, tokens[i]);
    return 0;
}

void suffix_automaton_border(SuffixAutomaton *a) {
    if (a->is_new)
        a->n_new += (uint64_t)a->n_text + 1;
    a->is_new = false;
    a->n_text = 0;
    a->last = 0;
}

SuffixMatch suffix_automaton_follow(const SuffixAutomaton *a, SuffixMatch match, uint32_t token) {
    uint32_t *to;

    if (!a->n_states)
        return (SuffixMatch){ 0 };
    while (!(to = edge_find(a, match.state, token))) {
        if (!match.state)
            return (SuffixMatch){ 0 };
        match.state = state_at(a, match.state)->link;
        match.len = state_at(a, match.state)->len;
    }
    return (SuffixMatch){ *to, match.len + 1 };
}

SuffixMatch suffix_automaton_settled(const SuffixAutomaton *a, SuffixMatch match) {
    while (match.state && match.len <= suffix_automaton_len(a, suffix_automaton_link(a, match.state)))
        match.state = suffix_automaton_link(a, match.state);
    return match;
}

bool suffix_automaton_next(const SuffixAutomaton *a, uint32_t state, uint32_t *atp, SuffixNext *nextp) {
    uint32_t at = *atp, to;

    if (!a->n_states || at == 1)
        return false;
    if (!at) {
        to = state_at(a, state)->to;
        if (!to)
            return false;
        nextp->token = state_at(a, state)->token;
        *atp = state_at(a, state)->spill + 1;
    } else {
        const Edge *edge = edge_at(a, at - 2);

        to = edge->to;
        nextp->token = edge->token;
        *atp = edge->next + 1;
    }
    nextp->count = state_at(a, to)->count;
    nextp->last_end = state_at(a, to)->last_end;
    return true;
}

/* Lists continuations in the order of suffix_automaton_next(). Returns how many there are, at most max. */
size_t suffix_automaton_nexts(const SuffixAutomaton *a, uint32_t state, uint32_t *tokens, size_t max) {
    SuffixNext next;
    uint32_t at = 0;
    size_t n = 0;

    while (n < max && suffix_automaton_next(a, state, &at, &next))
        tokens[n++] = next.token;
    return n;
}

uint32_t suffix_automaton_count(const SuffixAutomaton *a, uint32_t state) {
    return a->n_states ? state_at(a, state)->count : 0;
}

uint32_t suffix_automaton_first_end(const SuffixAutomaton *a, uint32_t state) {
    return a->n_states ? state_at(a, state)->first_end : 0;
}

uint32_t suffix_automaton_link(const SuffixAutomaton *a, uint32_t state) {
    return state ? state_at(a, state)->link : 0;
}

uint32_t suffix_automaton_len(const SuffixAutomaton *a, uint32_t state) {
    return state ? state_at(a, state)->len : 0;
}

/* Returns token i, below n_tokens, of all texts one behind the other. */
uint32_t suffix_automaton_token(const SuffixAutomaton *a, uint32_t i) {
    return *(const uint32_t *)chunk_list_at(&a->text, i);
}

size_t suffix_automaton_n_tokens(const SuffixAutomaton *a) {
    return a->n;
}

size_t suffix_automaton_n_states(const SuffixAutomaton *a) {
    return a->n_states;
}

uint64_t suffix_automaton_bytes(const SuffixAutomaton *a) {
    return a->states.bytes + a->edges.bytes + a->text.bytes;
}

uint64_t suffix_automaton_bytes_for(const SuffixAutomaton *a, size_t n) {
    Needs needs = needs_for(a, n);

    return chunk_list_bytes_for(&a->states, needs.states) + chunk_list_bytes_for(&a->edges, needs.edges) +
           chunk_list_bytes_for(&a->text, needs.text);
}

uint64_t suffix_automaton_steps(const SuffixAutomaton *a) {
    return a->steps;
}
