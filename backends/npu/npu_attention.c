// SPDX-License-Identifier: Apache-2.0
/*
 * Attention of prompts together with the NPU. The NPU has two operators of a static shape: a tile is NPU_ATTENTION_ROWS
 * row-heads by one block of positions, and is multiplied by keys, then by values. The processors make weights of the
 * products of keys in between. While they do so for one tile, the NPU multiplies the one behind by keys and the one
 * before by values.
 *
 * Sums are exact, so the bits are those of the processors alone.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "backends/npu/npu_private.h"
#include "backends/borrowed_ops.h"
#include "base/clock.h"
#include "base/memory/account_refusal.h"
#include "base/min_max.h"

enum {
    BLOCK_PARTS = ATTENTION_BLOCK / KV_BLOCK
};

/* Row-heads [first, first + n) of one sequence's rows and one KV head, and the blocks of positions that they read. */
typedef struct Piece {
    const AttentionCall *call;
    const BatchSequence *sequence;
    BatchRange rows; /* of the sequence in the call */
    size_t kv_head, first, n;
    size_t block, end; /* the next block, and the end */
    NpuAttentionState *state;
} Piece;

/* A piece in one block of positions. */
typedef struct Tile {
    NpuAttention *memory;
    NpuAttentionTile *room;
    Piece piece;
    size_t block;
    bool is_masked, is_last; /* some row-head reads less than all; the last block of the piece */
    AttentionParts parts;
    uint64_t keys, values; /* numbers of the queue's commands */
    uint64_t queue_ns;     /* out, of both */
} Tile;

/* Holds the rest of a call, and the tiles under way. */
typedef struct Walk {
    NpuBackend *self;
    const AttentionCall *call;
    size_t sequence; /* of the next piece */
    size_t n_pieces; /* begun */
    Piece piece;
    Tile tiles[NPU_ATTENTION_TILES];
    size_t n_tiles; /* begun */
} Walk;

/* --- memory ------------------------------------------------------------------------------------------------------- */

static void *carve(uint8_t *base, size_t *at_bytesp, size_t len_bytes) {
    const size_t at_bytes = *at_bytesp;

    *at_bytesp = (at_bytes + len_bytes + 63) / 64 * 64;
    return base ? base + at_bytes : NULL;
}

static NpuAttentionState carve_state(uint8_t *base, size_t *at_bytesp, size_t head_size) {
    const size_t n = NPU_ATTENTION_ROWS;
    NpuAttentionState state = { .queries.head_size = head_size };

    state.queries.levels = carve(base, at_bytesp, n * attention_levels_bytes(head_size));
    state.queries.factors = carve(base, at_bytesp, n * sizeof(float));
    state.queries.starts = carve(base, at_bytesp, n * sizeof(int32_t));
    state.totals.units = carve(base, at_bytesp, n * sizeof(float));
    state.totals.normalizers = carve(base, at_bytesp, n * sizeof(float));
    state.totals.outputs = carve(base, at_bytesp, n * head_size * sizeof(float));
    return state;
}

static NpuAttentionTile carve_tile(uint8_t *base, size_t *at_bytesp, const AttentionOps *ops, size_t head_size) {
    const size_t n = NPU_ATTENTION_ROWS, n_groups = (n + ops->group - 1) / ops->group;

    return (NpuAttentionTile){
        .sums = { .score_units = carve(base, at_bytesp, n * sizeof(float)),
                  .value_units = carve(base, at_bytesp, n * sizeof(float)),
                  .normalizers = carve(base, at_bytesp, n * sizeof(int32_t)),
                  .outputs = carve(base, at_bytesp, n * head_size * sizeof(int32_t)) },
        .masks = carve(base, at_bytesp, n * sizeof(AttentionMask)),
        .scratch = carve(base, at_bytesp, n_groups * npu_attention_group_bytes(ops)),
    };
}

/* Lays the memory out; base NULL: only counts its bytes. */
static size_t lay_out(NpuAttention *attention, uint8_t *base, size_t head_size) {
    size_t at_bytes = 0;

    for (size_t i = 0; i < NPU_ATTENTION_TILES; i++) {
        attention->states[i] = carve_state(base, &at_bytes, head_size);
        attention->tiles[i] = carve_tile(base, &at_bytes, attention->ops, head_size);
    }
    return at_bytes;
}

