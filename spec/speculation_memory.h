// SPDX-License-Identifier: Apache-2.0
/* What the generations of a model leave to later ones: the times of steps to all, how good drafts were to those of the
 * same user alone. */
#ifndef COORDGEN_SPEC_SPECULATION_MEMORY_H
#define COORDGEN_SPEC_SPECULATION_MEMORY_H

#include "base/memory/account.h"
#include "spec/control/prompt_rule.h"
#include "spec/control/row_times.h"
#include "spec/control/speculation_control.h"
#include "spec/tree/source_stats.h"

enum {
    SPECULATION_USERS_MAX = 64 /* whoever was longest away makes way */
};

typedef struct SpeculationUser {
    Bill bill;
    uint64_t user;
    uint64_t used_at;
    bool has_stats;
    SourceStats stats;
    PromptRule prompt;
    PromptRule model; /* whether a draft model reads the prompt: what it brings, in tokens, and its rows */
} SpeculationUser;

/* Embedded; begins with speculation_memory_init(). Thread: the one that computes. */
typedef struct SpeculationMemory {
    SpeculationControl times;
    float prompt_row_ms; /* of the head, at rows of a prompt; 0: not known */
    float model_row_ms;  /* of a draft model, for a row of a prompt; 0: not known */
    float token_ms;      /* of a token of output, with its drafts; 0: not known */
    RowTimes self_times; /* of passes of the model's first layers, that draft for it */
    uint64_t n_uses;
    AccountTable *accounts;
    SpeculationUser *users[SPECULATION_USERS_MAX];
} SpeculationMemory;

/* Nothing is known. The accounts outlive it; users are on the account of drafts. */
void speculation_memory_init(SpeculationMemory *memory, AccountTable *accounts);
void speculation_memory_deinit(SpeculationMemory *memory);
/* What is known of a user, who is a new one otherwise; valid until the next call. NULL: no memory, or
 * the account has no room. */
SpeculationUser *speculation_memory_user(SpeculationMemory *memory, uint64_t user);
/* One measurement more of an average. */
void speculation_memory_measure(float *average, float measured);

#endif
