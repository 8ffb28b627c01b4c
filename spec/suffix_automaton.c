// SPDX-License-Identifier: Apache-2.0
#include "spec/suffix_automaton.h"

#include <assert.h>
#include <string.h>

#include "base/hash_key.h"
#include "spec/drafter.h"

enum {
    CAPACITY_MIN = 64,
    CAPACITY_MAX = 1 << 30, /* twice as many states are still numbers of 32 bits */
    NOWHERE = UINT32_MAX    /* the link of the root */
};

/* `to` 0: no edge, since none leads to the root. */
typedef struct State {
    uint32_t link, len, first_end, last_end;
    uint32_t token, to; /* its first edge */
    uint32_t spill;     /* its newest further edge + 1, or 0 */
    uint32_t reserved;
} State;

typedef struct Edge {
    uint32_t from, token, to, next; /* next: as spill */
} Edge;

struct SuffixAutomaton {
    AccountTable *accounts;
    HashKey key;
    AccountedBlock block;
    State *states;
    Edge *edges;
    uint32_t *slots; /* edge + 1, or 0 */
    uint32_t *text;
    uint32_t capacity, n, n_states, n_edges, last;
    uint64_t steps;
};

static_assert(2 * sizeof(State) + sizeof(Edge) + 3 * sizeof(uint32_t) == SUFFIX_AUTOMATON_TOKEN_BYTES,
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
    *automatonp = steal(&automaton);
    return 0;
}

void suffix_automaton_free(SuffixAutomaton *automaton) {
    if (!automaton)
        return;
    if (automaton->capacity)
        accounted_block_deinit(&automaton->block);
    free(automaton);
}

static uint32_t *slot_of(const SuffixAutomaton *a, uint32_t from, uint32_t token) {
    uint32_t mask = 2 * a->capacity - 1;
    uint32_t at = (uint32_t)hash_key_u64(&a->key, (uint64_t)from << 32 | token) & mask;

    for (;; at = (at + 1) & mask) {
        const Edge *edge = a->slots[at] ? &a->edges[a->slots[at] - 1] : NULL;

        if (!edge || (edge->from == from && edge->token == token))
            return &a->slots[at];
    }
}

/* Where the edge leads to, to be read or changed; NULL: there is none. */
static uint32_t *edge_find(const SuffixAutomaton *a, uint32_t from, uint32_t token) {
    State *state = &a->states[from];
    uint32_t *slot;

    if (!state->to)
        return NULL;
    if (state->token == token)
        return &state->to;
    if (!state->spill)
        return NULL;
    slot = slot_of(a, from, token);
    return *slot ? &a->edges[*slot - 1].to : NULL;
}

static void edge_add(SuffixAutomaton *a, uint32_t from, uint32_t token, uint32_t to) {
    State *state = &a->states[from];

    if (!state->to) {
        state->token = token;
        state->to = to;
        return;
    }
    a->edges[a->n_edges] = (Edge){ .from = from, .token = token, .to = to, .next = state->spill };
    *slot_of(a, from, token) = state->spill = ++a->n_edges;
}

/* Room for n tokens at the worst: 2n states, and n edges beside the first of each state. 0, -ENOMEM or
 * DRAFTER_E_MEMORY with nothing changed. */
static int reserve(SuffixAutomaton *a, uint64_t n) {
    uint64_t capacity = a->capacity ? a->capacity : CAPACITY_MIN;
    SuffixAutomaton old = *a;
    AccountedBlock block = { 0 };
    int r;

    if (n <= a->capacity)
        return 0;
    while (capacity < n && capacity < CAPACITY_MAX)
        capacity *= 2;
    if (n > capacity)
        return DRAFTER_E_MEMORY;
    r = accounted_block_init(&block, a->accounts, ACCOUNT_DRAFTDB, capacity * SUFFIX_AUTOMATON_TOKEN_BYTES);
    if (r)
        return r < 0 ? r : DRAFTER_E_MEMORY;
    a->block = block;
    a->capacity = (uint32_t)capacity;
    a->states = block.data;
    a->edges = (Edge *)(a->states + 2 * capacity);
    a->slots = (uint32_t *)(a->edges + capacity);
    a->text = a->slots + 2 * capacity;
    if (!old.capacity) {
        a->states[0].link = NOWHERE;
        a->n_states = 1;
        return 0;
    }
    memcpy(a->states, old.states, old.n_states * sizeof(State));
    memcpy(a->edges, old.edges, old.n_edges * sizeof(Edge));
    memcpy(a->text, old.text, old.n * sizeof(uint32_t));
    for (uint32_t i = 0; i < a->n_edges; i++)
        *slot_of(a, a->edges[i].from, a->edges[i].token) = i + 1;
    accounted_block_deinit(&old.block);
    return 0;
}

