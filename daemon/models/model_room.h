// SPDX-License-Identifier: Apache-2.0
/* Room for a load, or for keys and values: models that nobody uses give their memory back. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_ROOM_H
#define COORDGEN_DAEMON_MODEL_ROOM_H

#include "daemon/models/model.h"

/* Has a model unloaded that nobody uses, where that gives room for keys and values; n_unloading until it is. */
bool model_make_room_for_kv(ModelRegistry *registry);
/* Has the model that was used least of those that nobody uses unloaded, before any job that is submitted after it.
 * false: there is none. */
bool model_make_room(Model *wanting);
/* Adds to the text why nothing makes room. Return: whether something may later, when those go that use other models. */
bool model_tell_room(Model *wanting, ErrText *err);

#endif
