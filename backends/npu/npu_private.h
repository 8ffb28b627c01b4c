// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of the npu device. */
#ifndef COORDGEN_BACKENDS_NPU_NPU_PRIVATE_H
#define COORDGEN_BACKENDS_NPU_NPU_PRIVATE_H

#include "backends/cpu/cpu_private.h"
#include "backends/npu/npu_queue.h"
#include "backends/npu/npu_shapes.h"

enum {
    NPU_PREFILL_ROWS = 256,   /* of a graph for prompts */
    NPU_DECODE_ROWS = 32,     /* of a graph for decoding: the tile below which rows cost nothing */
    NPU_ATTENTION_ROWS = 256, /* row-heads of a tile of attention */
    NPU_ATTENTION_TILES = 3,  /* under way: by keys, between the products, by values */
    NPU_SLOTS = 2,            /* products under way: one runs, and one is made ready meanwhile */
};

_Static_assert(NPU_SLOTS <= BACKEND_PRODUCT_SLOTS_MAX && NPU_SLOTS < NPU_QUEUE_DEPTH, "nobody waits to submit");

/* The product of a call, for the queue's thread. */
typedef struct GraphRun {
    CpuStaticCall call;
    BackendTime time; /* out */
} GraphRun;

/* Scratch for one of several products that are under way; the matrices are those of NpuBackend.unit. */
typedef struct NpuSlot {
    Backend *unit;         /* NULL: not reserved */
    AccountedBlock padded; /* f32[NPU_PREFILL_ROWS][outputs] */
    GraphRun run;
    const BackendLinear *linears[CPU_LINEARS_MAX];
    NpuProduct *tried; /* records the product's time; or NULL */
    uint64_t number;   /* of the queue's command */
} NpuSlot;

/* Row-heads of attention from their queries to their outputs. */
typedef struct NpuAttentionState {
    const AttentionOps *ops;
    AttentionQueries queries;
    AttentionTotals totals;
} NpuAttentionState;

/* What a tile of attention leaves. */
typedef struct NpuAttentionTile {
    AttentionSums sums;
    AttentionMask *masks;
    uint8_t *scratch; /* [groups of row-heads][npu_attention_group_bytes()] */
} NpuAttentionTile;

/* Memory of attention's tiles (npu_attention.c). */
typedef struct NpuAttention {
    const AttentionOps *ops; /* the host's */
    AccountedBlock memory;
    NpuAttentionState states[NPU_ATTENTION_TILES];
    NpuAttentionTile tiles[NPU_ATTENTION_TILES];
} NpuAttention;

typedef struct NpuBackend {
    Backend backend;
    Backend *unit; /* has the matrices of static tensors; backend.host has the others */
    NpuQueue *queue;
    NpuShapes shapes;
    bool is_reserved;
    size_t step_rows;             /* that memory is reserved for */
    AccountedBlock padded;        /* f32[NPU_PREFILL_ROWS][outputs]: for calls with fewer rows than their graph */
    size_t outputs;               /* of the largest matrix of a static tensor so far */
    NpuSlot slots[NPU_SLOTS + 1]; /* the last one is for products that the processors run */
    NpuAttention attention;       /* reserved together with the slots */
} NpuBackend;

static inline NpuBackend *npu(Backend *backend) {
    return (NpuBackend *)backend;
}

/* --- npu_slots.c: the parts of the table for products that are under way, and their scratch ----------------------- */

/* Makes room for the outputs of a whole graph, by the largest matrix so far. 0, BACKEND_E_MEMORY, -ENOMEM. */
int npu_reserve_padded(NpuBackend *self, AccountedBlock *padded, ErrText *err);
void npu_execute(void *graph_run); /* runs a GraphRun: an NpuCommandFn */
/* Reserves the slots' scratch if steps have rows for more than one graph, else frees it. As the device's reserve(). */
int npu_slots_reserve(NpuBackend *self, const BackendShape *of_graph, ErrText *err);
/* Makes the slots' scratch large enough for the unit's matrices, after a new one. */
int npu_slots_follow(NpuBackend *self, ErrText *err);
void npu_slots_deinit(NpuBackend *self);
void npu_slots_add_counts(const NpuBackend *self, ShadowCounts *counts);

bool npu_is_queued(const BackendLinear *linear);
void npu_linear_submit(Backend *backend, size_t slot, const BackendLinear *const *linears, size_t n, const float *x,
                       size_t rows, float *const *y);
bool npu_linear_is_over(const Backend *backend, size_t slot);
int npu_linear_end(Backend *backend, size_t slot, BackendTime *time, ErrText *err);
int npu_linear_here(Backend *backend, const BackendLinear *const *linears, size_t n, const float *x, size_t rows,
                    float *const *y, BackendTime *time, ErrText *err);

/* --- npu_attention.c ---------------------------------------------------------------------------------------------- */

/* Returns the bytes of a group of row-heads, as AttentionOps takes them. */
static inline size_t npu_attention_group_bytes(const AttentionOps *ops) {
    return (attention_scratch_bytes(ops->group) + 63) / 64 * 64;
}

/* Reserves the tiles. As the device's reserve(). */
int npu_attention_reserve(NpuBackend *self, size_t head_size, ErrText *err);
void npu_attention_deinit(NpuAttention *attention);
/* BackendOps.attention_joint. */
void npu_attention_joint(Backend *backend, const AttentionCall *call, BackendJointTime *time);

#endif
