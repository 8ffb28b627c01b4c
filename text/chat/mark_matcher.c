// SPDX-License-Identifier: Apache-2.0
#include "text/chat/mark_matcher.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Gemma 3 has 6,414 marks of at most 31 bytes, 76 kB together. The limits leave room for many times as many. The
 * automaton takes up to 64 bytes of memory for each byte of a mark. */
#define MARK_MAX_BYTES 4096u
#define MARKS_MAX_BYTES (1u << 20)

/* --- automaton -------------------------------------------------------------------------------------------------- */

static inline HashSlotState look(const void *edges, uint32_t at, const void *wanted) {
    const MarkEdge *edge = (const MarkEdge *)edges + at;

    if (!edge->key)
        return HASH_SLOT_FREE;
    return edge->key == *(const uint32_t *)wanted ? HASH_SLOT_SAME : HASH_SLOT_OTHER;
}

/* Returns the state after reading byte in state from. */
static uint32_t step(const MarkMatcher *matcher, uint32_t from, uint8_t byte) {
    for (;;) {
        const uint32_t key = (from << 8 | byte) + 1,
                       at = hash_table_find(&matcher->table, hash_key_u64(&matcher->table.key, key), look,
                                            matcher->edges, &key);

        if (at != HASH_TABLE_NONE)
            return matcher->edges[at].child;
        if (!from)
            return 0;
        from = matcher->nodes[from].fail;
    }
}

/* Adds the nodes and edges of a mark; false: thousands of edges collide. */
static bool add_mark(MarkMatcher *matcher, uint32_t id) {
    uint32_t len_bytes, at = 0;
    const char *text = vocab_text(matcher->vocab, id, &len_bytes);

    for (uint32_t i = len_bytes; i-- > 0;) {
        const uint32_t key = (at << 8 | (uint8_t)text[i]) + 1;
        uint32_t place = HASH_TABLE_NONE;
        int r = hash_table_place(&matcher->table, hash_key_u64(&matcher->table.key, key), look, matcher->edges, &key,
                                 &place);
        MarkEdge *edge;

        if (r == HASH_TABLE_E_CLUSTER)
            return false;
        edge = &matcher->edges[place];
        if (!r) {
            *edge = (MarkEdge){ .key = key, .child = matcher->n_nodes };
            matcher->nodes[matcher->n_nodes++] = (MarkNode){ .id = UINT32_MAX, .len_bytes = len_bytes - i };
        }
        at = edge->child;
    }
    if (matcher->nodes[at].id == UINT32_MAX) /* of equal texts the first token counts */
        matcher->nodes[at].id = id;
    if (len_bytes > matcher->len_max_bytes)
        matcher->len_max_bytes = len_bytes;
    return true;
}

/* Links nodes by rising length, so that the links of shorter ones exist already. */
static int link_nodes(MarkMatcher *matcher) {
    _cleanup_(freep) MarkEdge *by_len = NULL;
    _cleanup_(freep) uint32_t *starts = calloc((size_t)matcher->len_max_bytes + 2, sizeof(*starts));
    MarkNode *nodes = matcher->nodes;

    by_len = malloc(matcher->n_nodes * sizeof(*by_len));
    if (!starts || !by_len)
        return err_raise(-ENOMEM);
    for (uint32_t i = 1; i < matcher->n_nodes; i++)
        starts[nodes[i].len_bytes + 1]++;
    for (uint32_t i = 1; i <= matcher->len_max_bytes; i++)
        starts[i + 1] += starts[i];
    for (uint32_t i = 0; i <= matcher->table.mask; i++)
        if (matcher->edges[i].key)
            by_len[starts[nodes[matcher->edges[i].child].len_bytes]++] = matcher->edges[i];
    for (uint32_t i = 0; i + 1 < matcher->n_nodes; i++) {
        uint32_t parent = (by_len[i].key - 1) >> 8;
        MarkNode *node = &nodes[by_len[i].child];

        node->fail = parent ? step(matcher, nodes[parent].fail, (uint8_t)(by_len[i].key - 1)) : 0;
        node->shorter = nodes[node->fail].id != UINT32_MAX ? node->fail : nodes[node->fail].shorter;
    }
    return 0;
}

static bool is_mark(const Vocab *vocab, uint32_t id, unsigned int type_mask) {
    return type_mask & 1u << vocab->types[id];
}

/* Counts the bytes of all marks. These are bounded: an automaton takes many times the memory of its texts, and a load
 * cannot be cancelled while one is built. */
