// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/sampler_filter.h"

#include <stdbool.h>

#include "backends/numeric/top_row.h"
#include "base/min_max.h"
#include "base/system/cpu.h"

static bool has(const uint64_t *mask, uint32_t token) {
    return mask[token / 64] >> (token % 64) & 1;
}

/* Leaves the candidates of the mask, in their order. */
static void keep(CandidateSet *set, const uint64_t *mask) {
    size_t n = 0, n_sorted = 0;

    for (size_t i = 0; i < set->n; i++) {
        if (!has(mask, set->list[i].id))
            continue;
        n_sorted += i < set->n_sorted;
        set->list[n++] = set->list[i];
    }
    set->n = n;
    set->n_sorted = n_sorted;
}

/* Tests the likeliest candidates until k of them may come. *foundp: whether they were found; the set is as it was, but
 * sorted, if not. */
static int find_first(const SamplerFilter *filter, CandidateSet *set, size_t k, bool *foundp) {
    const size_t most = MIN(set->n, k + SAMPLER_FILTER_TESTS);
    uint64_t refused[(SAMPLER_FILTER_TESTS + SAMPLER_FILTER_TOP_MAX + 63) / 64] = { 0 };
    size_t n_allowed = 0, n_refused = 0, n = 0;

    candidates_sort(set, most);
    while (n < most && n_allowed < k && n_refused < SAMPLER_FILTER_TESTS) {
        const int r = filter->test(filter->arg, set->list[n].id);

        if (r && r != SAMPLER_FILTER_REFUSED)
            return r;
        refused[n / 64] |= (uint64_t)(r != 0) << (n % 64);
        n_refused += r != 0;
        n_allowed += !r;
        n++;
    }
    *foundp = n_allowed == k;
    if (!*foundp)
        return 0;
    n_allowed = 0;
    for (size_t i = 0; i < n; i++)
        if (!has(refused, (uint32_t)i))
            set->list[n_allowed++] = set->list[i];
    set->n = set->n_sorted = n_allowed;
    return 0;
}

int sampler_filter_apply(const SamplerFilter *filter, CandidateSet *set, size_t k) {
    const uint64_t *mask;
    bool is_found = false;
    int r = 0;

    if (k && k <= SAMPLER_FILTER_TOP_MAX)
        r = find_first(filter, set, k, &is_found);
    if (r || is_found)
        return r;
    r = filter->mask(filter->arg, &mask);
    if (!r)
        keep(set, mask);
    return r;
}

static uint32_t greatest_of_mask(const float *logits, size_t n_vocab, const uint64_t *mask) {
    uint32_t best = UINT32_MAX;

    for (size_t w = 0; w * 64 < n_vocab; w++)
        for (uint64_t word = mask[w]; word; word &= word - 1) {
            const uint32_t id = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(word);

            if (id < n_vocab && (best == UINT32_MAX || logits[id] > logits[best]))
                best = id;
        }
    return best == UINT32_MAX ? 0 : best;
}

int sampler_filter_greatest(const SamplerFilter *filter, const float *logits, size_t n_vocab, uint32_t *tokenp) {
    const TopRow *row = top_row_select(cpu_features());
    uint32_t ids[SAMPLER_FILTER_TESTS];
    float values[SAMPLER_FILTER_TESTS];
    const uint64_t *mask;
    int r;

    /* Most often the likeliest token may come: only then is one pass for it alone enough. */
    for (size_t k = 1, tested = 0; k <= SAMPLER_FILTER_TESTS; k = SAMPLER_FILTER_TESTS + (k > 1)) {
        const size_t n = row->top(logits, n_vocab, 0, k, 0, ids, values);

        for (; tested < n; tested++) {
            r = filter->test(filter->arg, ids[tested]);
            if (r == SAMPLER_FILTER_REFUSED)
                continue;
            *tokenp = ids[tested];
            return r;
        }
    }
    r = filter->mask(filter->arg, &mask);
    if (!r)
        *tokenp = greatest_of_mask(logits, n_vocab, mask);
    return r;
}
