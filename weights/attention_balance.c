// SPDX-License-Identifier: Apache-2.0
#include "weights/attention_balance.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "model/gguf/gguf_types.h"
#include "quant/format/ggml_type.h"
#include "quant/format/grid.h"

/* Greatest magnitude of a channel's weights over their root mean square, roughly. */
#define WEIGHT_CREST 3.5

/* Returns the mean square of a channel's outputs, estimated. norm: mean square of the weights of the norm before. */
static double output_square(const BalanceMatrix *matrix, double norm, size_t channel) {
    const int bits = matrix->bits ? matrix->bits[channel] : GRID_BITS_MAX;
    const double bias = (double)matrix->bias[channel],
                 weight = (double)matrix->scales[channel] * grid_max(matrix->grid, bits) / WEIGHT_CREST;

    return bias * bias + norm * (double)matrix->k * weight * weight;
}

/* Returns the power of two 2^n with 2^(4n - 2) <= keys / queries < 2^(4n + 2). */
static float balance_of(double keys, double queries) {
    const double ratio = keys / queries;
    int exponent;

    if (!(ratio > 0x1p-100 && ratio < 0x1p100))
        return 1;
    frexp(ratio, &exponent); /* 2^(exponent - 1) <= ratio < 2^exponent */
    return ldexpf(1, (int)floor((exponent + 1) / 4.0));
}

/* Returns the channel that turns together with this one; the channel itself if it does not turn. */
static size_t partner_of(const Hparams *hparams, uint32_t layer, size_t channel) {
    const size_t half = hparams->n_rot / 2;

    if (channel >= hparams->n_rot || !hparams_layer_turns(hparams, layer))
        return channel;
    if (hparams->arch->rope == ROPE_NEOX)
        return channel < half ? channel + half : channel - half;
    return channel ^ 1;
}

/* Sums up a channel's and its partner's squares; the order of the two does not matter. */
static double pair_square(const double *squares, size_t channel, size_t partner) {
    return partner == channel ? squares[channel] : squares[channel] + squares[partner];
}

/* Computes the balance of one KV head from the squares of its keys and queries, f64[head_size] each. */
static void balance_head(const Hparams *hparams, uint32_t layer, const double *keys, const double *queries,
                         float *balance) {
    for (size_t d = 0; d < hparams->head_size; d++) {
        const size_t partner = partner_of(hparams, layer, d);

        balance[d] = balance_of(pair_square(keys, d, partner), pair_square(queries, d, partner));
    }
}

/* Squares by the weights of the norms of keys and queries, which all heads share. */
static void balance_by_norms(const Hparams *hparams, uint32_t layer, float *const *vectors, double *keys,
                             double *queries, float *balance) {
    for (size_t d = 0; d < hparams->head_size; d++) {
        keys[d] = (double)vectors[ROLE_ATTN_K_NORM][d] * (double)vectors[ROLE_ATTN_K_NORM][d];
        queries[d] = (double)vectors[ROLE_ATTN_Q_NORM][d] * (double)vectors[ROLE_ATTN_Q_NORM][d];
    }
    for (size_t head = 0; head < hparams->n_kv_heads; head++)
        balance_head(hparams, layer, keys, queries, balance + head * hparams->head_size);
}

static double mean_square(const float *values, size_t n) {
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)values[i] * (double)values[i];
    return sum / (double)n;
}

static void balance_by_biases(const Hparams *hparams, uint32_t layer, double norm, const BalanceMatrix *k,
                              const BalanceMatrix *q, double *keys, double *queries, float *balance) {
    const size_t hd = hparams->head_size, n_group = hparams->n_heads / hparams->n_kv_heads;

    for (size_t head = 0; head < hparams->n_kv_heads; head++) {
        for (size_t d = 0; d < hd; d++) {
            keys[d] = output_square(k, norm, head * hd + d);
            queries[d] = 0;
            for (size_t i = 0; i < n_group; i++)
                queries[d] += output_square(q, norm, (head * n_group + i) * hd + d);
            queries[d] /= (double)n_group;
        }
        balance_head(hparams, layer, keys, queries, balance + head * hd);
    }
}

static bool has_norms(float *const *vectors) {
    return vectors[ROLE_ATTN_K_NORM] && vectors[ROLE_ATTN_Q_NORM];
}

int attention_balance(const Hparams *hparams, uint32_t layer, float *const *vectors, const BalanceMatrix *k,
                      const BalanceMatrix *q, float *balance) {
    const size_t hd = hparams->head_size;
    _cleanup_(freep) double *squares = calloc(2 * hd, sizeof(*squares));

    if (!squares)
        return -ENOMEM;
    if (has_norms(vectors))
        balance_by_norms(hparams, layer, vectors, squares, squares + hd, balance);
    else if (k->bias && q->bias && vectors[ROLE_ATTN_NORM])
        balance_by_biases(hparams, layer, mean_square(vectors[ROLE_ATTN_NORM], hparams->n_embd), k, q, squares,
                          squares + hd, balance);
    else
        for (size_t i = 0; i < hparams_dim(hparams, DIM_KV); i++)
            balance[i] = 1;
    return 0;
}

/* --- of a package ------------------------------------------------------------------------------------------------- */

/* Reads what the package has of a matrix. The bias is *biasp, the caller's; NULL if the matrix has none. */
static int read_matrix(const Hparams *hparams, const Package *package, uint32_t layer, TensorRole role, Dim out,
                       float **biasp, BalanceMatrix *matrix, ErrText *err) {
    const ArchTensor bias = { tensor_role_bias(role), out, DIM_NONE, true };
    char name[GGUF_TENSOR_NAME_MAX];
    PackageLinear linear;
    GgufTensor tensor;
    int r;

    *matrix = (BalanceMatrix){ .bias = NULL };
    if (bias.role == ROLE_NONE || !hparams_tensor(hparams, package_file(package), &bias, (int)layer, &tensor))
        return 0;
    r = package_linear(package, tensor_name(role, (int)layer, name, sizeof(name)), &linear, err);
    if (r)
        return r;
    *biasp = malloc(linear.n * sizeof(**biasp));
    if (!*biasp)
        return err_no_memory(err);
    ggml_dequantize(tensor.type, tensor.data, *biasp, linear.n);
    *matrix = (BalanceMatrix){
        .bias = *biasp, .scales = linear.scales, .bits = linear.bits, .grid = linear.grid, .k = linear.k
    };
    return 0;
}

static bool is_all_one(const float *balance, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (balance[i] != 1)
            return false;
    return true;
}

int attention_balance_of_package(const Hparams *hparams, const Package *package, uint32_t layer, float *const *vectors,
                                 float **balancep, ErrText *err) {
    const size_t n = hparams_dim(hparams, DIM_KV);
    _cleanup_(freep) float *balance = malloc(n * sizeof(*balance)), *k_bias = NULL, *q_bias = NULL;
    BalanceMatrix k = { 0 }, q = { 0 };
    int r = 0;

    *balancep = NULL;
    if (!balance)
        return err_no_memory(err);
    if (!has_norms(vectors)) {
        r = read_matrix(hparams, package, layer, ROLE_ATTN_K, DIM_KV, &k_bias, &k, err);
        if (!r)
            r = read_matrix(hparams, package, layer, ROLE_ATTN_Q, DIM_HEADS, &q_bias, &q, err);
        if (r)
            return r;
    }
    if (attention_balance(hparams, layer, vectors, &k, &q, balance))
        return err_no_memory(err);
    if (!is_all_one(balance, n))
        *balancep = steal(&balance);
    return 0;
}
