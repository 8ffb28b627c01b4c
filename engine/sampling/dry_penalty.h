// SPDX-License-Identifier: Apache-2.0
/* DRY ("don't repeat yourself"): a penalty on tokens that would prolong a repetition of what was said before. It grows
 * with the length of the repetition. */
#ifndef COORDGEN_ENGINE_DRY_PENALTY_H
#define COORDGEN_ENGINE_DRY_PENALTY_H

#include "base/cleanup.h"
#include "base/err.h"
#include "base/strings/str_buf.h"
#include "engine/sampling/candidates.h"

#define DRY_BREAKERS_MAX 16
#define DRY_BREAKER_BYTES_MAX 32

enum {
    DRY_PENALTY_E_OPTIONS = 1, /* an option out of its range; the text names it */
};

typedef struct DryOptions {
    float multiplier; /* 0: off; 0 .. 100 */
    float base;       /* 1 .. 10 */
    uint32_t allowed_length;
    uint32_t window;             /* number of last tokens that are looked at; 0: all */
    const char *const *breakers; /* [n_breakers]: texts of 1 to DRY_BREAKER_BYTES_MAX bytes that end a repetition */
    size_t n_breakers;
} DryOptions;

/* Checks the ranges; nothing if the penalty is off. 0 or DRY_PENALTY_E_OPTIONS. */
int dry_options_check(const DryOptions *options, ErrText *err);

/* Appends the bytes of a token to the text; appends nothing for a token without any. */
typedef void DryPieceFn(const void *arg, uint32_t token, StrBuf *text);

/* The penalty with its working memory, of one generation: one thread at a time. */
typedef struct DryPenalty DryPenalty;

/* Makes the penalty for histories of at most history_max tokens. Options are copied. 0 or -ENOMEM. */
int dry_penalty_new(DryPenalty **penaltyp, const DryOptions *options, size_t history_max, DryPieceFn *piece,
                    const void *piece_arg);
DryPenalty *dry_penalty_free(DryPenalty *penalty);
DEFINE_CLEANUP(DryPenalty, dry_penalty_free)
/* Returns the memory that a penalty takes. */
size_t dry_penalty_bytes(size_t history_max);

/* Lowers logits. candidates: [n_vocab], each at the index of its id. Time and memory are linear in the window. */
void dry_penalty_apply(DryPenalty *penalty, const uint32_t *history, size_t n_history, SamplerCandidate *candidates,
                       size_t n_vocab);

#endif
