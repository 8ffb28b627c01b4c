// SPDX-License-Identifier: Apache-2.0
/* Roles of a model's tensors, and their names in a file. */
#ifndef COORDGEN_MODEL_TENSOR_ROLE_H
#define COORDGEN_MODEL_TENSOR_ROLE_H

#include <stdbool.h>
#include <stddef.h>

/* The purpose of a tensor. */
typedef enum TensorRole {
    ROLE_NONE,
    ROLE_TOKEN_EMBD,
    ROLE_ROPE_FREQS,
    ROLE_ROPE_FACTORS_LONG,
    ROLE_ROPE_FACTORS_SHORT,
    ROLE_ATTN_NORM,
    ROLE_ATTN_NORM_BIAS,
    ROLE_ATTN_Q,
    ROLE_ATTN_Q_BIAS,
    ROLE_ATTN_K,
    ROLE_ATTN_K_BIAS,
    ROLE_ATTN_V,
    ROLE_ATTN_V_BIAS,
    ROLE_ATTN_Q_NORM,
    ROLE_ATTN_K_NORM,
    ROLE_ATTN_OUTPUT,
    ROLE_ATTN_OUTPUT_BIAS,
    ROLE_POST_ATTN_NORM,
    ROLE_FFN_NORM,
    ROLE_FFN_GATE,
    ROLE_FFN_GATE_BIAS,
    ROLE_FFN_UP,
    ROLE_FFN_UP_BIAS,
    ROLE_FFN_DOWN,
    ROLE_FFN_DOWN_BIAS,
    ROLE_POST_FFN_NORM,
    ROLE_OUTPUT_NORM,
    ROLE_OUTPUT_NORM_BIAS,
    ROLE_OUTPUT,
    ROLE_OUTPUT_BIAS,
    _ROLE_N,
} TensorRole;

/* "attn_q.weight", "attn_q.bias"; without "blk.N." */
const char *tensor_role_name(TensorRole role);
/* Whether the tensor is a matrix of a product (its bias and norms are not). */
bool tensor_role_is_linear(TensorRole role);
/* Whether the tensor is the embedding or the head: matrices over the vocabulary. */
static inline bool tensor_role_is_embedding(TensorRole role) {
    return role == ROLE_TOKEN_EMBD || role == ROLE_OUTPUT;
}
/* Gives the bias of a linear or a norm, or ROLE_NONE. */
TensorRole tensor_role_bias(TensorRole role);
/* Gives the full name of a tensor; layer below 0 for tensors outside the layers. Returns buffer. */
const char *tensor_name(TensorRole role, int layer, char *buffer, size_t len_bytes);

#endif
