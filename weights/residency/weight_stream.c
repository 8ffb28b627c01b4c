// SPDX-License-Identifier: Apache-2.0
/*
 * The weights of a package lie in the order of use, the layers one after the other. The stream cuts them into pieces of
 * whole blocks and reads a ring of pieces ahead. All workers lay out the first piece when it is there, while the disk
 * goes on reading. A cold load therefore takes the disk's time, or the processors', whichever is longer.
 *
 * A piece that is in the page cache is not read ahead: O_DIRECT would fetch it from the disk once more, and one thread
 * would copy it. Instead, each worker copies a little at a time and lays it out from its own cache. Files are often in
 * memory in part, so each piece is looked up when its turn in the ring comes (page_cache).
 *
 * Memory: RING_PIECES times PIECE_BYTES of staging, touched only where something is read ahead, and COPY_BYTES a
 * thread; less when no matrix is as large, more when a block of 16 rows is larger.
 */
#include "weights/residency/weight_stream.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/files/extent_reader.h"
#include "base/files/file_io.h"
#include "base/files/page_cache.h"
#include "base/memory/account_refusal.h"
#include "base/min_max.h"
#include "quant/format/pack.h"

enum {
    RING_PIECES = 8,
    PIECE_BYTES = 4 << 20,
    COPY_BYTES = 256 << 10,
    READ_BYTES = 2 << 20, /* of one request to the disk */
    WAIT_NS = 2000000,
    WAITING_SHARE = 4, /* a good share of the time is one part in so many */
};

typedef struct StreamPiece {
    size_t matrix, begin, end; /* blocks */
    bool is_cached;
    uint64_t asked_ns; /* of a read, for a trace */
    uint64_t due_ns;   /* when a slower disk would have it */
    Extent extent;
} StreamPiece;

struct WeightStream {
    WeightStreamOptions options;
    const StreamMatrix *matrices;
    PackPlan *plans; /* [n]: of packed matrices, from planning to use */
    size_t n;
    size_t at;                      /* matrix that is filled next */
    size_t plan_matrix, plan_block; /* first block that is not in the ring yet */
    StreamPiece pieces[RING_PIECES];
    size_t first_piece, n_pieces;
    size_t slot_bytes, copy_bytes;
    AccountedBlock staging; /* [RING_PIECES][slot_bytes] */
    AccountedBlock copies;  /* [n_threads][copy_bytes] */
    ExtentReader *reader;   /* NULL until something must be read ahead */
    uint64_t cached_bytes, read_bytes;
    uint64_t start_ns, waited_ns; /* start of the stream; time spent waiting for reads */
    const char *way;
};

static size_t n_blocks_of(const StreamMatrix *matrix) {
    return (matrix->n + PACK_BLOCK_CHANNELS - 1) / PACK_BLOCK_CHANNELS;
}

/* Returns where a block begins, from the matrix's first byte; for the block after the last one, the matrix's end. */
static uint64_t block_offset(const WeightStream *stream, size_t index, size_t block) {
    const StreamMatrix *matrix = &stream->matrices[index];
    const size_t row = block * PACK_BLOCK_CHANNELS;

    if (matrix->bits)
        return stream->plans[index].offsets[block];
    return (uint64_t)(MIN(row, matrix->n)) * matrix->k;
}

/* --- object ------------------------------------------------------------------------------------------------------- */

WeightStream *weight_stream_free(WeightStream *stream) {
    if (!stream)
        return NULL;
    if (stream->reader)
        worker_pool_end_reading(stream->options.pool);
    extent_reader_free(stream->reader); /* before its buffers */
    for (size_t i = 0; stream->plans && i < stream->n; i++)
        pack_plan_deinit(&stream->plans[i]);
    free(stream->plans);
    accounted_block_deinit(&stream->staging);
    accounted_block_deinit(&stream->copies);
    free(stream);
    return NULL;
}

