// SPDX-License-Identifier: Apache-2.0
/*
 * One thread decides, so that there is nothing to lock: it looks which products are over, gives the queue new ones as
 * long as it has a slot, and then runs one operator itself. While it does, the queue has the product that runs and one
 * more. What makes a product ready is nearly always an operator of this thread, so that the queue seldom waits for it
 * to look.
 */
#include "engine/step/queue_groups.h"

#include <assert.h>
#include <errno.h>

#include "base/clock.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"

/* A product that is under way. */
typedef struct QueueSlot {
    bool is_busy;
    OpRef ref;
    uint64_t begin_ns; /* that this thread took to begin it */
} QueueSlot;

typedef struct QueueRun {
    EngineStep *step;
    QueueSlot slots[BACKEND_PRODUCT_SLOTS_MAX];
    size_t n_slots, oldest, n_busy; /* they are used in turns, and end so */
} QueueRun;

bool queue_groups_are_of(const BackendOps *ops, size_t rows) {
    return ops->product_slots && rows > ops->prefill_rows;
}

bool queue_groups_has_room(const EngineStep *step) {
    return step->groups.queue_layers && queue_groups_are_of(step->engine->backend->ops, step->batch.n_rows);
}

void queue_groups_begin(EngineStep *step, uint32_t n_layers) {
    RowGroups *groups = &step->groups;
    Engine *engine = step->engine;
    OpQueuesSetup setup = {
        .graph = &engine->steps->layer.graph,
        .layers = groups->queue_layers,
        .n_groups = groups->n,
        .n_layers = n_layers,
        .order = engine->steps->op_order,
        .steal_beyond = engine->steps->steal_beyond,
    };

    for (size_t i = 0; i < groups->n; i++)
        setup.continues |= (uint64_t)groups->groups[i].continues << i;
    groups->by_queues = true;
    queue_profile_place(&engine->steps->queue_profile, &engine->steps->layer, groups,
                        engine->backend->ops->prefill_rows, engine->backend->ops->product_slots, &setup);
    groups->queues.times = engine->steps->queue_profile.times;
    op_queues_begin(&groups->queues, &setup);
}

static const WeightsLayer *weights_of(const QueueRun *run, const OpRef *ref) {
    return &run->step->engine->weights->layers[run->step->groups.first_layer + ref->layer];
}

static LayerRows rows_of(const QueueRun *run, const OpRef *ref, RopeRows *rope) {
    EngineStep *step = run->step;

    return row_groups_rows(step, &step->groups.groups[ref->group], step->groups.first_layer + ref->layer,
                           step->engine->backend, rope);
}

/* Times are those of whole groups: others take less. */
static bool is_whole(const QueueRun *run, const OpRef *ref) {
    return run->step->groups.groups[ref->group].rows == run->step->engine->backend->ops->prefill_rows;
}

/* A node has ended, on a side, at which it took so long. */
static void node_ended(QueueRun *run, const OpRef *ref, OpQueue side, uint64_t took_ns, const BackendTime *time) {
    Engine *engine = run->step->engine;
    const RowGroup *group = &run->step->groups.groups[ref->group];

    op_queues_end(&run->step->groups.queues, ref, side, is_whole(run, ref) ? took_ns : 0);
    if (engine->trace)
        trace_add(engine->trace,
                  &(TraceEvent){ .name = arch_op_name(engine->steps->layer.nodes[ref->node].main),
                                 .category = op_class_name(engine->steps->layer.graph.nodes[ref->node].class),
                                 .start_ns = time->start_ns,
                                 .end_ns = time->end_ns,
                                 .layer = (int32_t)(run->step->groups.first_layer + ref->layer),
                                 .row = (uint32_t)group->first,
                                 .rows = (uint32_t)group->rows,
                                 .lane = side == OP_QUEUE_NPU ? TRACE_LANE_NPU : TRACE_LANE_ENGINE });
    if (engine->heartbeat)
        atomic_fetch_add_explicit(engine->heartbeat, 1, memory_order_relaxed);
}

/* Waits for the product that began first. */
static int end_oldest(QueueRun *run, ErrText *err) {
    Engine *engine = run->step->engine;
    QueueSlot *slot = &run->slots[run->oldest];
    const uint64_t start_ns = clock_now_ns();
    uint64_t behind_ns; /* of the processors, behind the wait */
    BackendTime time;
    int r;

    assert(slot->is_busy);
    r = engine->backend->ops->linear_end(engine->backend, run->oldest, &time, err);
    slot->is_busy = false;
    run->oldest = (run->oldest + 1) % run->n_slots;
    run->n_busy--;
    if (r) {
        op_queues_put_back(&run->step->groups.queues, &slot->ref, OP_QUEUE_NPU);
        return r;
    }
    engine->steps->queue_counts.npu_ns += time.end_ns - time.start_ns;
    engine->steps->queue_counts.n_products++;
    behind_ns = clock_now_ns() - (time.end_ns > start_ns ? time.end_ns : start_ns);
    engine->steps->queue_counts.cpu_ns += behind_ns;
    if (is_whole(run, &slot->ref))
        op_times_took_beside(&run->step->groups.queues.times, slot->ref.node, slot->begin_ns, behind_ns);
    node_ended(run, &slot->ref, OP_QUEUE_NPU, time.end_ns - time.start_ns, &time);
    return 0;
}

