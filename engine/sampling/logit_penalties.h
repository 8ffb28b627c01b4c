// SPDX-License-Identifier: Apache-2.0
/* What changes logits before a token is sampled: bias, penalties on repeated tokens, DRY. docs/sampling.md defines
 * each. */
#ifndef COORDGEN_ENGINE_LOGIT_PENALTIES_H
#define COORDGEN_ENGINE_LOGIT_PENALTIES_H

#include <stdbool.h>

#include "engine/sampling/sampler_options.h"

/* Returns whether the options change any logit. */
bool logit_penalties_are_on(const SamplerOptions *options);
/* Changes the logits. history: as in sampler_pick(). candidates: [n_vocab], each at the index of its id. Time:
 * O(history), whatever the vocabulary. */
void logit_penalties_apply(const SamplerOptions *options, const uint32_t *history, size_t n_history,
                           SamplerCandidate *candidates, size_t n_vocab);

#endif
