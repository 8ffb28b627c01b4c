// SPDX-License-Identifier: Apache-2.0
/*
 * An extent is cut into pieces of whole units of EXTENT_ALIGNMENT, as O_DIRECT demands; the way has up to `depth`
 * pieces under way. A read may come short or fail: at the end of the file, by a signal, on a file system that refuses
 * O_DIRECT for this piece, in a full ring. pread() through the page cache then finishes the piece, so that any error
 * that is left is the file's own.
 */
#include "base/files/extent_queue.h"

#include <assert.h>
#include <errno.h>

#include "base/clock.h"
#include "base/files/file_io.h"
#include "base/min_max.h"

void extent_queue(ExtentReader *reader, Extent *extent) {
    extent->next = NULL;
    extent->is_queued = true;
    *reader->lastp = extent;
    reader->lastp = &extent->next;
}

static void unqueue_first(ExtentReader *reader) {
    Extent *extent = reader->first;

    reader->first = extent->next;
    if (!reader->first)
        reader->lastp = &reader->first;
    extent->next = NULL;
    extent->is_queued = false;
}

bool extent_take_piece(ExtentReader *reader, ExtentPiece *piece) {
    Extent *extent = reader->first;
    size_t room_bytes, left_bytes, end_bytes;

    if (!extent)
        return false;
    room_bytes = extent_room_bytes(extent->offset_bytes, extent->len_bytes);
    left_bytes = room_bytes - extent->begun_bytes;
    *piece = (ExtentPiece){
        .extent = extent,
        .fd = atomic_load(&reader->is_direct) ? reader->direct_fd : reader->fd,
        .buffer = (uint8_t *)extent->buffer + extent->begun_bytes,
        .offset_bytes = extent_align_down(extent->offset_bytes) + extent->begun_bytes,
        .len_bytes = MIN(left_bytes, reader->piece_bytes),
    };
    end_bytes = (size_t)(extent->offset_bytes + extent->len_bytes - piece->offset_bytes);
    piece->wanted_bytes = MIN(end_bytes, piece->len_bytes);
    extent->begun_bytes += piece->len_bytes;
    extent->n_under_way++;
    if (extent->begun_bytes == room_bytes)
        unqueue_first(reader);
    return true;
}

void extent_drop_queue(ExtentReader *reader) {
    while (reader->first) {
        if (!reader->first->result)
            reader->first->result = -ECANCELED;
        unqueue_first(reader);
    }
}

void extent_piece_done(const ExtentPiece *piece, int r) {
    assert(piece->extent->n_under_way);
    piece->extent->n_under_way--;
    if (r && !piece->extent->result)
        piece->extent->result = r;
    if (extent_is_whole(piece->extent))
        piece->extent->done_ns = clock_now_ns();
}

int extent_finish_piece(ExtentReader *reader, const ExtentPiece *piece, ssize_t n_read) {
    size_t done_bytes = n_read > 0 ? (size_t)n_read : 0;
    int r;

    if (done_bytes >= piece->wanted_bytes)
        return 0;
    if (piece->fd == reader->direct_fd && (n_read == -EINVAL || n_read == -EOPNOTSUPP))
        atomic_store(&reader->is_direct, false);
    r = file_read_exact(reader->fd, piece->buffer + done_bytes, piece->wanted_bytes - done_bytes,
                        piece->offset_bytes + done_bytes);
    return r == FILE_E_SHORT ? EXTENT_E_SHORT : r;
}
