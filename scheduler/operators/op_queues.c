// SPDX-License-Identifier: Apache-2.0
/*
 * Eq. 5 of llm.npu: a node's worth is the time of the NPU's nodes that its end lets begin. The worth is positive if the
 * processors run the node, for the NPU then has work sooner. The worth is negative if the NPU runs the node: NPU nodes
 * that it unlocks keep the NPU busy at any time, while nodes that unlock work of the processors should run soon. The
 * greatest worth goes first, of equals the earlier position.
 *
 * Looking at every layer of every group costs a microsecond where there are a few hundred, and a node takes hundreds.
 */
#include "scheduler/operators/op_queues.h"

#include <assert.h>
#include <string.h>

const Choice op_order_choices[] = {
    { "in-order", OP_ORDER_IN_ORDER },
    { "static", OP_ORDER_STATIC },
    { "out-of-order", OP_ORDER_OUT_OF_ORDER },
    { "position", OP_ORDER_POSITION },
    { NULL, 0 },
};

const char *op_order_name(OpOrder order) {
    return choice_name(op_order_choices, order);
}

static uint64_t bit(size_t i) {
    return UINT64_C(1) << i;
}

/* Removes the lowest bit and returns its index. */
static size_t next_bit(uint64_t *bits) {
    const size_t i = (size_t)__builtin_ctzll(*bits);

    *bits &= *bits - 1;
    return i;
}

static uint64_t nodes_of_class(const OpGraph *graph, OpClass class) {
    uint64_t nodes = 0;

    for (size_t i = 0; i < graph->n; i++)
        nodes |= graph->nodes[i].class == class ? bit(i) : 0;
    return nodes;
}

uint64_t op_queues_products(const OpGraph *graph) {
    return nodes_of_class(graph, OP_CLASS_PRODUCT);
}

uint64_t op_queues_attention(const OpGraph *graph) {
    return nodes_of_class(graph, OP_CLASS_ATTENTION);
}

static OpQueueLayer *layer_of(const OpQueues *queues, size_t group, uint32_t layer) {
    return &queues->layers[group * queues->n_layers + layer];
}

static OpQueue queue_of(const OpQueues *queues, size_t group, size_t node) {
    return queues->on_npu[group] & bit(node) ? OP_QUEUE_NPU : OP_QUEUE_CPU;
}

/* Whether the node waits for the same one of the group before. */
static bool follows(const OpQueues *queues, size_t group, size_t node) {
    return queues->continues & bit(group) && queues->graph->nodes[node].follows;
}

/* Whether a node may run, or could if `ended` (may be NULL) had also ended. */
static bool may_run(const OpQueues *queues, size_t group, uint32_t layer, size_t node, const OpRef *ended) {
    uint64_t done = layer_of(queues, group, layer)->done,
             done_layer = layer ? layer_of(queues, group, layer - 1)->done : ~UINT64_C(0);
    bool has_before = !follows(queues, group, node) || layer_of(queues, group - 1, layer)->done & bit(node);

    if (ended && ended->group == group) {
        if (ended->layer == layer)
            done |= bit(ended->node);
        else if (ended->layer + 1 == layer)
            done_layer |= bit(ended->node);
    } else if (ended && ended->group + 1 == group && ended->layer == layer && ended->node == node) {
        has_before = true;
    }
    return has_before && op_graph_allows(queues->graph, node, done, done_layer);
}

static void offer(OpQueues *queues, size_t group, uint32_t layer, size_t node) {
    OpQueueLayer *at = layer_of(queues, group, layer);

    if (at->offered & bit(node) || !may_run(queues, group, layer, node, NULL))
        return;
    at->offered |= bit(node);
    at->ready |= bit(node);
    queues->n_ready[queue_of(queues, group, node)]++;
}

