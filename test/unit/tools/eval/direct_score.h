// SPDX-License-Identifier: Apache-2.0
/* Log-likelihood of tokens in the plainest way: one token a step, all its logits, no sharing. */
#ifndef COORDGEN_TEST_UNIT_DIRECT_SCORE_H
#define COORDGEN_TEST_UNIT_DIRECT_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/unit/fixtures/real_model.h"

/* Returns the sum over i of n_context..n-1 of log p(ids[i] | ids[0..i)), and whether each token was the best. */
double direct_score(RealModel *model, const uint32_t *ids, size_t n, size_t n_context, bool *greedyp);

#endif
