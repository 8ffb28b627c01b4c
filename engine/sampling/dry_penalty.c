// SPDX-License-Identifier: Apache-2.0
/*
 * SPEC: llama.cpp's DRY sampler, after the proposal of p-e-w. A token that came behind an earlier occurrence of the
 * last n tokens, n at least allowed_length, loses multiplier x base^(n - allowed_length), by the longest such n. A
 * breaker ends the last tokens: n counts those behind it alone.
 *
 * llama.cpp looks for breakers in tokens: for each breaker the tokens that may begin it, and the usual tokens of the
 * rest behind each. The bytes of the tokens are searched here instead: that finds a breaker however the model has cut
 * it, and needs no pass over the vocabulary.
 */
#include "engine/sampling/dry_penalty.h"

#include <errno.h>
#include <float.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"

#define ID_MARK UINT32_MAX /* less a length: see logit_penalties.c */
#define PIECE_BYTES 1024   /* room for the bytes of a token from the start */

typedef struct DryBreaker {
    char text[DRY_BREAKER_BYTES_MAX];
    size_t len_bytes;
} DryBreaker;

struct DryPenalty {
    DryOptions options; /* without breakers */
    DryBreaker breakers[DRY_BREAKERS_MAX];
    DryPieceFn *piece;
    const void *piece_arg;
    StrBuf text; /* bytes of a token and of what follows it */
    size_t history_max;
    uint32_t lengths[]; /* [history_max] */
};

int dry_options_check(const DryOptions *options, ErrText *err) {
    if (!(options->multiplier >= 0 && options->multiplier <= 100))
        return err_set(err, DRY_PENALTY_E_OPTIONS, "dry_multiplier %g is outside 0..100", (double)options->multiplier);
    if (options->multiplier == 0)
        return 0;
    if (!(options->base >= 1 && options->base <= 10))
        return err_set(err, DRY_PENALTY_E_OPTIONS, "dry_base %g is outside 1..10", (double)options->base);
    if (options->n_breakers > DRY_BREAKERS_MAX)
        return err_set(err, DRY_PENALTY_E_OPTIONS, "%zu texts of dry_breaker; at most %d are allowed",
                       options->n_breakers, DRY_BREAKERS_MAX);
    for (size_t i = 0; i < options->n_breakers; i++) {
        const size_t len_bytes = strlen(options->breakers[i]);

        if (!len_bytes || len_bytes > DRY_BREAKER_BYTES_MAX)
            return err_set(err, DRY_PENALTY_E_OPTIONS, "dry_breaker %zu has %zu bytes; 1 to %d are allowed", i,
                           len_bytes, DRY_BREAKER_BYTES_MAX);
    }
    return 0;
}

size_t dry_penalty_bytes(size_t history_max) {
    return sizeof(DryPenalty) + history_max * sizeof(uint32_t) + PIECE_BYTES;
}

int dry_penalty_new(DryPenalty **penaltyp, const DryOptions *options, size_t history_max, DryPieceFn *piece,
                    const void *piece_arg) {
    static const char blank[PIECE_BYTES];
    _cleanup_(dry_penalty_freep) DryPenalty *penalty = calloc(1, sizeof(*penalty) + history_max * sizeof(uint32_t));

    if (!penalty)
        return -ENOMEM;
    penalty->options = *options;
    penalty->options.breakers = NULL;
    penalty->piece = piece;
    penalty->piece_arg = piece_arg;
    penalty->history_max = history_max;
    for (size_t i = 0; i < options->n_breakers; i++) {
        penalty->breakers[i].len_bytes = strlen(options->breakers[i]);
        memcpy(penalty->breakers[i].text, options->breakers[i], penalty->breakers[i].len_bytes);
    }
    str_buf_append(&penalty->text, blank, sizeof(blank)); /* so that later pieces need no memory */
    if (str_buf_failed(&penalty->text))
        return -ENOMEM;
    *penaltyp = steal(&penalty);
    return 0;
}

DryPenalty *dry_penalty_free(DryPenalty *penalty) {
    if (!penalty)
        return NULL;
    str_buf_deinit(&penalty->text);
    free(penalty);
    return NULL;
}

/* ---- breakers ---------------------------------------------------------------------------------------------------- */

/* Puts a token's bytes, then the given bytes, into penalty->text. Returns how many bytes are the token's. */
static size_t set_text(DryPenalty *penalty, uint32_t token, const char *behind, size_t n_behind) {
    size_t len_bytes;

    str_buf_truncate(&penalty->text, 0);
    penalty->piece(penalty->piece_arg, token, &penalty->text);
    len_bytes = penalty->text.len_bytes;
    str_buf_append(&penalty->text, behind, n_behind);
    return len_bytes;
}

