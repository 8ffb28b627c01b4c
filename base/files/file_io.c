// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/files/file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strings/str_buf.h"

int mapped_file_from_fd(MappedFile *file, int fd, const char *name, ErrText *err) {
    struct stat st;
    void *data;

    *file = (MappedFile){ 0 };
    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", name, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "%s: not a regular file", name);
    if (st.st_size == 0)
        return 0;
    data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return err_set(err, -errno, "%s: cannot map %lld bytes: %s", name, (long long)st.st_size, strerror(errno));
    *file = (MappedFile){ .data = data, .len_bytes = (size_t)st.st_size };
    if (!map_guard_add(&file->guard, data, (size_t)st.st_size))
        return 0;
    mapped_file_deinit(file);
    return err_set(err, -EMFILE, "%s: %d files are mapped already: unload models", name, MAP_GUARD_MAPS_MAX);
}

int mapped_file_open(MappedFile *file, const char *path, ErrText *err) {
    _cleanup_(closep) int fd = -1;

    *file = (MappedFile){ 0 };
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    return mapped_file_from_fd(file, fd, path, err);
}

void mapped_file_deinit(MappedFile *file) {
    map_guard_remove(file->guard);
    if (file->data)
        munmap((void *)file->data, file->len_bytes);
    *file = (MappedFile){ 0 };
}

int mapped_file_check(const MappedFile *file, const char *name, ErrText *err) {
    if (!map_guard_is_lost(file->guard))
        return 0;
    return err_set(err, FILE_E_LOST,
                   "%s: it was cut short while it was read, or its disk fails: put the whole file there again", name);
}

/**
 * file_read_exact() - read len_bytes at offset, in as many reads as it takes
 * Return: 0, FILE_E_SHORT at the end of the file, or -errno.
 */
