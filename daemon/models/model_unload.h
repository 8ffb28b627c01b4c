// SPDX-License-Identifier: Apache-2.0
/* How a model is unloaded, and who holds it until then. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_UNLOAD_H
#define COORDGEN_DAEMON_MODEL_UNLOAD_H

#include "daemon/models/model_registry.h"

void model_leave(Model *model); /* a user less; it may be forgotten */
/* Who drafts for a target's later generations; NULL: nobody. It is held like by a request. None may be drafted for. */
void model_set_draft(Model *target, Model *draft);
int model_unload(Model *model, ErrText *err);        /* its one user is who asks; MODEL_E_STATE */
int model_unload_unused(Model *model, ErrText *err); /* nobody has asked for its memory; nobody may use it */
/* Unloads the engine of a model whose weights did not come, as soon as nobody uses it. */
void model_unload_failed(Model *model);

#endif
