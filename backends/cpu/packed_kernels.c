#include "backends/cpu/packed_kernels.h"

#include <stdbool.h>

#include "base/cpu.h"

/* Blocks that are expanded together: what the int8 kernels multiply at once. */
#define PANEL_BLOCKS 4
#define PANEL_OUTPUTS (PANEL_BLOCKS * INT8_TILE_OUTPUTS)
/* Rows whose outputs are put in order together. */
#define SCATTER_ROWS 32
/* On AMX a panel pays for fewer rows than under vpdpbusd, because up to 16 rows cost the same. Estimated from the time
 * of expanding: no such machine was at hand. */
#define AMX_ROWS_MAX 6

PackedKernels packed_kernels_select(uint32_t cpu) {
    return (PackedKernels){ packed_product_select(cpu), unpack_tile_select(cpu), int8_product_select(cpu) };
}

size_t packed_kernels_scratch_bytes(size_t k_tiles) {
    return PANEL_BLOCKS * k_tiles * INT8_TILE_BYTES;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Outputs of a panel in the order of positions, to their channels. */
static void product_scattered(const Int8ProductKernel *product, Int8Weights *panel, const uint32_t *channels,
                              const Int8Rows *rows, float *y, size_t y_stride) {
    const size_t n_parts = (rows->rows + SCATTER_ROWS - 1) / SCATTER_ROWS;
    float out[SCATTER_ROWS][PANEL_OUTPUTS];

    panel->next_bytes = (panel->next_bytes + n_parts - 1) / n_parts;
    for (size_t row = 0; row < rows->rows; row += SCATTER_ROWS) {
        const Int8Rows some = {
            .rows = smaller(rows->rows - row, SCATTER_ROWS),
            .stride_bytes = rows->stride_bytes,
            .x = rows->x + row * rows->stride_bytes,
            .scales = rows->scales + row,
            .shifted = rows->shifted ? rows->shifted + row * rows->stride_bytes : NULL,
        };

        product->fn(panel, &some, 0, panel->n_blocks, out[0], PANEL_OUTPUTS);
        if (panel->next)
            panel->next = (const uint8_t *)panel->next + panel->next_bytes;
        for (size_t r = 0; r < some.rows; r++)
            for (size_t p = 0; p < panel->n; p++)
                y[(row + r) * y_stride + channels[p]] = out[r][p];
    }
}

/**
 * packed_kernels_expanded() - unpack a panel of 4 blocks into the cache, then multiply all rows by it
 *
 * While a panel is multiplied, the packed bytes of the next one are fetched. rows needs no sums. Thread: any, with a
 * scratch of its own.
 */
void packed_kernels_expanded(const PackedKernels *kernels, const PackedWeights *weights, const Int8Rows *rows,
                             size_t block_begin, size_t block_end, float *y, size_t y_stride, int8_t *scratch) {
    const uint64_t *offsets = weights->offsets;

    for (size_t block = block_begin, next; block < block_end; block = next) {
        const size_t first = block * INT8_TILE_OUTPUTS;
        Int8Weights panel = {
            .k = weights->k,
            .k_tiles = weights->k_tiles,
            .n_blocks = smaller(block_end - block, PANEL_BLOCKS),
            .tiles = scratch,
            .sums = weights->sums + first,
            .scales = weights->scales + first,
            .bias = weights->bias ? weights->bias + first : NULL,
        };

        panel.n = smaller(weights->n - first, panel.n_blocks * INT8_TILE_OUTPUTS);
        for (size_t b = 0; b < panel.n_blocks; b++)
            kernels->unpack->fn(weights->packed + offsets[block + b], weights->grid, weights->bits[block + b],
                                weights->k_tiles, scratch + b * weights->k_tiles * INT8_TILE_BYTES);
        next = block + panel.n_blocks;
        if (next < block_end) {
            panel.next = weights->packed + offsets[next];
            panel.next_bytes = offsets[next + smaller(block_end - next, PANEL_BLOCKS)] - offsets[next];
        }
        if (weights->channels)
            product_scattered(kernels->product, &panel, weights->channels + first, rows, y, y_stride);
        else
            kernels->product->fn(&panel, rows, 0, panel.n_blocks, y + first, y_stride);
    }
}

static bool is_expanded(const PackedKernels *kernels, size_t rows, Grid grid, int bits) {
    const size_t most = grid_has_table(grid, bits) ? kernels->few->rows_max_table
                        : bits <= 6                ? kernels->few->rows_max
                                                   : kernels->few->rows_max_wide;

    return rows > most || (kernels->product->need & CPU_AMX_INT8 && rows > AMX_ROWS_MAX);
}

/**
 * packed_kernels_run() - each block by whichever is faster for its width and for the number of rows
 * @rows:     with their sums
 * @scratch:  packed_kernels_scratch_bytes(weights->k_tiles)
 */
void packed_kernels_run(const PackedKernels *kernels, const PackedWeights *weights, const Int8Rows *rows,
                        size_t block_begin, size_t block_end, float *y, size_t y_stride, int8_t *scratch) {
    for (size_t block = block_begin, end; block < block_end; block = end) {
        const bool expanded = is_expanded(kernels, rows->rows, weights->grid, weights->bits[block]);

        for (end = block + 1; end < block_end; end++)
            if (is_expanded(kernels, rows->rows, weights->grid, weights->bits[end]) != expanded)
                break;
        if (expanded)
            packed_kernels_expanded(kernels, weights, rows, block, end, y, y_stride, scratch);
        else
            kernels->few->fn(weights, rows, block, end, y, y_stride);
    }
}
