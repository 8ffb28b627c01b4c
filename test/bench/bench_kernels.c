// SPDX-License-Identifier: Apache-2.0
/* Measures kernels relative to the machine's limits, all on one thread and in one run:
 *   peak       products or float operations per second of a loop on registers only, by instruction set
 *   bandwidth  a long read of memory
 *   product    int8 kernels by rows, and gated ones with two matrices at once. Weights come from memory: they are
 *              larger than the last-level cache of most machines.
 *   packed     products on packed weights by width and rows, and the int8 product of the same instructions. Reads of
 *              the same bytes alternate with them, because memory is shared with others.
 *   attention  256 rows after 0, 768 and 7936 positions, fewer rows, and one row after 1024 and 8192: beside the floor
 *              of the integer products, and beside reading as many bytes. Keys and values come from memory.
 *
 * build/bin/bench-kernels [product] [packed] [attention] [rows] */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/cpu_private.h"
#include "backends/cpu/kernel_rates.h"
#include "backends/cpu/packed/packed_kernels.h"
#include "backends/cpu/rows/row_ops.h"
#include "backends/numeric/exp_row.h"
#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/system/cpu.h"
#include "quant/format/pack.h"
#include "tools/bench/machine.h"
#include "tools/bench/peak.h"

enum {
    K = 1536,
    N = 8960,
    MATRICES = 8,
    ROWS_MAX = 512,
    REPEATS = 5
};

static WorkerPool *this_thread; /* a pool without workers */

/* Returns the giga-operations a second that a kernel's instructions reach in registers; 0: unknown here. */
static double peak_of(const char *kernel) {
    const Peak *peak = peak_of_kernel(kernel);

    return peak && !(peak->need & ~cpu_features()) ? peak_measure(peak, this_thread) : 0;
}

static void print_peaks(void) {
    for (size_t i = 0; i < peak_n(); i++) {
        const Peak *peak = peak_at(i);

        if (peak->need & ~cpu_features())
            printf("  %-18s absent on this machine\n", peak->name);
        else
            printf("  %-18s %8.1f G%s op/s\n", peak->name, peak_measure(peak, this_thread), peak->type);
    }
}

/* Returns the GB/s of reading the buffer once. */
static double bandwidth_of(const int8_t *buffer, size_t bytes) {
    uint64_t best = UINT64_MAX;

    for (int repeat = 0; repeat < REPEATS; repeat++) {
        uint64_t time = machine_read(buffer, bytes);

        best = MIN(time, best);
    }
    return (double)bytes / (double)best;
}

/* Returns the least ns of a kernel's product, or its gated one, over all matrices in turn, for one matrix. */
static uint64_t product_ns(const Int8ProductKernel *kernel, bool gated, const Int8Weights *weights,
                           const Int8Rows *rows, float *y, void *scratch) {
    uint64_t best = UINT64_MAX;

    for (int repeat = 0; repeat < REPEATS; repeat++)
        for (size_t m = 0; m < MATRICES; m += 1 + gated) {
            const size_t n = weights[m].n, n_blocks = weights[m].n_blocks;
            uint64_t start = machine_ns(), time;

            if (gated)
                kernel->gated(&weights[m], &weights[m + 1], rows, INT8_GATE_SILU, 0, n_blocks, y, n, scratch);
            else
                kernel->fn(&weights[m], rows, 0, n_blocks, y, n, scratch);
            time = (machine_ns() - start) / (1 + gated);
            best = MIN(time, best);
        }
    return best;
}

