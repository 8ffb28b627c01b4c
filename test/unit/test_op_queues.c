// SPDX-License-Identifier: Apache-2.0
/* Queues of an NPU and of the processors: random graphs under every order, beside a simulation that knows each node's
 * predecessors by name and looks at all nodes for every choice; what the orders are worth where they should be. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "scheduler/op_queues.h"
#include "test/unit/model_maker.h"

enum {
    GROUPS_MAX = 5,
    LAYERS_MAX = 4,
    NODES_MAX = 9,
    SIM_MAX = GROUPS_MAX * LAYERS_MAX * NODES_MAX,
    BUFFERS = 5,
    NEVER = -1,
};

typedef enum SimState {
    SIM_WAITS,
    SIM_RUNS,
    SIM_TOLD, /* runs, and the group behind may read it */
    SIM_DONE,
} SimState;

/* What the simulation knows: every node in the order of groups, layers and the graph. */
typedef struct Sim {
    const OpQueuesSetup *setup;
    OpTimes times;
    SimState states[SIM_MAX];
    size_t n;
} Sim;

static OpRef ref_of(const Sim *sim, size_t index) {
    const size_t nodes = sim->setup->graph->n, layers = sim->setup->n_layers;

    return (
        OpRef){ .group = index / (nodes * layers), .layer = (uint32_t)(index / nodes % layers), .node = index % nodes };
}

static const OpNode *node_of(const Sim *sim, size_t index) {
    return &sim->setup->graph->nodes[index % sim->setup->graph->n];
}

static OpQueue side_of(const Sim *sim, size_t index) {
    return sim->setup->on_npu >> ref_of(sim, index).node & 1 ? OP_QUEUE_NPU : OP_QUEUE_CPU;
}

/* Whether `a` comes before `b`, by what they read and write and not by the graph's own masks. */
static bool is_before(const Sim *sim, size_t a, size_t b) {
    const OpRef first = ref_of(sim, a), second = ref_of(sim, b);
    const OpNode *x = node_of(sim, a), *y = node_of(sim, b);

    if (first.group == second.group)
        return a < b && (x->outputs & (y->inputs | y->outputs) || x->inputs & y->outputs);
    return first.group + 1 == second.group && sim->setup->continues >> second.group & 1 && y->follows &&
           first.layer == second.layer && first.node == second.node;
}

/* NEVER as `ended`: as it is. */
static bool may_run(const Sim *sim, size_t index, long ended) {
    for (size_t i = 0; i < sim->n; i++) {
        bool in_group = ref_of(sim, i).group == ref_of(sim, index).group;

        if (is_before(sim, i, index) && (long)i != ended && sim->states[i] != SIM_DONE &&
            (in_group || sim->states[i] != SIM_TOLD))
            return false;
    }
    return true;
}

static bool is_ready(const Sim *sim, size_t index) {
    return sim->states[index] == SIM_WAITS && may_run(sim, index, NEVER);
}

/* Eq. 5. */
static double worth_of(const Sim *sim, size_t index) {
    double sum = 0;

    for (size_t i = 0; i < sim->n; i++)
        if (sim->states[i] == SIM_WAITS && i != index && side_of(sim, i) == OP_QUEUE_NPU && !may_run(sim, i, NEVER) &&
            may_run(sim, i, (long)index))
            sum += sim->times.ns[OP_QUEUE_NPU][ref_of(sim, i).node];
    return side_of(sim, index) == OP_QUEUE_CPU ? sum : -sum;
}

/* What a queue takes next; NEVER: nothing. */
static long sim_choice(const Sim *sim, OpQueue side) {
    const OpOrder order = sim->setup->order;
    double best_worth = 0;
    long best = NEVER;

    for (size_t i = 0; i < sim->n; i++) {
        if (side_of(sim, i) != side || sim->states[i] != SIM_WAITS)
            continue;
        if (!is_ready(sim, i)) {
            if (order == OP_ORDER_IN_ORDER)
                return NEVER;
            continue;
        }
        if (order != OP_ORDER_OUT_OF_ORDER)
            return (long)i;
        if (best == NEVER || worth_of(sim, i) > best_worth) {
            best = (long)i;
            best_worth = worth_of(sim, i);
        }
    }
    return best;
}

