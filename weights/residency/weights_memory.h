// SPDX-License-Identifier: Apache-2.0
/* How much of a model is in memory, under a limit: the first layers stay, the others go through a ring of slots
 * (weights/ring/weights_ring). */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_MEMORY_H
#define COORDGEN_WEIGHTS_WEIGHTS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* All zero: everything is in memory. */
typedef struct WeightsMemory {
    bool is_set;
    bool is_percent;
    uint32_t percent; /* is_percent: 0..100 of the layers' bytes; embedding, head and ring come on top */
    uint64_t bytes;   /* not is_percent: of all matrices and vectors, the ring included */
} WeightsMemory;

enum {
    WEIGHTS_MEMORY_E_LITTLE = 1,  /* less than the model needs with no layer in memory; the text has both numbers */
    WEIGHTS_MEMORY_E_TEXT = 2,    /* neither a percentage nor a size */
    WEIGHTS_MEMORY_E_PERCENT = 3, /* a percentage over 100 */
    WEIGHTS_RING_SLOTS = 3,       /* one is computed with, one is read, and one is there already if that is late */
};

/* Parses "50%", or bytes with or without K, M, G or T. 0; WEIGHTS_MEMORY_E_TEXT and
 * WEIGHTS_MEMORY_E_PERCENT have a text. */
int weights_memory_parse(WeightsMemory *memory, const char *text, ErrText *err);

/* The bytes that are to be placed. */
typedef struct WeightsSizes {
    const uint64_t *layer_bytes; /* [n_layers] integers */
    size_t n_layers;
    uint64_t others_bytes; /* that are in memory in any case */
} WeightsSizes;

/* Finds how many of the first layers stay, *n_pinnedp; all of them: there is no ring. slot_bytes: of a slot of the
 * ring. 0, WEIGHTS_MEMORY_E_LITTLE. */
int weights_memory_plan(const WeightsMemory *memory, const WeightsSizes *sizes, uint64_t slot_bytes, size_t *n_pinnedp,
                        ErrText *err);

#endif
