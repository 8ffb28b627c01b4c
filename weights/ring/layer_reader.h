// SPDX-License-Identifier: Apache-2.0
/* Reads the layers of a file that is larger than the memory for it: a thread of its own reads them into a ring of
 * slots, ahead of use, in a circle. */
#ifndef COORDGEN_WEIGHTS_LAYER_READER_H
#define COORDGEN_WEIGHTS_LAYER_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/files/extent_reader.h"
#include "base/files/read_limiter.h"
#include "scheduler/graphs/layer_slots.h"

enum {
    LAYER_READER_E_WAITING = 1, /* the layer is on its way */
    LAYER_READER_E_FILE = 2,    /* the file was cut short, is another one by now, or is damaged; the text names file and
                                 * layer */
};

/* The place of a layer in the file. */
typedef struct LayerExtent {
    uint64_t offset_bytes;
    size_t len_bytes;
    uint32_t number; /* of the layer, for messages */
} LayerExtent;

typedef struct LayerReaderOptions {
    int fd;                    /* stays the caller's */
    const char *path;          /* for messages; copied */
    const LayerExtent *layers; /* [n_layers] in the order of use; copied */
    size_t n_layers;
    void *slots;       /* [n_slots][slot_bytes], aligned to EXTENT_ALIGNMENT; the caller's. On huge pages (as an
                        * AccountedBlock is) a disk of 2 GB/s is read almost twice as fast */
    size_t slot_bytes; /* a multiple of EXTENT_ALIGNMENT, extent_room_bytes() of the largest layer */
    size_t n_slots;    /* 2..LAYER_SLOTS_MAX; with as many as layers, or more, each is read once */
    ExtentWay way;     /* EXTENT_WAY_ANY but in tests */
    ReadLimit limit;   /* makes reads as slow as a slower disk's */
    /* Whether a layer that was read (index into `layers`, its first byte) may be used; NULL: every layer may. Thread:
     * the reader's own. */
    bool (*is_whole)(void *arg, size_t index, const uint8_t *data);
    void *arg;
} LayerReaderOptions;

typedef struct LayerReader LayerReader;

/* Makes a reader, whose reads begin with the first layers. 0, -errno. */
int layer_reader_new(LayerReader **readerp, const LayerReaderOptions *options, ErrText *err);
LayerReader *layer_reader_free(LayerReader *reader);
DEFINE_CLEANUP(LayerReader, layer_reader_free)

/* Holds a layer (index into `layers`) until layer_reader_release(): 0, and the place of its first byte. Layers are
 * expected in their order, round and round; any other layer is read as soon as possible, and layers that were read
 * ahead in vain are read again later. LAYER_READER_E_WAITING: the layer is not there within wait_ns, or a piece of it
 * has come: ask again. LAYER_READER_E_FILE, -errno, with a text: the layer could not be read, and nothing is held; the
 * next call tries again. Thread: one at a time, for all calls. */
int layer_reader_hold(LayerReader *reader, size_t index, uint64_t wait_ns, const uint8_t **datap, ErrText *err);
/* Releases a layer: its slot may have another layer now. */
void layer_reader_release(LayerReader *reader, size_t index);

/* Counts since the reader was made. */
typedef struct LayerReaderCounts {
    uint64_t read_bytes, n_reads; /* reads of pieces */
    uint64_t reading_ns;          /* while at least one read was under way */
    uint64_t n_in_vain;           /* layers that were read and not held */
} LayerReaderCounts;
LayerReaderCounts layer_reader_counts(const LayerReader *reader);
/* Changes the limit from the next piece on. */
void layer_reader_set_limit(LayerReader *reader, ReadLimit limit);
/* Returns the way of reading, as extent_reader has it: "io_uring, direct". */
const char *layer_reader_way(const LayerReader *reader);

#endif