static void bench_product(const Int8ProductKernel *kernel, bool gated, const Int8Weights *weights, const Int8Rows *all,
                          float *y, double bandwidth) {
    static const size_t row_counts[] = { 1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512 };
    const double peak = peak_of(kernel->name),
                 matrix_bytes = (double)weights->n_blocks * weights->k_tiles * INT8_TILE_BYTES;
    _cleanup_(freep) void *scratch = machine_alloc(kernel->scratch_bytes + 64);

    for (size_t c = 0; c < ARRAY_LEN(row_counts); c++) {
        Int8Rows rows = *all;
        uint64_t best;
        double gops, gbytes;

        rows.rows = row_counts[c];
        rows.tile_rows = int8_tile_rows(kernel, rows.rows);
        rows.stride_bytes = weights->k_tiles * INT8_TILE_INPUTS;
        if (!kernel->need && rows.rows > 16)
            break; /* the reference is slow, and takes as long for each row */
        best = product_ns(kernel, gated, weights, &rows, y, scratch);
        gops = 2.0 * (double)rows.rows * (double)weights->n * (double)weights->k / (double)best;
        gbytes = matrix_bytes / (double)best;
        printf("  %-26s %-5s %5zu %5zu %4zu %9.3f %9.1f", kernel->name, gated ? "gated" : "", weights->n, weights->k,
               rows.rows, (double)best / 1e6, gops);
        peak > 0 ? printf(" %6.1f %%", 100 * gops / peak) : printf("       -");
        printf(" %8.2f %6.1f %%\n", gbytes, 100 * gbytes / bandwidth);
    }
}

static uint64_t least(uint64_t a, uint64_t b) {
    return MIN(a, b);
}

typedef struct PackedKind {
    Grid grid;
    int bits;
} PackedKind;

/* Measures a kind over the memory of the int8 matrices; any bytes are packed weights. */
static void bench_packed(const PackedKernels *kernels, PackedKind kind, const Int8Weights *int8, const Int8Rows *all,
                         float *y) {
    static const size_t row_counts[] = { 1, 2, 4, 6, 8, 12, 16, 24, 32, 64, 256 };
    const size_t n_blocks = int8->n_blocks, block_bytes = int8->k_tiles * pack_tile_bytes(kind.bits),
                 matrix_bytes = n_blocks * block_bytes,
                 n_matrices = MATRICES * n_blocks * int8->k_tiles * INT8_TILE_BYTES / matrix_bytes;
    _cleanup_(freep) uint64_t *offsets = machine_alloc((n_blocks + 1) * sizeof(*offsets));
    _cleanup_(freep) uint8_t *widths = machine_alloc(n_blocks);
    _cleanup_(freep) void *scratch = machine_alloc(packed_kernels_scratch_bytes(kernels, int8->k_tiles));
    PackedWeights weights = {
        .n = int8->n,
        .k = int8->k,
        .k_tiles = int8->k_tiles,
        .n_blocks = n_blocks,
        .offsets = offsets,
        .bits = widths,
        .grid = kind.grid,
        .sums = int8->sums,
        .scales = int8->scales,
    };

    memset(widths, kind.bits, n_blocks);
    for (size_t block = 0; block <= n_blocks; block++)
        offsets[block] = block * block_bytes;
    for (size_t c = 0; c < ARRAY_LEN(row_counts); c++) {
        uint64_t best = UINT64_MAX, best_int8 = UINT64_MAX, best_read = UINT64_MAX;
        Int8Rows rows = *all, int8_rows = *all;
        double ops, gbytes;

        rows.rows = int8_rows.rows = row_counts[c];
        rows.tile_rows = packed_kernels_tile_rows(kernels, rows.rows);
        int8_rows.tile_rows = int8_tile_rows(kernels->product, rows.rows);
        if (!kernels->few->need && rows.rows > 16)
            break; /* the reference */
        for (int repeat = 0; repeat < REPEATS; repeat++)
            for (size_t m = 0; m + 1 < n_matrices; m += 2) {
                const uint8_t *bytes = (const uint8_t *)int8[0].tiles + m * matrix_bytes;
                uint64_t start = machine_ns();

                weights.packed = bytes;
                packed_kernels_run(kernels, &weights, &rows, 0, n_blocks, y, N, scratch);
                best = least(best, machine_ns() - start);
                best_read = least(best_read, machine_read(bytes + matrix_bytes, matrix_bytes));
                start = machine_ns();
                kernels->product->fn(&int8[m % MATRICES], &int8_rows, 0, n_blocks, y, N, scratch);
                best_int8 = least(best_int8, machine_ns() - start);
            }
        ops = 2.0 * (double)rows.rows * N * K;
        gbytes = (double)matrix_bytes / (double)best;
        printf("  %-30s %-7s %d %4zu %9.3f %9.1f %9.1f %8.2f %6.1f %%\n", kernels->few->name, grid_name(kind.grid),
               kind.bits, rows.rows, (double)best / 1e6, ops / (double)best, ops / (double)best_int8, gbytes,
               100 * (double)best_read / (double)best);
    }
}

