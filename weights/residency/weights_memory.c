// SPDX-License-Identifier: Apache-2.0
#include "weights/residency/weights_memory.h"

#include <inttypes.h>
#include <string.h>

#include "base/strings/decimal.h"
#include "base/strings/utf8.h"

int weights_memory_parse(WeightsMemory *memory, const char *text, ErrText *err) {
    static const char units[] = "KMGT";
    uint64_t number = 0;
    const char *end = decimal_read_u64(text, &number), *unit = end && *end ? strchr(units, *end) : NULL;
    const unsigned int shift = unit ? 10 * (unsigned int)(1 + unit - units) : 0;
    const bool is_percent = end && !strcmp(end, "%");

    *memory = (WeightsMemory){ .is_set = true, .is_percent = is_percent };
    if (is_percent ? number > 100 : !end || end[unit != NULL] || number > UINT64_MAX >> shift)
        return err_set(err, is_percent ? WEIGHTS_MEMORY_E_PERCENT : WEIGHTS_MEMORY_E_TEXT,
                       "'%.*s' is neither 0%% to 100%% nor bytes with K, M, G or T behind them", UTF8_PREFIX(text, 32));
    if (is_percent)
        memory->percent = (uint32_t)number;
    else
        memory->bytes = number << shift;
    return 0;
}

static uint64_t all_layers(const WeightsSizes *sizes) {
    uint64_t sum = 0;

    for (size_t i = 0; i < sizes->n_layers; i++)
        sum += sizes->layer_bytes[i];
    return sum;
}

/* Returns how many of the first layers fit into so many bytes. */
static size_t layers_within(const WeightsSizes *sizes, uint64_t bytes) {
    size_t n = 0;

    for (; n < sizes->n_layers && sizes->layer_bytes[n] <= bytes; n++)
        bytes -= sizes->layer_bytes[n];
    return n;
}

int weights_memory_plan(const WeightsMemory *memory, const WeightsSizes *sizes, uint64_t slot_bytes, size_t *n_pinnedp,
                        ErrText *err) {
    const uint64_t ring_bytes = WEIGHTS_RING_SLOTS * slot_bytes, layers_bytes = all_layers(sizes);
    size_t n = sizes->n_layers;

    if (memory->is_set && memory->is_percent) {
        n = layers_within(sizes, layers_bytes / 100 * memory->percent + layers_bytes % 100 * memory->percent / 100);
    } else if (memory->is_set && memory->bytes < sizes->others_bytes + layers_bytes) {
        if (memory->bytes < sizes->others_bytes + ring_bytes)
            return err_set(err, WEIGHTS_MEMORY_E_LITTLE,
                           "%" PRIu64 " bytes are too little memory for its weights: without any layer in memory they "
                           "take %" PRIu64,
                           memory->bytes, sizes->others_bytes + ring_bytes);
        n = layers_within(sizes, memory->bytes - sizes->others_bytes - ring_bytes);
    }
    /* A ring with a slot for every layer that is left would have those layers in memory. */
    *n_pinnedp = sizes->n_layers - n > WEIGHTS_RING_SLOTS ? n : sizes->n_layers;
    return 0;
}
