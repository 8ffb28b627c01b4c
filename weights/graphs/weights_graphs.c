// SPDX-License-Identifier: Apache-2.0
#include "weights/graphs/weights_graphs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/extent_reader.h"
#include "base/log.h"
#include "base/memory/account_refusal.h"
#include "base/min_max.h"
#include "base/strings/byte_text.h"
#include "weights/graphs/graph_arena.h"
#include "weights/graphs/graph_loader.h"
#include "weights/graphs/graph_times_note.h"
#include "weights/image/file_loss.h"

#define LOAD_WAIT_NS 100000000

/* Layers that are loaded together. */
typedef struct GraphBlock {
    uint32_t first_layer, end_layer;
    size_t first, n; /* matrices */
    uint64_t offset_bytes;
    size_t len_bytes;
    const GraphPiece *pieces; /* [n_pieces] of the package, if the block comes from it */
    size_t n_pieces, packed_bytes;
    size_t slots[_GRAPH_KIND_N]; /* GRAPH_SLOT_NONE: not in memory */
    GraphKind placed;            /* the graph that the matrices' integers are in; GRAPH_NONE: nowhere */
} GraphBlock;

struct WeightsGraphs {
    const Backend *backend;
    RingMatrix *matrices; /* [n_matrices] */
    size_t n_matrices, n_added;
    bool has_arrived; /* weights_graphs_add() has given all matrices their integers */
    GraphBlock blocks[GRAPH_BLOCKS_MAX];
    GraphSwitch graphs;
    GraphArena arena;
    GraphsFile file;
    char *name; /* the file's, for messages */
    GraphLoader *loader;
    GraphTimesNote times;
    Trace *const *tracep;
    WeightsGraphsCounts counts;
    int failure; /* of the load of failed_block, until it is told; 0: none */
    size_t failed_block;
    bool holds_arrived; /* a block is held that has arrived, before there were loads */
    uint64_t since_ns;  /* start of computing the held block */
    size_t rows;        /* of the step */
    FileLoss loss;
};

