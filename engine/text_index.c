#include "engine/text_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define PROBES_MAX 4096 /* at three quarters of load a run of 1000 slots does not happen by chance */

static uint64_t mixed(uint64_t value) {
    __extension__ typedef unsigned __int128 Wide;
    Wide product = (Wide)value * 0x9fb21c651e98df25u;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t text_hash(const char *text, size_t len_bytes) {
    uint64_t hash = 0x9e3779b97f4a7c15u ^ len_bytes, word;

    for (; len_bytes >= sizeof(word); text += sizeof(word), len_bytes -= sizeof(word)) {
        memcpy(&word, text, sizeof(word));
        hash = mixed(hash ^ word);
    }
    word = 0;
    if (len_bytes)
        memcpy(&word, text, len_bytes);
    return mixed(hash ^ word);
}

int text_index_init(TextIndex *index, uint32_t n_texts, const char *texts, const uint32_t *offsets) {
    uint64_t n_slots = 16;

    while (3 * n_slots < 4 * (uint64_t)n_texts) /* a small table stays in the cache */
        n_slots *= 2;
    *index = (TextIndex){ .texts = texts, .offsets = offsets };
    if (n_slots > UINT32_MAX)
        return err_raise(-ENOMEM);
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

/* Returns the slot of the text, or the free one where it belongs. */
static TextSlot *slot_of(const TextIndex *index, const char *text, size_t len_bytes, uint64_t hash,
                         uint32_t *n_probesp) {
    uint32_t check = (uint32_t)(hash >> 32), at = (uint32_t)hash & index->mask, n_probes = 0;
    TextSlot *slot;

    for (;; at = (at + 1) & index->mask, n_probes++) {
        slot = &index->slots[at];
        if (slot->id == UINT32_MAX)
            break;
        if (slot->check == check) {
            const uint32_t *offset = index->offsets + slot->id;

            if (offset[1] - offset[0] == len_bytes && !memcmp(index->texts + offset[0], text, len_bytes))
                break;
        }
    }
    *n_probesp = n_probes;
    return slot;
}

int text_index_add(TextIndex *index, uint32_t id) {
    const char *text = index->texts + index->offsets[id];
    size_t len_bytes = index->offsets[id + 1] - index->offsets[id];
    uint64_t hash = text_hash(text, len_bytes);
    uint32_t n_probes;
    TextSlot *slot = slot_of(index, text, len_bytes, hash, &n_probes);

    if (n_probes > PROBES_MAX)
        return TEXT_INDEX_E_CLUSTER;
    if (slot->id == UINT32_MAX)
        *slot = (TextSlot){ .check = (uint32_t)(hash >> 32), .id = id };
    else
        index->n_duplicates++;
    return 0;
}

uint32_t text_index_find(const TextIndex *index, const void *text, size_t len_bytes) {
    uint32_t n_probes;

    return slot_of(index, text, len_bytes, text_hash(text, len_bytes), &n_probes)->id;
}

size_t text_index_memory_bytes(const TextIndex *index) {
    return index->slots ? ((size_t)index->mask + 1) * sizeof(*index->slots) : 0;
}
