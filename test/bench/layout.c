// SPDX-License-Identifier: Apache-2.0
#include "test/bench/layout.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/int8/int8_product.h"
#include "backends/cpu/packed/packed_product.h"
#include "backends/cpu/packed/unpack_tile.h"
#include "base/cleanup.h"
#include "quant/format/ggml_type.h"
#include "quant/format/pack.h"
#include "test/bench/int4_int8.h"
#include "test/bench/kquant.h"
#include "tools/bench/machine.h"

enum {
    K_TILES = LAYOUT_K / INT8_TILE_INPUTS,
    N_BLOCKS = LAYOUT_N / INT8_TILE_OUTPUTS,
    K_BLOCKS = LAYOUT_K / KQUANT_BLOCK
};
_Static_assert(LAYOUT_K % KQUANT_BLOCK == 0 && LAYOUT_N % (5 * INT8_TILE_OUTPUTS) == 0, "whole blocks only");

struct Layout {
    const LayoutSpec *spec;
    int8_t bits[LAYOUT_N];
    int8_t *q;      /* [LAYOUT_N][LAYOUT_K] levels */
    float *w;       /* K-quants: [LAYOUT_N][LAYOUT_K] as dequantized; or NULL */
    float *scales;  /* [LAYOUT_N] by channel */
    uint8_t *arena; /* the caller's */
    size_t matrix_bytes, n_matrices;

    int8_t *x; /* [LAYOUT_K] */
    uint8_t *x_unsigned;
    int32_t x_sum;
    float x_scale;
    KquantInputs *kquant_inputs; /* [K_BLOCKS] of the same row */

    int8_t *scratch; /* output of layout_expand(): a block of 16 channels */
    uint8_t factors[K_BLOCKS * 16];
    int32_t sums[LAYOUT_N];
    PackPlan plan;
    float *position_scales;         /* [LAYOUT_N] in the plan's order */
    uint64_t offsets[LAYOUT_N + 1]; /* INT4/INT8 */
};

typedef struct LayoutOps {
    double channel_bytes; /* in a file, beside the matrix */
    /* Lays the matrix out; the caller frees. Sets matrix_bytes. */
    uint8_t *(*make)(Layout *layout);
    LayoutKernels (*kernels)(uint32_t cpu);
    void (*product)(const Layout *layout, const void *kernel, const uint8_t *matrix, size_t n_channels, float *y);
    void (*expand)(const Layout *layout, const void *kernel, const uint8_t *matrix, size_t n_channels);
} LayoutOps;

/* --- int8 tiles: what the products read --------------------------------------------------------------------------- */

static uint8_t *tiles_make(Layout *layout) {
    int8_t *tiles;

    layout->matrix_bytes = (size_t)LAYOUT_N * LAYOUT_K;
    tiles = machine_alloc(layout->matrix_bytes);
    int8_weights_layout(layout->q, LAYOUT_N, LAYOUT_K, 0, N_BLOCKS, tiles, layout->sums);
    return (uint8_t *)tiles;
}

static LayoutKernels tiles_kernels(uint32_t cpu) {
    const Int8ProductKernel *product = int8_product_select(cpu);

    return (LayoutKernels){ product->name, NULL, product, NULL };
}

static Int8Rows input_row(const Layout *layout) {
    return (Int8Rows){
        .rows = 1,
        .tile_rows = 1,
        .stride_bytes = LAYOUT_K,
        .x = layout->x,
        .scales = &layout->x_scale,
        .sums = &layout->x_sum,
        .shifted = layout->x_unsigned,
    };
}

static void tiles_product(const Layout *layout, const void *kernel, const uint8_t *matrix, size_t n_channels,
                          float *y) {
    const Int8ProductKernel *product = kernel;
    const Int8Rows row = input_row(layout);
    const Int8Weights weights = {
        .n = LAYOUT_N,
        .k = LAYOUT_K,
        .k_tiles = K_TILES,
        .n_blocks = N_BLOCKS,
        .tiles = (const int8_t *)matrix,
        .sums = layout->sums,
        .scales = layout->scales,
    };

    product->fn(&weights, &row, 0, n_channels / INT8_TILE_OUTPUTS, y, LAYOUT_N, layout->scratch);
}

static const LayoutOps tiles_ops = { 4, tiles_make, tiles_kernels, tiles_product, NULL };

/* --- packed (pack.h) ---------------------------------------------------------------------------------------- */

