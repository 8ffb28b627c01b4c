// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/packed/packed_kernels.h"

#include <assert.h>
#include <stdbool.h>

#include "base/min_max.h"
#include "base/system/cpu.h"
#include "quant/format/pack.h"

/* Blocks that are expanded together: as many as the int8 kernels multiply at once. Kernels that take tiles of rows get
 * as many as fit in the second-level cache beside the kernel's own data. */
#define PANEL_BLOCKS 4
#define PANEL_BLOCKS_MAX 16
#define PANEL_BYTES (512 << 10)
/* Tiles that are expanded between two prefetches. */
#define PIECE_TILES 4
/* Prefetch distance in packed bytes after a tile that a product asks for. */
#define SOURCE_AHEAD_BYTES 4096
/* Rows whose outputs are put in order together. */
#define SCATTER_ROWS 32
#define SCATTER_ROWS_TILES 128
PackedKernels packed_kernels_select(uint32_t cpu) {
    return (PackedKernels){
        .few = packed_product_select(cpu),
        .unpack = unpack_tile_select(cpu),
        .product = int8_product_select(cpu),
    };
}

void packed_kernels_take(PackedKernels *kernels, Grid grid, int bits, size_t few_rows) {
    if (kernels->product->tile_rows > 1 && few_rows > PACKED_FEW_ROWS_MAX)
        few_rows = PACKED_FEW_ROWS_MAX;
    kernels->few_rows[packed_coding(grid, bits)] = few_rows;
    if (few_rows > kernels->few_rows_max)
        kernels->few_rows_max = few_rows;
}

static size_t panel_blocks(const PackedKernels *kernels, size_t k_tiles) {
    const size_t fit = PANEL_BYTES / (k_tiles * INT8_TILE_BYTES);

    if (kernels->product->tile_rows == 1 || fit <= PANEL_BLOCKS)
        return PANEL_BLOCKS;
    return MIN(fit / 2 * 2, PANEL_BLOCKS_MAX);
}

static size_t scatter_rows(const PackedKernels *kernels) {
    return kernels->product->tile_rows == 1 ? SCATTER_ROWS : SCATTER_ROWS_TILES;
}

/* Parts of the scratch: the product's own, outputs that are not in order, the panel. */
typedef struct Scratch {
    void *product;
    float *out; /* [scatter_rows()][panel_blocks() * 16] */
    int8_t *panel;
} Scratch;

static size_t scratch_parts(const PackedKernels *kernels, size_t k_tiles, uint8_t *base, Scratch *scratch) {
    const size_t n_blocks = panel_blocks(kernels, k_tiles), product_bytes = kernels->product->scratch_bytes,
                 out_bytes = scatter_rows(kernels) * n_blocks * INT8_TILE_OUTPUTS * sizeof(float);

    *scratch = (Scratch){ base, (float *)(base + product_bytes), (int8_t *)(base + product_bytes + out_bytes) };
    return product_bytes + out_bytes + n_blocks * k_tiles * INT8_TILE_BYTES;
}

size_t packed_kernels_scratch_bytes(const PackedKernels *kernels, size_t k_tiles) {
    _Alignas(64) uint8_t base[1];
    Scratch scratch;

    return scratch_parts(kernels, k_tiles, base, &scratch);
}

/* Multiplies by a panel; stores outputs, which come in order of positions, at their channels. */
static void product_scattered(const PackedKernels *kernels, Int8Weights *panel, const uint32_t *channels,
                              const Int8Rows *rows, float *y, size_t y_stride, const Scratch *scratch) {
    const size_t rows_max = scatter_rows(kernels), n_parts = (rows->rows + rows_max - 1) / rows_max,
                 width = panel->n_blocks * INT8_TILE_OUTPUTS;

    panel->next_bytes = (panel->next_bytes + n_parts - 1) / n_parts;
    for (size_t row = 0; row < rows->rows; row += rows_max) {
        const size_t at = int8_rows_piece(rows, row, 0);
        const Int8Rows some = {
            .rows = MIN(rows->rows - row, rows_max),
            .tile_rows = rows->tile_rows,
            .stride_bytes = rows->stride_bytes,
            .x = rows->x + at,
            .scales = rows->scales + row,
            .shifted = rows->shifted ? rows->shifted + at : NULL,
        };

        kernels->product->fn(panel, &some, 0, panel->n_blocks, scratch->out, width, scratch->product);
        if (panel->next)
            panel->next = (const uint8_t *)panel->next + panel->next_bytes;
        for (size_t r = 0; r < some.rows; r++)
            for (size_t p = 0; p < panel->n; p++)
                y[(row + r) * y_stride + channels[p]] = scratch->out[r * width + p];
    }
}

