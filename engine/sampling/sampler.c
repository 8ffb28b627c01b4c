// SPDX-License-Identifier: Apache-2.0
/* Order of the steps: bias and penalties, temperature, top-k, typical, top-p and min-p, XTC, draw. */
#include "engine/sampling/sampler.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "backends/numeric/top_row.h"
#include "base/system/cpu.h"
#include "engine/sampling/logit_penalties.h"

/**
 * sampler_uniform() - a number in [0, 1) that depends on seed, position and stream only
 *
 * SPEC: Philox4x32-10, Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3". Key: the seed; counter: the
 * position, then the stream. The top 24 bits of the first word.
 */
float sampler_uniform(uint64_t seed, uint64_t position, SamplerStream stream) {
    uint32_t counter[4] = { (uint32_t)position, (uint32_t)(position >> 32), (uint32_t)stream, 0 };
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

static uint32_t greatest(const float *logits, size_t n_vocab) {
    uint32_t id = 0;
    float logit;

    top_row_select(cpu_features())->top(logits, n_vocab, 0, 1, 0, &id, &logit);
    return id;
}

/* Draws one of the candidates, whose logits are divided by the temperature. */
static uint32_t draw(const SamplerOptions *options, CandidateSet *set, uint64_t position) {
    if (options->top_k)
        candidates_keep_likeliest(set, options->top_k);
    if (options->typical_p > 0 && options->typical_p < 1)
        candidates_keep_typical(set, options->typical_p);
    if (options->top_p < 1 || options->min_p > 0)
        candidates_keep_mass(set, options->top_p, options->min_p);
    if (options->xtc_probability > 0 &&
        sampler_uniform(options->seed, position, SAMPLER_STREAM_XTC) < options->xtc_probability)
        candidates_drop_likeliest(set, options->xtc_threshold);
    return candidates_draw(set, sampler_uniform(options->seed, position, SAMPLER_STREAM_DRAW));
}

static bool is_before(SamplerCandidate a, SamplerCandidate b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/* Returns the likeliest candidate; of equal ones that with the lowest id. */
static SamplerCandidate likeliest(const CandidateSet *set) {
    SamplerCandidate best = set->list[0];

    for (size_t i = 1; i < set->n; i++)
        if (is_before(set->list[i], best))
            best = set->list[i];
    return best;
}

/* At temperature 0, and at values so small that the quotient overflows, the best token has all the probability. */
static bool best_has_all(const SamplerOptions *options, SamplerCandidate best) {
    return options->temperature == 0 || !isfinite(best.logit / options->temperature);
}

/**
 * sampler_pick_allowed() - one token from its logits
 * @row: logits are finite. history: the tokens before this one: of a generation all, prompt and output, so at most a
 *       context. position: index of the sampled token in its sequence; the random numbers are keyed by it
 *
 * The filter's tokens are left out behind the penalties and before all cuts. Thread: any; with a dry_penalty one at a
 * time. Time O(n_vocab + history), and a sort of the candidates that the cuts keep.
 */
int sampler_pick_allowed(const SamplerRow *row, const SamplerFilter *filter, uint32_t *tokenp) {
    const SamplerOptions *options = row->options;
    CandidateSet set = { .list = row->scratch, .n = row->n_vocab };
    SamplerCandidate best;
    int r = 0;

    if (options->temperature == 0 && !logit_penalties_are_on(options)) {
        if (filter)
            return sampler_filter_greatest(filter, row->logits, row->n_vocab, tokenp);
        *tokenp = greatest(row->logits, row->n_vocab);
        return 0;
    }
    for (size_t i = 0; i < row->n_vocab; i++)
        set.list[i] = (SamplerCandidate){ .logit = row->logits[i], .id = (uint32_t)i };
    /* The penalties find a candidate at the index of its id. Whatever leaves candidates out comes behind them. */
    logit_penalties_apply(options, row->history, row->n_history, set.list, row->n_vocab);
    best = likeliest(&set);
    if (best_has_all(options, best)) {
        r = filter ? sampler_filter_apply(filter, &set, options->temperature == 0) : 0;
        best = likeliest(&set);
        filter = NULL;
    }
    if (r)
        return r;
    *tokenp = best.id;
    if (best_has_all(options, best))
        return 0;
    for (size_t i = 0; i < set.n; i++)
        set.list[i].logit /= options->temperature;
    r = filter ? sampler_filter_apply(filter, &set, options->top_k) : 0;
    if (r)
        return r;
    best = likeliest(&set);
    set.max = best.logit;
    *tokenp = isfinite(set.max) ? draw(options, &set, row->position) : best.id; /* a bias may forbid all of them */
    return 0;
}

uint32_t sampler_pick(const SamplerOptions *options, const float *logits, size_t n_vocab, const uint32_t *history,
                      size_t n_history, uint64_t position, SamplerCandidate *scratch) {
    uint32_t token;

    (void)sampler_pick_allowed(&(SamplerRow){ options, logits, n_vocab, history, n_history, position, scratch }, NULL,
                               &token);
    return token;
}
