// SPDX-License-Identifier: Apache-2.0
/* Inside of the extent reader: extent_reader.c has the queue, extent_uring.c and extent_threads.c the two ways. */
#ifndef COORDGEN_BASE_EXTENT_READER_PRIVATE_H
#define COORDGEN_BASE_EXTENT_READER_PRIVATE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/files/extent_reader.h"

/* One read. */
typedef struct ExtentPiece {
    Extent *extent;
    int fd;
    uint8_t *buffer;
    uint64_t offset_bytes; /* of the file; aligned, as len_bytes is */
    size_t len_bytes;
    size_t wanted_bytes; /* of len_bytes: what lies behind may be past the end of the file */
} ExtentPiece;

typedef struct ExtentWayOps {
    const char *name;
    /* 0, EXTENT_E_REFUSED or -errno. */
    int (*init)(ExtentReader *reader, ErrText *err);
    void (*deinit)(ExtentReader *reader); /* no read is under way */
    void (*submit)(ExtentReader *reader, Extent *extent);
    void (*wait)(ExtentReader *reader, const Extent *extent); /* until it is whole */
    void (*cancel)(ExtentReader *reader);
} ExtentWayOps;

struct ExtentReader {
    const ExtentWayOps *ops;
    void *way; /* the way's own */
    char *path;
    int fd;                 /* the caller's: through the page cache */
    int direct_fd;          /* with O_DIRECT, or -1 */
    _Atomic bool is_direct; /* false for good once the file system says no */
    unsigned int depth;     /* const */
    size_t piece_bytes;     /* const */
    Extent *first, **lastp; /* queued; with threads under their lock */
};

extern const ExtentWayOps extent_uring_ops, extent_threads_ops;

static inline bool extent_is_whole(const Extent *extent) {
    return !extent->is_queued && !extent->n_under_way;
}

/* The queue; callers keep other threads away. */
void extent_queue(ExtentReader *reader, Extent *extent);
bool extent_take_piece(ExtentReader *reader, ExtentPiece *piece); /* false: nothing queued */
void extent_drop_queue(ExtentReader *reader);
void extent_piece_done(const ExtentPiece *piece, int r);

/* Finishes a read of which n_read (or -errno) came: what is missing is read in the ordinary way, whose word is final.
 * Any thread. */
int extent_finish_piece(ExtentReader *reader, const ExtentPiece *piece, ssize_t n_read);

#endif
