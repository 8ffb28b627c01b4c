// SPDX-License-Identifier: Apache-2.0
/* Chance of a token by several sources: a single source is believed, agreement counts for more and contradiction for
 * less, and the mixture learns from verifications. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "spec/tree/chance_mixer.h"

static uint32_t seed = 1;

static uint32_t draw(uint32_t n) {
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * n >> 32);
}

static float chance_of(const ChanceMixer *mixer, uint32_t n, float first, float second, uint32_t others) {
    return chance_mixer_chance(
        mixer, &(ChanceCase){ .n = n, .sources = { 1, 4 }, .chances = { first, second }, .others = others });
}

static void test_chance_mixer_begins(void **state) {
    ChanceMixer mixer;

    chance_mixer_init(&mixer, 1u << 5);
    for (int i = 1; i < 100; i++) {
        const float chance = (float)i / 100, alone = chance_of(&mixer, 1, chance, 0, 0);

        assert_true(alone > chance - 1e-5F && alone < chance + 1e-5F);
        assert_true(chance_of(&mixer, 1, chance, 0, 1u << 2) < alone);
        if (i > 50)
            assert_true(chance_of(&mixer, 2, chance, chance, 0) > alone);
    }
    assert_true(chance_of(&mixer, 2, 0.999F, 0.999F, 0) < 1 && chance_of(&mixer, 2, 0.001F, 0.001F, 63) > 0);
}

/* Source 1 is right half the time whatever it says; source 4 is right as often as it says. */
static void test_chance_mixer_learns(void **state) {
    ChanceMixer mixer;

    chance_mixer_init(&mixer, 1u << 5);
    for (int i = 0; i < 20000; i++) {
        const float second = (float)(5 + draw(90)) / 100;
        const ChanceCase it = { .n = 2, .sources = { 1, 4 }, .chances = { draw(2) ? 0.1F : 0.9F, second } };

        chance_mixer_learn(&mixer, &it, (float)draw(1000) < 1000 * second);
    }
    for (int i = 1; i < 10; i++)
        for (int high = 0; high < 2; high++) {
            const float chance = chance_of(&mixer, 2, high ? 0.9F : 0.1F, (float)i / 10, 0);

            assert_true(chance > (float)i / 10 - 0.15F && chance < (float)i / 10 + 0.15F);
        }
}

/* Other proposals of source 2 mean nothing in one case, and everything in the other. */
static void test_chance_mixer_others(void **state) {
    for (int means = 0; means < 2; means++) {
        ChanceMixer mixer;
        float with, without;

        chance_mixer_init(&mixer, 1u << 5);
        for (int i = 0; i < 20000; i++) {
            const ChanceCase it = { .n = 1, .sources = { 1 }, .chances = { 0.5F }, .others = draw(2) ? 1u << 2 : 0 };

            chance_mixer_learn(&mixer, &it, means ? !it.others : draw(2));
        }
        with = chance_of(&mixer, 1, 0.5F, 0, 1u << 2);
        without = chance_of(&mixer, 1, 0.5F, 0, 0);
        if (means)
            assert_true(with < 0.05F && without > 0.95F);
        else
            assert_true(with > 0.4F && with < 0.6F && without > 0.4F && without < 0.6F);
    }
}

static float led_chance(const ChanceMixer *mixer, float leader, float other, uint32_t others) {
    return chance_mixer_chance(
        mixer, &(ChanceCase){ .n = 2, .sources = { 5, 1 }, .chances = { leader, other }, .others = others });
}

/* A leader is believed, whoever agrees and whoever proposes something else; a token that it does not propose is
 * unlikely. All of this can be unlearned. */
static void test_chance_mixer_leader(void **state) {
    const ChanceCase against = { .n = 1, .sources = { 1 }, .chances = { 0.6F }, .others = 1u << 5 };
    ChanceMixer mixer;
    float sure;

    chance_mixer_init(&mixer, 1u << 5);
    for (int i = 1; i < 50; i++) {
        const float chance = (float)i / 50;

        assert_true(led_chance(&mixer, chance, 0.01F, 1u << 2 | 1u << 3) > chance - 1e-5F);
        assert_true(led_chance(&mixer, chance, 0.01F, 0) < chance + 1e-5F);
        sure = led_chance(&mixer, chance, 0.9F, 0);
        assert_true(sure > chance && sure < chance + 0.15F);
    }
    assert_true(chance_mixer_chance(&mixer, &against) < 0.2F);
    for (int i = 0; i < 5000; i++)
        chance_mixer_learn(&mixer, &against, true);
    assert_true(chance_mixer_chance(&mixer, &against) > 0.9F);
    sure = led_chance(&mixer, 0.9F, 0.01F, 0);
    for (int i = 0; i < 5000; i++)
        chance_mixer_learn(&mixer, &(ChanceCase){ .n = 2, .sources = { 5, 1 }, .chances = { 0.9F, 0.01F } }, draw(2));
    assert_true(led_chance(&mixer, 0.9F, 0.01F, 0) < sure - 0.2F);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chance_mixer_begins),
        cmocka_unit_test(test_chance_mixer_learns),
        cmocka_unit_test(test_chance_mixer_others),
        cmocka_unit_test(test_chance_mixer_leader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
