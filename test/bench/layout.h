// SPDX-License-Identifier: Apache-2.0
/* Weight layouts of the layout bench behind one table. Memory holds the same matrix of random weights many times in
 * each layout, so that a product reads weights from no cache. */
#ifndef COORDGEN_BENCH_LAYOUT_H
#define COORDGEN_BENCH_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/format/grid.h"

/* Shape of the matrix: 5 blocks of 16 channels, so that a mix of 5 widths has a block of each. */
#define LAYOUT_N 80
#define LAYOUT_K 1536

typedef struct Layout Layout;

/* Kernels that a set of features selects; the layout owns the pointers. */
typedef struct LayoutKernels {
    const char *product_name;
    const char *expand_name; /* NULL: the layout is int8 already */
    const void *product;
    const void *expand;
} LayoutKernels;

typedef struct LayoutSpec {
    const char *name;     /* "packed" */
    const char *variant;  /* "4 bits" */
    const int8_t *widths; /* widths of the channels, [5] in turn */
    const struct LayoutOps *ops;
    Grid grid;
} LayoutSpec;

size_t layout_n_specs(void);
const LayoutSpec *layout_spec_at(size_t index);

/* Fills the arena (aligned to 64 bytes), which must have room for one, with copies of the matrix. */
Layout *layout_new(const LayoutSpec *spec, uint8_t *arena, size_t arena_bytes);
Layout *layout_free(Layout *layout);

LayoutKernels layout_kernels(const Layout *layout, uint32_t cpu);
size_t layout_n_matrices(const Layout *layout);
/* Returns the bytes of one matrix in the arena. */
size_t layout_matrix_bytes(const Layout *layout);
/* Returns the bytes a weight in a file: the matrix, its scales, widths and other values of a channel. */
double layout_stored_bytes(const Layout *layout);
/* Tells whether all channels have one width. */
bool layout_is_uniform(const Layout *layout);

/* Computes one row times channels [0, n_channels) of a matrix of the arena, y[LAYOUT_N]; n_channels is a multiple of
 * 16. */
void layout_product(const Layout *layout, const LayoutKernels *kernels, size_t matrix, size_t n_channels, float *y);
/* Expands the channels to int8 registers or tiles, a block of 16 channels or a channel at a time, in a buffer that is
 * overwritten each time. */
void layout_expand(const Layout *layout, const LayoutKernels *kernels, size_t matrix, size_t n_channels);
/* Computes the expected result of layout_product() in double from the layout's weights, and the size of the addends. */
void layout_reference(const Layout *layout, double *y, double *sizes);

#endif
