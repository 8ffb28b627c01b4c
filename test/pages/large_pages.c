// SPDX-License-Identifier: Apache-2.0
/*
 * Larger pages than the machine's, pretended: LD_PRELOAD=large_pages.so LARGE_PAGE_BYTES=65536 PROGRAM. Calls of the C
 * library about memory then keep the rules of a kernel with such pages: addresses of maps are aligned to them, an
 * offset or an address between two pages is refused with EINVAL, a length means all pages that it touches. Memory that
 * the C library maps for itself (malloc(), stacks) stays as it is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

static size_t page_bytes(void) {
    static size_t bytes;

    if (!bytes) {
        const char *given = getenv("LARGE_PAGE_BYTES");

        bytes = given ? strtoul(given, NULL, 10) : 65536;
    }
    return bytes;
}

static size_t round_up(size_t n) {
    return (n + page_bytes() - 1) & ~(page_bytes() - 1);
}

static int is_aligned(const void *address) {
    return !((uintptr_t)address & (page_bytes() - 1));
}

static int refuse(void) {
    errno = EINVAL;
    return -1;
}

PUBLIC long sysconf(int name) {
    static long (*real)(int);

    if (name == _SC_PAGESIZE)
        return (long)page_bytes();
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "sysconf");
    return real(name);
}

PUBLIC int getpagesize(void) {
    return (int)page_bytes();
}

static void *map(void *address, size_t len_bytes, int protection, int flags, int fd, off_t offset) {
    return (void *)syscall(SYS_mmap, address, len_bytes, protection, flags, fd, offset);
}

/* Room of whole large pages is taken first, and the map goes into it: nothing else comes into its last page. */
PUBLIC void *mmap(void *address, size_t len_bytes, int protection, int flags, int fd, off_t offset) {
    const size_t room_bytes = round_up(len_bytes);
    uint8_t *room, *at;

    if ((size_t)offset & (page_bytes() - 1) || (flags & MAP_FIXED && !is_aligned(address)) || !len_bytes) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    if (flags & MAP_FIXED)
        return map(address, len_bytes, protection, flags, fd, offset);
    room = map(NULL, room_bytes + page_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return MAP_FAILED;
    at = (uint8_t *)round_up((uintptr_t)room);
    if (at != room)
        syscall(SYS_munmap, room, (size_t)(at - room));
    if (at != room + page_bytes())
        syscall(SYS_munmap, at + room_bytes, page_bytes() - (size_t)(at - room));
    /* Anonymous memory is there to the end of its last page; a file's end is where the real pages say. */
    if (map(at, flags & MAP_ANONYMOUS ? room_bytes : len_bytes, protection, flags | MAP_FIXED, fd, offset) ==
        MAP_FAILED) {
        const int error = errno;

        syscall(SYS_munmap, at, room_bytes);
        errno = error;
        return MAP_FAILED;
    }
    return at;
}

PUBLIC void *mmap64(void *address, size_t len_bytes, int protection, int flags, int fd, off64_t offset)
    __attribute__((alias("mmap")));

PUBLIC int munmap(void *address, size_t len_bytes) {
    return is_aligned(address) ? (int)syscall(SYS_munmap, address, round_up(len_bytes)) : refuse();
}

PUBLIC int madvise(void *address, size_t len_bytes, int advice) {
    return is_aligned(address) ? (int)syscall(SYS_madvise, address, round_up(len_bytes), advice) : refuse();
}

PUBLIC int mprotect(void *address, size_t len_bytes, int protection) {
    return is_aligned(address) ? (int)syscall(SYS_mprotect, address, round_up(len_bytes), protection) : refuse();
}

/* A large page is there when its first small one is. */
PUBLIC int mincore(void *address, size_t len_bytes, unsigned char *flags) {
    if (!is_aligned(address))
        return refuse();
    for (size_t at = 0; at < len_bytes; at += page_bytes())
        if (syscall(SYS_mincore, (uint8_t *)address + at, (size_t)1, flags + at / page_bytes()))
            return -1;
    return 0;
}
