// SPDX-License-Identifier: Apache-2.0
/* Statistics of sources: priors at first, frequencies after a while, cells apart, forgetting, limits. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "spec/tree/source_stats.h"

static float prior(uint16_t bucket, uint16_t rank) {
    return bucket == 15 ? 1.0F : 0.5F / (float)(1 + rank);
}

static const DrafterOps ops = { .prior = prior };

static float chance(const SourceStats *stats, uint8_t source, uint8_t bucket, uint8_t rank) {
    return source_stats_chance(stats, (DraftCredit){ source, bucket, rank, false });
}

static DraftNode node_of(uint8_t source, uint8_t bucket, uint8_t rank) {
    return (DraftNode){ .n_credits = 1, .credits = { { source, bucket, rank, false } } };
}

static void test_source_stats_counts(void **state) {
    const DraftNode node = node_of(2, 3, 1);
    SourceStats stats = { 0 };

    assert_true(chance(&stats, 2, 3, 1) == 0.001F);
    source_stats_init(&stats, 2, &ops, NULL);
    assert_true(chance(&stats, 1, 3, 1) == 0.001F);
    assert_true(chance(&stats, 2, 3, 1) == 0.25F);
    assert_true(chance(&stats, 2, 15, 0) == 0.999F);
    source_stats_count(&stats, &node, true);
    assert_true(chance(&stats, 2, 3, 1) == 2.0F / 5);
    source_stats_count(&stats, &node, false);
    assert_true(chance(&stats, 2, 3, 1) == 2.0F / 6);
    assert_true(chance(&stats, 2, 3, 0) == 0.5F && chance(&stats, 2, 4, 1) == 0.25F);
}

/* Outcomes of 1,000 trials ago hardly count; without forgetting the chance would be one half. */
static void test_source_stats_forgets(void **state) {
    const DraftNode node = node_of(0, 0, 0);
    SourceStats stats = { 0 };

    source_stats_init(&stats, 0, &ops, NULL);
    for (int i = 0; i < 1000; i++)
        source_stats_count(&stats, &node, false);
    assert_true(chance(&stats, 0, 0, 0) < 0.01F);
    for (int i = 0; i < 1000; i++) {
        source_stats_count(&stats, &node, true);
        assert_true(stats.trials[0][0][0] < 256 && stats.hits[0][0][0] <= stats.trials[0][0][0]);
    }
    assert_true(chance(&stats, 0, 0, 0) > 0.98F && chance(&stats, 0, 0, 0) <= 0.999F);
}

/* Statistics of other texts stand for the prior, and some observations outweigh them. */
static void test_source_stats_before(void **state) {
    static SourceStats before, stats;
    const DraftNode node = node_of(2, 3, 1);

    source_stats_init(&before, 2, &ops, NULL);
    for (int i = 0; i < 100; i++)
        source_stats_count(&before, &node, true);
    source_stats_init(&stats, 2, &ops, &before);
    assert_true(chance(&stats, 2, 3, 1) > 0.9F);
    assert_true(stats.trials[2][3][1] < 20);
    source_stats_init(&stats, 1, &ops, &before); /* nothing is known of that source */
    assert_true(chance(&stats, 1, 3, 1) == 0.25F);
    for (int i = 0; i < 60; i++)
        source_stats_count(&stats, &node, false);
    assert_true(chance(&stats, 2, 3, 1) < 0.3F);
}

/* A tree of a leader (here source 5) teaches nothing of other sources' tokens by themselves. Against the leader and
 * with it, tokens teach the mixture, and of the sources the leader alone is counted. */
static void test_source_stats_led(void **state) {
    const DraftNode alone = node_of(2, 3, 0);
    DraftNode against = alone, led = alone;
    static SourceStats stats;
    float before[3];

    against.others = 1u << 5;
    led.credits[led.n_credits++] = (DraftCredit){ 5, 7, 0, false };
    source_stats_begin(&stats, 1u << 5, NULL);
    source_stats_init(&stats, 2, &ops, NULL);
    source_stats_init(&stats, 5, &ops, NULL);
    before[0] = source_stats_joint_chance(&stats, &alone);
    for (int i = 0; i < 100; i++)
        source_stats_count_led(&stats, &alone, true);
    assert_true(source_stats_joint_chance(&stats, &alone) == before[0]);
    assert_true(chance(&stats, 2, 3, 0) == 0.5F);
    before[1] = source_stats_joint_chance(&stats, &against);
    before[2] = source_stats_joint_chance(&stats, &led);
    for (int i = 0; i < 100; i++)
        source_stats_count_led(&stats, &against, true);
    assert_true(source_stats_joint_chance(&stats, &against) > before[1] + 0.2F);
    assert_true(source_stats_joint_chance(&stats, &led) == before[2]);
    for (int i = 0; i < 100; i++)
        source_stats_count_led(&stats, &led, true);
    assert_true(source_stats_joint_chance(&stats, &led) > before[2] + 0.2F);
    assert_true(chance(&stats, 5, 7, 0) > 0.9F && chance(&stats, 2, 3, 0) == 0.5F);
    assert_true(source_stats_joint_chance(&stats, &alone) == before[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source_stats_counts),
        cmocka_unit_test(test_source_stats_forgets),
        cmocka_unit_test(test_source_stats_before),
        cmocka_unit_test(test_source_stats_led),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
