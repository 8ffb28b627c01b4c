// SPDX-License-Identifier: Apache-2.0
/* Attention of a batch's rows: decides which rows and heads are taken together, and which thread takes them. Results
 * are the row operator's (row_ops_attention.h) and depend on neither. */
#include <assert.h>

#include "backends/cpu/cpu_private.h"
#include "backends/cpu/rows/attention_tail.h"
#include "base/min_max.h"

/* Pieces of work per thread, so that uneven ones end together; more pieces would be too small. */
#define ATTENTION_ITEMS_A_THREAD 4
/* Fixed cost of a run of rows, in row-heads: measured as 7 to 21 (bench-kernels attention, 3 to 31 rows). */
#define ATTENTION_RUN_ROW_HEADS 16
/* Number of products below which attention is not worth waking a worker. */
#define ATTENTION_INLINE_PRODUCTS 65536

/* The pieces of one sequence: runs of its rows, times KV heads, times splits. */
typedef struct AttentionPart {
    const BatchSequence *sequence;
    BatchRange rows;
    size_t run, n_runs; /* rows taken together, which share the reading of keys and values */
    size_t first;       /* loop index of its first piece */
} AttentionPart;

typedef struct AttentionLoop {
    CpuBackend *self;
    const AttentionCall *call;
    AttentionPart parts[BATCH_SEQUENCES_MAX];
    size_t n_parts, n; /* number of parts; number of pieces of all parts */
    size_t n_splits;   /* splits of the query heads of a KV head; each split reads its keys and values again */
} AttentionLoop;

/* Returns the maximum of row-heads in one call of the row operator: at least one row. */
static size_t attention_row_heads(size_t n_group) {
    return MAX(ATTENTION_ROW_HEADS, n_group);
}

/* Returns the floats of the row operator, which the tail's floats follow. */
static size_t operator_floats(size_t n_group, size_t head_size) {
    return (attention_scratch_floats(attention_row_heads(n_group), head_size) + 15) / 16 * 16;
}

/* Returns the floats of a thread, for query heads in groups of n_group. */
size_t cpu_attention_scratch_floats(size_t n_group, size_t head_size) {
    return operator_floats(n_group, head_size) + attention_tail_floats(head_size);
}

static KvHead kv_head(const KvLayer *layer, void *const *blocks, size_t index) {
    const size_t block = KV_BLOCK * layer->head_size;

    return (KvHead){
        .blocks = blocks,
        .k = layer->k_offset_bytes / sizeof(uint16_t) + index * block,
        .v = layer->v_offset_bytes / sizeof(uint16_t) + index * block,
        .head_size = layer->head_size,
    };
}

/* Sets the positions that a row of the batch reads. */
static void attention_range(const AttentionCall *call, size_t row, size_t *beginp, size_t *endp) {
    *endp = call->batch->rows[row].position + (size_t)1;
    *beginp = call->window && *endp > call->window ? *endp - call->window : 0;
}

/* Returns how many rows from `row` on, up to n, read the same blocks: rows in place, or one path of rows with slots. */
static size_t same_blocks(const Batch *batch, size_t row, size_t n) {
    const BatchRow *rows = &batch->rows[row];
    size_t same = 1;

    while (same < n &&
           (rows[0].slot == BATCH_IN_PLACE ? rows[same].slot == BATCH_IN_PLACE
                                           : rows[same].slot != BATCH_IN_PLACE && rows[same].parent == row + same - 1))
        same++;
    return same;
}

/* Returns the end of the cache blocks that all of the rows have in common. */
static size_t shared_blocks(const Batch *batch, size_t row, size_t n) {
    size_t end = SIZE_MAX / KV_BLOCK;

    for (size_t at = 0, same; at < n; at += same) {
        same = same_blocks(batch, row + at, n - at);
        if (batch->rows[row + at].slot != BATCH_IN_PLACE) {
            const size_t first = attention_tail_first(batch, row + at);

            end = MIN(first, end);
        }
    }
    return end;
}

/* Attends for rows some of which have slots. The cache blocks common to all are read together. Rows in place come next,
 * then one path after another. A row's blocks come in rising order. */
