// SPDX-License-Identifier: Apache-2.0
/* The policies that `flash` compares: plain decoding, published rules for trees of a draft model, and coordgen's
 * own. */
#ifndef COORDGEN_BENCH_FLASH_POLICY_H
#define COORDGEN_BENCH_FLASH_POLICY_H

#include "engine/generation.h"

enum {
    FLASH_POLICIES_MAX = 9,
    FLASH_AR = 0, /* reference of all other policies */
    FLASH_OURS = 6
};

typedef struct FlashPolicy {
    const char *name;
    uint32_t sources; /* bits 1 << SpeculationSource */
    SpecLab lab;
} FlashPolicy;

extern const FlashPolicy flash_policies[FLASH_POLICIES_MAX];

/* Parses names with commas between into bits 1 << index; flash-ar is always set. Return: 0, or -EINVAL with a text. */
int flash_policies_parse(const char *text, uint32_t *policiesp, ErrText *err);

#endif