/* A product for a processor without work, or NEVER. */
static long sim_stolen(const Sim *sim, bool npu_is_busy) {
    size_t n = npu_is_busy;
    long first = NEVER;

    for (size_t i = sim->n; i-- > 0;)
        if (side_of(sim, i) == OP_QUEUE_NPU && is_ready(sim, i)) {
            n++;
            first = (long)i;
        }
    if (first == NEVER || sim->setup->order != OP_ORDER_POSITION || sim->setup->steal_beyond == OP_STEAL_NEVER)
        return NEVER;
    if (sim->setup->steal_beyond == OP_STEAL_MEASURED) {
        const size_t node = ref_of(sim, (size_t)first).node;

        return (double)n * sim->times.ns[OP_QUEUE_NPU][node] > sim->times.ns[OP_QUEUE_CPU][node] ? first : NEVER;
    }
    return n > sim->setup->steal_beyond ? first : NEVER;
}

/* --- random graphs ------------------------------------------------------------------------------------------------ */

static size_t below(uint64_t *random, size_t n) {
    return (size_t)(test_random(random) >> 33) % n;
}

static void fill_graph(OpGraph *graph, uint64_t *random) {
    const size_t n = 1 + below(random, NODES_MAX);

    memset(graph, 0, sizeof(*graph));
    for (size_t i = 0; i < n; i++)
        op_graph_add(graph, (OpClass)below(random, 3), UINT64_C(1) << below(random, BUFFERS),
                     below(random, 8) ? UINT64_C(1) << below(random, BUFFERS) : 0, !below(random, 4));
    op_graph_close(graph);
}

typedef struct Side {
    bool is_busy;
    OpRef ref;
    size_t index;
    double until;
} Side;

static void check_ref(const Sim *sim, bool has_one, const OpRef *ref, long expected, const char *what) {
    const size_t nodes = sim->setup->graph->n;
    const long index =
        has_one ? (long)((ref->group * sim->setup->n_layers + ref->layer) * nodes + ref->node) : (long)NEVER;

    if (index != expected)
        fail_msg("%s in the order %s: node %ld, expected %ld of %zu", what, op_order_name(sim->setup->order), index,
                 expected, sim->n);
}

static void begin_node(Sim *sim, OpQueues *queues, Side *side, OpQueue by, double now, uint64_t *random) {
    side->index = (side->ref.group * sim->setup->n_layers + side->ref.layer) * sim->setup->graph->n + side->ref.node;
    assert_true(is_ready(sim, side->index)); /* nothing that it needs is missing */
    if (random && !below(random, 8)) {
        op_queues_put_back(queues, &side->ref, by);
        return;
    }
    sim->states[side->index] = SIM_RUNS;
    side->is_busy = true;
    side->until = now + sim->times.ns[by][side->ref.node];
    if (random && !below(random, 2)) {
        sim->states[side->index] = SIM_TOLD;
        op_queues_tell(queues, &side->ref);
    }
}

/* Both sides take what they can. */
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

