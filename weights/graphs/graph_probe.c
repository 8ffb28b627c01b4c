// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "weights/graphs/graph_probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/files/extent_reader.h"
#include "base/files/file_note.h"
#include "base/min_max.h"
#include "base/strings/decimal.h"
#include "quant/format/ggml_type.h"
#include "quant/format/pack.h"

enum {
    PROBE_PIECES = 16, /* that are read, at most */
    PROBE_TRIES = 3,   /* the least time counts, for other programs use the machine, too */
};

#define PICO_MAX UINT64_C(1000000000) /* picoseconds: a millisecond a byte, or a weight */

typedef struct Probing {
    const GraphPiece *pieces;
    size_t n_pieces, n_expanded; /* the first n_expanded pieces are expanded */
    uint64_t len_bytes;
    size_t room_bytes; /* for a piece */
    AccountedBlock read, expanded;
    Extent extents[PROBE_PIECES];
} Probing;

static void probing_deinit(Probing *probing) {
    accounted_block_deinit(&probing->read);
    accounted_block_deinit(&probing->expanded);
}

static uint8_t *read_at(const Probing *probing, size_t index) {
    const uintptr_t at = (uintptr_t)probing->read.data;

    return (uint8_t *)probing->read.data + (EXTENT_ALIGNMENT - at % EXTENT_ALIGNMENT) + index * probing->room_bytes;
}

/* Reads the first n pieces at once. Returns the time, or 0 on failure. */
static uint64_t read_some(Probing *probing, ExtentReader *reader, size_t n) {
    const uint64_t start_ns = clock_now_ns();
    size_t n_asked;
    int r = 0;

    for (n_asked = 0; n_asked < n && !r; n_asked += !r) {
        const GraphPiece *piece = &probing->pieces[n_asked];

        probing->extents[n_asked] = (Extent){ .offset_bytes = piece->offset_bytes,
                                              .len_bytes = piece->len_bytes,
                                              .buffer = read_at(probing, n_asked) };
        r = extent_reader_submit(reader, &probing->extents[n_asked], NULL);
    }
    for (size_t i = 0; i < n_asked; i++)
        r = extent_reader_wait(reader, &probing->extents[i], NULL) ? -1 : r;
    return r ? 0 : clock_now_ns() - start_ns + 1;
}

/* Returns the time to read the pieces, or 0 on failure. A first read is not counted: it sets the reader up. */
static uint64_t read_pieces(Probing *probing, int fd, const char *path) {
    _cleanup_(extent_reader_freep) ExtentReader *reader = NULL;

    if (extent_reader_new(&reader, fd, path, &(ExtentReaderOptions){ 0 }, NULL) || !read_some(probing, reader, 1))
        return 0;
    return read_some(probing, reader, probing->n_pieces);
}

/* Returns the time to expand the pieces. */
static uint64_t expand_pieces(Probing *probing, const Backend *backend, const BackendLinear *linear) {
    uint64_t least_ns = UINT64_MAX;

    for (int i = 0; i < PROBE_TRIES; i++) {
        const uint64_t start_ns = clock_now_ns();
        uint64_t ns;

        for (size_t p = 0; p < probing->n_expanded; p++)
            (void)backend->ops->linear_expand(backend, linear, probing->pieces[p].begin, probing->pieces[p].end,
                                              probing->extents[p].data, probing->expanded.data);
        ns = clock_now_ns() - start_ns + 1;
        least_ns = MIN(ns, least_ns);
    }
    return least_ns;
}

/* Makes a matrix as the device will have it, without its weights. NULL on failure. */
static BackendLinear *new_linear(Backend *backend, const StreamMatrix *matrix, size_t image_bytes) {
    _cleanup_(freep) float *scales = calloc(matrix->n, sizeof(*scales));
    BackendLinear *linear = NULL;

    if (!scales || backend->ops->linear_begin(backend, &linear,
                                              &(LinearSource){ .name = "of a probe",
                                                               .n = matrix->n,
                                                               .k = matrix->k,
                                                               .type = GGML_I8,
                                                               .scales = scales,
                                                               .bits = matrix->bits,
                                                               .grid = matrix->grid,
                                                               .image_bytes = image_bytes,
                                                               .streamed = true,
                                                               .expanded = true,
                                                               .activations = { .scale = 1 } },
                                              NULL))
        return NULL;
    return linear;
}

