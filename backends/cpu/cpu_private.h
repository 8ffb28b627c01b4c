// SPDX-License-Identifier: Apache-2.0
/* Declarations shared by the files of the cpu device. */
#ifndef COORDGEN_BACKENDS_CPU_CPU_PRIVATE_H
#define COORDGEN_BACKENDS_CPU_CPU_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#include "backends/backend.h"
#include "backends/cpu/attention/attention.h"
#include "backends/cpu/cpu_shadow.h"
#include "backends/cpu/packed/packed_kernels.h"
#include "backends/cpu/rows/row_ops.h"
#include "base/memory/arena.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"

typedef struct CpuBackend {
    Backend backend;
    const RowOps *row_ops;
    const AttentionOps *attention;
    Arena *weights;                    /* memory of all matrices */
    PackedKernels kernels;             /* `product` also serves matrices that are not packed */
    bool has_packed;                   /* a packed matrix has been made */
    bool has_coding[PACKED_CODINGS_N]; /* codings of the matrices so far */
    /* int8[rows_bytes], rows in the kernel's layout; u8[rows_bytes], the same rows shifted, if the kernel wants that;
     * f32 scales[rows], i32 sums[rows]. */
    AccountedBlock quantized;
    AccountedBlock rotated; /* f32[n_threads][width]: the row that a worker rotates or embeds */
    AccountedBlock scratch; /* [n_threads][scratch_bytes]: scratch of a worker's products */
    size_t max_rows, width, width_padded, rows_bytes, scratch_bytes;
    AccountedBlock attending; /* attention's state of its rows (cpu_attention.c) */
    ShadowScratch shadow;
    size_t shadow_inputs, shadow_outputs; /* maximum of matrices with a shadow so far; 0: there was none */
    uint64_t n_shadows;                   /* number of shadows ever made, which gives their ids */
} CpuBackend;

typedef struct LinearFilling LinearFilling;
typedef struct LinearExpansion LinearExpansion;

/* A weight matrix: int8 in the tiles of the int8 products, or packed as it comes from the package. */
struct BackendLinear {
    size_t n, k, k_tiles, n_blocks;
    Int8Weights int8;     /* tiles is NULL when packed */
    PackedWeights packed; /* packed is NULL when not */
    /* packed, channels out of order: positions of the channels of width w are [run_ends[w + 1], run_ends[w]),
     * rising. */
    size_t run_ends[GRID_BITS_MAX + 2];
    uint32_t rotation_block;
    float static_scale; /* scale of the inputs; 0: dynamic-row */
    Shadow *shadow;     /* NULL: inputs past static_scale are clipped */
    ArenaBlock memory;  /* all arrays of int8 or packed; with an image, those outside it */
    /* integers and their sums: at the start of the memory, in the image, or at linear_at()'s address */
    void *integers;
    size_t integers_bytes;
    size_t sums_offset_bytes; /* within the integers */
    Bill image_bill;
    LinearFilling *filling; /* between begin and finish; else NULL */
    /* Expansion of the package's packed bytes to int8 tiles in memory (cpu_expand.c); or NULL. */
    LinearExpansion *expansion;
    /* Static shape (backends/npu): the rows of a product, and how many of them at a time; 0: any number. */
    size_t static_rows, rows_at_once;
};

/* Reserves scratch for the shadows of another device's matrices after that device got new ones. Returns as
 * reserve(). */
int cpu_reserve_shadows_of(Backend *backend, const Backend *owner, ErrText *err);

/* Runs fn over the rows on the pool, or inline if the work is small. */
void cpu_run_rows(Backend *backend, WorkerFn *fn, void *arg, size_t rows, size_t values_per_row);

/* gate = activation(gate) * up, for the device's table (cpu_backend.c). */
void cpu_gated(Backend *backend, float *gate, const float *up, size_t rows, size_t n, bool gelu);

/* Rows x heads of a KV head that attention takes together: they share the reading of keys and values, and attention's
 * state of them stays in the second-level cache. */
#define ATTENTION_ROW_HEADS 192

