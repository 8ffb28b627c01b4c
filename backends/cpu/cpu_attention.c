// SPDX-License-Identifier: Apache-2.0
/* Attention of a batch's rows: decides which rows and heads are taken together, and which thread takes them. Results
 * are those of the operators (attention/attention.h) and depend on neither. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/cpu_private.h"
#include "base/min_max.h"

/* Pieces of work per thread, so that uneven ones end together; more pieces would be too small. */
#define ATTENTION_ITEMS_A_THREAD 4
/* Fixed cost of a run of rows, in row-heads. */
#define ATTENTION_RUN_ROW_HEADS 4
/* Number of products below which attention is not worth waking a worker. */
#define ATTENTION_INLINE_PRODUCTS 65536
/* Row-heads of a step whose positions are split over threads, and blocks of positions before their sums are added. */
#define SPLIT_ROW_HEADS 32
#define SPLIT_BLOCKS 32

/* A row of queries: the positions that it reads. */
typedef struct AttentionRow {
    float *q;          /* [heads][head_size]; replaced by the output */
    size_t begin, end; /* positions in the cache: [begin, end) */
    size_t side_block; /* block of positions that `end` is in */
    uint64_t side[2]; /* positions of the sequence's side block whose logical position is in that block, and the next */
} AttentionRow;

/* Row-heads of consecutive rows of one sequence and one KV head. */
typedef struct AttentionPiece {
    const BatchSequence *sequence;
    KvHead kv;
    const AttentionRow *rows;
    size_t heads, n; /* query heads of a row; row-heads */
} AttentionPiece;

/* The rows of one sequence, cut into runs that are taken together and share the reading of keys and values. */
typedef struct AttentionPart {
    const BatchSequence *sequence;
    BatchRange rows;
    size_t run, n_runs;
    size_t first; /* loop index of its first piece: pieces are runs times KV heads */
} AttentionPart;

typedef struct AttentionLoop {
    CpuBackend *self;
    const AttentionCall *call;
    AttentionPart parts[BATCH_SEQUENCES_MAX];
    size_t n_parts, n; /* number of parts; number of pieces of all parts */
} AttentionLoop;

/* Memory of row-heads from their queries to their outputs. */
typedef struct AttentionState {
    AttentionQueries queries;
    AttentionTotals totals;
} AttentionState;

/* Memory of a thread for one group of row-heads in one block of positions. */
typedef struct AttentionRoom {
    AttentionSums sums;
    AttentionMask *masks;
    void *scratch;
} AttentionRoom;

/* --- memory ------------------------------------------------------------------------------------------------------- */

static void *carve(uint8_t *base, size_t *at_bytesp, size_t len_bytes) {
    const size_t at_bytes = *at_bytesp;

    *at_bytesp = (at_bytes + len_bytes + 63) / 64 * 64;
    return base ? base + at_bytes : NULL;
}

static AttentionState carve_state(uint8_t *base, size_t *at_bytesp, size_t n, size_t head_size) {
    AttentionState state = { .queries = { .head_size = head_size } };

    state.queries.levels = carve(base, at_bytesp, n * attention_levels_bytes(head_size));
    state.queries.factors = carve(base, at_bytesp, n * sizeof(float));
    state.queries.starts = carve(base, at_bytesp, n * sizeof(int32_t));
    state.totals.units = carve(base, at_bytesp, n * sizeof(float));
    state.totals.normalizers = carve(base, at_bytesp, n * sizeof(float));
    state.totals.outputs = carve(base, at_bytesp, n * head_size * sizeof(float));
    return state;
}

static AttentionSums carve_sums(uint8_t *base, size_t *at_bytesp, size_t n, size_t head_size) {
    return (AttentionSums){
        .score_units = carve(base, at_bytesp, n * sizeof(float)),
        .value_units = carve(base, at_bytesp, n * sizeof(float)),
        .normalizers = carve(base, at_bytesp, n * sizeof(int32_t)),
        .outputs = carve(base, at_bytesp, n * head_size * sizeof(int32_t)),
    };
}

