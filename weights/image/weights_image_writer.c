// SPDX-License-Identifier: Apache-2.0
/*
 * Writes an image during a load, by a thread at the lowest priorities. Each matrix is written as it comes, as far as
 * the load leaves processors idle, and the rest after the load. The image gets its name when the whole load has
 * succeeded.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/min_max.h"
#include "base/system/thread.h"
#include "weights/image/weights_image.h"
#include "weights/image/weights_image_file.h"

enum {
    IOPRIO_OF_THREAD = 1,        /* IOPRIO_WHO_PROCESS; glibc has no header for it */
    IOPRIO_LOWEST = 2 << 13 | 7, /* not the idle class: freeing the engine waits for a write to end */
    LOWEST_NICE = 19,
};

struct WeightsImageWriter {
    ImageFile file;
    WeightsImageKey key;
    WeightsImageHow how;
    _Atomic uint64_t written_bytes;
    _Atomic ImageState state; /* file.room does not change after IMAGE_NO_ROOM */
    WeightsImagePart *parts;  /* [n_parts]; data are the caller's */
    size_t n_brought;         /* the caller's: parts that have come */
    sem_t came;               /* posted for each part, and once for the whole load, or to give up */
    pthread_t thread;
    bool has_thread;
    _Atomic bool stop;
    int result; /* of the thread, when it has been joined */
    ErrText failure;
};

/* --- the thread --------------------------------------------------------------------------------------------------- */

static int given_up(WeightsImageWriter *writer) {
    return err_set(&writer->failure, -ECANCELED, "%s: given up", writer->file.path);
}

/* Waits for the next part, or after the last one for the word that the load is good. Takes no lock, for the load must
 * not wait for a thread of this priority. */
static int wait_for_caller(WeightsImageWriter *writer) {
    while (sem_wait(&writer->came))
        ;
    return atomic_load(&writer->stop) ? given_up(writer) : 0;
}

static int write_part(WeightsImageWriter *writer, size_t part) {
    const WeightsImagePart *from = &writer->parts[part];

    if (from->len_bytes != image_file_places(&writer->file)[part].len_bytes)
        return err_set(&writer->failure, -EINVAL, "%s: matrix %zu has %zu bytes in memory, and another number was said",
                       writer->file.path, part, from->len_bytes);
    for (size_t done = 0, n; done < from->len_bytes; done += n) {
        int r;

        if (atomic_load(&writer->stop))
            return given_up(writer);
        n = MIN(from->len_bytes - done, IMAGE_STEP_BYTES);
        r = image_file_write(&writer->file, part, done, (const uint8_t *)from->data + done, n, &writer->failure);
        if (r)
            return r;
        atomic_fetch_add(&writer->written_bytes, n);
    }
    return 0;
}

/* Whether another load without an image has written one meanwhile. */
static bool is_there(const WeightsImageWriter *writer) {
    _cleanup_(weights_image_freep) WeightsImage *image = NULL;

    return !(writer->how & WEIGHTS_IMAGE_ANEW) &&
           !weights_image_open(&image, writer->file.path, &writer->key, writer->file.n_parts, NULL);
}

static int write_parts(WeightsImageWriter *writer) {
    int r = image_file_begin(&writer->file, &writer->failure);

    for (size_t i = 0; i < writer->file.n_parts && !r; i++) {
        r = wait_for_caller(writer);
        if (!r)
            r = write_part(writer, i);
    }
    return r ? r : wait_for_caller(writer);
}

static int write_all(WeightsImageWriter *writer) {
    int r;

    if (is_there(writer))
        return 0;
    r = write_parts(writer);
    if (!r && !is_there(writer))
        r = image_file_commit(&writer->file, &writer->failure);
    image_file_drop(&writer->file);
    return r;
}

