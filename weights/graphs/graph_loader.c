// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "weights/graphs/graph_loader.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/files/file_io.h"
#include "base/files/reader_thread.h"
#include "base/memory/account_refusal.h"
#include "base/system/thread.h"

enum {
    STAGES = 4, /* pieces that are in memory, or under way, at a time */
};

typedef enum LoaderState {
    LOADER_IDLE,
    LOADER_WANTED, /* a load is begun, or under way */
    LOADER_ENDED,
} LoaderState;

/* Memory for loads in pieces. */
typedef struct Staging {
    AccountedBlock block;
    uint8_t *stages; /* [STAGES][stage_bytes] in the block, aligned as reads need it */
    size_t stage_bytes;
    uint64_t *expanded_ns; /* [2 * n_timed], the thread's: times of the last load */
    size_t n_timed;
} Staging;

struct GraphLoader {
    ReaderThread thread;
    GraphLoaderCheckFn *is_whole;
    GraphLoaderExpandFn *expand;
    void *arg;
    Staging staging;
    /* Under the mutex. */
    LoaderState state;
    _Atomic bool has_ended; /* state is LOADER_ENDED; read without the mutex */
    GraphLoad load;
    GraphLoadEnd end;
    SharedLimiter own, *disk;
};

/* Waits until a slower disk would have read the bytes. */
static void wait_until_due(GraphLoader *loader, uint64_t due_ns) {
    pthread_mutex_lock(&loader->thread.mutex);
    while (!loader->thread.is_stopping && due_ns > clock_now_ns())
        (void)thread_cond_wait_until(&loader->thread.work, &loader->thread.mutex, due_ns);
    pthread_mutex_unlock(&loader->thread.mutex);
}

static bool is_stopping(GraphLoader *loader) {
    bool is;

    pthread_mutex_lock(&loader->thread.mutex);
    is = loader->thread.is_stopping;
    pthread_mutex_unlock(&loader->thread.mutex);
    return is;
}

/* Reads the whole extent into the target. */
static int read_whole(GraphLoader *loader, const GraphLoad *load, const uint8_t **datap) {
    Extent extent = { .offset_bytes = load->offset_bytes, .len_bytes = load->len_bytes, .buffer = load->buffer };
    const uint64_t due_ns = shared_limiter_ask(loader->disk, load->len_bytes);
    int r = extent_reader_submit(loader->thread.extents, &extent, NULL);

    if (!r)
        r = extent_reader_wait(loader->thread.extents, &extent, NULL);
    wait_until_due(loader, due_ns);
    *datap = extent.data;
    return r > 0 ? GRAPH_LOADER_E_FILE : r;
}

/* Makes room for the times of n pieces. */
static int time_pieces(GraphLoader *loader, size_t n) {
    uint64_t *times;

    if (n <= loader->staging.n_timed)
        return 0;
    times = reallocarray(loader->staging.expanded_ns, n, 2 * sizeof(*times));
    if (!times)
        return err_raise(-ENOMEM);
    loader->staging.expanded_ns = times;
    loader->staging.n_timed = n;
    return 0;
}

/* The reads of a load in pieces: n_asked have begun, n_ended of them are no longer under way. */
typedef struct PieceReads {
    Extent extents[STAGES];
    uint64_t due_ns[STAGES];
    size_t n_asked, n_ended;
} PieceReads;

static int ask_ahead(GraphLoader *loader, const GraphLoad *load, PieceReads *reads) {
    int r = 0;

    while (reads->n_asked < load->n_pieces && reads->n_asked < reads->n_ended + STAGES && !r) {
        const GraphPiece *piece = &load->pieces[reads->n_asked];
        const size_t stage = reads->n_asked % STAGES;

        reads->extents[stage] = (Extent){ .offset_bytes = piece->offset_bytes,
                                          .len_bytes = piece->len_bytes,
                                          .buffer = loader->staging.stages + stage * loader->staging.stage_bytes };
        reads->due_ns[stage] = shared_limiter_ask(loader->disk, piece->len_bytes);
        r = extent_reader_submit(loader->thread.extents, &reads->extents[stage], NULL);
        reads->n_asked += !r;
    }
    return r;
}

/* Waits for the next piece and expands it. */
static int take_piece(GraphLoader *loader, const GraphLoad *load, PieceReads *reads, GraphLoadEnd *end) {
    const size_t index = reads->n_ended, stage = index % STAGES;
    uint64_t *times = &loader->staging.expanded_ns[2 * index];
    int r = extent_reader_wait(loader->thread.extents, &reads->extents[stage], NULL);

    reads->n_ended++;
    if (r)
        return r;
    wait_until_due(loader, reads->due_ns[stage]);
    if (is_stopping(loader))
        return -ECANCELED;
    times[0] = clock_now_ns();
    r = loader->expand(loader->arg, &load->pieces[index], reads->extents[stage].data, load->buffer)
            ? 0
            : GRAPH_LOADER_E_FILE;
    times[1] = clock_now_ns();
    end->expand_ns += times[1] - times[0];
    return r;
}

/* Reads and expands piece by piece: while a piece is expanded, the next ones are being read. */
static int read_pieces(GraphLoader *loader, const GraphLoad *load, GraphLoadEnd *end) {
    PieceReads reads = { .n_asked = 0 };
    int r = time_pieces(loader, load->n_pieces);

    while (!r && reads.n_ended < load->n_pieces) {
        r = ask_ahead(loader, load, &reads);
        if (!r)
            r = take_piece(loader, load, &reads, end);
    }
    for (; reads.n_ended < reads.n_asked; reads.n_ended++)
        (void)extent_reader_wait(loader->thread.extents, &reads.extents[reads.n_ended % STAGES], NULL);
    return r > 0 ? GRAPH_LOADER_E_FILE : r;
}

