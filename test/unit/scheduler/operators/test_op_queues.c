// SPDX-License-Identifier: Apache-2.0
/* Queues of an NPU and of the processors: random graphs under every order, beside a simple simulation (op_sim); the
 * gain of each order in the cases that it is for. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "scheduler/operators/op_queues.h"
#include "test/unit/scheduler/operators/op_sim.h"

typedef struct Side {
    bool is_busy;
    OpRef ref;
    size_t index;
    double until;
} Side;

static void check_ref(const Sim *sim, bool has_one, const OpRef *ref, long expected, const char *what) {
    const long index = has_one ? (long)sim_index_of(sim, ref) : (long)SIM_NOTHING;

    if (index != expected)
        fail_msg("%s in the order %s: node %ld, expected %ld of %zu", what, op_order_name(sim->setup->order), index,
                 expected, sim->n);
}

static void begin_node(Sim *sim, OpQueues *queues, Side *side, OpQueue by, double now, uint64_t *random) {
    side->index = sim_index_of(sim, &side->ref);
    assert_true(sim_is_ready(sim, side->index)); /* all that the node needs is there */
    if (random && !sim_below(random, 8)) {
        op_queues_put_back(queues, &side->ref, by);
        return;
    }
    sim->states[side->index] = SIM_RUNS;
    side->is_busy = true;
    side->until = now + sim->times.ns[by][side->ref.node];
}

/* Lets both sides take what they can. */
static void take_all(Sim *sim, OpQueues *queues, Side sides[_OP_QUEUE_N], double now, uint64_t *random) {
    for (OpQueue by = OP_QUEUE_NPU; by < _OP_QUEUE_N; by++) {
        Side *side = &sides[by];
        bool has_one;

        if (side->is_busy)
            continue;
        has_one = op_queues_take(queues, by, &side->ref);
        check_ref(sim, has_one, &side->ref, sim_choice(sim, by), by == OP_QUEUE_NPU ? "the NPU" : "the processors");
        if (!has_one && by == OP_QUEUE_CPU) {
            has_one = op_queues_steal(queues, &side->ref);
            check_ref(sim, has_one, &side->ref, sim_stolen(sim, sides[OP_QUEUE_NPU].is_busy), "stolen");
        }
        if (has_one)
            begin_node(sim, queues, side, by, now, random);
    }
}

/* Runs until all has ended, and returns the time. random: also puts nodes back; NULL: never. */
static double run(Sim *sim, OpQueues *queues, uint64_t *random, double busy[_OP_QUEUE_N]) {
    Side sides[_OP_QUEUE_N] = { 0 };
    double now = 0;
    size_t n_ended = 0;

    sim_begin(sim);
    queues->times = sim->times;
    op_queues_begin(queues, sim->setup);
    while (n_ended < sim->n) {
        Side *next = NULL;

        assert_false(op_queues_have_ended(queues));
        take_all(sim, queues, sides, now, random);
        for (OpQueue by = OP_QUEUE_NPU; by < _OP_QUEUE_N; by++)
            if (sides[by].is_busy && (!next || sides[by].until < next->until))
                next = &sides[by];
        if (!next) { /* nodes that could run were put back */
            assert_non_null(random);
            continue;
        }
        busy[next - sides] += sim->times.ns[next - sides][next->ref.node];
        now = next->until;
        op_queues_end(queues, &next->ref, (OpQueue)(next - sides), 0);
        sim->states[next->index] = SIM_DONE;
        next->is_busy = false;
        n_ended++;
    }
    assert_true(op_queues_have_ended(queues));
    assert_false(op_queues_take(queues, OP_QUEUE_NPU, &sides[0].ref));
    assert_false(op_queues_take(queues, OP_QUEUE_CPU, &sides[0].ref));
    return now;
}

static void test_op_queues_random(void **state) {
    static OpQueueLayer layers[SIM_GROUPS_MAX * SIM_LAYERS_MAX];
    static Sim sim;
    uint64_t random = 20261127;

    for (int i = 0; i < 600; i++) {
        OpGraph graph;
        OpQueuesSetup setup = { .layers = layers };
        double busy[_OP_QUEUE_N] = { 0 };
        OpQueues queues = { 0 };

        sim_fill_graph(&graph, &random);
        sim_fill_setup(&setup, &graph, (OpOrder)(i % _OP_ORDER_N), &random);
        memset(&sim, 0, sizeof(sim));
        sim.setup = &setup;
        sim_fill_times(&sim.times, &graph, &random);
        run(&sim, &queues, i % 2 ? &random : NULL, busy);
    }
}

