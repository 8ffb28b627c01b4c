// SPDX-License-Identifier: Apache-2.0
/* A thread that touches new memory ahead of its use: the kernel zeroes it, and the host of a virtual machine finds it,
 * while other threads read or compute. The thread uses huge pages as long as these come soon. */
#ifndef COORDGEN_BASE_PAGE_POPULATOR_H
#define COORDGEN_BASE_PAGE_POPULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

typedef struct PagePopulator PagePopulator;

/* Private anonymous memory, from the beginning of a page on; what it holds stays. */
typedef struct PageRange {
    uint8_t *data;
    size_t len_bytes;
    bool is_huge; /* huge pages were asked for; they may be given up */
} PageRange;

/* Begins at the first range. 0; -ENOMEM; -EOPNOTSUPP: the system cannot do it ahead (Linux before 5.14); or what
 * thread_start() says. Without one memory comes when it is touched, as ever. */
int page_populator_new(PagePopulator **populatorp, const PageRange *ranges, size_t n);
/* Stops within a huge page. The memory must be there until then. */
PagePopulator *page_populator_free(PagePopulator *populator);
DEFINE_CLEANUP(PagePopulator, page_populator_free)

/* Waits until all is there, or the system has refused; how many bytes it has brought, or found. */
size_t page_populator_wait(PagePopulator *populator);

/* Whether a huge page that took so long to come takes longer than the small ones in its place would. */
bool page_populator_is_dear(uint64_t huge_page_ns);

#endif