/* Runs a load, without the mutex, which only waits for a slower disk take. */
static GraphLoadEnd run_load(GraphLoader *loader, const GraphLoad *load) {
    GraphLoadEnd end = { .start_ns = clock_now_ns() };
    const uint8_t *data = load->buffer;

    end.result = load->n_pieces ? read_pieces(loader, load, &end) : read_whole(loader, load, &data);
    end.expanded_ns = load->n_pieces ? loader->staging.expanded_ns : NULL;
    end.read_ns = clock_now_ns();
    if (!end.result)
        end.result = file_check_same(loader->thread.fd, &loader->thread.known);
    if (end.result == FILE_E_CHANGED)
        end.result = GRAPH_LOADER_E_FILE;
    if (!end.result && !load->n_pieces && !loader->is_whole(loader->arg, load->number, data))
        end.result = GRAPH_LOADER_E_FILE;
    end.end_ns = clock_now_ns();
    return end;
}

static void step(void *arg) {
    GraphLoader *loader = arg;
    GraphLoad load;
    GraphLoadEnd end;

    if (loader->state != LOADER_WANTED) {
        pthread_cond_wait(&loader->thread.work, &loader->thread.mutex);
        return;
    }
    load = loader->load;
    pthread_mutex_unlock(&loader->thread.mutex);
    end = run_load(loader, &load);
    pthread_mutex_lock(&loader->thread.mutex);
    loader->end = end;
    loader->state = LOADER_ENDED;
    atomic_store(&loader->has_ended, true);
    pthread_cond_signal(&loader->thread.came);
}

GraphLoader *graph_loader_free(GraphLoader *loader) {
    if (!loader)
        return NULL;
    reader_thread_deinit(&loader->thread);
    shared_limiter_deinit(&loader->own);
    accounted_block_deinit(&loader->staging.block);
    free(loader->staging.expanded_ns);
    free(loader);
    return NULL;
}

static int new_staging(GraphLoader *loader, const GraphLoaderOptions *options, ErrText *err) {
    int r;

    /* Room for a piece that begins anywhere in a unit. */
    loader->staging.stage_bytes = extent_room_bytes(EXTENT_ALIGNMENT - 1, options->piece_bytes_max);
    r = accounted_block_init(&loader->staging.block, options->accounts, ACCOUNT_ACTIVATIONS,
                             STAGES * loader->staging.stage_bytes + EXTENT_ALIGNMENT);
    if (r)
        return account_refused(err, GRAPH_LOADER_E_MEMORY, r, options->accounts, ACCOUNT_ACTIVATIONS,
                               STAGES * loader->staging.stage_bytes, "loading the graphs of %s", loader->thread.path);
    loader->staging.stages = (uint8_t *)loader->staging.block.data +
                             (EXTENT_ALIGNMENT - (uintptr_t)loader->staging.block.data % EXTENT_ALIGNMENT);
    return 0;
}

int graph_loader_new(GraphLoader **loaderp, const GraphLoaderOptions *options, ErrText *err) {
    _cleanup_(graph_loader_freep) GraphLoader *loader = calloc(1, sizeof(*loader));
    int r;

    if (!loader)
        return err_set(err, -ENOMEM, "%s: out of memory", options->path);
    loader->is_whole = options->is_whole;
    loader->expand = options->expand;
    loader->arg = options->arg;
    shared_limiter_init(&loader->own, options->limit);
    loader->disk = options->disk ? options->disk : &loader->own;
    r = reader_thread_init(&loader->thread, options->fd, options->path, &(ExtentReaderOptions){ 0 }, err);
    if (r)
        return r > 0 ? -EIO : r;
    if (options->expand) {
        r = new_staging(loader, options, err);
        if (r)
            return r;
    }
    r = reader_thread_start(&loader->thread, "graph-loader", "loads graphs", step, loader, err);
    if (r)
        return r;
    *loaderp = steal(&loader);
    return 0;
}

void graph_loader_begin(GraphLoader *loader, const GraphLoad *load) {
    pthread_mutex_lock(&loader->thread.mutex);
    assert(loader->state == LOADER_IDLE);
    loader->load = *load;
    loader->state = LOADER_WANTED;
    pthread_cond_signal(&loader->thread.work);
    pthread_mutex_unlock(&loader->thread.mutex);
}

bool graph_loader_ended(GraphLoader *loader, uint64_t wait_ns, GraphLoadEnd *end) {
    const uint64_t until_ns = clock_now_ns() + wait_ns;
    bool has_ended;

    if (!wait_ns && !atomic_load(&loader->has_ended))
        return false;
    pthread_mutex_lock(&loader->thread.mutex);
    while (wait_ns && loader->state == LOADER_WANTED)
        if (thread_cond_wait_until(&loader->thread.came, &loader->thread.mutex, until_ns))
            break;
    has_ended = loader->state == LOADER_ENDED;
    if (has_ended) {
        *end = loader->end;
        loader->state = LOADER_IDLE;
        atomic_store(&loader->has_ended, false);
    }
    pthread_mutex_unlock(&loader->thread.mutex);
    return has_ended;
}

void graph_loader_set_limit(GraphLoader *loader, ReadLimit limit) {
    shared_limiter_set(loader->disk, limit);
}

const char *graph_loader_way(const GraphLoader *loader) {
    return extent_reader_way(loader->thread.extents);
}
