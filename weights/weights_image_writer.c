// SPDX-License-Identifier: Apache-2.0
/*
 * Writes an image behind a load: step by step at the lowest priorities, each step sent on its way to the disk before
 * the next ones are written, so that little is left for the fsync() at the end and nobody else's writes stand behind
 * gigabytes. What has reached the disk leaves the page cache again: the process has it in memory once already, and a
 * process that comes later and maps the image brings it back.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include "base/log.h"
#include "base/thread.h"
#include "weights/weights_image_private.h"

enum {
    STEPS_UNDER_WAY = 8,
    DIGITS = 8,                  /* of a temporary name */
    IOPRIO_OF_THREAD = 1,        /* IOPRIO_WHO_PROCESS; glibc has no header for it */
    IOPRIO_LOWEST = 2 << 13 | 7, /* not idle: whoever frees the engine waits for a write to end */
    LOWEST_NICE = 19,
};

struct WeightsImageWriter {
    char *path;
    void *head; /* with places and path */
    uint64_t head_bytes, len_bytes;
    WeightsImagePart *parts; /* [n_parts]; data are the caller's */
    size_t n_parts;
    pthread_t thread;
    bool has_thread;
    _Atomic bool stop;
    int result; /* of the thread, when it has been joined */
    ErrText failure;
};

/* --- the folder --------------------------------------------------------------------------------------------------- */

/* Whether an image is of no use to anybody: its package is gone, or it is another version's. What is no image is left
 * alone. */
