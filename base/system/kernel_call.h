// SPDX-License-Identifier: Apache-2.0
/* Wraps system calls that musl and bionic lack. */
#ifndef COORDGEN_BASE_KERNEL_CALL_H
#define COORDGEN_BASE_KERNEL_CALL_H

#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Since Linux 5.14; an older kernel returns EINVAL. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* The alignment that direct reads of a file need. Both are 0 if the file takes no direct reads. */
typedef struct DirectAlignment {
    uint32_t memory_bytes;
    uint32_t offset_bytes;
} DirectAlignment;

/* Gets the alignment of direct reads. 0; -EOPNOTSUPP: the kernel does not tell (before Linux 6.1, some file systems);
 * -errno. */
int kernel_direct_alignment(int fd, DirectAlignment *alignmentp);
/* Gets the time when the file of a name was made, or last changed if the file system does not know. A symbolic link
 * counts itself, not its target. 0 or -errno. */
int kernel_birth_ns(const char *path, uint64_t *nsp);
/* Reads from the page cache without the disk. Returns the bytes, -EAGAIN if they are not there, -EOPNOTSUPP if the
 * kernel or file system cannot tell, or -errno. */
ssize_t kernel_read_cached(int fd, void *data, size_t len_bytes, uint64_t offset_bytes);
/* Returns a descriptor, closed on exec, that becomes readable when the process ends; or -errno. */
int kernel_pidfd_open(pid_t pid);

#endif
