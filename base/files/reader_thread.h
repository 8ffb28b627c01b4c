// SPDX-License-Identifier: Apache-2.0
/* A thread that reads extents of one file for the object that embeds it, and what both share. */
#ifndef COORDGEN_BASE_READER_THREAD_H
#define COORDGEN_BASE_READER_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/files/extent_reader.h"

/* Called again and again under the mutex, which a step may release meanwhile. */
typedef void ReaderThreadStep(void *arg);

typedef struct ReaderThread {
    int fd;                /* const; the caller's */
    char *path;            /* const; for messages */
    struct stat known;     /* the file as it was; the thread's */
    ExtentReader *extents; /* the thread's, but for its way */
    pthread_mutex_t mutex;
    pthread_cond_t work; /* wakes the thread */
    pthread_cond_t came; /* wakes those who wait for the thread */
    bool is_stopping;    /* mutex */
    ReaderThreadStep *step;
    void *arg;
    pthread_t thread;
    bool has_thread;
} ReaderThread;

/* Opens the reader of fd, which the caller keeps open. 0; EXTENT_E_REFUSED, -errno, with a text; reader_thread_deinit()
 * is due in any case. */
int reader_thread_init(ReaderThread *thread, int fd, const char *path, const ExtentReaderOptions *options,
                       ErrText *err);
/* Starts the steps. does: "loads graphs", for the message. 0 or -errno, with a text. */
int reader_thread_start(ReaderThread *thread, const char *name, const char *does, ReaderThreadStep *step, void *arg,
                        ErrText *err);
/* Wakes and ends the thread, which waits for its step. */
void reader_thread_deinit(ReaderThread *thread);

#endif