static uint8_t *packed_make(Layout *layout) {
    uint8_t *packed;

    if (pack_plan_init(&layout->plan, layout->spec->grid, layout->bits, LAYOUT_N, LAYOUT_K))
        abort();
    layout->matrix_bytes = layout->plan.offsets[layout->plan.n_blocks];
    packed = machine_alloc(layout->matrix_bytes);
    layout->position_scales = machine_alloc(LAYOUT_N * sizeof(float));
    for (size_t block = 0; block < layout->plan.n_blocks; block++)
        pack_block(&layout->plan, block, layout->q, packed);
    for (size_t p = 0; p < LAYOUT_N; p++) {
        const uint32_t channel = layout->plan.channels[p];

        layout->position_scales[p] = layout->scales[channel];
        layout->sums[p] = 0;
        for (size_t i = 0; i < LAYOUT_K; i++)
            layout->sums[p] += layout->q[channel * LAYOUT_K + i];
    }
    return packed;
}

static LayoutKernels packed_kernels(uint32_t cpu) {
    const PackedProductKernel *product = packed_product_select(cpu);
    const UnpackTileKernel *expand = unpack_tile_select(cpu);

    return (LayoutKernels){ product->name, expand->name, product, expand };
}

static void packed_product(const Layout *layout, const void *kernel, const uint8_t *matrix, size_t n_channels,
                           float *y) {
    const PackedProductKernel *product = kernel;
    const PackPlan *plan = &layout->plan;
    const Int8Rows row = input_row(layout);
    const PackedWeights weights = {
        .n = LAYOUT_N,
        .k = LAYOUT_K,
        .k_tiles = K_TILES,
        .n_blocks = N_BLOCKS,
        .packed = matrix,
        .offsets = plan->offsets,
        .bits = plan->bits,
        .grid = plan->grid,
        .channels = plan->in_order ? NULL : plan->channels,
        .sums = layout->sums,
        .scales = layout->position_scales,
    };

    product->fn(&weights, &row, 0, n_channels / PACK_BLOCK_CHANNELS, y, LAYOUT_N);
}

static void packed_expand(const Layout *layout, const void *kernel, const uint8_t *matrix, size_t n_channels) {
    const UnpackTileKernel *expand = kernel;

    for (size_t block = 0; block < n_channels / PACK_BLOCK_CHANNELS; block++)
        expand->fn(matrix + layout->plan.offsets[block], layout->plan.grid, layout->plan.bits[block], K_TILES,
                   layout->scratch);
}

static const LayoutOps packed_ops = { 5, packed_make, packed_kernels, packed_product, packed_expand };

/* --- INT4/INT8 mixed ---------------------------------------------------------------------------------------------- */

static uint8_t *mixed_make(Layout *layout) {
    uint8_t *rows;

    int4_int8_layout(layout->bits, LAYOUT_N, LAYOUT_K, layout->offsets);
    layout->matrix_bytes = layout->offsets[LAYOUT_N];
    rows = machine_alloc(layout->matrix_bytes);
    int4_int8_pack(layout->q, layout->bits, LAYOUT_N, LAYOUT_K, layout->offsets, rows, layout->sums);
    return rows;
}

static LayoutKernels mixed_kernels(uint32_t cpu) {
    const Int4Int8Ops *ops = int4_int8_select(cpu);

    return (LayoutKernels){ ops->name, ops->name, ops, ops };
}

static Int4Int8Matrix mixed_matrix(const Layout *layout, const uint8_t *matrix) {
    return (Int4Int8Matrix){ LAYOUT_N,        LAYOUT_K, LAYOUT_K,     layout->bits,
                             layout->offsets, matrix,   layout->sums, layout->scales };
}

static void mixed_product(const Layout *layout, const void *kernel, const uint8_t *matrix, size_t n_channels,
                          float *y) {
    const Int4Int8Ops *ops = kernel;
    const Int4Int8Matrix weights = mixed_matrix(layout, matrix);
    const Int4Int8Input input = { layout->x, layout->x_unsigned, layout->x_sum, layout->x_scale };

    ops->product(&weights, &input, 0, n_channels, y);
}

static void mixed_expand(const Layout *layout, const void *kernel, const uint8_t *matrix, size_t n_channels) {
    const Int4Int8Ops *ops = kernel;
    const Int4Int8Matrix weights = mixed_matrix(layout, matrix);

    for (size_t o = 0; o < n_channels; o++)
        ops->expand(&weights, o, layout->scratch);
}

static const LayoutOps mixed_ops = { 5, mixed_make, mixed_kernels, mixed_product, mixed_expand };

/* --- K-quants ----------------------------------------------------------------------------------------------------- */

static uint8_t *kquant_make(Layout *layout) {
    const int bits = layout->bits[0];
    const size_t row_bytes = K_BLOCKS * kquant_block_bytes(bits);
    uint8_t *blocks;

    layout->matrix_bytes = LAYOUT_N * row_bytes;
    blocks = machine_alloc(layout->matrix_bytes);
    layout->w = machine_alloc((size_t)LAYOUT_N * LAYOUT_K * sizeof(float));
    for (size_t i = 0; i < (size_t)LAYOUT_N * LAYOUT_K; i++)
        layout->w[i] = (float)layout->q[i] * layout->scales[i / LAYOUT_K];
    for (size_t o = 0; o < LAYOUT_N; o++)
        kquant_pack_row(layout->w + o * LAYOUT_K, LAYOUT_K, bits, blocks + o * row_bytes);
    ggml_dequantize(bits == 4 ? GGML_Q4_K : GGML_Q5_K, blocks, layout->w, (size_t)LAYOUT_N * LAYOUT_K);
    return blocks;
}

