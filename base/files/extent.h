// SPDX-License-Identifier: Apache-2.0
/* A range of a file that an extent reader (base/files/extent_reader.h) brings into memory. */
#ifndef COORDGEN_BASE_EXTENT_H
#define COORDGEN_BASE_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EXTENT_E_SHORT = 1,   /* the file ended before the extent did; the text names the file */
    EXTENT_E_REFUSED = 2, /* this system has not the way or the caching that was asked for by name; the text says why */
};

#define EXTENT_ALIGNMENT 4096 /* of buffers, in bytes */
#define EXTENT_DEPTH_MAX 64

/* A range of a file. The caller owns it, and leaves it alone from extent_reader_submit() until extent_reader_wait() or
 * the reader's end. */
typedef struct Extent {
    uint64_t offset_bytes; /* in the file; any alignment */
    size_t len_bytes;
    void *buffer;        /* of extent_room_bytes() bytes, aligned to EXTENT_ALIGNMENT */
    const uint8_t *data; /* set by extent_reader_submit(): the place of the first byte in the buffer */
    /* Private to the reader: */
    struct Extent *next;
    size_t begun_bytes; /* of the buffer, for which a read was begun */
    size_t n_under_way; /* reads */
    bool is_queued;     /* a part has no read yet */
    int result;
    uint64_t done_ns; /* clock_now_ns() when the reader saw the extent whole; io_uring's reader looks in waits only */
} Extent;

static inline uint64_t extent_align_down(uint64_t offset_bytes) {
    return offset_bytes & ~(uint64_t)(EXTENT_ALIGNMENT - 1);
}

/* Returns the bytes of buffer that an extent needs, in whole units of EXTENT_ALIGNMENT. */
static inline size_t extent_room_bytes(uint64_t offset_bytes, size_t len_bytes) {
    const uint64_t end_bytes = extent_align_down(offset_bytes + len_bytes + EXTENT_ALIGNMENT - 1);

    return len_bytes ? (size_t)(end_bytes - extent_align_down(offset_bytes)) : 0;
}

typedef struct ExtentReader ExtentReader; /* base/files/extent_reader.h; used by one thread at a time */

#endif