/**
 * weight_stream_new() - a stream over matrices that lie in this order in the file
 *
 * Thread: all calls from the one that owns options->pool.
 * Return: 0, WEIGHT_STREAM_E_MEMORY, -ENOMEM.
 */
int weight_stream_new(WeightStream **streamp, const WeightStreamOptions *options, const StreamMatrix *matrices,
                      size_t n, ErrText *err) {
    _cleanup_(weight_stream_freep) WeightStream *stream = calloc(1, sizeof(*stream));
    size_t block_bytes = 0, matrix_bytes = 0; /* of the largest, at 8 bits and padded */
    int r;

    if (stream)
        stream->plans = calloc(n + 1, sizeof(*stream->plans));
    if (!stream || !stream->plans)
        return err_no_memory(err);
    stream->options = *options;
    stream->start_ns = clock_now_ns();
    stream->matrices = matrices;
    stream->n = n;
    for (size_t i = 0; i < n; i++) {
        const size_t tiles = (matrices[i].k + PACK_TILE_INPUTS - 1) / PACK_TILE_INPUTS;

        block_bytes = MAX(block_bytes, tiles * PACK_TILE_WEIGHTS);
        matrix_bytes = MAX(matrix_bytes, n_blocks_of(&matrices[i]) * tiles * PACK_TILE_WEIGHTS);
    }
    stream->slot_bytes = MAX(MIN(matrix_bytes, PIECE_BYTES), block_bytes);
    stream->slot_bytes = (stream->slot_bytes / EXTENT_ALIGNMENT + 2) * EXTENT_ALIGNMENT; /* as extents are read */
    stream->copy_bytes = MAX(MIN(matrix_bytes, COPY_BYTES), block_bytes);
    r = accounted_block_init(&stream->staging, options->accounts, ACCOUNT_ACTIVATIONS,
                             RING_PIECES * stream->slot_bytes);
    if (!r)
        r = accounted_block_init(&stream->copies, options->accounts, ACCOUNT_ACTIVATIONS,
                                 worker_pool_n_threads(options->pool) * stream->copy_bytes);
    if (r)
        return account_refused(err, WEIGHT_STREAM_E_MEMORY, r, options->accounts, ACCOUNT_ACTIVATIONS,
                               RING_PIECES * stream->slot_bytes +
                                   worker_pool_n_threads(options->pool) * stream->copy_bytes,
                               "loading %s", options->path);
    stream->way = "page cache";
    *streamp = steal(&stream);
    return 0;
}

uint64_t weight_stream_cached_bytes(const WeightStream *stream) {
    return stream->cached_bytes;
}

bool weight_stream_waits_for_disk(const WeightStream *stream) {
    return stream->waited_ns > (clock_now_ns() - stream->start_ns) / WAITING_SHARE;
}

uint64_t weight_stream_read_bytes(const WeightStream *stream) {
    return stream->read_bytes;
}

const char *weight_stream_way(const WeightStream *stream) {
    return stream->way;
}

/* --- reading ahead ------------------------------------------------------------------------------------------------ */

static int start_reader(WeightStream *stream, ErrText *err) {
    const ExtentReaderOptions options = {
        .way = stream->options.reading == WEIGHT_READING_URING     ? EXTENT_WAY_URING
               : stream->options.reading == WEIGHT_READING_THREADS ? EXTENT_WAY_THREADS
                                                                   : EXTENT_WAY_ANY,
        .depth = RING_PIECES * PIECE_BYTES / READ_BYTES,
        .piece_bytes = READ_BYTES,
    };
    int r = extent_reader_new(&stream->reader, stream->options.fd, stream->options.path, &options, err);

    if (r)
        return r == EXTENT_E_REFUSED ? -EOPNOTSUPP : r;
    worker_pool_begin_reading(stream->options.pool);
    stream->way = extent_reader_way(stream->reader);
    return 0;
}

