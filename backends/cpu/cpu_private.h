// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of the cpu device. */
#ifndef COORDGEN_BACKENDS_CPU_CPU_PRIVATE_H
#define COORDGEN_BACKENDS_CPU_CPU_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#include "backends/backend.h"
#include "backends/cpu/cpu_shadow.h"
#include "backends/cpu/packed/packed_kernels.h"
#include "backends/cpu/rows/row_ops.h"
#include "base/memory/arena.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"

typedef struct CpuBackend {
    Backend backend;
    const RowOps *row_ops;
    Arena *weights;                    /* of all matrices */
    PackedKernels kernels;             /* product is the one for matrices that are not packed, too */
    bool has_packed;                   /* there was a matrix that is */
    bool has_coding[PACKED_CODINGS_N]; /* and of what widths */
    /* int8[rows_bytes], rows in the layout of the kernel; u8[rows_bytes] of them shifted, where it wants that; f32
     * scales[rows], i32 sums[rows]. */
    AccountedBlock quantized;
    AccountedBlock rotated; /* f32[n_threads][width]: the row that a worker rotates or embeds */
    AccountedBlock scratch; /* [n_threads][scratch_bytes]: of a worker's products */
    size_t max_rows, width, width_padded, rows_bytes, scratch_bytes;
    AccountedBlock attending; /* f32[n_threads][attending_floats]: what attention holds of its rows */
    size_t attending_floats;
    ShadowScratch shadow;
    size_t shadow_inputs, shadow_outputs; /* most that a matrix with a shadow has had; 0: there was none */
    uint64_t n_shadows;                   /* ever made: their ids */
} CpuBackend;

typedef struct LinearFilling LinearFilling;
typedef struct LinearExpansion LinearExpansion;

/* A weight matrix: int8 in the tiles of the int8 products, or packed as it comes from the package. */
struct BackendLinear {
    size_t n, k, k_tiles, n_blocks;
    Int8Weights int8;     /* tiles is NULL when packed */
    PackedWeights packed; /* packed is NULL when not */
    /* packed, channels not in order: positions of the channels of width w are [run_ends[w + 1], run_ends[w]),
     * rising. */
    size_t run_ends[GRID_BITS_MAX + 2];
    uint32_t rotation_block;
    float static_scale; /* of the inputs; 0: dynamic-row */
    Shadow *shadow;     /* NULL: inputs past static_scale are clipped */
    ArenaBlock memory;  /* all arrays of int8 or packed; with an image, those that it does not have */
    void *integers;     /* with their sums: the first of the memory, or the image, or where linear_at() says */
    size_t integers_bytes;
    size_t sums_offset_bytes; /* within the integers */
    Bill image_bill;
    LinearFilling *filling; /* between begin and finish; else NULL */
    /* The package has packed bytes, and memory int8 tiles: how these are made of those (cpu_expand.c); or NULL. */
    LinearExpansion *expansion;
    /* Of a static shape (backends/npu): rows that a product computes, and how many of them at a time; 0: any number. */
    size_t static_rows, rows_at_once;
};

/* Scratch for the shadows of another device's matrices, of which it has got some more. As the device's reserve(). */
int cpu_reserve_shadows_of(Backend *backend, const Backend *owner, ErrText *err);

/* Rows in parallel, or inline when the work is small. */
void cpu_run_rows(Backend *backend, WorkerFn *fn, void *arg, size_t rows, size_t values_per_row);

/* gate = activation(gate) * up, for the device's table (cpu_backend.c). */
void cpu_gated(Backend *backend, float *gate, const float *up, size_t rows, size_t n, bool gelu);

/* Rows x heads of a KV head that attention takes together: enough to make up for expanding a block of keys and values
 * to float32, and what it holds of them stays in the second-level cache. */
#define ATTENTION_ROW_HEADS 192