/* --- what it is for ----------------------------------------------------------------------------------------------- */

/* The operators of a layer and their times for a chunk: three quarters of the time are products, most of the rest is
 * attention. */
static void fill_layer(OpGraph *graph, OpTimes *times) {
    static const struct {
        OpClass class;
        uint64_t inputs, outputs;
        double ns;
    } nodes[] = {
        { OP_CLASS_ELEMENT_WISE, 1, 2, 2 },     /* norm */
        { OP_CLASS_PRODUCT, 2, 4, 15 },         /* queries, keys, values */
        { OP_CLASS_ELEMENT_WISE, 4, 4, 3 },     /* positions */
        { OP_CLASS_ATTENTION, 4, 8, 25 },       /* */
        { OP_CLASS_PRODUCT, 8, 2, 10 },         /* output */
        { OP_CLASS_ELEMENT_WISE, 1 | 2, 1, 1 }, /* sum */
        { OP_CLASS_ELEMENT_WISE, 1, 2, 2 },     /* norm */
        { OP_CLASS_PRODUCT, 2, 16, 50 },        /* gate and up */
        { OP_CLASS_ELEMENT_WISE, 16, 16, 5 },   /* gate */
        { OP_CLASS_PRODUCT, 16, 2, 25 },        /* down */
        { OP_CLASS_ELEMENT_WISE, 1 | 2, 1, 1 }, /* sum */
    };

    memset(graph, 0, sizeof(*graph));
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
        op_graph_add(graph, nodes[i].class, nodes[i].inputs, nodes[i].outputs, nodes[i].class == OP_CLASS_ATTENTION);
        times->ns[OP_QUEUE_NPU][i] = nodes[i].ns;
        times->ns[OP_QUEUE_CPU][i] = nodes[i].class == OP_CLASS_PRODUCT ? 4 * nodes[i].ns : nodes[i].ns;
    }
    op_graph_close(graph);
}

/* In order, one chunk after the other: both sides wait for each other. Out of order, and by position, the NPU runs the
 * products of one chunk while the processors run the attention of another. */
static void test_op_queues_worth(void **state) {
    static OpQueueLayer layers[4 * 24];
    OpQueues queues = { 0 };
    OpQueuesSetup setup = { .layers = layers, .n_groups = 4, .n_layers = SIM_LAYERS_MAX, .continues = 0xe };
    double total[_OP_ORDER_N], npu_busy[_OP_ORDER_N], products = 0, all = 0;
    OpGraph graph;
    static Sim sim;

    setup.graph = &graph;
    sim.setup = &setup;
    fill_layer(&graph, &sim.times);
    for (size_t group = 0; group < setup.n_groups; group++)
        setup.on_npu[group] = op_queues_products(&graph);
    for (size_t i = 0; i < graph.n; i++) {
        all += sim.times.ns[OP_QUEUE_NPU][i] * 4 * SIM_LAYERS_MAX;
        products += graph.nodes[i].class == OP_CLASS_PRODUCT ? sim.times.ns[OP_QUEUE_NPU][i] * 4 * SIM_LAYERS_MAX : 0;
    }
    setup.steal_beyond = OP_STEAL_NEVER;
    for (setup.order = 0; setup.order < _OP_ORDER_N; setup.order++) {
        double busy[_OP_QUEUE_N] = { 0 };

        total[setup.order] = run(&sim, &queues, NULL, busy);
        npu_busy[setup.order] = busy[OP_QUEUE_NPU] / total[setup.order];
        print_message("%s: %.0f, NPU busy %.0f %%\n", op_order_name(setup.order), total[setup.order],
                      100 * npu_busy[setup.order]);
    }
    assert_true(total[OP_ORDER_IN_ORDER] == all);
    assert_true(total[OP_ORDER_OUT_OF_ORDER] < 0.82 * all && total[OP_ORDER_POSITION] < 0.82 * all);
    /* A node for all chunks before the next node: both sides work, but the NPU waits if one node is long. */
    assert_true(total[OP_ORDER_STATIC] < all && total[OP_ORDER_STATIC] > total[OP_ORDER_POSITION]);
    assert_true(npu_busy[OP_ORDER_OUT_OF_ORDER] > 0.9 && total[OP_ORDER_OUT_OF_ORDER] >= products);
}

