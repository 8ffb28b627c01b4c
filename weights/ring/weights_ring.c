// SPDX-License-Identifier: Apache-2.0
#include "weights/ring/weights_ring.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/account_refusal.h"
#include "base/min_max.h"
#include "weights/image/file_loss.h"
#include "weights/residency/weights_memory.h"

typedef struct RingLayer {
    size_t first, n; /* matrices */
} RingLayer;

struct WeightsRing {
    const BackendOps *ops;
    uint32_t first_layer;
    RingMatrix *matrices; /* [n_matrices] */
    size_t n_matrices, n_added;
    RingLayer *layers;    /* [n_layers] */
    LayerExtent *extents; /* [n_layers] */
    size_t n_layers;
    AccountedBlock memory;
    uint8_t *slots; /* [WEIGHTS_RING_SLOTS][slot_bytes] in the memory, aligned as reads need it */
    size_t slot_bytes;
    WeightsImage *image;
    LayerReader *reader;
    FileLoss loss; /* of the image */
};

WeightsRing *weights_ring_free(WeightsRing *ring) {
    if (!ring)
        return NULL;
    layer_reader_free(ring->reader); /* before its slots and its file */
    weights_image_free(ring->image);
    accounted_block_deinit(&ring->memory);
    free(ring->extents);
    free(ring->layers);
    free(ring->matrices);
    free(ring);
    return NULL;
}

/* Returns the end of the matrices from `first` on that are of one layer. */
static size_t layer_end(const RingMatrix *matrices, size_t n, size_t first) {
    size_t end = first + 1;

    while (end < n && matrices[end].layer == matrices[first].layer)
        end++;
    return end;
}

/* Returns the bytes from the begin of a layer's first matrix to the end of its last one. */
static size_t extent_bytes(const RingMatrix *matrices, size_t first, size_t end) {
    return (size_t)(matrices[end - 1].offset_bytes + matrices[end - 1].len_bytes - matrices[first].offset_bytes);
}

/* Bytes of a slot that every layer fits into. */
static size_t find_slot_bytes(const RingMatrix *matrices, size_t n) {
    size_t slot_bytes = 0;

    for (size_t first = 0, end; first < n; first = end) {
        size_t room_bytes;

        end = layer_end(matrices, n, first);
        room_bytes = extent_room_bytes(matrices[first].offset_bytes, extent_bytes(matrices, first, end));
        slot_bytes = MAX(room_bytes, slot_bytes);
    }
    return slot_bytes;
}

static void list_layers(WeightsRing *ring) {
    for (size_t first = 0, end; first < ring->n_matrices; first = end) {
        end = layer_end(ring->matrices, ring->n_matrices, first);
        ring->layers[ring->n_layers] = (RingLayer){ first, end - first };
        ring->extents[ring->n_layers++] = (LayerExtent){
            .offset_bytes = ring->matrices[first].offset_bytes,
            .len_bytes = extent_bytes(ring->matrices, first, end),
            .number = ring->matrices[first].layer,
        };
    }
}

int weights_ring_new(WeightsRing **ringp, const BackendOps *ops, AccountTable *accounts, uint32_t first_layer,
                     const RingMatrix *matrices, size_t n, ErrText *err) {
    _cleanup_(weights_ring_freep) WeightsRing *ring = calloc(1, sizeof(*ring));
    int r;

    if (!ring)
        return err_no_memory(err);
    ring->ops = ops;
    ring->first_layer = first_layer;
    ring->n_matrices = n;
    ring->matrices = calloc(n + 1, sizeof(*ring->matrices));
    ring->layers = calloc(n + 1, sizeof(*ring->layers));
    ring->extents = calloc(n + 1, sizeof(*ring->extents));
    if (!ring->matrices || !ring->layers || !ring->extents)
        return err_no_memory(err);
    memcpy(ring->matrices, matrices, n * sizeof(*matrices));
    list_layers(ring);
    ring->slot_bytes = find_slot_bytes(matrices, n);
    r = accounted_block_init(&ring->memory, accounts, ACCOUNT_WEIGHTS,
                             WEIGHTS_RING_SLOTS * ring->slot_bytes + EXTENT_ALIGNMENT);
    if (r)
        return account_refused(err, WEIGHTS_RING_E_MEMORY, r, accounts, ACCOUNT_WEIGHTS,
                               WEIGHTS_RING_SLOTS * ring->slot_bytes + EXTENT_ALIGNMENT,
                               "%d layers that are read from the disk", WEIGHTS_RING_SLOTS);
    ring->slots = (uint8_t *)ring->memory.data + (EXTENT_ALIGNMENT - (uintptr_t)ring->memory.data % EXTENT_ALIGNMENT);
    *ringp = steal(&ring);
    return 0;
}

