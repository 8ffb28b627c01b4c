// SPDX-License-Identifier: Apache-2.0
/* Merges adjacent symbols by priority: the step that byte-level BPE and SentencePiece-style tokenizers share. */
#ifndef COORDGEN_TEXT_SYMBOL_MERGE_H
#define COORDGEN_TEXT_SYMBOL_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMBOL_NONE UINT32_MAX

typedef struct Symbol {
    uint32_t offset;    /* of the symbol's text */
    uint32_t len_bytes; /* 0: the symbol was merged into the one before */
    uint32_t id;        /* token of this text; UINT32_MAX: none */
    uint32_t previous;  /* neighbours; SYMBOL_NONE at the ends */
    uint32_t next;
} Symbol;

typedef struct MergeCandidate {
    uint64_t order;     /* priority (low first) << 32 | the left symbol's number */
    uint32_t len_bytes; /* bytes of both texts, which differ if an earlier merge has made the candidate stale */
    uint32_t id;        /* token of the merged text */
} MergeCandidate;

/* Scratch memory for many words; zero-initialised it is empty. */
typedef struct SymbolMerge {
    Symbol *symbols;
    size_t n_symbols;
    size_t room_symbols;
    MergeCandidate *heap;
    size_t n_heap;
    size_t room_heap;
} SymbolMerge;

/* Whether two symbols may merge; *priorityp (low first) and *idp, the token of both. */
typedef bool MergeRule(const void *model, const char *text, const Symbol *left, const Symbol *right,
                       uint32_t *priorityp, uint32_t *idp);

void symbol_merge_deinit(SymbolMerge *merge);
static inline void symbol_merge_clear(SymbolMerge *merge) {
    merge->n_symbols = 0;
}
int symbol_merge_add(SymbolMerge *merge, uint32_t len_bytes, uint32_t id); /* next symbol of the text; 0 or -ENOMEM */
int symbol_merge_run(SymbolMerge *merge, const char *text, MergeRule *rule, const void *model); /* 0 or -ENOMEM */

#endif
