// SPDX-License-Identifier: Apache-2.0
/* The arrays of a token trie, for the walk of a mask. token_trie.h comes before. */
#ifndef COORDGEN_TEXT_TOKEN_TRIE_PRIVATE_H
#define COORDGEN_TEXT_TOKEN_TRIE_PRIVATE_H

#include <stdatomic.h>
#include <stdint.h>

#define TRIE_TOKEN_NONE 0x3fffffu

/* A byte of tokens. The nodes below it follow; n_nodes counts them and the node itself. */
typedef struct TrieNode {
    uint32_t byte : 8;
    uint32_t n_nodes : 24;
    uint32_t token : 22; /* that ends here, or TRIE_TOKEN_NONE */
    uint32_t depth : 10; /* bytes before this one */
} TrieNode;

/* Tokens of plain characters, of which a JSON string may have any: no quote, backslash or control. The line ends
 * U+2028 and U+2029 are not plain, since the '.' of a pattern refuses them. Where a grammar
 * allows as many such characters as the longest token has, whatever they are, all of these tokens are allowed, and
 * nothing is walked. */
typedef enum TrieSliceKind {
    TRIE_SLICE_OTHER, /* tokens with something else */
    TRIE_SLICE_SHORT,
    TRIE_SLICE_LONG,
    TRIE_SLICE_ENDLESS, /* of any number of plain characters */
    _TRIE_SLICES_N
} TrieSliceKind;

enum {
    TRIE_CHARS_SHORT = 6,
    TRIE_CHARS_LONG = 16,
    TRIE_CHARS_ENDLESS = 200, /* stands for any number */
};

typedef struct TrieSlice {
    uint32_t begin, end; /* nodes */
    uint32_t roots[256]; /* node of each first byte, or UINT32_MAX */
    uint64_t *mask;      /* tokens of the slice */
} TrieSlice;

/* A token with the bytes of another, which stands in the nodes. */
typedef struct TokenDouble {
    uint32_t first;
    uint32_t token;
} TokenDouble;

struct TokenTrie {
    _Atomic uint32_t n_refs;
    uint32_t n_tokens;
    uint8_t *bytes;
    uint32_t *ends; /* [n_tokens], where the bytes of a token end */
    TrieNode *nodes;
    uint32_t n_nodes;
    TokenDouble *doubles; /* in the order of slices and bytes */
    uint32_t n_doubles;
    TrieSlice slices[_TRIE_SLICES_N];
};

#endif
