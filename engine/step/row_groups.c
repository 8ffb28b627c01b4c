// SPDX-License-Identifier: Apache-2.0
#include "engine/step/row_groups.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/min_max.h"
#include "engine/step/queue_groups.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"

/* --- devices ------------------------------------------------------------------------------------------------------ */

void row_groups_release(Engine *engine) {
    RowGroupDevices *devices = &engine->steps->group_devices;

    for (size_t i = 0; i < devices->n_threads; i++)
        backend_free(devices->threads[i]);
    free(devices->threads);
    worker_pool_free(devices->single);
    *devices = (RowGroupDevices){ 0 };
}

static int add_thread(Engine *engine, const BackendShape *shape, ErrText *err) {
    RowGroupDevices *devices = &engine->steps->group_devices;
    Backend *thread;
    int r = engine->backend->ops->thread_new(engine->backend, &thread, devices->single, err);

    if (r)
        return r;
    devices->threads[devices->n_threads++] = thread;
    r = thread->ops->reserve(thread, shape, err);
    if (!r && engine->steps->n_positions)
        r = thread->ops->reserve_positions(thread, engine->steps->n_positions, err);
    return r;
}

int row_groups_reserve_positions(Engine *engine, size_t n_positions, ErrText *err) {
    const RowGroupDevices *devices = &engine->steps->group_devices;
    int r = engine->backend->ops->reserve_positions(engine->backend, n_positions, err);

    for (size_t i = 0; !r && i < devices->n_threads; i++)
        r = devices->threads[i]->ops->reserve_positions(devices->threads[i], n_positions, err);
    if (!r && n_positions > engine->steps->n_positions)
        engine->steps->n_positions = n_positions;
    return r;
}

/**
 * row_groups_reserve() - a device for each thread, if steps of so many rows give each thread a group
 *
 * If there is no memory for the devices' scratch, a model that fits is served without them.
 *
 * Return: 0, with or without devices; -ENOMEM.
 */