int npu_attention_reserve(NpuBackend *self, size_t head_size, ErrText *err) {
    NpuAttention *attention = &self->attention;
    size_t len_bytes;
    int r;

    if (attention->memory.data && attention->states[0].queries.head_size == head_size)
        return 0;
    npu_attention_deinit(attention);
    attention->ops = ((const CpuBackend *)self->backend.host)->attention;
    len_bytes = lay_out(attention, NULL, head_size);
    r = accounted_block_init(&attention->memory, self->backend.accounts, ACCOUNT_ACTIVATIONS, len_bytes);
    if (r)
        return account_refused(err, BACKEND_E_MEMORY, r, self->backend.accounts, ACCOUNT_ACTIVATIONS, len_bytes,
                               "the tiles of attention");
    /* The memory is zeros: row-heads that a tile does not have always have weights within bounds. */
    lay_out(attention, attention->memory.data, head_size);
    return 0;
}

void npu_attention_deinit(NpuAttention *attention) {
    accounted_block_deinit(&attention->memory);
    *attention = (NpuAttention){ .ops = NULL };
}

/* --- pieces ------------------------------------------------------------------------------------------------------- */

static size_t heads_of(const AttentionCall *call) {
    return call->n_heads / call->kv.n_kv_heads;
}

/* Returns the positions [*beginp, *endp) that a row-head reads. */
static void positions_of(const Piece *piece, size_t row_head, size_t *beginp, size_t *endp) {
    const size_t row = piece->rows.first + row_head / heads_of(piece->call), window = piece->call->window;

    *endp = piece->call->batch->rows[row].position + (size_t)1;
    *beginp = window && *endp > window ? *endp - window : 0;
}

/* Returns where a row-head's query is, and its output will be. */
static float *query_of(const Piece *piece, size_t row_head) {
    const AttentionCall *call = piece->call;
    const size_t heads = heads_of(call), row = piece->rows.first + row_head / heads - call->rows.first;

    return call->q + (row * call->n_heads + piece->kv_head * heads + row_head % heads) * call->kv.head_size;
}

static void make_queries(void *arg, size_t begin, size_t end, unsigned int worker) {
    const Piece *piece = arg;
    const AttentionCall *call = piece->call;
    const bool is_capped = call->soft_cap > 0;
    const float scale = is_capped ? 2 * call->scale / call->soft_cap : call->scale, log2_e = 0x1.715476p0f,
                *balance = call->balance ? call->balance + piece->kv_head * call->kv.head_size : NULL;

    for (size_t i = begin; i < end; i++)
        piece->state->ops->queries(&piece->state->queries, i, query_of(piece, piece->first + i), 1, balance,
                                   scale * log2_e);
}

/* Makes the queries of a piece. Row-heads that a tile has beyond those are zeros. */
static void begin_piece(const Walk *walk, Piece *piece) {
    const NpuAttention *memory = &walk->self->attention;
    NpuAttentionState *state = piece->state;
    AttentionQueries *queries = &state->queries;
    const size_t levels_bytes = attention_levels_bytes(queries->head_size), n_idle = NPU_ATTENTION_ROWS - piece->n;

    state->ops = memory->ops;
    queries->cap = piece->call->soft_cap * 0x1.715476p0f;
    worker_pool_run(walk->self->backend.pool, make_queries, piece, piece->n, 16);
    memset(queries->levels + piece->n * levels_bytes, 0, n_idle * levels_bytes);
    memset(queries->starts + piece->n, 0, n_idle * sizeof(*queries->starts));
    for (size_t i = 0; i < piece->n; i++) {
        state->totals.units[i] = -INFINITY;
        state->totals.normalizers[i] = 0;
    }
    memset(state->totals.outputs, 0, piece->n * queries->head_size * sizeof(*state->totals.outputs));
}

/* Moves to the next piece of the call: row-heads of a sequence and a KV head, then the next KV head, then the next
 * sequence. Returns false at the end. */
