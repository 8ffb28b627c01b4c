// SPDX-License-Identifier: Apache-2.0
/*
 * The queue of extents and what both ways of reading share. An extent is cut into pieces of whole units of
 * EXTENT_ALIGNMENT, as O_DIRECT asks for; the way has up to `depth` pieces under way. A piece that comes short, or not
 * at all (the end of the file, a signal, a file system that refuses O_DIRECT for this piece, a full ring), is finished
 * with pread() through the page cache, so that every other error is the file's own.
 */
#define _GNU_SOURCE
#include "base/files/extent_reader_private.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/files/file_io.h"
#include "base/system/kernel_call.h"

enum {
    DEPTH_DEFAULT = 8,
    PIECE_BYTES_DEFAULT = 2 << 20,
};

static uint64_t align_down(uint64_t n) {
    return n & ~(uint64_t)(EXTENT_ALIGNMENT - 1);
}

static uint64_t align_up(uint64_t n) {
    return align_down(n + EXTENT_ALIGNMENT - 1);
}

size_t extent_room_bytes(uint64_t offset_bytes, size_t len_bytes) {
    return len_bytes ? (size_t)(align_up(offset_bytes + len_bytes) - align_down(offset_bytes)) : 0;
}

/* --- queue -------------------------------------------------------------------------------------------------------- */

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
        .offset_bytes = align_down(extent->offset_bytes) + extent->begun_bytes,
        .len_bytes = left_bytes < reader->piece_bytes ? left_bytes : reader->piece_bytes,
    };
    end_bytes = (size_t)(extent->offset_bytes + extent->len_bytes - piece->offset_bytes);
    piece->wanted_bytes = end_bytes < piece->len_bytes ? end_bytes : piece->len_bytes;
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

/* --- object ------------------------------------------------------------------------------------------------------- */

/* Whether O_DIRECT can read what is aligned to EXTENT_ALIGNMENT. Where nothing is said (Linux before 6.1, some file
 * systems) the first read will tell. */
static bool alignment_suffices(int fd) {
    DirectAlignment needed;

    if (kernel_direct_alignment(fd, &needed))
        return true;
    return needed.memory_bytes && EXTENT_ALIGNMENT % needed.memory_bytes == 0 && needed.offset_bytes &&
           EXTENT_ALIGNMENT % needed.offset_bytes == 0;
}

