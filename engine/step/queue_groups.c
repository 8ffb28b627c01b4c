// SPDX-License-Identifier: Apache-2.0
#include "engine/step/queue_groups.h"

#include <assert.h>
#include <errno.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"
#include "scheduler/operators/op_loop.h"

typedef struct QueueRun {
    EngineStep *step;
    uint64_t begin_ns[BACKEND_PRODUCT_SLOTS_MAX]; /* that this thread took to begin the product of a slot */
} QueueRun;

bool queue_groups_are_of(const BackendOps *ops, size_t rows) {
    return ops->product_slots && rows > ops->prefill_rows;
}

bool queue_groups_has_room(const EngineStep *step) {
    return step->groups.queue_layers && queue_groups_are_of(step->engine->backend->ops, step->batch.n_rows);
}

/* Returns the positions that a group's rows read in a layer, as a share of what the profile's times are of. layer:
 * UINT32_MAX: on average over the layers. */
static double attention_share(const EngineStep *step, const RowGroup *group, uint32_t layer) {
    const Engine *engine = step->engine;
    const Hparams *hparams = &engine->hparams;
    const bool is_cut = layer != UINT32_MAX && hparams_layer_is_local(hparams, layer);
    double n = 0;

    for (size_t i = 0; i < group->rows.n; i++) {
        const uint64_t positions = step->batch.rows[group->rows.first + i].position + UINT64_C(1);

        n += layer == UINT32_MAX ? (double)hparams_read_positions(hparams, positions) / hparams->n_layers
             : is_cut            ? (double)MIN(positions, hparams->window.positions)
                                 : (double)positions;
    }
    return n / ((double)engine->backend->ops->prefill_rows * OP_TIMES_POSITIONS);
}

void queue_groups_begin(EngineStep *step, uint32_t n_layers) {
    RowGroups *groups = &step->groups;
    Engine *engine = step->engine;
    OpQueuesSetup setup = {
        .graph = &engine->steps->layer.graph,
        .layers = groups->queue_layers,
        .n_groups = groups->n,
        .n_layers = n_layers,
        .order = engine->steps->load.op_order,
        .steal_beyond = engine->steps->load.steal_beyond,
    };
    double shares[OP_QUEUES_GROUPS_MAX], attention_shares[OP_QUEUES_GROUPS_MAX];

    for (size_t i = 0; i < groups->n; i++) {
        setup.continues |= (uint64_t)groups->groups[i].continues << i;
        shares[i] = (double)groups->groups[i].rows.n / (double)engine->backend->ops->prefill_rows;
        attention_shares[i] = attention_share(step, &groups->groups[i], UINT32_MAX);
    }
    groups->by_queues = true;
    engine->steps->queue_profile.joint = engine->backend->ops->attention_joint ? op_queues_attention(setup.graph) : 0;
    queue_profile_place(&engine->steps->queue_profile, shares, attention_shares, engine->backend->ops->product_slots,
                        !groups->first_layer, &setup);
    groups->queues.times = engine->steps->queue_profile.times;
    op_queues_begin(&groups->queues, &setup);
}

static const WeightsLayer *weights_of(const QueueRun *run, const OpRef *ref) {
    return weights_layer(run->step->engine->weights, run->step->groups.first_layer + ref->layer);
}

static LayerRows rows_of(const QueueRun *run, const OpRef *ref) {
    const EngineStep *step = run->step;

    return step_rows_in_layer(step, step->groups.groups[ref->group].rows, step->groups.first_layer + ref->layer,
                              step->engine->backend);
}

/* Whether the node's time counts: the profile has times of whole groups, and others take less. */
static bool is_whole(const QueueRun *run, const OpRef *ref) {
    return run->step->groups.groups[ref->group].rows.n == run->step->engine->backend->ops->prefill_rows;
}

