// SPDX-License-Identifier: Apache-2.0
/* A reader of extents: how its file is opened, and which of the two ways reads it. */
#define _GNU_SOURCE
#include "base/files/extent_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/extent_queue.h"
#include "base/files/extent_threads.h"
#include "base/files/extent_uring.h"
#include "base/system/kernel_call.h"

enum {
    DEPTH_DEFAULT = 8,
    PIECE_BYTES_DEFAULT = 2 << 20,
};

/* Whether EXTENT_ALIGNMENT suffices for O_DIRECT. Linux before 6.1 and some file systems don't tell: the first read
 * will. */
static bool alignment_suffices(int fd) {
    DirectAlignment needed;

    if (kernel_direct_alignment(fd, &needed))
        return true;
    return needed.memory_bytes && EXTENT_ALIGNMENT % needed.memory_bytes == 0 && needed.offset_bytes &&
           EXTENT_ALIGNMENT % needed.offset_bytes == 0;
}

/* Opens the inode again, because O_DIRECT belongs to the open file and others use the caller's. */
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
 * extent_reader_new() - make a reader of one open file
 * @fd:      readable; not closed, and its flags and position are left alone
 * @options: zeros mean io_uring and O_DIRECT if the system has them, 8 reads of 2 MiB
 *
 * Memory: the caller's buffers, and a ring of `depth` entries or up to 4 threads.
 * Thread: all calls from one thread at a time.
 * Return: 0; EXTENT_E_REFUSED: the system has not what was asked for by name; -EINVAL: options out of range; -errno.
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
    return reader->ops->names[extent_reader_is_direct(reader)];
}

bool extent_reader_is_direct(const ExtentReader *reader) {
    return atomic_load(&((ExtentReader *)reader)->is_direct);
}

/**
 * extent_reader_submit() - queue an extent
 * @extent: offset_bytes, len_bytes and buffer are set; the reader uses extent and buffer until extent_reader_wait()
 *
 * Reads begin in the order of the calls, `depth` at a time. With io_uring, further reads begin only in
 * extent_reader_submit() and extent_reader_wait(): a caller that computes for long needs a depth that lasts as long.
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
 * extent_reader_wait() - wait until an extent is in its buffer
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
