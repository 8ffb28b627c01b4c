// SPDX-License-Identifier: Apache-2.0
/* Weights of a package in the order of the file, laid out by the workers while what follows is read. */
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
#include "scheduler/trace.h"

enum {
    WEIGHT_STREAM_E_MEMORY = 1, /* the account of the activations has no room for the staging memory */
    WEIGHT_STREAM_E_FILE = 2,   /* the file was cut short, or has another checksum; the text names it */
};

typedef enum WeightReading {
    WEIGHT_READING_BEST,    /* what is in the page cache comes from there, the rest from the disk, ahead of use */
    WEIGHT_READING_URING,   /* all from the disk: io_uring */
    WEIGHT_READING_THREADS, /* all from the disk: threads */
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
    PackageChecksum *checksum;   /* of the file: a matrix is whole when its part was compared; NULL: nothing is */
    _Atomic uint64_t *heartbeat; /* goes up with every few MiB; may be NULL */
    SharedLimiter *disk;         /* reads that are not of the page cache are as slow as that allows; or NULL */
    Trace *const *tracep;        /* where a trace stands when there is one, its reads too; may be NULL */
} WeightStreamOptions;

/* Bytes of the blocks [block_begin, block_end) of the matrix; called by several workers at a time. */
typedef void WeightFillFn(void *arg, size_t block_begin, size_t block_end, const void *bytes);

typedef struct WeightStream WeightStream;

/* What `options` and `matrices` point to outlives the stream. */
int weight_stream_new(WeightStream **streamp, const WeightStreamOptions *options, const StreamMatrix *matrices,
                      size_t n, ErrText *err);
WeightStream *weight_stream_free(WeightStream *stream);
DEFINE_CLEANUP(WeightStream, weight_stream_free)

/* Reads begin; without it they begin when the first bytes are asked for. Errors as those of weight_stream_advance(). */
int weight_stream_start(WeightStream *stream, ErrText *err);
/* The next matrix, block by block, a few MiB of it at most, or nothing yet of a slow disk; *is_wholep: it has come to
 * its end. */
int weight_stream_advance(WeightStream *stream, WeightFillFn *fn, void *arg, bool *is_wholep, ErrText *err);

/* So far: bytes that were in the page cache, and those that were read ahead. */
uint64_t weight_stream_cached_bytes(const WeightStream *stream);
uint64_t weight_stream_read_bytes(const WeightStream *stream);
/* Whether a good share of the time so far whoever takes them in has waited for the disk. */
bool weight_stream_waits_for_disk(const WeightStream *stream);
/* "io_uring", "threads"; with ", direct"; "page cache" when nothing was read ahead. */
const char *weight_stream_way(const WeightStream *stream);

#endif
