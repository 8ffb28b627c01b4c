// SPDX-License-Identifier: Apache-2.0
/* The tokens that may still be sampled, and the cuts that leave fewer of them. Sums run in one fixed order in double,
 * exponentials and logarithms are coordgen's own, so that every machine cuts at the same place. */
#ifndef COORDGEN_ENGINE_CANDIDATES_H
#define COORDGEN_ENGINE_CANDIDATES_H

#include <stddef.h>
#include <stdint.h>

typedef struct SamplerCandidate {
    float logit;
    uint32_t id;
} SamplerCandidate;

/* Candidates of one row. The weight of a candidate is exp(logit - max), its probability the weight's share of all. */
typedef struct CandidateSet {
    SamplerCandidate *list; /* [n] */
    size_t n;               /* at least 1 */
    size_t n_sorted;        /* leading candidates that are sorted and come before all others */
    float max;              /* the greatest logit */
} CandidateSet;

/* Sorts at least the first m candidates: higher logits first, of equal ones the lower id. */
void candidates_sort(CandidateSet *set, size_t m);
/* Top-k: keeps the k likeliest. */
void candidates_keep_likeliest(CandidateSet *set, size_t k);
/* Typical: keeps those whose -log(probability) is nearest to the entropy, until their probabilities exceed p. */
void candidates_keep_typical(CandidateSet *set, float p);
/* Top-p and min-p: keeps the likeliest whose probabilities reach top_p, and of these the ones whose weight is at least
 * min_p. The likeliest one always stays. */
void candidates_keep_mass(CandidateSet *set, float top_p, float min_p);
/* XTC: of the candidates with a probability of at least the threshold, drops all but the least likely. */
void candidates_drop_likeliest(CandidateSet *set, float threshold);
/* Returns the id of one candidate, drawn by the weights; u in [0, 1). */
uint32_t candidates_draw(const CandidateSet *set, float u);

#endif
