// SPDX-License-Identifier: Apache-2.0
#include "engine/constraint/engine_vocabulary.h"

#include "base/memory/account_refusal.h"
#include "engine/core/engine_state.h"

ConstraintVocabulary *engine_vocabulary_made(const Engine *engine) {
    return atomic_load_explicit(&engine->text.vocabulary, memory_order_acquire);
}

/* Two threads may make a vocabulary at the same time: the first one's stays. */
int engine_vocabulary(Engine *engine, ConstraintVocabulary **vocabularyp, ErrText *err) {
    _cleanup_(constraint_vocabulary_unrefp) ConstraintVocabulary *made = NULL;
    ConstraintVocabulary *before = NULL;
    int r;

    *vocabularyp = engine_vocabulary_made(engine);
    if (*vocabularyp)
        return 0;
    r = constraint_vocabulary_new(&made, engine->text.tokenizer, engine->info.n_vocab);
    if (r)
        return r == -ENOMEM ? err_no_memory(err) : err_set(err, r, "the model has too many tokens for constraints");
    r = constraint_vocabulary_charge(made, engine->accounts);
    if (r)
        return account_refused(err, ENGINE_E_MEMORY, r, engine->accounts, ACCOUNT_WEIGHTS,
                               constraint_vocabulary_memory_bytes(made), "the token tables of constraints");
    if (!atomic_compare_exchange_strong(&engine->text.vocabulary, &before, made)) {
        *vocabularyp = before;
        return 0;
    }
    *vocabularyp = steal(&made);
    return 0;
}