static bool is_cached(const WeightStream *stream, const StreamPiece *piece) {
    switch (stream->options.reading) {
    case WEIGHT_READING_CACHED:
        return true;
    case WEIGHT_READING_BEST:
        return page_cache_holds(stream->options.fd, piece->extent.offset_bytes, piece->extent.len_bytes);
    case WEIGHT_READING_URING:
    case WEIGHT_READING_THREADS:
        break;
    }
    return false;
}

/* Puts the next piece into the ring, which has room. */
static int plan_piece(WeightStream *stream, ErrText *err) {
    const StreamMatrix *matrix = &stream->matrices[stream->plan_matrix];
    const size_t slot = (stream->first_piece + stream->n_pieces) % RING_PIECES, n_blocks = n_blocks_of(matrix);
    StreamPiece *piece = &stream->pieces[slot];
    uint64_t begin_bytes;
    int r;

    if (!stream->plan_block && matrix->bits) {
        r = pack_plan_init(&stream->plans[stream->plan_matrix], matrix->grid, matrix->bits, matrix->n, matrix->k);
        if (r)
            return err_set(err, r, "%s: no layout for a matrix of %zu x %zu: %s", stream->options.path, matrix->n,
                           matrix->k, strerror(-r));
    }
    *piece = (StreamPiece){ .matrix = stream->plan_matrix, .begin = stream->plan_block, .end = stream->plan_block + 1 };
    begin_bytes = block_offset(stream, piece->matrix, piece->begin);
    while (piece->end < n_blocks &&
           block_offset(stream, piece->matrix, piece->end + 1) - begin_bytes <= (uint64_t)PIECE_BYTES)
        piece->end++;
    piece->extent.offset_bytes = matrix->offset_bytes + begin_bytes;
    piece->extent.len_bytes = (size_t)(block_offset(stream, piece->matrix, piece->end) - begin_bytes);
    piece->extent.buffer = (uint8_t *)stream->staging.data + slot * stream->slot_bytes;
    piece->is_cached = is_cached(stream, piece);
    if (!piece->is_cached) {
        r = stream->reader ? 0 : start_reader(stream, err);
        piece->asked_ns = clock_now_ns();
        if (stream->options.disk)
            piece->due_ns = shared_limiter_ask(stream->options.disk, piece->extent.len_bytes);
        if (!r)
            r = extent_reader_submit(stream->reader, &piece->extent, err);
        if (r)
            return r;
    }
    stream->n_pieces++;
    stream->plan_block = piece->end;
    if (piece->end == n_blocks) {
        stream->plan_matrix++;
        stream->plan_block = 0;
    }
    return 0;
}

/* --- trace -------------------------------------------------------------------------------------------------------- */

_Static_assert((int)RING_PIECES <= TRACE_READS, "every piece of the ring has a lane of the trace");

static Trace *trace_of(const WeightStream *stream) {
    return stream->options.tracep ? *stream->options.tracep : NULL;
}

/* Traces the read of a piece, from the request on. Reads overlap, so every place in the ring has its own lane. */
static void trace_read(const WeightStream *stream, const StreamPiece *piece) {
    if (trace_of(stream))
        trace_add(trace_of(stream), &(TraceEvent){ .name = "read",
                                                   .category = "load",
                                                   .start_ns = piece->asked_ns,
                                                   .end_ns = MAX(piece->due_ns, piece->extent.done_ns),
                                                   .layer = -1,
                                                   .lane = TRACE_LANE_READ + (uint32_t)(piece - stream->pieces),
                                                   .bytes = piece->extent.len_bytes });
}

/* Traces the wait for a piece: nothing is laid out or computed meanwhile. */
static void trace_wait(const WeightStream *stream, uint64_t start_ns) {
    if (trace_of(stream))
        trace_add(
            trace_of(stream),
            &(TraceEvent){
                .name = "wait", .category = "load", .start_ns = start_ns, .end_ns = clock_now_ns(), .layer = -1 });
}