typedef struct AttentionCase {
    size_t n_rows, position; /* position of the first row */
} AttentionCase;

typedef struct AttentionShape {
    const char *model;
    size_t n_kv, n_group, head_size;
} AttentionShape;

#define BLOCKS_MAX 128

/* Memory of one batch of row-heads. */
typedef struct AttentionRoom {
    AttentionQueries queries;
    AttentionSums sums;
    AttentionTotals totals;
    AttentionMask *masks;
    void *scratch;
} AttentionRoom;

static void attention_room_init(AttentionRoom *room, const AttentionOps *ops, size_t head_size) {
    const size_t n = ATTENTION_ROW_HEADS, outputs_bytes = n * head_size * sizeof(float);

    *room = (AttentionRoom){
        .queries = { head_size, 0, machine_alloc(n * attention_levels_bytes(head_size)),
                     machine_alloc(n * sizeof(float)), machine_alloc(n * sizeof(int32_t)) },
        .sums = { machine_alloc(n * sizeof(float)), machine_alloc(n * sizeof(float)),
                  machine_alloc(n * sizeof(int32_t)), machine_alloc(outputs_bytes) },
        .totals = { machine_alloc(n * sizeof(float)), machine_alloc(n * sizeof(float)), machine_alloc(outputs_bytes) },
        .masks = machine_alloc(ops->group * sizeof(AttentionMask)),
        .scratch = machine_alloc(attention_scratch_bytes(ops->group)),
    };
}

