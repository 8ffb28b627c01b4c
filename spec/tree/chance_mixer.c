// SPDX-License-Identifier: Apache-2.0
#include "spec/tree/chance_mixer.h"

#include <assert.h>
#include <math.h>

#include "base/min_max.h"

/* Sources read the same text: two that agree are not two independent witnesses, and more of them still less. */
static const float weight_alone = 1, weight_of_two = 0.6F, weight_of_more = 0.45F, weight_other = -0.4F;
/* A leader is believed, whoever agrees or not, until verifications show otherwise. A token that a leader does not hold
 * for likely hardly ever comes. */
static const float weight_leader = 1, weight_led = 0.2F, weight_other_leader = -2;
static const float rate = 0.02F, limit = 12; /* bound of the logistic function's argument: a chance of 6e-6 */

static void weights_init(ChanceWeights *weights, uint32_t leaders, ChancePlace place) {
    const bool led = place == CHANCE_LED;

    for (uint32_t n = 0; n < DRAFT_SOURCES_MAX; n++) {
        const float equal = n == 0 ? weight_alone : n == 1 ? weight_of_two : weight_of_more;

        weights->biases[n] = 0;
        weights->others[n] = leaders >> n & 1 ? weight_other_leader : led ? 0 : weight_other;
        for (uint32_t source = 0; source < DRAFT_SOURCES_MAX; source++)
            weights->weights[n][source] = !led ? equal : leaders >> source & 1 ? weight_leader : weight_led;
    }
}

void chance_mixer_init(ChanceMixer *mixer, uint32_t leaders) {
    mixer->leaders = leaders;
    for (ChancePlace place = 0; place < _CHANCE_PLACES_N; place++)
        weights_init(&mixer->places[place], leaders, place);
}

ChancePlace chance_mixer_place(const ChanceMixer *mixer, const ChanceCase *it) {
    for (uint32_t i = 0; i < it->n; i++)
        if (mixer->leaders >> it->sources[i] & 1)
            return CHANCE_LED;
    return it->others & mixer->leaders ? CHANCE_AGAINST : CHANCE_ALONE;
}

/* A source's input to the mixture. Beside a leader, a source that proposes the token without being sure of it says
 * nothing against it. */
static float input(const ChanceMixer *mixer, const ChanceCase *it, uint32_t i, ChancePlace place) {
    const bool is_led = place == CHANCE_LED && !(mixer->leaders >> it->sources[i] & 1);
    const float chance = it->chances[i];

    return is_led && chance < 0.5F ? 0 : logf(chance / (1 - chance));
}

float chance_mixer_chance(const ChanceMixer *mixer, const ChanceCase *it) {
    const ChancePlace place = chance_mixer_place(mixer, it);
    const ChanceWeights *weights = &mixer->places[place];
    float sum;

    assert(it->n >= 1 && it->n <= DRAFT_SOURCES_MAX);
    sum = weights->biases[it->n - 1];
    for (uint32_t i = 0; i < it->n; i++)
        sum += weights->weights[it->n - 1][it->sources[i]] * input(mixer, it, i, place);
    for (uint32_t source = 0; source < DRAFT_SOURCES_MAX; source++)
        sum += it->others >> source & 1 ? weights->others[source] : 0;
    sum = sum > limit ? limit : MAX(-limit, sum);
    return 1 / (1 + expf(-sum));
}

/* Takes a step down the gradient of the coding cost, which for a logistic mixture is the error times the input. */
void chance_mixer_learn(ChanceMixer *mixer, const ChanceCase *it, bool hit) {
    const ChancePlace place = chance_mixer_place(mixer, it);
    ChanceWeights *weights = &mixer->places[place];
    const float step = rate * ((hit ? 1.0F : 0.0F) - chance_mixer_chance(mixer, it));

    weights->biases[it->n - 1] += step;
    for (uint32_t i = 0; i < it->n; i++)
        weights->weights[it->n - 1][it->sources[i]] += step * input(mixer, it, i, place);
    for (uint32_t source = 0; source < DRAFT_SOURCES_MAX; source++)
        weights->others[source] += it->others >> source & 1 ? step : 0;
}
