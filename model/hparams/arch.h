// SPDX-License-Identifier: Apache-2.0
/* Architectures as data: the tensors of a model in order of use, and the operators of one layer. A new architecture is
 * a table in arch.c, not code. */
#ifndef COORDGEN_MODEL_ARCH_H
#define COORDGEN_MODEL_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/hparams/tensor_role.h"

/* Sizes that shapes consist of; their values are in Hparams. */
typedef enum Dim {
    DIM_NONE,
    DIM_EMBD,     /* width of the residual stream */
    DIM_HEADS,    /* n_heads * head_size */
    DIM_KV,       /* n_kv_heads * head_size */
    DIM_FF,       /* width of the feed-forward block */
    DIM_VOCAB,    /* tokens */
    DIM_HEAD,     /* head_size */
    DIM_ROT_HALF, /* n_rot / 2 */
} Dim;

typedef struct ArchTensor {
    TensorRole role;
    Dim in;  /* ne[0] */
    Dim out; /* ne[1]; DIM_NONE: a vector of float32 */
    bool optional;
} ArchTensor;

typedef struct ArchTensors {
    const ArchTensor *tensors;
    size_t n;
} ArchTensors;

#define ARCH_PARTS_MAX 3

/* A tensor of a file that holds the rows of several tensors of the architecture, one part behind the other. The reader
 * uses it if the file lacks the first of these tensors. */
typedef struct ArchFused {
    const char *name; /* without "blk.N." */
    size_t n;
    TensorRole parts[ARCH_PARTS_MAX];
} ArchFused;

/* Row buffers that operators read and write. */
typedef enum Slot {
    SLOT_X,    /* residual stream, DIM_EMBD */
    SLOT_NORM, /* its normalised copy, DIM_EMBD */
    SLOT_Q,    /* queries, DIM_HEADS; the attention's output takes their place */
    SLOT_K,    /* keys, DIM_KV */
    SLOT_V,    /* values, DIM_KV */
    SLOT_GATE, /* DIM_FF */
    SLOT_UP,   /* DIM_FF */
    SLOT_OUT,  /* addend of the stream, DIM_EMBD */
    _SLOT_N,
} Slot;

/* Member of a set of slots. */
#define SLOT_BIT(slot) (UINT64_C(1) << (slot))

typedef enum OpKind {
    OP_NORM,      /* out[0] = norm(in) * w[0] (+ its bias), by the architecture's norm */
    OP_LINEAR,    /* out[i] = in x w[i] (+ its bias), i below n: products that share their input */
    OP_HEAD_NORM, /* in = RMSNorm of each head of in, * w[0] */
    OP_ROPE,      /* rotary positions on the heads of in */
    OP_ATTENTION, /* Q, K, V -> Q: appends K and V to the cache, attends */
    OP_GATED,     /* GATE = activation(GATE) * UP */
    OP_ACTIVATE,  /* in = activation(in) */
    OP_ADD,       /* X += in */
} OpKind;

#define OP_WEIGHTS_MAX 4

typedef struct ArchOp {
    OpKind kind;
    Slot in;
    size_t n; /* weights */
    Slot out[OP_WEIGHTS_MAX];
    TensorRole w[OP_WEIGHTS_MAX];
} ArchOp;

typedef enum RopeStyle {
    ROPE_NORM, /* pairs (2i, 2i + 1) */
    ROPE_NEOX, /* pairs (i, i + n_rot / 2) */
} RopeStyle;

typedef enum NormKind {
    NORM_RMS,
    NORM_LAYER, /* subtracts the mean; every norm has a bias */
} NormKind;

typedef enum Activation {
    ACTIVATION_SILU,
    ACTIVATION_GELU, /* tanh form */
} Activation;

/* Layers that see only a window, whose size a key gives. */
typedef enum WindowKind {
    WINDOW_NONE,    /* none: a key that asks for a window is refused */
    WINDOW_ALL,     /* all */
    WINDOW_PATTERN, /* all but the last of each so many */
} WindowKind;

typedef struct ArchWindow {
    WindowKind kind;
    uint32_t pattern, positions; /* used without a key; 0: no window */
} ArchWindow;

/* Keys that some architectures apply and the others refuse. */
typedef enum ArchReads {
    ARCH_READS_ATTENTION_CAP = 1, /* attn_logit_softcapping */
    ARCH_READS_LOGIT_CAP = 2,     /* final_logit_softcapping */
} ArchReads;

typedef struct Arch {
    const char *name;  /* general.architecture */
    ArchTensors first; /* before the layers, in file order */
    ArchTensors layer; /* of every layer, in order of use */
    ArchTensors last;  /* after the layers */
    const ArchFused *fused;
    size_t n_fused;
    const ArchOp *ops; /* operators of a layer */
    size_t n_ops;
    RopeStyle rope;
    NormKind norm;
    Activation activation;
    bool scales_embedding; /* x = embedding * sqrt(n_embd) */
    ArchWindow window;
    bool has_local_rope; /* sliding-window layers have their own RoPE base, 10000, and are not stretched */
    uint32_t reads;      /* ArchReads */
    float attention_cap_default, logit_cap_default; /* used without a key; 0: no cap */
    uint32_t no_rope_every; /* the last of so many layers has no rotary positions; 0: all have */
    uint32_t n_layers_wide; /* layers of the size whose query scale is by n_embd / n_heads, not head_size; 0: none */
} Arch;

/* NULL when unknown. */
const Arch *arch_find(const char *name);
#define ARCH_NAMES_MAX 256
/* "llama, qwen2 and gemma3": all that there are. Returns buffer. */
const char *arch_names(char *buffer, size_t len_bytes);

/* "attn_q.weight" for what has weights, "rope", "attention", "gated", "activation", "add". */
const char *arch_op_name(const ArchOp *op);
/* The slots that an operator reads, and those that it writes, as sets; one may be in both. */
uint64_t arch_op_reads(const ArchOp *op);
uint64_t arch_op_writes(const ArchOp *op);
Dim slot_dim(Slot slot);

#endif
