// SPDX-License-Identifier: Apache-2.0
#include "engine/constraint/constraint_vocabulary.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/min_max.h"
#include "base/strings/str_buf.h"

struct ConstraintVocabulary {
    _Atomic uint32_t n_refs;
    const Tokenizer *tokenizer;
    TokenTrie *trie;
    uint32_t n_vocab;
    uint32_t *ends; /* [n_ends], rising */
    uint32_t n_ends;
    _Atomic bool is_closed;
    Bill bill;
};

/* Makes the trie of the tokens' bytes. Tokens that the model never writes as text (control tokens) have none. */
static int make_trie(ConstraintVocabulary *vocabulary) {
    const Tokenizer *tokenizer = vocabulary->tokenizer;
    const uint32_t n = tokenizer_n_tokens(tokenizer);
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    _cleanup_(freep) TokenBytes *tokens = calloc(MAX(n, 1u), sizeof(*tokens));
    _cleanup_(freep) size_t *ends = calloc((size_t)n + 1, sizeof(*ends));

    if (!tokens || !ends)
        return err_raise(-ENOMEM);
    for (uint32_t id = 0; id < n; id++) {
        if (!tokenizer_is_control(tokenizer, id) && !tokenizer_is_end(tokenizer, id))
            (void)tokenizer_piece(tokenizer, id, false, &text);
        ends[id + 1] = text.len_bytes;
    }
    if (str_buf_failed(&text))
        return err_raise(-ENOMEM);
    for (uint32_t id = 0; id < n; id++)
        tokens[id] = (TokenBytes){ text.data ? (const uint8_t *)text.data + ends[id] : NULL,
                                   (uint32_t)(ends[id + 1] - ends[id]) };
    return token_trie_new(&vocabulary->trie, tokens, n);
}

static int find_ends(ConstraintVocabulary *vocabulary) {
    const uint32_t n = tokenizer_n_tokens(vocabulary->tokenizer);

    for (uint32_t id = 0; id < n; id++)
        vocabulary->n_ends += tokenizer_is_end(vocabulary->tokenizer, id);
    vocabulary->ends = calloc(MAX(vocabulary->n_ends, 1u), sizeof(*vocabulary->ends));
    if (!vocabulary->ends)
        return err_raise(-ENOMEM);
    for (uint32_t id = 0, i = 0; id < n; id++)
        if (tokenizer_is_end(vocabulary->tokenizer, id))
            vocabulary->ends[i++] = id;
    return 0;
}

int constraint_vocabulary_new(ConstraintVocabulary **vocabularyp, const Tokenizer *tokenizer, uint32_t n_vocab) {
    _cleanup_(constraint_vocabulary_unrefp) ConstraintVocabulary *vocabulary = calloc(1, sizeof(*vocabulary));
    int r;

    if (!vocabulary)
        return err_raise(-ENOMEM);
    vocabulary->n_refs = 1;
    vocabulary->tokenizer = tokenizer;
    vocabulary->n_vocab = MAX(n_vocab, tokenizer_n_tokens(tokenizer));
    r = find_ends(vocabulary);
    if (!r)
        r = make_trie(vocabulary);
    if (!r)
        *vocabularyp = steal(&vocabulary);
    return r;
}

ConstraintVocabulary *constraint_vocabulary_ref(ConstraintVocabulary *vocabulary) {
    vocabulary->n_refs++;
    return vocabulary;
}

ConstraintVocabulary *constraint_vocabulary_unref(ConstraintVocabulary *vocabulary) {
    if (!vocabulary || --vocabulary->n_refs)
        return NULL;
    token_trie_unref(vocabulary->trie);
    free(vocabulary->ends);
    bill_settle(&vocabulary->bill);
    free(vocabulary);
    return NULL;
}

TokenTrie *constraint_vocabulary_trie(const ConstraintVocabulary *vocabulary) {
    return vocabulary->trie;
}

const Tokenizer *constraint_vocabulary_tokenizer(const ConstraintVocabulary *vocabulary) {
    return vocabulary->tokenizer;
}

uint32_t constraint_vocabulary_n_vocab(const ConstraintVocabulary *vocabulary) {
    return vocabulary->n_vocab;
}

const uint32_t *constraint_vocabulary_ends(const ConstraintVocabulary *vocabulary, uint32_t *n_endsp) {
    *n_endsp = vocabulary->n_ends;
    return vocabulary->ends;
}

bool constraint_vocabulary_is_end(const ConstraintVocabulary *vocabulary, uint32_t token) {
    for (uint32_t i = 0; i < vocabulary->n_ends; i++)
        if (vocabulary->ends[i] == token)
            return true;
    return false;
}

void constraint_vocabulary_close(ConstraintVocabulary *vocabulary) {
    atomic_store(&vocabulary->is_closed, true);
}

bool constraint_vocabulary_is_closed(const ConstraintVocabulary *vocabulary) {
    return atomic_load(&vocabulary->is_closed);
}

int constraint_vocabulary_charge(ConstraintVocabulary *vocabulary, AccountTable *accounts) {
    return account_charge(accounts, ACCOUNT_WEIGHTS, &vocabulary->bill, constraint_vocabulary_memory_bytes(vocabulary));
}

size_t constraint_vocabulary_memory_bytes(const ConstraintVocabulary *vocabulary) {
    return sizeof(*vocabulary) + vocabulary->n_ends * sizeof(*vocabulary->ends) +
           token_trie_memory_bytes(vocabulary->trie);
}
