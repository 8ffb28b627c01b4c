// SPDX-License-Identifier: Apache-2.0
/*
 * A text loops when its last L tokens are R or more repeats of one period, L at least REPETITION_TOKENS_MIN and R at
 * least REPETITION_REPEATS_MIN. Tables, matrices, rulers and drawings repeat themselves, too, with few different
 * tokens. For them a period of fewer than REPETITION_VARIETY different tokens must have twice of both.
 */
#include "engine/repetition_check.h"

#include "base/min_max.h"

/* Returns whether text[n] has REPETITION_VARIETY different tokens or more. */
static bool is_varied(const uint32_t *text, size_t n) {
    uint32_t seen[REPETITION_VARIETY];
    size_t n_seen = 0;

    for (size_t i = 0; i < n; i++) {
        size_t at = 0;

        while (at < n_seen && seen[at] != text[i])
            at++;
        if (at < n_seen)
            continue;
        seen[n_seen++] = text[i];
        if (n_seen == REPETITION_VARIETY)
            return true;
    }
    return false;
}

/* Returns how many tokens the repeats of a period have together before they are a loop. */
static size_t loop_tokens(size_t period) {
    const size_t tokens = period * REPETITION_REPEATS_MIN;

    return MAX(tokens, REPETITION_TOKENS_MIN);
}

/**
 * repetition_check_push() - take one token of a text, and tell whether the text has become a loop
 * @text: ids of all tokens so far, the new one last
 *
 * The answer depends on the ids alone. Time: one comparison for each period; for a text that has repeated itself for
 * long also a pass over its period. Thread: any.
 */
bool repetition_check_push(RepetitionCheck *check, const uint32_t *text, size_t n) {
    const size_t n_periods = n <= REPETITION_PERIOD_MAX ? n - 1 : REPETITION_PERIOD_MAX;
    const uint32_t *last = text + n - 1;
    bool loops = false;

    for (size_t period = 1; period <= n_periods; period++) {
        size_t tokens;

        check->runs[period] = *last == *(last - period) ? check->runs[period] + 1 : 0;
        tokens = check->runs[period] + period;
        /* Each limit is met exactly once while a run grows. */
        if (tokens == 2 * loop_tokens(period) ||
            (tokens == loop_tokens(period) && is_varied(last + 1 - period, period)))
            loops = true;
    }
    return loops;
}
