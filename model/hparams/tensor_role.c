// SPDX-License-Identifier: Apache-2.0
#include "model/hparams/tensor_role.h"

#include <stdio.h>

static const struct {
    const char *name;
    bool linear;
    TensorRole bias;
} roles[_ROLE_N] = {
    [ROLE_TOKEN_EMBD] = { "token_embd.weight", true, ROLE_NONE },
    [ROLE_ROPE_FREQS] = { "rope_freqs.weight", false, ROLE_NONE },
    [ROLE_ROPE_FACTORS_LONG] = { "rope_factors_long.weight", false, ROLE_NONE },
    [ROLE_ROPE_FACTORS_SHORT] = { "rope_factors_short.weight", false, ROLE_NONE },
    [ROLE_ATTN_NORM] = { "attn_norm.weight", false, ROLE_ATTN_NORM_BIAS },
    [ROLE_ATTN_NORM_BIAS] = { "attn_norm.bias", false, ROLE_NONE },
    [ROLE_ATTN_Q] = { "attn_q.weight", true, ROLE_ATTN_Q_BIAS },
    [ROLE_ATTN_Q_BIAS] = { "attn_q.bias", false, ROLE_NONE },
    [ROLE_ATTN_K] = { "attn_k.weight", true, ROLE_ATTN_K_BIAS },
    [ROLE_ATTN_K_BIAS] = { "attn_k.bias", false, ROLE_NONE },
    [ROLE_ATTN_V] = { "attn_v.weight", true, ROLE_ATTN_V_BIAS },
    [ROLE_ATTN_V_BIAS] = { "attn_v.bias", false, ROLE_NONE },
    [ROLE_ATTN_Q_NORM] = { "attn_q_norm.weight", false, ROLE_NONE },
    [ROLE_ATTN_K_NORM] = { "attn_k_norm.weight", false, ROLE_NONE },
    [ROLE_ATTN_OUTPUT] = { "attn_output.weight", true, ROLE_ATTN_OUTPUT_BIAS },
    [ROLE_ATTN_OUTPUT_BIAS] = { "attn_output.bias", false, ROLE_NONE },
    [ROLE_POST_ATTN_NORM] = { "post_attention_norm.weight", false, ROLE_NONE },
    [ROLE_FFN_NORM] = { "ffn_norm.weight", false, ROLE_NONE },
    [ROLE_FFN_GATE] = { "ffn_gate.weight", true, ROLE_FFN_GATE_BIAS },
    [ROLE_FFN_GATE_BIAS] = { "ffn_gate.bias", false, ROLE_NONE },
    [ROLE_FFN_UP] = { "ffn_up.weight", true, ROLE_FFN_UP_BIAS },
    [ROLE_FFN_UP_BIAS] = { "ffn_up.bias", false, ROLE_NONE },
    [ROLE_FFN_DOWN] = { "ffn_down.weight", true, ROLE_FFN_DOWN_BIAS },
    [ROLE_FFN_DOWN_BIAS] = { "ffn_down.bias", false, ROLE_NONE },
    [ROLE_POST_FFN_NORM] = { "post_ffw_norm.weight", false, ROLE_NONE },
    [ROLE_OUTPUT_NORM] = { "output_norm.weight", false, ROLE_OUTPUT_NORM_BIAS },
    [ROLE_OUTPUT_NORM_BIAS] = { "output_norm.bias", false, ROLE_NONE },
    [ROLE_OUTPUT] = { "output.weight", true, ROLE_OUTPUT_BIAS },
    [ROLE_OUTPUT_BIAS] = { "output.bias", false, ROLE_NONE },
};

const char *tensor_role_name(TensorRole role) {
    return roles[role].name;
}

bool tensor_role_is_linear(TensorRole role) {
    return roles[role].linear;
}

TensorRole tensor_role_bias(TensorRole role) {
    return roles[role].bias;
}

const char *tensor_name(TensorRole role, int layer, char *buffer, size_t len_bytes) {
    if (layer < 0)
        snprintf(buffer, len_bytes, "%s", roles[role].name);
    else
        snprintf(buffer, len_bytes, "blk.%d.%s", layer, roles[role].name);
    return buffer;
}
