// SPDX-License-Identifier: Apache-2.0
/*
 * Order of the steps: repetition penalty, temperature, top-k, top-p, min-p, draw. Sums run in one fixed order in
 * double, exponentials are the shared routine's, so that the token is the same on every machine.
 */
#include "engine/sampling/sampler.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "backends/numeric/exp_row.h"
#include "backends/numeric/top_row.h"
#include "base/min_max.h"
#include "base/system/cpu.h"

#define ID_MET UINT32_MAX

int sampler_options_check(const SamplerOptions *options, ErrText *err) {
    if (!(options->temperature >= 0 && options->temperature <= 100))
        return err_set(err, SAMPLER_E_OPTIONS, "temperature %g is outside 0..100", (double)options->temperature);
    if (!(options->top_p > 0 && options->top_p <= 1))
        return err_set(err, SAMPLER_E_OPTIONS, "top_p %g is outside (0, 1]", (double)options->top_p);
    if (!(options->min_p >= 0 && options->min_p < 1))
        return err_set(err, SAMPLER_E_OPTIONS, "min_p %g is outside [0, 1)", (double)options->min_p);
    if (!(options->repetition_penalty > 0 && options->repetition_penalty <= 10))
        return err_set(err, SAMPLER_E_OPTIONS, "repetition_penalty %g is outside (0, 10]",
                       (double)options->repetition_penalty);
    return 0;
}

/**
 * sampler_uniform() - a number in [0, 1) that depends on seed and position only
 *
 * SPEC: Philox4x32-10, Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". Key: the seed; counter: the
 * position. The top 24 bits of the first word.
 */
float sampler_uniform(uint64_t seed, uint64_t position) {
    uint32_t counter[4] = { (uint32_t)position, (uint32_t)(position >> 32), 0, 0 };
    uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * counter[0], b = (uint64_t)0xCD9E8D57u * counter[2];
        uint32_t c1 = counter[1], c3 = counter[3];

        counter[0] = (uint32_t)(b >> 32) ^ c1 ^ key[0];
        counter[1] = (uint32_t)b;
        counter[2] = (uint32_t)(a >> 32) ^ c3 ^ key[1];
        counter[3] = (uint32_t)a;
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return (float)(counter[0] >> 8) * 0x1p-24f;
}

/* Order of candidates: higher logit first, lower id on ties. */
static bool before(SamplerCandidate a, SamplerCandidate b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static int candidate_compare(const void *a, const void *b) {
    return before(*(const SamplerCandidate *)a, *(const SamplerCandidate *)b) ? -1 : 1;
}

/* Puts the m candidates that come first, sorted, at the head of the array, by a heap whose root comes last. */
static void select_first(SamplerCandidate *candidates, size_t n, size_t m) {
    if (m >= n) {
        qsort(candidates, n, sizeof(*candidates), candidate_compare);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        SamplerCandidate item = candidates[i];
        size_t at;

        if (i < m) { /* grow the heap: sift up */
            at = i;
            while (at && before(candidates[(at - 1) / 2], item)) {
                candidates[at] = candidates[(at - 1) / 2];
                at = (at - 1) / 2;
            }
            candidates[at] = item;
            continue;
        }
        if (!before(item, candidates[0]))
            continue;
        candidates[i] = candidates[0]; /* stays a candidate: a later call may select more */
        at = 0;
        for (;;) { /* replace the root: sift down */
            size_t child = 2 * at + 1;

            if (child >= m)
                break;
            if (child + 1 < m && before(candidates[child], candidates[child + 1]))
                child++;
            if (!before(item, candidates[child]))
                break;
            candidates[at] = candidates[child];
            at = child;
        }
        candidates[at] = item;
    }
    qsort(candidates, m, sizeof(*candidates), candidate_compare);
}

/* Makes tokens of the window less likely: a positive logit is divided by the penalty, a negative one multiplied.
 * Candidates are still at the index of their ids, so that ID_MET can mark those that were penalised already. */
static void penalise(const SamplerOptions *options, const uint32_t *history, size_t n_history, size_t n_vocab,
                     SamplerCandidate *candidates) {
    size_t window = options->repetition_window, first = window && n_history > window ? n_history - window : 0;

    if (options->repetition_penalty == 1)
        return;
    for (size_t i = first; i < n_history; i++) {
        SamplerCandidate *candidate = history[i] < n_vocab ? &candidates[history[i]] : NULL;

        if (!candidate || candidate->id == ID_MET) /* once a token, however often it occurs */
            continue;
        candidate->logit = candidate->logit > 0 ? candidate->logit / options->repetition_penalty
                                                : candidate->logit * options->repetition_penalty;
        candidate->id = ID_MET;
    }
    for (size_t i = first; i < n_history; i++)
        if (history[i] < n_vocab)
            candidates[history[i]].id = history[i];
}

/* Draws one of the first n candidates by their weights w[i] = exp(logit - max), u in [0, 1). */
static uint32_t draw(const SamplerCandidate *candidates, size_t n, float max, float u) {
    const ExpRow *row = exp_row_select(cpu_features());
    double mass = 0, target, reached = 0;
    float weights[256];

    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n; i += 256) {
            size_t part = MIN(n - i, 256);

            for (size_t j = 0; j < part; j++)
                weights[j] = candidates[i + j].logit - max;
            row->exp(weights, part, weights);
            for (size_t j = 0; j < part; j++) {
                if (pass == 0) {
                    mass += weights[j];
                    continue;
                }
                reached += weights[j];
                if (reached > target)
                    return candidates[i + j].id;
            }
        }
        target = mass * u;
    }
    return candidates[n - 1].id;
}