static void *write_main(void *arg) {
    WeightsImageWriter *writer = arg;

    /* On Linux each thread has both priorities. */
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOWEST_NICE);
    (void)syscall(SYS_ioprio_set, IOPRIO_OF_THREAD, 0, IOPRIO_LOWEST);
    writer->result = write_all(writer);
    atomic_store(&writer->state, !writer->result           ? IMAGE_WRITTEN
                                 : writer->file.lacks_room ? IMAGE_NO_ROOM
                                                           : IMAGE_FAILED);
    if (!writer->result)
        log_info(TOPIC_ENGINE, "%s: image of the weights, %" PRIu64 " MB", writer->file.path,
                 (writer->file.len_bytes + 500000) / 1000000);
    else if (writer->file.lacks_room && writer->file.is_optional)
        log_notice(TOPIC_ENGINE, "no image of the weights: %s", writer->failure.text);
    else if (writer->result != -ECANCELED)
        log_warn(TOPIC_ENGINE, "no image of the weights: %s", writer->failure.text);
    return NULL;
}

/* --- object ------------------------------------------------------------------------------------------------------- */

WeightsImageWriter *weights_image_writer_free(WeightsImageWriter *writer) {
    if (!writer)
        return NULL;
    atomic_store(&writer->stop, true);
    (void)sem_post(&writer->came);
    if (writer->has_thread)
        pthread_join(writer->thread, NULL);
    image_file_deinit(&writer->file);
    (void)sem_destroy(&writer->came);
    free(writer->parts);
    free(writer);
    return NULL;
}

ImageReport weights_image_writer_report(const WeightsImageWriter *writer) {
    ImageReport report = { .state = atomic_load(&writer->state),
                           .len_bytes = writer->file.len_bytes,
                           .written_bytes = atomic_load(&writer->written_bytes) };

    if (report.state == IMAGE_NO_ROOM)
        report.room = writer->file.room;
    if (report.state == IMAGE_FAILED)
        report.result = writer->result;
    return report;
}

void weights_image_writer_bring(WeightsImageWriter *writer, const void *data, size_t len_bytes) {
    assert(writer->n_brought < writer->file.n_parts);
    writer->parts[writer->n_brought++] = (WeightsImagePart){ data, len_bytes };
    (void)sem_post(&writer->came);
}

void weights_image_writer_complete(WeightsImageWriter *writer) {
    assert(writer->n_brought == writer->file.n_parts);
    (void)sem_post(&writer->came);
}

int weights_image_writer_wait(WeightsImageWriter *writer, ErrText *err) {
    if (writer->has_thread)
        pthread_join(writer->thread, NULL);
    writer->has_thread = false;
    if (writer->result && err)
        *err = writer->failure;
    return writer->result;
}

/**
 * weights_image_write() - begin to write an image, which takes the name `path` when it is whole and on the disk
 * @part_bytes: [n_parts], of what weights_image_writer_bring() will bring
 *
 * Removes an earlier file of that name first, so that its room counts as free; a process that has mapped it keeps it.
 * Return: 0, or -errno; weights_image_writer_wait() tells the errors of writing.
 */
int weights_image_write(WeightsImageWriter **writerp, const char *path, const WeightsImageKey *key,
                        const size_t *part_bytes, size_t n_parts, WeightsImageHow how, ErrText *err) {
    _cleanup_(weights_image_writer_freep) WeightsImageWriter *writer = calloc(1, sizeof(*writer));
    int r;

    if (!writer)
        return err_no_memory(err);
    (void)sem_init(&writer->came, 0, 0);
    writer->parts = calloc(n_parts + 1, sizeof(*writer->parts));
    if (!writer->parts)
        return err_no_memory(err);
    writer->key = *key;
    writer->how = how;
    writer->state = IMAGE_WRITING;
    r = image_file_init(&writer->file, path, key, part_bytes, n_parts, err);
    if (r)
        return r;
    writer->file.is_optional = how & WEIGHTS_IMAGE_OPTIONAL;
    r = thread_start(&writer->thread, "weights-image", write_main, writer);
    if (r)
        return err_set(err, r, "cannot start a thread to write %s: %s", path, strerror(-r));
    writer->has_thread = true;
    *writerp = steal(&writer);
    return 0;
}
