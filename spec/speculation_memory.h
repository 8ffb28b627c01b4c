// SPDX-License-Identifier: Apache-2.0
/* What generations of a model leave to later ones: step times to all of them, statistics of drafts to those of the same
 * user. */
#ifndef COORDGEN_SPEC_SPECULATION_MEMORY_H
#define COORDGEN_SPEC_SPECULATION_MEMORY_H

#include "base/memory/account.h"
#include "spec/control/prompt_rule.h"
#include "spec/control/row_times.h"
#include "spec/control/speculation_control.h"
#include "spec/tree/source_stats.h"

enum {
    SPECULATION_USERS_MAX = 64 /* the user who has been away longest makes way */
};

typedef struct SpeculationUser {
    Bill bill;
    uint64_t user;
    uint64_t used_at;
    bool has_stats;
    SourceStats stats;
    PromptRule prompt;
    PromptRule model; /* whether a draft model reads the prompt; counts the tokens that it brings, and its rows */
} SpeculationUser;

/* Embedded; begins with speculation_memory_init(). Thread: the one that computes. */
typedef struct SpeculationMemory {
    SpeculationControl times;
    float prompt_row_ms; /* time of the output head for a row of a prompt; 0: not known */
    float model_row_ms;  /* time of a draft model for a row of a prompt; 0: not known */
    float token_ms;      /* time of a token of output, drafts included; 0: not known */
    RowTimes self_times; /* times of passes of the model's first layers, which draft for the model */
    uint64_t n_uses;
    AccountTable *accounts;
    SpeculationUser *users[SPECULATION_USERS_MAX];
} SpeculationMemory;

/* Begins with nothing known. The accounts outlive the memory; users are charged on the account of drafts. */
void speculation_memory_init(SpeculationMemory *memory, AccountTable *accounts);
void speculation_memory_deinit(SpeculationMemory *memory);
/* Returns what is known of a user, a new one where nothing is; valid until the next call. NULL: no memory, or the
 * account has no room. */
SpeculationUser *speculation_memory_user(SpeculationMemory *memory, uint64_t user);
/* Adds a measurement to a running average. */
void speculation_memory_measure(float *average, float measured);

#endif
