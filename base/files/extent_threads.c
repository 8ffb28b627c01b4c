// SPDX-License-Identifier: Apache-2.0
/* Reads with pread() in up to 4 threads, on systems that refuse io_uring. A lock guards the reader's queue. */
#define _GNU_SOURCE
#include "base/files/extent_threads.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/thread.h"

enum {
    THREADS_MAX = 4,
};

typedef struct Threads {
    ExtentReader *reader;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    bool is_stopping;   /* guarded by lock, as the queue and the state of extents are */
    size_t n_under_way; /* pieces */
    unsigned int n_threads;
    pthread_t threads[THREADS_MAX];
} Threads;

static ssize_t read_once(const ExtentPiece *piece) {
    ssize_t n_read;

    do
        n_read = pread(piece->fd, piece->buffer, piece->len_bytes, (off_t)piece->offset_bytes);
    while (n_read < 0 && errno == EINTR);
    return n_read < 0 ? -errno : n_read;
}

static void *thread_main(void *arg) {
    Threads *threads = arg;
    ExtentPiece piece;
    int r;

    pthread_mutex_lock(&threads->lock);
    while (!threads->is_stopping) {
        if (!extent_take_piece(threads->reader, &piece)) {
            pthread_cond_wait(&threads->work, &threads->lock);
            continue;
        }
        threads->n_under_way++;
        pthread_mutex_unlock(&threads->lock);
        r = extent_finish_piece(threads->reader, &piece, read_once(&piece));
        pthread_mutex_lock(&threads->lock);
        threads->n_under_way--;
        extent_piece_done(&piece, r);
        if (extent_is_whole(piece.extent) || !threads->n_under_way)
            pthread_cond_broadcast(&threads->done);
    }
    pthread_mutex_unlock(&threads->lock);
    return NULL;
}

static void threads_deinit(ExtentReader *reader) {
    Threads *threads = reader->way;

    pthread_mutex_lock(&threads->lock);
    assert(!threads->n_under_way);
    threads->is_stopping = true;
    pthread_cond_broadcast(&threads->work);
    pthread_mutex_unlock(&threads->lock);
    for (unsigned int i = 0; i < threads->n_threads; i++)
        pthread_join(threads->threads[i], NULL);
    pthread_cond_destroy(&threads->work);
    pthread_cond_destroy(&threads->done);
    pthread_mutex_destroy(&threads->lock);
    free(threads);
    reader->way = NULL;
}

static int threads_init(ExtentReader *reader, ErrText *err) {
    Threads *threads = calloc(1, sizeof(*threads));
    int r = 0;

    if (!threads)
        return err_set(err, -ENOMEM, "%s: out of memory", reader->path);
    threads->reader = reader;
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->work, NULL);
    pthread_cond_init(&threads->done, NULL);
    reader->way = threads;
    while (!r && threads->n_threads < THREADS_MAX && threads->n_threads < reader->depth) {
        r = thread_start(&threads->threads[threads->n_threads], "file-reader", thread_main, threads);
        threads->n_threads += !r;
    }
    if (threads->n_threads) /* one thread suffices */
        return 0;
    threads_deinit(reader);
    return err_set(err, r, "%s: cannot start a thread that reads: %s", reader->path, strerror(-r));
}

static void threads_submit(ExtentReader *reader, Extent *extent) {
    Threads *threads = reader->way;

    pthread_mutex_lock(&threads->lock);
    extent_queue(reader, extent);
    pthread_cond_broadcast(&threads->work);
    pthread_mutex_unlock(&threads->lock);
}

static void threads_wait(ExtentReader *reader, const Extent *extent) {
    Threads *threads = reader->way;

    pthread_mutex_lock(&threads->lock);
    while (!extent_is_whole(extent))
        pthread_cond_wait(&threads->done, &threads->lock);
    pthread_mutex_unlock(&threads->lock);
}

static void threads_cancel(ExtentReader *reader) {
    Threads *threads = reader->way;

    pthread_mutex_lock(&threads->lock);
    extent_drop_queue(reader);
    while (threads->n_under_way)
        pthread_cond_wait(&threads->done, &threads->lock);
    pthread_mutex_unlock(&threads->lock);
}

const ExtentWayOps extent_threads_ops = {
    .names = { "threads", "threads, direct" },
    .init = threads_init,
    .deinit = threads_deinit,
    .submit = threads_submit,
    .wait = threads_wait,
    .cancel = threads_cancel,
};