static AttentionRoom carve_room(uint8_t *base, size_t *at_bytesp, size_t group, size_t head_size) {
    return (AttentionRoom){
        .sums = carve_sums(base, at_bytesp, group, head_size),
        .masks = carve(base, at_bytesp, group * sizeof(AttentionMask)),
        .scratch = carve(base, at_bytesp, attention_scratch_bytes(group)),
    };
}

/* Returns the maximum of row-heads of a piece: at least one row. */
static size_t piece_row_heads(size_t n_group) {
    return MAX(ATTENTION_ROW_HEADS, n_group);
}

/* Returns the bytes of a thread. */
static size_t thread_bytes(const CpuBackend *self, size_t n_group, size_t head_size) {
    size_t at_bytes = 0;

    carve_room(NULL, &at_bytes, self->attention->group, head_size);
    carve_state(NULL, &at_bytes, piece_row_heads(n_group), head_size);
    return at_bytes;
}

/* Returns where the state and sums of split positions begin, behind all threads'. */
static size_t split_offset(const CpuBackend *self, size_t n_group, size_t head_size) {
    return worker_pool_n_threads(self->backend.pool) * thread_bytes(self, n_group, head_size);
}

size_t cpu_attention_bytes(const CpuBackend *self, size_t n_group, size_t head_size) {
    size_t at_bytes = split_offset(self, n_group, head_size);

    carve_state(NULL, &at_bytes, SPLIT_ROW_HEADS, head_size);
    for (size_t i = 0; i < SPLIT_BLOCKS; i++)
        carve_sums(NULL, &at_bytes, SPLIT_ROW_HEADS, head_size);
    return at_bytes;
}

/* --- rows and positions ------------------------------------------------------------------------------------------- */

static KvHead kv_head(const KvLayer *layer, void *const *blocks, size_t index) {
    const size_t len_bytes = KV_BLOCK * kv_row_bytes(layer->head_size);

    return (KvHead){ .blocks = blocks,
                     .k_bytes = layer->k_offset_bytes + index * len_bytes,
                     .v_bytes = layer->v_offset_bytes + index * len_bytes,
                     .head_size = layer->head_size };
}

/* Describes a row of the batch. The rows that it follows are in the cache up to the first one with a slot. */
static AttentionRow row_of(const AttentionCall *call, size_t index, size_t kv_head_index) {
    const BatchRow *rows = call->batch->rows;
    const size_t n_group = call->n_heads / call->kv.n_kv_heads, end = rows[index].position + (size_t)1;
    AttentionRow row = {
        .q = call->q + ((index - call->rows.first) * call->n_heads + kv_head_index * n_group) * call->kv.head_size,
        .begin = call->window && end > call->window ? end - call->window : 0,
        .end = end - batch_side_rows(call->batch, index),
    };

    row.side_block = row.end / ATTENTION_BLOCK;
    for (; rows[index].slot != BATCH_IN_PLACE; index = rows[index].parent)
        if (rows[index].position >= row.begin)
            row.side[rows[index].position / ATTENTION_BLOCK - row.side_block] |= UINT64_C(1) << rows[index].slot;
    return row;
}

/* Returns the slots that the row reads in a block of positions. */
static uint64_t side_mask(const AttentionRow *row, size_t block) {
    return block - row->side_block < 2 ? row->side[block - row->side_block] : 0;
}

/* Returns the positions among 64 from `first` on that the row reads in the cache, as bits. */
static uint64_t cache_mask(const AttentionRow *row, size_t first) {
    const size_t from = MAX(row->begin, first), end = MIN(row->end, first + KV_BLOCK);

    return from < end ? UINT64_MAX << (from - first) & UINT64_MAX >> (first + KV_BLOCK - end) : 0;
}

/* Positions that row-heads read in one block. */
typedef struct BlockRange {
    size_t from, to;       /* in the cache: of any row */
    bool has_side, is_all; /* a row reads the side block; every row reads all of [from, to), and nothing else */
} BlockRange;

