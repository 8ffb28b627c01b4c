// SPDX-License-Identifier: Apache-2.0
/* Attention of the rows of a batch: which rows and heads are taken together, and which thread takes them. The bits are
 * the row operator's (row_ops_attention.h) and depend on neither. */
#include <assert.h>

#include "backends/cpu/cpu_private.h"

/* Rows x heads of a KV head that attention takes together: enough to make up for expanding a block of keys and values
 * to float32, and what it holds of them stays in the second-level cache. */
#define ATTENTION_ROW_HEADS 192
/* Pieces of work for each thread, so that uneven ones end together; more would make them too small. */
#define ATTENTION_ITEMS_A_THREAD 4
/* Products below which attention is not worth waking a worker for. */
#define ATTENTION_INLINE_PRODUCTS 65536

/* The pieces of one sequence: runs of its rows times KV heads times splits. */
typedef struct AttentionPart {
    BatchPart rows;
    size_t run, n_runs; /* rows taken together, so that they share the reading of keys and values */
    size_t first;       /* index of the loop where its pieces begin */
} AttentionPart;

typedef struct AttentionLoop {
    CpuBackend *self;
    const AttentionCall *call;
    AttentionPart parts[BATCH_SEQUENCES_MAX];
    size_t n_parts, n; /* of parts; of all their pieces */
    size_t n_splits;   /* of the query heads of a KV head; each reads its keys and values again */
} AttentionLoop;

/* Most row-heads of one call of the row operator: one row at least. */
static size_t attention_row_heads(size_t n_group) {
    return n_group < ATTENTION_ROW_HEADS ? ATTENTION_ROW_HEADS : n_group;
}

/* Of a thread, for query heads in groups of n_group. */
size_t cpu_attention_scratch_floats(size_t n_group, size_t head_size) {
    return attention_scratch_floats(attention_row_heads(n_group), head_size);
}

static KvHead kv_head(const AttentionCall *call, const BatchSequence *sequence, size_t index) {
    const size_t block = KV_BLOCK * call->head_size;

    return (KvHead){
        .blocks = sequence->blocks,
        .k = call->k_offset_bytes / sizeof(uint16_t) + index * block,
        .v = call->v_offset_bytes / sizeof(uint16_t) + index * block,
        .head_size = call->head_size,
    };
}

/* Positions that a row of the batch reads. */
static void attention_range(const AttentionCall *call, size_t row, size_t *beginp, size_t *endp) {
    *endp = call->batch->rows[row].position + (size_t)1;
    *beginp = call->window && *endp > call->window ? *endp - call->window : 0;
}

/* Piece of a part: run of rows * n_kv_heads + KV head. Late rows read most, so theirs come first, and the short ones
 * fill the end. */
static void attention_piece(CpuBackend *self, const AttentionCall *call, const AttentionPart *part, size_t piece,
                            size_t split, size_t n_splits, float *scratch) {
    const size_t hd = call->head_size, n_group = call->n_heads / call->n_kv_heads, head = piece % call->n_kv_heads,
                 first = (part->n_runs - 1 - piece / call->n_kv_heads) * part->run,
                 n = part->rows.n_rows - first < part->run ? part->rows.n_rows - first : part->run,
                 from = split * n_group / n_splits, to = (split + 1) * n_group / n_splits;
    const KvHead kv = kv_head(call, part->rows.sequence, head);
    AttentionRow rows[ATTENTION_ROW_HEADS];

    for (size_t i = 0; i < n; i++) {
        const size_t row = part->rows.first + first + i;

        rows[i].q = rows[i].out = call->q + ((row - call->first) * call->n_heads + head * n_group + from) * hd;
        attention_range(call, row, &rows[i].begin, &rows[i].end);
    }
    self->row_ops->attention(&kv, rows, n, to - from, call->scale, scratch);
}

/* Index of the loop: the pieces of all sequences, one after the other, times n_splits. */
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

/* Rows taken together: as many as a worker has room for, but not so many that a worker has nothing to do. */
static size_t attention_run(const AttentionCall *call, size_t n_threads) {
    const size_t n_group = call->n_heads / call->n_kv_heads,
                 room = n_group < ATTENTION_ROW_HEADS ? ATTENTION_ROW_HEADS / n_group : 1,
                 share = call->rows * call->n_kv_heads / (ATTENTION_ITEMS_A_THREAD * n_threads);
    const size_t run = share < room ? share : room;

    return n_threads == 1 ? room : run ? run : 1;
}

/* Parts of the query heads of a KV head, so that one row of a model with fewer KV heads than there are threads does not
 * leave threads idle; never more pieces than threads, for every piece reads the keys and values of its head. */
static size_t attention_splits(const AttentionCall *call, size_t n_pieces, size_t n_threads) {
    const size_t n_group = call->n_heads / call->n_kv_heads, n = n_threads / n_pieces;

    return n < 1 ? 1 : n < n_group ? n : n_group;
}

/* Products of queries and keys, and of weights and values. */
static size_t attention_work(const AttentionCall *call, const BatchPart *rows) {
    size_t begin, end, last_begin, last_end;

    attention_range(call, rows->first, &begin, &end);
    attention_range(call, rows->first + rows->n_rows - 1, &last_begin, &last_end);
    return rows->n_rows * call->n_heads * call->head_size * (end - begin + (last_end - last_begin));
}

void cpu_kv_store(Backend *backend, const AttentionCall *call) {
    const RowOps *row_ops = ((const CpuBackend *)backend)->row_ops;
    const size_t width = call->n_kv_heads * call->head_size;

    for (size_t i = 0; i < call->batch->n_sequences; i++) {
        const BatchPart part = batch_part(call->batch, i, call->first, call->rows);
        const size_t at = (part.first - call->first) * width;

        for (size_t head = 0; part.n_rows && head < call->n_kv_heads; head++) {
            const KvHead kv = kv_head(call, part.sequence, head);

            row_ops->kv_store(&kv, call->batch->rows[part.first].position, call->k + at + head * call->head_size,
                              call->v + at + head * call->head_size, width, part.n_rows);
        }
    }
}

/* All sequences in one loop: many rows that each belong to a sequence of their own wake the workers once. */
void cpu_attention(Backend *backend, const AttentionCall *call) {
    CpuBackend *self = (CpuBackend *)backend;
    AttentionLoop loop = { .self = self, .call = call };
    size_t n_threads = worker_pool_n_threads(backend->pool), work = 0, run;

    assert(call->batch->n_sequences <= BATCH_SEQUENCES_MAX);
    assert(self->attending_floats >= cpu_attention_scratch_floats(call->n_heads / call->n_kv_heads, call->head_size));
    for (size_t i = 0; i < call->batch->n_sequences; i++) {
        const BatchPart rows = batch_part(call->batch, i, call->first, call->rows);

        if (!rows.n_rows)
            continue;
        loop.parts[loop.n_parts++].rows = rows;
        work += attention_work(call, &rows);
    }
    if (work < ATTENTION_INLINE_PRODUCTS)
        n_threads = 1;
    run = attention_run(call, n_threads);
    for (size_t i = 0; i < loop.n_parts; i++) {
        AttentionPart *part = &loop.parts[i];

        part->run = run;
        part->n_runs = (part->rows.n_rows + run - 1) / run;
        part->first = loop.n;
        loop.n += part->n_runs * call->n_kv_heads;
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
