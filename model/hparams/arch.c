// SPDX-License-Identifier: Apache-2.0
#include "model/hparams/arch.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

static const Dim slot_dims[_SLOT_N] = {
    [SLOT_X] = DIM_EMBD, [SLOT_NORM] = DIM_EMBD, [SLOT_Q] = DIM_HEADS, [SLOT_K] = DIM_KV,
    [SLOT_V] = DIM_KV,   [SLOT_GATE] = DIM_FF,   [SLOT_UP] = DIM_FF,   [SLOT_OUT] = DIM_EMBD,
};

/* Tensors, { role, in, out, optional } ---------------------------------------------------------------------------- */

static const ArchTensor common_first[] = {
    { ROLE_TOKEN_EMBD, DIM_EMBD, DIM_VOCAB, false },
    { ROLE_ROPE_FREQS, DIM_ROT_HALF, DIM_NONE, true },
};

static const ArchTensor llama_first[] = {
    { ROLE_TOKEN_EMBD, DIM_EMBD, DIM_VOCAB, false },
    { ROLE_ROPE_FREQS, DIM_ROT_HALF, DIM_NONE, true },
    { ROLE_ROPE_FACTORS_LONG, DIM_ROT_HALF, DIM_NONE, true },
    { ROLE_ROPE_FACTORS_SHORT, DIM_ROT_HALF, DIM_NONE, true },
};

static const ArchTensor phi3_first[] = {
    { ROLE_TOKEN_EMBD, DIM_EMBD, DIM_VOCAB, false },
    { ROLE_ROPE_FACTORS_LONG, DIM_ROT_HALF, DIM_NONE, true },
    { ROLE_ROPE_FACTORS_SHORT, DIM_ROT_HALF, DIM_NONE, true },
};

/* The keys give the rotary frequencies. */
static const ArchTensor plain_first[] = {
    { ROLE_TOKEN_EMBD, DIM_EMBD, DIM_VOCAB, false },
};

static const ArchTensor common_last[] = {
    { ROLE_OUTPUT_NORM, DIM_EMBD, DIM_NONE, false },
    { ROLE_OUTPUT, DIM_EMBD, DIM_VOCAB, true }, /* absent when tied: token_embd serves */
};

/* Layer of Llama, and of Mistral and Llama 2; some have biases. */
static const ArchTensor llama_layer[] = {
    { ROLE_ATTN_NORM, DIM_EMBD, DIM_NONE, false },
    { ROLE_ATTN_Q, DIM_EMBD, DIM_HEADS, false },
    { ROLE_ATTN_Q_BIAS, DIM_HEADS, DIM_NONE, true },
    { ROLE_ATTN_K, DIM_EMBD, DIM_KV, false },
    { ROLE_ATTN_K_BIAS, DIM_KV, DIM_NONE, true },
    { ROLE_ATTN_V, DIM_EMBD, DIM_KV, false },
    { ROLE_ATTN_V_BIAS, DIM_KV, DIM_NONE, true },
    { ROLE_ATTN_OUTPUT, DIM_HEADS, DIM_EMBD, false },
    { ROLE_ATTN_OUTPUT_BIAS, DIM_EMBD, DIM_NONE, true },
    { ROLE_FFN_NORM, DIM_EMBD, DIM_NONE, false },
    { ROLE_FFN_GATE, DIM_EMBD, DIM_FF, false },
    { ROLE_FFN_GATE_BIAS, DIM_FF, DIM_NONE, true },
    { ROLE_FFN_UP, DIM_EMBD, DIM_FF, false },
    { ROLE_FFN_UP_BIAS, DIM_FF, DIM_NONE, true },
    { ROLE_FFN_DOWN, DIM_FF, DIM_EMBD, false },
    { ROLE_FFN_DOWN_BIAS, DIM_EMBD, DIM_NONE, true },
};

