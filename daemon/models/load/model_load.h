// SPDX-License-Identifier: Apache-2.0
/* Brings a model into memory: the import, the load, and the engine thread's news of both. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_LOAD_H
#define COORDGEN_DAEMON_MODEL_LOAD_H

#include "daemon/models/model.h"

/* Begins to load a model that is neither loaded nor on its way. 0, or MODEL_E_STATE while the model is being unloaded.
 * A failure of the load comes as a change of stage. */
int model_load(Model *model, ErrText *err);
/* Loads as model_load() does, and unloads unused models if memory is short. A model that is being unloaded is loaded
 * again afterwards. */
int model_load_with_room(Model *model, ErrText *err);
void model_on_news(Model *model, Job *job, JobNews *news); /* news of a load or unload job */

#endif
