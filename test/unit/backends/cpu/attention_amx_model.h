// SPDX-License-Identifier: Apache-2.0
#ifndef COORDGEN_TEST_UNIT_ATTENTION_AMX_MODEL_H
#define COORDGEN_TEST_UNIT_ATTENTION_AMX_MODEL_H

#include "backends/cpu/attention/attention.h"

/* AMX attention on a portable model of the tile instructions. Every machine can run it. */
extern const AttentionOps attention_amx_model;

/* Allows tiles to be loaded from a region, and stored to it if it is writable. The first call forbids all other
 * memory but the kernel's stack; attention_amx_model_allow_all() ends that. */
void attention_amx_model_allow(const void *base, size_t n_bytes, bool writable);
void attention_amx_model_allow_all(void);
/* Returns true if this thread's tiles are still in use. */
bool attention_amx_model_in_use(void);

#endif
