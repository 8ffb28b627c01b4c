// SPDX-License-Identifier: Apache-2.0
/* The memory of steps' rows, and how many rows a step has at most: the chunk. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/memory/account_refusal.h"
#include "base/min_max.h"
#include "engine/step/queue_groups.h"
#include "engine/step/row_groups.h"
#include "engine/step/step_parts.h"
#include "engine/step/step_state.h"

int engine_steps_new(Engine *engine, const LoadOptions *load) {
    EngineSteps *steps =
        aligned_alloc(_Alignof(EngineSteps), sizeof(*steps)); /* groups have cache lines of their own */

    if (!steps)
        return err_raise(-ENOMEM);
    *steps = (EngineSteps){ .n = load->preemption ? ENGINE_STEPS_MAX : 1,
                            .load = *load,
                            .queue_profile.kind = load->op_placement };
    engine->steps = steps;
    engine->kv.reserve_positions = row_groups_reserve_positions;
    return 0;
}

void engine_steps_free(Engine *engine) {
    if (!engine->steps)
        return;
    row_groups_release(engine);
    for (size_t i = 0; i < engine->steps->n; i++)
        accounted_block_deinit(&engine->steps->step[i].memory);
    accounted_block_deinit(&engine->steps->head_rows);
    free(engine->steps);
}

enum {
    CONTEXT_WANTED = 4096, /* positions: the daemon's longest requests, unless it is told otherwise */
};

static size_t carve_rows(EngineStep *step, const Engine *engine, uint8_t *block, size_t rows) {
    const Hparams *hparams = &engine->hparams;
    RopeRows *const ropes[] = { &step->rope, &step->rope_local };
    size_t at_bytes = 0, half = hparams->n_rot / 2;

    for (size_t slot = 0; slot < _SLOT_N; slot++)
        step->slots[slot] =
            layer_carve(block, &at_bytes, rows * hparams_dim(hparams, slot_dim((Slot)slot)) * sizeof(float));
    for (size_t i = 0; i < ARRAY_LEN(ropes); i++) {
        ropes[i]->freqs = layer_carve(block, &at_bytes, half * sizeof(double));
        ropes[i]->cos = layer_carve(block, &at_bytes, rows * half * sizeof(float));
        ropes[i]->sin = layer_carve(block, &at_bytes, rows * half * sizeof(float));
    }
    step->batch = (Batch){
        .tokens = layer_carve(block, &at_bytes, rows * sizeof(uint32_t)),
        .rows = layer_carve(block, &at_bytes, (rows + ENGINE_SPANS_MAX * ENGINE_TREE_ROWS_MAX) * sizeof(BatchRow)),
        .earlier.first = rows,
        .sequences = step->sequences,
    };
    step->outputs = layer_carve(block, &at_bytes, rows * sizeof(*step->outputs));
    step->groups.queue_layers =
        queue_groups_are_of(engine->backend->ops, rows)
            ? layer_carve(block, &at_bytes,
                          WAVEFRONT_GROUPS_MAX * hparams->n_layers * sizeof(*step->groups.queue_layers))
            : NULL;
    return at_bytes;
}

static int reserve_step(EngineStep *step, Engine *engine, uint32_t chunk_tokens, ErrText *err) {
    const Hparams *hparams = &engine->hparams;
    int r;

    step->engine = engine;
    accounted_block_deinit(&step->memory);
    r = accounted_block_init(&step->memory, engine->accounts, ACCOUNT_ACTIVATIONS,
                             carve_rows(step, engine, NULL, chunk_tokens));
    if (r)
        return account_refused(err, ENGINE_E_MEMORY, r, engine->accounts, ACCOUNT_ACTIVATIONS,
                               carve_rows(step, engine, NULL, chunk_tokens),
                               "steps of %u tokens (chunk-tokens makes them smaller)", chunk_tokens);
    carve_rows(step, engine, step->memory.data, chunk_tokens);
    rope_rows_prepare(&step->rope, hparams, false, weights_outside(engine->weights)->vectors);
    rope_rows_prepare(&step->rope_local, hparams, true, weights_outside(engine->weights)->vectors);
    return 0;
}

static int reserve_rows(Engine *engine, uint32_t chunk_tokens, ErrText *err) {
    const BackendShape shape = layer_backend_shape(&engine->hparams, chunk_tokens);
    int r;

    for (size_t i = 0; i < engine->steps->n; i++)
        if (engine->steps->step[i].is_taken)
            return err_set(err, -EBUSY, "a step has made way: the chunk can be changed when it has ended");
    engine->steps->chunk_tokens = 0;
    for (size_t i = 0; i < engine->steps->n; i++) {
        r = reserve_step(&engine->steps->step[i], engine, chunk_tokens, err);
        if (r)
            return r;
    }
    r = engine->backend->ops->reserve(engine->backend, &shape, err);
    if (r)
        return r < 0 ? r : ENGINE_E_MEMORY;
    r = row_groups_reserve(engine, &shape, err);
    if (r)
        return r;
    engine->steps->chunk_tokens = chunk_tokens;
    return 0;
}

