// SPDX-License-Identifier: Apache-2.0
/* Scope-bound ownership: a local that owns something releases it when it goes out of scope. */
#ifndef COORDGEN_BASE_CLEANUP_H
#define COORDGEN_BASE_CLEANUP_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

#define _cleanup_(fn) __attribute__((cleanup(fn)))

/* Returns *ptrp and clears it: the local gives its ownership up. */
#define steal(ptrp)                                                                                                    \
    ({                                                                                                                 \
        __typeof__(*(ptrp)) stolen_ = *(ptrp);                                                                         \
        *(ptrp) = NULL;                                                                                                \
        stolen_;                                                                                                       \
    })

static inline int steal_fd(int *fdp) {
    int fd = *fdp;

    *fdp = -1;
    return fd;
}

/* Defines TYPE_freep-style cleanup functions from a free function that accepts NULL. */
#define DEFINE_CLEANUP(type, free_fn)                                                                                  \
    static inline void free_fn##p(type **objectp) {                                                                    \
        if (*objectp)                                                                                                  \
            free_fn(*objectp);                                                                                         \
    }

static inline void freep(void *ptrp) {
    int saved = errno;

    free(*(void **)ptrp);
    errno = saved;
}

static inline void closep(int *fdp) {
    int saved = errno;

    if (*fdp >= 0)
        close(*fdp);
    errno = saved;
}

static inline void fclosep(FILE **filep) {
    int saved = errno;

    if (*filep)
        fclose(*filep);
    errno = saved;
}

#endif
