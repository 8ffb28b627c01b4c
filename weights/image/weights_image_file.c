// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "weights/image/weights_image_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/min_max.h"

enum {
    DIGEST_BYTES = 64 << 10, /* hashed at a time, so that they are in the processor's cache for the copy */
};

static ImagePlace *places_of(const ImageFile *file) {
    return (ImagePlace *)((ImageHead *)file->head + 1);
}

static int write_error(const ImageFile *file, int r, ErrText *err) {
    return err_set(err, r, "%s: cannot write the %.1f MB of the weights' image: %s", file->path,
                   (double)file->len_bytes / 1e6, strerror(-r));
}

void image_file_drop(ImageFile *file) {
    file->writer = behind_writer_free(file->writer); /* it writes to the file */
    file->file = atomic_file_free(file->file);
}

void image_file_deinit(ImageFile *file) {
    image_file_drop(file);
    free(file->head);
    free(file->path);
    *file = (ImageFile){ 0 };
}

const ImagePlace *image_file_places(const ImageFile *file) {
    return places_of(file);
}

/* Makes head, places and path in one piece, as the file begins. */
static int make_head(ImageFile *file, const WeightsImageKey *key, const size_t *part_bytes, ErrText *err) {
    const size_t path_bytes = strlen(key->package_path) + 1;
    ImagePlace *places;
    ImageHead *head;
    uint64_t at;

    file->head_bytes = sizeof(*head) + file->n_parts * sizeof(*places) + path_bytes;
    head = file->head = calloc(1, (size_t)file->head_bytes);
    if (!head)
        return err_no_memory(err);
    image_head_init(head, key);
    head->n_parts = (uint32_t)file->n_parts;
    head->head_bytes = file->head_bytes;
    head->path_bytes = (uint32_t)path_bytes;
    places = (ImagePlace *)(head + 1);
    memcpy(places + file->n_parts, key->package_path, path_bytes);
    at = (file->head_bytes + IMAGE_PAGE - 1) / IMAGE_PAGE * IMAGE_PAGE;
    for (size_t i = 0; i < file->n_parts; i++) {
        places[i] = (ImagePlace){ .offset_bytes = at, .len_bytes = part_bytes[i] };
        head->len_bytes = at + places[i].len_bytes;
        at = (head->len_bytes + IMAGE_ALIGNMENT - 1) / IMAGE_ALIGNMENT * IMAGE_ALIGNMENT;
    }
    file->len_bytes = head->len_bytes;
    return 0;
}

int image_file_init(ImageFile *file, const char *path, const WeightsImageKey *key, const size_t *part_bytes,
                    size_t n_parts, ErrText *err) {
    int r;

    *file = (ImageFile){ .n_parts = n_parts };
    if (!n_parts || n_parts > IMAGE_PARTS_MAX || path[0] != '/' || strlen(key->package_path) >= PATH_MAX)
        return err_set(err, -EINVAL, "%s: no image of %zu matrices there", path, n_parts);
    file->path = strdup(path);
    r = file->path ? make_head(file, key, part_bytes, err) : err_no_memory(err);
    if (r)
        image_file_deinit(file);
    return r;
}

static int check_room(ImageFile *file, const char *folder, ErrText *err) {
    image_room_find(&file->room, folder, file->len_bytes);
    file->lacks_room = !image_room_suffices(&file->room, file->is_optional);
    if (!file->lacks_room)
        return 0;
    if (file->is_optional && file->room.is_memory)
        return err_set(err, -ENOSPC, "%s: files of this folder are in memory, which an image would take twice",
                       file->path);
    return err_set(err, -ENOSPC,
                   "%s: the weights' image would take %.1f MB; %.1f MB are free there beside %.1f MB of images, which "
                   "take at most half of both",
                   file->path, (double)file->len_bytes / 1e6, (double)file->room.free_bytes / 1e6,
                   (double)file->room.others_bytes / 1e6);
}

int image_file_begin(ImageFile *file, ErrText *err) {
    _cleanup_(freep) char *folder = strdup(file->path);
    int r, fd;

    if (!folder)
        return err_no_memory(err);
    *strrchr(folder, '/') = 0;
    r = file_make_dirs(folder, err);
    if (r)
        return r;
    weights_image_tidy(file->path);
    (void)unlink(file->path); /* the old image is of no use; a process that has mapped it keeps it */
    r = check_room(file, folder, err);
    if (!r)
        r = atomic_file_new(&file->file, file->path, err);
    if (r)
        return r;
    fd = atomic_file_fd(file->file);
    (void)flock(fd, LOCK_EX | LOCK_NB);
    (void)fchmod(fd, 0600); /* whatever the umask: an image that others may write to is not used */
    r = file_write_at(fd, file->head, (size_t)file->head_bytes, 0);
    file->at_bytes = places_of(file)[0].offset_bytes;
    if (!r)
        r = behind_writer_new(&file->writer, fd, file->at_bytes);
    return r ? write_error(file, r, err) : 0;
}

/* Writes zeros up to where the part begins. */
static int put_padding(ImageFile *file, const ImagePlace *place) {
    static const uint8_t zeros[IMAGE_ALIGNMENT];
    const size_t n = (size_t)(place->offset_bytes - file->at_bytes);
    int r;

    assert(n < sizeof(zeros)); /* parts come in their order */
    r = behind_writer_put(file->writer, zeros, n);
    file->at_bytes += r ? 0 : n;
    return r;
}

int image_file_write(ImageFile *file, size_t part, size_t at_bytes, const void *data, size_t len_bytes, ErrText *err) {
    ImagePlace *place = &places_of(file)[part];
    int r = 0;

    if (!at_bytes) {
        r = put_padding(file, place);
        sha256_init(&file->context);
    }
    for (size_t done = 0, n; !r && done < len_bytes; done += n) {
        n = MIN(len_bytes - done, DIGEST_BYTES);
        sha256_update(&file->context, n, (const uint8_t *)data + done);
        r = behind_writer_put(file->writer, (const uint8_t *)data + done, n);
    }
    if (r)
        return write_error(file, r, err);
    file->at_bytes += len_bytes;
    if (at_bytes + len_bytes == place->len_bytes)
        sha256_digest(&file->context, sizeof(place->sha256), place->sha256);
    return 0;
}

int image_file_commit(ImageFile *file, ErrText *err) {
    const int fd = atomic_file_fd(file->file);
    ImageHead *head = file->head;
    int r = behind_writer_end(file->writer);

    if (r)
        return write_error(file, r, err);
    if (ftruncate(fd, (off_t)file->len_bytes) < 0) /* the last part may be empty */
        return write_error(file, -errno, err);
    image_digest(head, (size_t)file->head_bytes, head->sha256);
    r = file_write_at(fd, head, (size_t)file->head_bytes, 0); /* the parts have their digests by now */
    if (r)
        return write_error(file, r, err);
    r = atomic_file_commit(file->file, err);
    if (!r)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return r;
}
