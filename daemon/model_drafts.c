// SPDX-License-Identifier: Apache-2.0
#include "daemon/model_drafts.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/printable.h"

/* ---- comparison -------------------------------------------------------------------------------------------------- */

/* What a token stands for, as its file has it. */
static int put_piece(const Model *model, uint32_t id, StrBuf *text) {
    str_buf_truncate(text, 0);
    return tokenizer_piece(engine_tokenizer(model->engine), id, true, text);
}

static bool is_same(const StrBuf *a, const StrBuf *b) {
    return a->len_bytes == b->len_bytes && (!a->len_bytes || !memcmp(a->data, b->data, a->len_bytes));
}

/* The first token that the two do not have alike. 0: there is none; MODEL_DRAFTS_E_VOCAB, -ENOMEM. */
static int find_difference(const Model *target, const Model *draft, ErrText *err) {
    const uint32_t n_target = tokenizer_n_tokens(engine_tokenizer(target->engine)),
                   n_draft = tokenizer_n_tokens(engine_tokenizer(draft->engine));
    _cleanup_(str_buf_deinit) StrBuf one = STR_BUF_NULL;
    _cleanup_(str_buf_deinit) StrBuf other = STR_BUF_NULL;
    Printable shown, other_shown;
    int r;

    for (uint32_t id = 0; id < n_target && id < n_draft; id++) {
        r = put_piece(target, id, &one);
        if (!r)
            r = put_piece(draft, id, &other);
        if (r)
            return r;
        if (!is_same(&one, &other))
            return err_set(
                err, MODEL_DRAFTS_E_VOCAB, "their tokens differ: token %" PRIu32 " is '%s' in %.*s, and '%s' in %.*s",
                id, printable(&shown, one.data ? one.data : "", one.len_bytes), UTF8_PREFIX(target->name, 64),
                printable(&other_shown, other.data ? other.data : "", other.len_bytes), UTF8_PREFIX(draft->name, 64));
    }
    if (n_target != n_draft)
        return err_set(err, MODEL_DRAFTS_E_VOCAB,
                       "their tokens differ: %.*s has %" PRIu32 " of them, and %.*s %" PRIu32,
                       UTF8_PREFIX(target->name, 64), n_target, UTF8_PREFIX(draft->name, 64), n_draft);
    return 0;
}

/* The hash is of all tokens and of their kinds: only where it differs are they gone through. */
int model_drafts_compare(const Model *target, const Model *draft, ErrText *err) {
    int r;

    if (!memcmp(tokenizer_hash(engine_tokenizer(target->engine)), tokenizer_hash(engine_tokenizer(draft->engine)),
                TOKENIZER_HASH_BYTES))
        return 0;
    r = find_difference(target, draft, err);
    return r ? r
             : err_set(err, MODEL_DRAFTS_E_VOCAB,
                       "their tokens differ: %.*s and %.*s have the same texts, but control tokens where the other has "
                       "none",
                       UTF8_PREFIX(target->name, 64), UTF8_PREFIX(draft->name, 64));
}

/* ---- targets and their draft models ------------------------------------------------------------------------------ */

static bool is_loaded(const Model *model) {
    return model->stage == MODEL_READY || model_is_coming(model);
}

void model_drafts_renew(Model *target) {
    free(target->draft_failure);
    target->draft_failure = NULL;
    target->is_mismatch = target->draft_was_tried = false;
    target->registry->is_unsettled = true;
}

void model_drafts_renew_all(ModelRegistry *registry) {
    Model *model;

    TAILQ_FOREACH(model, &registry->models, link)
    model_drafts_renew(model);
}

/* What is to draft for a target that is loaded; NULL: nothing. */
static Model *wanted_draft(ModelRegistry *registry, const Model *target) {
    const char *name = is_loaded(target) ? model_pairs_draft_of(registry->pairs, target->name) : NULL;

    return name ? model_registry_find(registry, name) : NULL;
}

/* It takes its place in the engine thread's queue behind the target, which finds memory first. Once, until the target is
 * loaded again. */
