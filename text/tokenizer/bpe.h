// SPDX-License-Identifier: Apache-2.0
/* Byte-level byte pair encoding turns the words that a pre-tokenizer found into tokens, by ranked merges. */
#ifndef COORDGEN_TEXT_BPE_H
#define COORDGEN_TEXT_BPE_H

#include "base/hash_table.h"
#include "text/tokenizer/symbol_merge.h"
#include "text/tokenizer/token_list.h"
#include "text/tokenizer/vocab.h"

typedef struct BpeMerge {
    uint32_t left; /* UINT32_MAX: the slot is free */
    uint32_t right;
    uint32_t rank;
    uint32_t id; /* token of the merged text */
} BpeMerge;

typedef struct Bpe {
    const Vocab *vocab;
    HashTable table;        /* of merges by (left, right) */
    BpeMerge *merges;       /* [table.mask + 1] */
    bool whole_words_first; /* a word that is a token is that token, whatever the merges say */
} Bpe;

int bpe_init(Bpe *bpe, const Vocab *vocab, const GgufFile *file, bool whole_words_first,
             ErrText *err); /* VOCAB_E_CORRUPT */
void bpe_deinit(Bpe *bpe);
uint64_t bpe_memory_bytes(const Bpe *bpe);
int bpe_encode_word(const Bpe *bpe, SymbolMerge *scratch, const char *word, size_t len_bytes, TokenList *list);

#endif
