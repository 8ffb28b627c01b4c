// SPDX-License-Identifier: Apache-2.0
#include "spec/speculation_memory.h"

#include <stdlib.h>

void speculation_memory_init(SpeculationMemory *memory, AccountTable *accounts) {
    *memory = (SpeculationMemory){ .accounts = accounts };
}

void speculation_memory_deinit(SpeculationMemory *memory) {
    for (size_t i = 0; i < SPECULATION_USERS_MAX; i++)
        if (memory->users[i]) {
            bill_settle(&memory->users[i]->bill);
            free(memory->users[i]);
        }
}

static SpeculationUser *user_new(AccountTable *accounts) {
    SpeculationUser *user = calloc(1, sizeof(*user));

    if (user && account_charge(accounts, ACCOUNT_DRAFTDB, &user->bill, sizeof(*user))) {
        free(user);
        return NULL;
    }
    return user;
}

SpeculationUser *speculation_memory_user(SpeculationMemory *memory, uint64_t user) {
    SpeculationUser **place = &memory->users[0];

    for (size_t i = 0; i < SPECULATION_USERS_MAX; i++) {
        SpeculationUser **at = &memory->users[i];

        if (*at && (*at)->user == user) {
            (*at)->used_at = ++memory->n_uses;
            return *at;
        }
        if (*place && (!*at || (*at)->used_at < (*place)->used_at))
            place = at;
    }
    if (!*place)
        *place = user_new(memory->accounts);
    if (*place)
        **place = (SpeculationUser){ .bill = (*place)->bill, .user = user, .used_at = ++memory->n_uses };
    return *place;
}

void speculation_memory_measure(float *average, float measured) {
    const float weight = 0.2F;

    *average += *average > 0 ? weight * (measured - *average) : measured;
}
