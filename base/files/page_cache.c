// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/files/page_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/extent_reader.h"
#include "base/memory/account.h"
#include "base/memory/page_size.h"
#include "base/min_max.h"
#include "base/system/kernel_call.h"

enum {
    PROBES = 4,
    WINDOW_BYTES = 64 << 20, /* mapped at a time to count pages */
    SPEED_BYTES = 4 << 20,   /* of an extent that measures the disk */
    SPEED_EXTENTS = 8,
};

static size_t pages_of(size_t len_bytes) {
    return (len_bytes + page_size() - 1) / page_size();
}

/* Counts the pages of a part of the file, and how many of them are in memory, as mincore() says. */
static int count_window(int fd, uint64_t first_bytes, size_t len_bytes, unsigned char *flags, size_t *residentp) {
    const size_t n = pages_of(len_bytes);
    void *window = mmap(NULL, len_bytes, PROT_READ, MAP_PRIVATE, fd, (off_t)first_bytes);
    size_t resident = 0;
    int r = 0;

    if (window == MAP_FAILED)
        return -errno;
    if (mincore(window, len_bytes, flags))
        r = -errno;
    munmap(window, len_bytes);
    for (size_t i = 0; !r && i < n; i++)
        resident += flags[i] & 1;
    *residentp = resident;
    return r;
}

/* Whether reads of single bytes succeed without the disk (RWF_NOWAIT). unknown: the answer on a file system without
 * such reads. */
static bool can_be_read(int fd, uint64_t offset_bytes, size_t len_bytes, bool unknown) {
    for (size_t i = 0; i < PROBES; i++) {
        const uint64_t at = offset_bytes + (len_bytes - 1) * i / (PROBES - 1);
        char byte;
        ssize_t n = kernel_read_cached(fd, &byte, 1, at);

        if (n == -EOPNOTSUPP)
            return unknown;
        if (n != 1)
            return false;
    }
    return true;
}

/**
 * page_cache_holds() - tell whether a read would find all pages in memory
 * @len_bytes: 64 MiB at most
 *
 * mincore() knows each page, but always says yes to processes that don't own the file, and sandboxes refuse it. A read
 * with RWF_NOWAIT therefore decides. The read comes last because Linux reads ahead when it finds nothing: one page if
 * the file was opened for random access (POSIX_FADV_RANDOM), else many. A wrong answer costs time, not correctness.
 */
bool page_cache_holds(int fd, uint64_t offset_bytes, size_t len_bytes) {
    const uint64_t first_bytes = page_round_down(offset_bytes);
    const size_t span_bytes = len_bytes + (size_t)(offset_bytes - first_bytes);
    const size_t n = pages_of(span_bytes);
    _cleanup_(freep) unsigned char *flags = NULL;
    size_t resident;
    int r;

    if (!len_bytes)
        return true;
    if (len_bytes > WINDOW_BYTES)
        return false;
    flags = malloc(n);
    r = flags ? count_window(fd, first_bytes, span_bytes, flags, &resident) : -ENOMEM;
    if (!r && resident < n)
        return false;
    return can_be_read(fd, offset_bytes, len_bytes, !r);
}

int page_cache_count(int fd, const char *path, uint64_t *residentp, uint64_t *pagesp, ErrText *err) {
    const size_t window_pages = pages_of(WINDOW_BYTES);
    _cleanup_(freep) unsigned char *flags = malloc(window_pages);
    uint64_t resident = 0, pages = 0;
    struct stat st;

    if (!flags)
        return err_set(err, -ENOMEM, "%s: out of memory", path);
    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    for (off_t at = 0; at < st.st_size; at += WINDOW_BYTES) {
        const size_t len_bytes = st.st_size - at < WINDOW_BYTES ? (size_t)(st.st_size - at) : WINDOW_BYTES;
        size_t in_window;
        int r = count_window(fd, (uint64_t)at, len_bytes, flags, &in_window);

        if (r)
            return err_set(err, r, "%s: cannot ask which pages are in memory: %s", path, strerror(-r));
        resident += in_window;
        pages += pages_of(len_bytes);
    }
    *residentp = resident;
    *pagesp = pages;
    return 0;
}

/**
 * page_cache_drop() - make the next read of the file come from the disk
 *
 * Return: 0; PAGE_CACHE_E_KEPT: pages stayed (a process has mapped the file, or the file lives in memory); -errno.
 */
int page_cache_drop(int fd, const char *path, ErrText *err) {
    uint64_t resident, pages;
    int r;

    if (fsync(fd) < 0 && errno != EINVAL)
        return err_set(err, -errno, "%s: cannot write out what is dirty: %s", path, strerror(errno));
    r = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (r)
        return err_set(err, -r, "%s: cannot drop its pages: %s", path, strerror(r));
    r = page_cache_count(fd, path, &resident, &pages, err);
    if (!r && resident)
        r = err_set(err, PAGE_CACHE_E_KEPT,
                    "%s: %" PRIu64 " of %" PRIu64 " pages stay in memory: is another process using the file?", path,
                    resident, pages);
    return r;
}

static int read_through(ExtentReader *reader, uint8_t *memory, uint64_t len_bytes, ErrText *err) {
    Extent extents[SPEED_EXTENTS] = { 0 };
    const uint64_t n = (len_bytes + SPEED_BYTES - 1) / SPEED_BYTES;

    for (uint64_t i = 0; i < n + SPEED_EXTENTS; i++) {
        Extent *extent = &extents[i % SPEED_EXTENTS];
        int r = i >= SPEED_EXTENTS ? extent_reader_wait(reader, extent, err) : 0;

        extent->offset_bytes = i * SPEED_BYTES;
        extent->len_bytes = 0;
        if (i < n)
            extent->len_bytes = i + 1 < n ? SPEED_BYTES : (size_t)(len_bytes - i * SPEED_BYTES);
        extent->buffer = memory + i % SPEED_EXTENTS * SPEED_BYTES;
        if (!r)
            r = extent_reader_submit(reader, extent, err);
        if (r)
            return r;
    }
    return 0;
}

int page_cache_disk_speed(const char *path, uint64_t max_bytes, double *bytes_per_sp, ErrText *err) {
    const ExtentReaderOptions options = { .caching = EXTENT_CACHING_DIRECT, .depth = SPEED_EXTENTS };
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    _cleanup_(accounted_block_deinit) AccountedBlock memory = { 0 };
    _cleanup_(extent_reader_freep) ExtentReader *reader = NULL;
    AccountTable accounts;
    uint64_t start_ns, len_bytes;
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode) || !st.st_size)
        return err_set(err, -EINVAL, "%s: not a regular file, or empty", path);
    len_bytes = max_bytes && max_bytes < (uint64_t)st.st_size ? max_bytes : (uint64_t)st.st_size;
    account_table_init(&accounts);
    r = accounted_block_init(&memory, &accounts, ACCOUNT_ACTIVATIONS, SPEED_EXTENTS * SPEED_BYTES);
    if (r)
        return err_no_memory(err);
    memset(memory.data, 0, memory.len_bytes); /* touched before the clock runs */
    r = extent_reader_new(&reader, fd, path, &options, err);
    if (r)
        return r;
    start_ns = clock_now_ns();
    r = read_through(reader, memory.data, len_bytes, err);
    if (!r && !extent_reader_is_direct(reader)) /* the open succeeded, and the reads were refused */
        return err_set(err, EXTENT_E_REFUSED, "%s: its file system takes no direct reads", path);
    if (!r)
        *bytes_per_sp = (double)len_bytes * 1e9 / (double)(clock_now_ns() - start_ns + 1);
    return r;
}
