// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/draft_pair.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory/account_refusal.h"
#include "base/strings/utf8.h"
#include "engine/kv/sequence_state.h"

#define NAME_BYTES_MAX 64 /* in texts */

DraftPair *draft_pair_free(DraftPair *pair) {
    if (!pair)
        return NULL;
    accounted_block_deinit(&pair->logits);
    free(pair);
    return NULL;
}

/* Chooses the token that the draft reads in place of one that it does not have. The target decides in any case. */
static uint32_t stand_in_of(const DraftPair *pair) {
    const uint32_t unknown = tokenizer_unknown(engine_tokenizer(pair->engine));

    return unknown < pair->n_tokens ? unknown : 0;
}

/* Finds how many ids both models share. Later ids are padding, or one model's own. */
static int compare(DraftPair *pair, const Engine *target, ErrText *err) {
    int r = tokenizer_compare(engine_tokenizer(pair->engine), "the draft", engine_tokenizer(target), "the target",
                              &pair->n_tokens, err);

    if (!r) {
        pair->stand_in = stand_in_of(pair);
        return 0;
    }
    err_prefix(err, "'%.*s' cannot draft for '%.*s'", UTF8_PREFIX(engine_info(pair->engine)->name, NAME_BYTES_MAX),
               UTF8_PREFIX(engine_info(target)->name, NAME_BYTES_MAX));
    return DRAFT_PAIR_E_VOCAB;
}

/**
 * draft_pair_new() - check that a model can draft for another one, and reserve what its passes need
 *
 * The check takes some milliseconds, once for two models, not for each generation.
 */
int draft_pair_new(DraftPair **pairp, Engine *draft, const Engine *target, ErrText *err) {
    const size_t len_bytes = engine_info(draft)->n_vocab * sizeof(float);
    _cleanup_(draft_pair_freep) DraftPair *pair = calloc(1, sizeof(*pair));
    int r;

    if (!pair)
        return err_no_memory(err);
    pair->engine = draft;
    r = compare(pair, target, err);
    if (r)
        return r;
    engine_make_room(draft, ACCOUNT_ACTIVATIONS, len_bytes);
    r = accounted_block_init(&pair->logits, engine_accounts(draft), ACCOUNT_ACTIVATIONS, len_bytes);
    if (r)
        return account_refused(err, DRAFT_PAIR_E_MEMORY, r, engine_accounts(draft), ACCOUNT_ACTIVATIONS, len_bytes,
                               "a draft model's logits");
    *pairp = steal(&pair);
    return 0;
}
