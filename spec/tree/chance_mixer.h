// SPDX-License-Identifier: Apache-2.0
/* One chance out of those that several sources give the same token: a logistic mixture, whose weights are learned from
 * every verification. Where sources agree the chance is higher than each alone would have it; where one of them has
 * something else to say here, it is lower. */
#ifndef COORDGEN_SPEC_CHANCE_MIXER_H
#define COORDGEN_SPEC_CHANCE_MIXER_H

#include <stdbool.h>
#include <stdint.h>

#include "spec/sources/draft_tree.h"

/* Weights by how many sources propose the token (from 1), then by source: what agreement is worth depends on how many
 * agree. */
typedef struct ChanceWeights {
    float weights[DRAFT_SOURCES_MAX][DRAFT_SOURCES_MAX];
    float biases[DRAFT_SOURCES_MAX];
    float others[DRAFT_SOURCES_MAX]; /* of a source that proposes other tokens */
} ChanceWeights;

/* Some sources lead: they have read all that the others know pieces of (a draft model). What a token's sources are
 * worth depends on what a leader has to say there. */
typedef enum ChancePlace {
    CHANCE_ALONE,   /* nothing */
    CHANCE_LED,     /* the token */
    CHANCE_AGAINST, /* other tokens alone */
    _CHANCE_PLACES_N
} ChancePlace;
typedef struct ChanceMixer {
    uint32_t leaders; /* as bits */
    ChanceWeights places[_CHANCE_PLACES_N];
} ChanceMixer;

/* What is said of a token. */
typedef struct ChanceCase {
    uint32_t n; /* sources that propose it, 1 at least */
    uint8_t sources[DRAFT_SOURCES_MAX];
    float chances[DRAFT_SOURCES_MAX]; /* of each, above 0 and below 1 */
    uint32_t others;                  /* sources that propose other tokens alone, as bits */
} ChanceCase;

void chance_mixer_init(ChanceMixer *mixer, uint32_t leaders);
ChancePlace chance_mixer_place(const ChanceMixer *mixer, const ChanceCase *it);
/* Above 0 and below 1; for one source without others it begins as that one's chance. */
float chance_mixer_chance(const ChanceMixer *mixer, const ChanceCase *it);
void chance_mixer_learn(ChanceMixer *mixer, const ChanceCase *it, bool hit);

#endif
