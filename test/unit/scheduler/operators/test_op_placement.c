// SPDX-License-Identifier: Apache-2.0
/* Who runs products: predictions for random graphs beside a simple simulation (op_sim), choices beside all possible
 * ones, and the cases that placement is for. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "scheduler/operators/op_placement.h"
#include "test/unit/fixtures/model_maker.h"
#include "test/unit/scheduler/operators/op_sim.h"

#define LEAST_GAIN 0.02

/* --- predictions -------------------------------------------------------------------------------------------------- */

/* A product under way in the simple simulation. */
typedef struct Flight {
    size_t index;
    double until;
} Flight;

static void sim_end(Sim *sim, const OpPlacementCase *of, const Flight *flight, double *now) {
    const OpRef ref = sim_ref_of(sim, flight->index);

    *now = MAX(flight->until, *now) + of->times->end_ns[ref.node] * of->shares[ref.group];
    sim->states[flight->index] = SIM_DONE;
}

/* Returns the work of a group in a node. */
static double share_of(const OpPlacementCase *of, const OpRef *ref) {
    const bool attends = of->queues->graph->nodes[ref->node].class == OP_CLASS_ATTENTION;

    return attends && of->attention_shares ? of->attention_shares[ref->group] : of->shares[ref->group];
}

/* Simulates the deciding thread: products that are over end, the NPU gets what it has slots for, then one operator is
 * run, or the oldest product is waited for. */
static double simulate(const OpPlacementCase *of, const OpQueuesSetup *setup) {
    static Sim sim;
    Flight flights[BACKEND_PRODUCT_SLOTS_MAX];
    double now = 0, npu_free = 0;
    size_t n_flights = 0;

    sim.setup = setup;
    sim.times = *of->times;
    sim_begin(&sim);
    for (;;) {
        size_t n_done = 0;
        long index;

        while (n_flights && flights[0].until <= now) {
            sim_end(&sim, of, &flights[0], &now);
            memmove(flights, flights + 1, --n_flights * sizeof(*flights));
        }
        while (n_flights < of->n_slots && (index = sim_choice(&sim, OP_QUEUE_NPU)) != SIM_NOTHING) {
            const OpRef ref = sim_ref_of(&sim, (size_t)index);

            sim.states[index] = SIM_RUNS;
            now += of->times->begin_ns[ref.node] * of->shares[ref.group];
            npu_free = MAX(npu_free, now) + of->times->ns[OP_QUEUE_NPU][ref.node];
            flights[n_flights++] = (Flight){ (size_t)index, npu_free };
        }
        index = sim_choice(&sim, OP_QUEUE_CPU);
        if (index == SIM_NOTHING)
            index = sim_stolen(&sim, n_flights);
        if (index != SIM_NOTHING) {
            const OpRef ref = sim_ref_of(&sim, (size_t)index);
            const double share = share_of(of, &ref);

            if (sim_is_joint(&sim, (size_t)index))
                now = npu_free = MAX(npu_free, now) + of->times->ns[OP_QUEUE_NPU][ref.node] * share;
            else
                now += (of->times->begin_ns[ref.node] + of->times->ns[OP_QUEUE_CPU][ref.node] +
                        of->times->end_ns[ref.node]) *
                       share;
            sim.states[index] = SIM_DONE;
        } else if (n_flights) {
            sim_end(&sim, of, &flights[0], &now);
            memmove(flights, flights + 1, --n_flights * sizeof(*flights));
        }
        for (size_t i = 0; i < sim.n; i++)
            n_done += sim.states[i] == SIM_DONE;
        if (n_done == sim.n)
            return now;
    }
}

typedef struct RandomCase {
    OpGraph graph;
    OpQueuesSetup setup;
    OpTimes times;
    double shares[SIM_GROUPS_MAX], attention_shares[SIM_GROUPS_MAX];
    OpPlacementCase of;
} RandomCase;