void op_queues_begin(OpQueues *queues, const OpQueuesSetup *setup) {
    const OpGraph *graph = setup->graph;
    const OpTimes times = queues->times;
    const uint64_t products = op_queues_products(graph);

    assert(setup->n_groups && setup->n_groups <= OP_QUEUES_GROUPS_MAX && setup->n_layers && graph->n);
    assert(!(setup->continues & 1));
    *queues = (OpQueues){
        .graph = graph,
        .layers = setup->layers,
        .n_groups = setup->n_groups,
        .n_layers = setup->n_layers,
        .order = setup->order,
        .steal_beyond = setup->order == OP_ORDER_POSITION ? setup->steal_beyond : OP_STEAL_NEVER,
        .continues = setup->continues,
        .n_left = setup->n_groups * setup->n_layers * graph->n,
        .times = times,
    };
    for (size_t group = 0; group < setup->n_groups; group++) {
        queues->on_npu[group] = setup->on_npu[group] & products;
        queues->joint[group] = setup->on_npu[group] & ~products;
    }
    memset(queues->layers, 0, setup->n_groups * setup->n_layers * sizeof(*queues->layers));
    for (size_t i = 0; i < graph->n; i++)
        for (size_t j = 0; j < graph->n; j++) {
            queues->after[i] |= graph->nodes[j].before & bit(i) ? bit(j) : 0;
            queues->after_layer[i] |= graph->nodes[j].before_layer & bit(i) ? bit(j) : 0;
        }
    for (size_t group = 0; group < queues->n_groups; group++)
        for (uint32_t layer = 0; layer < queues->n_layers; layer++)
            for (size_t node = 0; node < graph->n; node++)
                offer(queues, group, layer, node);
}

/* --- choices ------------------------------------------------------------------------------------------------------ */

/* Called for each node that waits for another one, whether it may run by now or not. */
typedef void WaitingFn(void *arg, size_t group, uint32_t layer, size_t node);

static void for_waiting(const OpQueues *queues, const OpRef *ref, WaitingFn *fn, void *arg) {
    uint64_t nodes = queues->after[ref->node];

    while (nodes)
        fn(arg, ref->group, ref->layer, next_bit(&nodes));
    nodes = ref->layer + 1 < queues->n_layers ? queues->after_layer[ref->node] : 0;
    while (nodes)
        fn(arg, ref->group, ref->layer + 1, next_bit(&nodes));
    if (ref->group + 1 < queues->n_groups && follows(queues, ref->group + 1, ref->node))
        fn(arg, ref->group + 1, ref->layer, ref->node);
}

typedef struct Worth {
    const OpQueues *queues;
    const OpRef *ref;
    double npu_ns; /* of the NPU's nodes that the end of `ref` lets begin */
} Worth;

static void add_worth(void *arg, size_t group, uint32_t layer, size_t node) {
    Worth *worth = arg;
    const OpQueues *queues = worth->queues;
    const double ns = queues->times.ns[OP_QUEUE_NPU][node];

    if (queue_of(queues, group, node) == OP_QUEUE_NPU && !(layer_of(queues, group, layer)->offered & bit(node)) &&
        may_run(queues, group, layer, node, worth->ref))
        worth->npu_ns += ns > 0 ? ns : 1; /* nodes without a time are worth the same */
}

static double worth_of(const OpQueues *queues, OpQueue queue, const OpRef *ref) {
    Worth worth = { .queues = queues, .ref = ref };

    for_waiting(queues, ref, add_worth, &worth);
    return queue == OP_QUEUE_CPU ? worth.npu_ns : -worth.npu_ns;
}

/* Chooses among the nodes that may begin in a queue: the one of the greatest worth, or the first by position. */
static bool choose(const OpQueues *queues, OpQueue queue, bool by_worth, OpRef *best) {
    double best_worth = 0;
    bool has_one = false;

    if (!queues->n_ready[queue])
        return false;
    for (size_t group = 0; group < queues->n_groups; group++)
        for (uint32_t layer = 0; layer < queues->n_layers; layer++) {
            const uint64_t on_npu = queues->on_npu[group];
            uint64_t nodes = layer_of(queues, group, layer)->ready & (queue == OP_QUEUE_NPU ? on_npu : ~on_npu);

            while (nodes) {
                const OpRef ref = { .group = group, .layer = layer, .node = next_bit(&nodes) };
                const double worth = by_worth ? worth_of(queues, queue, &ref) : 0;

                if (has_one && worth <= best_worth)
                    continue;
                *best = ref;
                best_worth = worth;
                has_one = true;
                if (!by_worth)
                    return true;
            }
        }
    return has_one;
}

/* Fixed orders number all nodes: group by group, or node by node for all groups. In both orders a node comes after all
 * that it waits for. */
static OpRef ref_of(const OpQueues *queues, size_t index) {
    const size_t n = queues->graph->n, groups = queues->n_groups;

    if (queues->order == OP_ORDER_STATIC)
        return (OpRef){ .group = index % groups, .layer = (uint32_t)(index / groups / n), .node = index / groups % n };
    return (OpRef){ .group = index / n / queues->n_layers,
                    .layer = (uint32_t)(index / n % queues->n_layers),
                    .node = index % n };
}

