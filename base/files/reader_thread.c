// SPDX-License-Identifier: Apache-2.0
#include "base/files/reader_thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/thread.h"

int reader_thread_init(ReaderThread *thread, int fd, const char *path, const ExtentReaderOptions *options,
                       ErrText *err) {
    *thread = (ReaderThread){ .fd = fd };
    pthread_mutex_init(&thread->mutex, NULL);
    thread_cond_init(&thread->work);
    thread_cond_init(&thread->came);
    thread->path = strdup(path);
    if (!thread->path)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    if (fstat(fd, &thread->known) < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    return extent_reader_new(&thread->extents, fd, path, options, err);
}

static void *run_steps(void *arg) {
    ReaderThread *thread = arg;

    pthread_mutex_lock(&thread->mutex);
    while (!thread->is_stopping)
        thread->step(thread->arg);
    pthread_mutex_unlock(&thread->mutex);
    /* Freed by this thread, for the kernel cancels the requests of a thread to a ring when that thread ends. */
    extent_reader_free(thread->extents);
    return NULL;
}

int reader_thread_start(ReaderThread *thread, const char *name, const char *does, ReaderThreadStep *step, void *arg,
                        ErrText *err) {
    int r;

    thread->step = step;
    thread->arg = arg;
    r = thread_start(&thread->thread, name, run_steps, thread);
    if (r)
        return err_set(err, r, "%s: cannot start the thread that %s: %s", thread->path, does, strerror(-r));
    thread->has_thread = true;
    return 0;
}

void reader_thread_deinit(ReaderThread *thread) {
    if (thread->has_thread) {
        pthread_mutex_lock(&thread->mutex);
        thread->is_stopping = true;
        pthread_cond_signal(&thread->work);
        pthread_mutex_unlock(&thread->mutex);
        pthread_join(thread->thread, NULL);
    } else {
        extent_reader_free(thread->extents);
    }
    pthread_cond_destroy(&thread->work);
    pthread_cond_destroy(&thread->came);
    pthread_mutex_destroy(&thread->mutex);
    free(thread->path);
}