static void bring(Model *target, Model *draft) {
    ErrText err;

    if (target->draft_was_tried || target->stage == MODEL_IMPORTING || is_loaded(draft) ||
        draft->stage == MODEL_UNLOADING || (draft->stage == MODEL_FAILED && draft->engine))
        return;
    target->draft_was_tried = true;
    draft->is_loaded_as_draft = !model_is_default(draft);
    log_info(TOPIC_DAEMON, "model %s: loaded to draft for %s", draft->name, target->name);
    (void)model_load(draft, &err);
}

static void join(Model *target, Model *draft) {
    ErrText err = { "out of memory" };
    int r;

    if (target->draft_failure || target->stage != MODEL_READY || draft->stage != MODEL_READY)
        return;
    r = model_drafts_compare(target, draft, &err);
    if (!r) {
        log_notice(TOPIC_DAEMON, "model %s: %s drafts for it", target->name, draft->name);
        model_set_draft(target, draft);
        return;
    }
    log_error(TOPIC_DAEMON, "model %s: %s cannot draft for it: %s", target->name, draft->name, err.text);
    target->is_mismatch = r == MODEL_DRAFTS_E_VOCAB;
    target->draft_failure = strdup(err.text); /* without memory it is compared again at the next change */
}

static void settle_target(ModelRegistry *registry, Model *target) {
    Model *draft = wanted_draft(registry, target);

    if (!is_loaded(target) && (target->draft_failure || target->draft_was_tried))
        model_drafts_renew(target);
    target->draft_leaves = target->draft && (target->draft != draft || target->stage != MODEL_READY ||
                                             target->draft->stage != MODEL_READY);
    if (target->draft_leaves && !target->n_drafted)
        model_set_draft(target, NULL);
    if (!draft || target->draft)
        return;
    bring(target, draft);
    join(target, draft);
}

/* Loaded targets that want it, and have not found that it does not fit. */
static const Model *find_target(ModelRegistry *registry, const Model *draft) {
    const char *names[PAIRS_MAX];
    const size_t n = model_pairs_targets_of(registry->pairs, draft->name, names, PAIRS_MAX);

    for (size_t i = 0; i < n; i++) {
        const Model *target = model_registry_find(registry, names[i]);

        if (target && is_loaded(target) && !target->draft_failure)
            return target;
    }
    return NULL;
}

const Model *model_drafts_target_of(ModelRegistry *registry, const Model *draft) {
    const Model *target;

    assert_on_loop(registry->loop);
    TAILQ_FOREACH(target, &registry->models, link)
    if (target->draft == draft)
        return target;
    return is_loaded(draft) ? find_target(registry, draft) : NULL;
}

/* One that came with its targets goes with the last of them. While weights arrive it cannot: then it does later. */
static void let_go(ModelRegistry *registry, Model *draft) {
    ErrText err;

    if (!draft->is_loaded_as_draft || draft->n_users || find_target(registry, draft))
        return;
    if (draft->stage != MODEL_READY && draft->stage != MODEL_IMPORTING) {
        draft->is_loaded_as_draft = draft->stage == MODEL_LOADING;
        return;
    }
    draft->is_loaded_as_draft = false;
    draft->n_users++; /* who asks */
    if (model_unload(draft, &err))
        log_error(TOPIC_DAEMON, "model %s: out of memory: it stays loaded", draft->name);
    draft->was_unloaded = false; /* nobody has asked for its memory */
    draft->n_users--;
}

void model_drafts_settle(ModelRegistry *registry) {
    Model *model;

    assert_on_loop(registry->loop);
    if (!registry->is_unsettled)
        return;
    registry->is_unsettled = false;
    TAILQ_FOREACH(model, &registry->models, link)
    if (is_loaded(model) || model->draft || model->draft_failure || model->draft_was_tried)
        settle_target(registry, model);
    TAILQ_FOREACH(model, &registry->models, link)
    let_go(registry, model);
}
