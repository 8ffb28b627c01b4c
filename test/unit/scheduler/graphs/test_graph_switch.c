// SPDX-License-Identifier: Apache-2.0
/* Plans of graph switching beside a step-by-step simulation and beside all possible plans; what each policy loads, uses
 * and drops; memory that never exceeds the slots. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "scheduler/graphs/graph_switch.h"
#include "test/unit/fixtures/model_maker.h"

enum {
    PREFILL = 256,
    DECODE = 32,
};

/* --- plans -------------------------------------------------------------------------------------------------------- */

/* Carries a plan out in whole time steps, one after the other. */
typedef struct Slow {
    unsigned int compute[2], load[2];
    GraphKind is[GRAPH_BLOCKS_MAX];
    size_t n_blocks;
    size_t loading, left; /* time steps */
    GraphKind kind;
} Slow;

static void slow_tick(Slow *slow) {
    if (slow->loading < slow->n_blocks && slow->left && !--slow->left) {
        slow->is[slow->loading] = slow->kind;
        slow->loading = slow->n_blocks;
    }
}

static void slow_begin(Slow *slow, size_t block, GraphKind kind) {
    slow->loading = block;
    slow->kind = kind;
    slow->left = slow->load[kind];
}

static size_t slow_last_without(const Slow *slow, GraphKind kind) {
    size_t block = slow->n_blocks;

    while (block > 0 && slow->is[block - 1] == kind)
        block--;
    return block ? block - 1 : slow->n_blocks;
}

/* Returns when everything has ended; *prefillp: when the last position has. */
static unsigned int slow_run(Slow slow, size_t first, uint64_t n_positions, bool goes_back, uint64_t begin,
                             unsigned int *prefillp) {
    unsigned int now = 0;

    for (uint64_t position = 0; position < n_positions; position++) {
        const GraphKind kind = position >= begin ? GRAPH_DECODE : GRAPH_PREFILL;
        const size_t block = (first + position) % slow.n_blocks, other = slow_last_without(&slow, kind);

        if (slow.loading == slow.n_blocks && other < slow.n_blocks && (position >= begin || goes_back))
            slow_begin(&slow, other, kind);
        for (unsigned int n = slow.compute[slow.is[block]]; n > 0; n--, now++)
            slow_tick(&slow);
    }
    *prefillp = now;
    for (;; now++) {
        const size_t other = slow_last_without(&slow, GRAPH_DECODE);

        if (slow.loading == slow.n_blocks && other == slow.n_blocks)
            return now;
        if (slow.loading == slow.n_blocks)
            slow_begin(&slow, other, GRAPH_DECODE);
        slow_tick(&slow);
    }
}

static void draw(uint64_t *random, Slow *slow, GraphTimes *times) {
    *slow = (Slow){ .n_blocks = 1 + test_random(random) % 6 };
    slow->loading = slow->n_blocks;
    for (size_t kind = 0; kind < _GRAPH_KIND_N; kind++) {
        slow->compute[kind] = 1 + (unsigned int)(test_random(random) % 20);
        slow->load[kind] = 1 + (unsigned int)(test_random(random) % 40);
        times->compute_ns[kind] = slow->compute[kind];
        times->load_ns[kind] = slow->load[kind];
    }
    for (size_t block = 0; block < slow->n_blocks; block++)
        slow->is[block] = test_random(random) % 4 ? GRAPH_PREFILL : GRAPH_DECODE;
}

static void test_graph_switch_prediction(void **state) {
    uint64_t random = 29;

    for (int round = 0; round < 3000; round++) {
        const uint64_t n_positions = test_random(&random) % 30;
        GraphPlan plan = { .goes_back = test_random(&random) % 2, .begin = test_random(&random) % (n_positions + 1) };
        unsigned int prefill, end;
        GraphTimes times;
        size_t first;
        Slow slow;

        draw(&random, &slow, &times);
        first = test_random(&random) % slow.n_blocks;
        graph_plan_predict(&plan, &times, slow.is, slow.n_blocks, first, n_positions);
        end = slow_run(slow, first, n_positions, plan.goes_back, plan.begin, &prefill);
        assert_true(plan.prefill_ns == prefill && plan.prefill_ns + plan.stall_ns == end);
    }
}

