// SPDX-License-Identifier: Apache-2.0
/* How often the proposals of each source are right, by the bucket and rank that they came with, and what several
 * sources say together. Statistics start from the source's prior, learn from every verification, and slowly forget:
 * they follow a text whose nature changes. */
#ifndef COORDGEN_SPEC_SOURCE_STATS_H
#define COORDGEN_SPEC_SOURCE_STATS_H

#include <stdbool.h>

#include "spec/sources/drafter.h"
#include "spec/tree/chance_mixer.h"
#include "spec/sources/draft_tree.h"

/* All zero: no source is known, and each chance is the lowest. */
typedef struct SourceStats {
    float hits[DRAFT_SOURCES_MAX][DRAFT_BUCKETS][DRAFT_RANKS];
    float trials[DRAFT_SOURCES_MAX][DRAFT_BUCKETS][DRAFT_RANKS];
    ChanceMixer mixer;
} SourceStats;

/* Begins the statistics, before any source. leaders: sources that lead, as chance_mixer_init() takes them; before: what
 * is known from other texts, or NULL. */
void source_stats_begin(SourceStats *stats, uint32_t leaders, const SourceStats *before);

/* Adds a source. before: what is known from other texts, or NULL. */
void source_stats_init(SourceStats *stats, uint32_t source, const DrafterOps *ops, const SourceStats *before);
/* Returns the chance of one source's proposal, within [0.001, 0.999]. */
float source_stats_chance(const SourceStats *stats, DraftCredit credit);
/* Returns the chance of a token that several sources propose, as the node's credits and others say. */
float source_stats_joint_chance(const SourceStats *stats, const DraftNode *node);
/* Learns whether the node's token came at a place that the target reached. */
void source_stats_count(SourceStats *stats, const DraftNode *node, bool hit);
/* Learns as source_stats_count() from a tree that a leader took part in. Nodes that the leader holds for unlikely are
 * missing from such a tree, so it teaches nothing of other sources by themselves: the tree without the leader does. */
void source_stats_count_led(SourceStats *stats, const DraftNode *node, bool hit);

#endif
