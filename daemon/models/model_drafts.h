// SPDX-License-Identifier: Apache-2.0
/* Draft models beside their targets: loaded with them, compared, held, and let go again. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_DRAFTS_H
#define COORDGEN_DAEMON_MODEL_DRAFTS_H

#include "daemon/models/model_registry.h"

enum {
    MODEL_DRAFTS_E_VOCAB = 1, /* other tokens; the text names the first difference */
};

/* Tells whether a model that is ready can draft for another one that is, and how many tokens the two share. 0,
 * MODEL_DRAFTS_E_VOCAB. */
int model_drafts_compare(const Model *target, const Model *draft, uint32_t *n_sharedp, ErrText *err);
/* At the top of the loop, after changes of models or pairs: what is to be loaded is, what fits drafts, what nobody
 * needs any more goes. */
void model_drafts_settle(ModelRegistry *registry);
/* What is said of its draft model has changed: all is tried anew. */
void model_drafts_renew(Model *target);
void model_drafts_renew_all(ModelRegistry *registry);
/* A loaded target that keeps a draft model in memory; NULL: none does. */
const Model *model_drafts_target_of(ModelRegistry *registry, const Model *draft);

#endif
