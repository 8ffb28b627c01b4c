// SPDX-License-Identifier: Apache-2.0
/* The text tokens of a vocabulary as a trie of their bytes: a flat array, depth first, made once for a model. */
#ifndef COORDGEN_TEXT_TOKEN_TRIE_H
#define COORDGEN_TEXT_TOKEN_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

/* Bytes of a token; n_bytes 0: the token is no text (a control token), so no grammar allows it. */
typedef struct TokenBytes {
    const uint8_t *bytes;
    uint32_t n_bytes;
} TokenBytes;

/* A token longer than that is never allowed. */
#define TOKEN_TRIE_BYTES_MAX 1000
/* Words of a bit set of the vocabulary: token i is bit i % 64 of word i / 64. */
#define TOKEN_MASK_WORDS(n_tokens) (((size_t)(n_tokens) + 63) / 64)

typedef struct TokenTrie TokenTrie; /* immutable, counted: any number of threads may use it */

/* Makes the trie of tokens[n_tokens], at most 4,194,302 of them, whose bytes are copied. 0, -EINVAL (too many),
 * -ENOMEM. */
int token_trie_new(TokenTrie **triep, const TokenBytes *tokens, uint32_t n_tokens);
TokenTrie *token_trie_ref(TokenTrie *trie);
TokenTrie *token_trie_unref(TokenTrie *trie); /* NULL is allowed; returns NULL */
DEFINE_CLEANUP(TokenTrie, token_trie_unref)
uint32_t token_trie_n_tokens(const TokenTrie *trie);
/* The bytes of a token below n_tokens, valid as long as the trie. */
TokenBytes token_trie_bytes(const TokenTrie *trie, uint32_t token);
size_t token_trie_memory_bytes(const TokenTrie *trie);

#endif