static BlockRange block_range(const AttentionPiece *piece, size_t first_row, size_t end_row, size_t block) {
    const size_t begin = block * ATTENTION_BLOCK, end = begin + ATTENTION_BLOCK;
    BlockRange range = { .from = end, .to = begin };
    size_t common_from = begin, common_to = end;

    for (const AttentionRow *row = &piece->rows[first_row]; row < &piece->rows[end_row]; row++) {
        const size_t from = CLAMP(row->begin, begin, end), to = CLAMP(row->end, begin, end);

        range.has_side |= side_mask(row, block) != 0;
        common_from = MAX(common_from, from);
        common_to = MIN(common_to, to);
        if (from < to) {
            range.from = MIN(range.from, from);
            range.to = MAX(range.to, to);
        }
    }
    range.is_all = !range.has_side && common_from == range.from && common_to == range.to &&
                   range.from % KV_BLOCK == 0 && range.to % KV_BLOCK == 0;
    return range;
}

/* Names the cache blocks of a block of positions as those that the thread reads next. */
static void set_next(AttentionParts *parts, const AttentionPiece *piece, size_t block) {
    const size_t end = MIN(piece->rows[piece->n / piece->heads - 1].end, (block + 1) * ATTENTION_BLOCK);

    for (size_t position = block * ATTENTION_BLOCK; position < end; position += KV_BLOCK)
        parts->next[parts->n_next++] = kv_block_at(&piece->kv, piece->kv.blocks[position / KV_BLOCK]);
}

/* Sums one block of positions for row-heads [first, first + n) of a piece. Returns false if they read none of it.
 * goes_on: the thread takes the next block of the piece behind this one. */
static bool sum_block(const AttentionOps *ops, const AttentionPiece *piece, const AttentionQueries *queries,
                      size_t first_query, size_t first, size_t n, size_t block, bool goes_on, const AttentionRoom *room,
                      const AttentionSums *sums) {
    const size_t first_row = first / piece->heads, end_row = (first + n - 1) / piece->heads + 1;
    const BlockRange range = block_range(piece, first_row, end_row, block);
    AttentionParts parts = { 0 };

    for (size_t at = range.from / KV_BLOCK; at * KV_BLOCK < range.to; at++)
        parts.at[parts.n++] = kv_block_at(&piece->kv, piece->kv.blocks[at]);
    parts.n_last = (range.to + 15) / 16 * 16 % KV_BLOCK; /* 0: all of them */
    if (range.has_side) {
        parts.n_last = 0;
        parts.at[parts.n++] = kv_block_at(&piece->kv, piece->sequence->side);
    }
    if (!parts.n)
        return false;
    if (goes_on)
        set_next(&parts, piece, block + 1);
    for (size_t i = 0; !range.is_all && i < n; i++) {
        const AttentionRow *row = &piece->rows[(first + i) / piece->heads];

        for (size_t part = 0, at = range.from / KV_BLOCK * KV_BLOCK; part < parts.n; part++, at += KV_BLOCK)
            room->masks[i][part] = at < range.to ? cache_mask(row, at) : side_mask(row, block);
    }
    ops->block(queries, first_query + first, n, &parts, range.is_all ? NULL : (const AttentionMask *)room->masks,
               room->scratch, sums);
    return true;
}

/* Returns the sums or totals from row-head `first` on. */
static AttentionSums sums_from(const AttentionSums *sums, size_t first, size_t head_size) {
    return (AttentionSums){ sums->score_units + first, sums->value_units + first, sums->normalizers + first,
                            sums->outputs + first * head_size };
}

static AttentionTotals totals_from(const AttentionTotals *totals, size_t first, size_t head_size) {
    return (AttentionTotals){ totals->units + first, totals->normalizers + first, totals->outputs + first * head_size };
}