/* The plan that is made is the best of all possible plans. */
static void test_graph_switch_plan(void **state) {
    uint64_t random = 4;
    size_t n_later = 0, n_back = 0;

    for (int round = 0; round < 1500; round++) {
        const uint64_t n_positions = 1 + test_random(&random) % 40;
        unsigned int best = UINT32_MAX;
        GraphTimes times;
        GraphPlan plan;
        size_t first;
        Slow slow;

        draw(&random, &slow, &times);
        first = test_random(&random) % slow.n_blocks;
        graph_plan_make(&plan, &times, slow.is, slow.n_blocks, first, n_positions, false);
        for (int goes_back = 0; goes_back < 2; goes_back++)
            for (uint64_t begin = 0; begin <= n_positions; begin++) {
                unsigned int prefill;
                const unsigned int end = slow_run(slow, first, n_positions, goes_back, begin, &prefill);

                best = MIN(end, best);
            }
        if (plan.prefill_ns + plan.stall_ns != best)
            fail_msg("round %d: a plan of %g where %u is possible", round, plan.prefill_ns + plan.stall_ns, best);
        n_later += plan.begin > 0;
        n_back += plan.goes_back;
    }
    assert_true(n_later > 100 && n_back > 20);
}

/* Eq. 2, and a prompt that is long enough to hide everything. */
static void test_graph_switch_hidden(void **state) {
    const GraphTimes times = { { 80e6, 100e6 }, { 150e6, 150e6 } };
    GraphKind is[6] = { GRAPH_PREFILL };
    GraphPlan plan;

    graph_plan_make(&plan, &times, is, 6, 0, 4 * 6, false);
    assert_int_equal(plan.n_hiding, 2);
    assert_true(plan.stall_ns == 0);
    assert_true(plan.begin >= 6 && plan.begin < 2 * 6 + 6); /* neither at once nor too late */
    assert_true(plan.prefill_ns < 1.1 * 24 * 80e6);
    graph_plan_make(&plan, &times, is, 6, 0, 6, false); /* one chunk: three are hidden at most */
    assert_true(plan.begin == 0 && plan.stall_ns >= 3 * 150e6 - 80e6);
    for (size_t block = 0; block < 6; block++)
        is[block] = GRAPH_DECODE;
    graph_plan_make(&plan, &(GraphTimes){ { 100, 90 }, { 10, 10 } }, is, 6, 0, 24, false); /* going back does not pay */
    assert_true(!plan.goes_back || plan.begin == 0);
    graph_plan_make(&plan, &(GraphTimes){ { 100, 90 }, { 10, 10 } }, is, 6, 0, 24, true);
    assert_true(plan.goes_back && plan.begin >= 6);
    graph_plan_make(&plan, &(GraphTimes){ { 100, 90 }, { 10, 10 } }, is, 6, 0, 6,
                    true); /* too few positions to go back */
    assert_true(!plan.goes_back || plan.begin == 0);
    graph_plan_make(&plan, &(GraphTimes){ { 0, 0 }, { 0, 0 } }, is, 6, 0, 6, false); /* no time is known */
    assert_int_equal(plan.begin, 0);
}

/* --- policies ----------------------------------------------------------------------------------------------------- */

/* Blocks are computed while loads take the time of `load_blocks` of them; the graphs in memory are checked after each
 * event. */
typedef struct Play {
    GraphSwitch graphs;
    size_t load_blocks, left;
    bool is_there[GRAPH_BLOCKS_MAX][2];
    size_t n_loads, n_waits, n_used[2], peak;
    size_t loaded[64]; /* blocks, in the order of their loads */
} Play;