/* Records that a node has ended on a side, where it took took_ns. time: of the trace. */
static void node_ended(QueueRun *run, const OpRef *ref, OpQueue side, uint64_t took_ns, const BackendTime *time) {
    Engine *engine = run->step->engine;
    const RowGroup *group = &run->step->groups.groups[ref->group];

    op_queues_end(&run->step->groups.queues, ref, side, is_whole(run, ref) ? took_ns : 0);
    if (engine->trace)
        trace_add(engine->trace,
                  &(TraceEvent){ .name = engine->steps->layer.graph.nodes[ref->node].name,
                                 .category = op_class_name(engine->steps->layer.graph.nodes[ref->node].class),
                                 .start_ns = time->start_ns,
                                 .end_ns = time->end_ns,
                                 .layer = (int32_t)(run->step->groups.first_layer + ref->layer),
                                 .row = (uint32_t)group->rows.first,
                                 .rows = (uint32_t)group->rows.n,
                                 .lane = side == OP_QUEUE_NPU ? TRACE_LANE_NPU : TRACE_LANE_ENGINE });
    if (engine->heartbeat)
        atomic_fetch_add_explicit(engine->heartbeat, 1, memory_order_relaxed);
}

static bool is_over(void *arg, size_t slot) {
    const QueueRun *run = arg;

    return run->step->engine->backend->ops->linear_is_over(run->step->engine->backend, slot);
}

static int end_product(void *arg, size_t slot, const OpRef *ref, ErrText *err) {
    QueueRun *run = arg;
    Engine *engine = run->step->engine;
    const uint64_t start_ns = clock_now_ns();
    uint64_t behind_ns; /* work of the processors after the wait */
    BackendTime time;
    int r;

    r = engine->backend->ops->linear_end(engine->backend, slot, &time, err);
    if (r)
        return r;
    engine->steps->queue_counts.npu_ns += time.end_ns - time.start_ns;
    engine->steps->queue_counts.n_products++;
    behind_ns = clock_now_ns() - MAX(time.end_ns, start_ns);
    engine->steps->queue_counts.cpu_ns += behind_ns;
    if (is_whole(run, ref))
        op_times_took_beside(&run->step->groups.queues.times, ref->node, run->begin_ns[slot], behind_ns);
    node_ended(run, ref, OP_QUEUE_NPU, time.end_ns - time.start_ns, &time);
    return 0;
}

/* Runs attention: by the processors, or together with the NPU. The times are those of so many rows that read so many
 * positions. */
static int run_attention(QueueRun *run, const OpRef *ref, ErrText *err) {
    EngineStep *step = run->step;
    Engine *engine = step->engine;
    OpTimes *times = &step->groups.queues.times;
    const WeightsLayer *weights = weights_of(run, ref);
    LayerRows rows = rows_of(run, ref);
    const double share = attention_share(step, &step->groups.groups[ref->group], rows.layer);
    bool is_joint = step->groups.queues.joint[ref->group] >> ref->node & 1;
    BackendJointTime joint = { .wait_ns = 0 };
    BackendTime time;
    uint64_t took_ns;
    int r;

    if (is_whole(run, ref) && queue_profile_tries_attention(&engine->steps->queue_profile, times, ref->node, is_joint))
        is_joint = !is_joint;
    rows.joint = is_joint ? &joint : NULL;
    time.start_ns = clock_now_ns();
    r = layer_run_node(&rows, &engine->steps->layer.nodes[ref->node], weights->linears, weights->vectors, err);
    time.end_ns = clock_now_ns();
    if (r)
        return r;
    took_ns = MAX((uint64_t)((double)(time.end_ns - time.start_ns - joint.wait_ns) / share), 1);
    engine->steps->queue_counts.cpu_ns += time.end_ns - time.start_ns;
    engine->steps->queue_counts.npu_ns += joint.queue_ns;
    engine->steps->queue_counts.n_others++;
    engine->steps->queue_counts.n_joint += is_joint;
    if (is_whole(run, ref))
        op_times_took(times, is_joint ? OP_QUEUE_NPU : OP_QUEUE_CPU, ref->node, took_ns);
    node_ended(run, ref, OP_QUEUE_CPU, 0, &time);
    return 0;
}

