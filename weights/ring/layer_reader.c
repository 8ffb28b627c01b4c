// SPDX-License-Identifier: Apache-2.0
/*
 * A thread reads layers piece by piece, in the order that `layer_slots` decides. Several pieces are under way at a
 * time, of one layer or of the next ones, so that the disk has work as long as a slot has room: neither the end of a
 * layer nor the end of a sweep is a gap. Pieces are waited for in the order of their requests, and count as come in
 * that order.
 *
 * The mutex guards the slots and the counts. The extent reader and the pieces under way are the thread's alone. The
 * bytes of a slot are written without the mutex, and read by whoever holds the layer, when all its pieces have come.
 *
 * The file is checked again when a layer's last piece was read, before the layer counts as read: a layer of a file that
 * has another length or other times by then is not used. A file without a name (removed, or replaced as a package is)
 * serves on: the open file is the same, and file_check_same() takes its new ctime over.
 */
#define _GNU_SOURCE
#include "weights/ring/layer_reader.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/files/file_io.h"
#include "base/files/reader_thread.h"
#include "base/min_max.h"
#include "base/system/thread.h"

enum {
    PIECE_BYTES = 2 << 20,
    DEPTH = 8,   /* pieces that the disk has */
    WINDOW = 16, /* pieces asked for: the disk ends them in its own order, and must not run out of work meanwhile */
    REPEAT_NS = 1000000,   /* of wait_for_piece() */
    RESULT_CHANGED = 1000, /* of a piece, beside those of the extent reader: the file is another one by now */
    RESULT_DAMAGED,        /* of a layer's last piece: the layer is damaged */
};

/* A piece that is under way. */
typedef struct LayerPiece {
    Extent extent;
    LayerSlot *slot;
    size_t layer; /* the slot's layer when the piece begins; the layer may be given up meanwhile */
    size_t index; /* among the layer's pieces */
    bool is_last; /* of the layer's pieces */
    bool is_read; /* with `result`; the piece counts as come from due_ns on */
    int result;
    uint64_t due_ns;
} LayerPiece;

struct LayerReader {
    ReaderThread thread; /* work: slots, the circle or is_stopping have changed; came: a piece has come */
    LayerExtent *layers; /* [n_layers]; const, as is memory */
    uint8_t *memory;     /* [n_slots][slot_bytes], the caller's */
    size_t slot_bytes;
    bool (*is_whole)(void *arg, size_t index, const uint8_t *data);
    void *arg;
    /* The thread's. */
    LayerPiece pieces[WINDOW]; /* a ring */
    size_t first, n_under_way;
    /* Under the mutex. */
    LayerSlots slots;
    ReadLimiter limiter;
    LayerReaderCounts counts; /* without n_in_vain, and without the time since busy_ns */
    uint64_t busy_ns;         /* 0: nothing is under way */
};

/* --- pieces ------------------------------------------------------------------------------------------------------- */

static size_t pieces_of(const LayerExtent *layer) {
    return (extent_room_bytes(layer->offset_bytes, layer->len_bytes) + PIECE_BYTES - 1) / PIECE_BYTES;
}

/* Returns the bytes of a layer before its piece `index`. Pieces begin at multiples of EXTENT_ALIGNMENT, in file and
 * slot. */
static uint64_t piece_begin(const LayerExtent *layer, size_t index) {
    return index ? (uint64_t)index * PIECE_BYTES - layer->offset_bytes % EXTENT_ALIGNMENT : 0;
}

static uint64_t piece_end(const LayerExtent *layer, size_t index) {
    const uint64_t end_bytes = piece_begin(layer, index + 1);

    return MIN(end_bytes, layer->len_bytes);
}

