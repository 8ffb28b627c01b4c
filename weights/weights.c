// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "weights/weights.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "weights/weights_private.h"

static void layer_deinit(Weights *weights, WeightsLayer *layer) {
    for (size_t role = 0; role < _ROLE_N; role++) {
        weights->backend->ops->linear_free(layer->linears[role]);
        free(layer->vectors[role]);
    }
    free(layer->balance);
}

Weights *weights_free(Weights *weights) {
    if (!weights)
        return NULL;
    weights_arrival_free(weights->coming.arrival);
    weights_image_writer_free(weights->images.writer); /* before the matrices, which it reads */
    if (weights->images.file)
        image_file_deinit(weights->images.file);
    free(weights->images.file);
    weights_ring_free(weights->ring);
    weights_graphs_free(weights->graphs);
    free(weights->form.pieces);
    weights_image_free(weights->images.streamed);
    layer_deinit(weights, &weights->outside);
    for (uint32_t i = 0; weights->layers && i < weights->hparams->n_layers; i++)
        layer_deinit(weights, &weights->layers[i]);
    free(weights->layers);
    weights_image_free(weights->images.mapped);
    free(weights->images.path);
    free(weights->images.package_path);
    if (weights->columns.fd >= 0)
        close(weights->columns.fd);
    free((char *)weights->columns.path);
    bill_settle(&weights->vectors_bill);
    shared_limiter_deinit(&weights->disk.shared);
    free(weights);
    return NULL;
}

/* Ends the image that the ring or the graphs will read, and opens it. */
static int end_image_file(Weights *weights, ErrText *err) {
    const size_t n_parts = weights->images.file->n_parts;
    int r = image_file_commit(weights->images.file, err);

    if (!r)
        r = weights_image_open(&weights->images.streamed, weights->images.path, &weights->images.key, n_parts, err);
    image_file_deinit(weights->images.file);
    free(steal(&weights->images.file));
    return r > 0 ? BACKEND_E_WEIGHTS : r;
}

char *weights_notes_folder(const char *image_path, const char *name) {
    const char *slash = image_path ? strrchr(image_path, '/') : NULL;
    char *notes;

    return slash && asprintf(&notes, "%.*s/%s", (int)(slash - image_path), image_path, name) >= 0 ? notes : NULL;
}

/* Starts the graphs. Their times are noted in a folder beside the image. */
static int start_graphs(Weights *weights, ErrText *err) {
    _cleanup_(freep) char *notes = weights_notes_folder(weights->images.path, "graph-times");
    GraphsFile file = { .image = steal(&weights->images.streamed) };
    int r;

    if (weights->form.is_packed)
        file = (GraphsFile){ .package_fd = weights->form.package_fd,
                             .package_path = weights->images.package_path,
                             .pieces = steal(&weights->form.pieces),
                             .n_pieces = weights->form.n_pieces };
    file.disk = weights->disk.is_shared ? &weights->disk.shared : NULL;
    r = weights_graphs_start(weights->graphs, &file, weights->disk.limit, notes, err);
    return r == WEIGHTS_GRAPHS_E_MEMORY ? BACKEND_E_MEMORY : r;
}

int weights_start_ring(Weights *weights, ErrText *err) {
    size_t first, end;
    int r;

    if (weights->form.is_packed)
        return start_graphs(weights, err);
    if (weights->graphs)
        weights_graphs_parts(weights->graphs, &first, &end);
    else
        weights_ring_parts(weights->ring, &first, &end);
    r = weights_check_image(weights->coming.check, weights->images.streamed, first, end, err);
    if (r)
        return r;
    if (weights->graphs)
        return start_graphs(weights, err);
    return weights_ring_start(weights->ring, steal(&weights->images.streamed), weights->disk.limit, err);
}

/* Ends the arrival when everything is there: notes how it came, and frees what it came through. */
static int end_arrival(Weights *weights, ErrText *err) {
    ErrText why = { 0 };
    int r = 0;

    weights->coming.way = weights_arrival_way(weights->coming.arrival);
    if (weights->images.file)
        r = end_image_file(weights, &why);
    if (!r && (weights->images.streamed || (weights->form.is_packed && weights->form.pieces))) {
        r = weights_start_ring(weights, &why);
    } else if (!r && weights->images.writer) {
        weights_image_writer_complete(weights->images.writer);
    }
    if (r)
        return weights_arrival_fail(weights->coming.arrival, r, &why, err);
    weights->coming.arrival = weights_arrival_free(weights->coming.arrival);
    weights->coming.check = NULL;
    return 0;
}

static bool is_of_graphs(const Weights *weights, uint32_t stage) {
    return weights->graphs && stage && stage <= weights->hparams->n_layers;
}

static bool streams(const Weights *weights, uint32_t stage) {
    return weights->ring && stage > weights_ring_first_layer(weights->ring) && stage <= weights->hparams->n_layers;
}

bool weights_have(const Weights *weights, uint32_t stage) {
    return !streams(weights, stage) && !is_of_graphs(weights, stage) &&
           (!weights->coming.arrival || weights_arrival_stage(weights->coming.arrival) > stage);
}

int weights_advance(Weights *weights, ErrText *err) {
    const _Atomic uint64_t *used_bytes = &weights->backend->accounts->used_bytes[ACCOUNT_WEIGHTS];
    const uint64_t before_bytes = atomic_load(used_bytes);
    int r = weights_arrival_advance(weights->coming.arrival, err);

    weights->counts.resident_bytes += atomic_load(used_bytes) - before_bytes;
    if (!r && weights_arrival_stage(weights->coming.arrival) == UINT32_MAX)
        r = end_arrival(weights, err);
    return r;
}

/* Holds a block of graphs. A block can be computed with while the rest of the model comes: by the graphs' own loads, or
 * by the arrival of the whole package, if that is to be compared or written to an image. */