int engine_set_chunk_tokens(Engine *engine, uint32_t chunk_tokens, ErrText *err) {
    if (!chunk_tokens || chunk_tokens > ENGINE_CHUNK_MAX)
        return err_set(err, -EINVAL, "chunk of %u tokens is outside 1..%d", chunk_tokens, ENGINE_CHUNK_MAX);
    engine->steps->chunk_is_chosen = false;
    return reserve_rows(engine, chunk_tokens, err);
}

/* Reserves rows while weights arrive. If memory is too short for both, all weights are taken in first. */
static int reserve_beside_arrival(Engine *engine, uint32_t chunk_tokens, ErrText *err) {
    int r = reserve_rows(engine, chunk_tokens, err);

    if (r != ENGINE_E_MEMORY || !weights_are_arriving(engine->weights))
        return r;
    r = engine_take_in_all(engine, err);
    return r ? r : reserve_rows(engine, chunk_tokens, err);
}

/* Returns the chunk for layers that are read in every step. Such a sweep takes as long for one row as for many, until
 * computing takes longer than reading. The rows get as much memory as the ring has, at least the device's choice. */
static uint32_t chunk_of_sweep(Engine *engine, uint32_t chunk_tokens) {
    const size_t rows = ENGINE_CHUNK_DEFAULT,
                 rows_bytes = engine->steps->n * carve_rows(&engine->steps->step[0], engine, NULL, rows);
    uint64_t n;

    if (!weights_ring(engine->weights))
        return chunk_tokens;
    n = weights_ring_counts(weights_ring(engine->weights)).slots_bytes / rows_bytes * rows;
    n = MIN(n, ENGINE_CHUNK_MAX);
    return n > chunk_tokens ? (uint32_t)n : chunk_tokens;
}

/* Returns whether rows that only make prompts faster leave memory for keys and values: for CONTEXT_WANTED positions, or
 * fewer if their own limit is lower. */
static bool leaves_room(Engine *engine, uint32_t chunk_tokens) {
    const uint64_t rows_bytes = engine->steps->n * carve_rows(&engine->steps->step[0], engine, NULL, chunk_tokens),
                   room_bytes = account_shared_room_bytes(engine->accounts, ACCOUNT_KV),
                   own_bytes = account_own_room_bytes(engine->accounts, ACCOUNT_KV),
                   position_bytes = UINT64_C(2) * engine->hparams.n_layers * engine->hparams.n_kv_heads *
                                    engine->backend->ops->kv_row_bytes(engine->hparams.head_size),
                   context_bytes = CONTEXT_WANTED * position_bytes;

    return rows_bytes <= room_bytes && MIN(own_bytes, context_bytes) <= room_bytes - rows_bytes;
}

/* Halves a chunk that the device chose as long as memory is short, down to the default. */
int engine_reserve_chunk(Engine *engine, uint32_t chunk, ErrText *err) {
    const BackendOps *ops = engine->backend->ops;
    int r;

    engine->steps->chunk_is_chosen = !chunk;
    if (!chunk)
        chunk =
            chunk_of_sweep(engine, ops->step_rows ? (uint32_t)ops->step_rows(engine->backend) : ENGINE_CHUNK_DEFAULT);
    if (engine->steps->chunk_is_chosen && ops->product_slots && engine->steps->load.op_order != OP_ORDER_IN_ORDER)
        chunk *= QUEUE_GROUPS_WANTED;
    while (engine->steps->chunk_is_chosen && chunk > ENGINE_CHUNK_DEFAULT) {
        r = leaves_room(engine, chunk) ? reserve_rows(engine, chunk, NULL) : ENGINE_E_MEMORY;
        if (r != ENGINE_E_MEMORY)
            return r;
        chunk = MAX(chunk / 2, ENGINE_CHUNK_DEFAULT);
    }
    return reserve_beside_arrival(engine, chunk, err);
}

uint32_t engine_chunk_tokens(const Engine *engine) {
    return engine->steps->chunk_tokens;
}

uint32_t engine_shared_chunk_tokens(const Engine *engine) {
    return engine->steps->chunk_is_chosen && ENGINE_CHUNK_DEFAULT < engine->steps->chunk_tokens
               ? ENGINE_CHUNK_DEFAULT
               : engine->steps->chunk_tokens;
}

bool engine_has_preemption(const Engine *engine) {
    return engine->steps->n > 1;
}

EngineQueueCounts engine_queue_counts(const Engine *engine) {
    return engine->steps->queue_counts;
}

void engine_set_op_order(Engine *engine, OpOrder order, size_t steal_beyond, OpPlacementKind placement) {
    engine->steps->load.op_order = order;
    engine->steps->load.steal_beyond = steal_beyond;
    engine->steps->queue_profile.kind = placement;
}

void engine_op_explain(const Engine *engine, char *text, size_t room_bytes) {
    queue_profile_explain(&engine->steps->queue_profile, &engine->steps->layer.graph, text, room_bytes);
}