/* Runs a node that is not attention. */
static int run_node_here(QueueRun *run, const OpRef *ref, bool is_stolen, ErrText *err) {
    Engine *engine = run->step->engine;
    const LayerNode *node = &engine->steps->layer.nodes[ref->node];
    const WeightsLayer *weights = weights_of(run, ref);
    const bool is_queued = layer_node_is_queued(engine->backend, node, weights->linears);
    BackendTime time = { .start_ns = clock_now_ns() }, product;
    const LayerRows rows = rows_of(run, ref);
    int r = is_queued ? layer_run_node_here(&rows, node, weights->linears, &product, err)
                      : layer_run_node(&rows, node, weights->linears, weights->vectors, err);

    if (r)
        return r;
    time.end_ns = clock_now_ns();
    engine->steps->queue_counts.cpu_ns += time.end_ns - time.start_ns;
    *(!is_queued  ? &engine->steps->queue_counts.n_others
      : is_stolen ? &engine->steps->queue_counts.n_stolen
                  : &engine->steps->queue_counts.n_placed) += 1;
    if (!is_queued)
        product = time;
    else if (is_whole(run, ref))
        op_times_took_beside(&run->step->groups.queues.times, ref->node, product.start_ns - time.start_ns,
                             time.end_ns - product.end_ns);
    node_ended(run, ref, OP_QUEUE_CPU, product.end_ns - product.start_ns, &time);
    return 0;
}

static int run_here(void *arg, const OpRef *ref, bool is_stolen, ErrText *err) {
    QueueRun *run = arg;

    if (run->step->engine->steps->layer.nodes[ref->node].main->kind == OP_ATTENTION)
        return run_attention(run, ref, err);
    return run_node_here(run, ref, is_stolen, err);
}

/* A product with a matrix that is not the queue's is run here, and so is one whose time here is to be measured. */
static bool runs_here(void *arg, const OpRef *ref) {
    const QueueRun *run = arg;
    Engine *engine = run->step->engine;

    return !layer_node_is_queued(engine->backend, &engine->steps->layer.nodes[ref->node],
                                 weights_of(run, ref)->linears) ||
           (is_whole(run, ref) &&
            queue_profile_tries(&engine->steps->queue_profile, &run->step->groups.queues.times, ref->node));
}

static void submit(void *arg, size_t slot, const OpRef *ref) {
    QueueRun *run = arg;
    Engine *engine = run->step->engine;
    const uint64_t start_ns = clock_now_ns();
    const LayerRows rows = rows_of(run, ref);

    layer_submit_node(&rows, &engine->steps->layer.nodes[ref->node], weights_of(run, ref)->linears, slot);
    run->begin_ns[slot] = clock_now_ns() - start_ns;
    engine->steps->queue_counts.cpu_ns += run->begin_ns[slot];
}

static const OpLoopOps loop_ops = {
    .runs_here = runs_here,
    .submit = submit,
    .is_over = is_over,
    .end = end_product,
    .run = run_here,
};

int queue_groups_run(EngineStep *step, const EngineYield *yield, ErrText *err) {
    Engine *engine = step->engine;
    QueueRun run = { .step = step };
    OpLoop loop = {
        .ops = &loop_ops, .arg = &run, .queues = &step->groups.queues, .n_slots = engine->backend->ops->product_slots
    };
    const uint64_t start_ns = clock_now_ns();
    int r = engine_step_look_up(step, NULL);

    assert(loop.n_slots <= BACKEND_PRODUCT_SLOTS_MAX);
    while (!r && !op_queues_have_ended(&step->groups.queues)) {
        weights_turn(engine->weights);
        r = op_loop_go_on(&loop, err);
        if (r)
            r = r < 0 ? r : ENGINE_E_READ;
        else
            r = engine_step_look_up(step, yield);
    }
    while (loop.n_busy) {
        ErrText more = { 0 };
        int ended = op_loop_end_oldest(&loop, &more);

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
