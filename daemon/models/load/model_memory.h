// SPDX-License-Identifier: Apache-2.0
/* Explains to administrators what holds the memory, and what they can do about it. Owned by the loop. */
#ifndef COORDGEN_DAEMON_MODEL_MEMORY_H
#define COORDGEN_DAEMON_MODEL_MEMORY_H

#include "daemon/models/model.h"

/* Adds to a memory error, for administrators, what holds the memory and what to do. */
void model_explain_memory(const ModelRegistry *registry, ErrText *err);

#endif