static bool next_piece(Walk *walk) {
    const AttentionCall *call = walk->call;
    Piece *piece = &walk->piece;
    size_t n_row_heads = piece->rows.n * heads_of(call), begin, end;

    piece->first += piece->n;
    if (piece->first == n_row_heads) {
        piece->first = 0;
        piece->kv_head++;
    }
    if (!piece->sequence || piece->kv_head == call->kv.n_kv_heads) {
        do {
            if (walk->sequence == call->batch->n_sequences)
                return false;
            piece->sequence = &call->batch->sequences[walk->sequence++];
            piece->rows = batch_range_common(piece->sequence->rows, call->rows);
        } while (!piece->rows.n);
        piece->kv_head = piece->first = 0;
        n_row_heads = piece->rows.n * heads_of(call);
    }
    piece->n = MIN(n_row_heads - piece->first, NPU_ATTENTION_ROWS);
    positions_of(piece, piece->first, &begin, &end);
    piece->block = begin / ATTENTION_BLOCK;
    positions_of(piece, piece->first + piece->n - 1, &begin, &end);
    piece->end = (end + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
    piece->state = &walk->self->attention.states[walk->n_pieces++ % NPU_ATTENTION_TILES];
    begin_piece(walk, piece);
    return true;
}

/* --- tiles -------------------------------------------------------------------------------------------------------- */

/* Returns the positions of [begin, end) among 64 from `first` on, as bits. */
static uint64_t part_mask(size_t begin, size_t end, size_t first) {
    const size_t from = MAX(begin, first), to = MIN(end, first + KV_BLOCK);

    return from < to ? UINT64_MAX << (from - first) & UINT64_MAX >> (first + KV_BLOCK - to) : 0;
}

/* Sets masks and cache blocks. A part that nobody reads may have no cache block; the tile has another one there. */
static void set_parts(Tile *tile) {
    const Piece *piece = &tile->piece;
    const KvLayer *layer = &piece->call->kv;
    const size_t len_bytes = KV_BLOCK * kv_row_bytes(layer->head_size), first = tile->block * ATTENTION_BLOCK;
    const KvHead kv = { .k_bytes = layer->k_offset_bytes + piece->kv_head * len_bytes,
                        .v_bytes = layer->v_offset_bytes + piece->kv_head * len_bytes,
                        .head_size = layer->head_size };
    uint64_t read[BLOCK_PARTS] = { 0 }, all = UINT64_MAX;
    size_t known = 0;

    for (size_t i = 0; i < piece->n; i++) {
        size_t begin, end;

        positions_of(piece, piece->first + i, &begin, &end);
        for (size_t part = 0; part < BLOCK_PARTS; part++) {
            const uint64_t mask = part_mask(begin, end, first + part * KV_BLOCK);

            tile->room->masks[i][part] = mask;
            read[part] |= mask;
            all &= mask;
        }
    }
    while (!read[known])
        known++;
    tile->is_masked = ~all;
    tile->parts = (AttentionParts){ .n = BLOCK_PARTS };
    for (size_t part = 0; part < BLOCK_PARTS; part++)
        tile->parts.at[part] =
            kv_block_at(&kv, piece->sequence->blocks[tile->block * BLOCK_PARTS + (read[part] ? part : known)]);
}

static AttentionSums sums_from(const AttentionSums *sums, size_t first, size_t head_size) {
    return (AttentionSums){ sums->score_units + first, sums->value_units + first, sums->normalizers + first,
                            sums->outputs + first * head_size };
}

static AttentionTotals totals_from(const AttentionTotals *totals, size_t first, size_t head_size) {
    return (AttentionTotals){ totals->units + first, totals->normalizers + first, totals->outputs + first * head_size };
}

static void *scratch_of(const Tile *tile, size_t group) {
    return tile->room->scratch + group * npu_attention_group_bytes(tile->memory->ops);
}

/* Multiplies the tile by keys, then by values: an NpuCommandFn each. All row-heads of the tile count. */
static void multiply_by_keys(void *arg) {
    Tile *tile = arg;
    const AttentionOps *ops = tile->memory->ops;
    const uint64_t start_ns = clock_now_ns();

    for (size_t first = 0; first < NPU_ATTENTION_ROWS; first += ops->group)
        ops->keys(&tile->piece.state->queries, first, MIN(NPU_ATTENTION_ROWS - first, ops->group), &tile->parts,
                  scratch_of(tile, first / ops->group));
    tile->queue_ns = clock_now_ns() - start_ns;
}

static void multiply_by_values(void *arg) {
    Tile *tile = arg;
    const AttentionOps *ops = tile->memory->ops;
    const size_t head_size = tile->piece.state->queries.head_size;
    const uint64_t start_ns = clock_now_ns();

    for (size_t first = 0; first < NPU_ATTENTION_ROWS; first += ops->group) {
        const AttentionSums sums = sums_from(&tile->room->sums, first, head_size);

        ops->values(MIN(NPU_ATTENTION_ROWS - first, ops->group), &tile->parts, head_size,
                    scratch_of(tile, first / ops->group), &sums);
    }
    tile->queue_ns += clock_now_ns() - start_ns;
}

/* Makes the weights of groups [begin, end) of row-heads. */
static void make_weights(void *arg, size_t begin, size_t end, unsigned int worker) {
    const Tile *tile = arg;
    const AttentionOps *ops = tile->memory->ops;
    const AttentionQueries *queries = &tile->piece.state->queries;

    for (size_t group = begin; group < end; group++) {
        const size_t first = group * ops->group;
        const AttentionSums sums = sums_from(&tile->room->sums, first, queries->head_size);

        ops->weights(queries, first, MIN(tile->piece.n - first, ops->group), &tile->parts,
                     tile->is_masked ? (const AttentionMask *)(tile->room->masks + first) : NULL,
                     scratch_of(tile, group), &sums);
    }
}

/* Adds the tile to the totals of groups of row-heads, and ends those behind the last block. */
static void add_tile(void *arg, size_t begin, size_t end, unsigned int worker) {
    const Tile *tile = arg;
    const Piece *piece = &tile->piece;
    const AttentionOps *ops = tile->memory->ops;
    const size_t head_size = piece->state->queries.head_size;

    for (size_t first = begin * ops->group; first < MIN(end * ops->group, piece->n); first += ops->group) {
        const size_t n = MIN(piece->n - first, ops->group);
        const AttentionSums sums = sums_from(&tile->room->sums, first, head_size);
        const AttentionTotals totals = totals_from(&piece->state->totals, first, head_size);

        ops->add(&sums, n, head_size, &totals);
        for (size_t i = first; tile->is_last && i < first + n; i++) {
            const AttentionTotals one = totals_from(&piece->state->totals, i, head_size);

            ops->end(&one, 1, head_size, query_of(piece, piece->first + i));
        }
    }
}

/* --- the call ----------------------------------------------------------------------------------------------------- */

/* Begins the next tile: the NPU multiplies its queries by keys. Returns NULL at the end of the call. */
static Tile *begin_tile(Walk *walk) {
    NpuAttention *memory = &walk->self->attention;
    const size_t index = walk->n_tiles % NPU_ATTENTION_TILES;
    Tile *tile = &walk->tiles[index];

    if (walk->piece.block == walk->piece.end && !next_piece(walk))
        return NULL;
    *tile = (Tile){ .memory = memory,
                    .room = &memory->tiles[index],
                    .piece = walk->piece,
                    .block = walk->piece.block++,
                    .is_last = walk->piece.block == walk->piece.end };
    set_parts(tile);
    tile->keys = npu_queue_submit(walk->self->queue, multiply_by_keys, tile);
    walk->n_tiles++;
    return tile;
}

/* Runs all tiles. Returns the nanoseconds of the queue. */
static uint64_t run_tiles(Walk *walk) {
    NpuBackend *self = walk->self;
    WorkerPool *pool = self->backend.pool;
    const size_t group = self->attention.ops->group;
    Tile *before = NULL, *tile = begin_tile(walk);
    uint64_t queue_ns = 0;

    while (tile || before) {
        Tile *next = tile ? begin_tile(walk) : NULL;

        if (tile) {
            npu_queue_wait(self->queue, tile->keys);
            worker_pool_run(pool, make_weights, tile, (tile->piece.n + group - 1) / group, 1);
            tile->values = npu_queue_submit(self->queue, multiply_by_values, tile);
        }
        if (before) {
            npu_queue_wait(self->queue, before->values);
            worker_pool_run(pool, add_tile, before, (before->piece.n + group - 1) / group, 1);
            queue_ns += before->queue_ns;
        }
        before = tile;
        tile = next;
    }
    return queue_ns;
}

static bool has_slots(const AttentionCall *call) {
    for (size_t i = 0; i < call->rows.n; i++)
        if (call->batch->rows[call->rows.first + i].slot != BATCH_IN_PLACE)
            return true;
    return false;
}

void npu_attention_joint(Backend *backend, const AttentionCall *call, BackendJointTime *time) {
    NpuBackend *self = npu(backend);
    Walk walk = { .self = self, .call = call, .piece.call = call };
    const uint64_t start_ns = clock_now_ns();

    assert(self->attention.memory.data && self->attention.states[0].queries.head_size == call->kv.head_size);
    *time = (BackendJointTime){ .wait_ns = 0 };
    npu_queue_wait(self->queue, npu_queue_n_submitted(self->queue));
    time->wait_ns = clock_now_ns() - start_ns;
    if (has_slots(call))
        borrowed_attention(backend, call);
    else
        time->queue_ns = run_tiles(&walk);
}
