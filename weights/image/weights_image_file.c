// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "weights/image/weights_image_file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DIGITS = 8,              /* of a temporary name */
    DIGEST_BYTES = 64 << 10, /* hashed at a time, so that they are in the processor's cache for the copy */
};

/* --- the folder --------------------------------------------------------------------------------------------------- */

/* Reads the head of an image, and the path of its package if this version made it, else "". false: it is no image. */
static bool read_head(int folder_fd, const char *name, ImageHead *head, char path[PATH_MAX + 1]) {
    _cleanup_(closep) int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    *path = 0;
    if (fd < 0 || file_read_exact(fd, head, sizeof(*head), 0) || memcmp(head->magic, IMAGE_MAGIC, sizeof(head->magic)))
        return false;
    if (head->version != IMAGE_VERSION || strncmp(head->program, COORDGEN_VERSION, sizeof(head->program)))
        return true;
    if (!head->path_bytes || head->path_bytes > PATH_MAX || head->head_bytes < sizeof(*head) + head->path_bytes ||
        file_read_exact(fd, path, head->path_bytes, head->head_bytes - head->path_bytes))
        return false;
    path[head->path_bytes] = 0;
    return true;
}

/* Whether an image is of no use to anybody: its package is gone, or another version made it. Other files are kept. */
static bool is_orphan(int folder_fd, const char *name) {
    char path[PATH_MAX + 1];
    ImageHead head;

    return read_head(folder_fd, name, &head, path) &&
           (!*path || (access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR)));
}

/* Whether the package is in the state that the image was made of. */
static bool is_current(const ImageHead *head, const char *package_path) {
    _cleanup_(closep) int fd = open(package_path, O_PATH | O_CLOEXEC);
    WeightsImageKey key;

    if (fd < 0 || weights_image_key(&key, fd, package_path, ""))
        return errno != ENOENT && errno != ENOTDIR;
    return key.inode == head->package_inode && key.len_bytes == head->package_bytes &&
           key.mtime_ns == head->package_mtime_ns && key.ctime_ns == head->package_ctime_ns;
}

/* Whether a temporary file is left over from a writer that was killed: a writer holds a lock on its file. */
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

WeightsImageUse weights_image_use(int folder_fd, const char *name, char *package_path) {
    ImageHead head;

    *package_path = 0;
    if (is_left_over(folder_fd, name))
        return WEIGHTS_IMAGE_IS_LEFT_OVER;
    if (!strstr(name, IMAGE_SUFFIX) || !read_head(folder_fd, name, &head, package_path))
        return WEIGHTS_IMAGE_IS_NONE;
    if (strstr(name, IMAGE_SUFFIX ATOMIC_FILE_INFIX))
        return WEIGHTS_IMAGE_IS_CURRENT;
    return *package_path && is_current(&head, package_path) ? WEIGHTS_IMAGE_IS_CURRENT : WEIGHTS_IMAGE_IS_OUTDATED;
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
        return err_set(err, -ENOMEM, "out of memory");
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
    r = file->path ? make_head(file, key, part_bytes, err) : err_set(err, -ENOMEM, "out of memory");
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
        return err_set(err, -ENOMEM, "out of memory");
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
        n = len_bytes - done < DIGEST_BYTES ? len_bytes - done : DIGEST_BYTES;
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
