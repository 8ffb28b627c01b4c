// SPDX-License-Identifier: Apache-2.0
/* The pages of the machine: 4 KiB, 16 KiB (Android 15, some AArch64) or 64 KiB. Maps of files, madvise() and mincore()
 * work in these pages. A page of a file format is another number. */
#ifndef COORDGEN_BASE_PAGE_SIZE_H
#define COORDGEN_BASE_PAGE_SIZE_H

#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* Returns the bytes of a page, a power of two. */
static inline size_t page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE); /* no system call in any C library */
}

static inline uint64_t page_round_down(uint64_t n) {
    return n & ~(uint64_t)(page_size() - 1);
}

static inline uint64_t page_round_up(uint64_t n) {
    return page_round_down(n + page_size() - 1);
}

#endif