static int marks_measure(const Vocab *vocab, unsigned int type_mask, const char *path, uint32_t *n_bytesp,
                         ErrText *err) {
    uint32_t n_bytes = 0, len_bytes;

    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        if (!is_mark(vocab, id, type_mask))
            continue;
        vocab_text(vocab, id, &len_bytes);
        if (len_bytes > MARK_MAX_BYTES)
            return err_set(err, VOCAB_E_CORRUPT,
                           "%s: key \"tokenizer.ggml.tokens\": special token %" PRIu32 " has %" PRIu32
                           " bytes; at most %u can be used: convert the model again with a shorter one",
                           path, id, len_bytes, MARK_MAX_BYTES);
        n_bytes += len_bytes;
        if (n_bytes > MARKS_MAX_BYTES)
            return err_set(err, VOCAB_E_CORRUPT,
                           "%s: key \"tokenizer.ggml.tokens\": with token %" PRIu32
                           " the special tokens pass %u bytes together: convert the model again with fewer of them",
                           path, id, MARKS_MAX_BYTES);
    }
    *n_bytesp = n_bytes;
    return 0;
}

int mark_matcher_init(MarkMatcher *matcher, const Vocab *vocab, unsigned int type_mask, const char *path,
                      ErrText *err) {
    uint32_t n_bytes = 0;
    size_t n_slots;
    int r;

    *matcher = (MarkMatcher){ .vocab = vocab };
    r = marks_measure(vocab, type_mask, path, &n_bytes, err);
    if (r)
        return r;
    r = hash_table_init(&matcher->table, n_bytes, 50, &n_slots);
    if (r)
        return err_trace(r);
    matcher->edges = calloc(n_slots, sizeof(*matcher->edges));
    matcher->nodes = malloc(((size_t)n_bytes + 1) * sizeof(*matcher->nodes));
    if (!matcher->edges || !matcher->nodes)
        return err_raise(-ENOMEM);
    matcher->nodes[0] = (MarkNode){ .id = UINT32_MAX };
    matcher->n_nodes = 1;
    for (uint32_t id = 0; id < vocab->n_tokens; id++)
        if (is_mark(vocab, id, type_mask) && vocab->offsets[id] != vocab->offsets[id + 1] && !add_mark(matcher, id))
            return err_set(err, VOCAB_E_CORRUPT,
                           "%s: key \"tokenizer.ggml.tokens\": special token %" PRIu32
                           " and thousands of bytes before it were made to collide in a hash table: refused",
                           path, id);
    return link_nodes(matcher);
}

void mark_matcher_deinit(MarkMatcher *matcher) {
    free(matcher->nodes);
    free(matcher->edges);
    *matcher = (MarkMatcher){ 0 };
}

uint64_t mark_matcher_memory_bytes(const MarkMatcher *matcher) {
    return matcher->edges ? ((uint64_t)matcher->table.mask + 1) * sizeof(*matcher->edges) +
                                matcher->n_nodes * sizeof(*matcher->nodes)
                          : 0;
}

/* --- choice of occurrences -------------------------------------------------------------------------------------- */

typedef struct Occurrence {
    uint32_t offset;
    uint32_t node;    /* node of the mark that is tried here, the longest first; 0: none fits */
    uint32_t next;    /* index + 1 of the next occurrence of the same length; 0: the last */
    uint32_t own_end; /* end of the template's bytes that begin here */
    bool accepted;
} Occurrence;

typedef struct OccurrenceList {
    Occurrence *items; /* by falling offset */
    size_t n;
    size_t room;
} OccurrenceList;

/* Whether a mark may be anywhere: messages may hold user-defined tokens, except the template's tags. */
static bool is_free(const Vocab *vocab, uint32_t id) {
    return vocab->types[id] == TOKEN_USER_DEFINED && vocab->roles[id] != TOKEN_ROLE_TAG;
}

/* Finds the longest mark, from node on, that may begin at a place; 0: none. */
static uint32_t allowed_node(const MarkMatcher *matcher, uint32_t node, uint32_t offset, uint32_t own_end) {
    while (node && !is_free(matcher->vocab, matcher->nodes[node].id) &&
           offset + matcher->nodes[node].len_bytes > own_end)
        node = matcher->nodes[node].shorter;
    return node;
}

