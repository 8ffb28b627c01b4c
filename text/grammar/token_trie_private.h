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

typedef enum TrieSliceKind {
    TRIE_SLICE_OTHER, /* tokens with something else than plain characters (plain_chars.h) */
    TRIE_SLICE_PLAIN,
    _TRIE_SLICES_N
} TrieSliceKind;

enum {
    TRIE_CHARS_MAX = 16,      /* lengths with a mask of their own */
    TRIE_CHARS_ENDLESS = 254, /* stands for any number of characters */
};

typedef struct TrieSlice {
    uint32_t begin, end; /* nodes */
    uint32_t roots[256]; /* node of each first byte, or UINT32_MAX */
} TrieSlice;

/* What is below a node of plain tokens. */
typedef struct TrieReach {
    uint8_t n_chars; /* characters that the longest token goes on with, up to TRIE_CHARS_ENDLESS */
    uint8_t place;   /* PlainPlace behind the node's byte */
} TrieReach;

/* A plain token of more than TRIE_CHARS_MAX characters. */
typedef struct LongToken {
    uint32_t token;
    uint32_t n_chars; /* up to TRIE_CHARS_ENDLESS */
} LongToken;

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
    TrieReach *reach;                    /* of the nodes of plain tokens, from the first one on */
    uint64_t *plain[TRIE_CHARS_MAX + 1]; /* masks of the plain tokens of at most so many characters */
    uint64_t *all_plain;                 /* mask of all plain tokens */
    LongToken *long_tokens;              /* [n_long], by their length */
    uint32_t n_long;
};

#endif