/* Layer of phi3, gemma and smollm3. */
static const ArchTensor plain_layer[] = {
    { ROLE_ATTN_NORM, DIM_EMBD, DIM_NONE, false },   { ROLE_ATTN_Q, DIM_EMBD, DIM_HEADS, false },
    { ROLE_ATTN_Q_BIAS, DIM_HEADS, DIM_NONE, true }, { ROLE_ATTN_K, DIM_EMBD, DIM_KV, false },
    { ROLE_ATTN_K_BIAS, DIM_KV, DIM_NONE, true },    { ROLE_ATTN_V, DIM_EMBD, DIM_KV, false },
    { ROLE_ATTN_V_BIAS, DIM_KV, DIM_NONE, true },    { ROLE_ATTN_OUTPUT, DIM_HEADS, DIM_EMBD, false },
    { ROLE_FFN_NORM, DIM_EMBD, DIM_NONE, false },    { ROLE_FFN_GATE, DIM_EMBD, DIM_FF, false },
    { ROLE_FFN_UP, DIM_EMBD, DIM_FF, false },        { ROLE_FFN_DOWN, DIM_FF, DIM_EMBD, false },
};

static const ArchTensor qwen2_layer[] = {
    { ROLE_ATTN_NORM, DIM_EMBD, DIM_NONE, false },    { ROLE_ATTN_Q, DIM_EMBD, DIM_HEADS, false },
    { ROLE_ATTN_Q_BIAS, DIM_HEADS, DIM_NONE, false }, { ROLE_ATTN_K, DIM_EMBD, DIM_KV, false },
    { ROLE_ATTN_K_BIAS, DIM_KV, DIM_NONE, false },    { ROLE_ATTN_V, DIM_EMBD, DIM_KV, false },
    { ROLE_ATTN_V_BIAS, DIM_KV, DIM_NONE, false },    { ROLE_ATTN_OUTPUT, DIM_HEADS, DIM_EMBD, false },
    { ROLE_FFN_NORM, DIM_EMBD, DIM_NONE, false },     { ROLE_FFN_GATE, DIM_EMBD, DIM_FF, false },
    { ROLE_FFN_UP, DIM_EMBD, DIM_FF, false },         { ROLE_FFN_DOWN, DIM_FF, DIM_EMBD, false },
};

static const ArchTensor phi2_last[] = {
    { ROLE_OUTPUT_NORM, DIM_EMBD, DIM_NONE, false },
    { ROLE_OUTPUT_NORM_BIAS, DIM_EMBD, DIM_NONE, false },
    { ROLE_OUTPUT, DIM_EMBD, DIM_VOCAB, false },
    { ROLE_OUTPUT_BIAS, DIM_VOCAB, DIM_NONE, false },
};

static const ArchTensor phi2_layer[] = {
    { ROLE_ATTN_NORM, DIM_EMBD, DIM_NONE, false },    { ROLE_ATTN_NORM_BIAS, DIM_EMBD, DIM_NONE, false },
    { ROLE_ATTN_Q, DIM_EMBD, DIM_HEADS, false },      { ROLE_ATTN_Q_BIAS, DIM_HEADS, DIM_NONE, true },
    { ROLE_ATTN_K, DIM_EMBD, DIM_KV, false },         { ROLE_ATTN_K_BIAS, DIM_KV, DIM_NONE, true },
    { ROLE_ATTN_V, DIM_EMBD, DIM_KV, false },         { ROLE_ATTN_V_BIAS, DIM_KV, DIM_NONE, true },
    { ROLE_FFN_UP, DIM_EMBD, DIM_FF, false },         { ROLE_FFN_UP_BIAS, DIM_FF, DIM_NONE, false },
    { ROLE_ATTN_OUTPUT, DIM_HEADS, DIM_EMBD, false }, { ROLE_ATTN_OUTPUT_BIAS, DIM_EMBD, DIM_NONE, false },
    { ROLE_FFN_DOWN, DIM_FF, DIM_EMBD, false },       { ROLE_FFN_DOWN_BIAS, DIM_EMBD, DIM_NONE, false },
};