static int list_occurrences(const MarkMatcher *matcher, const char *text, size_t len_bytes, const uint8_t *own,
                            OccurrenceList *list) {
    uint32_t state = 0, own_end = (uint32_t)len_bytes;

    for (size_t i = len_bytes; i-- > 0;) {
        uint32_t node;

        if (own && (!own[i] || (i + 1 < len_bytes && !own[i + 1])))
            own_end = (uint32_t)i + own[i];
        state = step(matcher, state, (uint8_t)text[i]);
        node = matcher->nodes[state].id != UINT32_MAX ? state : matcher->nodes[state].shorter;
        node = allowed_node(matcher, node, (uint32_t)i, own_end);
        if (!node)
            continue;
        if (list->n == list->room) {
            size_t room = list->room ? 2 * list->room : 64;
            Occurrence *items = realloc(list->items, room * sizeof(*items));

            if (!items)
                return err_raise(-ENOMEM);
            list->items = items;
            list->room = room;
        }
        list->items[list->n++] = (Occurrence){ .offset = (uint32_t)i, .node = node, .own_end = own_end };
    }
    return 0;
}

static int compare_falling(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return left < right ? 1 : left > right ? -1 : 0;
}

static bool is_covered(const uint8_t *covered, uint32_t at) {
    return covered[at >> 3] >> (at & 7) & 1;
}

/* Takes the occurrences of one length, leftmost first. One that does not fit moves to its next shorter mark. */
static void choose_of_length(const MarkMatcher *matcher, OccurrenceList *list, uint32_t *heads, uint32_t *batch,
                             uint8_t *covered, uint32_t len_bytes) {
    size_t n = 0;
    bool sorted = true;

    for (uint32_t at = heads[len_bytes]; at; at = list->items[at - 1].next) {
        batch[n] = at - 1;
        sorted = sorted && (!n || batch[n - 1] > batch[n]);
        n++;
    }
    if (!sorted) /* a larger index is a smaller offset */
        qsort(batch, n, sizeof(*batch), compare_falling);
    for (size_t i = 0; i < n; i++) {
        Occurrence *item = &list->items[batch[i]];
        const MarkNode *node = &matcher->nodes[item->node];

        if (is_covered(covered, item->offset))
            continue;
        /* A mark that is taken already is at least as long, so it cannot lie inside without covering an end. */
        if (!is_covered(covered, item->offset + len_bytes - 1)) {
            item->accepted = true;
            for (uint32_t k = 0; k < len_bytes; k++)
                covered[(item->offset + k) >> 3] |= (uint8_t)(1u << ((item->offset + k) & 7));
        } else if ((item->node = allowed_node(matcher, node->shorter, item->offset, item->own_end))) {
            uint32_t *head = &heads[matcher->nodes[item->node].len_bytes];

            item->next = *head;
            *head = batch[i] + 1;
        }
    }
}

/* mark_matcher_find() - find the special tokens of a text and their places
 *
 * The rule is llama.cpp's: token by token, the longest text first, each takes its occurrences from the left in the
 * bytes that earlier tokens left over. In other words, occurrences are taken by (length falling, offset rising) if all
 * of their bytes are free. Texts of equal length do not overlap in any known model; here the leftmost wins. Return: 0
 * or -ENOMEM. */
int mark_matcher_find(const MarkMatcher *matcher, const char *text, size_t len_bytes, const uint8_t *own,
                      MarkHit **hitsp, size_t *n_hitsp) {
    _cleanup_(freep) uint32_t *heads = NULL, *batch = NULL;
    _cleanup_(freep) Occurrence *items = NULL;
    _cleanup_(freep) uint8_t *covered = NULL;
    OccurrenceList list = { 0 };
    size_t n_hits = 0;
    MarkHit *hits;
    int r;

    r = list_occurrences(matcher, text, len_bytes, own, &list);
    items = list.items;
    if (r)
        return r;
    *hitsp = NULL;
    *n_hitsp = 0;
    if (!list.n)
        return 0;
    heads = calloc((size_t)matcher->len_max_bytes + 1, sizeof(*heads));
    batch = malloc(list.n * sizeof(*batch));
    covered = calloc(len_bytes / 8 + 1, 1);
    hits = malloc(list.n * sizeof(*hits));
    if (!heads || !batch || !covered || !hits) {
        free(hits);
        return err_raise(-ENOMEM);
    }
    for (size_t i = 0; i < list.n; i++) {
        uint32_t *head = &heads[matcher->nodes[list.items[i].node].len_bytes];

        list.items[i].next = *head;
        *head = (uint32_t)i + 1;
    }
    for (uint32_t length = matcher->len_max_bytes; length; length--)
        if (heads[length])
            choose_of_length(matcher, &list, heads, batch, covered, length);
    for (size_t i = list.n; i-- > 0;)
        if (list.items[i].accepted)
            hits[n_hits++] = (MarkHit){ .offset = list.items[i].offset, .id = matcher->nodes[list.items[i].node].id };
    *hitsp = hits;
    *n_hitsp = n_hits;
    return 0;
}
