// SPDX-License-Identifier: Apache-2.0
#include "engine/core/engine_state.h"

#include <inttypes.h>

#include "base/log.h"

const EngineInfo *engine_info(const Engine *engine) {
    return &engine->info;
}

AccountTable *engine_accounts(const Engine *engine) {
    return engine->accounts;
}

const Tokenizer *engine_tokenizer(const Engine *engine) {
    return engine->text.tokenizer;
}

const ChatTemplate *engine_chat_template(const Engine *engine) {
    return &engine->text.chat;
}

Weights *engine_weights(const Engine *engine) {
    return engine->weights;
}

Backend *engine_backend(const Engine *engine) {
    return engine->backend;
}

uint64_t engine_kv_read_bytes(const Engine *engine, uint64_t n_positions) {
    const Hparams *hparams = &engine->hparams;

    return engine->info.kv_bytes_per_token / hparams->n_layers * hparams_read_positions(hparams, n_positions);
}

void engine_set_trace(Engine *engine, Trace *trace) {
    engine->trace = trace;
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

int engine_weights_error(int r) {
    return r <= 0 ? r : r == BACKEND_E_MEMORY ? ENGINE_E_MEMORY : ENGINE_E_MODEL;
}

void engine_count_weights(Engine *engine) {
    const WeightsCounts *counts = weights_counts(engine->weights);
    EngineWeightsInfo *info = &engine->info.weights;

    info->resident_bytes = counts->resident_bytes;
    info->step_read_bytes = counts->resident_bytes - counts->embedding_bytes;
    if (weights_ring(engine->weights)) {
        const WeightsRingCounts ring = weights_ring_counts(weights_ring(engine->weights));

        info->n_streamed_layers = engine->hparams.n_layers - weights_ring_first_layer(weights_ring(engine->weights));
        info->sweep_bytes = ring.sweep_bytes;
        info->ring_bytes = ring.slots_bytes;
        info->step_read_bytes += ring.sweep_bytes - ring.slots_bytes;
    }
    if (weights_graphs(engine->weights)) {
        const WeightsGraphsCounts graphs = weights_graphs_counts(weights_graphs(engine->weights));

        info->resident_bytes += graphs.graph_bytes;
        info->step_read_bytes += graphs.graph_bytes;
    }
    info->is_mapped = weights_are_mapped(engine->weights);
    if (engine->files.check)
        info->compared_bytes = weights_check_compared_bytes(engine->files.check);
}

void engine_has_arrived(Engine *engine) {
    const WeightsArrivalWay *way = weights_way(engine->weights);
    const EngineInfo *info = &engine->info;

    engine_count_weights(engine);
    if (weights_were_compared(engine->weights))
        weights_check_passed(engine->files.check);
    engine->files.check = weights_check_free(engine->files.check);
    engine->files.package = package_free(engine->files.package);
    log_info(TOPIC_ENGINE,
             "loaded '%s': %s, %u layers, %" PRIu64 " MB of weights, kernel %s; %" PRIu64 " MB were in the page cache, "
             "%" PRIu64 " MB read (%s), %.1f MB compared with checksums",
             info->name, info->architecture, info->n_layers, info->weights.resident_bytes / 1000000, info->kernel,
             way->cached_bytes / 1000000, way->read_bytes / 1000000, way->way,
             (double)info->weights.compared_bytes / 1e6);
}

bool engine_is_arriving(const Engine *engine) {
    return weights_are_arriving(engine->weights);
}

int engine_arrive(Engine *engine, ErrText *err) {
    int r;

    if (!weights_are_arriving(engine->weights))
        return 0;
    r = engine_weights_error(weights_advance(engine->weights, err));
    if (!r && !weights_are_arriving(engine->weights))
        engine_has_arrived(engine);
    return r;
}

int engine_acquire(Engine *engine, uint32_t stage, uint64_t wait_ns, ErrText *err) {
    const bool was_arriving = weights_are_arriving(engine->weights);
    int r = weights_acquire(engine->weights, stage, wait_ns, err);

    if (was_arriving && !weights_are_arriving(engine->weights))
        engine_has_arrived(engine);
    return r == WEIGHTS_E_WAITING ? ENGINE_E_WAITING : engine_weights_error(r);
}

int engine_take_in_all(Engine *engine, ErrText *err) {
    int r = 0;

    while (!r && weights_are_arriving(engine->weights))
        r = engine_weights_error(weights_advance(engine->weights, err));
    return r;
}

int engine_check_whole(const Engine *engine, ErrText *err) {
    if (engine->files.gguf && gguf_check_whole(engine->files.gguf, err))
        return ENGINE_E_READ;
    return weights_check_whole(engine->weights, err) ? ENGINE_E_READ : 0;
}
