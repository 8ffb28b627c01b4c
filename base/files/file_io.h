// SPDX-License-Identifier: Apache-2.0
/* Files: map one read-only, write one atomically, move whole buffers. */
#ifndef COORDGEN_BASE_FILE_IO_H
#define COORDGEN_BASE_FILE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/memory/map_guard.h"

enum {
    FILE_E_SHORT = 1,   /* the file ended before the bytes that were asked for */
    FILE_E_LOST = 2,    /* bytes of a map are gone; the text names the file */
    FILE_E_CHANGED = 3, /* the file is another one than it was */
};

typedef struct MappedFile {
    const uint8_t *data; /* NULL when empty */
    size_t len_bytes;
    MapGuard *guard;
} MappedFile;

/* Regular files only. The map is private and read-only; deinit of a zero struct does nothing. */
int mapped_file_open(MappedFile *file, const char *path, ErrText *err);
int mapped_file_from_fd(MappedFile *file, int fd, const char *name, ErrText *err);
void mapped_file_deinit(MappedFile *file);
/* Whether all that was read of the map was the file's: 0, FILE_E_LOST. Only with map_guard_install(); without it the
 * process has ended by then. Any thread. */
int mapped_file_check(const MappedFile *file, const char *name, ErrText *err);

int file_read_exact(int fd, void *data, size_t len_bytes, uint64_t offset);
int file_write_all(int fd, const void *data, size_t len_bytes);
int file_write_at(int fd, const void *data, size_t len_bytes, uint64_t offset);
/* Whole file (or stream) as a NUL-terminated buffer, at most max_bytes; owned by the caller. */
int file_slurp(const char *path, size_t max_bytes, char **datap, size_t *len_bytesp, ErrText *err);
int file_slurp_fd(int fd, const char *name, size_t max_bytes, char **datap, size_t *len_bytesp, ErrText *err);
/* Bytes of the byte-order mark that some editors put before a text in UTF-8: 3 or 0. */
size_t file_byte_order_mark(const char *text, size_t len_bytes);
/* Checks that an open file has the length and the times of `known`: 0, FILE_E_CHANGED, -errno. A name more or less
 * changes no byte of it: `known` takes such a ctime over. */
int file_check_same(int fd, struct stat *known);
int file_make_dirs(const char *path, ErrText *err);

/* A file that appears under its name whole or not at all; until then it is PATH, this and eight hex digits. */
#define ATOMIC_FILE_INFIX ".tmp-"
typedef struct AtomicFile AtomicFile;
int atomic_file_new(AtomicFile **filep, const char *path, ErrText *err);
int atomic_file_fd(const AtomicFile *file);
/* fsync, rename into place, fsync of the folder. The object is spent and must still be freed. */
int atomic_file_commit(AtomicFile *file, ErrText *err);
/* The same without a wait for the disk: after a power cut the file may be there without its bytes. */
int atomic_file_commit_unsynced(AtomicFile *file, ErrText *err);
AtomicFile *atomic_file_free(AtomicFile *file); /* removes the temporary file when not committed */
DEFINE_CLEANUP(AtomicFile, atomic_file_free)

/* SHA-256 as 64 hex digits and a NUL. */
#define SHA256_HEX_BYTES 65
void sha256_hex(const void *data, size_t len_bytes, char hex[SHA256_HEX_BYTES]);

#endif
