// SPDX-License-Identifier: Apache-2.0
/*
 * Reads with io_uring. The ring belongs to the caller's thread: only calls of the reader begin reads and look for their
 * ends; between those calls the kernel works alone.
 *
 * A sandbox may refuse the ring when it is made (EPERM, ENOSYS), or at any later call. Reads that the kernel did not
 * take are then done with pread(). Reads that the kernel took end by themselves; polling finds them without a call.
 */
#define _GNU_SOURCE
#include "base/files/extent_uring.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"

typedef struct UringRead {
    ExtentPiece piece;
    struct UringRead *next_free;
} UringRead;

typedef struct Uring {
    struct io_uring ring;
    UringRead *free;
    UringRead *prepared[EXTENT_DEPTH_MAX]; /* reads in the ring's queue that the kernel did not take yet, in order */
    size_t n_prepared;
    size_t n_under_way; /* reads that the kernel has taken */
    bool is_refused;    /* the kernel has refused the ring since it was made */
    UringRead reads[];
} Uring;

static int uring_init(ExtentReader *reader, ErrText *err) {
    _cleanup_(freep) Uring *uring = calloc(1, sizeof(*uring) + reader->depth * sizeof(uring->reads[0]));
    int r;

    if (!uring)
        return err_set(err, -ENOMEM, "%s: out of memory", reader->path);
    r = io_uring_queue_init(reader->depth, &uring->ring, 0);
    if (r)
        return err_set(err, EXTENT_E_REFUSED, "io_uring cannot be had here: %s", strerror(-r));
    (void)io_uring_ring_dontfork(&uring->ring);
    for (unsigned int i = 0; i < reader->depth; i++) {
        uring->reads[i].next_free = uring->free;
        uring->free = &uring->reads[i];
    }
    reader->way = steal(&uring);
    return 0;
}

static void uring_deinit(ExtentReader *reader) {
    Uring *uring = reader->way;

    assert(!uring->n_under_way && !uring->n_prepared);
    io_uring_queue_exit(&uring->ring);
    free(uring);
    reader->way = NULL;
}

static void uring_finish(ExtentReader *reader, UringRead *read, ssize_t n_read) {
    Uring *uring = reader->way;

    extent_piece_done(&read->piece, extent_finish_piece(reader, &read->piece, n_read));
    read->next_free = uring->free;
    uring->free = read;
}

/* Hands prepared reads to the kernel, and does those that it refuses here and now. */
static void submit_prepared(ExtentReader *reader) {
    Uring *uring = reader->way;

    while (uring->n_prepared && !uring->is_refused) {
        int n = io_uring_submit(&uring->ring);

        if (n == -EINTR)
            continue;
        if ((n == -EAGAIN || n == -EBUSY) && uring->n_under_way)
            return; /* the end of a read under way makes room */
        if (n <= 0) {
            uring->is_refused = true;
            break;
        }
        uring->n_under_way += (size_t)n;
        uring->n_prepared -= (size_t)n;
        memmove(uring->prepared, uring->prepared + n, uring->n_prepared * sizeof(uring->prepared[0]));
    }
    while (uring->n_prepared) {
        UringRead *read = uring->prepared[0];

        uring->n_prepared--;
        memmove(uring->prepared, uring->prepared + 1, uring->n_prepared * sizeof(uring->prepared[0]));
        uring_finish(reader, read, 0);
    }
}

/* Begins as many reads as the ring has room for. */
static void begin_reads(ExtentReader *reader) {
    Uring *uring = reader->way;

    while (uring->free && !uring->is_refused) {
        UringRead *read = uring->free;
        struct io_uring_sqe *entry;

        if (!reader->first)
            break;
        entry = io_uring_get_sqe(&uring->ring);
        if (!entry)
            break;
        (void)extent_take_piece(reader, &read->piece);
        uring->free = read->next_free;
        io_uring_prep_read(entry, read->piece.fd, read->piece.buffer, (unsigned int)read->piece.len_bytes,
                           read->piece.offset_bytes);
        io_uring_sqe_set_data(entry, read);
        uring->prepared[uring->n_prepared++] = read;
    }
    submit_prepared(reader);
}

static void uring_submit(ExtentReader *reader, Extent *extent) {
    extent_queue(reader, extent);
    begin_reads(reader);
}

/* Takes in reads that have ended; waits for at least one if any is under way. */
static void reap(ExtentReader *reader) {
    Uring *uring = reader->way;
    struct io_uring_cqe *entry;

    while (uring->n_under_way && io_uring_peek_cqe(&uring->ring, &entry) &&
           (uring->is_refused || io_uring_wait_cqe(&uring->ring, &entry)))
        nanosleep(&(struct timespec){ .tv_nsec = 200000 },
                  NULL); /* a signal came, or the kernel refuses the call by now */
    while (uring->n_under_way && !io_uring_peek_cqe(&uring->ring, &entry)) {
        UringRead *read = io_uring_cqe_get_data(entry);
        int n_read = entry->res;

        io_uring_cqe_seen(&uring->ring, entry);
        uring->n_under_way--;
        uring_finish(reader, read, n_read);
    }
}

static void uring_wait(ExtentReader *reader, const Extent *extent) {
    Uring *uring = reader->way;

    begin_reads(reader);
    while (!extent_is_whole(extent)) {
        ExtentPiece piece;

        if (uring->n_under_way) {
            reap(reader);
            begin_reads(reader);
        } else if (extent_take_piece(reader, &piece)) { /* the ring is refused: ordinary reads, in order */
            extent_piece_done(&piece, extent_finish_piece(reader, &piece, 0));
        }
    }
}

static void uring_cancel(ExtentReader *reader) {
    Uring *uring = reader->way;

    extent_drop_queue(reader);
    submit_prepared(reader);
    while (uring->n_under_way || uring->n_prepared) {
        reap(reader);
        submit_prepared(reader);
    }
}

const ExtentWayOps extent_uring_ops = {
    .names = { "io_uring", "io_uring, direct" },
    .init = uring_init,
    .deinit = uring_deinit,
    .submit = uring_submit,
    .wait = uring_wait,
    .cancel = uring_cancel,
};