static const ArchTensor gemma2_layer[] = {
    { ROLE_ATTN_NORM, DIM_EMBD, DIM_NONE, false },      { ROLE_ATTN_Q, DIM_EMBD, DIM_HEADS, false },
    { ROLE_ATTN_Q_BIAS, DIM_HEADS, DIM_NONE, true },    { ROLE_ATTN_K, DIM_EMBD, DIM_KV, false },
    { ROLE_ATTN_K_BIAS, DIM_KV, DIM_NONE, true },       { ROLE_ATTN_V, DIM_EMBD, DIM_KV, false },
    { ROLE_ATTN_V_BIAS, DIM_KV, DIM_NONE, true },       { ROLE_ATTN_OUTPUT, DIM_HEADS, DIM_EMBD, false },
    { ROLE_POST_ATTN_NORM, DIM_EMBD, DIM_NONE, false }, { ROLE_FFN_NORM, DIM_EMBD, DIM_NONE, false },
    { ROLE_FFN_GATE, DIM_EMBD, DIM_FF, false },         { ROLE_FFN_UP, DIM_EMBD, DIM_FF, false },
    { ROLE_FFN_DOWN, DIM_FF, DIM_EMBD, false },         { ROLE_POST_FFN_NORM, DIM_EMBD, DIM_NONE, false },
};

static const ArchTensor gemma3_layer[] = {
    { ROLE_ATTN_NORM, DIM_EMBD, DIM_NONE, false },     { ROLE_ATTN_Q, DIM_EMBD, DIM_HEADS, false },
    { ROLE_ATTN_K, DIM_EMBD, DIM_KV, false },          { ROLE_ATTN_V, DIM_EMBD, DIM_KV, false },
    { ROLE_ATTN_Q_NORM, DIM_HEAD, DIM_NONE, false },   { ROLE_ATTN_K_NORM, DIM_HEAD, DIM_NONE, false },
    { ROLE_ATTN_OUTPUT, DIM_HEADS, DIM_EMBD, false },  { ROLE_POST_ATTN_NORM, DIM_EMBD, DIM_NONE, false },
    { ROLE_FFN_NORM, DIM_EMBD, DIM_NONE, false },      { ROLE_FFN_GATE, DIM_EMBD, DIM_FF, false },
    { ROLE_FFN_UP, DIM_EMBD, DIM_FF, false },          { ROLE_FFN_DOWN, DIM_FF, DIM_EMBD, false },
    { ROLE_POST_FFN_NORM, DIM_EMBD, DIM_NONE, false },
};

static const ArchTensor qwen3_layer[] = {
    { ROLE_ATTN_NORM, DIM_EMBD, DIM_NONE, false },   { ROLE_ATTN_Q, DIM_EMBD, DIM_HEADS, false },
    { ROLE_ATTN_Q_BIAS, DIM_HEADS, DIM_NONE, true }, { ROLE_ATTN_K, DIM_EMBD, DIM_KV, false },
    { ROLE_ATTN_K_BIAS, DIM_KV, DIM_NONE, true },    { ROLE_ATTN_V, DIM_EMBD, DIM_KV, false },
    { ROLE_ATTN_V_BIAS, DIM_KV, DIM_NONE, true },    { ROLE_ATTN_Q_NORM, DIM_HEAD, DIM_NONE, false },
    { ROLE_ATTN_K_NORM, DIM_HEAD, DIM_NONE, false }, { ROLE_ATTN_OUTPUT, DIM_HEADS, DIM_EMBD, false },
    { ROLE_FFN_NORM, DIM_EMBD, DIM_NONE, false },    { ROLE_FFN_GATE, DIM_EMBD, DIM_FF, false },
    { ROLE_FFN_UP, DIM_EMBD, DIM_FF, false },        { ROLE_FFN_DOWN, DIM_FF, DIM_EMBD, false },
};

/* Tensors of a file that are several of these ---------------------------------------------------------------------- */

#define FUSED_QKV                                                                                                      \
    { "attn_qkv.weight", 3, { ROLE_ATTN_Q, ROLE_ATTN_K, ROLE_ATTN_V } }, {                                             \
        "attn_qkv.bias", 3, {                                                                                          \
            ROLE_ATTN_Q_BIAS, ROLE_ATTN_K_BIAS, ROLE_ATTN_V_BIAS                                                       \
        }                                                                                                              \
    }