/* Makes the piece's queries, and its totals from `first` on. */
static void begin_piece(const AttentionLoop *loop, const AttentionPiece *piece, size_t kv_head_index, size_t first,
                        AttentionState *state) {
    const AttentionCall *call = loop->call;
    const size_t head_size = call->kv.head_size;
    const bool is_capped = call->soft_cap > 0;
    const float scale = is_capped ? 2 * call->scale / call->soft_cap : call->scale, log2_e = 0x1.715476p0f,
                *balance = call->balance ? call->balance + kv_head_index * head_size : NULL;
    const AttentionTotals totals = totals_from(&state->totals, first, head_size);

    state->queries.cap = call->soft_cap * log2_e;
    for (size_t i = 0; i < piece->n; i += piece->heads)
        loop->self->attention->queries(&state->queries, first + i, piece->rows[i / piece->heads].q, piece->heads,
                                       balance, scale * log2_e);
    for (size_t i = 0; i < piece->n; i++) {
        totals.units[i] = -INFINITY;
        totals.normalizers[i] = 0;
    }
    memset(totals.outputs, 0, piece->n * head_size * sizeof(*totals.outputs));
}

static void end_piece(const AttentionOps *ops, const AttentionPiece *piece, size_t first, const AttentionState *state) {
    const size_t head_size = piece->kv.head_size;

    for (size_t i = 0; i < piece->n; i += piece->heads) {
        const AttentionTotals totals = totals_from(&state->totals, first + i, head_size);

        ops->end(&totals, piece->heads, head_size, piece->rows[i / piece->heads].q);
    }
}