static bool is_orphan(int folder_fd, const char *name) {
    _cleanup_(closep) int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ImageHead head;
    char path[PATH_MAX + 1] = "";

    if (fd < 0 || file_read_exact(fd, &head, sizeof(head), 0) || memcmp(head.magic, IMAGE_MAGIC, sizeof(head.magic)))
        return false;
    if (head.version != IMAGE_VERSION || strncmp(head.program, COORDGEN_VERSION, sizeof(head.program)))
        return true;
    if (!head.path_bytes || head.path_bytes > PATH_MAX || head.head_bytes < sizeof(head) + head.path_bytes ||
        file_read_exact(fd, path, head.path_bytes, head.head_bytes - head.path_bytes))
        return false;
    return access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* Whether a temporary file is one of a writer that was killed: who writes holds a lock on it. */
static bool is_left_over(int folder_fd, const char *name) {
    const char *digits = strstr(name, IMAGE_SUFFIX ATOMIC_FILE_INFIX);
    _cleanup_(closep) int fd = -1;
    char magic[8];
    int r;

    digits += digits ? strlen(IMAGE_SUFFIX ATOMIC_FILE_INFIX) : 0;
    if (!digits || strlen(digits) != DIGITS || strspn(digits, "0123456789abcdef") != DIGITS)
        return false;
    fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return false;
    r = file_read_exact(fd, magic, sizeof(magic), 0); /* short: its writer may not have the lock yet */
    return !r && !memcmp(magic, IMAGE_MAGIC, sizeof(magic));
}

static bool ends_with(const char *text, const char *end) {
    const size_t text_bytes = strlen(text), end_bytes = strlen(end);

    return text_bytes > end_bytes && !strcmp(text + text_bytes - end_bytes, end);
}

void weights_image_tidy(const char *image_path) {
    _cleanup_(freep) char *path = strdup(image_path);
    const struct dirent *entry;
    DIR *folder;

    if (!path)
        return;
    *strrchr(path, '/') = 0;
    folder = opendir(path);
    while (folder && (entry = readdir(folder)))
        if ((ends_with(entry->d_name, IMAGE_SUFFIX) && is_orphan(dirfd(folder), entry->d_name)) ||
            is_left_over(dirfd(folder), entry->d_name))
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

static int write_error(WeightsImageWriter *writer, int r) {
    return err_set(&writer->failure, r, "%s: cannot write the %.1f MB of the weights' image: %s", writer->path,
                   (double)writer->len_bytes / 1e6, strerror(-r));
}

static int given_up(WeightsImageWriter *writer) {
    return err_set(&writer->failure, -ECANCELED, "%s: given up", writer->path);
}

/* A cache takes at most half of what is free. */
static int check_space(WeightsImageWriter *writer, int fd) {
    struct statvfs vfs;
    uint64_t free_bytes;

    if (fstatvfs(fd, &vfs) < 0 || !vfs.f_blocks)
        return 0; /* the file system does not say: writing will */
    free_bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    if (free_bytes / 2 >= writer->len_bytes)
        return 0;
    return err_set(&writer->failure, -ENOSPC,
                   "%s: the weights' image would take %.1f MB, more than half of the %.1f MB that are free there",
                   writer->path, (double)writer->len_bytes / 1e6, (double)free_bytes / 1e6);
}

/* Begins the way of [at, at + len) to the disk, and waits for what was written some steps before. */
static void pace(int fd, uint64_t at_bytes, size_t len_bytes) {
    const uint64_t behind_bytes = (uint64_t)STEPS_UNDER_WAY * IMAGE_STEP_BYTES;

    (void)sync_file_range(fd, (off_t)at_bytes, (off_t)len_bytes, SYNC_FILE_RANGE_WRITE);
    if (at_bytes < behind_bytes)
        return;
    (void)sync_file_range(fd, (off_t)(at_bytes - behind_bytes), IMAGE_STEP_BYTES,
                          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    (void)posix_fadvise(fd, (off_t)(at_bytes - behind_bytes), IMAGE_STEP_BYTES, POSIX_FADV_DONTNEED);
}

static int write_part(WeightsImageWriter *writer, int fd, const void *data, uint64_t len_bytes, uint64_t offset_bytes) {
    for (uint64_t done = 0, n; done < len_bytes; done += n) {
        int r;

        if (atomic_load(&writer->stop))
            return given_up(writer);
        n = len_bytes - done < IMAGE_STEP_BYTES ? len_bytes - done : IMAGE_STEP_BYTES;
        r = file_write_at(fd, (const uint8_t *)data + done, (size_t)n, offset_bytes + done);
        if (r)
            return write_error(writer, r);
        if (!atomic_load(&writer->stop)) /* it waits for the disk */
            pace(fd, offset_bytes + done, (size_t)n);
    }
    return 0;
}

static int write_all(WeightsImageWriter *writer) {
    const ImagePlace *places = (const ImagePlace *)((const ImageHead *)writer->head + 1);
    _cleanup_(atomic_file_freep) AtomicFile *file = NULL;
    _cleanup_(freep) char *folder = strdup(writer->path);
    int r, fd;

    if (!folder)
        return err_set(&writer->failure, -ENOMEM, "out of memory");
    *strrchr(folder, '/') = 0;
    r = file_make_dirs(folder, &writer->failure);
    if (r)
        return r;
    weights_image_tidy(writer->path);
    (void)unlink(writer->path); /* of no use, or nobody would write another one; who has mapped it keeps it */
    r = atomic_file_new(&file, writer->path, &writer->failure);
    if (r)
        return r;
    fd = atomic_file_fd(file);
    (void)flock(fd, LOCK_EX | LOCK_NB);
    (void)fchmod(fd, 0600); /* whatever the umask: one that others may write to would not be used */
    r = check_space(writer, fd);
    if (!r)
        r = write_part(writer, fd, writer->head, writer->head_bytes, 0);
    for (size_t i = 0; i < writer->n_parts && !r; i++)
        r = write_part(writer, fd, writer->parts[i].data, writer->parts[i].len_bytes, places[i].offset_bytes);
    if (!r && ftruncate(fd, (off_t)writer->len_bytes) < 0) /* the last part may be empty */
        r = write_error(writer, -errno);
    if (!r && atomic_load(&writer->stop))
        r = given_up(writer);
    if (r)
        return r;
    r = atomic_file_commit(file, &writer->failure);
    if (!r)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return r;
}

static void *write_main(void *arg) {
    WeightsImageWriter *writer = arg;

    /* Both are a thread's own on Linux. */
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), LOWEST_NICE);
    (void)syscall(SYS_ioprio_set, IOPRIO_OF_THREAD, 0, IOPRIO_LOWEST);
    writer->result = write_all(writer);
    if (!writer->result)
        log_info(TOPIC_ENGINE, "%s: image of the weights, %" PRIu64 " MB", writer->path, writer->len_bytes / 1000000);
    else if (writer->result != -ECANCELED)
        log_warn(TOPIC_ENGINE, "no image of the weights: %s", writer->failure.text);
    return NULL;
}

/* --- object ------------------------------------------------------------------------------------------------------- */

WeightsImageWriter *weights_image_writer_free(WeightsImageWriter *writer) {
    if (!writer)
        return NULL;
    atomic_store(&writer->stop, true);
    if (writer->has_thread)
        pthread_join(writer->thread, NULL);
    free(writer->parts);
    free(writer->head);
    free(writer->path);
    free(writer);
    return NULL;
}

int weights_image_writer_wait(WeightsImageWriter *writer, ErrText *err) {
    if (writer->has_thread)
        pthread_join(writer->thread, NULL);
    writer->has_thread = false;
    if (writer->result && err)
        *err = writer->failure;
    return writer->result;
}

/* Head, places and path in one piece, as the file begins. */
static int make_head(WeightsImageWriter *writer, const WeightsImageKey *key, ErrText *err) {
    const size_t path_bytes = strlen(key->package_path) + 1;
    ImagePlace *places;
    ImageHead *head;
    uint64_t at;

    writer->head_bytes = sizeof(*head) + writer->n_parts * sizeof(*places) + path_bytes;
    head = writer->head = calloc(1, (size_t)writer->head_bytes);
    if (!head)
        return err_set(err, -ENOMEM, "out of memory");
    image_head_init(head, key);
    head->n_parts = (uint32_t)writer->n_parts;
    head->head_bytes = writer->head_bytes;
    head->path_bytes = (uint32_t)path_bytes;
    places = (ImagePlace *)(head + 1);
    memcpy(places + writer->n_parts, key->package_path, path_bytes);
    at = (writer->head_bytes + IMAGE_PAGE - 1) / IMAGE_PAGE * IMAGE_PAGE;
    for (size_t i = 0; i < writer->n_parts; i++) {
        places[i] = (ImagePlace){ at, writer->parts[i].len_bytes };
        head->len_bytes = at + places[i].len_bytes;
        at = (head->len_bytes + IMAGE_ALIGNMENT - 1) / IMAGE_ALIGNMENT * IMAGE_ALIGNMENT;
    }
    writer->len_bytes = head->len_bytes;
    image_digest(head, (size_t)writer->head_bytes, head->sha256);
    return 0;
}

/**
 * weights_image_write() - begin to write an image, which takes the name `path` when it is whole and on the disk
 * @parts: none of them changes, nor its memory goes, before weights_image_writer_free()
 *
 * An earlier file of that name goes first, for what is free counts without it; who has mapped it keeps it.
 * Return: 0, or -errno; what the writing itself runs into, weights_image_writer_wait() tells.
 */
int weights_image_write(WeightsImageWriter **writerp, const char *path, const WeightsImageKey *key,
                        const WeightsImagePart *parts, size_t n_parts, ErrText *err) {
    _cleanup_(weights_image_writer_freep) WeightsImageWriter *writer = NULL;
    int r;

    if (!n_parts || n_parts > IMAGE_PARTS_MAX || path[0] != '/' || strlen(key->package_path) >= PATH_MAX)
        return err_set(err, -EINVAL, "%s: no image of %zu matrices there", path, n_parts);
    writer = calloc(1, sizeof(*writer));
    if (!writer)
        return err_set(err, -ENOMEM, "out of memory");
    writer->path = strdup(path);
    writer->parts = calloc(n_parts, sizeof(*parts));
    writer->n_parts = n_parts;
    if (!writer->path || !writer->parts)
        return err_set(err, -ENOMEM, "out of memory");
    memcpy(writer->parts, parts, n_parts * sizeof(*parts));
    r = make_head(writer, key, err);
    if (r)
        return r;
    r = thread_start(&writer->thread, "weights-image", write_main, writer);
    if (r)
        return err_set(err, r, "cannot start a thread to write %s: %s", path, strerror(-r));
    writer->has_thread = true;
    *writerp = steal(&writer);
    return 0;
}