/* Another open file of the same inode: O_DIRECT is a property of the open file, and others use the caller's. */
static int open_direct(ExtentReader *reader, ErrText *err) {
    char link[64];

    if (!alignment_suffices(reader->fd))
        return err_set(err, EXTENT_E_REFUSED, "%s: its file system takes no direct reads of %d bytes", reader->path,
                       EXTENT_ALIGNMENT);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", reader->fd);
    reader->direct_fd = open(link, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (reader->direct_fd < 0)
        return err_set(err, EXTENT_E_REFUSED, "%s: cannot be opened for direct reads: %s", reader->path,
                       strerror(errno));
    atomic_store(&reader->is_direct, true);
    return 0;
}

ExtentReader *extent_reader_free(ExtentReader *reader) {
    if (!reader)
        return NULL;
    if (reader->way) {
        reader->ops->cancel(reader);
        reader->ops->deinit(reader);
    }
    if (reader->direct_fd >= 0)
        close(reader->direct_fd);
    free(reader->path);
    free(reader);
    return NULL;
}

static int choose_way(ExtentReader *reader, ExtentWay way, ErrText *err) {
    int r;

    if (way != EXTENT_WAY_THREADS) {
        reader->ops = &extent_uring_ops;
        r = reader->ops->init(reader, err);
        if (r != EXTENT_E_REFUSED || way == EXTENT_WAY_URING)
            return r;
    }
    reader->ops = &extent_threads_ops;
    return reader->ops->init(reader, err);
}

/**
 * extent_reader_new() - a reader of one open file
 * @fd:      readable; not closed, and its flags and position are left alone
 * @options: const; zero: io_uring and O_DIRECT where they can be had, 8 reads of 2 MiB
 *
 * Memory: none but the caller's buffers, a ring of `depth` entries or up to 4 threads.
 * Thread: all calls from one thread at a time.
 * Return: 0; EXTENT_E_REFUSED: what was asked for by name is not there; -EINVAL: options out of range; -errno.
 */
int extent_reader_new(ExtentReader **readerp, int fd, const char *path, const ExtentReaderOptions *options,
                      ErrText *err) {
    _cleanup_(extent_reader_freep) ExtentReader *reader = NULL;
    int r;

    if (options->depth > EXTENT_DEPTH_MAX || options->piece_bytes % EXTENT_ALIGNMENT ||
        options->piece_bytes > INT32_MAX)
        return err_set(err, -EINVAL, "%s: %u reads of %zu bytes: 1 to %d reads of a multiple of %d bytes are possible",
                       path, options->depth, options->piece_bytes, EXTENT_DEPTH_MAX, EXTENT_ALIGNMENT);
    reader = calloc(1, sizeof(*reader));
    if (!reader)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    reader->fd = fd;
    reader->direct_fd = -1;
    reader->lastp = &reader->first;
    reader->depth = options->depth ? options->depth : DEPTH_DEFAULT;
    reader->piece_bytes = options->piece_bytes ? options->piece_bytes : PIECE_BYTES_DEFAULT;
    reader->path = strdup(path);
    if (!reader->path)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    if (options->caching != EXTENT_CACHING_BUFFERED) {
        r = open_direct(reader, err);
        if (r && options->caching == EXTENT_CACHING_DIRECT)
            return r;
    }
    r = choose_way(reader, options->way, err);
    if (r)
        return r;
    *readerp = steal(&reader);
    return 0;
}

const char *extent_reader_way(const ExtentReader *reader) {
    return reader->ops->name;
}

bool extent_reader_is_direct(const ExtentReader *reader) {
    return atomic_load(&((ExtentReader *)reader)->is_direct);
}

/**
 * extent_reader_submit() - ask for an extent
 * @extent: offset_bytes, len_bytes and buffer set; it and its buffer are the reader's until extent_reader_wait()
 *
 * Reads begin in the order of the calls, `depth` at a time; with io_uring further ones begin in extent_reader_submit()
 * and extent_reader_wait() only, so a caller that computes for long asks for a depth that lasts as long.
 * Return: 0, or -EINVAL for an extent that no file has or a buffer that is not aligned.
 */
int extent_reader_submit(ExtentReader *reader, Extent *extent, ErrText *err) {
    const uint64_t offset = extent->offset_bytes, end_of_files = INT64_MAX - EXTENT_ALIGNMENT;

    if (offset > end_of_files || extent->len_bytes > end_of_files - offset)
        return err_set(err, -EINVAL, "%s: %zu bytes at %" PRIu64 " are past the end of any file", reader->path,
                       extent->len_bytes, offset);
    if ((uintptr_t)extent->buffer % EXTENT_ALIGNMENT)
        return err_set(err, -EINVAL, "%s: a buffer that is not aligned to %d", reader->path, EXTENT_ALIGNMENT);
    extent->data = (const uint8_t *)extent->buffer + offset % EXTENT_ALIGNMENT;
    extent->begun_bytes = 0;
    extent->n_under_way = 0;
    extent->is_queued = false;
    extent->result = 0;
    if (extent->len_bytes)
        reader->ops->submit(reader, extent);
    return 0;
}

/**
 * extent_reader_wait() - until an extent is in its buffer
 * @extent: was submitted to this reader
 *
 * Return: 0; EXTENT_E_SHORT: the file ends before; -ECANCELED; -errno of the read. The text names file and place.
 */
int extent_reader_wait(ExtentReader *reader, Extent *extent, ErrText *err) {
    const uint64_t end_bytes = extent->offset_bytes + extent->len_bytes;

    if (extent->len_bytes)
        reader->ops->wait(reader, extent);
    if (extent->result == EXTENT_E_SHORT)
        return err_set(err, EXTENT_E_SHORT,
                       "%s: ends before byte %" PRIu64 ": it was cut short; copy it again, or import the model again",
                       reader->path, end_bytes);
    if (extent->result)
        return err_set(err, extent->result, "%s: cannot read %zu bytes at %" PRIu64 ": %s", reader->path,
                       extent->len_bytes, extent->offset_bytes, strerror(-extent->result));
    return 0;
}
