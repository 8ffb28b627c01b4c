// SPDX-License-Identifier: Apache-2.0
/* Reads extents of one file in the order they are asked for, into the caller's buffers, while the caller computes. */
#ifndef COORDGEN_BASE_EXTENT_READER_H
#define COORDGEN_BASE_EXTENT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

enum {
    EXTENT_E_SHORT = 1,   /* the file ended before the extent did; the text names the file */
    EXTENT_E_REFUSED = 2, /* the way or the caching that was asked for by name cannot be had here; the text says why */
};

#define EXTENT_ALIGNMENT 4096 /* of buffers */
#define EXTENT_DEPTH_MAX 64

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

/* The caller's, and left alone from extent_reader_submit() until extent_reader_wait() or the reader's end. */
typedef struct Extent {
    uint64_t offset_bytes; /* in the file, anything */
    size_t len_bytes;
    void *buffer;        /* aligned to EXTENT_ALIGNMENT, of extent_room_bytes() */
    const uint8_t *data; /* set by extent_reader_submit(): where in the buffer its first byte will be */
    /* The reader's. */
    struct Extent *next;
    size_t begun_bytes; /* of the room */
    size_t n_under_way; /* reads */
    bool is_queued;     /* not all of it was begun */
    int result;
    uint64_t done_ns; /* of clock_now_ns(): when it was seen to be whole; with io_uring that is looked for in waits */
} Extent;

typedef struct ExtentReader ExtentReader; /* one thread's */

/* fd stays the caller's and must stay open; path is for messages, and copied. */
int extent_reader_new(ExtentReader **readerp, int fd, const char *path, const ExtentReaderOptions *options,
                      ErrText *err);
ExtentReader *extent_reader_free(ExtentReader *reader); /* after that nothing touches a buffer any more */
DEFINE_CLEANUP(ExtentReader, extent_reader_free)

/* Bytes of buffer that an extent needs: it is read in whole units of EXTENT_ALIGNMENT. */
size_t extent_room_bytes(uint64_t offset_bytes, size_t len_bytes);
/* Asks for an extent, behind those that were asked for before. Does not wait. */
int extent_reader_submit(ExtentReader *reader, Extent *extent, ErrText *err);
/* Returns when all of the extent is in its buffer, or cannot be. */
int extent_reader_wait(ExtentReader *reader, Extent *extent, ErrText *err);

/* What it came to: "io_uring", "threads". */
const char *extent_reader_way(const ExtentReader *reader);
bool extent_reader_is_direct(const ExtentReader *reader);

#endif
