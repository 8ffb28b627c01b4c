// SPDX-License-Identifier: Apache-2.0
/* The types come from the kernel's headers, which clash with <sys/stat.h>. */
#define _GNU_SOURCE
#include "base/system/kernel_call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int kernel_direct_alignment(int fd, DirectAlignment *alignmentp) {
    struct statx file = { 0 };

    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &file) < 0)
        return errno == ENOSYS ? -EOPNOTSUPP : -errno;
    if (!(file.stx_mask & STATX_DIOALIGN))
        return -EOPNOTSUPP;
    *alignmentp =
        (DirectAlignment){ .memory_bytes = file.stx_dio_mem_align, .offset_bytes = file.stx_dio_offset_align };
    return 0;
}

int kernel_birth_ns(const char *path, uint64_t *nsp) {
    struct statx file = { 0 };
    const struct statx_timestamp *at;

    if (syscall(SYS_statx, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME | STATX_MTIME, &file) < 0)
        return -errno;
    at = file.stx_mask & STATX_BTIME ? &file.stx_btime : &file.stx_mtime;
    *nsp = (uint64_t)at->tv_sec * 1000000000 + at->tv_nsec;
    return 0;
}

ssize_t kernel_read_cached(int fd, void *data, size_t len_bytes, uint64_t offset_bytes) {
    struct iovec target = { .iov_base = data, .iov_len = len_bytes };
    /* The kernel takes the offset in two halves; on 64 bits the first one is the whole offset. */
    long n = syscall(SYS_preadv2, fd, &target, 1UL, (unsigned long)offset_bytes, (unsigned long)(offset_bytes >> 32),
                     RWF_NOWAIT);

    if (n < 0)
        return errno == ENOSYS ? -EOPNOTSUPP : -errno;
    return (ssize_t)n;
}

int kernel_pidfd_open(pid_t pid) {
    long fd = syscall(SYS_pidfd_open, pid, 0U);

    return fd < 0 ? -errno : (int)fd;
}
