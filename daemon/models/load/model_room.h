// SPDX-License-Identifier: Apache-2.0
/* Makes room for a load, or for keys and values, by unloads of unused models. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_ROOM_H
#define COORDGEN_DAEMON_MODEL_ROOM_H

#include "daemon/models/model.h"

/* Unloads an unused model if that gives room for keys and values. true: n_unloading counts the unload until its end. */
bool model_make_room_for_kv(ModelRegistry *registry);
/* Unloads the least recently used unused model, before any job that is submitted later. false: there is none. */
bool model_make_room(Model *wanting);
/* Adds to the text why no model makes room. Return: whether room may come once other models' users have left. */
bool model_tell_room(Model *wanting, ErrText *err);

#endif