static uint32_t clone(SuffixAutomaton *a, uint32_t of, uint32_t len) {
    uint32_t copy = a->n_states++;
    State from = a->states[of];

    a->states[copy] = from;
    a->states[copy].len = len;
    a->states[copy].to = a->states[copy].spill = 0;
    if (from.to)
        edge_add(a, copy, from.token, from.to);
    for (uint32_t i = from.spill; i; i = a->edges[i - 1].next)
        edge_add(a, copy, a->edges[i - 1].token, a->edges[i - 1].to);
    a->states[of].link = copy;
    return copy;
}

/* The state that the new one's link goes to. */
static uint32_t link_for(SuffixAutomaton *a, uint32_t p, uint32_t token) {
    uint32_t q = *edge_find(a, p, token), copy;

    if (a->states[q].len == a->states[p].len + 1)
        return q;
    copy = clone(a, q, a->states[p].len + 1);
    for (; p != NOWHERE; p = a->states[p].link, a->steps++) {
        uint32_t *to = edge_find(a, p, token);

        if (!to || *to != q)
            break;
        *to = copy;
    }
    return copy;
}

static void extend(SuffixAutomaton *a, uint32_t token) {
    uint32_t p = a->last, new = a->n_states++;

    a->text[a->n++] = token;
    a->states[new] = (State){ .len = a->n, .first_end = a->n, .last_end = a->n };
    for (; p != NOWHERE && !edge_find(a, p, token); p = a->states[p].link, a->steps++)
        edge_add(a, p, token, new);
    a->states[new].link = p == NOWHERE ? 0 : link_for(a, p, token);
    a->last = new;
    p = a->states[new].link;
    for (int i = 0; i < SUFFIX_AUTOMATON_RECENT && p; i++, p = a->states[p].link)
        a->states[p].last_end = a->n;
}

int suffix_automaton_reserve(SuffixAutomaton *a, size_t n) {
    return n > CAPACITY_MAX ? DRAFTER_E_MEMORY : reserve(a, (uint64_t)a->n + n);
}

/* 0; -ENOMEM or DRAFTER_E_MEMORY (limit of the account, or 2^30 tokens) with nothing taken in. */
int suffix_automaton_append(SuffixAutomaton *a, const uint32_t *tokens, size_t n) {
    int r = suffix_automaton_reserve(a, n);

    if (r)
        return r;
    for (size_t i = 0; i < n; i++)
        extend(a, tokens[i]);
    return 0;
}

SuffixMatch suffix_automaton_follow(const SuffixAutomaton *a, SuffixMatch match, uint32_t token) {
    uint32_t *to;

    if (!a->n_states)
        return (SuffixMatch){ 0 };
    while (!(to = edge_find(a, match.state, token))) {
        if (!match.state)
            return (SuffixMatch){ 0 };
        match.state = a->states[match.state].link;
        match.len = a->states[match.state].len;
    }
    return (SuffixMatch){ *to, match.len + 1 };
}

/* The first edge's token, the oldest continuation, then the newest. Returns how many there are, max at most. */
size_t suffix_automaton_nexts(const SuffixAutomaton *a, uint32_t state, uint32_t *tokens, size_t max) {
    size_t n = 0;

    if (!a->n_states || !a->states[state].to || !max)
        return 0;
    tokens[n++] = a->states[state].token;
    for (uint32_t i = a->states[state].spill; i && n < max; i = a->edges[i - 1].next)
        tokens[n++] = a->edges[i - 1].token;
    return n;
}

uint32_t suffix_automaton_first_end(const SuffixAutomaton *a, uint32_t state) {
    return a->n_states ? a->states[state].first_end : 0;
}

uint32_t suffix_automaton_last_end(const SuffixAutomaton *a, uint32_t state) {
    return a->n_states ? a->states[state].last_end : 0;
}

uint32_t suffix_automaton_link(const SuffixAutomaton *a, uint32_t state) {
    return state ? a->states[state].link : 0;
}

uint32_t suffix_automaton_len(const SuffixAutomaton *a, uint32_t state) {
    return state ? a->states[state].len : 0;
}

const uint32_t *suffix_automaton_text(const SuffixAutomaton *a, size_t *np) {
    *np = a->n;
    return a->text;
}

size_t suffix_automaton_n_states(const SuffixAutomaton *a) {
    return a->n_states;
}

uint64_t suffix_automaton_bytes(const SuffixAutomaton *a) {
    return (uint64_t)a->capacity * SUFFIX_AUTOMATON_TOKEN_BYTES;
}

uint64_t suffix_automaton_steps(const SuffixAutomaton *a) {
    return a->steps;
}