static void attention_room_free(const AttentionRoom *room) {
    void *const all[] = {
        room->queries.levels,     room->queries.factors,  room->queries.starts, room->sums.score_units,
        room->sums.value_units,   room->sums.normalizers, room->sums.outputs,   room->totals.units,
        room->totals.normalizers, room->totals.outputs,   room->masks,          room->scratch
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
}

/* Adds the positions below `end` of one block for row-heads [at, at + n), whose rows end one after another. */
static void attention_block_of(const AttentionOps *ops, const KvHead *kv, const AttentionRoom *room, size_t n_group,
                               size_t at, size_t n, size_t first_end, size_t block) {
    const size_t begin = block * ATTENTION_BLOCK, last_end = first_end + (at + n - 1) / n_group,
                 end = MIN(last_end, begin + ATTENTION_BLOCK), head_size = kv->head_size;
    const AttentionTotals totals = { room->totals.units + at, room->totals.normalizers + at,
                                     room->totals.outputs + at * head_size };
    const bool is_whole = first_end + at / n_group >= begin + ATTENTION_BLOCK;
    AttentionParts parts = { 0 };

    for (size_t position = begin; position < end; position += KV_BLOCK)
        parts.at[parts.n++] = kv_block_at(kv, kv->blocks[position / KV_BLOCK]);
    if (!parts.n)
        return;
    for (size_t position = begin + ATTENTION_BLOCK; !at && position < MIN(last_end, begin + 2 * ATTENTION_BLOCK);
         position += KV_BLOCK)
        parts.next[parts.n_next++] = kv_block_at(kv, kv->blocks[position / KV_BLOCK]);
    for (size_t i = 0; !is_whole && i < n; i++)
        for (size_t part = 0; part < parts.n; part++) {
            const size_t row_end = first_end + (at + i) / n_group, from = begin + part * KV_BLOCK,
                         n_read = row_end > from ? MIN(row_end - from, KV_BLOCK) : 0;

            room->masks[i][part] = n_read ? UINT64_MAX >> (KV_BLOCK - n_read) : 0;
        }
    ops->block(&room->queries, at, n, &parts, is_whole ? NULL : (const AttentionMask *)room->masks, room->scratch,
               &room->sums);
    ops->add(&room->sums, n, head_size, &totals);
}

/* Returns the ns of all heads of one layer, in the cpu device's batches of rows. */
static uint64_t attention_ns(const AttentionOps *ops, const AttentionShape *shape, const AttentionCase *c,
                             uint8_t *cache, const float *q, float *out, AttentionRoom *room) {
    const size_t plane_bytes = KV_BLOCK * kv_row_bytes(shape->head_size), hd = shape->head_size,
                 n_blocks = (c->position + c->n_rows + KV_BLOCK - 1) / KV_BLOCK,
                 batch = ATTENTION_ROW_HEADS / shape->n_group;
    void *blocks[BLOCKS_MAX];
    uint64_t start;

    for (size_t i = 0; i < n_blocks; i++)
        blocks[i] = cache + i * 2 * shape->n_kv * plane_bytes;
    start = machine_ns();
    for (size_t first = 0, n; first < c->n_rows; first += n) {
        n = MIN(c->n_rows - first, batch);
        for (size_t head = 0; head < shape->n_kv; head++) {
            const KvHead kv = { blocks, head * plane_bytes, (shape->n_kv + head) * plane_bytes, hd };
            const size_t n_heads = n * shape->n_group, at = (first * shape->n_kv + head * n) * shape->n_group * hd,
                         first_end = c->position + first + 1, last_end = first_end + n - 1;

            ops->queries(&room->queries, 0, q + at, n_heads, NULL, 0.18f);
            for (size_t i = 0; i < n_heads; i++) {
                room->totals.units[i] = -INFINITY;
                room->totals.normalizers[i] = 0;
            }
            memset(room->totals.outputs, 0, n_heads * hd * sizeof(float));
            for (size_t block = 0; block * ATTENTION_BLOCK < last_end; block++)
                for (size_t i = 0; i < n_heads; i += ops->group)
                    attention_block_of(ops, &kv, room, shape->n_group, i, MIN(n_heads - i, ops->group), first_end,
                                       block);
            ops->end(&room->totals, n_heads, hd, out + at);
        }
    }
    return machine_ns() - start;
}

/* Returns the least ns of a row-head and position: the products in int8 at the speed of the int8 kernel's peak loop.
 * Weights are two planes of bytes, except where int16 is multiplied; 0: unknown here. */
static double attention_floor_ns(const AttentionOps *ops, size_t head_size) {
    const char *isa = strstr(ops->name, "__");
    const bool is_wide = !strcmp(isa, "__avx2") || !strcmp(isa, "__neon");
    char kernel[64];
    double peak;

    snprintf(kernel, sizeof(kernel), "int8_product%s", isa);
    peak = peak_of(kernel);
    return peak > 0 ? 2.0 * (is_wide ? 2 : 3) * (double)head_size / peak : 0;
}

/* Measures attention. The arena exceeds the last-level cache of most machines and is read in turn, so that keys and
 * values come from memory. */
static void bench_attention(const AttentionOps *ops, const AttentionShape *shape, const AttentionCase *c,
                            double floor_ns, uint8_t *arena, size_t arena_bytes) {
    const size_t n_q = shape->n_kv * shape->n_group * shape->head_size * c->n_rows,
                 n_blocks = (c->position + c->n_rows + KV_BLOCK - 1) / KV_BLOCK,
                 kv_bytes = 2 * n_blocks * KV_BLOCK * shape->n_kv * kv_row_bytes(shape->head_size);
    _cleanup_(freep) float *q = machine_alloc(n_q * sizeof(*q)), *out = machine_alloc(n_q * sizeof(*out));
    uint64_t best = UINT64_MAX, best_read = UINT64_MAX;
    AttentionRoom room;
    double n_pairs = 0, ns;

    attention_room_init(&room, ops, shape->head_size);
    for (size_t i = 0; i < n_q; i++)
        q[i] = (float)(i % 7) / 8 - 0.375f;
    for (size_t r = 0; r < c->n_rows; r++)
        n_pairs += (double)(shape->n_kv * shape->n_group * (c->position + r + 1));
    for (size_t repeat = 0, at = 0; repeat < (c->n_rows > 1 ? REPEATS : 8 * REPEATS); repeat++) {
        if (at + 2 * kv_bytes > arena_bytes)
            at = 0;
        best = least(best, attention_ns(ops, shape, c, arena + at, q, out, &room));
        best_read = least(best_read, machine_read(arena + at + kv_bytes, kv_bytes));
        at += 2 * kv_bytes;
    }
    attention_room_free(&room);
    ns = (double)best / n_pairs;
    printf("  %-22s %-14s %4zu %6zu %10.1f %8.3f", ops->name, shape->model, c->n_rows, c->position + c->n_rows,
           (double)best / 1e3, ns);
    floor_ns > 0 ? printf(" %6.1f %%", 100 * floor_ns / ns) : printf("       -");
    printf(" %8.2f %6.1f %%\n", (double)kv_bytes / (double)best, 100 * (double)best_read / (double)best);
}

static void bench_attention_all(uint8_t *arena, size_t arena_bytes) {
    static const AttentionShape shapes[] = { { "smollm2-135m", 3, 3, 64 },
                                             { "qwen2.5-0.5b", 2, 7, 64 },
                                             { "qwen2.5-1.5b", 2, 6, 128 },
                                             { "gemma3-270m", 1, 4, 256 } };
    static const AttentionCase cases[] = { { 256, 0 },  { 256, 768 }, { 256, 7936 }, { 31, 993 }, { 12, 1012 },
                                           { 6, 1018 }, { 3, 1021 },  { 1, 1023 },   { 1, 8191 } };

    for (size_t i = 0; i < arena_bytes; i++) /* any bytes are keys and values, and these are scales, too: 2^-15 to 1 */
        arena[i] = (uint8_t)(0x38 + i * 37 % 7);
    printf(
        "\nattention of one layer; ns a row-head and position, beside the products' floor\n  %-22s %-14s %4s %6s %10s "
        "%8s %8s %8s %8s\n",
        "build", "shape of", "rows", "end", "us", "ns", "of floor", "GB/s", "of read");
    for (size_t i = 0; i < attention_n_ops(); i++) {
        const AttentionOps *ops = attention_ops_at(i);

        for (size_t s = 0; s < ARRAY_LEN(shapes) && !(ops->need & ~cpu_features()); s++) {
            const double floor_ns = attention_floor_ns(ops, shapes[s].head_size);

            for (size_t c = 0; c < ARRAY_LEN(cases); c++)
                if (ops->need || cases[c].n_rows == 1) /* the reference is slow, and takes as long for each row */
                    bench_attention(ops, &shapes[s], &cases[c], floor_ns, arena, arena_bytes);
        }
    }
}

static void bench_rows(const RowOps *ops) {
    const ExpRow *exp = exp_row_select(ops->need);
    enum {
        WIDTH = 8704
    }; /* 17 blocks of 512 */
    _cleanup_(freep) float *x = machine_alloc(WIDTH * sizeof(*x)), *y = machine_alloc(WIDTH * sizeof(*y)),
                           *out = machine_alloc(WIDTH * sizeof(*out));
    _cleanup_(freep) int8_t *q = machine_alloc(WIDTH);
    uint64_t best[6];
    float greatest;

    memset(best, 0xff, sizeof(best));
    for (size_t i = 0; i < WIDTH; i++) {
        x[i] = (float)(i % 97) / 10 - 4.8f;
        y[i] = (float)(i % 89) / 10 - 4.4f;
    }
    for (int repeat = 0; repeat < 20 * REPEATS; repeat++) {
        uint64_t times[ARRAY_LEN(best) + 1];

        times[0] = machine_ns();
        ops->rms_norm(x, y, 1e-5f, WIDTH, out);
        times[1] = machine_ns();
        ops->silu_mul(x, y, WIDTH, out);
        times[2] = machine_ns();
        ops->gelu_mul(x, y, WIDTH, out);
        times[3] = machine_ns();
        greatest = ops->hadamard(out, WIDTH, 512, out);
        times[4] = machine_ns();
        ops->quantize(out, WIDTH, greatest, 64, q);
        times[5] = machine_ns();
        exp->exp(x, WIDTH, out);
        times[6] = machine_ns();
        for (size_t i = 0; i < ARRAY_LEN(best); i++)
            best[i] = MIN(times[i + 1] - times[i], best[i]);
    }
    printf("  %-16s", ops->name);
    for (size_t i = 0; i < ARRAY_LEN(best); i++)
        printf(" %9.3f", (double)best[i] / WIDTH);
    printf("\n");
}

/* Makes MATRICES matrices of n x k over the same bytes. */
static void weights_init(Int8Weights weights[MATRICES], size_t n, size_t k, const int8_t *tiles, const int32_t *sums,
                         const float *scales) {
    const size_t k_tiles = int8_tiles_for(k), n_blocks = int8_blocks_for(n);

    for (size_t m = 0; m < MATRICES; m++)
        weights[m] = (Int8Weights){
            .n = n,
            .k = k,
            .k_tiles = k_tiles,
            .n_blocks = n_blocks,
            .tiles = tiles + m * n_blocks * k_tiles * INT8_TILE_BYTES,
            .sums = sums,
            .scales = scales,
        };
}

static void bench_products(const Int8Weights *wide, const Int8Weights *deep, const Int8Rows *rows, float *y,
                           double bandwidth) {
    printf("\nint8 product, weights from memory; gated: of two matrices at once, for one of them\n  %-26s %-5s %5s %5s "
           "%4s %9s %9s %8s %8s %8s\n",
           "kernel", "", "n", "k", "rows", "ms", "Gop/s", "of peak", "GB/s", "of read");
    for (size_t i = 0; i < int8_product_n_kernels(); i++) {
        const Int8ProductKernel *kernel = int8_product_kernel_at(i);

        if (kernel->need & ~cpu_features())
            continue;
        bench_product(kernel, false, wide, rows, y, bandwidth);
        bench_product(kernel, false, deep, rows, y, bandwidth);
        if (kernel->gated)
            bench_product(kernel, true, wide, rows, y, bandwidth);
    }
}

static void bench_packed_all(const Int8Weights *weights, const Int8Rows *rows, float *y) {
    static const PackedKind packed_kinds[] = { { GRID_UNIFORM, 4 }, { GRID_NORMAL, 4 },  { GRID_UNIFORM, 5 },
                                               { GRID_NORMAL, 5 },  { GRID_UNIFORM, 6 }, { GRID_NORMAL, 6 },
                                               { GRID_UNIFORM, 8 } };

    printf("\npacked product, n = %d, k = %d, weights from memory; the int8 product beside it\n  %-30s %-7s %s %4s %9s "
           "%9s %9s %8s %8s\n",
           N, K, "kernel", "grid", "b", "rows", "ms", "Gop/s", "int8", "GB/s", "of read");
    for (size_t i = 0; i < packed_product_n_kernels(); i++)
        for (size_t b = 0; b < ARRAY_LEN(packed_kinds); b++)
            if (!(packed_product_kernel_at(i)->need & ~cpu_features())) {
                AccountTable accounts;
                PackedKernels kernels = packed_kernels_select(i ? packed_product_kernel_at(i)->need : cpu_features());

                account_table_init(&accounts);
                packed_kernels_take(
                    &kernels, packed_kinds[b].grid, packed_kinds[b].bits,
                    kernel_rates_few_rows(&kernels, packed_kinds[b].grid, packed_kinds[b].bits, &accounts));
                printf("  up to %zu rows are expanded in registers\n", kernels.few_rows_max);
                bench_packed(&kernels, packed_kinds[b], weights, rows, y);
            }
}

static void bench_rows_all(void) {
    printf("\nrow operators, ns a value\n  %-16s %9s %9s %9s %9s %9s %9s\n", "build", "rms_norm", "silu_mul",
           "gelu_mul", "hadamard", "quantize", "exp");
    for (size_t i = 0; i < row_ops_n(); i++)
        if (!(row_ops_at(i)->need & ~cpu_features()))
            bench_rows(row_ops_at(i));
}

/* Tells whether a part was asked for; without names all are. */
static bool is_wanted(const char *part, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], part))
            return true;
    return argc == 1;
}

