// SPDX-License-Identifier: Apache-2.0
/*
 * A client that hands a file over may cut it short while the service has it mapped; the resulting SIGBUS must not end
 * the service. The handler maps zeros from the faulting page to the end of the map: that range lies behind the new end
 * of the file, or behind a page that the disk no longer gives. The faulting instruction then runs again. Readers of
 * the map check its mark before they use what they have read.
 *
 * The signal handler reads the table while other threads add and remove entries. An entry is valid while its begin is
 * not 0; begin is set last and cleared first. The entry of the faulting map cannot change, because its reader is the
 * thread that runs the handler.
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

/* --- signal ------------------------------------------------------------------------------------------------------- */

static MapGuard *find(uintptr_t address) {
    for (size_t i = 0; i < ARRAY_LEN(guards); i++) {
        const uintptr_t begin = atomic_load(&guards[i].begin), end = atomic_load(&guards[i].end);

        /* The second load sees an entry that was given to another map between the loads. */
        if (begin && address >= begin && address < end && atomic_load(&guards[i].begin) == begin)
            return &guards[i];
    }
    return NULL;
}

/* Sets the mark before it maps zeros, because another thread may read those at once. Calls the kernel directly: to a
 * sanitizer, mmap() writes the whole range, which would race with readers. */
static bool cover(MapGuard *guard, uintptr_t address) {
    const uintptr_t page = (uintptr_t)page_round_down(address);

    atomic_store(&guard->is_lost, true);
    return syscall(SYS_mmap, page, atomic_load(&guard->end) - page, PROT_READ,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != -1;
}

/* Restores the former handler for a fault outside of all maps: the fault repeats and reaches it. A signal that a
 * process sent does not repeat. */
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
 * map_guard_install() - keep the process alive when a page of a registered map is gone
 *
 * A second call changes nothing. Other faults reach the former handler. Thread: the first one, before others start.
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
    (void)pthread_sigmask(SIG_UNBLOCK, &own, NULL); /* a blocked fault would end the process */
}

/* --- table -------------------------------------------------------------------------------------------------------- */

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
