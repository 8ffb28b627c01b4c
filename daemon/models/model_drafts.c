// SPDX-License-Identifier: Apache-2.0
#include "daemon/models/model_drafts.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "daemon/models/load/model_load.h"
#include "daemon/models/load/model_unload.h"

/* Compares the tokenizers in some milliseconds: once per new pair of loaded models, and per load of a paired model. */
int model_drafts_compare(const Model *target, const Model *draft, uint32_t *n_sharedp, ErrText *err) {
    int r = tokenizer_compare(engine_tokenizer(target->engine), target->name, engine_tokenizer(draft->engine),
                              draft->name, n_sharedp, err);

    if (!r)
        return 0;
    err_prefix(err, "their tokens differ");
    return MODEL_DRAFTS_E_VOCAB;
}

/* ---- targets and their draft models ------------------------------------------------------------------------------ */

void model_drafts_renew(Model *target) {
    free(target->draft.mismatch);
    target->draft.mismatch = NULL;
    if (target->draft.state == MODEL_DRAFT_TRIED || target->draft.state == MODEL_DRAFT_UNFIT)
        model_set_draft_state(target, MODEL_DRAFT_NONE);
    target->registry->is_unsettled = true;
}

void model_drafts_renew_all(ModelRegistry *registry) {
    Model *model;

    TAILQ_FOREACH (model, &registry->models, link)
        model_drafts_renew(model);
}

/* Returns the model that is to draft for a loaded target; NULL: none. */
static Model *wanted_draft(ModelRegistry *registry, const Model *target) {
    const char *name = model_is_loaded(target) ? model_pairs_draft_of(registry->pairs, target->name) : NULL;

    return name ? model_registry_find(registry, name) : NULL;
}

/* Loads a draft model behind its target in the engine thread's queue, so that the target takes memory first. The load
 * is tried once per load of the target. */
static void bring(Model *target, Model *draft) {
    ErrText err;

    if (target->draft.state != MODEL_DRAFT_NONE || target->stage == MODEL_IMPORTING || model_is_loaded(draft) ||
        model_is_unloading(draft) || (draft->stage == MODEL_FAILED && draft->engine))
        return;
    model_set_draft_state(target, MODEL_DRAFT_TRIED);
    draft->is_loaded_as_draft = !model_is_default(draft);
    log_info(TOPIC_DAEMON, "model %s: loaded to draft for %s", draft->name, target->name);
    (void)model_load(draft, &err);
}

static void join(Model *target, Model *draft) {
    uint32_t n_shared = 0;
    ErrText err;

    if (target->draft.state == MODEL_DRAFT_UNFIT || target->stage != MODEL_READY || draft->stage != MODEL_READY)
        return;
    if (!model_drafts_compare(target, draft, &n_shared, &err)) {
        log_notice(TOPIC_DAEMON,
                   "model %s: %s drafts for it (%" PRIu32 " tokens are shared; of %" PRIu32 " and %" PRIu32 ")",
                   target->name, draft->name, n_shared, tokenizer_n_tokens(engine_tokenizer(target->engine)),
                   tokenizer_n_tokens(engine_tokenizer(draft->engine)));
        model_set_draft(target, draft);
        return;
    }
    log_error(TOPIC_DAEMON, "model %s: %s cannot draft for it: %s", target->name, draft->name, err.text);
    target->draft.mismatch = strdup(err.text);
    if (target->draft.mismatch) /* else the next change repeats the comparison */
        model_set_draft_state(target, MODEL_DRAFT_UNFIT);
}

/* Ends the pair as soon as no generation uses it, if the pair has changed or one of its models is not ready. */
static void settle_pair(Model *target, const Model *wanted) {
    const Model *draft = target->draft.model;
    const bool is_lost = draft->stage != MODEL_READY,
               leaves = draft != wanted || is_lost || target->stage != MODEL_READY;

    model_set_draft_state(target, leaves ? MODEL_DRAFT_LEAVING : MODEL_DRAFT_JOINED);
    if (!leaves || target->draft.n_generations)
        return;
    model_set_draft(target, NULL);
    if (draft == wanted && is_lost) /* a lost draft model is not loaded again for the same target */
        model_set_draft_state(target, MODEL_DRAFT_TRIED);
}

static void settle_target(ModelRegistry *registry, Model *target) {
    Model *draft = wanted_draft(registry, target);

    if (!model_is_loaded(target) && target->draft.state != MODEL_DRAFT_NONE)
        model_drafts_renew(target);
    if (target->draft.model)
        settle_pair(target, draft);
    if (!draft || target->draft.model)
        return;
    bring(target, draft);
    join(target, draft);
}

/* Finds a loaded target that wants the draft model and has not found it unfit. */
static const Model *find_target(ModelRegistry *registry, const Model *draft) {
    const char *names[PAIRS_MAX];
    const size_t n = model_pairs_targets_of(registry->pairs, draft->name, names, PAIRS_MAX);

    for (size_t i = 0; i < n; i++) {
        const Model *target = model_registry_find(registry, names[i]);

        if (target && model_is_loaded(target) && target->draft.state != MODEL_DRAFT_UNFIT)
            return target;
    }
    return NULL;
}

const Model *model_drafts_target_of(ModelRegistry *registry, const Model *draft) {
    const Model *target;

    assert_on_loop(registry->loop);
    TAILQ_FOREACH (target, &registry->models, link)
        if (target->draft.model == draft)
            return target;
    return model_is_loaded(draft) ? find_target(registry, draft) : NULL;
}

/* Unloads a draft model that only targets needed, after its last target. A model whose weights still arrive cannot be
 * unloaded yet; a later call unloads it. */
static void let_go(ModelRegistry *registry, Model *draft) {
    ErrText err;

    if (!draft->is_loaded_as_draft || draft->n_users || find_target(registry, draft))
        return;
    if (draft->stage != MODEL_READY && draft->stage != MODEL_IMPORTING) {
        draft->is_loaded_as_draft = draft->stage == MODEL_LOADING;
        return;
    }
    draft->is_loaded_as_draft = false;
    if (model_unload_unused(draft, &err))
        log_error(TOPIC_DAEMON, "model %s: out of memory: it stays loaded", draft->name);
}

void model_drafts_settle(ModelRegistry *registry) {
    Model *model;

    assert_on_loop(registry->loop);
    if (!registry->is_unsettled)
        return;
    registry->is_unsettled = false;
    TAILQ_FOREACH (model, &registry->models, link)
        if (model_is_loaded(model) || model->draft.state != MODEL_DRAFT_NONE)
            settle_target(registry, model);
    TAILQ_FOREACH (model, &registry->models, link)
        let_go(registry, model);
}
