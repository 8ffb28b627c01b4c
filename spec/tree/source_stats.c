// SPDX-License-Identifier: Apache-2.0
#include "spec/tree/source_stats.h"

#include "base/min_max.h"

static const float prior_trials = 4, before_trials_max = 16, trials_max = 256, chance_min = 0.001F, chance_max = 0.999F;

static float clamped(float chance) {
    return chance < chance_min ? chance_min : MIN(chance_max, chance);
}

/* The prior counts as a few observations, and other texts as some more. */
void source_stats_init(SourceStats *stats, uint32_t source, const DrafterOps *ops, const SourceStats *before) {
    for (uint16_t bucket = 0; bucket < DRAFT_BUCKETS; bucket++)
        for (uint16_t rank = 0; rank < DRAFT_RANKS; rank++) {
            const float known = before ? before->trials[source][bucket][rank] : 0;
            float trials = prior_trials, chance = clamped(ops->prior(bucket, rank));

            if (known > 0) {
                trials = MIN(known, before_trials_max);
                chance = before->hits[source][bucket][rank] / known;
            }
            stats->hits[source][bucket][rank] = trials * chance;
            stats->trials[source][bucket][rank] = trials;
        }
}

float source_stats_chance(const SourceStats *stats, DraftCredit credit) {
    float trials = stats->trials[credit.source][credit.bucket][credit.rank];

    return trials > 0 ? clamped(stats->hits[credit.source][credit.bucket][credit.rank] / trials) : chance_min;
}

void source_stats_begin(SourceStats *stats, uint32_t leaders, const SourceStats *before) {
    *stats = (SourceStats){ 0 };
    if (before)
        stats->mixer = before->mixer;
    else
        chance_mixer_init(&stats->mixer, leaders);
}

static ChanceCase case_of(const SourceStats *stats, const DraftNode *node) {
    ChanceCase it = { .n = node->n_credits, .others = node->others };

    for (uint32_t i = 0; i < it.n; i++) {
        it.sources[i] = node->credits[i].source;
        it.chances[i] = source_stats_chance(stats, node->credits[i]);
    }
    return it;
}

float source_stats_joint_chance(const SourceStats *stats, const DraftNode *node) {
    const ChanceCase it = case_of(stats, node);

    return clamped(chance_mixer_chance(&stats->mixer, &it));
}

/* Halving keeps the ratio and lowers the weight of what was seen so far. */
static void count_credit(SourceStats *stats, DraftCredit credit, bool hit) {
    float *hits = &stats->hits[credit.source][credit.bucket][credit.rank];
    float *trials = &stats->trials[credit.source][credit.bucket][credit.rank];

    *hits += hit ? 1 : 0;
    *trials += 1;
    if (*trials >= trials_max) {
        *hits /= 2;
        *trials /= 2;
    }
}

void source_stats_count(SourceStats *stats, const DraftNode *node, bool hit) {
    const ChanceCase it = case_of(stats, node);

    chance_mixer_learn(&stats->mixer, &it, hit);
    for (uint32_t i = 0; i < node->n_credits; i++)
        count_credit(stats, node->credits[i], hit);
}

void source_stats_count_led(SourceStats *stats, const DraftNode *node, bool hit) {
    const ChanceCase it = case_of(stats, node);

    if (chance_mixer_place(&stats->mixer, &it) == CHANCE_ALONE)
        return;
    chance_mixer_learn(&stats->mixer, &it, hit);
    for (uint32_t i = 0; i < node->n_credits; i++)
        if (stats->mixer.leaders >> node->credits[i].source & 1)
            count_credit(stats, node->credits[i], hit);
}
