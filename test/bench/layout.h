// SPDX-License-Identifier: Apache-2.0
/* Weight layouts of the layout bench behind one table: the same matrix of random weights in each of them, many times
 * over in memory, so that a product reads weights that no cache holds. */
#ifndef COORDGEN_BENCH_LAYOUT_H
#define COORDGEN_BENCH_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/format/grid.h"

/* One matrix: 5 blocks of 16 channels, so that a mix of 5 widths has a block of each. */
#define LAYOUT_N 80
#define LAYOUT_K 1536

typedef struct Layout Layout;

/* The kernels that a set of features selects; the pointers are the layout's own. */
typedef struct LayoutKernels {
    const char *product_name;
    const char *expand_name; /* NULL: the layout is int8 already */
    const void *product;
    const void *expand;
} LayoutKernels;

typedef struct LayoutSpec {
    const char *name;     /* "packed" */
    const char *variant;  /* "4 bits" */
    const int8_t *widths; /* of the channels, [5] in turn */
    const struct LayoutOps *ops;
    Grid grid;
} LayoutSpec;

size_t layout_n_specs(void);
const LayoutSpec *layout_spec_at(size_t index);

/* Fills the arena (aligned to 64) with copies of the matrix; it must hold one at least. */
Layout *layout_new(const LayoutSpec *spec, uint8_t *arena, size_t arena_bytes);
Layout *layout_free(Layout *layout);

LayoutKernels layout_kernels(const Layout *layout, uint32_t cpu);
size_t layout_n_matrices(const Layout *layout);
/* Bytes of one matrix in the arena. */
size_t layout_matrix_bytes(const Layout *layout);
/* Bytes a weight in a file: the matrix, and its scales, widths and what else the layout keeps of a channel. */
double layout_stored_bytes(const Layout *layout);
/* Whether all channels have one width. */
bool layout_is_uniform(const Layout *layout);

/* One row times channels [0, n_channels) of a matrix of the arena, y[LAYOUT_N]; n_channels is a multiple of 16. */
void layout_product(const Layout *layout, const LayoutKernels *kernels, size_t matrix, size_t n_channels, float *y);
/* The channels as int8 registers or tiles in a buffer of 16 channels (a block) or one channel at a time, which the next
 * ones overwrite. */
void layout_expand(const Layout *layout, const LayoutKernels *kernels, size_t matrix, size_t n_channels);
/* What layout_product() must give, computed in double from what the layout holds; and the size of what is added up. */
void layout_reference(const Layout *layout, double *y, double *sizes);

#endif