/* joint: attention may be joint, and is in some groups. */
static void fill_case(RandomCase *made, OpOrder order, bool joint, uint64_t *random) {
    memset(made, 0, sizeof(*made));
    sim_fill_graph(&made->graph, random);
    sim_fill_setup(&made->setup, &made->graph, order, random);
    if (made->setup.n_layers > OP_PLACEMENT_LAYERS)
        made->setup.n_layers = OP_PLACEMENT_LAYERS;
    sim_fill_times(&made->times, &made->graph, random);
    for (size_t node = 0; node < made->graph.n; node++) {
        made->times.begin_ns[node] = (double)sim_below(random, 3) / 2;
        made->times.end_ns[node] = (double)sim_below(random, 3) / 4;
        made->times.n[OP_QUEUE_NPU][node] = made->times.n[OP_QUEUE_CPU][node] = OP_TIMES_FIRST;
    }
    for (size_t i = 0; i < SIM_GROUPS_MAX; i++)
        made->shares[i] = (double)(1 + sim_below(random, 4)) / 4;
    made->of = (OpPlacementCase){
        .queues = &made->setup, .times = &made->times, .shares = made->shares, .n_slots = 1 + sim_below(random, 3)
    };
    if (!joint)
        return;
    made->of.joint = op_queues_attention(&made->graph);
    made->of.attention_shares = made->attention_shares;
    for (size_t i = 0; i < SIM_GROUPS_MAX; i++)
        made->attention_shares[i] = (double)(1 + sim_below(random, 12)) / 4;
    for (size_t i = 0; i < made->setup.n_groups; i++)
        made->setup.on_npu[i] |= made->of.joint & test_random(random);
}

static void test_op_placement_predict(void **state) {
    static RandomCase made;
    uint64_t random = 20261128;

    for (int i = 0; i < 800; i++) {
        double predicted, expected;

        fill_case(&made, (OpOrder)(i % _OP_ORDER_N), i % 3 == 0, &random);
        predicted = op_placement_predict(&made.of, made.setup.on_npu);
        expected = simulate(&made.of, &made.setup);
        if (!(predicted == expected))
            fail_msg("graph %d in the order %s: %.3f, expected %.3f", i, op_order_name(made.setup.order), predicted,
                     expected);
    }
}

/* --- choices ------------------------------------------------------------------------------------------------------ */

/* A bit for each product in each group. */
static double time_of(const OpPlacementCase *of, uint64_t products, uint32_t places) {
    uint64_t on_npu[OP_QUEUES_GROUPS_MAX] = { 0 };
    size_t bit = 0;

    for (size_t group = 0; group < of->queues->n_groups; group++)
        for (uint64_t left = products; left; left &= left - 1)
            on_npu[group] |= places >> bit++ & 1 ? left & -left : 0;
    return op_placement_predict(of, on_npu);
}

/* Returns the best time of all possible placements. */
static double best_of(const OpPlacementCase *of, uint64_t products) {
    const size_t n_bits = (size_t)__builtin_popcountll(products) * of->queues->n_groups;
    double best = time_of(of, products, 0);

    for (uint32_t places = 1; places < UINT32_C(1) << n_bits; places++) {
        const double ns = time_of(of, products, places);

        best = MIN(ns, best);
    }
    return best;
}

/* Asserts that no single product of a group would better be on the other side. */
static void check_moves(const OpPlacementCase *of, uint64_t products, const OpPlacement *chosen) {
    for (size_t group = 0; group < of->queues->n_groups; group++)
        for (uint64_t left = products; left; left &= left - 1) {
            OpPlacement moved = *chosen;

            moved.on_npu[group] ^= left & -left;
            assert_true(op_placement_predict(of, moved.on_npu) >= chosen->placed_ns * (1 - LEAST_GAIN));
        }
}

static void test_op_placement_random(void **state) {
    static RandomCase made;
    uint64_t random = 20261129;
    int n_moved = 0, n_best = 0;

    for (int i = 0; i < 200; i++) {
        uint64_t products, movable;
        OpPlacement chosen, all;

        do {
            fill_case(&made, (OpOrder)(i % _OP_ORDER_N), i % 4 == 0, &random);
            products = op_queues_products(&made.graph);
            movable = products | made.of.joint;
        } while ((size_t)__builtin_popcountll(movable) * made.setup.n_groups > 9);
        op_placement_init(&all, products);
        chosen = all;
        for (size_t group = 0; i % 2 && group < OP_PLACEMENT_GROUPS; group++) /* starts from any placement */
            chosen.on_npu[group] = movable & test_random(&random);
        op_placement_choose(&made.of, &chosen);
        for (size_t group = 0; group < OP_PLACEMENT_GROUPS; group++)
            assert_int_equal(chosen.on_npu[group] & ~movable, 0);
        assert_int_equal(chosen.n_groups, made.setup.n_groups);
        assert_true(chosen.placed_ns == op_placement_predict(&made.of, chosen.on_npu));
        assert_true(chosen.all_npu_ns == op_placement_predict(&made.of, all.on_npu));
        assert_true(chosen.placed_ns < chosen.all_npu_ns * (1 - LEAST_GAIN) ||
                    !memcmp(chosen.on_npu, all.on_npu, made.setup.n_groups * sizeof(*all.on_npu)));
        check_moves(&made.of, movable, &chosen);
        n_moved += chosen.placed_ns < chosen.all_npu_ns;
        n_best += chosen.placed_ns <= best_of(&made.of, movable) * (1 + 2 * LEAST_GAIN);
    }
    print_message("%d of 200 moved, %d as good as the best\n", n_moved, n_best);
    assert_true(n_moved > 60 && n_best > 160);
}