static uint8_t *memory_of(const LayerReader *reader, const LayerSlot *slot) {
    return reader->memory + (size_t)(slot - reader->slots.slots) * reader->slot_bytes;
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* A limited disk has fewer requests, so that another layer is reached sooner. */
static size_t window_of(const LayerReader *reader) {
    return reader->limiter.limit.bytes_per_s ? DEPTH : WINDOW;
}

/* Asks the disk for the next piece, if there is one. Under the mutex, but for the call itself. */
static bool begin_piece(LayerReader *reader) {
    LayerPiece *piece = &reader->pieces[(reader->first + reader->n_under_way) % WINDOW];
    const LayerExtent *layer;
    size_t index;
    LayerSlot *slot = layer_slots_begin(&reader->slots, &index);
    int r;

    if (!slot)
        return false;
    layer = &reader->layers[slot->layer];
    *piece =
        (LayerPiece){ .slot = slot, .layer = slot->layer, .index = index, .is_last = index + 1 == pieces_of(layer) };
    piece->extent.offset_bytes = layer->offset_bytes + piece_begin(layer, index);
    piece->extent.len_bytes = (size_t)(piece_end(layer, index) - piece_begin(layer, index));
    piece->extent.buffer = memory_of(reader, slot) + index * PIECE_BYTES;
    piece->due_ns = read_limiter_ask(&reader->limiter, piece->extent.len_bytes);
    if (!reader->n_under_way++)
        reader->busy_ns = clock_now_ns();
    pthread_mutex_unlock(&reader->thread.mutex);
    r = extent_reader_submit(reader->thread.extents, &piece->extent, NULL);
    piece->is_read = r != 0;
    piece->result = r;
    pthread_mutex_lock(&reader->thread.mutex);
    return true;
}

static const uint8_t *data_of(const LayerReader *reader, const LayerSlot *slot, size_t layer) {
    return memory_of(reader, slot) + reader->layers[layer].offset_bytes % EXTENT_ALIGNMENT;
}

/* Checks a layer at its last piece. Pieces are waited for in their order, so that the whole layer is there. */
static int check_layer(const LayerReader *reader, const LayerPiece *piece) {
    const uint8_t *data = data_of(reader, piece->slot, piece->layer);

    return !reader->is_whole || reader->is_whole(reader->arg, piece->layer, data) ? 0 : RESULT_DAMAGED;
}

static void read_piece(LayerReader *reader, LayerPiece *piece) {
    pthread_mutex_unlock(&reader->thread.mutex);
    piece->result = extent_reader_wait(reader->thread.extents, &piece->extent, NULL);
    if (!piece->result && piece->is_last)
        piece->result = file_check_same(reader->thread.fd, &reader->thread.known);
    if (piece->result == FILE_E_CHANGED)
        piece->result = RESULT_CHANGED;
    if (!piece->result && piece->is_last)
        piece->result = check_layer(reader, piece);
    piece->is_read = true;
    pthread_mutex_lock(&reader->thread.mutex);
}

static void end_piece(LayerReader *reader, const LayerPiece *piece) {
    reader->first = (reader->first + 1) % WINDOW;
    if (!--reader->n_under_way) {
        reader->counts.reading_ns += clock_now_ns() - reader->busy_ns;
        reader->busy_ns = 0;
    }
    if (!piece->result) {
        reader->counts.read_bytes += piece->extent.len_bytes;
        reader->counts.n_reads++;
    }
    layer_slots_came(&reader->slots, piece->slot, piece->index, piece->result);
    pthread_cond_broadcast(&reader->thread.came);
}

static void step(void *arg) {
    LayerReader *reader = arg;
    LayerPiece *piece = &reader->pieces[reader->first];

    if (reader->n_under_way < window_of(reader) && begin_piece(reader))
        return;
    if (!reader->n_under_way) {
        pthread_cond_wait(&reader->thread.work, &reader->thread.mutex);
    } else if (!piece->is_read) {
        read_piece(reader, piece);
    } else if (piece->due_ns > read_limiter_now(&reader->limiter)) {
        (void)thread_cond_wait_until(&reader->thread.work, &reader->thread.mutex, piece->due_ns);
    } else {
        end_piece(reader, piece);
    }
}

/* --- object ------------------------------------------------------------------------------------------------------- */

/* Waits for the pieces that are under way. */
LayerReader *layer_reader_free(LayerReader *reader) {
    if (!reader)
        return NULL;
    reader_thread_deinit(&reader->thread);
    layer_slots_deinit(&reader->slots);
    free(reader->layers);
    free(reader);
    return NULL;
}

static int check_options(const LayerReaderOptions *options, ErrText *err) {
    const uint64_t end_of_files = INT64_MAX - EXTENT_ALIGNMENT;

    if (!options->n_layers || options->n_slots < 2 || options->n_slots > LAYER_SLOTS_MAX)
        return err_set(err, -EINVAL, "%s: %zu slots for %zu layers: 2 to %d slots are possible", options->path,
                       options->n_slots, options->n_layers, LAYER_SLOTS_MAX);
    if ((uintptr_t)options->slots % EXTENT_ALIGNMENT || options->slot_bytes % EXTENT_ALIGNMENT)
        return err_set(err, -EINVAL, "%s: slots of %zu bytes that are not aligned to %d", options->path,
                       options->slot_bytes, EXTENT_ALIGNMENT);
    for (size_t i = 0; i < options->n_layers; i++) {
        const LayerExtent *layer = &options->layers[i];

        if (!layer->len_bytes || layer->offset_bytes > end_of_files ||
            layer->len_bytes > end_of_files - layer->offset_bytes ||
            extent_room_bytes(layer->offset_bytes, layer->len_bytes) > options->slot_bytes)
            return err_set(err, -EINVAL, "%s: layer %u: %zu bytes at %" PRIu64 " are not for a slot of %zu bytes",
                           options->path, layer->number, layer->len_bytes, layer->offset_bytes, options->slot_bytes);
    }
    return 0;
}

static int copy_options(LayerReader *reader, const LayerReaderOptions *options) {
    reader->is_whole = options->is_whole;
    reader->arg = options->arg;
    reader->memory = options->slots;
    reader->slot_bytes = options->slot_bytes;
    read_limiter_init(&reader->limiter, options->limit, NULL, NULL);
    reader->layers = calloc(options->n_layers, sizeof(reader->layers[0]));
    if (!reader->layers || layer_slots_init(&reader->slots, options->n_layers, options->n_slots))
        return -ENOMEM;
    for (size_t i = 0; i < options->n_layers; i++) {
        reader->layers[i] = options->layers[i];
        reader->slots.layers[i].n_pieces = pieces_of(&options->layers[i]);
    }
    return 0;
}

/**
 * layer_reader_new() - reads of the first layers, as many as there are slots, begin at once
 * @options: what it points to is copied, but for the slots, which are the reader's until layer_reader_free()
 *
 * Memory: some 10 KB, a ring of 8 entries or 4 threads, and a thread that needs little stack. Nothing is locked in
 * memory but by the kernel, while it reads.
 * Return: 0; -EINVAL: options that cannot be, with a text; -EOPNOTSUPP: the way that was asked for by name is not
 * there; -errno.
 */
int layer_reader_new(LayerReader **readerp, const LayerReaderOptions *options, ErrText *err) {
    const ExtentReaderOptions extents = { .way = options->way, .depth = DEPTH, .piece_bytes = PIECE_BYTES };
    _cleanup_(layer_reader_freep) LayerReader *reader = NULL;
    int r = check_options(options, err);

    if (r)
        return r;
    reader = calloc(1, sizeof(*reader));
    if (!reader)
        return err_set(err, -ENOMEM, "%s: out of memory", options->path);
    r = reader_thread_init(&reader->thread, options->fd, options->path, &extents, err);
    if (r)
        return r == EXTENT_E_REFUSED ? -EOPNOTSUPP : r;
    if (copy_options(reader, options))
        return err_set(err, -ENOMEM, "%s: out of memory", options->path);
    r = reader_thread_start(&reader->thread, "layer-reader", "reads layers", step, reader, err);
    if (r)
        return r;
    *readerp = steal(&reader);
    return 0;
}

const char *layer_reader_way(const LayerReader *reader) {
    return extent_reader_way(reader->thread.extents);
}

LayerReaderCounts layer_reader_counts(const LayerReader *reader) {
    LayerReader *shared = (LayerReader *)reader;
    LayerReaderCounts counts;

    pthread_mutex_lock(&shared->thread.mutex);
    counts = shared->counts;
    counts.n_in_vain = shared->slots.n_in_vain;
    if (shared->busy_ns)
        counts.reading_ns += clock_now_ns() - shared->busy_ns;
    pthread_mutex_unlock(&shared->thread.mutex);
    return counts;
}

void layer_reader_set_limit(LayerReader *reader, ReadLimit limit) {
    pthread_mutex_lock(&reader->thread.mutex);
    read_limiter_set(&reader->limiter, limit);
    pthread_mutex_unlock(&reader->thread.mutex);
}

/* --- use ---------------------------------------------------------------------------------------------------------- */

static int tell_failure(const LayerReader *reader, const LayerSlot *slot, ErrText *err) {
    const LayerExtent *layer = &reader->layers[slot->layer];

    switch (slot->result) {
    case EXTENT_E_SHORT:
        return err_set(err, LAYER_READER_E_FILE,
                       "%s: layer %u: the file ends before byte %" PRIu64
                       ": it was cut short; copy it again, or import the model again",
                       reader->thread.path, layer->number, layer->offset_bytes + layer->len_bytes);
    case RESULT_CHANGED:
        return err_set(err, LAYER_READER_E_FILE,
                       "%s: layer %u: the file was changed while it was in use; load the model again",
                       reader->thread.path, layer->number);
    case RESULT_DAMAGED:
        return err_set(err, LAYER_READER_E_FILE,
                       "%s: layer %u is not as it was written: the file is damaged; load the model again, which makes "
                       "it anew",
                       reader->thread.path, layer->number);
    default:
        assert(slot->result < 0);
        return err_set(err, slot->result,
                       "%s: layer %u: cannot read at byte %" PRIu64
                       ": %s; try again, and if that fails look at the disk and import the model again",
                       reader->thread.path, layer->number, layer->offset_bytes + piece_begin(layer, slot->failed_piece),
                       strerror(-slot->result));
    }
}

/* Waits until a piece of the layer has come or failed. If the layer is in no slot and nothing is under way, the slots
 * may be kept for users that have gone. Then every millisecond of waiting counts as another call, so that the time for
 * which slots are kept does not depend on wait_ns. */
static void wait_for_piece(LayerReader *reader, size_t index, uint64_t wait_ns) {
    const uint64_t now_ns = clock_now_ns(), until_ns = wait_ns < UINT64_MAX - now_ns ? now_ns + wait_ns : UINT64_MAX;
    const SlotLayer *layer = &reader->slots.layers[index];
    const uint64_t n_came = layer->n_came;
    int n_repeats = 0;

    while (layer->n_came == n_came && !layer_slots_ended(&reader->slots, index)) {
        const bool repeats = layer->slot == LAYER_SLOTS_NONE && !reader->busy_ns && n_repeats <= LAYER_SLOTS_STALE_ASKS;
        const uint64_t repeat_ns = clock_now_ns() + REPEAT_NS;
        const bool is_last = !repeats || repeat_ns >= until_ns;

        if (thread_cond_wait_until(&reader->thread.came, &reader->thread.mutex, is_last ? until_ns : repeat_ns) !=
            ETIMEDOUT) {
            n_repeats = 0; /* a piece of another layer */
        } else if (is_last) {
            return;
        } else {
            n_repeats++;
            (void)layer_slots_ask(&reader->slots, index);
            pthread_cond_signal(&reader->thread.work);
        }
    }
}

/**
 * layer_reader_hold() - hold a layer in its slot
 * @index:   of the layers
 * @wait_ns: how long at most; 0: only look, and have it read
 * @datap:   out: its first byte, at the place in a unit of EXTENT_ALIGNMENT that it has in the file, and all others
 *           behind it
 *
 * Each success needs a layer_reader_release(). While every slot is held no other layer comes. Callers that want
 * different layers in turns all get theirs: a layer that one of them waits for is not given up for another
 * (layer_slots). An error may have happened before the call, while the layer was read ahead. The next call for that
 * layer tells the error once, and the call after that reads again. Layers in other slots stay valid.
 * Return: 0; LAYER_READER_E_WAITING, without a text; LAYER_READER_E_FILE; -errno of the read.
 */
int layer_reader_hold(LayerReader *reader, size_t index, uint64_t wait_ns, const uint8_t **datap, ErrText *err) {
    LayerSlot *slot;
    int r = 0;

    assert(index < reader->slots.n_layers);
    pthread_mutex_lock(&reader->thread.mutex);
    slot = layer_slots_ask(&reader->slots, index);
    if (!slot) {
        pthread_cond_signal(&reader->thread.work);
        if (wait_ns)
            wait_for_piece(reader, index, wait_ns);
        slot = layer_slots_ended(&reader->slots, index);
    }
    if (!slot) {
        r = LAYER_READER_E_WAITING;
    } else if (slot->result) {
        r = tell_failure(reader, slot, err);
        layer_slots_told(&reader->slots, slot);
    } else {
        layer_slots_hold(&reader->slots, slot);
        *datap = data_of(reader, slot, index);
    }
    pthread_cond_signal(&reader->thread.work);
    pthread_mutex_unlock(&reader->thread.mutex);
    return r;
}

void layer_reader_release(LayerReader *reader, size_t index) {
    assert(index < reader->slots.n_layers);
    pthread_mutex_lock(&reader->thread.mutex);
    layer_slots_release(&reader->slots, index);
    pthread_cond_signal(&reader->thread.work);
    pthread_mutex_unlock(&reader->thread.mutex);
}
