// SPDX-License-Identifier: Apache-2.0
/* The policies of processors that are not alike: an NPU, which runs products and nothing else, and those that run all
 * the rest. Several groups of rows go through a graph of operators; here is which node each of the two takes next.
 *
 * Knows no model, no device and no thread: it is told what has ended, and says what may begin. In whichever order nodes
 * run, the graph and the groups before allow it, so that the results are those of any other order. */
#ifndef COORDGEN_SCHEDULER_OP_QUEUES_H
#define COORDGEN_SCHEDULER_OP_QUEUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/op_graph.h"
#include "scheduler/op_times.h"

#define OP_QUEUES_GROUPS_MAX 64

typedef enum OpOrder {
    OP_ORDER_OUT_OF_ORDER, /* what gives the NPU most to do (llm.npu 3.4, Eq. 5) */
    OP_ORDER_POSITION,     /* earlier rows first (EdgeFlow 4.3) */
    OP_ORDER_IN_ORDER,     /* each queue one node after the other, as the groups and the graph have them: waits */
    OP_ORDER_STATIC,       /* likewise, but a node for all groups before the next node (EdgeFlow's static schedule) */
    _OP_ORDER_N,
} OpOrder;

const char *op_order_name(OpOrder order); /* "out-of-order" */
/* false: there is none of that name. */
bool op_order_named(const char *name, OpOrder *orderp);

/* What an NPU can run of a graph, a bit each. */
uint64_t op_queues_products(const OpGraph *graph);

/* OpQueuesSetup.steal_beyond: where the NPU has longer to compute at what it has than a processor at the one product.
 * One whose time there is not known yet is tried. */
#define OP_STEAL_MEASURED 0
#define OP_STEAL_NEVER SIZE_MAX

typedef struct OpRef {
    size_t group;
    uint32_t layer; /* counts from 0 */
    size_t node;
} OpRef;

/* Nodes of a group in one layer, a bit each. */
typedef struct OpQueueLayer {
    uint64_t offered; /* may run, or did */
    uint64_t ready;   /* of these, those that nobody has taken */
    uint64_t done;
} OpQueueLayer;

/* One thread. Begin with op_queues_begin(). */
typedef struct OpQueues {
    const OpGraph *graph;
    OpQueueLayer *layers; /* [n_groups][n_layers] */
    size_t n_groups;
    uint32_t n_layers;
    OpOrder order;
    size_t steal_beyond;
    uint64_t on_npu[OP_QUEUES_GROUPS_MAX];                               /* nodes of a group, a bit each */
    uint64_t continues;                                                  /* groups, a bit each */
    uint64_t after[OP_GRAPH_NODES_MAX], after_layer[OP_GRAPH_NODES_MAX]; /* who waits for a node */
    size_t next[_OP_QUEUE_N]; /* in a fixed order: all nodes of the queue before this one, of all nodes, are taken */
    size_t n_ready[_OP_QUEUE_N], n_left;
    size_t n_running; /* taken from the NPU's queue by its own side, and not ended */
    OpTimes times;    /* kept from one begin to the next */
} OpQueues;

typedef struct OpQueuesSetup {
    const OpGraph *graph; /* outlives the queues */
    OpQueueLayer *layers; /* [n_groups * n_layers]: the caller's, until the last node has ended */
    size_t n_groups;      /* 1..OP_QUEUES_GROUPS_MAX */
    uint32_t n_layers;
    uint64_t continues; /* groups that go on with what the one before works on, a bit each; not the first */
    OpOrder order;
    uint64_t on_npu[OP_QUEUES_GROUPS_MAX]; /* nodes of each group, of op_queues_products() */
    /* In the order of positions: with more products in the NPU's queue than these, begun or not, a processor that has
     * nothing to do takes the first that is not begun. EdgeFlow: 5. Or OP_STEAL_MEASURED, OP_STEAL_NEVER. */
    size_t steal_beyond;
} OpQueuesSetup;

/* All groups before their first node. `times` stay what they are, for a graph of as many nodes. */
void op_queues_begin(OpQueues *queues, const OpQueuesSetup *setup);
/* The next node of a queue, which is the caller's until it has ended; false: none may begin now. */
bool op_queues_take(OpQueues *queues, OpQueue queue, OpRef *ref);
/* For a processor whose own queue has none: a product, which it runs itself. */
bool op_queues_steal(OpQueues *queues, OpRef *ref);
/* A node that was taken has ended, on that side and after so many nanoseconds; 0: not measured. */
void op_queues_end(OpQueues *queues, const OpRef *ref, OpQueue side, uint64_t ns);
/* A node that the NPU's side has taken is run by the processors after all. */
void op_queues_give(OpQueues *queues, const OpRef *ref);
/* It was not run by the side that has taken it, or failed: it can be taken again. */
void op_queues_put_back(OpQueues *queues, const OpRef *ref, OpQueue side);
bool op_queues_have_ended(const OpQueues *queues);

#endif