/* Attention of a batch's rows to their caches, for the device's table (cpu_attention.c). */
void cpu_kv_store(Backend *backend, const AttentionCall *call);
void cpu_attention(Backend *backend, const AttentionCall *call);
void cpu_kv_move(Backend *backend, const KvLayer *layer, const KvMove *moves, size_t n_moves);
/* Returns cpu_attention()'s memory for all threads, with n_group query heads per KV head. */
size_t cpu_attention_bytes(const CpuBackend *self, size_t n_group, size_t head_size);

/* Loading of weights into the device's memory, for the device's table (cpu_weights.c). */
int cpu_linear_begin(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err);
void cpu_linear_fill(const Backend *backend, BackendLinear *linear, size_t block_begin, size_t block_end,
                     const void *bytes);
int cpu_linear_finish(Backend *backend, BackendLinear *linear, const LinearSource *source, ErrText *err);
void cpu_linears_begun(Backend *backend);
int cpu_linear_new(Backend *backend, BackendLinear **linearp, const LinearSource *source, ErrText *err);
BackendLinear *cpu_linear_free(BackendLinear *linear);
#define CPU_IMAGE_LAYOUT "cpu 1" /* layout of BackendLinear.integers */
const void *cpu_linear_image(const BackendLinear *linear, size_t *len_bytesp);
int cpu_linear_image_bytes(const LinearSource *source, size_t *len_bytesp, ErrText *err);
void cpu_linear_at(BackendLinear *linear, void *integers);

/* Expansion of a package's packed bytes to int8 tiles in memory (cpu_expand.c). Returns 0, BACKEND_E_MEMORY or
 * -ENOMEM. */
int expansion_new(LinearExpansion **expansionp, AccountTable *accounts, const PackPlan *plan);
LinearExpansion *expansion_free(LinearExpansion *expansion);
/* Returns the number of the package's bytes before a block. */
size_t expansion_offset(const LinearExpansion *expansion, size_t block);
/* BackendOps.linear_expand of the device's table. */
bool cpu_linear_expand(const Backend *backend, const BackendLinear *linear, size_t block_begin, size_t block_end,
                       const void *bytes, void *integers);

/* Operators on matrices, for the device's table (cpu_linear.c). */
int cpu_linear(Backend *backend, const BackendLinear *const *linears, size_t n, const LinearInput *in, size_t rows,
               const LinearOutput *out, ErrText *err);
/* A product of a static shape: it multiplies rows_of_shape rows, however many the call has. begin quantizes the call's
 * rows. run multiplies them and rows of zeros, on any thread. end adds the shadows. The caller calls them in this
 * order, one call at a time per device, and fills in all fields but `rows_in`. */
#define CPU_LINEARS_MAX 4
typedef struct CpuStaticCall {
    CpuBackend *self;
    const BackendLinear *const *linears; /* [n], with static activations */
    size_t n;
    const float *x;             /* f32[rows][k] */
    float *y[CPU_LINEARS_MAX];  /* f32[rows][n_i] */
    size_t rows, rows_of_shape; /* rows <= rows_of_shape */
    size_t rows_at_once;        /* divides rows_of_shape; a multiple of INT8_TILE_ROWS if more than that */
    float *padded;              /* f32[rows_of_shape][greatest n_i]: products of a call with fewer rows */
    Int8Rows rows_in;
} CpuStaticCall;
void cpu_static_begin(CpuStaticCall *call);
void cpu_static_run(void *call); /* a CpuStaticCall */
/* Replaces run by a product on all threads of the device's pool. rows_of_shape must equal rows; `padded` and
 * rows_at_once are ignored. Thread: the computing one. */
void cpu_static_run_split(CpuStaticCall *call);
int cpu_static_end(CpuStaticCall *call, ErrText *err);
bool cpu_has_pieces(const BackendLinear *linear);
int cpu_linear_pieces(Backend *backend, const BackendLinear *linear, const float *x, size_t rows, size_t n_outputs,
                      float *scratch, LinearPieceFn *take, void *arg, ErrText *err);
void cpu_embed_ahead(const BackendLinear *embedding, const uint32_t *tokens, size_t rows);
void cpu_embed(Backend *backend, const BackendLinear *embedding, const uint32_t *tokens, size_t rows, float factor,
               float *y);

#endif