static void trace_fill(const WeightStream *stream, const StreamPiece *piece, uint64_t start_ns) {
    if (trace_of(stream))
        trace_add(trace_of(stream), &(TraceEvent){ .name = piece->is_cached ? "copy and lay out" : "lay out",
                                                   .category = "load",
                                                   .start_ns = start_ns,
                                                   .end_ns = clock_now_ns(),
                                                   .layer = -1,
                                                   .bytes = piece->extent.len_bytes });
}

/* --- laying out --------------------------------------------------------------------------------------------------- */

typedef struct FillLoop {
    WeightStream *stream;
    const StreamPiece *piece;
    uint64_t begin_bytes; /* of the piece, from the matrix's first byte */
    WeightFillFn *fn;
    void *arg;
    _Atomic int result;
} FillLoop;

static void fill_staged(void *arg, size_t begin, size_t end, unsigned int worker) {
    const FillLoop *loop = arg;
    const StreamPiece *piece = loop->piece;

    begin += piece->begin;
    loop->fn(loop->arg, begin, end + piece->begin,
             piece->extent.data + (block_offset(loop->stream, piece->matrix, begin) - loop->begin_bytes));
}

static void fill_cached(void *arg, size_t begin, size_t end, unsigned int worker) {
    FillLoop *loop = arg;
    WeightStream *stream = loop->stream;
    const StreamPiece *piece = loop->piece;
    uint8_t *copy = (uint8_t *)stream->copies.data + worker * stream->copy_bytes;

    end += piece->begin;
    for (size_t block = begin + piece->begin, next; block < end; block = next) {
        const uint64_t at_bytes = block_offset(stream, piece->matrix, block);
        int r;

        next = block + 1;
        while (next < end && block_offset(stream, piece->matrix, next + 1) - at_bytes <= stream->copy_bytes)
            next++;
        r = file_read_exact(stream->options.fd, copy, (size_t)(block_offset(stream, piece->matrix, next) - at_bytes),
                            stream->matrices[piece->matrix].offset_bytes + at_bytes);
        if (r) {
            atomic_store(&loop->result, r);
            return;
        }
        loop->fn(loop->arg, block, next, copy);
    }
}

/* Index 0 is the checksum of the whole piece, which one worker computes beside the others; then come its blocks. */
static void check_and_fill(void *arg, size_t begin, size_t end, unsigned int worker) {
    const FillLoop *loop = arg;
    const StreamPiece *piece = loop->piece;

    if (!begin)
        package_checksum_take(loop->stream->options.checksum, piece->extent.offset_bytes,
                              piece->is_cached ? NULL : piece->extent.data, piece->extent.len_bytes);
    begin -= begin > 0;
    if (begin < end - 1)
        (piece->is_cached ? fill_cached : fill_staged)(arg, begin, end - 1, worker);
}

/* Compares the part of a package whose last matrix has come, before anything is computed with it; at the end, all. */
static int compare_part(const WeightStream *stream, ErrText *err) {
    const StreamMatrix *matrix = &stream->matrices[stream->at];
    const bool is_last = stream->at + 1 == stream->n;
    PackageChecksum *checksum = stream->options.checksum;
    int r;

    if (!checksum || (!is_last && package_checksum_same_part(checksum, matrix->offset_bytes, matrix[1].offset_bytes)))
        return 0;
    r = package_checksum_compare(checksum, is_last ? UINT64_MAX : matrix->offset_bytes + 1, err);
    return r > 0 ? WEIGHT_STREAM_E_FILE : r;
}