static LayoutKernels kquant_kernels(uint32_t cpu) {
    const KquantOps *ops = kquant_select(cpu);

    return (LayoutKernels){ ops->name, ops->name, ops, ops };
}

static void kquant_product(const Layout *layout, const void *kernel, const uint8_t *matrix, size_t n_channels,
                           float *y) {
    const KquantOps *ops = kernel;
    const KquantMatrix weights = { layout->bits[0], LAYOUT_N, K_BLOCKS, matrix };

    ops->product(&weights, layout->kquant_inputs, 0, n_channels, y);
}

static void kquant_expand(const Layout *layout, const void *kernel, const uint8_t *matrix, size_t n_channels) {
    const KquantOps *ops = kernel;
    const KquantMatrix weights = { layout->bits[0], LAYOUT_N, K_BLOCKS, matrix };

    for (size_t o = 0; o < n_channels; o++)
        ops->expand(&weights, o, (uint8_t *)layout->scratch, (uint8_t *)layout->factors);
}

static const LayoutOps kquant_ops = { 0, kquant_make, kquant_kernels, kquant_product, kquant_expand };

/* --- the table ---------------------------------------------------------------------------------------------------- */

#define WIDTHS(bits) static const int8_t widths_##bits[] = { bits, bits, bits, bits, bits }
WIDTHS(1);
WIDTHS(2);
WIDTHS(3);
WIDTHS(4);
WIDTHS(5);
WIDTHS(6);
WIDTHS(7);
WIDTHS(8);
static const int8_t widths_mixed[] = { 5, 3, 7, 4, 6 };

static const LayoutSpec specs[] = {
    { "int8 tiles", "8 bits", widths_8, &tiles_ops, GRID_UNIFORM },
    { "packed", "1 bit", widths_1, &packed_ops, GRID_UNIFORM },
    { "packed", "2 bits", widths_2, &packed_ops, GRID_UNIFORM },
    { "packed", "3 bits", widths_3, &packed_ops, GRID_UNIFORM },
    { "packed", "4 bits", widths_4, &packed_ops, GRID_UNIFORM },
    { "packed", "5 bits", widths_5, &packed_ops, GRID_UNIFORM },
    { "packed", "6 bits", widths_6, &packed_ops, GRID_UNIFORM },
    { "packed", "7 bits", widths_7, &packed_ops, GRID_UNIFORM },
    { "packed", "8 bits", widths_8, &packed_ops, GRID_UNIFORM },
    { "packed", "3 to 7 bits", widths_mixed, &packed_ops, GRID_UNIFORM },
    { "packed-normal", "2 bits", widths_2, &packed_ops, GRID_NORMAL },
    { "packed-normal", "3 bits", widths_3, &packed_ops, GRID_NORMAL },
    { "packed-normal", "4 bits", widths_4, &packed_ops, GRID_NORMAL },
    { "packed-normal", "5 bits", widths_5, &packed_ops, GRID_NORMAL },
    { "packed-normal", "6 bits", widths_6, &packed_ops, GRID_NORMAL },
    { "packed-normal", "7 bits", widths_7, &packed_ops, GRID_NORMAL },
    { "packed-normal", "3 to 7 bits", widths_mixed, &packed_ops, GRID_NORMAL },
    { "INT4/INT8", "4 bits", widths_4, &mixed_ops, GRID_UNIFORM },
    { "INT4/INT8", "5 to 8 bits", widths_8, &mixed_ops, GRID_UNIFORM },
    { "INT4/INT8", "3 to 7 bits", widths_mixed, &mixed_ops, GRID_UNIFORM },
    { "K-quant", "Q4_K", widths_4, &kquant_ops, GRID_UNIFORM },
    { "K-quant", "Q5_K", widths_5, &kquant_ops, GRID_UNIFORM },
};

size_t layout_n_specs(void) {
    return ARRAY_LEN(specs);
}

const LayoutSpec *layout_spec_at(size_t index) {
    assert(index < ARRAY_LEN(specs));
    return &specs[index];
}

/* --- one of them in memory ---------------------------------------------------------------------------------------- */

