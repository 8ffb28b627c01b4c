// SPDX-License-Identifier: Apache-2.0
/* Guards maps of files that may be cut short while they are read. A page that is gone reads as zeros and marks its map;
 * without a guard, SIGBUS would end the process. base/files/file_io registers every map that it makes. */
#ifndef COORDGEN_BASE_MAP_GUARD_H
#define COORDGEN_BASE_MAP_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#define MAP_GUARD_MAPS_MAX 2048 /* at a time */

enum {
    MAP_GUARD_E_FULL = 1, /* MAP_GUARD_MAPS_MAX maps are registered */
};

typedef struct MapGuard MapGuard; /* an entry of the table, valid until map_guard_remove() */

/* Handles SIGBUS for this process, and unblocks it in the calling thread (thread_start() does so in others). A program
 * that calls this must check the marks of all maps whose bytes matter. */
void map_guard_install(void);
/* Registers a map, which begins on a page. 0 or MAP_GUARD_E_FULL. */
int map_guard_add(MapGuard **guardp, const void *data, size_t len_bytes);
/* Removes a map before it is unmapped; NULL is allowed. */
void map_guard_remove(MapGuard *guard);
/* Whether a read of the map has met a missing page; any later read may have given zeros. NULL: no. */
bool map_guard_is_lost(const MapGuard *guard);

#endif