/* Returns where the breaker that begins within the first n bytes of penalty->text, and ends last, ends; 0: none. */
static size_t find_breaker(const DryPenalty *penalty, size_t n) {
    const char *text = penalty->text.data;
    size_t end = 0;

    for (size_t i = 0; i < penalty->options.n_breakers; i++) {
        const DryBreaker *breaker = &penalty->breakers[i];

        for (size_t at = 0; at < n && at + breaker->len_bytes <= penalty->text.len_bytes; at++)
            if (!memcmp(text + at, breaker->text, breaker->len_bytes))
                end = MAX(end, at + breaker->len_bytes);
    }
    return end;
}

/* Returns how many of the last n tokens follow the last breaker; n if there is none. */
static size_t tokens_behind_breaker(DryPenalty *penalty, const uint32_t *last, size_t n) {
    char behind[DRY_BREAKER_BYTES_MAX];
    size_t n_behind = 0;

    for (size_t i = n; penalty->options.n_breakers && i-- > 0;) {
        const size_t len_bytes = set_text(penalty, last[i], behind, n_behind), end = find_breaker(penalty, len_bytes);
        size_t at = i + 1;

        if (end) { /* find the token with the breaker's last byte */
            size_t done = len_bytes;

            while (done < end)
                done += set_text(penalty, last[at++], "", 0);
            return n - at;
        }
        n_behind = MIN(penalty->text.len_bytes, sizeof(behind));
        if (n_behind)
            memcpy(behind, penalty->text.data, n_behind);
    }
    return n;
}

static bool has_breaker(DryPenalty *penalty, uint32_t token) {
    return find_breaker(penalty, set_text(penalty, token, "", 0)) > 0;
}

/* ---- repetitions ------------------------------------------------------------------------------------------------- */

/**
 * measure() - how many tokens before each place equal the last ones
 * @last:    [n]
 * @lengths: out: [n]; lengths[k] for k >= 1: the greatest m with last[n - k - m .. n - k) equal to last[n - m .. n)
 *
 * Z-algorithm on the reversed tokens: what lies within the match that reaches furthest back is known from its copy, so
 * every token is compared once. Time O(n).
 */
static void measure(const uint32_t *last, size_t n, uint32_t *lengths) {
    size_t begin = 0, end = 0; /* reversed places [begin, end) equal [0, end - begin) */

    for (size_t k = 1; k < n; k++) {
        size_t length = k < end ? MIN(lengths[k - begin], end - k) : 0;

        if (k + length >= end) {
            while (k + length < n && last[n - 1 - length] == last[n - 1 - k - length])
                length++;
            begin = k;
            end = k + length;
        }
        lengths[k] = (uint32_t)length;
    }
}

/* Returns base^n, or the greatest float if that is less. */
static double power(float base, size_t n) {
    double result = 1, square = base;

    for (; n && result < (double)FLT_MAX; n >>= 1, square *= square)
        if (n & 1)
            result *= square;
    return MIN(result, (double)FLT_MAX);
}

/* Marks the tokens that would prolong a repetition, each with the longest one. The token at place k - 1 from the end
 * follows a repetition of lengths[k] tokens. */
static void mark_tokens(const DryPenalty *penalty, const uint32_t *last, size_t n, size_t longest,
                        SamplerCandidate *candidates, size_t n_vocab) {
    for (size_t k = 1; k < n; k++) {
        const uint32_t length = (uint32_t)MIN(penalty->lengths[k], longest), token = last[n - k];
        SamplerCandidate *candidate = token < n_vocab ? &candidates[token] : NULL;

        if (length < penalty->options.allowed_length || !candidate)
            continue;
        if (candidate->id == token || ID_MARK - candidate->id < length)
            candidate->id = ID_MARK - length;
    }
}

void dry_penalty_apply(DryPenalty *penalty, const uint32_t *history, size_t n_history, SamplerCandidate *candidates,
                       size_t n_vocab) {
    const DryOptions *options = &penalty->options;
    const size_t most = MIN(n_history, penalty->history_max),
                 n = options->window && options->window < most ? options->window : most;
    const uint32_t *last = history + n_history - n;
    size_t longest;

    if (n <= options->allowed_length)
        return;
    longest = tokens_behind_breaker(penalty, last, n);
    if (longest < options->allowed_length)
        return;
    measure(last, n, penalty->lengths);
    mark_tokens(penalty, last, n, longest, candidates, n_vocab);
    for (size_t i = 0; i < n; i++) {
        SamplerCandidate *candidate = last[i] < n_vocab ? &candidates[last[i]] : NULL;
        size_t prolonged;

        if (!candidate || candidate->id == last[i])
            continue;
        prolonged = ID_MARK - candidate->id - options->allowed_length;
        candidate->id = last[i];
        if (!has_breaker(penalty, last[i])) /* a breaker ends the repetition itself */
            candidate->logit -= (float)MIN(options->multiplier * power(options->base, prolonged), (double)FLT_MAX);
    }
}
