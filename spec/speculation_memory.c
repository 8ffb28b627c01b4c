// SPDX-License-Identifier: Apache-2.0
#include "spec/speculation_memory.h"

#include <stdlib.h>

void speculation_memory_deinit(SpeculationMemory *memory) {
    for (size_t i = 0; i < SPECULATION_USERS_MAX; i++)
        free(memory->users[i]);
    *memory = (SpeculationMemory){ 0 };
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
        *place = malloc(sizeof(**place));
    if (*place)
        **place = (SpeculationUser){ .user = user, .used_at = ++memory->n_uses };
    return *place;
}

void speculation_memory_measure(float *average, float measured) {
    const float weight = 0.2F;

    *average += *average > 0 ? weight * (measured - *average) : measured;
}
