// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/text_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define PROBES_MAX 4096 /* at three quarters of load a run of 1000 slots does not happen by chance */

int text_index_init(TextIndex *index, uint32_t n_texts, const char *texts, const uint32_t *offsets) {
    uint64_t n_slots = 16;
    int r;

    while (3 * n_slots < 4 * (uint64_t)n_texts) /* a small table stays in the cache */
        n_slots *= 2;
    *index = (TextIndex){ .texts = texts, .offsets = offsets };
    if (n_slots > UINT32_MAX)
        return err_raise(-ENOMEM);
    r = hash_key_init(&index->key);
    if (r)
        return err_trace(r);
    index->slots = malloc(n_slots * sizeof(*index->slots));
    if (!index->slots)
        return err_raise(-ENOMEM);
    memset(index->slots, 0xff, n_slots * sizeof(*index->slots));
    index->mask = (uint32_t)(n_slots - 1);
    return 0;
}

void text_index_deinit(TextIndex *index) {
    free(index->slots);
    *index = (TextIndex){ 0 };
}

/* Finds the slot of the text, or the free slot for it. NULL: neither is within n_probes_max steps. */
static TextSlot *slot_of(const TextIndex *index, const char *text, size_t len_bytes, uint64_t hash,
                         uint32_t n_probes_max, uint32_t *n_probesp) {
    uint32_t check = (uint32_t)(hash >> 32), at = (uint32_t)hash & index->mask;

    for (uint32_t n_probes = 0; n_probes <= n_probes_max; n_probes++, at = (at + 1) & index->mask) {
        TextSlot *slot = &index->slots[at];

        *n_probesp = n_probes;
        if (slot->id == UINT32_MAX)
            return slot;
        if (slot->check == check) {
            const uint32_t *offset = index->offsets + slot->id;

            if (offset[1] - offset[0] == len_bytes && !memcmp(index->texts + offset[0], text, len_bytes))
                return slot;
        }
    }
    return NULL;
}

int text_index_add(TextIndex *index, uint32_t id) {
    const char *text = index->texts + index->offsets[id];
    size_t len_bytes = index->offsets[id + 1] - index->offsets[id];
    uint64_t hash = hash_key_text(&index->key, text, len_bytes);
    uint32_t n_probes = 0;
    TextSlot *slot = slot_of(index, text, len_bytes, hash, PROBES_MAX, &n_probes);

    if (!slot)
        return TEXT_INDEX_E_CLUSTER;
    if (slot->id != UINT32_MAX) {
        index->n_duplicates++;
        return 0;
    }
    *slot = (TextSlot){ .check = (uint32_t)(hash >> 32), .id = id };
    if (n_probes > index->n_probes_max)
        index->n_probes_max = n_probes;
    return 0;
}

/* No text is further from its place than n_probes_max. The search for an absent one ends there, because a run of used
 * slots may be far longer. */
uint32_t text_index_find(const TextIndex *index, const void *text, size_t len_bytes) {
    uint64_t hash = hash_key_text(&index->key, text, len_bytes);
    uint32_t n_probes;
    const TextSlot *slot = slot_of(index, text, len_bytes, hash, index->n_probes_max, &n_probes);

    return slot ? slot->id : UINT32_MAX;
}

size_t text_index_memory_bytes(const TextIndex *index) {
    return index->slots ? ((size_t)index->mask + 1) * sizeof(*index->slots) : 0;
}
