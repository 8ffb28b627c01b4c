// SPDX-License-Identifier: Apache-2.0
/* Weight layouts of the layout bench behind one table. Each holds the same matrix of random weights, many times over in
 * memory, so that a product reads weights that no cache holds. */
#ifndef COORDGEN_BENCH_LAYOUT_H
#define COORDGEN_BENCH_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/format/grid.h"

/* Size of a matrix: 5 blocks of 16 channels, so that a mix of 5 widths has a block of each. */
#define LAYOUT_N 80
#define LAYOUT_K 1536

typedef struct Layout Layout;

/* Kernels that a set of features selects; each layout has its own type behind the pointers. */
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

/* Fills the arena (aligned to 64) with copies of the matrix; there must be room for at least one. */
Layout *layout_new(const LayoutSpec *spec, uint8_t *arena, size_t arena_bytes);
Layout *layout_free(Layout *layout);

LayoutKernels layout_kernels(const Layout *layout, uint32_t cpu);
size_t layout_n_matrices(const Layout *layout);
/* Returns the bytes of one matrix in the arena. */
size_t layout_matrix_bytes(const Layout *layout);
/* Returns the bytes per weight in a file, including scales, widths and all other data of a channel. */
double layout_stored_bytes(const Layout *layout);
/* Returns whether all channels have one width. */
bool layout_is_uniform(const Layout *layout);

/* Multiplies a row by channels [0, n_channels) of a matrix of the arena, y[LAYOUT_N]; n_channels is a multiple of
 * 16. */
void layout_product(const Layout *layout, const LayoutKernels *kernels, size_t matrix, size_t n_channels, float *y);
/* Expands the channels to int8 registers or tiles in a buffer of 16 channels (a block) or one channel, which is
 * overwritten each time. */
void layout_expand(const Layout *layout, const LayoutKernels *kernels, size_t matrix, size_t n_channels);
/* Computes the expected layout_product() in double from the layout's content, and the magnitude of the summands. */
void layout_reference(const Layout *layout, double *y, double *sizes);

#endif