/* --- what it is for ----------------------------------------------------------------------------------------------- */

enum {
    NODES = 5,
    QKV = 0,
    ATTENTION = 1,
    OUT = 2,
    UP = 3,
    DOWN = 4,
    PRODUCTS = 1 << QKV | 1 << OUT | 1 << UP | 1 << DOWN,
};

/* A layer: queries, keys and values; attention; output; up; down. */
static void fill_layer(OpGraph *graph, OpTimes *times, const double npu[NODES], const double cpu[NODES]) {
    static const OpClass classes[NODES] = { OP_CLASS_PRODUCT, OP_CLASS_ATTENTION, OP_CLASS_PRODUCT, OP_CLASS_PRODUCT,
                                            OP_CLASS_PRODUCT };

    memset(graph, 0, sizeof(*graph));
    memset(times, 0, sizeof(*times));
    for (size_t i = 0; i < NODES; i++) {
        op_graph_add(graph, classes[i], UINT64_C(1) << i, UINT64_C(1) << (i + 1) % NODES,
                     classes[i] == OP_CLASS_ATTENTION);
        times->ns[OP_QUEUE_NPU][i] = npu[i];
        times->ns[OP_QUEUE_CPU][i] = cpu[i];
    }
    op_graph_close(graph);
}

/* joint: attention may be joint; attention_shares: its work, or NULL. */
static OpPlacement choose_joint(const double npu[NODES], const double cpu[NODES], OpOrder order, const double *shares,
                                const double *attention_shares, uint64_t joint, size_t n_groups, uint64_t from) {
    OpGraph graph;
    OpTimes times;
    OpPlacement placement;
    const OpQueuesSetup setup = { .graph = &graph,
                                  .n_groups = n_groups,
                                  .n_layers = 40,
                                  .continues = ~UINT64_C(1),
                                  .order = order,
                                  .steal_beyond = OP_STEAL_NEVER };

    fill_layer(&graph, &times, npu, cpu);
    op_placement_init(&placement, from);
    op_placement_choose(&(OpPlacementCase){ &setup, &times, shares, 2, attention_shares, joint }, &placement);
    return placement;
}

static OpPlacement choose(const double npu[NODES], const double cpu[NODES], OpOrder order, const double *shares,
                          size_t n_groups, uint64_t from) {
    return choose_joint(npu, cpu, order, shares, NULL, 0, n_groups, from);
}

static size_t n_on_npu(const OpPlacement *placement) {
    size_t n = 0;

    for (size_t i = 0; i < placement->n_groups; i++)
        n += (size_t)__builtin_popcountll(placement->on_npu[i]);
    return n;
}

static size_t n_groups_of(const OpPlacement *placement, size_t node) {
    size_t n = 0;

    for (size_t i = 0; i < placement->n_groups; i++)
        n += placement->on_npu[i] >> node & 1;
    return n;
}