static void attend_beside(const RowOps *ops, const Batch *batch, const Attending *attending, size_t row, size_t n,
                          const KvHead *kv, AttentionTail *tail) {
    const size_t shared = shared_blocks(batch, row, n), all = SIZE_MAX / KV_BLOCK;

    ops->attention_blocks(attending, 0, n, kv, 0, shared);
    for (size_t at = 0, same; at < n; at += same) {
        same = same_blocks(batch, row + at, n - at);
        if (batch->rows[row + at].slot == BATCH_IN_PLACE) {
            ops->attention_blocks(attending, at, same, kv, shared, all);
            continue;
        }
        attention_tail_set(tail, row + at + same - 1);
        ops->attention_blocks(attending, at, same, kv, shared, tail->head.first);
        ops->attention_blocks(attending, at, same, &tail->head, tail->head.first, all);
    }
}

/* Attends for one piece of a part: run of rows * n_kv_heads + KV head. Late rows read most, so their runs come first,
 * and short ones fill the end. */
static void attention_piece(CpuBackend *self, const AttentionCall *call, const AttentionPart *part, size_t piece,
                            size_t split, size_t n_splits, float *scratch) {
    const RowOps *ops = self->row_ops;
    const BatchSequence *sequence = part->sequence;
    const size_t hd = call->kv.head_size, n_kv_heads = call->kv.n_kv_heads, n_group = call->n_heads / n_kv_heads,
                 head = piece % n_kv_heads, first = (part->n_runs - 1 - piece / n_kv_heads) * part->run,
                 n = MIN(part->rows.n - first, part->run), from = split * n_group / n_splits,
                 to = (split + 1) * n_group / n_splits;
    const KvHead kv = kv_head(&call->kv, sequence->blocks, head), side = kv_head(&call->kv, &sequence->side, head);
    const bool is_capped = call->soft_cap > 0;
    AttentionRow rows[ATTENTION_ROW_HEADS];
    AttentionTail tail;
    Attending attending;

    for (size_t i = 0; i < n; i++) {
        const size_t row = part->rows.first + first + i;

        rows[i].q = rows[i].out = call->q + ((row - call->rows.first) * call->n_heads + head * n_group + from) * hd;
        attention_range(call, row, &rows[i].begin, &rows[i].end);
    }
    if (!sequence->side && !is_capped) {
        ops->attention(&kv, rows, n, to - from, call->scale, scratch);
        return;
    }
    attending = ops->attention_begin(rows, n, to - from, hd, is_capped ? 2 * call->scale / call->soft_cap : call->scale,
                                     scratch);
    attending.cap = call->soft_cap * 0x1.715476p0f;
    if (sequence->side) {
        attention_tail_init(&tail, call->batch, &kv, &side, scratch + operator_floats(n_group, hd));
        attend_beside(ops, call->batch, &attending, part->rows.first + first, n, &kv, &tail);
    } else {
        ops->attention_blocks(&attending, 0, n, &kv, 0, SIZE_MAX / KV_BLOCK);
    }
    ops->attention_end(&attending);
}

/* Attends for loop indices of all sequences' pieces, in order, times n_splits. */
static void attention_pieces(void *arg, size_t begin, size_t end, unsigned int worker) {
    const AttentionLoop *loop = arg;
    float *scratch = (float *)loop->self->attending.data + worker * loop->self->attending_floats;
    size_t part = 0;

    for (size_t index = begin; index < end; index++) {
        const size_t piece = index / loop->n_splits;

        while (part + 1 < loop->n_parts && loop->parts[part + 1].first <= piece)
            part++;
        attention_piece(loop->self, loop->call, &loop->parts[part], piece - loop->parts[part].first,
                        index % loop->n_splits, loop->n_splits, scratch);
    }
}

/* Returns the pieces of all parts, with runs of `run` rows. */
static size_t n_pieces_of(const AttentionLoop *loop, size_t run) {
    size_t n = 0;

    for (size_t i = 0; i < loop->n_parts; i++)
        n += (loop->parts[i].rows.n + run - 1) / run * loop->call->kv.n_kv_heads;
    return n;
}

/* Returns how many rows are taken together: as many as a worker has room for, but few enough to occupy every worker.
 * Each run reads keys and values once and converts them to float32. Few rows are therefore cut into the number of
 * pieces after which all are done first, which may be less than the number that ends together. */
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

/* Returns the number of splits of a KV head's query heads. Splits keep threads busy when one row of a model has fewer
 * KV heads than there are threads. There are never more pieces than threads, because every piece reads the keys and
 * values of its head. */
