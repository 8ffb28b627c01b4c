// SPDX-License-Identifier: Apache-2.0
/* A candidate stands at the index of its id, so its id can hold a mark while the history is read: ID_MARK less a count.
 * Counts are below 2^31, so no mark is the id of a token. */
#include "engine/sampling/logit_penalties.h"

#define ID_MARK UINT32_MAX

bool logit_penalties_are_on(const SamplerOptions *options) {
    return options->repetition_penalty != 1 || options->n_biases || options->presence_penalty != 0 ||
           options->frequency_penalty != 0 || options->dry_penalty;
}

static void add_biases(const SamplerOptions *options, SamplerCandidate *candidates, size_t n_vocab) {
    for (size_t i = 0; i < options->n_biases; i++)
        if (options->biases[i].token < n_vocab)
            candidates[options->biases[i].token].logit += options->biases[i].bias;
}

/* Makes tokens of the window less likely: a positive logit is divided by the penalty, a negative one multiplied. */
static void penalise_repetition(const SamplerOptions *options, const uint32_t *history, size_t n_history,
                                SamplerCandidate *candidates, size_t n_vocab) {
    const size_t window = options->repetition_window, first = window && n_history > window ? n_history - window : 0;

    for (size_t i = first; i < n_history; i++) {
        SamplerCandidate *candidate = history[i] < n_vocab ? &candidates[history[i]] : NULL;

        if (!candidate || candidate->id == ID_MARK) /* once a token, however often it occurs */
            continue;
        candidate->logit = candidate->logit > 0 ? candidate->logit / options->repetition_penalty
                                                : candidate->logit * options->repetition_penalty;
        candidate->id = ID_MARK;
    }
    for (size_t i = first; i < n_history; i++)
        if (history[i] < n_vocab)
            candidates[history[i]].id = history[i];
}

/* Makes tokens of the answer less likely: by presence once, by frequency as often as they occur. */
static void penalise_answer(const SamplerOptions *options, const uint32_t *history, size_t n_history,
                            SamplerCandidate *candidates, size_t n_vocab) {
    for (size_t i = options->n_prompt; i < n_history; i++) {
        SamplerCandidate *candidate = history[i] < n_vocab ? &candidates[history[i]] : NULL;

        if (candidate)
            candidate->id = (candidate->id == history[i] ? ID_MARK : candidate->id) - 1;
    }
    for (size_t i = options->n_prompt; i < n_history; i++) {
        SamplerCandidate *candidate = history[i] < n_vocab ? &candidates[history[i]] : NULL;

        if (!candidate || candidate->id == history[i])
            continue;
        candidate->logit -= (float)(ID_MARK - candidate->id) * options->frequency_penalty + options->presence_penalty;
        candidate->id = history[i];
    }
}

void logit_penalties_apply(const SamplerOptions *options, const uint32_t *history, size_t n_history,
                           SamplerCandidate *candidates, size_t n_vocab) {
    if (options->n_biases)
        add_biases(options, candidates, n_vocab);
    if (options->repetition_penalty != 1)
        penalise_repetition(options, history, n_history, candidates, n_vocab);
    if (options->presence_penalty != 0 || options->frequency_penalty != 0)
        penalise_answer(options, history, n_history, candidates, n_vocab);
    if (options->dry_penalty)
        dry_penalty_apply(options->dry_penalty, history, n_history, candidates, n_vocab);
}
