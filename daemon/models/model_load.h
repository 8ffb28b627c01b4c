// SPDX-License-Identifier: Apache-2.0
/* How a model comes into memory: import, load, and what the engine thread says of it. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_LOAD_H
#define COORDGEN_DAEMON_MODEL_LOAD_H

#include "daemon/models/model.h"

/* 0 when it is ready or on its way, MODEL_E_STATE while it is being unloaded. Failures come as a change of stage. */
int model_load(Model *model, ErrText *err);
/* Loads as model_load() does, and has models unloaded that nobody uses where memory is short. A model that is being
 * unloaded comes again. */
int model_load_with_room(Model *model, ErrText *err);
void model_on_news(Model *model, Job *job, JobNews *news); /* of a load or unload job */

#endif