static void test_op_placement_worth(void **state) {
    static const double slow_npu[NODES] = { 20, 0, 10, 40, 20 }, fast_npu[NODES] = { 2, 0, 1, 4, 2 },
                        cpu[NODES] = { 24, 15, 12, 48, 24 }, good_at_out[NODES] = { 60, 70, 1, 120, 60 },
                        few[4] = { 1, 1, 1, 0.05 };
    static double shares[OP_QUEUES_GROUPS_MAX];
    uint64_t on_npu[OP_QUEUES_GROUPS_MAX];
    OpPlacement placement, of_many;

    for (size_t i = 0; i < ARRAY_LEN(shares); i++)
        shares[i] = 1;
    /* If everybody waits for the NPU, the processors take products until both sides have the same work, in every order
     * that has both at work. */
    for (OpOrder order = 0; order < _OP_ORDER_N; order++) {
        placement = choose(slow_npu, cpu, order, shares, 4, PRODUCTS);
        assert_true(n_on_npu(&placement) < 16 && n_on_npu(&placement));
        print_message("%s: %.0f instead of %.0f\n", op_order_name(order), placement.placed_ns, placement.all_npu_ns);
        assert_true(placement.placed_ns < (order == OP_ORDER_IN_ORDER ? 1 : 0.8) * placement.all_npu_ns);
    }
    /* With many groups and layers the last few are looked at, and those before have the same places. */
    placement = choose(slow_npu, cpu, OP_ORDER_OUT_OF_ORDER, shares, OP_PLACEMENT_GROUPS, PRODUCTS);
    of_many = choose(slow_npu, cpu, OP_ORDER_OUT_OF_ORDER, shares, ARRAY_LEN(shares), PRODUCTS);
    assert_memory_equal(placement.on_npu, of_many.on_npu, sizeof(placement.on_npu));
    op_placement_fill(&of_many, ARRAY_LEN(shares), on_npu);
    for (size_t i = 0; i < OP_PLACEMENT_GROUPS; i++) {
        assert_int_equal(on_npu[i], placement.on_npu[i]);
        assert_int_equal(on_npu[ARRAY_LEN(shares) - OP_PLACEMENT_GROUPS + i], placement.on_npu[i]);
    }
    /* A product that the processors run much faster is theirs, unless nobody waits for it; the largest product that the
     * NPU runs faster is not. */
    placement = choose(slow_npu, good_at_out, OP_ORDER_OUT_OF_ORDER, shares, 4, PRODUCTS);
    assert_true(n_groups_of(&placement, OUT) <= 1 && n_groups_of(&placement, UP) == 4);
    /* A fast NPU keeps all products, and gets back those that it has lost. */
    for (OpOrder order = 0; order < _OP_ORDER_N; order++) {
        placement = choose(fast_npu, cpu, order, shares, 4, PRODUCTS);
        assert_int_equal(n_on_npu(&placement), 16);
        placement = choose(fast_npu, cpu, order, shares, 4, 0);
        assert_int_equal(n_on_npu(&placement), 16);
    }
    /* Twelve rows take the NPU as long as a whole graph, and a processor hardly anything. */
    placement = choose(slow_npu, cpu, OP_ORDER_STATIC, few, 4, PRODUCTS);
    assert_true(__builtin_popcountll(placement.on_npu[3]) <= 1);
    assert_true(n_on_npu(&placement) > 6);
}

/* Attention is joint where it is most of the work and takes less time together, and only there. */
static void test_op_placement_joint(void **state) {
    /* The second number is attention's time with the NPU, which also keeps the NPU. */
    static const double npu[NODES] = { 2, 8, 1, 4, 2 }, slow[NODES] = { 2, 14, 1, 4, 2 },
                        cpu[NODES] = { 24, 15, 12, 48, 24 }, near[4] = { 0.1, 0.1, 0.1, 0.1 }, far[4] = { 4, 4, 4, 4 },
                        rising[4] = { 0.05, 0.05, 8, 8 }, shares[4] = { 1, 1, 1, 1 };
    const uint64_t attention = UINT64_C(1) << ATTENTION;

    for (OpOrder order = 0; order < _OP_ORDER_N; order++) {
        OpPlacement placement = choose_joint(npu, cpu, order, shares, far, attention, 4, PRODUCTS);

        assert_int_equal(n_groups_of(&placement, ATTENTION), 4);
        assert_true(placement.placed_ns < 0.8 * placement.all_npu_ns);
        /* What the device cannot do is not chosen, whatever is there from before. */
        placement = choose_joint(npu, cpu, order, shares, far, 0, 4, PRODUCTS | attention);
        assert_int_equal(n_groups_of(&placement, ATTENTION), 0);
        /* With little attention, nothing is gained beside products that the NPU must run, too. */
        if (order != OP_ORDER_IN_ORDER) {
            placement = choose_joint(slow, cpu, order, shares, near, attention, 4, PRODUCTS);
            assert_int_equal(n_groups_of(&placement, ATTENTION), 0);
            placement = choose_joint(npu, cpu, order, shares, rising, attention, 4, PRODUCTS);
            assert_true(placement.on_npu[2] & attention && placement.on_npu[3] & attention);
            assert_true(n_groups_of(&placement, ATTENTION) < 4);
        }
    }
}

static void test_op_placement_names(void **state) {
    OpPlacementKind kind;

    for (OpPlacementKind i = 0; i < _OP_PLACEMENT_N; i++)
        assert_true(choice_set(op_placement_choices, op_placement_name(i), &kind) && kind == i);
    assert_false(choice_set(op_placement_choices, "best", &kind));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_op_placement_predict), cmocka_unit_test(test_op_placement_random),
        cmocka_unit_test(test_op_placement_worth),   cmocka_unit_test(test_op_placement_joint),
        cmocka_unit_test(test_op_placement_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