static size_t index_of(const OpQueues *queues, const OpRef *ref) {
    const size_t n = queues->graph->n;

    if (queues->order == OP_ORDER_STATIC)
        return (ref->layer * n + ref->node) * queues->n_groups + ref->group;
    return (ref->group * queues->n_layers + ref->layer) * n + ref->node;
}

/* Chooses the queue's next node of a fixed order, if it may begin. */
static bool choose_next(OpQueues *queues, OpQueue queue, OpRef *ref) {
    const size_t n = queues->n_groups * queues->n_layers * queues->graph->n;

    for (; queues->next[queue] < n; queues->next[queue]++) {
        const OpQueueLayer *at;

        *ref = ref_of(queues, queues->next[queue]);
        at = layer_of(queues, ref->group, ref->layer);
        if (queue_of(queues, ref->group, ref->node) == queue &&
            (at->ready & bit(ref->node) || !(at->offered & bit(ref->node))))
            return at->ready & bit(ref->node);
    }
    return false;
}

static void take(OpQueues *queues, const OpRef *ref) {
    layer_of(queues, ref->group, ref->layer)->ready &= ~bit(ref->node);
    queues->n_ready[queue_of(queues, ref->group, ref->node)]--;
}

bool op_queues_take(OpQueues *queues, OpQueue queue, OpRef *ref) {
    const bool has_one = queues->order == OP_ORDER_IN_ORDER || queues->order == OP_ORDER_STATIC
                             ? choose_next(queues, queue, ref)
                             : choose(queues, queue, queues->order == OP_ORDER_OUT_OF_ORDER, ref);

    if (!has_one)
        return false;
    take(queues, ref);
    queues->n_running += queue == OP_QUEUE_NPU;
    return true;
}

/* Whether a processor should take a product, where the NPU has n products. */
static bool steals(const OpQueues *queues, size_t n, size_t node) {
    const double npu_ns = queues->times.ns[OP_QUEUE_NPU][node], cpu_ns = queues->times.ns[OP_QUEUE_CPU][node];

    if (queues->steal_beyond != OP_STEAL_MEASURED)
        return n > queues->steal_beyond;
    return !(cpu_ns > 0) || (double)n * npu_ns > cpu_ns;
}

bool op_queues_steal(OpQueues *queues, OpRef *ref) {
    if (queues->steal_beyond == OP_STEAL_NEVER || !choose(queues, OP_QUEUE_NPU, false, ref) ||
        !steals(queues, queues->n_ready[OP_QUEUE_NPU] + queues->n_running, ref->node))
        return false;
    take(queues, ref);
    return true;
}

/* --- what has happened -------------------------------------------------------------------------------------------- */

static void offer_waiting(void *arg, size_t group, uint32_t layer, size_t node) {
    offer(arg, group, layer, node);
}

void op_queues_end(OpQueues *queues, const OpRef *ref, OpQueue side, uint64_t ns) {
    OpQueueLayer *at = layer_of(queues, ref->group, ref->layer);

    assert(at->offered & bit(ref->node) && !(at->ready & bit(ref->node)) && !(at->done & bit(ref->node)));
    at->done |= bit(ref->node);
    queues->n_left--;
    queues->n_running -= side == OP_QUEUE_NPU;
    if (ns)
        op_times_took(&queues->times, side, ref->node, ns);
    for_waiting(queues, ref, offer_waiting, queues);
}

void op_queues_give(OpQueues *queues, const OpRef *ref) {
    assert(queues->n_running && queue_of(queues, ref->group, ref->node) == OP_QUEUE_NPU);
    queues->n_running--;
}

void op_queues_put_back(OpQueues *queues, const OpRef *ref, OpQueue side) {
    const size_t index = index_of(queues, ref);
    const OpQueue queue = queue_of(queues, ref->group, ref->node);

    layer_of(queues, ref->group, ref->layer)->ready |= bit(ref->node);
    queues->n_ready[queue]++;
    queues->n_running -= side == OP_QUEUE_NPU;
    if (queues->next[queue] > index)
        queues->next[queue] = index;
}

bool op_queues_have_ended(const OpQueues *queues) {
    return !queues->n_left;
}
