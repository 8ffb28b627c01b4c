#include "backends/cpu/packed_kernels.h"

#include <stdbool.h>

#include "base/cpu.h"

/* Blocks that are expanded together: what the int8 kernels multiply at once; for those that take tiles of rows as many as
 * fit the second-level cache beside what the kernel has there. */
#define PANEL_BLOCKS 4
#define PANEL_BLOCKS_MAX 16
#define PANEL_BYTES (512 << 10)
/* Rows whose outputs are put in order together. */
#define SCATTER_ROWS 32
#define SCATTER_ROWS_TILES 128
/* On AMX a panel pays for fewer rows than under vpdpbusd, because up to 16 rows cost the same. Estimated from the time
 * of expanding: no such machine was at hand. */
#define AMX_ROWS_MAX 6

PackedKernels packed_kernels_select(uint32_t cpu) {
    return (PackedKernels){ packed_product_select(cpu), unpack_tile_select(cpu), int8_product_select(cpu) };
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t panel_blocks(const PackedKernels *kernels, size_t k_tiles) {
    const size_t fit = PANEL_BYTES / (k_tiles * INT8_TILE_BYTES);

    if (kernels->product->tile_rows == 1 || fit <= PANEL_BLOCKS)
        return PANEL_BLOCKS;
    return smaller(fit / 2 * 2, PANEL_BLOCKS_MAX);
}

static size_t scatter_rows(const PackedKernels *kernels) {
    return kernels->product->tile_rows == 1 ? SCATTER_ROWS : SCATTER_ROWS_TILES;
}

/* The parts of the scratch: what the product wants, outputs that are not in order, the panel. */
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

/* Outputs of a panel in the order of positions, to their channels. */
static void product_scattered(const PackedKernels *kernels, Int8Weights *panel, const uint32_t *channels,
                              const Int8Rows *rows, float *y, size_t y_stride, const Scratch *scratch) {
    const size_t rows_max = scatter_rows(kernels), n_parts = (rows->rows + rows_max - 1) / rows_max,
                 width = panel->n_blocks * INT8_TILE_OUTPUTS;

    panel->next_bytes = (panel->next_bytes + n_parts - 1) / n_parts;
    for (size_t row = 0; row < rows->rows; row += rows_max) {
        const size_t at = int8_rows_piece(rows, row, 0);
        const Int8Rows some = {
            .rows = smaller(rows->rows - row, rows_max),
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

/**
 * packed_kernels_expanded() - unpack a panel of some blocks into the cache, then multiply all rows by it
 *
 * While a panel is multiplied, the packed bytes of the next one are fetched. rows needs no sums. Thread: any, with a
 * scratch of its own.
 */
void packed_kernels_expanded(const PackedKernels *kernels, const PackedWeights *weights, const Int8Rows *rows,
                             size_t block_begin, size_t block_end, float *y, size_t y_stride, void *scratch) {
    const size_t blocks_max = panel_blocks(kernels, weights->k_tiles);
    const uint64_t *offsets = weights->offsets;
    Scratch parts;

    scratch_parts(kernels, weights->k_tiles, scratch, &parts);
    for (size_t block = block_begin, next; block < block_end; block = next) {
        const size_t first = block * INT8_TILE_OUTPUTS;
        Int8Weights panel = {
            .k = weights->k,
            .k_tiles = weights->k_tiles,
            .n_blocks = smaller(block_end - block, blocks_max),
            .tiles = parts.panel,
            .sums = weights->sums + first,
            .scales = weights->scales + first,
            .bias = weights->bias ? weights->bias + first : NULL,
        };

        panel.n = smaller(weights->n - first, panel.n_blocks * INT8_TILE_OUTPUTS);
        for (size_t b = 0; b < panel.n_blocks; b++)
            kernels->unpack->fn(weights->packed + offsets[block + b], weights->grid, weights->bits[block + b],
                                weights->k_tiles, parts.panel + b * weights->k_tiles * INT8_TILE_BYTES);
        next = block + panel.n_blocks;
        if (next < block_end) {
            panel.next = weights->packed + offsets[next];
            panel.next_bytes = offsets[next + smaller(block_end - next, blocks_max)] - offsets[next];
        }
        if (weights->channels)
            product_scattered(kernels, &panel, weights->channels + first, rows, y, y_stride, &parts);
        else
            kernels->product->fn(&panel, rows, 0, panel.n_blocks, y + first, y_stride, parts.product);
    }
}

size_t packed_kernels_tile_rows(const PackedKernels *kernels, size_t rows) {
    return rows > AMX_ROWS_MAX ? int8_tile_rows(kernels->product, rows) : 1;
}

/* Tiles of rows are for panels alone. */
static bool is_expanded(const PackedKernels *kernels, const Int8Rows *rows, Grid grid, int bits) {
    const size_t most = grid_has_table(grid, bits) ? kernels->few->rows_max_table
                        : bits <= 6                ? kernels->few->rows_max
                                                   : kernels->few->rows_max_wide;

    return rows->tile_rows > 1 || rows->rows > most;
}

/**
 * packed_kernels_run() - each block by whichever is faster for its width and for the number of rows
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