static int acquire_graphs(Weights *weights, uint32_t stage, uint64_t wait_ns, ErrText *err) {
    const uint32_t layer = stage - 1;
    int r = WEIGHTS_GRAPHS_E_WAITING;

    if (weights_graphs_has_started(weights->graphs))
        r = weights_graphs_hold(weights->graphs, layer, weights->coming.arrival ? 0 : wait_ns, err);
    else if (weights_graphs_has_arrived(weights->graphs, layer, weights_arrival_stage(weights->coming.arrival)))
        r = weights_graphs_hold(weights->graphs, layer, 0, err);
    if (r == WEIGHTS_GRAPHS_E_WAITING && weights->coming.arrival) {
        r = weights_advance(weights, err);
        return r ? r : WEIGHTS_E_WAITING;
    }
    return r == WEIGHTS_GRAPHS_E_WAITING ? WEIGHTS_E_WAITING : r ? BACKEND_E_READ : 0;
}

int weights_acquire(Weights *weights, uint32_t stage, uint64_t wait_ns, ErrText *err) {
    int r = 0;

    if (weights_have(weights, stage))
        return 0;
    if (is_of_graphs(weights, stage))
        return acquire_graphs(weights, stage, wait_ns, err);
    if (weights->coming.arrival)
        r = weights_advance(weights, err);
    if (r || weights->coming.arrival)
        return r ? r : weights_have(weights, stage) ? 0 : WEIGHTS_E_WAITING;
    if (!streams(weights, stage))
        return 0;
    r = weights_ring_hold(weights->ring, stage - 1, wait_ns, err);
    return r == WEIGHTS_RING_E_WAITING ? WEIGHTS_E_WAITING : r == WEIGHTS_RING_E_READ ? BACKEND_E_READ : r;
}

void weights_release(Weights *weights, uint32_t stage, uint32_t end) {
    if (is_of_graphs(weights, stage))
        weights_graphs_release(weights->graphs, stage - 1, end);
    else if (streams(weights, stage))
        weights_ring_release(weights->ring, stage - 1);
}

void weights_turn(Weights *weights) {
    if (weights->graphs)
        weights_graphs_turn(weights->graphs);
}

void weights_expect(Weights *weights, size_t rows, size_t prompt_rows, size_t n_behind, uint32_t layer) {
    if (weights->graphs)
        weights_graphs_expect(weights->graphs, rows, prompt_rows, n_behind, layer);
}

uint32_t weights_run_end(const Weights *weights, uint32_t stage) {
    uint32_t end = stage + 1;

    if (is_of_graphs(weights, stage))
        return 1 + weights_graphs_block_end(weights->graphs, stage - 1);
    while (end <= weights->hparams->n_layers && weights_have(weights, end))
        end++;
    return end;
}

int weights_check_whole(const Weights *weights, ErrText *err) {
    if (weights->ring)
        return weights_ring_check(weights->ring, err);
    if (weights->graphs)
        return weights_graphs_check(weights->graphs, err);
    return weights->images.mapped ? weights_image_check(weights->images.mapped, err) : 0;
}

bool weights_are_arriving(const Weights *weights) {
    return weights->coming.arrival;
}

uint32_t weights_permille(const Weights *weights) {
    return weights->coming.arrival ? weights_arrival_permille(weights->coming.arrival) : 1000;
}

const WeightsArrivalWay *weights_way(const Weights *weights) {
    return &weights->coming.way;
}

bool weights_were_compared(const Weights *weights) {
    return weights->coming.was_compared;
}

const WeightsCounts *weights_counts(const Weights *weights) {
    return &weights->counts;
}

const WeightsRing *weights_ring(const Weights *weights) {
    return weights->ring;
}

WeightsGraphs *weights_graphs(const Weights *weights) {
    return weights->graphs;
}

const char *weights_graph_form_why(const Weights *weights) {
    return weights->form.why;
}

const char *weights_flash_way(const Weights *weights) {
    if (weights->graphs)
        return weights_graphs_way(weights->graphs);
    return weights->ring ? weights_ring_way(weights->ring) : "";
}

void weights_set_flash_limit(Weights *weights, ReadLimit limit) {
    if (weights->ring)
        weights_ring_set_limit(weights->ring, limit);
    if (weights->graphs)
        weights_graphs_set_limit(weights->graphs, limit);
}

bool weights_are_mapped(const Weights *weights) {
    return weights->images.mapped;
}

const WeightsLayer *weights_layer(const Weights *weights, uint32_t layer) {
    return &weights->layers[layer];
}

const WeightsLayer *weights_outside(const Weights *weights) {
    return &weights->outside;
}

bool weights_embedding_is_late(const Weights *weights) {
    return weights->images.mapped && weights_image_is_late(weights->images.mapped);
}

ImageReport weights_image_report(const Weights *weights) {
    if (weights->images.mapped)
        return (ImageReport){ .state = IMAGE_MAPPED, .len_bytes = weights_image_len_bytes(weights->images.mapped) };
    if (weights->ring || weights->graphs)
        return (ImageReport){ .state = IMAGE_STREAMED };
    if (weights->images.writer)
        return weights_image_writer_report(weights->images.writer);
    return (ImageReport){ .state = weights->images.writer_result ? IMAGE_FAILED : IMAGE_NONE,
                          .result = weights->images.writer_result };
}

int weights_wait_image(Weights *weights, ErrText *err) {
    return weights->images.writer ? weights_image_writer_wait(weights->images.writer, err) : 0;
}

const BackendLinear *weights_head(const Weights *weights) {
    return weights->outside.linears[weights->hparams->tied ? ROLE_TOKEN_EMBD : ROLE_OUTPUT];
}
