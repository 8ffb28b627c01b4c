// SPDX-License-Identifier: Apache-2.0
/* The policies of processors that are not alike: an NPU, which runs products alone, and processors, which run all other
 * operators. Several groups of rows go through a graph of operators; the queues decide which node each side takes next.
 *
 * The queues know no model, no device and no thread: the caller says what has ended, and they say what may begin. Every
 * order that they choose is one that the graph and the groups before allow, so all orders give the same results. */
#ifndef COORDGEN_SCHEDULER_OP_QUEUES_H
#define COORDGEN_SCHEDULER_OP_QUEUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strings/choice.h"
#include "scheduler/operators/op_graph.h"
#include "scheduler/operators/op_times.h"

#define OP_QUEUES_GROUPS_MAX 64

typedef enum OpOrder {
    OP_ORDER_OUT_OF_ORDER, /* what gives the NPU most to do (llm.npu 3.4, Eq. 5) */
    OP_ORDER_POSITION,     /* earlier rows first (EdgeFlow 4.3) */
    OP_ORDER_IN_ORDER,     /* each queue takes its nodes in the order of groups, layers and graph, and waits for each */
    OP_ORDER_STATIC, /* as in-order, but a node for all groups before the next node (EdgeFlow's static schedule) */
    _OP_ORDER_N,
} OpOrder;

extern const Choice op_order_choices[];   /* OpOrder */
const char *op_order_name(OpOrder order); /* "out-of-order" */

/* Returns the nodes of a graph that an NPU can run, a bit each. */
uint64_t op_queues_products(const OpGraph *graph);
/* Returns the nodes that an NPU and the processors can run together, if the NPU has such operators: attention. */
uint64_t op_queues_attention(const OpGraph *graph);

/* OpQueuesSetup.steal_beyond: a product is stolen if the NPU needs longer for all that it has than a processor for that
 * product. A product without a time on the processors is tried. */
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
    uint64_t ready;   /* offered, and taken by nobody */
    uint64_t done;
} OpQueueLayer;

/* Begin with op_queues_begin(). Thread: one. */
typedef struct OpQueues {
    const OpGraph *graph;
    OpQueueLayer *layers; /* [n_groups][n_layers] */
    size_t n_groups;
    uint32_t n_layers;
    OpOrder order;
    size_t steal_beyond;
    uint64_t on_npu[OP_QUEUES_GROUPS_MAX]; /* products of a group, a bit each */
    uint64_t joint[OP_QUEUES_GROUPS_MAX];  /* nodes of the processors' queue that the NPU helps with, a bit each */
    uint64_t continues;                    /* groups, a bit each */
    uint64_t after[OP_GRAPH_NODES_MAX], after_layer[OP_GRAPH_NODES_MAX]; /* nodes that wait for a node, a bit each */
    size_t next[_OP_QUEUE_N]; /* in a fixed order: index of a node; all nodes of the queue before it are taken */
    size_t n_ready[_OP_QUEUE_N], n_left;
    size_t n_running; /* products that the NPU's side has taken, and that have not ended */
    OpTimes times;    /* kept from one begin to the next */
} OpQueues;

typedef struct OpQueuesSetup {
    const OpGraph *graph; /* outlives the queues */
    OpQueueLayer *layers; /* [n_groups * n_layers]: the caller's, until the last node has ended */
    size_t n_groups;      /* 1..OP_QUEUES_GROUPS_MAX */
    uint32_t n_layers;
    uint64_t continues; /* groups that go on with what the one before works on, a bit each; not the first */
    OpOrder order;
    /* Nodes of each group, of op_queues_products() and op_queues_attention(). The latter are joint: the processors'
     * queue has them, and both sides work at them. */
    uint64_t on_npu[OP_QUEUES_GROUPS_MAX];
    /* For OP_ORDER_POSITION: if the NPU's queue has more products than these, begun or not, an idle processor takes the
     * first product that is not begun. EdgeFlow: 5. Or OP_STEAL_MEASURED, OP_STEAL_NEVER. */
    size_t steal_beyond;
} OpQueuesSetup;

/* Puts all groups before their first node. `times` stay as they are, for a graph of as many nodes. */
void op_queues_begin(OpQueues *queues, const OpQueuesSetup *setup);
/* Takes the next node of a queue, which is the caller's until it has ended. false: none may begin now. */
bool op_queues_take(OpQueues *queues, OpQueue queue, OpRef *ref);
/* Takes a product of the NPU's queue for a processor whose own queue has no node. */
bool op_queues_steal(OpQueues *queues, OpRef *ref);
/* Records that a node has ended, on that side and after so many nanoseconds; 0: not measured. */
void op_queues_end(OpQueues *queues, const OpRef *ref, OpQueue side, uint64_t ns);
/* Hands a node that the NPU's side has taken over to the processors. */
void op_queues_give(OpQueues *queues, const OpRef *ref);
/* Lets a node be taken again that the side did not run, or that has failed. */
void op_queues_put_back(OpQueues *queues, const OpRef *ref, OpQueue side);
bool op_queues_have_ended(const OpQueues *queues);

#endif