static void play_look(Play *play) {
    const size_t slots = graph_switch_slots(play->graphs.policy, play->graphs.n_blocks);
    size_t n = play->graphs.loading.block < play->graphs.n_blocks, block;
    GraphKind kind;

    while (graph_switch_drop(&play->graphs, &block, &kind)) {
        assert_true(play->is_there[block][kind]);
        play->is_there[block][kind] = false;
    }
    for (block = 0; block < play->graphs.n_blocks; block++)
        n += play->is_there[block][0] + play->is_there[block][1];
    if (graph_switch_load(&play->graphs, &block, &kind)) {
        assert_false(play->is_there[block][kind]);
        play->left = play->load_blocks;
        play->loaded[play->n_loads++ % ARRAY_LEN(play->loaded)] = block;
        n++;
    }
    assert_true(n <= slots);
    play->peak = MAX(n, play->peak);
    for (block = 0; block < play->graphs.n_blocks; block++)
        assert_memory_equal(play->is_there[block], play->graphs.is_there[block], sizeof(play->is_there[block]));
}

static void play_time(Play *play) {
    if (play->graphs.loading.block == play->graphs.n_blocks || (play->left && --play->left))
        return;
    play->is_there[play->graphs.loading.block][play->graphs.loading.kind] = true;
    graph_switch_loaded(&play->graphs, true);
}

/* prompt_rows: how many of the rows are of prompts. */
static void play_rows(Play *play, size_t rows, size_t prompt_rows, size_t n_behind) {
    graph_switch_step(&play->graphs, rows, prompt_rows, n_behind, 0);
    for (size_t block = 0; block < play->graphs.n_blocks; block++) {
        GraphKind kind;

        play_look(play);
        while ((kind = graph_switch_use(&play->graphs, block)) == GRAPH_NONE) {
            play->n_waits++;
            play_look(play);
            play_time(play);
            play_look(play);
            assert_true(play->n_waits < 10000);
        }
        assert_true(play->is_there[block][kind]);
        play_look(play);
        assert_true(play->is_there[block][kind]); /* a graph in use is never dropped */
        play->n_used[kind]++;
        play_time(play);
        play_look(play);
        assert_true(play->is_there[block][kind]);
        graph_switch_computed(&play->graphs, block, true);
        play_look(play);
    }
}

/* A step of a prompt alone, if it has more rows than a decode graph. */
static void play_step(Play *play, size_t rows, size_t n_behind) {
    play_rows(play, rows, rows > DECODE ? rows : 0, n_behind);
}

static Play play_new(GraphSwitchPolicy policy, size_t n_blocks, size_t load_blocks) {
    Play play = { .load_blocks = load_blocks };

    graph_switch_init(&play.graphs, policy, n_blocks, PREFILL, DECODE);
    play.graphs.times = (GraphTimes){ { 100, 120 }, { 100.0 * (double)load_blocks, 100.0 * (double)load_blocks } };
    return play;
}

/* Runs a prompt of n chunks, then decoding. Returns the waits after the first chunk, which loads everything. */
static size_t play_request(Play *play, size_t n_chunks, size_t *decode_waitsp) {
    size_t waits;

    play_step(play, PREFILL, PREFILL * (n_chunks - 1));
    waits = play->n_waits;
    for (size_t chunk = 1; chunk < n_chunks; chunk++)
        play_step(play, PREFILL, PREFILL * (n_chunks - 1 - chunk));
    waits = play->n_waits - waits;
    *decode_waitsp = play->n_waits;
    for (int step = 0; step < 5; step++)
        play_step(play, 1 + (size_t)step * 5, 0);
    *decode_waitsp = play->n_waits - *decode_waitsp;
    for (size_t block = 0; block < play->graphs.n_blocks; block++)
        assert_true(play->graphs.is_there[block][GRAPH_DECODE]);
    return waits;
}

