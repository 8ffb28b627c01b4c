// SPDX-License-Identifier: Apache-2.0
/* Counts allocations of our code on all threads, for the check that operators allocate nothing. One file of a program
 * that is linked with --wrap for these names includes it (mk/test.mk); other programs leave the check out. */
#ifndef COORDGEN_TEST_DEVICE_ALLOCATION_WRAP_H
#define COORDGEN_TEST_DEVICE_ALLOCATION_WRAP_H

#include <stddef.h>
#include <sys/mman.h>

extern _Atomic size_t device_allocations;

#define ALLOCATION_WRAP(type, name, parameters, arguments)                                                             \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters {                                                                                    \
        device_allocations++;                                                                                          \
        return __real_##name arguments;                                                                                \
    }

ALLOCATION_WRAP(void *, malloc, (size_t len_bytes), (len_bytes))
ALLOCATION_WRAP(void *, calloc, (size_t n, size_t len_bytes), (n, len_bytes))
ALLOCATION_WRAP(void *, realloc, (void *data, size_t len_bytes), (data, len_bytes))
ALLOCATION_WRAP(void *, aligned_alloc, (size_t alignment, size_t len_bytes), (alignment, len_bytes))
ALLOCATION_WRAP(void *, mmap, (void *data, size_t len_bytes, int protection, int flags, int fd, off_t offset_bytes),
                (data, len_bytes, protection, flags, fd, offset_bytes))

#endif
