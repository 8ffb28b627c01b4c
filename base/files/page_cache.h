// SPDX-License-Identifier: Apache-2.0
/* What of a file the page cache holds: to choose how to read it, and to measure reads that come from the disk. */
#ifndef COORDGEN_BASE_PAGE_CACHE_H
#define COORDGEN_BASE_PAGE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    PAGE_CACHE_E_KEPT = 1, /* pages that would not go; the text says how many */
};

/* Whether bytes of a file, at most 64 MiB, could be read without the disk. */
bool page_cache_holds(int fd, uint64_t offset_bytes, size_t len_bytes);
/* Pages of the whole file, and those in memory. The system tells the truth to the file's owner and its writers only;
 * to others all are in memory. */
int page_cache_count(int fd, const char *path, uint64_t *residentp, uint64_t *pagesp, ErrText *err);
/* Writes out what is dirty and drops all pages of the file. Maps of it must be gone. */
int page_cache_drop(int fd, const char *path, ErrText *err);

/* Bytes a second of reading the file in its order with O_DIRECT, its first max_bytes (0: all of it); what a load is
 * measured against. Leaves the page cache as it is. */
int page_cache_disk_speed(const char *path, uint64_t max_bytes, double *bytes_per_sp, ErrText *err);

#endif
