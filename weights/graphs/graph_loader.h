// SPDX-License-Identifier: Apache-2.0
/* Loads graphs, one at a time, by a thread of its own, while others compute. Reads go past the page cache if possible.
 * A load is an extent of a file that is read into memory, or a list of pieces, each of which is expanded into memory
 * while the next ones are read. The loader knows no graph. */
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

/* Whether the bytes that were read are what they should be. Thread: the loader's own. */
typedef bool GraphLoaderCheckFn(void *arg, size_t number, const uint8_t *data);
/* Expands a piece that was read into the target of the load. Returns whether the bytes are valid. Thread: the loader's
 * own. */
typedef bool GraphLoaderExpandFn(void *arg, const GraphPiece *piece, const uint8_t *data, void *target);

typedef struct GraphLoaderOptions {
    int fd;              /* stays the caller's */
    const char *path;    /* for messages; copied */
    ReadLimit limit;     /* makes reads as slow as a slower disk's */
    SharedLimiter *disk; /* a limit shared with other readers, in place of `limit`; or NULL */
    GraphLoaderCheckFn *is_whole;
    void *arg;
    GraphLoaderExpandFn *expand; /* for loads in pieces; NULL: there are none */
    size_t piece_bytes_max;
    AccountTable *accounts; /* of the staging memory */
} GraphLoaderOptions;

typedef struct GraphLoader GraphLoader;

/* 0, GRAPH_LOADER_E_MEMORY, -errno. */
int graph_loader_new(GraphLoader **loaderp, const GraphLoaderOptions *options, ErrText *err);
/* Waits for the load that is under way. */
GraphLoader *graph_loader_free(GraphLoader *loader);
DEFINE_CLEANUP(GraphLoader, graph_loader_free)

typedef struct GraphLoad {
    size_t number; /* passed to is_whole */
    uint64_t offset_bytes;
    size_t len_bytes;
    /* The target. A whole extent: aligned to EXTENT_ALIGNMENT, with extent_room_bytes(); the first byte is at the
     * offset's remainder. A load in pieces: passed to expand; offsets and lengths are the pieces', which outlive the
     * load. */
    void *buffer;
    const GraphPiece *pieces;
    size_t n_pieces;
} GraphLoad;

typedef struct GraphLoadEnd {
    int result;                         /* 0, GRAPH_LOADER_E_FILE, -errno */
    uint64_t start_ns, read_ns, end_ns; /* by clock_now_ns(): begun, all is in memory, compared */
    uint64_t expand_ns;                 /* time of expanding, before read_ns; the rest was waiting for reads */
    const uint64_t *expanded_ns;        /* begin and end of expanding, for each piece; valid until the next load */
} GraphLoadEnd;

/* Begins a load. No other one may be under way. */
void graph_loader_begin(GraphLoader *loader, const GraphLoad *load);
/* Whether the load that was begun ends within wait_ns. Each end is told once. Thread: the one that calls begin. */
bool graph_loader_ended(GraphLoader *loader, uint64_t wait_ns, GraphLoadEnd *end);
/* Changes the limit from the next load on. */
void graph_loader_set_limit(GraphLoader *loader, ReadLimit limit);
const char *graph_loader_way(const GraphLoader *loader); /* "io_uring, direct", as extent_reader has it */

#endif
