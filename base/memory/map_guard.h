// SPDX-License-Identifier: Apache-2.0
/* Maps of files that may be cut short while they are read: a page that is gone reads as zeros and leaves a mark on its
 * map, where SIGBUS would end the process. base/files/file_io registers every map that it makes. */
#ifndef COORDGEN_BASE_MAP_GUARD_H
#define COORDGEN_BASE_MAP_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#define MAP_GUARD_MAPS_MAX 2048 /* at a time */

enum {
    MAP_GUARD_E_FULL = 1, /* so many maps are registered */
};

typedef struct MapGuard MapGuard; /* a place in the table; good for nothing after map_guard_remove() */

/* Takes SIGBUS over for this process and lets the calling thread have it (others: thread_start()). Who calls this looks
 * at the marks of all maps whose bytes matter. */
void map_guard_install(void);
/* Registers a map, from the first byte of its first page. 0, MAP_GUARD_E_FULL. */
int map_guard_add(MapGuard **guardp, const void *data, size_t len_bytes);
/* Before the map goes; NULL is allowed. */
void map_guard_remove(MapGuard *guard);
/* Whether a read of it has met a page that is gone: any later read may have given zeros. NULL: no. */
bool map_guard_is_lost(const MapGuard *guard);

#endif