static void test_graph_switch_policies(void **state) {
    size_t decode_waits[_GRAPH_SWITCH_N];

    for (GraphSwitchPolicy policy = 0; policy < _GRAPH_SWITCH_N; policy++) {
        const size_t n_blocks = 6;
        Play play = play_new(policy, n_blocks, 2);
        GraphSwitchPolicy named;
        char text[400];

        assert_true(choice_set(graph_switch_choices, graph_switch_name(policy), &named) && named == policy);
        assert_int_equal(play_request(&play, 5, &decode_waits[policy]), 0);
        assert_int_equal(play.n_used[GRAPH_DECODE] >= 5 * n_blocks, true);
        for (int more = 0; more < 3; more++)
            (void)play_request(&play, 5, &decode_waits[policy]);
        assert_true(play.peak <= graph_switch_slots(policy, n_blocks));
        assert_int_equal(play.peak, policy == GRAPH_SWITCH_NONE ? 12 : 7);
        play_step(&play, PREFILL, 4 * PREFILL);
        graph_switch_explain(&play.graphs, text, sizeof(text));
        assert_non_null(strstr(text, policy == GRAPH_SWITCH_PROGRESSIVE ? "which 3 of them hide" : "6 blocks, policy"));
    }
    assert_int_equal(decode_waits[GRAPH_SWITCH_NONE], 0);
    assert_int_equal(decode_waits[GRAPH_SWITCH_PROGRESSIVE], 0);
    assert_true(decode_waits[GRAPH_SWITCH_SYNC] >= 6 * 2);
    assert_true(decode_waits[GRAPH_SWITCH_ASYNC] > 0);
    assert_true(decode_waits[GRAPH_SWITCH_ASYNC] < decode_waits[GRAPH_SWITCH_SYNC]);
    assert_false(choice_set(graph_switch_choices, "other", &(GraphSwitchPolicy){ 0 }));
}

/* Blocks are switched from the last one to the first, and none too early. */
static void test_graph_switch_order(void **state) {
    Play play = play_new(GRAPH_SWITCH_PROGRESSIVE, 6, 2);

    play_step(&play, PREFILL, 5 * PREFILL); /* with prompt graphs, which are all there afterwards */
    assert_int_equal(play.n_loads, 6);
    play.n_loads = 0;
    for (size_t chunk = 1; chunk < 6; chunk++) {
        play_step(&play, PREFILL, PREFILL * (5 - chunk));
        if (chunk < 3)
            assert_int_equal(play.n_loads, 0);
    }
    play_step(&play, 1, 0);
    assert_int_equal(play.n_loads, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(play.loaded[i], 5 - i);
}

/* Times that change before every step do not load graphs to and fro: a request loads a block twice at most, there and
 * back. */
static void test_graph_switch_steady(void **state) {
    uint64_t random = 31;

    for (int round = 0; round < 200; round++) {
        Play play = play_new((GraphSwitchPolicy)(round % _GRAPH_SWITCH_N), 6, 1 + test_random(&random) % 4);
        const size_t n_chunks = 1 + test_random(&random) % 8;

        (void)play_request(&play, n_chunks, &(size_t){ 0 });
        play.n_loads = 0;
        for (size_t chunk = 0; chunk < n_chunks; chunk++) {
            play.graphs.times.compute_ns[GRAPH_PREFILL] = 50 + (double)(test_random(&random) % 100);
            play.graphs.times.compute_ns[GRAPH_DECODE] = 50 + (double)(test_random(&random) % 100);
            play_step(&play, PREFILL, PREFILL * (n_chunks - 1 - chunk));
        }
        play_step(&play, 1, 0);
        play_step(&play, 1, 0);
        if (play.n_loads > 12)
            fail_msg("%s, %zu chunks: %zu loads", graph_switch_name(play.graphs.policy), n_chunks, play.n_loads);
    }
    assert_true(random != 31);
}

/* Drafts of one generation or of several are rows of decoding, however many. No policy loads a prompt graph for them,
 * nor for the end of a prompt that has no more rows than a decode graph. */
static void test_graph_switch_verification(void **state) {
    static const size_t rows[] = { 33, 64, 1, 128, 300, 600 };

    for (GraphSwitchPolicy policy = 0; policy < _GRAPH_SWITCH_N; policy++) {
        Play play = play_new(policy, 6, 2);

        (void)play_request(&play, 3, &(size_t){ 0 });
        play.n_loads = play.n_waits = play.n_used[GRAPH_PREFILL] = 0;
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
            play_rows(&play, rows[i], 0, 0);
            play_rows(&play, rows[i], rows[i] > DECODE ? DECODE : 0, 0);
        }
        assert_int_equal(play.n_loads, 0);
        assert_int_equal(play.n_waits, 0);
        assert_int_equal(play.n_used[GRAPH_PREFILL], 0); /* slower, where both graphs are there */
        play_rows(&play, 300, DECODE + 1, 0);
        assert_true(policy != GRAPH_SWITCH_SYNC || play.n_loads); /* a prompt counts as one in any company */
    }
}