int file_read_exact(int fd, void *data, size_t len_bytes, uint64_t offset) {
    uint8_t *at = data;

    while (len_bytes) {
        ssize_t n = pread(fd, at, len_bytes, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return FILE_E_SHORT;
        at += n;
        offset += (uint64_t)n;
        len_bytes -= (size_t)n;
    }
    return 0;
}

int file_write_all(int fd, const void *data, size_t len_bytes) {
    const uint8_t *at = data;

    while (len_bytes) {
        ssize_t n = write(fd, at, len_bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        len_bytes -= (size_t)n;
    }
    return 0;
}

int file_write_at(int fd, const void *data, size_t len_bytes, uint64_t offset) {
    const uint8_t *at = data;

    while (len_bytes) {
        ssize_t n = pwrite(fd, at, len_bytes, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        offset += (uint64_t)n;
        len_bytes -= (size_t)n;
    }
    return 0;
}

int file_slurp_fd(int fd, const char *name, size_t max_bytes, char **datap, size_t *len_bytesp, ErrText *err) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    size_t len_bytes;
    char part[65536], *data;

    for (;;) {
        ssize_t n = read(fd, part, sizeof(part));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(err, -errno, "%s: %s", name, strerror(errno));
        if (n == 0)
            break;
        if ((size_t)n > max_bytes - text.len_bytes)
            return err_set(err, -EFBIG, "%s: longer than %zu bytes", name, max_bytes);
        str_buf_append(&text, part, (size_t)n);
    }
    len_bytes = text.len_bytes;
    data = str_buf_steal(&text);
    if (!data)
        return err_set(err, -ENOMEM, "%s: out of memory", name);
    *datap = data;
    *len_bytesp = len_bytes;
    return 0;
}

int file_slurp(const char *path, size_t max_bytes, char **datap, size_t *len_bytesp, ErrText *err) {
    _cleanup_(closep) int fd = -1;

    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    return file_slurp_fd(fd, path, max_bytes, datap, len_bytesp, err);
}

size_t file_byte_order_mark(const char *text, size_t len_bytes) {
    return len_bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

/* Makes the folder and the missing folders above it (mode 0777 less the umask). */
int file_make_dirs(const char *path, ErrText *err) {
    _cleanup_(freep) char *copy = NULL;

    if (!*path) /* the loop begins behind the first byte, which may be the root's slash */
        return err_set(err, -EINVAL, "cannot make a folder: its name is empty");
    copy = strdup(path);
    if (!copy)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    for (char *at = copy + 1;; at++) {
        char c = *at;

        if (c && c != '/')
            continue;
        *at = 0;
        if (mkdir(copy, 0777) < 0 && errno != EEXIST)
            return err_set(err, -errno, "%s: cannot make the folder: %s", copy, strerror(errno));
        if (!c)
            return 0;
        *at = c;
    }
}

struct AtomicFile {
    char *path;
    char *temporary_path;
    int fd;
    bool committed;
};

AtomicFile *atomic_file_free(AtomicFile *file) {
    if (!file)
        return NULL;
    if (file->fd >= 0) {
        close(file->fd);
        if (!file->committed)
            unlink(file->temporary_path);
    }
    free(file->path);
    free(file->temporary_path);
    free(file);
    return NULL;
}

/* Opens a file of a new name beside path, with the permissions that the umask leaves. mkostemp() does not serve: its
 * file would get these permissions only by a change of the umask, which other threads would see. */
static int open_temporary(AtomicFile *file) {
    uint32_t suffix;

    do {
        free(file->temporary_path);
        if (getrandom(&suffix, sizeof(suffix), 0) != sizeof(suffix))
            return -errno;
        if (asprintf(&file->temporary_path, "%s" ATOMIC_FILE_INFIX "%08" PRIx32, file->path, suffix) < 0) {
            file->temporary_path = NULL;
            return -ENOMEM;
        }
        file->fd = open(file->temporary_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (file->fd < 0 && errno == EEXIST);
    return file->fd < 0 ? -errno : 0;
}

/**
 * atomic_file_new() - open a temporary file beside path, which atomic_file_commit() renames to path
 * Return: 0, or -errno with a text that names the path.
 */
int atomic_file_new(AtomicFile **filep, const char *path, ErrText *err) {
    _cleanup_(atomic_file_freep) AtomicFile *file = calloc(1, sizeof(*file));
    int r;

    if (!file)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    file->fd = -1;
    file->path = strdup(path);
    if (!file->path)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    r = open_temporary(file);
    if (r)
        return err_set(err, r, "%s: cannot create a file there: %s", path, strerror(-r));
    *filep = steal(&file);
    return 0;
}

int atomic_file_fd(const AtomicFile *file) {
    return file->fd;
}

int atomic_file_commit_unsynced(AtomicFile *file, ErrText *err) {
    if (rename(file->temporary_path, file->path) < 0)
        return err_set(err, -errno, "%s: cannot rename into place: %s", file->path, strerror(errno));
    file->committed = true;
    return 0;
}

int atomic_file_commit(AtomicFile *file, ErrText *err) {
    _cleanup_(freep) char *folder = strdup(file->path);
    _cleanup_(closep) int folder_fd = -1;
    char *slash;
    int r;

    if (!folder)
        return err_set(err, -ENOMEM, "%s: out of memory", file->path);
    if (fsync(file->fd) < 0)
        return err_set(err, -errno, "%s: cannot write: %s", file->path, strerror(errno));
    r = atomic_file_commit_unsynced(file, err);
    if (r)
        return r;
    slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    folder_fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd >= 0)
        (void)fsync(folder_fd); /* keeps the name through a power cut */
    return 0;
}

void sha256_hex(const void *data, size_t len_bytes, char hex[SHA256_HEX_BYTES]) {
    struct sha256_ctx context;
    uint8_t digest[SHA256_DIGEST_SIZE];

    sha256_init(&context);
    sha256_update(&context, len_bytes, data);
    sha256_digest(&context, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}
