// SPDX-License-Identifier: Apache-2.0
/* Asks which bytes of a file the page cache holds: to choose how to read the file, and to measure reads from the disk.
 * */
#ifndef COORDGEN_BASE_PAGE_CACHE_H
#define COORDGEN_BASE_PAGE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    PAGE_CACHE_E_KEPT = 1, /* pages could not be dropped; the text says how many */
};

/* Whether bytes of a file, at most 64 MiB, could be read without the disk. */
bool page_cache_holds(int fd, uint64_t offset_bytes, size_t len_bytes);
/* Counts the pages of the whole file, and those in memory. Linux tells the truth only to the file's owner and writers;
 * to others all pages seem to be in memory. */
int page_cache_count(int fd, const char *path, uint64_t *residentp, uint64_t *pagesp, ErrText *err);
/* Writes dirty pages and drops all pages of the file, which no process may have mapped. */
int page_cache_drop(int fd, const char *path, ErrText *err);

/* Measures the bytes a second of reading the first max_bytes (0: all) of the file in order with O_DIRECT, the
 * reference for loads. Leaves the page cache alone. */
int page_cache_disk_speed(const char *path, uint64_t max_bytes, double *bytes_per_sp, ErrText *err);

#endif