/* Sets the blocks of positions that any row of the piece reads. */
static void piece_blocks(const AttentionPiece *piece, size_t *firstp, size_t *endp) {
    size_t begin = SIZE_MAX, end = 0;

    for (const AttentionRow *row = piece->rows; row < piece->rows + piece->n / piece->heads; row++) {
        const size_t side_end = row->side[1]   ? (row->side_block + 2) * ATTENTION_BLOCK
                                : row->side[0] ? (row->side_block + 1) * ATTENTION_BLOCK
                                               : 0;

        begin = MIN(begin, row->begin);
        end = MAX(end, MAX(row->end, side_end));
    }
    *firstp = begin / ATTENTION_BLOCK;
    *endp = (end + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
}

/* Describes a run of rows times a KV head; rows has room for them. */
static AttentionPiece piece_of(const AttentionCall *call, const BatchSequence *sequence, BatchRange run,
                               size_t kv_head_index, AttentionRow *rows) {
    const size_t heads = call->n_heads / call->kv.n_kv_heads;

    for (size_t i = 0; i < run.n; i++)
        rows[i] = row_of(call, run.first + i, kv_head_index);
    return (AttentionPiece){ .sequence = sequence,
                             .kv = kv_head(&call->kv, sequence->blocks, kv_head_index),
                             .rows = rows,
                             .heads = heads,
                             .n = run.n * heads };
}

/* --- whole pieces ------------------------------------------------------------------------------------------------- */

/* Attends for one piece of a part. Late rows read most, so their runs come first, and short ones fill the end. */
static void attention_piece(const AttentionLoop *loop, const AttentionPart *part, size_t index, unsigned int worker) {
    const AttentionOps *ops = loop->self->attention;
    const AttentionCall *call = loop->call;
    const size_t n_kv_heads = call->kv.n_kv_heads, head_size = call->kv.head_size, kv_head_index = index % n_kv_heads,
                 first = (part->n_runs - 1 - index / n_kv_heads) * part->run;
    const BatchRange run = { part->rows.first + first, MIN(part->rows.n - first, part->run) };
    uint8_t *memory = (uint8_t *)loop->self->attending.data +
                      worker * thread_bytes(loop->self, call->n_heads / n_kv_heads, head_size);
    AttentionRow rows[ATTENTION_ROW_HEADS];
    const AttentionPiece piece = piece_of(call, part->sequence, run, kv_head_index, rows);
    const size_t n_groups = (piece.n + ops->group - 1) / ops->group, group = (piece.n + n_groups - 1) / n_groups;
    size_t at_bytes = 0, block, end;
    const AttentionRoom room = carve_room(memory, &at_bytes, ops->group, head_size);
    AttentionState state = carve_state(memory, &at_bytes, piece.n, head_size);

    begin_piece(loop, &piece, kv_head_index, 0, &state);
    for (piece_blocks(&piece, &block, &end); block < end; block++)
        for (size_t at = 0; at < piece.n; at += group) {
            const size_t n = MIN(piece.n - at, group);
            const AttentionTotals totals = totals_from(&state.totals, at, head_size);

            if (sum_block(ops, &piece, &state.queries, 0, at, n, block, !at && block + 1 < end, &room, &room.sums))
                ops->add(&room.sums, n, head_size, &totals);
        }
    end_piece(ops, &piece, 0, &state);
}

/* Attends for loop indices of all sequences' pieces, in order. */
static void attention_pieces(void *arg, size_t begin, size_t end, unsigned int worker) {
    const AttentionLoop *loop = arg;
    size_t part = 0;

    for (size_t index = begin; index < end; index++) {
        while (part + 1 < loop->n_parts && loop->parts[part + 1].first <= index)
            part++;
        attention_piece(loop, &loop->parts[part], index - loop->parts[part].first, worker);
    }
}

/* --- split positions ---------------------------------------------------------------------------------------------- */

/* Few row-heads behind many positions. Each thread sums whole blocks, whose exact sums are then added in order. */
typedef struct AttentionSplit {
    const AttentionLoop *loop;
    AttentionRow rows[SPLIT_ROW_HEADS];
    AttentionPiece pieces[SPLIT_ROW_HEADS];
    size_t firsts[SPLIT_ROW_HEADS]; /* a piece's first row-head */
    size_t n_pieces, first_block, n_blocks;
    AttentionState state;
    AttentionSums sums[SPLIT_BLOCKS]; /* [SPLIT_ROW_HEADS] each */
} AttentionSplit;

/* Sums blocks of pieces for loop indices piece * n_blocks + block. */
static void split_sum(void *arg, size_t begin, size_t end, unsigned int worker) {
    const AttentionSplit *split = arg;
    const AttentionLoop *loop = split->loop;
    const AttentionOps *ops = loop->self->attention;
    const AttentionCall *call = loop->call;
    const size_t head_size = call->kv.head_size;
    size_t at_bytes = 0;
    const AttentionRoom room =
        carve_room((uint8_t *)loop->self->attending.data +
                       worker * thread_bytes(loop->self, call->n_heads / call->kv.n_kv_heads, head_size),
                   &at_bytes, ops->group, head_size);

    for (size_t index = begin; index < end; index++) {
        const size_t piece_index = index / split->n_blocks, block = index % split->n_blocks,
                     first = split->firsts[piece_index];
        const bool goes_on = index + 1 < end && block + 1 < split->n_blocks;
        const AttentionPiece *piece = &split->pieces[piece_index];

        for (size_t at = 0; at < piece->n; at += ops->group) {
            const size_t n = MIN(piece->n - at, ops->group);
            const AttentionSums sums = sums_from(&split->sums[block], first + at, head_size);

            if (!sum_block(ops, piece, &split->state.queries, first, at, n, split->first_block + block, goes_on && !at,
                           &room, &sums))
                for (size_t i = 0; i < n; i++)
                    sums.score_units[i] = -INFINITY;
        }
    }
}

/* Adds the blocks' sums of each row-head. */
static void split_add(void *arg, size_t begin, size_t end, unsigned int worker) {
    const AttentionSplit *split = arg;
    const size_t head_size = split->loop->call->kv.head_size;
    const AttentionTotals totals = totals_from(&split->state.totals, begin, head_size);

    for (size_t block = 0; block < split->n_blocks; block++) {
        const AttentionSums sums = sums_from(&split->sums[block], begin, head_size);

        split->loop->self->attention->add(&sums, end - begin, head_size, &totals);
    }
}

/* Makes the pieces: all rows of a sequence, times KV heads. Returns the end of the blocks that they read. */
static size_t split_begin(AttentionSplit *split) {
    const AttentionLoop *loop = split->loop;
    const AttentionCall *call = loop->call;
    const size_t head_size = call->kv.head_size;
    uint8_t *memory = (uint8_t *)loop->self->attending.data;
    size_t at_bytes = split_offset(loop->self, call->n_heads / call->kv.n_kv_heads, head_size), end = 0, n_rows = 0,
           first = 0;

    split->state = carve_state(memory, &at_bytes, SPLIT_ROW_HEADS, head_size);
    for (size_t i = 0; i < SPLIT_BLOCKS; i++)
        split->sums[i] = carve_sums(memory, &at_bytes, SPLIT_ROW_HEADS, head_size);
    split->first_block = SIZE_MAX;
    for (size_t i = 0; i < loop->n_parts; i++)
        for (size_t head = 0; head < call->kv.n_kv_heads; head++) {
            AttentionPiece *piece = &split->pieces[split->n_pieces];
            size_t piece_first, piece_end;

            *piece = piece_of(call, loop->parts[i].sequence, loop->parts[i].rows, head, &split->rows[n_rows]);
            n_rows += loop->parts[i].rows.n;
            begin_piece(loop, piece, head, first, &split->state);
            split->firsts[split->n_pieces++] = first;
            first += piece->n;
            piece_blocks(piece, &piece_first, &piece_end);
            split->first_block = MIN(split->first_block, piece_first);
            end = MAX(end, piece_end);
        }
    return end;
}

static void attention_split(const AttentionLoop *loop) {
    WorkerPool *pool = loop->self->backend.pool;
    const size_t n_row_heads = loop->call->rows.n * loop->call->n_heads, n_threads = worker_pool_n_threads(pool);
    AttentionSplit split = { .loop = loop };
    const size_t end = split_begin(&split);

    for (; split.first_block < end; split.first_block += split.n_blocks) {
        split.n_blocks = MIN(end - split.first_block, SPLIT_BLOCKS);
        worker_pool_run(pool, split_sum, &split, split.n_blocks * split.n_pieces,
                        MAX(split.n_blocks * split.n_pieces / (ATTENTION_ITEMS_A_THREAD * n_threads), 1));
        worker_pool_run(pool, split_add, &split, n_row_heads, 1);
    }
    for (size_t i = 0; i < split.n_pieces; i++)
        end_piece(loop->self->attention, &split.pieces[i], split.firsts[i], &split.state);
}

/* --- the step's loop ---------------------------------------------------------------------------------------------- */

/* Returns the pieces of all parts, with runs of `run` rows. */
static size_t n_pieces_of(const AttentionLoop *loop, size_t run) {
    size_t n = 0;

    for (size_t i = 0; i < loop->n_parts; i++)
        n += (loop->parts[i].rows.n + run - 1) / run * loop->call->kv.n_kv_heads;
    return n;
}

/* Returns how many rows are taken together: as many as a worker has room for, but few enough to occupy every worker.
 * Each run reads keys and values once. Few rows are therefore cut into the number of pieces after which all are done
 * first, which may be less than the number that ends together. */
static size_t attention_run(const AttentionLoop *loop, size_t n_threads) {
    const AttentionCall *call = loop->call;
    const size_t n_group = call->n_heads / call->kv.n_kv_heads,
                 room = n_group < ATTENTION_ROW_HEADS ? ATTENTION_ROW_HEADS / n_group : 1,
                 share = call->rows.n * call->kv.n_kv_heads / (ATTENTION_ITEMS_A_THREAD * n_threads);
    size_t longest = 1, best = room, least = SIZE_MAX;

    if (n_threads == 1)
        return room;
    for (size_t i = 0; i < loop->n_parts; i++)
        longest = MAX(loop->parts[i].rows.n, longest);
    for (size_t n = (longest + room - 1) / room, run;; n++) {
        size_t rounds, time;

        run = (longest + n - 1) / n;
        rounds = (n_pieces_of(loop, run) + n_threads - 1) / n_threads;
        time = rounds * (run * n_group + ATTENTION_RUN_ROW_HEADS);
        if (time < least) {
            least = time;
            best = run;
        }
        if (run == 1 || run <= share)
            return best;
    }
}

/* Returns the positions that the rows read, at most. */
static size_t attention_positions(const AttentionCall *call, BatchRange rows) {
    size_t n = 0;

    for (size_t i = 0; i < rows.n; i++)
        n = MAX(n, call->batch->rows[rows.first + i].position + (size_t)1);
    return call->window ? MIN(n, call->window) : n;
}

void cpu_kv_store(Backend *backend, const AttentionCall *call) {
    const AttentionOps *ops = ((const CpuBackend *)backend)->attention;
    const size_t head_size = call->kv.head_size, width = call->kv.n_kv_heads * head_size;

    for (size_t i = 0; i < call->batch->n_sequences; i++) {
        const BatchSequence *sequence = &call->batch->sequences[i];
        const BatchRange part = batch_range_common(sequence->rows, call->rows);
        const BatchRow *rows = &call->batch->rows[part.first];
        size_t n = 0;

        while (n < part.n && rows[n].slot == BATCH_IN_PLACE)
            n++;
        for (size_t head = 0; part.n && head < call->kv.n_kv_heads; head++) {
            const size_t at = (part.first - call->rows.first) * width + head * head_size;
            const float *balance = call->balance ? call->balance + head * head_size : NULL;
            const KvHead kv = kv_head(&call->kv, sequence->blocks, head),
                         side = kv_head(&call->kv, &sequence->side, head);

            if (n)
                ops->store(&kv, rows->position, call->k + at, call->v + at, balance, width, n);
            for (size_t row = n; row < part.n; row++)
                ops->store(&side, (size_t)rows[row].slot, call->k + at + row * width, call->v + at + row * width,
                           balance, width, 1);
        }
    }
}

void cpu_kv_move(Backend *backend, const KvLayer *layer, const KvMove *moves, size_t n_moves) {
    for (size_t i = 0; i < n_moves; i++)
        for (size_t head = 0; head < layer->n_kv_heads; head++) {
            const KvHead kv = kv_head(layer, NULL, head);
            const KvBlock to = kv_block_at(&kv, moves[i].to), from = kv_block_at(&kv, moves[i].from);

            kv_block_move(&to, moves[i].to_position, &from, moves[i].from_position, layer->head_size);
        }
}

/* Returns whether the positions of a step are split over threads: it has too few pieces for them otherwise. */
static bool is_split(const AttentionLoop *loop, size_t n_positions, size_t n_threads) {
    return n_threads > 1 && loop->call->rows.n * loop->call->n_heads <= SPLIT_ROW_HEADS &&
           n_positions > ATTENTION_BLOCK &&
           loop->n_parts * loop->call->kv.n_kv_heads < ATTENTION_ITEMS_A_THREAD * n_threads;
}

/* A single loop for all sequences wakes the workers once, even for many sequences of one row. */
void cpu_attention(Backend *backend, const AttentionCall *call) {
    CpuBackend *self = (CpuBackend *)backend;
    AttentionLoop loop = { .self = self, .call = call };
    size_t n_threads = worker_pool_n_threads(backend->pool), work = 0, n_positions = 0, run;

    assert(call->batch->n_sequences <= BATCH_SEQUENCES_MAX);
    assert(self->attending.len_bytes >=
           cpu_attention_bytes(self, call->n_heads / call->kv.n_kv_heads, call->kv.head_size));
    for (size_t i = 0; i < call->batch->n_sequences; i++) {
        const BatchSequence *sequence = &call->batch->sequences[i];
        const BatchRange rows = batch_range_common(sequence->rows, call->rows);
        const size_t positions = attention_positions(call, rows);

        if (!rows.n)
            continue;
        loop.parts[loop.n_parts++] = (AttentionPart){ .sequence = sequence, .rows = rows };
        n_positions = MAX(n_positions, positions);
        work += 2 * rows.n * call->n_heads * call->kv.head_size * positions;
    }
    if (!loop.n_parts)
        return;
    if (work < ATTENTION_INLINE_PRODUCTS)
        n_threads = 1;
    if (is_split(&loop, n_positions, n_threads)) {
        attention_split(&loop);
        return;
    }
    run = attention_run(&loop, n_threads);
    for (size_t i = 0; i < loop.n_parts; i++) {
        AttentionPart *part = &loop.parts[i];

        part->run = run;
        part->n_runs = (part->rows.n + run - 1) / run;
        part->first = loop.n;
        loop.n += part->n_runs * call->kv.n_kv_heads;
    }
    if (n_threads == 1)
        attention_pieces(&loop, 0, loop.n, 0);
    else
        worker_pool_run(backend->pool, attention_pieces, &loop, loop.n, 1);
}
