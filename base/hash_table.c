// SPDX-License-Identifier: Apache-2.0
#include "base/hash_table.h"

#include <assert.h>
#include <errno.h>

#include "base/err.h"

int hash_table_resize(HashTable *table, uint64_t n_keys_max, unsigned int load_percent, size_t *n_slotsp) {
    uint64_t n_slots = 16;

    assert(load_percent && load_percent <= 75);
    while (n_keys_max <= UINT32_MAX && load_percent * n_slots < 100 * n_keys_max)
        n_slots *= 2;
    if (n_keys_max > UINT32_MAX || n_slots > UINT32_MAX)
        return err_raise(-ENOMEM);
    table->mask = (uint32_t)(n_slots - 1);
    table->n_probes_max = 0;
    *n_slotsp = (size_t)n_slots;
    return 0;
}

int hash_table_init(HashTable *table, uint64_t n_keys_max, unsigned int load_percent, size_t *n_slotsp) {
    int r = hash_key_init(&table->key);

    return r ? err_trace(r) : hash_table_resize(table, n_keys_max, load_percent, n_slotsp);
}