/* Returns how many of the sorted candidates top-p and min-p keep; 0: more than n must be sorted to tell. */
static size_t cut(const SamplerOptions *options, const SamplerCandidate *sorted, size_t n, size_t n_all, float max,
                  double mass) {
    const ExpRow *row = exp_row_select(cpu_features());
    double reached = 0;

    for (size_t i = 0; i < n; i++) {
        float weight = sorted[i].logit - max;

        row->exp(&weight, 1, &weight);
        if (i && weight < options->min_p)
            return i;
        reached += weight;
        if (reached >= (double)options->top_p * mass)
            return i + 1;
    }
    return n == n_all ? n : 0;
}

static double mass_of(const SamplerCandidate *candidates, size_t n, float max) {
    const ExpRow *row = exp_row_select(cpu_features());
    float weights[256];
    double mass = 0;

    for (size_t i = 0; i < n; i += 256) {
        size_t part = MIN(n - i, 256);

        for (size_t j = 0; j < part; j++)
            weights[j] = candidates[i + j].logit - max;
        row->exp(weights, part, weights);
        for (size_t j = 0; j < part; j++)
            mass += weights[j];
    }
    return mass;
}

static uint32_t greatest(const float *logits, size_t n_vocab) {
    uint32_t id = 0;
    float logit;

    top_row_select(cpu_features())->top(logits, n_vocab, 0, 1, 0, &id, &logit);
    return id;
}

/**
 * sampler_pick() - one token from its logits
 * @logits:   f32[n_vocab], finite
 * @history:  the tokens before this one: of a generation all, prompt and output, so at most a context
 * @position: index of the sampled token in its sequence; the random number is keyed by it
 * @scratch:  [n_vocab]
 *
 * Thread: any. Time O(n_vocab + window), and a sort of the candidates that top-k and top-p keep.
 */
uint32_t sampler_pick(const SamplerOptions *options, const float *logits, size_t n_vocab, const uint32_t *history,
                      size_t n_history, uint64_t position, SamplerCandidate *scratch) {
    SamplerCandidate best = { .logit = -FLT_MAX, .id = 0 };
    size_t n = n_vocab, kept;
    double mass;
    float u;

    if (options->temperature == 0 && options->repetition_penalty == 1)
        return greatest(logits, n_vocab);
    for (size_t i = 0; i < n_vocab; i++)
        scratch[i] = (SamplerCandidate){ .logit = logits[i], .id = (uint32_t)i };
    penalise(options, history, n_history, n_vocab, scratch);
    for (size_t i = 0; i < n_vocab; i++)
        if (before(scratch[i], best))
            best = scratch[i];
    /* At temperature 0, and at values so small that the quotient overflows, the best token has all the probability. */
    if (options->temperature == 0 || !isfinite(best.logit / options->temperature))
        return best.id;

    u = sampler_uniform(options->seed, position);
    for (size_t i = 0; i < n_vocab; i++)
        scratch[i].logit /= options->temperature;
    best.logit /= options->temperature;
    if (options->top_k && options->top_k < n_vocab) {
        n = options->top_k;
        select_first(scratch, n_vocab, n);
    }
    if (options->top_p == 1 && options->min_p == 0)
        return draw(scratch, n, best.logit, u);
    mass = mass_of(scratch, n, best.logit);
    if (n < n_vocab) {
        kept = cut(options, scratch, n, n, best.logit, mass);
    } else { /* sort as many as the cut turns out to need */
        size_t sorted = 256;

        do {
            sorted = MIN(sorted, n);
            select_first(scratch, n, sorted);
            kept = cut(options, scratch, sorted, n, best.logit, mass);
            sorted *= 8;
        } while (!kept);
    }
    return draw(scratch, kept, best.logit, u);
}
