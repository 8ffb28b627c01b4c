// SPDX-License-Identifier: Apache-2.0
/* Mixes the chances that several sources give a token into one: a logistic mixture whose weights are learned
 * from every verification. Sources that agree raise the chance above each alone; a source that proposes other tokens
 * lowers it. */
#ifndef COORDGEN_SPEC_CHANCE_MIXER_H
#define COORDGEN_SPEC_CHANCE_MIXER_H

#include <stdbool.h>
#include <stdint.h>

#include "spec/sources/draft_tree.h"

/* Weights by the number of sources that propose the token (from 1), then by source: agreement is worth more or less
 * depending on how many agree. */
typedef struct ChanceWeights {
    float weights[DRAFT_SOURCES_MAX][DRAFT_SOURCES_MAX];
    float biases[DRAFT_SOURCES_MAX];
    float others[DRAFT_SOURCES_MAX]; /* weight of a source that proposes other tokens only */
} ChanceWeights;

/* Some sources lead (draft models): they have read everything that the others know pieces of. What the other sources
 * are worth depends on what a leader says at that place. */
typedef enum ChancePlace {
    CHANCE_ALONE,   /* no leader proposes anything */
    CHANCE_LED,     /* a leader proposes the token */
    CHANCE_AGAINST, /* leaders propose other tokens only */
    _CHANCE_PLACES_N
} ChancePlace;
typedef struct ChanceMixer {
    uint32_t leaders; /* leading sources, as bits */
    ChanceWeights places[_CHANCE_PLACES_N];
} ChanceMixer;

/* What the sources say of one token. */
typedef struct ChanceCase {
    uint32_t n; /* sources that propose the token, at least 1 */
    uint8_t sources[DRAFT_SOURCES_MAX];
    float chances[DRAFT_SOURCES_MAX]; /* the chance that each gives, above 0 and below 1 */
    uint32_t others;                  /* sources that propose other tokens only, as bits */
} ChanceCase;

void chance_mixer_init(ChanceMixer *mixer, uint32_t leaders);
ChancePlace chance_mixer_place(const ChanceMixer *mixer, const ChanceCase *it);
/* Mixes the chances into one, above 0 and below 1. For one source without others the mixture begins as that source's
 * chance. */
float chance_mixer_chance(const ChanceMixer *mixer, const ChanceCase *it);
void chance_mixer_learn(ChanceMixer *mixer, const ChanceCase *it, bool hit);

#endif
