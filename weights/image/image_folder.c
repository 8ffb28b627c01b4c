// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "weights/image/image_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "weights/image/image_format.h"

enum {
    DIGITS = 8, /* of a temporary name */
};

int weights_image_path(char *path, size_t room_bytes, const char *cache_dir, const char *package_path) {
    const char *slash = strrchr(package_path, '/');
    char sha256[SHA256_HEX_BYTES];
    int n;

    /* Packages in different folders may have the same name. */
    sha256_hex(package_path, strlen(package_path), sha256);
    n = snprintf(path, room_bytes, "%s/images/%.100s-%.12s" IMAGE_SUFFIX, cache_dir, slash ? slash + 1 : package_path,
                 sha256);
    return n < 0 || (size_t)n >= room_bytes ? -ENAMETOOLONG : 0;
}

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
