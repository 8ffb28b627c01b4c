// SPDX-License-Identifier: Apache-2.0
#include "spec/chance_mixer.h"

#include <assert.h>
#include <math.h>

/* Sources read the same text, so two that agree are not two witnesses; more of them are still less so. */
static const float weight_alone = 1, weight_of_two = 0.6F, weight_of_more = 0.45F, weight_other = -0.4F;
static const float rate = 0.02F, limit = 12; /* of what the logistic function gets: a chance of 6e-6 */

void chance_mixer_init(ChanceMixer *mixer) {
    for (uint32_t n = 0; n < DRAFT_SOURCES_MAX; n++) {
        mixer->biases[n] = 0;
        mixer->others[n] = weight_other;
        for (uint32_t source = 0; source < DRAFT_SOURCES_MAX; source++)
            mixer->weights[n][source] = n == 0 ? weight_alone : n == 1 ? weight_of_two : weight_of_more;
    }
}

static float stretched(float chance) {
    return logf(chance / (1 - chance));
}

float chance_mixer_chance(const ChanceMixer *mixer, const ChanceCase *it) {
    float sum;

    assert(it->n >= 1 && it->n <= DRAFT_SOURCES_MAX);
    sum = mixer->biases[it->n - 1];
    for (uint32_t i = 0; i < it->n; i++)
        sum += mixer->weights[it->n - 1][it->sources[i]] * stretched(it->chances[i]);
    for (uint32_t source = 0; source < DRAFT_SOURCES_MAX; source++)
        sum += it->others >> source & 1 ? mixer->others[source] : 0;
    sum = sum > limit ? limit : sum < -limit ? -limit : sum;
    return 1 / (1 + expf(-sum));
}

/* A step down the gradient of the coding cost, which for a logistic mixture is the error times what went in. */
void chance_mixer_learn(ChanceMixer *mixer, const ChanceCase *it, bool hit) {
    const float step = rate * ((hit ? 1.0F : 0.0F) - chance_mixer_chance(mixer, it));

    mixer->biases[it->n - 1] += step;
    for (uint32_t i = 0; i < it->n; i++)
        mixer->weights[it->n - 1][it->sources[i]] += step * stretched(it->chances[i]);
    for (uint32_t source = 0; source < DRAFT_SOURCES_MAX; source++)
        mixer->others[source] += it->others >> source & 1 ? step : 0;
}