/* A prompt graph is still on its way when the prompt is over: decoding loads nothing for it. */
static void test_graph_switch_late(void **state) {
    Play play = play_new(GRAPH_SWITCH_PROGRESSIVE, 6, 2);

    (void)play_request(&play, 3, &(size_t){ 0 });
    play.graphs.lab.must_go_back = true;
    graph_switch_step(&play.graphs, PREFILL, PREFILL, 4 * PREFILL, 0);
    play_look(&play); /* the load begins */
    assert_true(play.graphs.loading.block < 6 && play.graphs.loading.kind == GRAPH_PREFILL);
    play.n_loads = play.n_waits = 0;
    for (int step = 0; step < 4; step++)
        play_step(&play, 1, 0);
    assert_int_equal(play.graphs.loading.block, 6); /* the load has ended */
    assert_int_equal(play.n_loads, 0);
    assert_int_equal(play.n_waits, 0);
}

/* Steps of any size in any order, some left in the middle; loads of any length, some of which fail. */
static void test_graph_switch_any_order(void **state) {
    uint64_t random = 77;

    for (int round = 0; round < 400; round++) {
        Play play = play_new((GraphSwitchPolicy)(test_random(&random) % _GRAPH_SWITCH_N), 1 + test_random(&random) % 9,
                             1 + test_random(&random) % 12);

        if (round % 3 == 0)
            play.graphs.times = (GraphTimes){ { 0 }, { 0 } };
        for (int step = 0; step < 12; step++) {
            const size_t rows = 1 + test_random(&random) % (test_random(&random) % 2 ? 32 : 600);

            play_rows(&play, rows, test_random(&random) % 2 ? rows : test_random(&random) % rows,
                      test_random(&random) % 3 ? 0 : test_random(&random) % 2000);
            if (test_random(&random) % 3)
                continue;
            graph_switch_step(&play.graphs, rows, rows, 0, test_random(&random) % play.graphs.n_blocks);
            play_look(&play);
            if (graph_switch_use(&play.graphs, 0) != GRAPH_NONE)
                graph_switch_computed(&play.graphs, 0, false);
            if (play.graphs.loading.block < play.graphs.n_blocks)
                graph_switch_loaded(&play.graphs, false); /* the graph could not be read */
            play_look(&play);
        }
    }
    assert_true(random != 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_switch_prediction),   cmocka_unit_test(test_graph_switch_plan),
        cmocka_unit_test(test_graph_switch_hidden),       cmocka_unit_test(test_graph_switch_policies),
        cmocka_unit_test(test_graph_switch_order),        cmocka_unit_test(test_graph_switch_steady),
        cmocka_unit_test(test_graph_switch_verification), cmocka_unit_test(test_graph_switch_late),
        cmocka_unit_test(test_graph_switch_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