static size_t attention_splits(const AttentionCall *call, size_t n_pieces, size_t n_threads) {
    const size_t n_group = call->n_heads / call->kv.n_kv_heads, n = n_threads / n_pieces;

    return CLAMP(n, 1, n_group);
}

/* Returns the products of queries with keys, and of weights with values. */
static size_t attention_work(const AttentionCall *call, BatchRange rows) {
    size_t begin, end, last_begin, last_end;

    attention_range(call, rows.first, &begin, &end);
    attention_range(call, rows.first + rows.n - 1, &last_begin, &last_end);
    return rows.n * call->n_heads * call->kv.head_size * (end - begin + (last_end - last_begin));
}

/* Stores one head's keys and values: the rows in place together, then the others one by one. */
static void store_head(const RowOps *ops, const AttentionCall *call, const BatchSequence *sequence, BatchRange part,
                       size_t head) {
    const size_t width = call->kv.n_kv_heads * call->kv.head_size,
                 at = (part.first - call->rows.first) * width + head * call->kv.head_size;
    const BatchRow *rows = &call->batch->rows[part.first];
    const KvHead kv = kv_head(&call->kv, sequence->blocks, head), side = kv_head(&call->kv, &sequence->side, head);
    size_t n = 0;

    while (n < part.n && rows[n].slot == BATCH_IN_PLACE)
        n++;
    if (n)
        ops->kv_store(&kv, rows->position, call->k + at, call->v + at, width, n);
    for (; n < part.n; n++)
        ops->kv_store(&side, (size_t)rows[n].slot, call->k + at + n * width, call->v + at + n * width, width, 1);
}

void cpu_kv_store(Backend *backend, const AttentionCall *call) {
    const RowOps *row_ops = ((const CpuBackend *)backend)->row_ops;

    for (size_t i = 0; i < call->batch->n_sequences; i++) {
        const BatchSequence *sequence = &call->batch->sequences[i];
        const BatchRange part = batch_range_common(sequence->rows, call->rows);

        for (size_t head = 0; part.n && head < call->kv.n_kv_heads; head++)
            store_head(row_ops, call, sequence, part, head);
    }
}

void cpu_kv_move(Backend *backend, const KvLayer *layer, const KvMove *moves, size_t n_moves) {
    for (size_t i = 0; i < n_moves; i++)
        for (size_t head = 0; head < layer->n_kv_heads; head++) {
            const KvHead to = kv_head(layer, &moves[i].to, head), from = kv_head(layer, &moves[i].from, head);

            kv_head_move(&to, moves[i].to_position, &from, moves[i].from_position);
        }
}

/* A single loop for all sequences wakes the workers once, even for many sequences of one row. */
void cpu_attention(Backend *backend, const AttentionCall *call) {
    CpuBackend *self = (CpuBackend *)backend;
    AttentionLoop loop = { .self = self, .call = call };
    size_t n_threads = worker_pool_n_threads(backend->pool), work = 0, run;

    assert(call->batch->n_sequences <= BATCH_SEQUENCES_MAX);
    assert(self->attending_floats >=
           cpu_attention_scratch_floats(call->n_heads / call->kv.n_kv_heads, call->kv.head_size));
    for (size_t i = 0; i < call->batch->n_sequences; i++) {
        const BatchSequence *sequence = &call->batch->sequences[i];
        const BatchRange rows = batch_range_common(sequence->rows, call->rows);

        if (!rows.n)
            continue;
        loop.parts[loop.n_parts++] = (AttentionPart){ .sequence = sequence, .rows = rows };
        work += attention_work(call, rows);
    }
    if (work < ATTENTION_INLINE_PRODUCTS)
        n_threads = 1;
    run = attention_run(&loop, n_threads);
    for (size_t i = 0; i < loop.n_parts; i++) {
        AttentionPart *part = &loop.parts[i];

        part->run = run;
        part->n_runs = (part->rows.n + run - 1) / run;
        part->first = loop.n;
        loop.n += part->n_runs * call->kv.n_kv_heads;
    }
    if (!loop.n)
        return;
    loop.n_splits = attention_splits(call, loop.n, n_threads);
    loop.n *= loop.n_splits;
    if (n_threads == 1)
        attention_pieces(&loop, 0, loop.n, 0);
    else
        worker_pool_run(backend->pool, attention_pieces, &loop, loop.n, 1);
}