static const ArchFused common_fused[] = { FUSED_QKV };
static const ArchFused phi3_fused[] = { FUSED_QKV, { "ffn_up.weight", 2, { ROLE_FFN_GATE, ROLE_FFN_UP } } };

/* Operators of a layer, in order ----------------------------------------------------------------------------------- */

#define NORM(from, to, role)                                                                                           \
    {                                                                                                                  \
        .kind = OP_NORM, .in = from, .n = 1, .out = { to }, .w = { role }                                              \
    }
#define LINEAR(from, to, role)                                                                                         \
    {                                                                                                                  \
        .kind = OP_LINEAR, .in = from, .n = 1, .out = { to }, .w = { role }                                            \
    }
#define HEAD_NORM(slot, role)                                                                                          \
    {                                                                                                                  \
        .kind = OP_HEAD_NORM, .in = slot, .n = 1, .out = { slot }, .w = { role }                                       \
    }
#define ROPE(slot)                                                                                                     \
    {                                                                                                                  \
        .kind = OP_ROPE, .in = slot, .out = { slot }                                                                   \
    }
#define ADD(slot)                                                                                                      \
    {                                                                                                                  \
        .kind = OP_ADD, .in = slot, .out = { SLOT_X }                                                                  \
    }
#define QKV                                                                                                            \
    {                                                                                                                  \
        .kind = OP_LINEAR, .in = SLOT_NORM, .n = 3, .out = { SLOT_Q, SLOT_K, SLOT_V },                                 \
        .w = { ROLE_ATTN_Q, ROLE_ATTN_K, ROLE_ATTN_V },                                                                \
    }
#define GATE_UP                                                                                                        \
    {                                                                                                                  \
        .kind = OP_LINEAR, .in = SLOT_NORM, .n = 2, .out = { SLOT_GATE, SLOT_UP }, .w = { ROLE_FFN_GATE, ROLE_FFN_UP } \
    }
#define ATTENTION                                                                                                      \
    {                                                                                                                  \
        .kind = OP_ATTENTION, .in = SLOT_Q, .out = { SLOT_Q }                                                          \
    }
#define GATED                                                                                                          \
    {                                                                                                                  \
        .kind = OP_GATED, .in = SLOT_GATE, .out = { SLOT_GATE }                                                        \
    }

static const ArchOp llama_ops[] = {
    /* qwen2 too: its biases belong to its linears */
    NORM(SLOT_X, SLOT_NORM, ROLE_ATTN_NORM),
    QKV,
    ROPE(SLOT_Q),
    ROPE(SLOT_K),
    ATTENTION,
    LINEAR(SLOT_Q, SLOT_OUT, ROLE_ATTN_OUTPUT),
    ADD(SLOT_OUT),
    NORM(SLOT_X, SLOT_NORM, ROLE_FFN_NORM),
    GATE_UP,
    GATED,
    LINEAR(SLOT_GATE, SLOT_OUT, ROLE_FFN_DOWN),
    ADD(SLOT_OUT),
};

static const ArchOp qwen3_ops[] = {
    NORM(SLOT_X, SLOT_NORM, ROLE_ATTN_NORM),
    QKV,
    HEAD_NORM(SLOT_Q, ROLE_ATTN_Q_NORM),
    HEAD_NORM(SLOT_K, ROLE_ATTN_K_NORM),
    ROPE(SLOT_Q),
    ROPE(SLOT_K),
    ATTENTION,
    LINEAR(SLOT_Q, SLOT_OUT, ROLE_ATTN_OUTPUT),
    ADD(SLOT_OUT),
    NORM(SLOT_X, SLOT_NORM, ROLE_FFN_NORM),
    GATE_UP,
    GATED,
    LINEAR(SLOT_GATE, SLOT_OUT, ROLE_FFN_DOWN),
    ADD(SLOT_OUT),
};

