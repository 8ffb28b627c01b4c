// SPDX-License-Identifier: Apache-2.0
/* Reads extents of one file in the order they are asked for, into the caller's buffers, while the caller computes. */
#ifndef COORDGEN_BASE_EXTENT_READER_H
#define COORDGEN_BASE_EXTENT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/files/extent.h"

typedef enum ExtentWay {
    EXTENT_WAY_ANY, /* io_uring, or threads where it is refused */
    EXTENT_WAY_URING,
    EXTENT_WAY_THREADS, /* pread() */
} ExtentWay;

typedef enum ExtentCaching {
    EXTENT_CACHING_ANY, /* O_DIRECT, or through the page cache where it is refused */
    EXTENT_CACHING_DIRECT,
    EXTENT_CACHING_BUFFERED,
} ExtentCaching;

typedef struct ExtentReaderOptions {
    ExtentWay way;
    ExtentCaching caching;
    unsigned int depth; /* reads under way at a time, 1..EXTENT_DEPTH_MAX; 0: 8 */
    size_t piece_bytes; /* of a read, a multiple of EXTENT_ALIGNMENT; 0: 2 MiB */
} ExtentReaderOptions;

/* Makes a reader of fd, which the caller keeps open. path names the file in messages, and is copied. */
int extent_reader_new(ExtentReader **readerp, int fd, const char *path, const ExtentReaderOptions *options,
                      ErrText *err);
ExtentReader *extent_reader_free(ExtentReader *reader); /* ends all reads */
DEFINE_CLEANUP(ExtentReader, extent_reader_free)

/* Queues an extent behind those submitted before. Does not wait. */
int extent_reader_submit(ExtentReader *reader, Extent *extent, ErrText *err);
/* Waits until the extent is in its buffer, or has failed. */
int extent_reader_wait(ExtentReader *reader, Extent *extent, ErrText *err);

/* Names the way that reads: "io_uring" or "threads", and ", direct" past the page cache. The text is constant. */
const char *extent_reader_way(const ExtentReader *reader);
bool extent_reader_is_direct(const ExtentReader *reader);

#endif
