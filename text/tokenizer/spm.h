// SPDX-License-Identifier: Apache-2.0
/* SentencePiece-style tokenizer (Llama 2, Mistral, Gemma): merges by the score of the result, bytes as a fallback. */
#ifndef COORDGEN_TEXT_SPM_H
#define COORDGEN_TEXT_SPM_H

#include "text/tokenizer/symbol_merge.h"
#include "text/tokenizer/token_list.h"
#include "text/tokenizer/vocab.h"

/* U+2581 stands for a space in the table. */
#define SPM_SPACE "\xe2\x96\x81"
#define SPM_SPACE_BYTES 3

/* Appends the tokens of a fragment in which spaces are SPM_SPACE already. unknown_id: the token of characters that have
 * none. 0 or -ENOMEM. */
int spm_encode(const Vocab *vocab, uint32_t unknown_id, SymbolMerge *scratch, const char *text, size_t len_bytes,
               TokenList *list);

#endif
