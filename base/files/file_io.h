// SPDX-License-Identifier: Apache-2.0
/* Maps files read-only, writes files atomically, reads and writes whole buffers. */
#ifndef COORDGEN_BASE_FILE_IO_H
#define COORDGEN_BASE_FILE_IO_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/memory/map_guard.h"

enum {
    FILE_E_SHORT = 1, /* the file ended before the bytes that were asked for */
    FILE_E_LOST = 2,  /* bytes of a map are gone; the text names the file */
};

typedef struct MappedFile {
    const uint8_t *data; /* NULL when empty */
    size_t len_bytes;
    MapGuard *guard;
} MappedFile;

/* Maps a regular file, private and read-only. mapped_file_deinit() accepts a zero struct. */
int mapped_file_open(MappedFile *file, const char *path, ErrText *err);
int mapped_file_from_fd(MappedFile *file, int fd, const char *name, ErrText *err);
void mapped_file_deinit(MappedFile *file);
/* Checks that all bytes read of the map so far came from the file. 0 or FILE_E_LOST. Needs map_guard_install(), without
 * which a missing page ends the process. Any thread. */
int mapped_file_check(const MappedFile *file, const char *name, ErrText *err);

int file_read_exact(int fd, void *data, size_t len_bytes, uint64_t offset);
int file_write_all(int fd, const void *data, size_t len_bytes);
int file_write_at(int fd, const void *data, size_t len_bytes, uint64_t offset);
/* Reads a whole file or stream of at most max_bytes into a NUL-terminated buffer, which the caller owns. */
int file_slurp(const char *path, size_t max_bytes, char **datap, size_t *len_bytesp, ErrText *err);
int file_slurp_fd(int fd, const char *name, size_t max_bytes, char **datap, size_t *len_bytesp, ErrText *err);
/* Returns the length of the byte-order mark that some editors put before a UTF-8 text: 3 or 0. */
size_t file_byte_order_mark(const char *text, size_t len_bytes);
int file_make_dirs(const char *path, ErrText *err);

/* The name of a file that is being written: PATH, this infix and eight hex digits. The file gets PATH when it is
 * whole. */
#define ATOMIC_FILE_INFIX ".tmp-"
typedef struct AtomicFile AtomicFile;
int atomic_file_new(AtomicFile **filep, const char *path, ErrText *err);
int atomic_file_fd(const AtomicFile *file);
/* Syncs the file, renames it to its path and syncs the folder. The caller still frees the object, which is spent. */
int atomic_file_commit(AtomicFile *file, ErrText *err);
/* Renames the file without waiting for the disk: after a power cut the file may exist without its bytes. */
int atomic_file_commit_unsynced(AtomicFile *file, ErrText *err);
AtomicFile *atomic_file_free(AtomicFile *file); /* removes the temporary file when not committed */
DEFINE_CLEANUP(AtomicFile, atomic_file_free)

/* SHA-256 as 64 hex digits and a NUL. */
#define SHA256_HEX_BYTES 65
void sha256_hex(const void *data, size_t len_bytes, char hex[SHA256_HEX_BYTES]);

#endif