static uint32_t draw(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void draw_matrix(Layout *layout) {
    uint32_t seed = 20240607;

    for (size_t o = 0; o < LAYOUT_N; o++) {
        const int bits = layout->bits[o] = layout->spec->widths[o % 5];
        const int lowest = bits == GRID_BITS_MAX; /* code 0 of 8 bits is no level */

        layout->scales[o] = (float)(draw(&seed) % 1000 + 500) * 1e-6f;
        for (size_t i = 0; i < LAYOUT_K; i++)
            layout->q[o * LAYOUT_K + i] = (int8_t)grid_level(
                layout->spec->grid, lowest + (int)(draw(&seed) % (uint32_t)((1 << bits) - lowest)), bits);
    }
}

static void draw_input(Layout *layout) {
    _cleanup_(freep) float *x = machine_alloc(LAYOUT_K * sizeof(*x));
    uint32_t seed = 20240608;

    layout->x_scale = 0.0173f;
    for (size_t i = 0; i < LAYOUT_K; i++) {
        layout->x[i] = (int8_t)((int)(draw(&seed) % 255) - 127);
        layout->x_unsigned[i] = (uint8_t)(layout->x[i] + 128);
        layout->x_sum += layout->x[i];
        x[i] = layout->x_scale * (float)layout->x[i];
    }
    kquant_quantize(x, LAYOUT_K, layout->kquant_inputs);
}

Layout *layout_new(const LayoutSpec *spec, uint8_t *arena, size_t arena_bytes) {
    Layout *layout = machine_alloc(sizeof(*layout));
    _cleanup_(freep) uint8_t *matrix = NULL;

    *layout = (Layout){ .spec = spec, .arena = arena };
    layout->q = machine_alloc((size_t)LAYOUT_N * LAYOUT_K);
    layout->scales = machine_alloc(LAYOUT_N * sizeof(float));
    layout->x = machine_alloc(LAYOUT_K);
    layout->x_unsigned = machine_alloc(LAYOUT_K);
    layout->kquant_inputs = machine_alloc(K_BLOCKS * sizeof(KquantInputs));
    layout->scratch = machine_alloc(INT8_TILE_OUTPUTS * LAYOUT_K + INT8_TILE_SCRATCH_BYTES);
    draw_matrix(layout);
    draw_input(layout);
    matrix = spec->ops->make(layout);
    assert(layout->matrix_bytes % 64 == 0 && arena_bytes >= layout->matrix_bytes);
    layout->n_matrices = arena_bytes / layout->matrix_bytes;
    for (size_t m = 0; m < layout->n_matrices; m++)
        memcpy(arena + m * layout->matrix_bytes, matrix, layout->matrix_bytes);
    return layout;
}

Layout *layout_free(Layout *layout) {
    if (!layout)
        return NULL;
    pack_plan_deinit(&layout->plan);
    free(layout->q);
    free(layout->w);
    free(layout->scales);
    free(layout->x);
    free(layout->x_unsigned);
    free(layout->kquant_inputs);
    free(layout->scratch);
    free(layout->position_scales);
    free(layout);
    return NULL;
}

LayoutKernels layout_kernels(const Layout *layout, uint32_t cpu) {
    return layout->spec->ops->kernels(cpu);
}

size_t layout_n_matrices(const Layout *layout) {
    return layout->n_matrices;
}

size_t layout_matrix_bytes(const Layout *layout) {
    return layout->matrix_bytes;
}

double layout_stored_bytes(const Layout *layout) {
    return (double)layout->matrix_bytes / (LAYOUT_N * LAYOUT_K) + layout->spec->ops->channel_bytes / LAYOUT_K;
}

bool layout_is_uniform(const Layout *layout) {
    return layout->spec->widths != widths_mixed;
}

void layout_product(const Layout *layout, const LayoutKernels *kernels, size_t matrix, size_t n_channels, float *y) {
    layout->spec->ops->product(layout, kernels->product, layout->arena + matrix * layout->matrix_bytes, n_channels, y);
}

void layout_expand(const Layout *layout, const LayoutKernels *kernels, size_t matrix, size_t n_channels) {
    layout->spec->ops->expand(layout, kernels->expand, layout->arena + matrix * layout->matrix_bytes, n_channels);
}

void layout_reference(const Layout *layout, double *y, double *sizes) {
    for (size_t o = 0; o < LAYOUT_N; o++) {
        y[o] = sizes[o] = 0;
        for (size_t i = 0; i < LAYOUT_K; i++) {
            const KquantInputs *inputs = &layout->kquant_inputs[i / KQUANT_BLOCK];
            const size_t place = kquant_input_offset(i % KQUANT_BLOCK / KQUANT_SUB) + i % KQUANT_SUB;
            const double term =
                layout->w ? (double)layout->w[o * LAYOUT_K + i] * inputs->x[place] * inputs->scale
                          : (double)layout->q[o * LAYOUT_K + i] * layout->x[i] * (layout->scales[o] * layout->x_scale);

            y[o] += term;
            sizes[o] += fabs(term);
        }
    }
}