/* An operator on this thread. A product that could be the queue's counts to `n_products`. */
static int run_here(QueueRun *run, const OpRef *ref, uint64_t *n_products, ErrText *err) {
    Engine *engine = run->step->engine;
    const LayerNode *node = &engine->steps->layer.nodes[ref->node];
    const WeightsLayer *weights = weights_of(run, ref);
    const bool is_queued = layer_node_is_queued(engine->backend, node, weights->linears);
    BackendTime time = { .start_ns = clock_now_ns() }, product;
    RopeRows rope;
    LayerRows rows = rows_of(run, ref, &rope);
    int r = is_queued ? layer_run_node_here(&rows, node, weights->linears, &product, err)
                      : layer_run_node(&rows, node, weights->linears, weights->vectors, err);

    if (r) {
        op_queues_put_back(&run->step->groups.queues, ref, OP_QUEUE_CPU);
        return r;
    }
    time.end_ns = clock_now_ns();
    engine->steps->queue_counts.cpu_ns += time.end_ns - time.start_ns;
    *(is_queued ? n_products : &engine->steps->queue_counts.n_others) += 1;
    if (!is_queued)
        product = time;
    else if (is_whole(run, ref))
        op_times_took_beside(&run->step->groups.queues.times, ref->node, product.start_ns - time.start_ns,
                             time.end_ns - product.end_ns);
    node_ended(run, ref, OP_QUEUE_CPU, product.end_ns - product.start_ns, &time);
    return 0;
}

/* The queue gets what there is for it, as long as there is a slot. A product with a matrix that is not the queue's is
 * run here, and so is one whose time here is to be measured: the queue's own side has taken it, and nobody else may. */
static int submit_products(QueueRun *run, ErrText *err) {
    Engine *engine = run->step->engine;
    OpRef ref;

    while (run->n_busy < run->n_slots && op_queues_take(&run->step->groups.queues, OP_QUEUE_NPU, &ref)) {
        const LayerNode *node = &engine->steps->layer.nodes[ref.node];
        BackendLinear *const *linears = weights_of(run, &ref)->linears;
        const size_t slot = (run->oldest + run->n_busy) % run->n_slots;
        const uint64_t start_ns = clock_now_ns();
        RopeRows rope;
        LayerRows rows;

        if (!layer_node_is_queued(engine->backend, node, linears) ||
            (is_whole(run, &ref) &&
             queue_profile_tries(&engine->steps->queue_profile, &run->step->groups.queues.times, ref.node))) {
            int r;

            op_queues_give(&run->step->groups.queues, &ref);
            r = run_here(run, &ref, &engine->steps->queue_counts.n_placed, err);
            if (r)
                return r;
            continue;
        }
        rows = rows_of(run, &ref, &rope);
        layer_submit_node(&rows, node, linears, slot);
        run->slots[slot] = (QueueSlot){ .is_busy = true, .ref = ref, .begin_ns = clock_now_ns() - start_ns };
        run->n_busy++;
        engine->steps->queue_counts.cpu_ns += run->slots[slot].begin_ns;
    }
    return 0;
}

/* Something ends or is run, or all has ended. */
static int go_on(QueueRun *run, ErrText *err) {
    Engine *engine = run->step->engine;
    OpQueues *queues = &run->step->groups.queues;
    OpRef ref;
    int r = 0;

    while (!r && run->n_busy && engine->backend->ops->linear_is_over(engine->backend, run->oldest))
        r = end_oldest(run, err);
    if (!r)
        r = submit_products(run, err);
    if (r)
        return r;
    if (op_queues_take(queues, OP_QUEUE_CPU, &ref))
        return run_here(run, &ref, &engine->steps->queue_counts.n_placed, err);
    if (op_queues_steal(queues, &ref))
        return run_here(run, &ref, &engine->steps->queue_counts.n_stolen, err);
    return run->n_busy ? end_oldest(run, err) : 0;
}

int queue_groups_run(EngineStep *step, const EngineYield *yield, ErrText *err) {
    Engine *engine = step->engine;
    QueueRun run = { .step = step, .n_slots = engine->backend->ops->product_slots };
    const uint64_t start_ns = clock_now_ns();
    int r = engine_step_look_up(step, NULL);

    assert(run.n_slots <= BACKEND_PRODUCT_SLOTS_MAX);
    while (!r && !op_queues_have_ended(&step->groups.queues)) {
        weights_turn(engine->weights);
        r = go_on(&run, err);
        if (r)
            r = r < 0 ? r : ENGINE_E_READ;
        else
            r = engine_step_look_up(step, yield);
    }
    while (run.n_busy) {
        ErrText more = { "" };
        int ended = end_oldest(&run, &more);

        if (ended && (!r || r == ENGINE_E_YIELDED || r == ENGINE_E_CANCELLED)) {
            r = ended < 0 ? ended : ENGINE_E_READ;
            if (err)
                *err = more;
        }
    }
    engine->steps->queue_profile.times = step->groups.queues.times;
    engine->steps->queue_counts.wall_ns += clock_now_ns() - start_ns;
    return r;
}