static void test_op_queues_times(void **state) {
    OpQueueLayer layers[1];
    OpQueues queues = { 0 };
    OpGraph graph = { 0 };
    OpQueuesSetup setup = { .graph = &graph, .layers = layers, .n_groups = 1, .n_layers = 1 };
    OpOrder order;
    OpRef ref;

    op_graph_add(&graph, OP_CLASS_PRODUCT, 1, 2, false);
    op_graph_add(&graph, OP_CLASS_ELEMENT_WISE, 2, 2, false);
    op_graph_close(&graph);
    assert_int_equal(op_queues_products(&graph), 1);
    setup.on_npu[0] = op_queues_products(&graph);
    for (int i = 0; i < 4; i++) {
        static const uint64_t took_ns[] = { 2000, 1000, 1400, 1400 };

        op_queues_begin(&queues, &setup);
        assert_false(op_queues_take(&queues, OP_QUEUE_CPU, &ref));
        assert_true(op_queues_take(&queues, OP_QUEUE_NPU, &ref));
        assert_int_equal(ref.node, 0);
        op_queues_end(&queues, &ref, OP_QUEUE_NPU, took_ns[i]);
        assert_int_equal(op_times_know(&queues.times, OP_QUEUE_NPU, setup.on_npu[0]), i >= 2);
        assert_true(op_queues_take(&queues, OP_QUEUE_CPU, &ref));
        op_queues_end(&queues, &ref, OP_QUEUE_CPU, 0);
        assert_true(op_queues_have_ended(&queues));
    }
    assert_true(queues.times.ns[OP_QUEUE_NPU][0] == 1100); /* the least of three; later times count a quarter */
    assert_false(op_times_know(&queues.times, OP_QUEUE_CPU, 3));
    assert_true(op_times_know(&queues.times, OP_QUEUE_CPU, 0));
    assert_true(queues.times.ns[OP_QUEUE_CPU][1] == 0);
    /* A product without a time on the processors is tried there; afterwards the times decide. */
    setup.order = OP_ORDER_POSITION;
    for (int i = 0; i < 3; i++) {
        queues.times.ns[OP_QUEUE_CPU][0] = i ? 1099 + 2 * (i - 1) : 0;
        op_queues_begin(&queues, &setup);
        assert_int_equal(op_queues_steal(&queues, &ref), i < 2);
    }
    for (OpOrder i = 0; i < _OP_ORDER_N; i++)
        assert_true(choice_set(op_order_choices, op_order_name(i), &order) && order == i);
    assert_false(choice_set(op_order_choices, "best", &order));
}

/* In a fixed order, a node that was put back comes before the nodes after it. */
static void check_put_back(OpOrder order) {
    OpQueueLayer layers[2];
    OpQueues queues = { 0 };
    OpGraph graph = { 0 };
    OpRef refs[4], ref;

    for (size_t i = 0; i < 2; i++)
        op_graph_add(&graph, OP_CLASS_ELEMENT_WISE, 1, UINT64_C(2) << i, false);
    op_graph_close(&graph);
    op_queues_begin(
        &queues, &(OpQueuesSetup){ .graph = &graph, .layers = layers, .n_groups = 2, .n_layers = 1, .order = order });
    for (size_t i = 0; i < 4; i++) {
        assert_true(op_queues_take(&queues, OP_QUEUE_CPU, &refs[i]));
        assert_int_equal(refs[i].node, order == OP_ORDER_STATIC ? i / 2 : i % 2);
        assert_int_equal(refs[i].group, order == OP_ORDER_STATIC ? i % 2 : i / 2);
    }
    assert_false(op_queues_take(&queues, OP_QUEUE_CPU, &ref));
    op_queues_put_back(&queues, &refs[2], OP_QUEUE_CPU);
    op_queues_put_back(&queues, &refs[1], OP_QUEUE_CPU);
    for (size_t i = 1; i < 3; i++)
        assert_true(op_queues_take(&queues, OP_QUEUE_CPU, &ref) && ref.node == refs[i].node &&
                    ref.group == refs[i].group);
    for (size_t i = 0; i < 4; i++)
        op_queues_end(&queues, &refs[i], OP_QUEUE_CPU, 0);
    assert_true(op_queues_have_ended(&queues));
}

static void test_op_queues_put_back(void **state) {
    check_put_back(OP_ORDER_IN_ORDER);
    check_put_back(OP_ORDER_STATIC);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_op_queues_random),
        cmocka_unit_test(test_op_queues_worth),
        cmocka_unit_test(test_op_queues_times),
        cmocka_unit_test(test_op_queues_put_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