int row_groups_reserve(Engine *engine, const BackendShape *shape, ErrText *err) {
    const Backend *backend = engine->backend;
    const size_t n_threads = worker_pool_n_threads(backend->pool);
    RowGroupDevices *devices = &engine->steps->group_devices;
    BackendShape group_shape = *shape;
    int r;

    row_groups_release(engine);
    if (engine->steps->load.no_pipeline || !backend->ops->thread_new || n_threads < 2)
        return 0;
    devices->group_rows = group_shape.rows = row_cut_group_rows(
        shape->rows,
        engine->steps->load.group_rows ? engine->steps->load.group_rows : backend->ops->thread_rows(backend),
        backend->ops->kv_block_positions);
    if (shape->rows / group_shape.rows < n_threads)
        return 0;
    devices->threads = calloc(n_threads, sizeof(*devices->threads));
    r = devices->threads ? worker_pool_new(&devices->single, 1) : -ENOMEM;
    if (r)
        err_set(err, r, "out of memory");
    while (!r && devices->n_threads < n_threads)
        r = add_thread(engine, &group_shape, err);
    if (!r)
        return 0;
    row_groups_release(engine);
    if (r == BACKEND_E_MEMORY)
        log_info(TOPIC_ENGINE, "prefill is not pipelined: %s", err ? err->text : "no memory for its scratch");
    return MIN(r, 0);
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

/* Cuts the step's rows; without several groups the step goes through the layers as a whole. */
static bool cut(EngineStep *step, size_t group_rows) {
    RowGroups *groups = &step->groups;

    groups->n = row_cut(&step->batch, group_rows, step->engine->backend->ops->kv_block_positions, groups->groups,
                        WAVEFRONT_GROUPS_MAX);
    return groups->n;
}

static void begin_front(RowGroups *groups, const OpGraph *graph, uint32_t n_layers) {
    groups->by_queues = false;
    wavefront_begin(&groups->front, graph, groups->n, n_layers);
    for (size_t i = 0; i < groups->n; i++)
        if (groups->groups[i].continues)
            wavefront_continue(&groups->front, i);
}

/**
 * row_groups_cut() - cut a step into groups of as many rows as the devices have room for, on their way to layer `end`
 *
 * A step without at least one group for each thread goes through the layers as a whole.
 */
void row_groups_cut(EngineStep *step, uint32_t end) {
    const RowGroupDevices *devices = &step->engine->steps->group_devices;
    RowGroups *groups = &step->groups;

    groups->n = 0;
    groups->first_layer = step->layer;
    if (queue_groups_has_room(step)) {
        if (cut(step, step->engine->backend->ops->prefill_rows) && groups->n > 1)
            queue_groups_begin(step, end - step->layer);
        else
            groups->n = 0;
        return;
    }
    if (devices->n_threads && step->batch.n_rows / devices->group_rows >= devices->n_threads &&
        cut(step, devices->group_rows))
        begin_front(groups, &step->engine->steps->layer.graph, end - step->layer);
}

typedef struct GroupRun {
    EngineStep *step;
    const EngineYield *yield;
    _Atomic bool has_failed; /* the thread that sets it writes result and text */
    int result;
    ErrText *err;
} GroupRun;

bool row_groups_have_ended(const RowGroups *groups) {
    return groups->by_queues ? op_queues_have_ended(&groups->queues) : wavefront_has_ended(&groups->front);
}

static void group_run_fail(GroupRun *run, int result, const ErrText *err) {
    if (atomic_exchange(&run->has_failed, true))
        return;
    run->result = result;
    if (run->err)
        *run->err = *err;
}

typedef struct StoredRows {
    Wavefront *front;
    size_t group;
} StoredRows;

static void stored(void *arg) {
    const StoredRows *rows = arg;

    wavefront_ready(rows->front, rows->group);
}

/* Runs a node of a group on the device of this thread. */
static int run_node(void *arg, size_t index, uint32_t layer_index, size_t node, unsigned int worker) {
    GroupRun *run = arg;
    EngineStep *step = run->step;
    Engine *engine = step->engine;
    const uint32_t layer = step->groups.first_layer + layer_index;
    const WeightsLayer *weights = weights_layer(engine->weights, layer);
    const RowGroup *group = &step->groups.groups[index];
    const uint64_t start_ns = engine_trace_begin(engine);
    LayerRows rows = step_rows_in_layer(step, group->rows, layer, engine->steps->group_devices.threads[worker]);
    ErrText err = { 0 };
    int r;

    rows.stored = stored;
    rows.stored_arg = &(StoredRows){ &step->groups.front, index };
    r = layer_run_node(&rows, &engine->steps->layer.nodes[node], weights->linears, weights->vectors, &err);
    if (r) {
        group_run_fail(run, r < 0 ? r : ENGINE_E_READ, &err);
        return -EIO;
    }
    engine_trace_node(engine, node, start_ns, layer, group->rows, worker);
    if (engine->heartbeat)
        atomic_fetch_add_explicit(engine->heartbeat, 1, memory_order_relaxed);
    return 0;
}

static bool stops(void *arg) {
    const GroupRun *run = arg;

    return engine_step_stops(run->step, run->yield);
}

/* Makes way at most once when all groups are at the end, like a step that goes through the layers as a whole. */
int row_groups_run(EngineStep *step, const EngineYield *yield, ErrText *err) {
    GroupRun run = { .step = step, .yield = yield, .err = err };
    const WavefrontWork work = { .run = run_node, .stops = stops, .arg = &run };
    int r;

    if (step->groups.by_queues)
        return queue_groups_run(step, yield, err);
    r = engine_step_look_up(step, NULL);
    while (!r && !wavefront_has_ended(&step->groups.front)) {
        r = wavefront_run(&step->groups.front, step->engine->backend->pool, &work);
        r = r < 0 ? run.result : engine_step_look_up(step, yield);
    }
    return r;
}
