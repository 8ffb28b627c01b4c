// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/weights/ring/layer_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/extent_queue.h"
#include "test/unit/fixtures/model_maker.h"

LayerFixture layer_fixture;

/* --- what comes of a read ----------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t seed;
    unsigned int one_in;         /* reads that have a fault; 0: none */
    uint64_t fail_from, fail_to; /* reads that begin there fail with EIO */
    size_t n_faults[N_FAULTS];
    uint64_t stop_from; /* the gate: reads that begin there in the file do not come to their end */
    size_t n_waiting;   /* at the gate */
} hook = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* Weak: programs that are linked without --wrap have none. */
int __real_extent_finish_piece(ExtentReader *reader, const ExtentPiece *piece, ssize_t n_read) __attribute__((weak));
int __wrap_extent_finish_piece(ExtentReader *reader, const ExtentPiece *piece, ssize_t n_read);

int __wrap_extent_finish_piece(ExtentReader *reader, const ExtentPiece *piece, ssize_t n_read) {
    LayerFault fault = FAULT_NONE;
    uint64_t random;

    pthread_mutex_lock(&hook.mutex);
    hook.n_waiting++;
    pthread_cond_broadcast(&hook.changed);
    while (piece->offset_bytes >= hook.stop_from)
        pthread_cond_wait(&hook.changed, &hook.mutex);
    hook.n_waiting--;
    random = test_random(&hook.seed);
    if (hook.one_in && random % hook.one_in == 0)
        fault = (LayerFault)(1 + (random >> 32) % (N_FAULTS - 1));
    if (piece->offset_bytes >= hook.fail_from && piece->offset_bytes < hook.fail_to)
        fault = FAULT_EIO;
    hook.n_faults[fault]++;
    pthread_mutex_unlock(&hook.mutex);
    switch (fault) {
    case FAULT_SHORT_READ:
        n_read = n_read > 0 ? (ssize_t)((random >> 40) % (uint64_t)n_read) : 0;
        memset(piece->buffer + n_read, 0xee, piece->len_bytes - (size_t)n_read);
        break;
    case FAULT_SHORT_FILE:
        return EXTENT_E_SHORT;
    case FAULT_EIO:
        return -EIO;
    default:
        break;
    }
    return __real_extent_finish_piece(reader, piece, n_read);
}

void layer_faults_reset(void) {
    pthread_mutex_lock(&hook.mutex);
    hook.seed = 99;
    hook.one_in = 0;
    hook.fail_from = hook.fail_to = 0;
    memset(hook.n_faults, 0, sizeof(hook.n_faults));
    hook.stop_from = UINT64_MAX;
    pthread_cond_broadcast(&hook.changed);
    pthread_mutex_unlock(&hook.mutex);
}

void layer_gate_stop_from(uint64_t offset_bytes) {
    pthread_mutex_lock(&hook.mutex);
    hook.stop_from = offset_bytes;
    pthread_cond_broadcast(&hook.changed);
    pthread_mutex_unlock(&hook.mutex);
}

void layer_gate_wait(void) {
    pthread_mutex_lock(&hook.mutex);
    while (!hook.n_waiting)
        pthread_cond_wait(&hook.changed, &hook.mutex);
    pthread_mutex_unlock(&hook.mutex);
}

void layer_faults_between(uint64_t from, uint64_t to) {
    pthread_mutex_lock(&hook.mutex);
    hook.fail_from = from;
    hook.fail_to = to;
    pthread_mutex_unlock(&hook.mutex);
}

void layer_faults_one_in(unsigned int n) {
    pthread_mutex_lock(&hook.mutex);
    hook.one_in = n;
    pthread_mutex_unlock(&hook.mutex);
}

