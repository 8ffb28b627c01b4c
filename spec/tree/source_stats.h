// SPDX-License-Identifier: Apache-2.0
/* How often the proposals of each source are right, by the bucket and rank they came with, and what they say together.
 * It starts from the source's prior, learns from every verification and slowly forgets, so that it follows a text whose
 * nature changes. */
#ifndef COORDGEN_SPEC_SOURCE_STATS_H
#define COORDGEN_SPEC_SOURCE_STATS_H

#include <stdbool.h>

#include "spec/sources/drafter.h"
#include "spec/tree/chance_mixer.h"
#include "spec/sources/draft_tree.h"

/* Zero: no source is known, and each chance is the lowest. */
typedef struct SourceStats {
    float hits[DRAFT_SOURCES_MAX][DRAFT_BUCKETS][DRAFT_RANKS];
    float trials[DRAFT_SOURCES_MAX][DRAFT_BUCKETS][DRAFT_RANKS];
    ChanceMixer mixer;
} SourceStats;

/* Before its sources. leaders: of them, as chance_mixer_init() has it; before: what is known from other texts, or
 * NULL. */
void source_stats_begin(SourceStats *stats, uint32_t leaders, const SourceStats *before);

/* before: what is known from other texts, or NULL. */
void source_stats_init(SourceStats *stats, uint32_t source, const DrafterOps *ops, const SourceStats *before);
/* Within [0.001, 0.999]. */
float source_stats_chance(const SourceStats *stats, DraftCredit credit);
/* Of a token that some sources propose: node's credits and others say which. */
float source_stats_joint_chance(const SourceStats *stats, const DraftNode *node);
/* Whether the node's token came, where it was tried. */
void source_stats_count(SourceStats *stats, const DraftNode *node, bool hit);
/* The same, of a tree in which a leader had its say. What that holds for unlikely is not in it, so nothing is learned
 * there of others by themselves: the tree that there would be without the leader says that. */
void source_stats_count_led(SourceStats *stats, const DraftNode *node, bool hit);

#endif
