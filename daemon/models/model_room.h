// SPDX-License-Identifier: Apache-2.0
/* Room for a load, or for keys and values: models that nobody uses give their memory back. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_ROOM_H
#define COORDGEN_DAEMON_MODEL_ROOM_H

#include "daemon/models/model.h"

/* Unloads an unused model if that gives room for keys and values. true: n_unloading counts it until it is done. */
bool model_make_room_for_kv(ModelRegistry *registry);
/* Unloads the unused model that was used longest ago, before any job that is submitted later. false: there is none. */
bool model_make_room(Model *wanting);
/* Adds to the text why no model makes room. Return: whether one may later, when the users of other models have gone. */
bool model_tell_room(Model *wanting, ErrText *err);

#endif
