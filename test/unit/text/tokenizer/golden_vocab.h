// SPDX-License-Identifier: Apache-2.0
/* Tiny vocabularies of every kind, made from the texts that they are tried on, with the ids of those texts by another
 * implementation (test/golden/README.md). */
#ifndef COORDGEN_TEST_UNIT_GOLDEN_VOCAB_H
#define COORDGEN_TEST_UNIT_GOLDEN_VOCAB_H

#include "test/unit/fixtures/golden_text.h"
#include "test/unit/text/tokenizer/tokenizer_fixture.h"

typedef struct GoldenVocab {
    const char *name;
    const char *pre;        /* tokenizer.ggml.pre of a byte-level table; NULL: a SentencePiece-style one */
    const char *model_name; /* general.name, or NULL */
    int add_bos, add_eos, add_space_prefix; /* as in TokenizerSpec */
    /* For each text: how many ids and the ids, plain; then the same with TOKENIZE_ADD_SPECIAL and
     * TOKENIZE_PARSE_SPECIAL, or GOLDEN_VOCAB_SAME. */
    const uint16_t *ids;
    size_t n_ids;
} GoldenVocab;

#define GOLDEN_VOCAB_SAME 0xffff

size_t golden_vocab_n(void);
const GoldenVocab *golden_vocab_at(size_t index);
/* Makes the tables once; they stay valid. */
TokenizerSpec golden_vocab_spec(const GoldenVocab *vocab);
/* Writes the vocabularies to folder/NAME.gguf and the texts to folder/texts.hex, for the script that makes the ids. */
void golden_vocab_write(const char *folder);

#endif
