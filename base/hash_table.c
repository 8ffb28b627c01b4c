// SPDX-License-Identifier: Apache-2.0
#include "base/hash_table.h"

#include <assert.h>
#include <errno.h>

#include "base/err.h"

int hash_table_init(HashTable *table, uint64_t n_keys_max, unsigned int load_percent, size_t *n_slotsp) {
    uint64_t n_slots = 16;
    int r;

    assert(load_percent && load_percent <= 75);
    *table = (HashTable){ 0 };
    while (n_keys_max <= UINT32_MAX && load_percent * n_slots < 100 * n_keys_max)
        n_slots *= 2;
    if (n_keys_max > UINT32_MAX || n_slots > UINT32_MAX)
        return err_raise(-ENOMEM);
    r = hash_key_init(&table->key);
    if (r)
        return err_trace(r);
    table->mask = (uint32_t)(n_slots - 1);
    *n_slotsp = (size_t)n_slots;
    return 0;
}