size_t layer_faults_seen(LayerFault fault) {
    size_t n;

    pthread_mutex_lock(&hook.mutex);
    n = hook.n_faults[fault];
    pthread_mutex_unlock(&hook.mutex);
    return n;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

int layer_fixture_setup(void **state) {
    static const size_t sizes[N_LAYERS] = { 64,      4096,           100000 / 64 * 64, (2 << 20) - 64,
                                            2 << 20, (5 << 20),      (3 << 20) + 64,   (4 << 20) + 4096,
                                            700032,  (2 << 20) + 64, 12345 * 64,       (4 << 20) - 192 };
    uint64_t seed = 28, at = 4096 + 64;

    test_folder_make(layer_fixture.folder);
    snprintf(layer_fixture.path, sizeof(layer_fixture.path), "%s/layers", layer_fixture.folder);
    for (size_t i = 0; i < N_LAYERS; i++) {
        layer_fixture.layers[i] = (LayerExtent){ at, sizes[i], (uint32_t)(100 + i) };
        at += sizes[i] + test_random(&seed) % 3 * 64;
    }
    layer_fixture.len_bytes = (size_t)at;
    layer_fixture.bytes = malloc(layer_fixture.len_bytes + 8);
    assert_non_null(layer_fixture.bytes);
    for (size_t i = 0; i < layer_fixture.len_bytes; i += 8) {
        const uint64_t word = test_random(&seed);

        memcpy(layer_fixture.bytes + i, &word, 8);
    }
    test_write_file(layer_fixture.folder, "layers", layer_fixture.bytes, layer_fixture.len_bytes);
    layer_fixture.fd = open(layer_fixture.path, O_RDONLY | O_CLOEXEC);
    assert_true(layer_fixture.fd >= 0);
    layer_fixture.slots = aligned_alloc(EXTENT_ALIGNMENT, (size_t)LAYER_SLOTS_MAX * SLOT_BYTES);
    assert_non_null(layer_fixture.slots);
    layer_faults_reset();
    return 0;
}

int layer_fixture_teardown(void **state) {
    close(layer_fixture.fd);
    free(layer_fixture.slots);
    free(layer_fixture.bytes);
    test_folder_remove(layer_fixture.folder);
    return 0;
}

int layer_fixture_reset(void **state) {
    layer_faults_reset();
    return 0;
}

LayerReaderOptions layer_fixture_options(ExtentWay way, size_t n_layers, size_t n_slots) {
    return (LayerReaderOptions){ .fd = layer_fixture.fd,
                                 .path = layer_fixture.path,
                                 .layers = layer_fixture.layers,
                                 .n_layers = n_layers,
                                 .slots = layer_fixture.slots,
                                 .slot_bytes = SLOT_BYTES,
                                 .n_slots = n_slots,
                                 .way = way };
}

LayerReader *layer_fixture_open(const LayerReaderOptions *options) {
    static bool told;
    LayerReader *reader = NULL;
    ErrText err = { 0 };
    int r = layer_reader_new(&reader, options, &err);

    if (r == -EOPNOTSUPP && options->way == EXTENT_WAY_URING) {
        if (!told)
            print_message("left out: %s\n", err.text);
        told = true;
        return NULL;
    }
    if (r)
        fail_msg("%s", err.text);
    return reader;
}

const ExtentWay layer_ways[2] = { EXTENT_WAY_URING, EXTENT_WAY_THREADS };

void layer_fixture_check(size_t index, const uint8_t *data) {
    const LayerExtent *layer = &layer_fixture.layers[index];

    assert_int_equal((uintptr_t)data % EXTENT_ALIGNMENT, layer->offset_bytes % EXTENT_ALIGNMENT);
    assert_memory_equal(data, layer_fixture.bytes + layer->offset_bytes, layer->len_bytes);
}

int layer_fixture_hold(LayerReader *reader, size_t index, const uint8_t **datap, ErrText *err) {
    int r;

    do
        r = layer_reader_hold(reader, index, NOT_SOON, datap, err);
    while (r == LAYER_READER_E_WAITING);
    return r;
}

const uint8_t *layer_fixture_hold_whole(LayerReader *reader, size_t index) {
    const uint8_t *data = NULL;
    ErrText err = { 0 };

    if (layer_fixture_hold(reader, index, &data, &err))
        fail_msg("%s", err.text);
    layer_fixture_check(index, data);
    return data;
}

size_t layer_fixture_pieces(size_t index) {
    const LayerExtent *layer = &layer_fixture.layers[index];

    return (extent_room_bytes(layer->offset_bytes, layer->len_bytes) + PIECE_BYTES - 1) / PIECE_BYTES;
}