/* Returns blocks [block, end) without tiles; outputs count from the first block. */
static Int8Weights some_blocks(const PackedWeights *weights, size_t block, size_t end) {
    const size_t first = block * INT8_TILE_OUTPUTS;

    return (Int8Weights){
        .n = MIN(weights->n - first, (end - block) * INT8_TILE_OUTPUTS),
        .k = weights->k,
        .k_tiles = weights->k_tiles,
        .n_blocks = end - block,
        .sums = weights->sums + first,
        .scales = weights->scales + first,
        .bias = weights->bias ? weights->bias + first : NULL,
    };
}

/* Prefetch of packed bytes while others are expanded: a number of lines with every piece of a block. */
typedef struct Ahead {
    const uint8_t *from;
    size_t lines;
} Ahead;

/* Unpacks a block in pieces of 4 tiles. */
static void expand_block(const PackedKernels *kernels, const PackedWeights *weights, size_t block, int8_t *tiles,
                         Ahead *ahead) {
    const size_t tile_bytes = pack_tile_bytes(weights->bits[block]);
    const uint8_t *packed = weights->packed + weights->offsets[block];

    for (size_t t = 0; t < weights->k_tiles; t += PIECE_TILES) {
        kernels->unpack->fn(packed + t * tile_bytes, weights->grid, weights->bits[block],
                            MIN(weights->k_tiles - t, PIECE_TILES), tiles + t * INT8_TILE_BYTES);
        for (size_t i = 0; i < ahead->lines; i++, ahead->from += 64)
            __builtin_prefetch(ahead->from, 0, 2); /* a prefetch past the end does not fault */
    }
}

/* Unpacks blocks [block, end) into `tiles`; outputs of the panel count from its first one. The packed bytes up to
 * `next_end` are prefetched, half of them during the expansion and half during the product: both take about as long for
 * few rows, which wait for memory. */
static Int8Weights expand_panel(const PackedKernels *kernels, const PackedWeights *weights, size_t block, size_t end,
                                size_t next_end, int8_t *tiles) {
    const size_t n_blocks = end - block, n_pieces = n_blocks * ((weights->k_tiles + PIECE_TILES - 1) / PIECE_TILES),
                 next_bytes = weights->offsets[next_end] - weights->offsets[end],
                 n_lines = kernels->product->tile_rows > 1 ? (next_bytes / 128 + n_pieces - 1) / n_pieces : 0,
                 ahead_bytes = MIN(n_lines * n_pieces * 64, next_bytes);
    const uint8_t *next = weights->packed + weights->offsets[end];
    Ahead ahead = { next, n_lines };
    Int8Weights panel;

    for (size_t b = 0; b < n_blocks; b++)
        expand_block(kernels, weights, block + b, tiles + b * weights->k_tiles * INT8_TILE_BYTES, &ahead);
    panel = some_blocks(weights, block, end);
    panel.tiles = tiles;
    panel.next = next_end > end ? next + ahead_bytes : NULL;
    panel.next_bytes = next_bytes - ahead_bytes;
    return panel;
}

/* Source of tiles for a product of few rows; its blocks count from `first`. */
typedef struct PackedSource {
    const PackedKernels *kernels;
    const PackedWeights *weights;
    size_t first;
} PackedSource;

/* The processor's own prefetchers read memory as streams; this function prefetches from the next page. */
static void source_tile(const void *arg, size_t block, size_t tile, int8_t *tiles) {
    const PackedSource *self = arg;
    const PackedWeights *weights = self->weights;
    const int bits = weights->bits[self->first + block];
    const uint8_t *packed = weights->packed + weights->offsets[self->first + block] + tile * pack_tile_bytes(bits);

    for (size_t i = 0; i < pack_tile_bytes(bits); i += 64)
        __builtin_prefetch(packed + SOURCE_AHEAD_BYTES + i, 0, 2); /* a prefetch past the end does not fault */
    self->kernels->unpack->fn(packed, weights->grid, bits, 1, tiles);
}

/* Multiplies up to source_rows rows: no tile of weights is used twice, so tiles need not go through the cache. */
static void product_sourced(const PackedKernels *kernels, const PackedWeights *weights, const Int8Rows *rows,
                            size_t block_begin, size_t block_end, float *y, size_t y_stride, const Scratch *scratch) {
    const size_t blocks_max = weights->channels ? panel_blocks(kernels, weights->k_tiles) : block_end - block_begin;

    for (size_t block = block_begin, end; block < block_end; block = end) {
        const PackedSource packed = { kernels, weights, block };
        const Int8Source source = { source_tile, &packed };
        const size_t first = block * INT8_TILE_OUTPUTS;
        Int8Weights some;

        end = MIN(block + blocks_max, block_end);
        some = some_blocks(weights, block, end);
        some.source = &source;
        if (weights->channels)
            product_scattered(kernels, &some, weights->channels + first, rows, y, y_stride, scratch);
        else
            kernels->product->fn(&some, rows, 0, some.n_blocks, y + first, y_stride, scratch->product);
    }
}