int main(int argc, char **argv) {
    const size_t matrix_bytes = (size_t)N * K, x_bytes = (size_t)ROWS_MAX * N;
    _cleanup_(freep) int8_t *tiles = machine_alloc(MATRICES * matrix_bytes), *x = machine_alloc(x_bytes);
    _cleanup_(freep) int32_t *sums = machine_alloc(N * sizeof(*sums));
    _cleanup_(freep) float *scales = machine_alloc(N * sizeof(*scales));
    _cleanup_(freep) float *x_scales = machine_alloc(ROWS_MAX * sizeof(*x_scales)),
                           *y = machine_alloc((size_t)ROWS_MAX * N * sizeof(*y));
    _cleanup_(freep) int32_t *x_sums = machine_alloc(ROWS_MAX * sizeof(*x_sums));
    _cleanup_(freep) uint8_t *shifted = machine_alloc(x_bytes);
    Int8Weights wide[MATRICES], deep[MATRICES];
    Int8Rows rows = { ROWS_MAX, 1, K, x, x_scales, x_sums, shifted };
    double bandwidth;

    _Static_assert(K % INT8_TILE_INPUTS == 0 && N % INT8_TILE_INPUTS == 0, "no padding");
    if (worker_pool_new(&this_thread, 1))
        return 1;
    for (size_t i = 0; i < MATRICES * matrix_bytes; i++)
        tiles[i] = (int8_t)((int)(i % 251) - 125);
    for (size_t i = 0; i < x_bytes; i++)
        x[i] = (int8_t)((int)(i % 241) - 120);
    int8_rows_shift(x, x_bytes, shifted);
    memset(sums, 0, N * sizeof(*sums));
    for (size_t i = 0; i < N; i++)
        scales[i] = 0.01f;
    for (size_t i = 0; i < ROWS_MAX; i++)
        x_scales[i] = 0.02f;
    memset(x_sums, 0, ROWS_MAX * sizeof(*x_sums));
    weights_init(wide, N, K, tiles, sums, scales);
    weights_init(deep, K, N, tiles, sums, scales);

    printf("one thread, by its CPU time; peak of loops in registers:\n");
    print_peaks();
    bandwidth = bandwidth_of(tiles, MATRICES * matrix_bytes);
    printf("  %-18s %8.1f GB/s\n", "memory, reading", bandwidth);
    if (is_wanted("product", argc, argv))
        bench_products(wide, deep, &rows, y, bandwidth);
    if (is_wanted("packed", argc, argv))
        bench_packed_all(wide, &rows, y);
    if (is_wanted("attention", argc, argv))
        bench_attention_all((uint8_t *)tiles, MATRICES * matrix_bytes);
    if (is_wanted("rows", argc, argv))
        bench_rows_all();
    worker_pool_free(this_thread);
    return 0;
}
