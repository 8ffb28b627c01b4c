// SPDX-License-Identifier: Apache-2.0
/* Reads weights of a package in the order of the file; the workers lay them out while the next ones are read. */
#ifndef COORDGEN_WEIGHTS_WEIGHT_STREAM_H
#define COORDGEN_WEIGHTS_WEIGHT_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/files/read_limiter.h"
#include "base/memory/account.h"
#include "base/system/worker_pool.h"
#include "model/package/package_checksum.h"
#include "quant/format/grid.h"
#include "scheduler/operators/trace.h"

enum {
    WEIGHT_STREAM_E_MEMORY = 1, /* the account of the activations has no room for the staging memory */
    WEIGHT_STREAM_E_FILE = 2,   /* the file was cut short, or has another checksum; the text names it */
};

typedef enum WeightReading {
    WEIGHT_READING_BEST,    /* from the page cache if they are in it, else from the disk, ahead of use */
    WEIGHT_READING_URING,   /* all from the disk, by io_uring */
    WEIGHT_READING_THREADS, /* all from the disk, by threads */
    WEIGHT_READING_CACHED,  /* all through the page cache, by the workers */
} WeightReading;

/* The integers of one matrix in the file; blocks are 16 rows of it, or 16 of its channels in the packed layout. */
typedef struct StreamMatrix {
    uint64_t offset_bytes;
    size_t n, k;
    const int8_t *bits; /* [n], packed layout (quant/format/pack.h); NULL: int8 rows */
    Grid grid;          /* packed layout */
} StreamMatrix;

typedef struct WeightStreamOptions {
    int fd;           /* stays the caller's */
    const char *path; /* for messages */
    WeightReading reading;
    WorkerPool *pool;
    AccountTable *accounts;
    PackageChecksum *checksum;   /* of the file: a matrix is whole when its part was compared; NULL: no comparison */
    _Atomic uint64_t *heartbeat; /* goes up with every few MiB; may be NULL */
    SharedLimiter *disk;         /* limits reads that are not from the page cache; or NULL */
    Trace *const *tracep;        /* where a trace stands when there is one; may be NULL */
} WeightStreamOptions;

/* Takes the bytes of blocks [block_begin, block_end) of the matrix. Called by several workers at a time. */
typedef void WeightFillFn(void *arg, size_t block_begin, size_t block_end, const void *bytes);

typedef struct WeightStream WeightStream;

/* Makes a stream. Everything that `options` and `matrices` point to outlives the stream. */
int weight_stream_new(WeightStream **streamp, const WeightStreamOptions *options, const StreamMatrix *matrices,
                      size_t n, ErrText *err);
WeightStream *weight_stream_free(WeightStream *stream);
DEFINE_CLEANUP(WeightStream, weight_stream_free)

/* Begins to read; else reads begin when the first bytes are asked for. Errors as weight_stream_advance(). */
int weight_stream_start(WeightStream *stream, ErrText *err);
/* Brings a few MiB of the next matrix at most, block by block, or nothing yet from a slow disk. *is_wholep: the matrix
 * has come to its end. */
int weight_stream_advance(WeightStream *stream, WeightFillFn *fn, void *arg, bool *is_wholep, ErrText *err);

/* Returns the number of bytes so far: those that were in the page cache, and those that were read ahead. */
uint64_t weight_stream_cached_bytes(const WeightStream *stream);
uint64_t weight_stream_read_bytes(const WeightStream *stream);
/* Whether the caller has waited for the disk for a good share of the time so far. */
bool weight_stream_waits_for_disk(const WeightStream *stream);
/* Returns the way of reading: "io_uring" or "threads", also with ", direct"; "page cache": nothing was read ahead. */
const char *weight_stream_way(const WeightStream *stream);

#endif
