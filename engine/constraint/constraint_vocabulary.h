// SPDX-License-Identifier: Apache-2.0
/* A model's tokens as constraints see them: the trie of those that are text, and those that end an answer. Made once
 * for a model, by any thread, when a request first has a constraint. */
#ifndef COORDGEN_ENGINE_CONSTRAINT_VOCABULARY_H
#define COORDGEN_ENGINE_CONSTRAINT_VOCABULARY_H

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "text/grammar/token_trie.h"
#include "text/tokenizer/tokenizer.h"

typedef struct ConstraintVocabulary ConstraintVocabulary; /* immutable, counted: any number of threads may use it */

/* Makes the vocabulary of a tokenizer. Runs of constraints use the tokenizer and must not outlive it; the vocabulary
 * itself may. n_vocab: rows of the model's embedding, which may have more than the tokenizer has tokens. Control tokens
 * are no text. 0 or -errno. */
int constraint_vocabulary_new(ConstraintVocabulary **vocabularyp, const Tokenizer *tokenizer, uint32_t n_vocab);
ConstraintVocabulary *constraint_vocabulary_ref(ConstraintVocabulary *vocabulary);
ConstraintVocabulary *constraint_vocabulary_unref(ConstraintVocabulary *vocabulary); /* NULL is allowed; returns NULL */
DEFINE_CLEANUP(ConstraintVocabulary, constraint_vocabulary_unref)

TokenTrie *constraint_vocabulary_trie(const ConstraintVocabulary *vocabulary);
const Tokenizer *constraint_vocabulary_tokenizer(const ConstraintVocabulary *vocabulary);
uint32_t constraint_vocabulary_n_vocab(const ConstraintVocabulary *vocabulary); /* bits of a mask */
/* Returns the ids that end an answer (tokenizer_is_end()), *n_endsp of them, in rising order. */
const uint32_t *constraint_vocabulary_ends(const ConstraintVocabulary *vocabulary, uint32_t *n_endsp);
bool constraint_vocabulary_is_end(const ConstraintVocabulary *vocabulary, uint32_t token);
/* Marks the vocabulary of a model that is unloaded: what was kept for later requests can go. Any thread. */
void constraint_vocabulary_close(ConstraintVocabulary *vocabulary);
bool constraint_vocabulary_is_closed(const ConstraintVocabulary *vocabulary);
/* Charges its memory to the account of weights until it is freed. 0, ACCOUNT_E_LIMIT. */
int constraint_vocabulary_charge(ConstraintVocabulary *vocabulary, AccountTable *accounts);
size_t constraint_vocabulary_memory_bytes(const ConstraintVocabulary *vocabulary);

#endif
