// SPDX-License-Identifier: Apache-2.0
/* The queue of extents below the extent reader, and what its two ways of reading (extent_uring.c, extent_threads.c)
 * share. Only those three include this header. */
#ifndef COORDGEN_BASE_EXTENT_QUEUE_H
#define COORDGEN_BASE_EXTENT_QUEUE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/files/extent.h"

/* A part of an extent that one read brings. */
typedef struct ExtentPiece {
    Extent *extent;
    int fd;
    uint8_t *buffer;
    uint64_t offset_bytes; /* in the file; aligned to EXTENT_ALIGNMENT, as len_bytes is */
    size_t len_bytes;
    size_t wanted_bytes; /* the extent's own bytes; the rest of len_bytes may lie past the end of the file */
} ExtentPiece;

/* A way of reading. */
typedef struct ExtentWayOps {
    const char *names[2];                            /* through the page cache, and past it */
    int (*init)(ExtentReader *reader, ErrText *err); /* 0, EXTENT_E_REFUSED or -errno */
    void (*deinit)(ExtentReader *reader);            /* the caller has ended all reads by cancel() */
    void (*submit)(ExtentReader *reader, Extent *extent);
    void (*wait)(ExtentReader *reader, const Extent *extent); /* returns when the extent is whole */
    void (*cancel)(ExtentReader *reader);                     /* returns when no read is under way */
} ExtentWayOps;

struct ExtentReader {
    const ExtentWayOps *ops;
    void *way; /* state of the way */
    char *path;
    int fd;                 /* borrowed from the caller; reads through the page cache */
    int direct_fd;          /* with O_DIRECT, or -1 */
    _Atomic bool is_direct; /* false for good once the file system refuses O_DIRECT */
    unsigned int depth;     /* const */
    size_t piece_bytes;     /* const */
    Extent *first, **lastp; /* the queue; extent_threads.c guards it by a lock */
};

static inline bool extent_is_whole(const Extent *extent) {
    return !extent->is_queued && !extent->n_under_way;
}

/* The callers of the queue keep other threads away. */
void extent_queue(ExtentReader *reader, Extent *extent);
bool extent_take_piece(ExtentReader *reader, ExtentPiece *piece); /* false: the queue is empty */
void extent_drop_queue(ExtentReader *reader);                     /* ends queued extents with -ECANCELED */
void extent_piece_done(const ExtentPiece *piece, int r);          /* r: 0 or the error of the read */
/* Finishes a read that brought n_read bytes, or failed with -errno. Any thread. */
int extent_finish_piece(ExtentReader *reader, const ExtentPiece *piece, ssize_t n_read);

#endif