/* Rows of a batch against their caches, for the device's table (cpu_attention.c). */
void cpu_kv_store(Backend *backend, const AttentionCall *call);
void cpu_attention(Backend *backend, const AttentionCall *call);
void cpu_kv_move(Backend *backend, const KvLayer *layer, const KvMove *moves, size_t n_moves);
/* What cpu_attention() needs of scratch a thread, for n_group query heads a KV head. */
size_t cpu_attention_scratch_floats(size_t n_group, size_t head_size);

/* Weights into the device's memory, for the device's table (cpu_weights.c). */
int cpu_linear_begin(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err);
void cpu_linear_fill(const Backend *backend, BackendLinear *linear, size_t block_begin, size_t block_end,
                     const void *bytes);
int cpu_linear_finish(Backend *backend, BackendLinear *linear, const LinearSource *source, ErrText *err);
void cpu_linears_begun(Backend *backend);
int cpu_linear_new(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err);
BackendLinear *cpu_linear_free(BackendLinear *linear);
#define CPU_IMAGE_LAYOUT "cpu 1" /* of BackendLinear.integers */
const void *cpu_linear_image(const BackendLinear *linear, size_t *len_bytesp);
int cpu_linear_image_bytes(const LinearSource *source, size_t *len_bytesp, ErrText *err);
void cpu_linear_at(BackendLinear *linear, void *integers);

/* Packed bytes of a package become int8 tiles in memory (cpu_expand.c). 0, BACKEND_E_MEMORY, -ENOMEM. */
int expansion_new(LinearExpansion **expansionp, AccountTable *accounts, const PackPlan *plan);
LinearExpansion *expansion_free(LinearExpansion *expansion);
/* Bytes of the package before a block. */
size_t expansion_offset(const LinearExpansion *expansion, size_t block);
/* For the table: as BackendOps.linear_expand. */
bool cpu_linear_expand(const Backend *backend, const BackendLinear *linear, size_t block_begin, size_t block_end,
                       const void *bytes, void *integers);

/* The operators on matrices, for the device's table (cpu_linear.c). */
int cpu_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in, size_t rows,
               const LinearOutput *out, ErrText *err);
/* A product of a static shape: so many rows are multiplied, however many the call has. begin makes int8 of those of the
 * call, run multiplies them and rows of zeros, on any thread, end adds the shadows: in this order, and one call at a
 * time for a device. The caller fills in all but `rows_in`. */
#define CPU_LINEARS_MAX 4
typedef struct CpuStaticCall {
    CpuBackend *self;
    const BackendLinear *const *linears; /* [n], of static activations */
    size_t n;
    const float *x;             /* f32[rows][k] */
    float *y[CPU_LINEARS_MAX];  /* f32[rows][n_i] */
    size_t rows, rows_of_shape; /* the latter at least the former */
    size_t rows_at_once;        /* a part of rows_of_shape; of more than INT8_TILE_ROWS a multiple of these */
    float *padded;              /* f32[rows_of_shape][greatest n_i]: products, where the call has fewer rows */
    Int8Rows rows_in;
} CpuStaticCall;
void cpu_static_begin(CpuStaticCall *call);
void cpu_static_run(void *call); /* a CpuStaticCall */
/* Instead of run, by all threads of the device's pool; rows_of_shape is rows, and `padded` and rows_at_once are not
 * looked at. Thread: the one that computes. */
void cpu_static_run_split(CpuStaticCall *call);
int cpu_static_end(CpuStaticCall *call, ErrText *err);
bool cpu_has_pieces(const BackendLinear *linear);
int cpu_linear_pieces(Backend *backend, const BackendLinear *linear, const float *x, size_t rows, size_t n_outputs,
                      float *scratch, LinearPieceFn *take, void *arg, ErrText *err);
void cpu_embed_ahead(const BackendLinear *embedding, const uint32_t *tokens, size_t rows);
void cpu_embed(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows, float factor,
               float *y);

#endif
