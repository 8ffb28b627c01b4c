// SPDX-License-Identifier: Apache-2.0
/*
 * Caller and thread exchange two buffers: the caller fills one while the thread writes the other with O_DIRECT. A file
 * system without direct writes refuses the flag or the first write. Writes then go through the page cache, and the
 * thread sends each to the disk before it makes the next: the final fsync() is short, and no other program's write
 * waits behind gigabytes. Written bytes are dropped from the page cache.
 */
#define _GNU_SOURCE
#include "base/files/behind_writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/files/file_io.h"
#include "base/min_max.h"
#include "base/system/thread.h"

enum {
    N_BUFFERS = 2,
    BUFFER_BYTES = 2 << 20,
    BUFFERS_UNDER_WAY = 16, /* on their way from the page cache to the disk */
};

typedef struct Buffer {
    uint8_t *data; /* [BUFFER_BYTES] */
    size_t len_bytes;
    bool is_full; /* guarded by mutex; a full buffer belongs to the thread */
} Buffer;

struct BehindWriter {
    int fd;
    int flags; /* the file's flags before the writer changed them */
    Buffer buffers[N_BUFFERS];
    pthread_t thread;
    bool has_thread;
    size_t filling; /* the buffer that the caller fills */
    /* Used by the thread alone: */
    uint64_t at_bytes;
    bool is_direct;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Guarded by mutex: */
    bool is_ending; /* the full buffers are the last ones */
    bool is_given_up;
    int result; /* 0 or -errno */
};

/* --- thread ------------------------------------------------------------------------------------------------------- */

/* Sends the last len_bytes from the page cache to the disk, and waits for the bytes of BUFFERS_UNDER_WAY buffers
 * before. */
static void pace(const BehindWriter *writer, size_t len_bytes) {
    const uint64_t behind_bytes = (uint64_t)BUFFERS_UNDER_WAY * BUFFER_BYTES;
    const off_t before = (off_t)(writer->at_bytes - behind_bytes);

    (void)sync_file_range(writer->fd, (off_t)writer->at_bytes, (off_t)len_bytes, SYNC_FILE_RANGE_WRITE);
    if (writer->at_bytes < behind_bytes)
        return;
    (void)sync_file_range(writer->fd, before, BUFFER_BYTES,
                          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    (void)posix_fadvise(writer->fd, before, BUFFER_BYTES, POSIX_FADV_DONTNEED);
}

static int write_buffer(BehindWriter *writer, const Buffer *buffer) {
    int r = file_write_at(writer->fd, buffer->data, buffer->len_bytes, writer->at_bytes);

    if (r == -EINVAL && writer->is_direct) {
        writer->is_direct = false;
        (void)fcntl(writer->fd, F_SETFL, writer->flags);
        r = file_write_at(writer->fd, buffer->data, buffer->len_bytes, writer->at_bytes);
    }
    if (r)
        return r;
    if (!writer->is_direct)
        pace(writer, buffer->len_bytes);
    writer->at_bytes += buffer->len_bytes;
    return 0;
}

static void *write_main(void *arg) {
    BehindWriter *writer = arg;

    pthread_mutex_lock(&writer->mutex);
    for (size_t next = 0; !writer->result; next = (next + 1) % N_BUFFERS) {
        Buffer *buffer = &writer->buffers[next];
        int r;

        while (!buffer->is_full && !writer->is_ending && !writer->is_given_up)
            pthread_cond_wait(&writer->changed, &writer->mutex);
        if (!buffer->is_full || writer->is_given_up)
            break;
        pthread_mutex_unlock(&writer->mutex);
        r = write_buffer(writer, buffer);
        pthread_mutex_lock(&writer->mutex);
        buffer->is_full = false;
        writer->result = r;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->mutex);
    return NULL;
}

/* --- caller ------------------------------------------------------------------------------------------------------- */

static void join(BehindWriter *writer) {
    if (writer->has_thread)
        pthread_join(writer->thread, NULL);
    writer->has_thread = false;
}

BehindWriter *behind_writer_free(BehindWriter *writer) {
    if (!writer)
        return NULL;
    pthread_mutex_lock(&writer->mutex);
    writer->is_given_up = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    join(writer);
    for (size_t i = 0; i < N_BUFFERS; i++)
        free(writer->buffers[i].data);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->mutex);
    free(writer);
    return NULL;
}

int behind_writer_new(BehindWriter **writerp, int fd, uint64_t at_bytes) {
    _cleanup_(behind_writer_freep) BehindWriter *writer = calloc(1, sizeof(*writer));
    int r;

    assert(at_bytes % BEHIND_WRITER_ALIGNMENT == 0);
    if (!writer)
        return err_raise(-ENOMEM);
    pthread_mutex_init(&writer->mutex, NULL);
    pthread_cond_init(&writer->changed, NULL);
    writer->fd = fd;
    writer->at_bytes = at_bytes;
    for (size_t i = 0; i < N_BUFFERS; i++) {
        writer->buffers[i].data = aligned_alloc(BEHIND_WRITER_ALIGNMENT, BUFFER_BYTES);
        if (!writer->buffers[i].data)
            return err_raise(-ENOMEM);
    }
    writer->flags = fcntl(fd, F_GETFL);
    if (writer->flags < 0)
        return -errno;
    writer->is_direct = !fcntl(fd, F_SETFL, writer->flags | O_DIRECT);
    r = thread_start(&writer->thread, "behind-writer", write_main, writer);
    if (r) {
        (void)fcntl(fd, F_SETFL, writer->flags);
        return r;
    }
    writer->has_thread = true;
    *writerp = steal(&writer);
    return 0;
}

/* Gives the filled buffer to the thread, and waits until the next one is empty. */
static int hand_over(BehindWriter *writer) {
    Buffer *next;
    int r;

    pthread_mutex_lock(&writer->mutex);
    writer->buffers[writer->filling].is_full = true;
    writer->filling = (writer->filling + 1) % N_BUFFERS;
    next = &writer->buffers[writer->filling];
    pthread_cond_broadcast(&writer->changed);
    while (next->is_full && !writer->result)
        pthread_cond_wait(&writer->changed, &writer->mutex);
    r = writer->result;
    pthread_mutex_unlock(&writer->mutex);
    next->len_bytes = 0;
    return r;
}

int behind_writer_put(BehindWriter *writer, const void *data, size_t len_bytes) {
    const uint8_t *from = data;
    int r = 0;

    for (size_t n; len_bytes && !r; from += n, len_bytes -= n) {
        Buffer *buffer = &writer->buffers[writer->filling];

        n = MIN(len_bytes, BUFFER_BYTES - buffer->len_bytes);
        memcpy(buffer->data + buffer->len_bytes, from, n);
        buffer->len_bytes += n;
        if (buffer->len_bytes == BUFFER_BYTES)
            r = hand_over(writer);
    }
    return r;
}

int behind_writer_end(BehindWriter *writer) {
    Buffer *last = &writer->buffers[writer->filling];
    const size_t over_bytes = last->len_bytes % BEHIND_WRITER_ALIGNMENT;

    if (over_bytes) {
        memset(last->data + last->len_bytes, 0, BEHIND_WRITER_ALIGNMENT - over_bytes);
        last->len_bytes += BEHIND_WRITER_ALIGNMENT - over_bytes;
    }
    pthread_mutex_lock(&writer->mutex);
    last->is_full = last->len_bytes > 0;
    writer->is_ending = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    join(writer);
    (void)fcntl(writer->fd, F_SETFL, writer->flags);
    return writer->result;
}
