// SPDX-License-Identifier: Apache-2.0
/* Layers on a device of static graphs. A block is a run of layers that are loaded together, as a graph for prompts or
 * one for decoding. The layers' matrices are in memory without their integers, which stand in the arena of the graphs.
 * Integers come from an image of the weights, which has a block's graph as the device has it in memory, or from the
 * package, and are then expanded on the way (graph_form). Both files serve graphs of either kind, and any number of
 * blocks. scheduler/graphs/graph_switch decides what is loaded and dropped when. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_GRAPHS_H
#define COORDGEN_WEIGHTS_WEIGHTS_GRAPHS_H

#include "backends/backend.h"
#include "scheduler/graphs/graph_switch.h"
#include "scheduler/operators/trace.h"
#include "weights/graphs/graph_form.h"
#include "weights/graphs/graph_pieces.h"
#include "weights/image/weights_image.h"
#include "weights/ring/weights_ring.h"

enum {
    WEIGHTS_GRAPHS_E_MEMORY = 1,  /* the arena's limit, or the account's; the text says what is needed */
    WEIGHTS_GRAPHS_E_WAITING = 2, /* the block is on its way */
    WEIGHTS_GRAPHS_E_READ = 3,    /* the block could not be loaded; the text names file and layers */
};

#define GRAPHS_MEMORY_DEFAULT (UINT64_C(4) << 30)
#define GRAPHS_BLOCKS_DEFAULT 8

typedef struct GraphsOptions {
    GraphSwitchPolicy policy;
    uint32_t n_blocks;     /* at most GRAPH_BLOCKS_MAX; 0: GRAPHS_BLOCKS_DEFAULT, or as many as layers */
    uint64_t memory_bytes; /* the arena's limit; 0: GRAPHS_MEMORY_DEFAULT */
    GraphForm form;        /* that is read */
    GraphLab lab;          /* of the progressive policy */
} GraphsOptions;

typedef struct WeightsGraphs WeightsGraphs; /* one thread, the one that computes */

/* Makes the graphs of all layers of a model, and reads nothing. n matrices by layer and offset, copied; their linears
 * may still be NULL. tracep: where a trace stands if there is one; may be NULL. 0, WEIGHTS_GRAPHS_E_MEMORY, -ENOMEM. */
int weights_graphs_new(WeightsGraphs **graphsp, const Backend *backend, const GraphsOptions *options,
                       const RingMatrix *matrices, size_t n, Trace *const *tracep, ErrText *err);
WeightsGraphs *weights_graphs_free(WeightsGraphs *graphs);
DEFINE_CLEANUP(WeightsGraphs, weights_graphs_free)

/* Returns the graphs' parts of the image: *firstp..*endp - 1. */
void weights_graphs_parts(const WeightsGraphs *graphs, size_t *firstp, size_t *endp);
/* Adds the object of the next matrix, in the order of weights_graphs_new(). arrives: its integers will be filled into
 * its block's graph for prompts, which then need not be loaded. */
void weights_graphs_add(WeightsGraphs *graphs, BackendLinear *linear, bool arrives);
/* Where graphs come from. weights_graphs_start() takes the image and the pieces over, whether it succeeds or not. */
typedef struct GraphsFile {
    WeightsImage *image; /* or NULL: the package */
    int package_fd;
    const char *package_path; /* copied */
    GraphPiece *pieces;       /* [n_pieces] of the package; `matrix` is an index into those of weights_graphs_new() */
    size_t n_pieces;
    SharedLimiter *disk; /* a limit shared with other readers; or NULL */
} GraphsFile;

/* Begins to load. notes: a folder where the times of blocks are noted; NULL: nowhere. 0, WEIGHTS_GRAPHS_E_MEMORY,
 * -errno. */
int weights_graphs_start(WeightsGraphs *graphs, const GraphsFile *file, ReadLimit limit, const char *notes,
                         ErrText *err);

/* Announces a step of so many rows that comes to this layer; prompt_rows of them are of prompts, whose other n_behind
 * rows come in later steps. */
void weights_graphs_expect(WeightsGraphs *graphs, size_t rows, size_t prompt_rows, size_t n_behind, uint32_t layer);
/* Before weights_graphs_start(): whether the layer's whole block has arrived, where all stages (weights.h) below
 * `stage` have come. The block can then be held and released as later. */
bool weights_graphs_has_arrived(const WeightsGraphs *graphs, uint32_t layer, uint32_t stage);
bool weights_graphs_has_started(const WeightsGraphs *graphs);
/* Holds the block of a layer for computing until weights_graphs_release(). 0, WEIGHTS_GRAPHS_E_WAITING,
 * WEIGHTS_GRAPHS_E_READ. */
int weights_graphs_hold(WeightsGraphs *graphs, uint32_t layer, uint64_t wait_ns, ErrText *err);
/* Begins the next load if one has ended; called between operators. Takes no lock if none has ended. */
void weights_graphs_turn(WeightsGraphs *graphs);
/* Waits until every block has a graph of one kind. 0, WEIGHTS_GRAPHS_E_READ. */
int weights_graphs_load_all(WeightsGraphs *graphs, ErrText *err);
/* Releases the block of a layer. end: layers below are computed. */
void weights_graphs_release(WeightsGraphs *graphs, uint32_t layer, uint32_t end);
/* Returns the layer after the last one of the layer's block. */
uint32_t weights_graphs_block_end(const WeightsGraphs *graphs, uint32_t layer);
/* Checks the file as weights_ring_check() does. */
int weights_graphs_check(const WeightsGraphs *graphs, ErrText *err);
void weights_graphs_set_limit(WeightsGraphs *graphs, ReadLimit limit);

/* Counts since the graphs were made, and how they stand. */
typedef struct WeightsGraphsCounts {
    size_t n_blocks;
    uint64_t graph_bytes, block_bytes;            /* all blocks of one kind; the largest block */
    uint64_t limit_bytes, used_bytes, peak_bytes; /* of the arena */
    GraphForm form;
    uint64_t n_loads, loaded_bytes; /* bytes as they were read */
    uint64_t load_ns, expand_ns,
        check_ns;                       /* expanding and comparing are parts of load_ns; the rest waited for the disk */
    uint64_t stall_ns;                  /* that steps waited for blocks; the rest of load_ns was hidden */
    uint64_t n_computed[_GRAPH_KIND_N]; /* blocks */
    uint64_t n_makeshift;               /* blocks computed with a kind that was not the best one for the rows */
} WeightsGraphsCounts;
WeightsGraphsCounts weights_graphs_counts(const WeightsGraphs *graphs);
const GraphSwitch *weights_graphs_switch(const WeightsGraphs *graphs);
const char *weights_graphs_way(const WeightsGraphs *graphs); /* "io_uring, direct"; "" before it has started */

#endif
