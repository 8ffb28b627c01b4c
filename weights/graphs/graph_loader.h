// SPDX-License-Identifier: Apache-2.0
/* Loads graphs, one at a time, by a thread of its own, past the page cache where that can be, while others compute: an
 * extent of a file into memory, or pieces of it, each of which is expanded into memory while the next ones are read.
 * Knows no graph. */
#ifndef COORDGEN_WEIGHTS_GRAPH_LOADER_H
#define COORDGEN_WEIGHTS_GRAPH_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/files/read_limiter.h"
#include "base/memory/account.h"
#include "weights/graphs/graph_pieces.h"

enum {
    GRAPH_LOADER_E_FILE = 1,   /* the file was cut short, is another one by now, or is damaged */
    GRAPH_LOADER_E_MEMORY = 2, /* the account of the activations has no room for the staging memory */
};

/* Whether what was read is what it should be. Thread: the loader's own. */
typedef bool GraphLoaderCheckFn(void *arg, size_t number, const uint8_t *data);
/* A piece was read, and goes to where the load belongs; whether it is what it should be. Thread: the loader's own. */
typedef bool GraphLoaderExpandFn(void *arg, const GraphPiece *piece, const uint8_t *data, void *target);

typedef struct GraphLoaderOptions {
    int fd;              /* stays the caller's */
    const char *path;    /* for messages; copied */
    ReadLimit limit;     /* to behave like a slower disk */
    SharedLimiter *disk; /* that others read, too, in place of the limit; or NULL */
    GraphLoaderCheckFn *is_whole;
    void *arg;
    /* Loads in pieces; NULL: there are none. */
    GraphLoaderExpandFn *expand;
    size_t piece_bytes_max;
    AccountTable *accounts; /* of the staging memory */
} GraphLoaderOptions;

typedef struct GraphLoader GraphLoader;

/* 0, GRAPH_LOADER_E_MEMORY, -errno. */
int graph_loader_new(GraphLoader **loaderp, const GraphLoaderOptions *options, ErrText *err);
/* Waits for what is under way. */
GraphLoader *graph_loader_free(GraphLoader *loader);
DEFINE_CLEANUP(GraphLoader, graph_loader_free)

typedef struct GraphLoad {
    size_t number; /* the caller's, for its check */
    uint64_t offset_bytes;
    size_t len_bytes;
    /* Aligned to EXTENT_ALIGNMENT, of extent_room_bytes(): the first byte is at the offset's rest. Or, of a load in
     * pieces, what expand gets; offset and length are then the pieces', which outlive the load. */
    void *buffer;
    const GraphPiece *pieces;
    size_t n_pieces;
} GraphLoad;

typedef struct GraphLoadEnd {
    int result;                         /* 0, GRAPH_LOADER_E_FILE, -errno */
    uint64_t start_ns, read_ns, end_ns; /* of clock_now_ns(): begun, all is in memory, compared */
    uint64_t expand_ns;                 /* between the first two: what expanding took; the rest was waiting for reads */
    const uint64_t *expanded_ns;        /* of each piece: when it was begun to be expanded, and when it was; until the
                                         * next load */
} GraphLoadEnd;

/* There is none under way. */
void graph_loader_begin(GraphLoader *loader, const GraphLoad *load);
/* Whether the load that was begun has ended, within wait_ns; each end is told once. Thread: one, for this and begin. */
bool graph_loader_ended(GraphLoader *loader, uint64_t wait_ns, GraphLoadEnd *end);
/* From the next load on. */
void graph_loader_set_limit(GraphLoader *loader, ReadLimit limit);
const char *graph_loader_way(const GraphLoader *loader); /* "io_uring, direct", as extent_reader has it */

#endif
