// SPDX-License-Identifier: Apache-2.0
/* What every supported kernel may have and not every C library: musl and bionic are behind glibc here. */
#ifndef COORDGEN_BASE_KERNEL_CALL_H
#define COORDGEN_BASE_KERNEL_CALL_H

#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Linux 5.14; an older kernel says EINVAL. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* What direct reads of a file have to be aligned to. Both are 0 where the kernel says that there are none. */
typedef struct DirectAlignment {
    uint32_t memory_bytes;
    uint32_t offset_bytes;
} DirectAlignment;

/* 0; -EOPNOTSUPP: the kernel does not say (before Linux 6.1, some file systems); -errno. */
int kernel_direct_alignment(int fd, DirectAlignment *alignmentp);
/* Writes when a name's file was made, or where the file system does not know, last changed; of a link its own. 0 or
 * -errno. */
int kernel_birth_ns(const char *path, uint64_t *nsp);
/* Reads from the page cache without asking the disk: bytes, or -errno (-EAGAIN: not there; -EOPNOTSUPP: no file system
 * or kernel for it). */
ssize_t kernel_read_cached(int fd, void *data, size_t len_bytes, uint64_t offset_bytes);
/* A descriptor that becomes readable when the process ends, closed on exec, or -errno. */
int kernel_pidfd_open(pid_t pid);

#endif
