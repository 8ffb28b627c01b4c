// SPDX-License-Identifier: Apache-2.0
/* Unloads models, and counts the holders that keep a model loaded. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_UNLOAD_H
#define COORDGEN_DAEMON_MODEL_UNLOAD_H

#include "daemon/models/model_registry.h"

void model_leave(Model *model); /* gives a hold back; the model may be forgotten */
/* Sets and holds the model that drafts for a target's later generations; NULL: none. No generation may use the old pair
 * any more. */
void model_set_draft(Model *target, Model *draft);
int model_unload(Model *model, ErrText *err);        /* the caller is the one user; 0, MODEL_E_STATE, -ENOMEM */
int model_unload_unused(Model *model, ErrText *err); /* for room, not by a command; the model has no user */
/* Unloads the engine of a model whose weights failed to arrive, as soon as nobody uses the engine. */
void model_unload_failed(Model *model);

#endif
