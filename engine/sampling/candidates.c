// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/candidates.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "backends/numeric/exp_row.h"
#include "backends/numeric/rope_table.h"
#include "base/min_max.h"
#include "base/system/cpu.h"

enum {
    FIRST_SORTED = 256, /* candidates that are sorted at first; each further try sorts GROWTH times as many */
    GROWTH = 8,
    BLOCK = 256, /* weights that are computed at once */
};

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

void candidates_sort(CandidateSet *set, size_t m) {
    m = MIN(m, set->n);
    if (m <= set->n_sorted)
        return;
    select_first(set->list, set->n, m);
    set->n_sorted = m;
}

/* Sorts some candidates at first, later more of them. */
static void sort_more(CandidateSet *set) {
    candidates_sort(set, set->n_sorted ? set->n_sorted * GROWTH : FIRST_SORTED);
}

/* Writes the weights of candidates [first, first + n), n at most BLOCK. */
static void block_weights(const CandidateSet *set, size_t first, size_t n, float *weights) {
    for (size_t i = 0; i < n; i++)
        weights[i] = set->list[first + i].logit - set->max;
    exp_row_select(cpu_features())->exp(weights, n, weights);
}

/* Returns the weight of one candidate. */
static float weight_of(const CandidateSet *set, size_t index) {
    float weight;

    block_weights(set, index, 1, &weight);
    return weight;
}

/* Returns the sum of all weights. */
static double mass_of(const CandidateSet *set) {
    float weights[BLOCK];
    double mass = 0;

    for (size_t i = 0; i < set->n; i += BLOCK) {
        const size_t part = MIN(set->n - i, BLOCK);

        block_weights(set, i, part, weights);
        for (size_t j = 0; j < part; j++)
            mass += weights[j];
    }
    return mass;
}

/* Makes the sorted candidates [first, first + n) the set. */
static void keep_range(CandidateSet *set, size_t first, size_t n) {
    set->list += first;
    set->n = n;
    set->n_sorted = n;
    set->max = set->list[0].logit;
}

void candidates_keep_likeliest(CandidateSet *set, size_t k) {
    if (k >= set->n)
        return;
    candidates_sort(set, k);
    keep_range(set, 0, k);
}

/* ---- typical ----------------------------------------------------------------------------------------------------- */

/* Returns -log(probability) of a candidate. */
static double surprise_of(const CandidateSet *set, size_t index, double log_mass) {
    return log_mass - ((double)set->list[index].logit - (double)set->max);
}

/* Returns the mean of -log(probability). A weight of 0 adds nothing. */
static double entropy_of(const CandidateSet *set, double mass, double log_mass) {
    float weights[BLOCK];
    double entropy = 0;

    for (size_t i = 0; i < set->n; i += BLOCK) {
        const size_t part = MIN(set->n - i, BLOCK);

        block_weights(set, i, part, weights);
        for (size_t j = 0; j < part; j++)
            if (weights[j] > 0)
                entropy += weights[j] / mass * surprise_of(set, i + j, log_mass);
    }
    return entropy;
}

/* Returns the first candidate, in sorted order, whose surprise is not below the entropy; set->n if rounding hides
 * it. */
static size_t find_entropy(CandidateSet *set, double entropy, double log_mass) {
    for (size_t i = 0; i < set->n; i++) {
        if (i == set->n_sorted)
            sort_more(set);
        if (surprise_of(set, i, log_mass) >= entropy)
            return i;
    }
    return set->n;
}

/**
 * candidates_keep_typical() - locally typical sampling
 *
 * SPEC: Meister et al. 2022, arXiv:2202.00666, as llama.cpp has it: candidates by rising distance of -log(p) from the
 * entropy, until the sum of their probabilities is above `p`. In sorted order the surprise rises, so the kept ones lie
 * side by side around the entropy: two ends that grow, instead of a sort by distance. Of equal distances the likelier
 * candidate comes first. Time: a sum over all, and a sort up to the last candidate that is kept.
 */
void candidates_keep_typical(CandidateSet *set, float p) {
    const double mass = mass_of(set), log_mass = rope_log(mass), entropy = entropy_of(set, mass, log_mass);
    size_t first = find_entropy(set, entropy, log_mass), end = first;
    double reached = 0;

    do {
        bool takes_likelier = first > 0;

        if (end == set->n_sorted)
            sort_more(set);
        if (first > 0 && end < set->n)
            takes_likelier =
                entropy - surprise_of(set, first - 1, log_mass) <= surprise_of(set, end, log_mass) - entropy;
        reached += weight_of(set, takes_likelier ? --first : end++) / mass;
    } while (reached <= p && (first > 0 || end < set->n));
    keep_range(set, first, end - first);
}

/* ---- top-p, min-p, XTC ------------------------------------------------------------------------------------------- */

/* Returns how many of the sorted candidates top-p and min-p keep; 0: more must be sorted to tell. */
static size_t count_kept(const CandidateSet *set, float top_p, float min_p, double mass) {
    double reached = 0;

    for (size_t i = 0; i < set->n_sorted; i++) {
        const float weight = weight_of(set, i);

        if (i && weight < min_p)
            return i;
        reached += weight;
        if (reached >= (double)top_p * mass)
            return i + 1;
    }
    return set->n_sorted == set->n ? set->n : 0;
}

void candidates_keep_mass(CandidateSet *set, float top_p, float min_p) {
    const double mass = mass_of(set);
    size_t kept;

    if (!set->n_sorted)
        sort_more(set);
    for (kept = count_kept(set, top_p, min_p, mass); !kept; kept = count_kept(set, top_p, min_p, mass))
        sort_more(set);
    keep_range(set, 0, kept);
}

/* Finds the least likely of the candidates whose weight is at least `least`. A weight of 0 does not count: with a
 * threshold of 0 a banned token must not be the one that stays. Return: how many there are. */
static size_t find_least_likely(const CandidateSet *set, double least, SamplerCandidate *foundp) {
    float weights[BLOCK];
    size_t n_found = 0;

    for (size_t i = 0; i < set->n; i += BLOCK) {
        const size_t part = MIN(set->n - i, BLOCK);

        block_weights(set, i, part, weights);
        for (size_t j = 0; j < part; j++) {
            if (!(weights[j] >= least && weights[j] > 0))
                continue;
            if (!n_found || before(*foundp, set->list[i + j]))
                *foundp = set->list[i + j];
            n_found++;
        }
    }
    return n_found;
}

/* See the header. SPEC: llama.cpp's XTC sampler, with at least one candidate kept. The others keep their order. */
void candidates_drop_likeliest(CandidateSet *set, float threshold) {
    const bool is_sorted = set->n_sorted == set->n;
    SamplerCandidate last;
    size_t n = 0;

    if (find_least_likely(set, (double)threshold * mass_of(set), &last) < 2)
        return;
    for (size_t i = 0; i < set->n; i++)
        if (!before(set->list[i], last))
            set->list[n++] = set->list[i];
    set->n = n;
    set->n_sorted = is_sorted ? n : 0;
    set->max = last.logit;
}

/* ---- draw -------------------------------------------------------------------------------------------------------- */

uint32_t candidates_draw(const CandidateSet *set, float u) {
    double mass = mass_of(set), target = mass * u, reached = 0;
    float weights[BLOCK];

    for (size_t i = 0; i < set->n; i += BLOCK) {
        const size_t part = MIN(set->n - i, BLOCK);

        block_weights(set, i, part, weights);
        for (size_t j = 0; j < part; j++) {
            reached += weights[j];
            if (reached > target)
                return set->list[i + j].id;
        }
    }
    return set->list[set->n - 1].id;
}