uint32_t weights_ring_first_layer(const WeightsRing *ring) {
    return ring->first_layer;
}

void weights_ring_parts(const WeightsRing *ring, size_t *firstp, size_t *endp) {
    *firstp = ring->matrices[0].part;
    *endp = *firstp + ring->n_matrices;
}

/* Points a matrix at its integers; `data` is the first byte of its layer. */
static void place(WeightsRing *ring, size_t index, uint64_t layer_offset_bytes, uint8_t *data) {
    const RingMatrix *matrix = &ring->matrices[index];

    ring->ops->linear_at(matrix->linear, data + (matrix->offset_bytes - layer_offset_bytes));
}

void weights_ring_add(WeightsRing *ring, BackendLinear *linear) {
    const size_t index = ring->n_added++, layer = ring->matrices[index].layer - ring->first_layer;
    const uint64_t offset_bytes = ring->extents[layer].offset_bytes;

    assert(index < ring->n_matrices);
    ring->matrices[index].linear = linear;
    place(ring, index, offset_bytes,
          ring->slots + layer % WEIGHTS_RING_SLOTS * ring->slot_bytes + offset_bytes % EXTENT_ALIGNMENT);
}

/* Thread: the reader's. */
static bool layer_is_whole(void *arg, size_t index, const uint8_t *data) {
    WeightsRing *ring = arg;
    const RingLayer *layer = &ring->layers[index];

    for (size_t i = layer->first; i < layer->first + layer->n; i++) {
        const RingMatrix *matrix = &ring->matrices[i];

        if (!weights_image_part_is_whole(ring->image, matrix->part,
                                         data + (matrix->offset_bytes - ring->extents[index].offset_bytes)))
            return false;
    }
    return true;
}

int weights_ring_start(WeightsRing *ring, WeightsImage *image, ReadLimit limit, ErrText *err) {
    assert(ring->n_added == ring->n_matrices && !ring->image);
    ring->image = image;
    return layer_reader_new(&ring->reader,
                            &(LayerReaderOptions){
                                .fd = weights_image_fd(image),
                                .path = weights_image_name(image),
                                .layers = ring->extents,
                                .n_layers = ring->n_layers,
                                .slots = ring->slots,
                                .slot_bytes = ring->slot_bytes,
                                .n_slots = WEIGHTS_RING_SLOTS,
                                .is_whole = layer_is_whole,
                                .arg = ring,
                                .limit = limit,
                            },
                            err);
}

int weights_ring_hold(WeightsRing *ring, uint32_t layer, uint64_t wait_ns, ErrText *err) {
    const size_t index = layer - ring->first_layer;
    const RingLayer *matrices = &ring->layers[index];
    const uint8_t *data;
    ErrText why = { 0 };
    int r = layer_reader_hold(ring->reader, index, wait_ns, &data, &why);

    if (r == LAYER_READER_E_WAITING)
        return WEIGHTS_RING_E_WAITING;
    if (r == LAYER_READER_E_FILE)
        file_loss_set(&ring->loss, ring->image, &why);
    if (r && err)
        *err = why;
    if (r)
        return r == -ENOMEM ? r : WEIGHTS_RING_E_READ;
    for (size_t i = 0; i < matrices->n; i++)
        place(ring, matrices->first + i, ring->extents[index].offset_bytes, (uint8_t *)data);
    return 0;
}

void weights_ring_release(WeightsRing *ring, uint32_t layer) {
    layer_reader_release(ring->reader, layer - ring->first_layer);
}

int weights_ring_check(const WeightsRing *ring, ErrText *err) {
    return file_loss_check(&ring->loss, err);
}

void weights_ring_set_limit(WeightsRing *ring, ReadLimit limit) {
    layer_reader_set_limit(ring->reader, limit);
}

WeightsRingCounts weights_ring_counts(const WeightsRing *ring) {
    WeightsRingCounts counts = { .slots_bytes = ring->memory.len_bytes };

    for (size_t i = 0; i < ring->n_layers; i++)
        counts.sweep_bytes += ring->extents[i].len_bytes;
    if (ring->reader) {
        const LayerReaderCounts read = layer_reader_counts(ring->reader);

        counts.read_bytes = read.read_bytes;
        counts.reading_ns = read.reading_ns;
    }
    return counts;
}

const char *weights_ring_way(const WeightsRing *ring) {
    return ring->reader ? layer_reader_way(ring->reader) : "";
}
