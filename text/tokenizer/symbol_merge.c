// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/symbol_merge.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/min_max.h"

void symbol_merge_deinit(SymbolMerge *merge) {
    free(merge->symbols);
    free(merge->heap);
    *merge = (SymbolMerge){ 0 };
}

int symbol_merge_add(SymbolMerge *merge, uint32_t len_bytes, uint32_t id) {
    size_t n = merge->n_symbols;
    uint32_t offset = n ? merge->symbols[n - 1].offset + merge->symbols[n - 1].len_bytes : 0;

    if (n == merge->room_symbols) {
        size_t room = n ? 2 * n : 64;
        Symbol *symbols = realloc(merge->symbols, room * sizeof(*symbols));

        if (!symbols)
            return err_raise(-ENOMEM);
        merge->symbols = symbols;
        merge->room_symbols = room;
    }
    if (n)
        merge->symbols[n - 1].next = (uint32_t)n;
    merge->symbols[n] = (Symbol){
        .offset = offset,
        .len_bytes = len_bytes,
        .id = id,
        .previous = n ? (uint32_t)n - 1 : SYMBOL_NONE,
        .next = SYMBOL_NONE,
    };
    merge->n_symbols++;
    return 0;
}

/* --- heap, smallest order first: four children a node, which lie side by side ------------------------------------- */

#define CHILDREN 4

static int heap_push(SymbolMerge *merge, const MergeCandidate *candidate) {
    MergeCandidate *heap = merge->heap;
    size_t at = merge->n_heap, parent;

    if (at == merge->room_heap) {
        size_t room = at ? 2 * at : 64;

        heap = realloc(heap, room * sizeof(*heap));
        if (!heap)
            return err_raise(-ENOMEM);
        merge->heap = heap;
        merge->room_heap = room;
    }
    merge->n_heap++;
    for (; at && heap[parent = (at - 1) / CHILDREN].order > candidate->order; at = parent)
        heap[at] = heap[parent];
    heap[at] = *candidate;
    return 0;
}

static MergeCandidate heap_pop(SymbolMerge *merge) {
    MergeCandidate *heap = merge->heap, top = heap[0], last = heap[--merge->n_heap];
    size_t n = merge->n_heap, at = 0, child;

    while ((child = CHILDREN * at + 1) < n) {
        size_t end = MIN(child + CHILDREN, n);

        for (size_t other = child + 1; other < end; other++)
            if (heap[other].order < heap[child].order)
                child = other;
        if (heap[child].order >= last.order)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

static int offer_pair(SymbolMerge *merge, uint32_t left, uint32_t right, const char *text, MergeRule *rule,
                      const void *model) {
    uint32_t priority, id;

    if (left == SYMBOL_NONE || right == SYMBOL_NONE ||
        !rule(model, text, &merge->symbols[left], &merge->symbols[right], &priority, &id))
        return 0;
    return heap_push(merge, &(MergeCandidate){
                                .order = (uint64_t)priority << 32 | left,
                                .len_bytes = merge->symbols[left].len_bytes + merge->symbols[right].len_bytes,
                                .id = id,
                            });
}

/* symbol_merge_run() - merge until no adjacent pair may merge
 *
 * The pair of the best priority goes first, the leftmost of equal ones. A heap has the candidates, some of them stale:
 * O(n log n) for n symbols, because each merge offers two new pairs. */
int symbol_merge_run(SymbolMerge *merge, const char *text, MergeRule *rule, const void *model) {
    Symbol *symbols = merge->symbols;
    int r;

    merge->n_heap = 0;
    for (uint32_t i = 1; i < merge->n_symbols; i++) {
        r = offer_pair(merge, i - 1, i, text, rule, model);
        if (r)
            return r;
    }
    while (merge->n_heap) {
        MergeCandidate best = heap_pop(merge);
        uint32_t at = (uint32_t)best.order;
        Symbol *left = &symbols[at], *right;

        /* If either symbol has grown since then, the lengths do not add up any more. */
        if (!left->len_bytes || left->next == SYMBOL_NONE)
            continue;
        right = &symbols[left->next];
        if (left->len_bytes + right->len_bytes != best.len_bytes)
            continue;
        left->len_bytes = best.len_bytes;
        left->id = best.id;
        left->next = right->next;
        right->len_bytes = 0;
        if (left->next != SYMBOL_NONE)
            symbols[left->next].previous = at;
        r = offer_pair(merge, left->previous, at, text, rule, model);
        if (r)
            return r;
        r = offer_pair(merge, at, left->next, text, rule, model);
        if (r)
            return r;
    }
    return 0;
}
