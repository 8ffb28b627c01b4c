// SPDX-License-Identifier: Apache-2.0
/*
 * Whoever may write to a file may cut it short while this process has it mapped, and a client that hands a file over is
 * not to end the service by that. The handler covers the map from the faulting page to its end with zeros: all of that
 * lies behind the new end of the file, or behind a page that the disk no longer gives. The instruction is done again
 * then, and whoever reads the map asks for the mark before anything that was read counts.
 *
 * The table is read in a signal handler, while other threads add and remove: a place is valid while its begin is not 0,
 * which is set last and cleared first. The place of the map that has faulted cannot change meanwhile, for the thread
 * that reads it is in here.
 */
#define _GNU_SOURCE
#include "base/memory/map_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/memory/page_size.h"

struct MapGuard {
    _Atomic bool is_taken;
    _Atomic bool is_lost;
    _Atomic uintptr_t begin, end; /* whole pages */
};

static MapGuard guards[MAP_GUARD_MAPS_MAX];
static struct sigaction before; /* written before the handler can run */

/* --- the signal --------------------------------------------------------------------------------------------------- */

static MapGuard *find(uintptr_t address) {
    for (size_t i = 0; i < ARRAY_LEN(guards); i++) {
        const uintptr_t begin = atomic_load(&guards[i].begin), end = atomic_load(&guards[i].end);

        /* Looked at twice: the place may have been given to another map between the two loads. */
        if (begin && address >= begin && address < end && atomic_load(&guards[i].begin) == begin)
            return &guards[i];
    }
    return NULL;
}

/* The mark first: another thread may read the zeros as soon as they are there. The system call itself: for a sanitizer
 * mmap() is a write to all of it, which races with the other readers. */
static bool cover(MapGuard *guard, uintptr_t address) {
    const uintptr_t page = (uintptr_t)page_round_down(address);

    atomic_store(&guard->is_lost, true);
    return syscall(SYS_mmap, page, atomic_load(&guard->end) - page, PROT_READ,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != -1;
}

/* A fault that is not ours comes again, to whoever had the signal before. One that was sent does not. */
static void on_bus_error(int number, siginfo_t *info, void *context) {
    const int saved = errno;
    const uintptr_t address = (uintptr_t)info->si_addr;
    MapGuard *guard = info->si_code > 0 ? find(address) : NULL;

    if (!guard || !cover(guard, address)) {
        (void)sigaction(number, &before, NULL);
        if (info->si_code <= 0)
            (void)raise(number);
    }
    errno = saved;
}

/**
 * map_guard_install() - from now on a page that is gone from a registered map is no end of the process
 *
 * A second call changes nothing. Faults anywhere else go where they went before. Thread: the first one, before others.
 */
void map_guard_install(void) {
    const struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
    struct sigaction now;
    sigset_t own;

    if (!sigaction(SIGBUS, NULL, &now) && !(now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_bus_error)) {
        before = now;
        (void)sigaction(SIGBUS, &action, NULL);
    }
    sigemptyset(&own);
    sigaddset(&own, SIGBUS);
    (void)pthread_sigmask(SIG_UNBLOCK, &own, NULL); /* a fault that is blocked ends the process */
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

int map_guard_add(MapGuard **guardp, const void *data, size_t len_bytes) {
    const uintptr_t begin = (uintptr_t)data;

    for (size_t i = 0; i < ARRAY_LEN(guards); i++) {
        MapGuard *guard = &guards[i];

        if (atomic_load(&guard->is_taken) || atomic_exchange(&guard->is_taken, true))
            continue;
        atomic_store(&guard->is_lost, false);
        atomic_store(&guard->end, page_round_up(begin + len_bytes));
        atomic_store(&guard->begin, begin);
        *guardp = guard;
        return 0;
    }
    return MAP_GUARD_E_FULL;
}

void map_guard_remove(MapGuard *guard) {
    if (!guard)
        return;
    atomic_store(&guard->begin, 0);
    atomic_store(&guard->is_taken, false);
}

bool map_guard_is_lost(const MapGuard *guard) {
    return guard && atomic_load(&guard->is_lost);
}