static bool try_pieces(GraphProbe *probe, Backend *backend, int fd, const char *path, const GraphPiece *pieces,
                       size_t n_pieces, const StreamMatrix *matrix, size_t image_bytes) {
    _cleanup_(probing_deinit) Probing probing = { .pieces = pieces, .n_pieces = MIN(n_pieces, PROBE_PIECES) };
    uint64_t read_ns, expand_ns;
    BackendLinear *linear;
    size_t n_outputs;

    for (size_t i = 0; i < probing.n_pieces; i++) {
        const size_t room_bytes = extent_room_bytes(pieces[i].offset_bytes, pieces[i].len_bytes);

        probing.n_expanded += pieces[i].matrix == pieces[0].matrix;
        probing.len_bytes += pieces[i].len_bytes;
        probing.room_bytes = MAX(room_bytes, probing.room_bytes);
    }
    if (accounted_block_init(&probing.read, backend->accounts, ACCOUNT_ACTIVATIONS,
                             probing.n_pieces * probing.room_bytes + EXTENT_ALIGNMENT) ||
        accounted_block_init(&probing.expanded, backend->accounts, ACCOUNT_ACTIVATIONS, image_bytes))
        return false;
    memset(probing.read.data, 1, probing.read.len_bytes); /* page faults are not to be measured */
    read_ns = read_pieces(&probing, fd, path);
    linear = read_ns ? new_linear(backend, matrix, image_bytes) : NULL;
    if (!linear)
        return false;
    expand_ns = expand_pieces(&probing, backend, linear);
    backend->ops->linear_free(linear);
    n_outputs = pieces[probing.n_expanded - 1].end * PACK_BLOCK_CHANNELS;
    n_outputs = MIN(n_outputs, matrix->n);
    *probe = (GraphProbe){ .bytes_per_s = (double)probing.len_bytes * 1e9 / (double)read_ns,
                           .expand_ns_per_weight = (double)expand_ns / ((double)n_outputs * (double)matrix->k) };
    return true;
}

/* Reads "KEY: picoseconds a byte, picoseconds a weight"; any other text is ignored. */
static bool read_note(GraphProbe *probe, const char *key, const char *text) {
    const size_t key_bytes = strlen(key);
    uint64_t byte_ps, weight_ps;

    if (strncmp(text, key, key_bytes) != 0 || strncmp(text + key_bytes, ": ", 2) != 0)
        return false;
    text = decimal_read_u64(text + key_bytes + 2, &byte_ps);
    text = text && *text == ' ' ? decimal_read_u64(text + 1, &weight_ps) : NULL;
    if (!text || *text || !byte_ps || !weight_ps || byte_ps > PICO_MAX || weight_ps > PICO_MAX)
        return false;
    *probe = (GraphProbe){ .bytes_per_s = 1e12 / (double)byte_ps, .expand_ns_per_weight = (double)weight_ps / 1e3 };
    return true;
}

bool graph_probe(GraphProbe *probe, Backend *backend, int fd, const char *path, const GraphPiece *pieces,
                 size_t n_pieces, const StreamMatrix *matrix, size_t image_bytes, const char *notes) {
    char text[FILE_NOTE_BYTES_MAX], key[96];
    struct stat st;

    snprintf(key, sizeof(key), "1 %s %.40s", backend->ops->name, backend->ops->kernel(backend));
    if (fstat(fd, &st) < 0)
        return false;
    if (notes && file_note_recall(notes, &st, text, sizeof(text)) && read_note(probe, key, text))
        return true;
    if (!try_pieces(probe, backend, fd, path, pieces, n_pieces, matrix, image_bytes))
        return false;
    snprintf(text, sizeof(text), "%s: %.0f %.0f", key, fmax(1, 1e12 / probe->bytes_per_s),
             fmax(1, probe->expand_ns_per_weight * 1e3));
    if (notes)
        file_note_remember(notes, &st, text);
    return true;
}