static const ArchOp gemma3_ops[] = {
    NORM(SLOT_X, SLOT_NORM, ROLE_ATTN_NORM),
    QKV,
    HEAD_NORM(SLOT_Q, ROLE_ATTN_Q_NORM),
    HEAD_NORM(SLOT_K, ROLE_ATTN_K_NORM),
    ROPE(SLOT_Q),
    ROPE(SLOT_K),
    ATTENTION,
    LINEAR(SLOT_Q, SLOT_OUT, ROLE_ATTN_OUTPUT),
    NORM(SLOT_OUT, SLOT_OUT, ROLE_POST_ATTN_NORM),
    ADD(SLOT_OUT),
    NORM(SLOT_X, SLOT_NORM, ROLE_FFN_NORM),
    GATE_UP,
    GATED,
    LINEAR(SLOT_GATE, SLOT_OUT, ROLE_FFN_DOWN),
    NORM(SLOT_OUT, SLOT_OUT, ROLE_POST_FFN_NORM),
    ADD(SLOT_OUT),
};

/* Attention and feed-forward see the same norm, so their products share its quantization. */
static const ArchOp phi2_ops[] = {
    NORM(SLOT_X, SLOT_NORM, ROLE_ATTN_NORM),
    {
        .kind = OP_LINEAR,
        .in = SLOT_NORM,
        .n = 4,
        .out = { SLOT_Q, SLOT_K, SLOT_V, SLOT_GATE },
        .w = { ROLE_ATTN_Q, ROLE_ATTN_K, ROLE_ATTN_V, ROLE_FFN_UP },
    },
    ROPE(SLOT_Q),
    ROPE(SLOT_K),
    ATTENTION,
    LINEAR(SLOT_Q, SLOT_OUT, ROLE_ATTN_OUTPUT),
    ADD(SLOT_OUT),
    { .kind = OP_ACTIVATE, .in = SLOT_GATE, .out = { SLOT_GATE } },
    LINEAR(SLOT_GATE, SLOT_OUT, ROLE_FFN_DOWN),
    ADD(SLOT_OUT),
};

static const ArchOp gemma2_ops[] = {
    NORM(SLOT_X, SLOT_NORM, ROLE_ATTN_NORM),
    QKV,
    ROPE(SLOT_Q),
    ROPE(SLOT_K),
    ATTENTION,
    LINEAR(SLOT_Q, SLOT_OUT, ROLE_ATTN_OUTPUT),
    NORM(SLOT_OUT, SLOT_OUT, ROLE_POST_ATTN_NORM),
    ADD(SLOT_OUT),
    NORM(SLOT_X, SLOT_NORM, ROLE_FFN_NORM),
    GATE_UP,
    GATED,
    LINEAR(SLOT_GATE, SLOT_OUT, ROLE_FFN_DOWN),
    NORM(SLOT_OUT, SLOT_OUT, ROLE_POST_FFN_NORM),
    ADD(SLOT_OUT),
};

#define TENSORS(list)                                                                                                  \
    { list, ARRAY_LEN(list) }
#define TABLES(first_tensors, layer_tensors, last_tensors, fused_tensors, layer_ops)                                   \
    .first = TENSORS(first_tensors), .layer = TENSORS(layer_tensors), .last = TENSORS(last_tensors),                   \
    .fused = fused_tensors, .n_fused = ARRAY_LEN(fused_tensors), .ops = layer_ops, .n_ops = ARRAY_LEN(layer_ops)

