// SPDX-License-Identifier: Apache-2.0
/* The tokenizer's members, which tokenizer.c and detokenizer.c share. */
#ifndef COORDGEN_TEXT_TOKENIZER_PRIVATE_H
#define COORDGEN_TEXT_TOKENIZER_PRIVATE_H

#include <nettle/sha2.h>

#include "text/chat/mark_matcher.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/pretokenizer.h"

struct Tokenizer {
    Vocab vocab;
    Pretokenizer *pretokenizer; /* NULL: SentencePiece-style */
    Bpe bpe;                    /* valid with a pretokenizer */
    MarkMatcher user_marks;     /* user-defined tokens, recognised in any text */
    MarkMatcher all_marks;      /* control and unknown tokens too, recognised in template marks only */
    uint32_t bos, eos, eot, eom, unknown, padding; /* TOKEN_NONE: the model has none */
    bool adds_bos;
    bool adds_eos;
    bool space_prefix; /* SentencePiece-style: a space is put before each fragment */
    bool strips_right; /* spaces behind special tokens are left out, except behind those in keep_right */
    uint32_t keep_right[3];
    char name[32];
    uint8_t hash[SHA256_DIGEST_SIZE];
};

#endif
