// SPDX-License-Identifier: Apache-2.0
/* Layers on a device of static graphs: their matrices have everything but their integers, which stand in the graphs'
 * arena, block by block, for prompts or for decoding. They come from an image of the weights, which has a block's graph
 * as the device has it in memory, or from the package, and are expanded on the way (graph_form). Either is whichever
 * rows the graph is for, and the number of blocks may change from load to load. What is loaded and dropped when is
 * scheduler/graph_switch's. */
#ifndef COORDGEN_WEIGHTS_WEIGHTS_GRAPHS_H
#define COORDGEN_WEIGHTS_WEIGHTS_GRAPHS_H

#include "backends/backend.h"
#include "scheduler/graph_switch.h"
#include "scheduler/trace.h"
#include "weights/graphs/graph_form.h"
#include "weights/graphs/graph_pieces.h"
#include "weights/image/weights_image.h"
#include "weights/ring/weights_ring.h"

enum {
    WEIGHTS_GRAPHS_E_MEMORY = 1,  /* the arena's limit, or the account's; the text says what is needed */
    WEIGHTS_GRAPHS_E_WAITING = 2, /* the block is on its way */
    WEIGHTS_GRAPHS_E_READ = 3,    /* it could not be loaded; the text names file and layers */
};

#define GRAPHS_MEMORY_DEFAULT (UINT64_C(4) << 30)
#define GRAPHS_BLOCKS_DEFAULT 8

typedef struct GraphsOptions {
    GraphSwitchPolicy policy;
    uint32_t n_blocks;     /* at most GRAPH_BLOCKS_MAX; 0: GRAPHS_BLOCKS_DEFAULT, or as many as layers */
    uint64_t memory_bytes; /* the arena's limit; 0: GRAPHS_MEMORY_DEFAULT */
    GraphForm form;        /* what is read */
    bool must_go_back;     /* progressive, for benches: prompts get their graphs even where it does not pay */
} GraphsOptions;

typedef struct WeightsGraphs WeightsGraphs; /* one thread, the one that computes */

/* For all layers of a model; n matrices by layer and offset, copied, whose linears may still be NULL. Nothing is read.
 * tracep: where a trace stands when there is one; may be NULL. 0, WEIGHTS_GRAPHS_E_MEMORY, -ENOMEM. */
int weights_graphs_new(WeightsGraphs **graphsp, const Backend *backend, const GraphsOptions *options,
                       const RingMatrix *matrices, size_t n, Trace *const *tracep, ErrText *err);
WeightsGraphs *weights_graphs_free(WeightsGraphs *graphs);
DEFINE_CLEANUP(WeightsGraphs, weights_graphs_free)

/* Its parts of the image: *firstp..*endp - 1. */
void weights_graphs_parts(const WeightsGraphs *graphs, size_t *firstp, size_t *endp);
/* The next matrix has its object: they come in the order of weights_graphs_new(). arrives: its integers are filled into
 * its block's graph for prompts, which then need not be loaded. */
void weights_graphs_add(WeightsGraphs *graphs, BackendLinear *linear, bool arrives);
/* Where graphs come from; all of it is the graphs' from weights_graphs_start() on, when that has succeeded or not. */
typedef struct GraphsFile {
    WeightsImage *image; /* or NULL: the package */
    int package_fd;
    const char *package_path; /* copied */
    GraphPiece *pieces;       /* [n_pieces], of the package: its `matrix` counts those of weights_graphs_new() */
    size_t n_pieces;
    SharedLimiter *disk; /* that others read, too; or NULL */
} GraphsFile;

/* Loads begin. notes: a folder where it is noted how long things take; NULL: nowhere. 0, WEIGHTS_GRAPHS_E_MEMORY,
 * -errno. */
int weights_graphs_start(WeightsGraphs *graphs, const GraphsFile *file, ReadLimit limit, const char *notes,
                         ErrText *err);

/* A step of so many rows, prompt_rows of them of prompts, comes to this layer; n_behind rows of its prompts come in
 * later steps. */
void weights_graphs_expect(WeightsGraphs *graphs, size_t rows, size_t prompt_rows, size_t n_behind, uint32_t layer);
/* Before weights_graphs_start(): whether all of the layer's block has arrived, of stages (weights.h) all below this one
 * having come; then it can be held and released as later. */
bool weights_graphs_has_arrived(const WeightsGraphs *graphs, uint32_t layer, uint32_t stage);
bool weights_graphs_has_started(const WeightsGraphs *graphs);
/* The block of a layer can be computed with until weights_graphs_release(): 0, WEIGHTS_GRAPHS_E_WAITING,
 * WEIGHTS_GRAPHS_E_READ. */
int weights_graphs_hold(WeightsGraphs *graphs, uint32_t layer, uint64_t wait_ns, ErrText *err);
/* Between operators: the next load begins where one has ended. Takes no lock where none has. */
void weights_graphs_turn(WeightsGraphs *graphs);
/* Waits until every block has a graph of one kind. 0, WEIGHTS_GRAPHS_E_READ. */
int weights_graphs_load_all(WeightsGraphs *graphs, ErrText *err);
/* end: layers below are computed. */
void weights_graphs_release(WeightsGraphs *graphs, uint32_t layer, uint32_t end);
/* Behind the last layer of the block. */
uint32_t weights_graphs_block_end(const WeightsGraphs *graphs, uint32_t layer);
/* As weights_ring_check(). */
int weights_graphs_check(const WeightsGraphs *graphs, ErrText *err);
void weights_graphs_set_limit(WeightsGraphs *graphs, ReadLimit limit);

/* What it has come to so far, and how it stands. */
typedef struct WeightsGraphsCounts {
    size_t n_blocks;
    uint64_t graph_bytes, block_bytes;            /* of all blocks of one kind; of the largest */
    uint64_t limit_bytes, used_bytes, peak_bytes; /* of the arena */
    GraphForm form;
    uint64_t n_loads, loaded_bytes;        /* bytes as they were read */
    uint64_t load_ns, expand_ns, check_ns; /* of load_ns expanding, and comparing; the rest was waiting for the disk */
    uint64_t stall_ns;                     /* that somebody waited for a block; the rest of load_ns is hidden */
    uint64_t n_computed[_GRAPH_KIND_N];    /* blocks */
    uint64_t n_makeshift;                  /* of them, with the kind that was there, not the best one for the rows */
} WeightsGraphsCounts;
WeightsGraphsCounts weights_graphs_counts(const WeightsGraphs *graphs);
const GraphSwitch *weights_graphs_switch(const WeightsGraphs *graphs);
const char *weights_graphs_way(const WeightsGraphs *graphs); /* "io_uring, direct"; "" before it has started */

#endif