/**
 * packed_kernels_expanded() - unpack a panel of some blocks into the cache, then multiply all rows by it
 *
 * rows needs no sums. Thread: any, with a scratch of its own.
 */
void packed_kernels_expanded(const PackedKernels *kernels, const PackedWeights *weights, const Int8Rows *rows,
                             size_t block_begin, size_t block_end, float *y, size_t y_stride, void *scratch) {
    const size_t blocks_max = panel_blocks(kernels, weights->k_tiles);
    Scratch parts;

    scratch_parts(kernels, weights->k_tiles, scratch, &parts);
    if (rows->rows <= kernels->product->source_rows) {
        product_sourced(kernels, weights, rows, block_begin, block_end, y, y_stride, &parts);
        return;
    }
    for (size_t block = block_begin, end; block < block_end; block = end) {
        const size_t first = block * INT8_TILE_OUTPUTS;
        Int8Weights panel;

        end = MIN(block + blocks_max, block_end);
        panel = expand_panel(kernels, weights, block, end, MIN(end + blocks_max, block_end), parts.panel);
        if (weights->channels)
            product_scattered(kernels, &panel, weights->channels + first, rows, y, y_stride, &parts);
        else
            kernels->product->fn(&panel, rows, 0, panel.n_blocks, y + first, y_stride, parts.product);
    }
}

void packed_kernels_gated(const PackedKernels *kernels, const PackedWeights *gate, const PackedWeights *up,
                          const Int8Rows *rows, Int8Gate activation, size_t block_begin, size_t block_end, float *y,
                          size_t y_stride, void *scratch) {
    const size_t blocks_max = panel_blocks(kernels, gate->k_tiles) / 2;
    Scratch parts;

    assert(!gate->channels && !up->channels && gate->k_tiles == up->k_tiles);
    scratch_parts(kernels, gate->k_tiles, scratch, &parts);
    if (rows->rows <= kernels->product->source_rows) {
        const PackedSource packed[2] = { { kernels, gate, block_begin }, { kernels, up, block_begin } };
        const Int8Source sources[2] = { { source_tile, &packed[0] }, { source_tile, &packed[1] } };
        Int8Weights some = some_blocks(gate, block_begin, block_end), up_some = some_blocks(up, block_begin, block_end);

        some.source = &sources[0];
        up_some.source = &sources[1];
        kernels->product->gated(&some, &up_some, rows, activation, 0, some.n_blocks,
                                y + block_begin * INT8_TILE_OUTPUTS, y_stride, parts.product);
        return;
    }
    for (size_t block = block_begin, end; block < block_end; block = end) {
        Int8Weights panel, up_panel;
        size_t next_end;

        end = MIN(block + blocks_max, block_end);
        next_end = MIN(end + blocks_max, block_end);
        panel = expand_panel(kernels, gate, block, end, next_end, parts.panel);
        up_panel = expand_panel(kernels, up, block, end, next_end,
                                parts.panel + panel.n_blocks * gate->k_tiles * INT8_TILE_BYTES);
        kernels->product->gated(&panel, &up_panel, rows, activation, 0, panel.n_blocks, y + block * INT8_TILE_OUTPUTS,
                                y_stride, parts.product);
    }
}

size_t packed_kernels_tile_rows(const PackedKernels *kernels, size_t rows) {
    return rows > kernels->few_rows_max ? int8_tile_rows(kernels->product, rows) : 1;
}

/* Rows in tiles always use panels. */
static bool is_expanded(const PackedKernels *kernels, const Int8Rows *rows, Grid grid, int bits) {
    return rows->tile_rows > 1 || rows->rows > kernels->few_rows[packed_coding(grid, bits)];
}

/**
 * packed_kernels_run() - multiply each block by the faster way for its width and for the number of rows
 * @rows:     with their sums, in the layout of packed_kernels_tile_rows()
 * @scratch:  packed_kernels_scratch_bytes(kernels, weights->k_tiles)
 */
void packed_kernels_run(const PackedKernels *kernels, const PackedWeights *weights, const Int8Rows *rows,
                        size_t block_begin, size_t block_end, float *y, size_t y_stride, void *scratch) {
    for (size_t block = block_begin, end; block < block_end; block = end) {
        const bool expanded = is_expanded(kernels, rows, weights->grid, weights->bits[block]);

        for (end = block + 1; end < block_end; end++)
            if (is_expanded(kernels, rows, weights->grid, weights->bits[end]) != expanded)
                break;
        if (expanded)
            packed_kernels_expanded(kernels, weights, rows, block, end, y, y_stride, scratch);
        else
            kernels->few->fn(weights, rows, block, end, y, y_stride);
    }
}
