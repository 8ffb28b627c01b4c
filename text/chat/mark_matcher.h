// SPDX-License-Identifier: Apache-2.0
/* Finds the texts of special tokens in raw text by an Aho-Corasick automaton, in a time that is linear in the text. */
#ifndef COORDGEN_TEXT_MARK_MATCHER_H
#define COORDGEN_TEXT_MARK_MATCHER_H

#include "base/hash_table.h"
#include "text/tokenizer/vocab.h"

typedef struct MarkNode {
    uint32_t fail;    /* longest proper suffix that is a node */
    uint32_t shorter; /* nearest node on the fail chain that ends a mark; 0: none */
    uint32_t id;      /* the mark that ends here, UINT32_MAX: none */
    uint32_t len_bytes;
} MarkNode;

typedef struct MarkEdge {
    uint32_t key; /* from << 8 | byte, plus one; 0: free */
    uint32_t child;
} MarkEdge;

/* Texts are stored reversed and the scan runs from the end, so that a state knows the marks that begin at a
 * position. */
typedef struct MarkMatcher {
    const Vocab *vocab;
    MarkNode *nodes;
    uint32_t n_nodes; /* node 0: nothing read */
    HashTable table;  /* of edges */
    MarkEdge *edges;  /* [table.mask + 1] */
    uint32_t len_max_bytes;
} MarkMatcher;

typedef struct MarkHit {
    uint32_t offset;
    uint32_t id;
} MarkHit;

/* Takes the tokens whose type's bit (1 << TokenType) is in type_mask: at most 4096 bytes each, 1 MiB together.
 * 0, VOCAB_E_CORRUPT, -errno. */
int mark_matcher_init(MarkMatcher *matcher, const Vocab *vocab, unsigned int type_mask, const char *path, ErrText *err);
void mark_matcher_deinit(MarkMatcher *matcher);
uint64_t mark_matcher_memory_bytes(const MarkMatcher *matcher);
/* Finds disjoint hits, by rising offset. *hitsp is the caller's to free, NULL if there are none. len_bytes < 2^31.
 * own[len_bytes] is 1 for bytes that a template wrote: only there are tags found, and tokens that are not user-defined.
 * own NULL: all are found everywhere. 0 or -ENOMEM. */
int mark_matcher_find(const MarkMatcher *matcher, const char *text, size_t len_bytes, const uint8_t *own,
                      MarkHit **hitsp, size_t *n_hitsp);

#endif