static const Arch archs[] = {
    { .name = "llama",
      TABLES(llama_first, llama_layer, common_last, common_fused, llama_ops),
      .rope = ROPE_NORM,
      .activation = ACTIVATION_SILU,
      .window.kind = WINDOW_ALL },
    { .name = "qwen2",
      TABLES(common_first, qwen2_layer, common_last, common_fused, llama_ops),
      .rope = ROPE_NEOX,
      .activation = ACTIVATION_SILU },
    { .name = "qwen3",
      TABLES(plain_first, qwen3_layer, common_last, common_fused, qwen3_ops),
      .rope = ROPE_NEOX,
      .activation = ACTIVATION_SILU },
    { .name = "phi3",
      TABLES(phi3_first, plain_layer, common_last, phi3_fused, llama_ops),
      .rope = ROPE_NEOX,
      .activation = ACTIVATION_SILU,
      .window.kind = WINDOW_ALL },
    { .name = "phi2",
      TABLES(plain_first, phi2_layer, phi2_last, common_fused, phi2_ops),
      .rope = ROPE_NEOX,
      .norm = NORM_LAYER,
      .activation = ACTIVATION_GELU },
    { .name = "gemma3",
      TABLES(common_first, gemma3_layer, common_last, common_fused, gemma3_ops),
      .rope = ROPE_NEOX,
      .activation = ACTIVATION_GELU,
      .scales_embedding = true,
      .window.kind = WINDOW_PATTERN,
      .window.pattern = 6,
      .has_local_rope = true,
      .reads = ARCH_READS_LOGIT_CAP,
      .n_layers_wide = 62 },
    { .name = "gemma2",
      TABLES(plain_first, gemma2_layer, common_last, common_fused, gemma2_ops),
      .rope = ROPE_NEOX,
      .activation = ACTIVATION_GELU,
      .scales_embedding = true,
      .window.kind = WINDOW_PATTERN,
      .window.pattern = 2,
      .window.positions = 4096,
      .reads = ARCH_READS_ATTENTION_CAP | ARCH_READS_LOGIT_CAP,
      .attention_cap_default = 50,
      .logit_cap_default = 30,
      .n_layers_wide = 46 },
    { .name = "smollm3",
      TABLES(plain_first, plain_layer, common_last, common_fused, llama_ops),
      .rope = ROPE_NORM,
      .activation = ACTIVATION_SILU,
      .no_rope_every = 4 },
    { .name = "gemma",
      TABLES(plain_first, plain_layer, common_last, common_fused, llama_ops),
      .rope = ROPE_NEOX,
      .activation = ACTIVATION_GELU,
      .scales_embedding = true },
};

const Arch *arch_find(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(archs); i++)
        if (!strcmp(archs[i].name, name))
            return &archs[i];
    return NULL;
}

const char *arch_names(char *buffer, size_t len_bytes) {
    size_t at = 0;

    buffer[0] = 0;
    for (size_t i = 0; i < ARRAY_LEN(archs) && at < len_bytes; i++)
        at += (size_t)snprintf(buffer + at, len_bytes - at, "%s%s",
                               !i                         ? ""
                               : i + 1 < ARRAY_LEN(archs) ? ", "
                                                          : " and ",
                               archs[i].name);
    return buffer;
}

uint64_t arch_op_reads(const ArchOp *op) {
    switch (op->kind) {
    case OP_ATTENTION:
        return SLOT_BIT(op->in) | SLOT_BIT(SLOT_K) | SLOT_BIT(SLOT_V);
    case OP_GATED:
        return SLOT_BIT(op->in) | SLOT_BIT(SLOT_UP);
    case OP_ADD:
        return SLOT_BIT(op->in) | SLOT_BIT(SLOT_X);
    case OP_NORM:
    case OP_LINEAR:
    case OP_HEAD_NORM:
    case OP_ROPE:
    case OP_ACTIVATE:
        break;
    }
    return SLOT_BIT(op->in);
}

uint64_t arch_op_writes(const ArchOp *op) {
    uint64_t slots = op->n ? 0 : SLOT_BIT(op->out[0]);

    for (size_t i = 0; i < op->n; i++)
        slots |= SLOT_BIT(op->out[i]);
    return slots;
}

const char *arch_op_name(const ArchOp *op) {
    static const char *const names[] = { [OP_ROPE] = "rope",
                                         [OP_ATTENTION] = "attention",
                                         [OP_GATED] = "gated",
                                         [OP_ACTIVATE] = "activation",
                                         [OP_ADD] = "add" };

    return op->n ? tensor_role_name(op->w[0]) : names[op->kind];
}

Dim slot_dim(Slot slot) {
    return slot_dims[slot];
}
