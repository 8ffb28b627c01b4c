// SPDX-License-Identifier: Apache-2.0
/* Draft models: loaded with their targets, compared, held and unloaded again. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_DRAFTS_H
#define COORDGEN_DAEMON_MODEL_DRAFTS_H

#include "daemon/models/model_registry.h"

enum {
    MODEL_DRAFTS_E_VOCAB = 1, /* other tokens; the text names the first difference */
};

/* Tells whether a model that is ready can draft for another one that is, and how many tokens the two share. 0,
 * MODEL_DRAFTS_E_VOCAB. */
int model_drafts_compare(const Model *target, const Model *draft, uint32_t *n_sharedp, ErrText *err);
/* Loads the draft models that are wanted, pairs those that fit, and unloads those that no target needs. At the top of
 * the loop, after changes of models or pairs. */
void model_drafts_settle(ModelRegistry *registry);
/* Tries the target's draft model again, because the pair has changed. */
void model_drafts_renew(Model *target);
void model_drafts_renew_all(ModelRegistry *registry);
/* Finds a loaded target that keeps a draft model in memory; NULL: none. */
const Model *model_drafts_target_of(ModelRegistry *registry, const Model *draft);

#endif