static int fill_piece(WeightStream *stream, StreamPiece *piece, WeightFillFn *fn, void *arg, ErrText *err) {
    FillLoop loop = { .stream = stream, .piece = piece, .fn = fn, .arg = arg };
    uint64_t start_ns;
    int r;

    loop.begin_bytes = block_offset(stream, piece->matrix, piece->begin);
    if (!piece->is_cached) {
        start_ns = clock_now_ns();
        r = extent_reader_wait(stream->reader, &piece->extent, err);
        stream->waited_ns += clock_now_ns() - start_ns;
        trace_wait(stream, start_ns);
        if (r)
            return r == EXTENT_E_SHORT ? WEIGHT_STREAM_E_FILE : r;
        stream->read_bytes += piece->extent.len_bytes;
        trace_read(stream, piece);
    } else {
        stream->cached_bytes += piece->extent.len_bytes;
    }
    start_ns = clock_now_ns();
    if (stream->options.checksum)
        worker_pool_run(stream->options.pool, check_and_fill, &loop, 1 + piece->end - piece->begin, 1);
    else
        worker_pool_run(stream->options.pool, piece->is_cached ? fill_cached : fill_staged, &loop,
                        piece->end - piece->begin, 1);
    trace_fill(stream, piece, start_ns);
    r = atomic_load(&loop.result);
    if (r == FILE_E_SHORT)
        return err_set(err, WEIGHT_STREAM_E_FILE,
                       "%s: ends before byte %" PRIu64 ": it was cut short; copy it again, or import the model again",
                       stream->options.path, piece->extent.offset_bytes + piece->extent.len_bytes);
    if (r)
        return err_set(err, r, "%s: cannot read %zu bytes at %" PRIu64 ": %s", stream->options.path,
                       piece->extent.len_bytes, piece->extent.offset_bytes, strerror(-r));
    return 0;
}

/* Whether a limited disk has the piece by now. Waits only a little, so that the caller can do other work meanwhile. */
static bool has_come(WeightStream *stream, const StreamPiece *piece) {
    const uint64_t now_ns = clock_now_ns();

    if (piece->is_cached || now_ns >= piece->due_ns)
        return true;
    (void)nanosleep(&(struct timespec){ .tv_nsec = (long)(MIN(piece->due_ns - now_ns, WAIT_NS)) }, NULL);
    stream->waited_ns += clock_now_ns() - now_ns;
    return clock_now_ns() >= piece->due_ns;
}

/* Fills the ring, or puts all that is left into it. */
int weight_stream_start(WeightStream *stream, ErrText *err) {
    int r = 0;

    while (!r && stream->n_pieces < RING_PIECES && stream->plan_matrix < stream->n)
        r = plan_piece(stream, err);
    return r;
}

/**
 * weight_stream_advance() - the next blocks of the next matrix, each of them once
 * @fn: called on the workers, for different blocks at a time and in no order; its bytes are gone when it returns
 *
 * Return: 0; WEIGHT_STREAM_E_FILE; -errno of a read, -ENOMEM, -EOPNOTSUPP for a way of reading that was asked for by
 * name and is not there. After an error the stream can only be freed.
 */
int weight_stream_advance(WeightStream *stream, WeightFillFn *fn, void *arg, bool *is_wholep, ErrText *err) {
    StreamPiece *piece = &stream->pieces[stream->first_piece];
    int r;

    assert(stream->at < stream->n);
    r = weight_stream_start(stream, err);
    if (r)
        return r;
    assert(piece->matrix == stream->at);
    if (!has_come(stream, piece)) {
        *is_wholep = false;
        return 0;
    }
    r = fill_piece(stream, piece, fn, arg, err);
    if (r)
        return r;
    *is_wholep = piece->end == n_blocks_of(&stream->matrices[stream->at]);
    r = *is_wholep ? compare_part(stream, err) : 0;
    if (r)
        return r;
    stream->first_piece = (stream->first_piece + 1) % RING_PIECES;
    stream->n_pieces--;
    if (stream->options.heartbeat)
        atomic_fetch_add_explicit(stream->options.heartbeat, 1, memory_order_relaxed);
    if (*is_wholep)
        pack_plan_deinit(&stream->plans[stream->at++]);
    return 0;
}