WeightsGraphs *weights_graphs_free(WeightsGraphs *graphs) {
    if (!graphs)
        return NULL;
    graph_loader_free(graphs->loader); /* before its memory and its file */
    graph_times_note_save(&graphs->times);
    weights_image_free(graphs->file.image);
    if (!graphs->file.image && graphs->name)
        close(graphs->file.package_fd);
    free(graphs->file.pieces);
    free(graphs->name);
    graph_arena_deinit(&graphs->arena);
    free(graphs->matrices);
    free(graphs);
    return NULL;
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* Returns how many of the first matrices are of layers below this one. */
static size_t matrices_below(const WeightsGraphs *graphs, uint32_t layer) {
    size_t n = 0;

    while (n < graphs->n_matrices && graphs->matrices[n].layer < layer)
        n++;
    return n;
}

/* Cuts the layers into blocks that differ by at most one layer. Returns the bytes that a slot needs. */
static size_t cut_blocks(WeightsGraphs *graphs, size_t n_blocks) {
    const uint32_t n_layers = graphs->matrices[graphs->n_matrices - 1].layer + 1;
    size_t slot_bytes = 0;

    for (size_t i = 0; i < n_blocks; i++) {
        GraphBlock *block = &graphs->blocks[i];
        const RingMatrix *last;
        size_t room_bytes;

        *block = (GraphBlock){ .first_layer = (uint32_t)(i * n_layers / n_blocks),
                               .end_layer = (uint32_t)((i + 1) * n_layers / n_blocks),
                               .slots = { GRAPH_SLOT_NONE, GRAPH_SLOT_NONE },
                               .placed = GRAPH_NONE };
        block->first = matrices_below(graphs, block->first_layer);
        block->n = matrices_below(graphs, block->end_layer) - block->first;
        last = &graphs->matrices[block->first + block->n - 1];
        block->offset_bytes = graphs->matrices[block->first].offset_bytes;
        block->len_bytes = (size_t)(last->offset_bytes + last->len_bytes - block->offset_bytes);
        graphs->counts.graph_bytes += block->len_bytes;
        room_bytes = extent_room_bytes(block->offset_bytes, block->len_bytes);
        slot_bytes = MAX(room_bytes, slot_bytes);
    }
    graphs->counts.n_blocks = n_blocks;
    return slot_bytes;
}

static size_t block_of(const WeightsGraphs *graphs, uint32_t layer) {
    size_t block = 0;

    while (graphs->blocks[block].end_layer <= layer)
        block++;
    return block;
}

uint32_t weights_graphs_block_end(const WeightsGraphs *graphs, uint32_t layer) {
    return graphs->blocks[block_of(graphs, layer)].end_layer;
}

/* Returns the place of a block's first byte. */
static uint8_t *data_of(const WeightsGraphs *graphs, const GraphBlock *block, GraphKind kind) {
    return graph_arena_at(&graphs->arena, block->slots[kind]) + block->offset_bytes % EXTENT_ALIGNMENT;
}

static int new_arena(WeightsGraphs *graphs, const GraphsOptions *options, size_t slot_bytes, ErrText *err) {
    const uint64_t limit_bytes = options->memory_bytes ? options->memory_bytes : GRAPHS_MEMORY_DEFAULT;
    const size_t n_slots = graph_switch_slots(options->policy, graphs->counts.n_blocks);
    ByteText wanted, limit;
    int r = graph_arena_init(&graphs->arena, graphs->backend->accounts, n_slots, slot_bytes, limit_bytes);

    graphs->counts.block_bytes = slot_bytes;
    if (r == GRAPH_ARENA_E_LIMIT && slot_bytes <= limit_bytes / n_slots)
        return account_refused(err, WEIGHTS_GRAPHS_E_MEMORY, ACCOUNT_E_LIMIT, graphs->backend->accounts, ACCOUNT_GRAPHS,
                               (uint64_t)n_slots * slot_bytes, "the graphs of the %s device with graph-switch %s",
                               graphs->backend->ops->name, graph_switch_name(options->policy));
    if (r == GRAPH_ARENA_E_LIMIT)
        return err_set(err, WEIGHTS_GRAPHS_E_MEMORY,
                       "no memory for the graphs of the %s device with graph-switch %s (%s): graphs-memory (%s) is "
                       "reached%s",
                       graphs->backend->ops->name, graph_switch_name(options->policy),
                       byte_text(&wanted, (uint64_t)n_slots * slot_bytes), byte_text(&limit, limit_bytes),
                       options->policy == GRAPH_SWITCH_NONE ? "; with another graph-switch it is about half of that"
                                                            : "; a larger graph-blocks makes it a little less");
    return r ? err_set(err, r, "out of memory") : 0;
}

int weights_graphs_new(WeightsGraphs **graphsp, const Backend *backend, const GraphsOptions *options,
                       const RingMatrix *matrices, size_t n, Trace *const *tracep, ErrText *err) {
    _cleanup_(weights_graphs_freep) WeightsGraphs *graphs = calloc(1, sizeof(*graphs));
    size_t n_blocks = options->n_blocks ? options->n_blocks : GRAPHS_BLOCKS_DEFAULT;
    int r;

    if (!graphs)
        return err_no_memory(err);
    assert(n && backend->ops->linear_shape && backend->ops->linear_at);
    graphs->backend = backend;
    graphs->tracep = tracep;
    graphs->n_matrices = n;
    graphs->matrices = calloc(n, sizeof(*graphs->matrices));
    if (!graphs->matrices)
        return err_no_memory(err);
    memcpy(graphs->matrices, matrices, n * sizeof(*matrices));
    n_blocks = MIN(n_blocks, GRAPH_BLOCKS_MAX);
    n_blocks = n_blocks <= matrices[n - 1].layer ? n_blocks : matrices[n - 1].layer + 1;
    r = new_arena(graphs, options, cut_blocks(graphs, n_blocks), err);
    if (r)
        return r;
    graph_switch_init(&graphs->graphs, options->policy, n_blocks, backend->ops->prefill_rows,
                      backend->ops->decode_rows);
    graphs->graphs.lab = options->lab;
    *graphsp = steal(&graphs);
    return 0;
}

void weights_graphs_parts(const WeightsGraphs *graphs, size_t *firstp, size_t *endp) {
    *firstp = graphs->matrices[0].part;
    *endp = *firstp + graphs->n_matrices;
}

/* Points the matrices of a block at their integers in one of its graphs. */
static void place(WeightsGraphs *graphs, GraphBlock *block, GraphKind kind) {
    const BackendOps *ops = graphs->backend->ops;
    const size_t rows = kind == GRAPH_PREFILL ? ops->prefill_rows : ops->decode_rows;
    uint8_t *data = data_of(graphs, block, kind);

    if (block->placed == kind)
        return;
    for (size_t i = block->first; i < block->first + block->n; i++) {
        const RingMatrix *matrix = &graphs->matrices[i];

        ops->linear_at(matrix->linear, data + (matrix->offset_bytes - block->offset_bytes));
        ops->linear_shape(matrix->linear, rows, 0);
    }
    block->placed = kind;
}

void weights_graphs_add(WeightsGraphs *graphs, BackendLinear *linear, bool arrives) {
    RingMatrix *matrix = &graphs->matrices[graphs->n_added];
    GraphBlock *block = &graphs->blocks[block_of(graphs, matrix->layer)];

    assert(graphs->n_added < graphs->n_matrices);
    graphs->n_added++;
    matrix->linear = linear;
    graphs->has_arrived = arrives;
    if (!arrives)
        return;
    if (block->slots[GRAPH_PREFILL] == GRAPH_SLOT_NONE)
        block->slots[GRAPH_PREFILL] = graph_arena_take(&graphs->arena);
    graphs->backend->ops->linear_at(linear, data_of(graphs, block, GRAPH_PREFILL) +
                                                (matrix->offset_bytes - block->offset_bytes));
    graphs->backend->ops->linear_shape(linear, graphs->backend->ops->prefill_rows, 0);
}

/* --- loads -------------------------------------------------------------------------------------------------------- */

/* Thread: the loader's. */
static bool block_is_whole(void *arg, size_t number, const uint8_t *data) {
    WeightsGraphs *graphs = arg;
    const GraphBlock *block = &graphs->blocks[number];

    for (size_t i = block->first; i < block->first + block->n; i++) {
        const RingMatrix *matrix = &graphs->matrices[i];

        if (!weights_image_part_is_whole(graphs->file.image, matrix->part,
                                         data + (matrix->offset_bytes - block->offset_bytes)))
            return false;
    }
    return true;
}

/* Expands a piece of the package to its place in a slot. Thread: the loader's. */
static bool expand_piece(void *arg, const GraphPiece *piece, const uint8_t *data, void *target) {
    WeightsGraphs *graphs = arg;
    const RingMatrix *matrix = &graphs->matrices[piece->matrix];
    const GraphBlock *block = &graphs->blocks[block_of(graphs, matrix->layer)];

    return graphs->backend->ops->linear_expand(graphs->backend, matrix->linear, piece->begin, piece->end, data,
                                               (uint8_t *)target + block->offset_bytes % EXTENT_ALIGNMENT +
                                                   (matrix->offset_bytes - block->offset_bytes));
}

static void give(WeightsGraphs *graphs, GraphBlock *block, GraphKind kind) {
    graph_arena_give(&graphs->arena, block->slots[kind]);
    block->slots[kind] = GRAPH_SLOT_NONE;
    if (block->placed == kind)
        block->placed = GRAPH_NONE;
}

static void begin_loads(WeightsGraphs *graphs) {
    GraphKind kind;
    size_t number;

    while (graph_switch_drop(&graphs->graphs, &number, &kind))
        give(graphs, &graphs->blocks[number], kind);
    if (atomic_load(&graphs->loss.is_lost) || !graph_switch_load(&graphs->graphs, &number, &kind))
        return;
    graphs->blocks[number].slots[kind] = graph_arena_take(&graphs->arena);
    graph_loader_begin(graphs->loader,
                       &(GraphLoad){ .number = number,
                                     .offset_bytes = graphs->blocks[number].offset_bytes,
                                     .len_bytes = graphs->blocks[number].len_bytes,
                                     .pieces = graphs->blocks[number].pieces,
                                     .n_pieces = graphs->blocks[number].n_pieces,
                                     .buffer = graph_arena_at(&graphs->arena, graphs->blocks[number].slots[kind]) });
}

static void note_load(WeightsGraphs *graphs, const GraphBlock *block, GraphKind kind, const GraphLoadEnd *end) {
    const uint64_t read_bytes = block->n_pieces ? block->packed_bytes : block->len_bytes;
    Trace *trace = graphs->tracep ? *graphs->tracep : NULL;

    graphs->counts.n_loads++;
    graphs->counts.loaded_bytes += read_bytes;
    graphs->counts.expand_ns += end->expand_ns;
    graphs->counts.load_ns += end->end_ns - end->start_ns;
    graphs->counts.check_ns += end->end_ns - end->read_ns;
    /* Only the first load of a block compares, so comparing is no part of the time. */
    graph_times_took_load(&graphs->graphs.times, kind, (double)(end->read_ns - end->start_ns));
    if (trace)
        trace_add(trace, &(TraceEvent){ .name = kind == GRAPH_PREFILL ? "graph of prompts" : "graph of decoding",
                                        .category = "load",
                                        .start_ns = end->start_ns,
                                        .end_ns = end->end_ns,
                                        .layer = (int32_t)block->first_layer,
                                        .lane = TRACE_LANE_READ,
                                        .bytes = read_bytes });
    for (size_t i = 0; trace && i < block->n_pieces; i++)
        trace_add(trace, &(TraceEvent){ .name = "expand",
                                        .category = "load",
                                        .start_ns = end->expanded_ns[2 * i],
                                        .end_ns = end->expanded_ns[2 * i + 1],
                                        .layer = (int32_t)graphs->matrices[block->pieces[i].matrix].layer,
                                        .lane = TRACE_LANE_READ + 1,
                                        .bytes = block->pieces[i].len_bytes });
}

/* Notes that the file has changed or is damaged: it is not used any more. */
static void lose(WeightsGraphs *graphs, const GraphBlock *block) {
    ErrText why = { 0 };

    err_set(&why, 0, "%s: the graphs of layers %u to %u are damaged, or the file was changed: %s", graphs->name,
            block->first_layer, block->end_layer - 1,
            graphs->file.image ? "load the model again, which makes it anew"
                               : "load the model again, or import it again where that fails, too");
    file_loss_set(&graphs->loss, graphs->file.image, &why);
}

/* Takes in the load that ends within wait_ns, and begins the next one. */
static void turn(WeightsGraphs *graphs, uint64_t wait_ns) {
    const size_t number = graphs->graphs.loading.block;
    const GraphKind kind = graphs->graphs.loading.kind;
    GraphBlock *block = &graphs->blocks[number];
    GraphLoadEnd end;

    if (number < graphs->graphs.n_blocks && graph_loader_ended(graphs->loader, wait_ns, &end)) {
        graph_switch_loaded(&graphs->graphs, !end.result);
        if (end.result) {
            give(graphs, block, kind);
            graphs->failure = end.result;
            graphs->failed_block = number;
        } else {
            note_load(graphs, block, kind, &end);
        }
        if (end.result == GRAPH_LOADER_E_FILE)
            lose(graphs, block);
    }
    begin_loads(graphs);
}

/* Gives every block its pieces, which are in the order of the matrices. Returns the bytes of the largest piece. */
static size_t share_pieces(WeightsGraphs *graphs) {
    size_t piece_bytes = 0, at = 0;

    for (size_t i = 0; i < graphs->counts.n_blocks; i++) {
        GraphBlock *block = &graphs->blocks[i];

        block->pieces = &graphs->file.pieces[at];
        for (; at < graphs->file.n_pieces && graphs->file.pieces[at].matrix < block->first + block->n; at++) {
            const size_t len_bytes = graphs->file.pieces[at].len_bytes;

            block->n_pieces++;
            block->packed_bytes += len_bytes;
            piece_bytes = MAX(len_bytes, piece_bytes);
        }
    }
    return piece_bytes;
}

/* Takes the file over, with a descriptor and a name of its own. */
static int take_file(WeightsGraphs *graphs, const GraphsFile *file, ErrText *err) {
    int fd = file->package_fd;

    graphs->file = *file;
    graphs->file.package_path = NULL;
    if (!file->image && (fd = fcntl(file->package_fd, F_DUPFD_CLOEXEC, 0)) < 0)
        return err_set(err, -errno, "%s: cannot keep it open: %s", file->package_path, strerror(errno));
    graphs->file.package_fd = fd;
    graphs->name = strdup(file->image ? weights_image_name(file->image) : file->package_path);
    if (graphs->name)
        return 0;
    if (!file->image)
        close(fd);
    return err_no_memory(err);
}

int weights_graphs_start(WeightsGraphs *graphs, const GraphsFile *file, ReadLimit limit, const char *notes,
                         ErrText *err) {
    GraphLoaderOptions options = { .limit = limit, .is_whole = block_is_whole, .arg = graphs };
    int r;

    assert(graphs->n_added == graphs->n_matrices && !graphs->name);
    r = take_file(graphs, file, err);
    if (r)
        return r;
    options.path = graphs->name;
    options.disk = file->disk;
    options.fd = file->image ? weights_image_fd(file->image) : graphs->file.package_fd;
    if (!file->image) {
        options.expand = expand_piece;
        options.piece_bytes_max = share_pieces(graphs);
        options.accounts = graphs->backend->accounts;
    }
    graphs->counts.form = file->image ? GRAPH_FORM_MATERIALISED : GRAPH_FORM_PACKED;
    graph_times_note_recall(&graphs->times, &graphs->graphs.times, options.fd, notes, graphs->backend,
                            graphs->counts.n_blocks, limit);
    r = graph_loader_new(&graphs->loader, &options, err);
    if (r)
        return r == GRAPH_LOADER_E_MEMORY ? WEIGHTS_GRAPHS_E_MEMORY : r;
    for (size_t i = 0; graphs->has_arrived && i < graphs->counts.n_blocks; i++)
        graphs->graphs.is_there[i][GRAPH_PREFILL] = true;
    begin_loads(graphs);
    return 0;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

void weights_graphs_expect(WeightsGraphs *graphs, size_t rows, size_t prompt_rows, size_t n_behind, uint32_t layer) {
    const bool is_at_end = layer >= graphs->blocks[graphs->counts.n_blocks - 1].end_layer;
    char text[400];

    graphs->rows = rows;
    graph_switch_step(&graphs->graphs, rows, prompt_rows, n_behind,
                      is_at_end ? graphs->counts.n_blocks : block_of(graphs, layer));
    if (graphs->graphs.step.is_prompt && !layer && log_level() >= LOG_LEVEL_DEBUG) {
        graph_switch_explain(&graphs->graphs, text, sizeof(text));
        log_debug(TOPIC_ENGINE, "graphs: %s", text);
    }
}

/* Tells why a load has failed, to the step that wants the block. */
static int tell_failure(WeightsGraphs *graphs, ErrText *err) {
    const GraphBlock *block = &graphs->blocks[graphs->failed_block];
    const int r = graphs->failure;

    graphs->failure = 0;
    if (file_loss_check(&graphs->loss, err))
        return WEIGHTS_GRAPHS_E_READ;
    return err_set(err, WEIGHTS_GRAPHS_E_READ, "%s: cannot read the graphs of layers %u to %u: %s", graphs->name,
                   block->first_layer, block->end_layer - 1, strerror(-r));
}

bool weights_graphs_has_started(const WeightsGraphs *graphs) {
    return graphs->loader;
}

bool weights_graphs_has_arrived(const WeightsGraphs *graphs, uint32_t layer, uint32_t stage) {
    return graphs->has_arrived &&
           stage > weights_graphs_block_end(graphs, layer); /* whose last layer's stage that is */
}

int weights_graphs_hold(WeightsGraphs *graphs, uint32_t layer, uint64_t wait_ns, ErrText *err) {
    const size_t number = block_of(graphs, layer);
    const uint64_t start_ns = clock_now_ns();
    GraphKind kind;

    if (!graphs->loader) {
        graphs->holds_arrived = true;
        graphs->counts.n_computed[GRAPH_PREFILL]++;
        return 0;
    }
    turn(graphs, 0);
    kind = graph_switch_use(&graphs->graphs, number);
    if (kind == GRAPH_NONE) {
        begin_loads(graphs); /* the block is waited for now */
        if (wait_ns)
            turn(graphs, wait_ns);
        kind = graph_switch_use(&graphs->graphs, number);
        graphs->counts.stall_ns += clock_now_ns() - start_ns;
    }
    if (kind == GRAPH_NONE &&
        (atomic_load(&graphs->loss.is_lost) || (graphs->failure && graphs->failed_block == number)))
        return tell_failure(graphs, err);
    if (kind == GRAPH_NONE)
        return WEIGHTS_GRAPHS_E_WAITING;
    place(graphs, &graphs->blocks[number], kind);
    begin_loads(graphs);
    graphs->counts.n_computed[kind]++;
    graphs->counts.n_makeshift += kind != graphs->graphs.step.kind;
    graphs->since_ns = clock_now_ns();
    return 0;
}

void weights_graphs_turn(WeightsGraphs *graphs) {
    if (graphs->loader && graphs->graphs.loading.block < graphs->graphs.n_blocks)
        turn(graphs, 0);
}

int weights_graphs_load_all(WeightsGraphs *graphs, ErrText *err) {
    for (size_t i = 0; i < graphs->counts.n_blocks; i++) {
        const GraphBlock *block = &graphs->blocks[i];

        while (!graphs->graphs.is_there[i][GRAPH_PREFILL] && !graphs->graphs.is_there[i][GRAPH_DECODE]) {
            turn(graphs, LOAD_WAIT_NS);
            if (atomic_load(&graphs->loss.is_lost) || graphs->failure)
                return tell_failure(graphs, err);
        }
        assert(block->slots[GRAPH_PREFILL] != GRAPH_SLOT_NONE || block->slots[GRAPH_DECODE] != GRAPH_SLOT_NONE);
    }
    return 0;
}

void weights_graphs_release(WeightsGraphs *graphs, uint32_t layer, uint32_t end) {
    const size_t number = block_of(graphs, layer);
    const bool is_done = end >= graphs->blocks[number].end_layer;

    if (graphs->holds_arrived) {
        graphs->holds_arrived = false;
        return;
    }
    if (is_done && layer == graphs->blocks[number].first_layer)
        graph_times_took(&graphs->graphs.times, graphs->graphs.held.kind, graphs->rows, graphs->graphs.prefill_rows,
                         graphs->graphs.decode_rows, (double)(clock_now_ns() - graphs->since_ns));
    graph_switch_computed(&graphs->graphs, number, is_done);
    turn(graphs, 0);
}

int weights_graphs_check(const WeightsGraphs *graphs, ErrText *err) {
    return file_loss_check(&graphs->loss, err);
}

void weights_graphs_set_limit(WeightsGraphs *graphs, ReadLimit limit) {
    if (graphs->loader)
        graph_loader_set_limit(graphs->loader, limit);
}

WeightsGraphsCounts weights_graphs_counts(const WeightsGraphs *graphs) {
    WeightsGraphsCounts counts = graphs->counts;

    counts.limit_bytes = graphs->arena.limit_bytes;
    counts.used_bytes = graphs->arena.used_bytes;
    counts.peak_bytes = graphs->arena.peak_bytes;
    return counts;
}

const GraphSwitch *weights_graphs_switch(const WeightsGraphs *graphs) {
    return &graphs->graphs;
}

const char *weights_graphs_way(const WeightsGraphs *graphs) {
    return graphs->loader ? graph_loader_way(graphs->loader) : "";
}
