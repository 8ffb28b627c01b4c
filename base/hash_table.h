// SPDX-License-Identifier: Apache-2.0
/* Open addressing for hash tables whose keys others choose: names in a model file, merges, marks. The caller owns the
 * slots, an array of any type, and says what a slot holds. A secret of the table's own (base/hash_key.h) and a bound on
 * probes keep look-ups short, whatever the keys are. */
#ifndef COORDGEN_BASE_HASH_TABLE_H
#define COORDGEN_BASE_HASH_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash_key.h"

enum {
    HASH_TABLE_E_PRESENT = 1, /* a slot holds an equal key */
    HASH_TABLE_E_CLUSTER = 2, /* so many keys collide that look-ups would be slow: keys made to harm */
};

#define HASH_TABLE_NONE UINT32_MAX
/* At three quarters of load, chance makes no run of 1,000 slots. */
#define HASH_TABLE_PROBES_MAX 4096

typedef struct HashTable {
    HashKey key;
    uint32_t mask;         /* slots - 1 */
    uint32_t n_probes_max; /* the most steps between a key and its home slot */
} HashTable;

typedef enum HashSlotState {
    HASH_SLOT_FREE,
    HASH_SLOT_SAME, /* holds the wanted key */
    HASH_SLOT_OTHER,
} HashSlotState;

/* Tells what slot number `at` of the caller's holds. */
typedef HashSlotState HashLook(const void *slots, uint32_t at, const void *wanted);

/* Draws the secret and sets the number of slots, a power of two that n_keys_max keys fill to load_percent at most
 * (1..75). *n_slotsp: out. The caller allocates the slots, all free. 0, -ENOMEM or -errno. */
int hash_table_init(HashTable *table, uint64_t n_keys_max, unsigned int load_percent, size_t *n_slotsp);
/* Sets the number of slots as init does, with the secret that is there. The caller allocates free slots, and places its
 * keys anew. 0 or -ENOMEM: the table is as it was. */
int hash_table_resize(HashTable *table, uint64_t n_keys_max, unsigned int load_percent, size_t *n_slotsp);

/* Returns the slot of the wanted key, or HASH_TABLE_NONE. The search ends at the distance of the key that is furthest
 * from its home: a run of full slots may be far longer. Inline, so that the compiler inlines look() too. */
static inline uint32_t hash_table_find(const HashTable *table, uint64_t hash, HashLook *look, const void *slots,
                                       const void *wanted) {
    uint32_t at = (uint32_t)hash & table->mask;

    for (uint32_t n_probes = 0; n_probes <= table->n_probes_max; n_probes++, at = (at + 1) & table->mask) {
        HashSlotState state = look(slots, at, wanted);

        if (state != HASH_SLOT_OTHER)
            return state == HASH_SLOT_SAME ? at : HASH_TABLE_NONE;
    }
    return HASH_TABLE_NONE;
}

/* Finds the free slot *atp for a new key, which the caller then fills. 0; HASH_TABLE_E_PRESENT: *atp holds an equal
 * key; HASH_TABLE_E_CLUSTER. */
static inline int hash_table_place(HashTable *table, uint64_t hash, HashLook *look, const void *slots,
                                   const void *wanted, uint32_t *atp) {
    uint32_t at = (uint32_t)hash & table->mask;

    for (uint32_t n_probes = 0; n_probes <= HASH_TABLE_PROBES_MAX; n_probes++, at = (at + 1) & table->mask) {
        HashSlotState state = look(slots, at, wanted);

        if (state == HASH_SLOT_OTHER)
            continue;
        *atp = at;
        if (state == HASH_SLOT_SAME)
            return HASH_TABLE_E_PRESENT;
        if (n_probes > table->n_probes_max)
            table->n_probes_max = n_probes;
        return 0;
    }
    return HASH_TABLE_E_CLUSTER;
}

#endif