/* Until all has ended: the time of that. random: also puts nodes back and tells before the end; NULL: neither. */
static double run(Sim *sim, OpQueues *queues, uint64_t *random, double busy[_OP_QUEUE_N]) {
    Side sides[_OP_QUEUE_N] = { 0 };
    double now = 0;
    size_t n_ended = 0;

    sim->n = sim->setup->n_groups * sim->setup->n_layers * sim->setup->graph->n;
    memset(sim->states, 0, sizeof(sim->states));
    queues->times = sim->times;
    op_queues_begin(queues, sim->setup);
    while (n_ended < sim->n) {
        Side *next = NULL;

        assert_false(op_queues_have_ended(queues));
        take_all(sim, queues, sides, now, random);
        for (OpQueue by = OP_QUEUE_NPU; by < _OP_QUEUE_N; by++)
            if (sides[by].is_busy && (!next || sides[by].until < next->until))
                next = &sides[by];
        if (!next) { /* what could run was put back */
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
    static OpQueueLayer layers[GROUPS_MAX * LAYERS_MAX];
    static Sim sim;
    uint64_t random = 20261127;

    for (int i = 0; i < 600; i++) {
        OpGraph graph;
        OpQueuesSetup setup = {
            .graph = &graph,
            .layers = layers,
            .n_groups = 1 + below(&random, GROUPS_MAX),
            .n_layers = 1 + (uint32_t)below(&random, LAYERS_MAX),
            .order = (OpOrder)(i % _OP_ORDER_N),
            .steal_beyond = below(&random, 4),
        };
        double busy[_OP_QUEUE_N] = { 0 };
        OpQueues queues = { 0 };

        fill_graph(&graph, &random);
        setup.on_npu = op_queues_products(&graph);
        setup.continues = test_random(&random) & ~UINT64_C(1);
        memset(&sim, 0, sizeof(sim));
        sim.setup = &setup;
        for (size_t node = 0; node < graph.n; node++)
            for (size_t by = 0; by < _OP_QUEUE_N; by++)
                sim.times.ns[by][node] = (double)(1 + below(&random, 9));
        run(&sim, &queues, i % 2 ? &random : NULL, busy);
    }
}

/* --- what it is for ----------------------------------------------------------------------------------------------- */

/* A layer's operators and how long each takes, for a chunk: products three quarters of the time, attention most of the
 * rest. */
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

/* One chunk behind the other in order: everybody waits for everybody. Out of order, and by position, the NPU has the
 * products of one chunk while the processors have the attention of another. */
static void test_op_queues_worth(void **state) {
    static OpQueueLayer layers[4 * 24];
    OpQueues queues = { 0 };
    OpQueuesSetup setup = { .layers = layers, .n_groups = 4, .n_layers = LAYERS_MAX, .continues = 0xe };
    double total[_OP_ORDER_N], npu_busy[_OP_ORDER_N], products = 0, all = 0;
    OpGraph graph;
    static Sim sim;

    setup.graph = &graph;
    sim.setup = &setup;
    fill_layer(&graph, &sim.times);
    setup.on_npu = op_queues_products(&graph);
    for (size_t i = 0; i < graph.n; i++) {
        all += sim.times.ns[OP_QUEUE_NPU][i] * 4 * LAYERS_MAX;
        products += graph.nodes[i].class == OP_CLASS_PRODUCT ? sim.times.ns[OP_QUEUE_NPU][i] * 4 * LAYERS_MAX : 0;
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
    for (int i = 0; i < 2; i++) {
        setup.on_npu = op_queues_products(&graph);
        op_queues_begin(&queues, &setup);
        assert_false(op_queues_take(&queues, OP_QUEUE_CPU, &ref));
        assert_true(op_queues_take(&queues, OP_QUEUE_NPU, &ref));
        assert_int_equal(ref.node, 0);
        op_queues_end(&queues, &ref, OP_QUEUE_NPU, 1000 + 400 * (uint64_t)i);
        assert_true(op_queues_take(&queues, OP_QUEUE_CPU, &ref));
        op_queues_end(&queues, &ref, OP_QUEUE_CPU, 0);
        assert_true(op_queues_have_ended(&queues));
    }
    assert_true(queues.times.ns[OP_QUEUE_NPU][0] == 1100); /* most of it is what was known */
    assert_true(queues.times.ns[OP_QUEUE_CPU][1] == 0);
    /* A product that nobody has measured on a processor is tried there; then it is a matter of the times. */
    setup.order = OP_ORDER_POSITION;
    for (int i = 0; i < 3; i++) {
        queues.times.ns[OP_QUEUE_CPU][0] = i ? 1099 + 2 * (i - 1) : 0;
        op_queues_begin(&queues, &setup);
        assert_int_equal(op_queues_steal(&queues, &ref), i < 2);
    }
    for (OpOrder i = 0; i < _OP_ORDER_N; i++)
        assert_true(op_order_named(op_order_name(i), &order) && order == i);
    assert_false(op_order_named("best", &order));
}

/* In order, what was put back comes before what is behind it. */
static void test_op_queues_put_back(void **state) {
    OpQueueLayer layers[1];
    OpQueues queues = { 0 };
    OpGraph graph = { 0 };
    OpRef refs[2], ref;

    for (size_t i = 0; i < 2; i++)
        op_graph_add(&graph, OP_CLASS_ELEMENT_WISE, 1, UINT64_C(2) << i, false);
    op_graph_close(&graph);
    op_queues_begin(&queues,
                    &(OpQueuesSetup){
                        .graph = &graph, .layers = layers, .n_groups = 1, .n_layers = 1, .order = OP_ORDER_IN_ORDER });
    for (size_t i = 0; i < 2; i++)
        assert_true(op_queues_take(&queues, OP_QUEUE_CPU, &refs[i]) && refs[i].node == i);
    assert_false(op_queues_take(&queues, OP_QUEUE_CPU, &ref));
    op_queues_put_back(&queues, &refs[0], OP_QUEUE_CPU);
    assert_true(op_queues_take(&queues, OP_QUEUE_CPU, &ref) && ref.node == 0);
    op_queues_end(&queues, &ref, OP_QUEUE_CPU, 0);
    op_queues_end(&queues, &refs[1], OP_QUEUE_CPU, 0);
    assert_true(op_queues_have_ended(&queues));
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
