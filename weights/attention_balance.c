// SPDX-License-Identifier: Apache-2.0
#include "weights/attention_balance.h"

#include <math.h>
#include <stdlib.h>

#include "model/gguf/gguf_types.h"
#include "quant/format/ggml_type.h"
#include "quant/format/grid.h"

/* Greatest magnitude of a channel's weights over their root mean square, roughly. */
#define WEIGHT_CREST 3.5

/* What the squares of one matrix's outputs are estimated from. */
typedef struct OutputSquares {
    PackageLinear linear;
    float *bias; /* [n] */
    double norm; /* mean square of the weights of the norm before the matrix */
} OutputSquares;

static void output_squares_deinit(OutputSquares *squares) {
    free(squares->bias);
}

/* Reads what the package has of a matrix. bias is NULL if the matrix has none. */
static int output_squares_init(OutputSquares *squares, const Hparams *hparams, const Package *package, uint32_t layer,
                               TensorRole role, Dim out, float *const *vectors, ErrText *err) {
    const ArchTensor bias = { tensor_role_bias(role), out, DIM_NONE, true };
    char name[GGUF_TENSOR_NAME_MAX];
    GgufTensor tensor;
    double sum = 0;
    int r;

    *squares = (OutputSquares){ .norm = 1 };
    if (bias.role == ROLE_NONE || !vectors[ROLE_ATTN_NORM] ||
        !hparams_tensor(hparams, package_file(package), &bias, (int)layer, &tensor))
        return 0;
    r = package_linear(package, tensor_name(role, (int)layer, name, sizeof(name)), &squares->linear, err);
    if (r)
        return r;
    squares->bias = malloc(squares->linear.n * sizeof(*squares->bias));
    if (!squares->bias)
        return err_no_memory(err);
    ggml_dequantize(tensor.type, tensor.data, squares->bias, squares->linear.n);
    for (size_t i = 0; i < hparams->n_embd; i++)
        sum += (double)vectors[ROLE_ATTN_NORM][i] * (double)vectors[ROLE_ATTN_NORM][i];
    squares->norm = sum / hparams->n_embd;
    return 0;
}

static double output_square(const OutputSquares *squares, size_t channel) {
    const PackageLinear *linear = &squares->linear;
    const int bits = linear->packed ? linear->bits[channel] : GRID_BITS_MAX;
    const double bias = (double)squares->bias[channel],
                 weight = (double)linear->scales[channel] * grid_max(linear->grid, bits) / WEIGHT_CREST;

    return bias * bias + squares->norm * (double)linear->k * weight * weight;
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

static void balance_by_biases(const Hparams *hparams, uint32_t layer, const OutputSquares *k, const OutputSquares *q,
                              double *keys, double *queries, float *balance) {
    const size_t hd = hparams->head_size, n_group = hparams->n_heads / hparams->n_kv_heads;

    for (size_t head = 0; head < hparams->n_kv_heads; head++) {
        for (size_t d = 0; d < hd; d++) {
            keys[d] = output_square(k, head * hd + d);
            queries[d] = 0;
            for (size_t i = 0; i < n_group; i++)
                queries[d] += output_square(q, (head * n_group + i) * hd + d);
            queries[d] /= (double)n_group;
        }
        balance_head(hparams, layer, keys, queries, balance + head * hd);
    }
}

static bool is_all_one(const float *balance, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (balance[i] != 1)
            return false;
    return true;
}

int attention_balance(const Hparams *hparams, const Package *package, uint32_t layer, float *const *vectors,
                      float **balancep, ErrText *err) {
    const size_t n = hparams_dim(hparams, DIM_KV);
    _cleanup_(freep) double *squares = calloc(2 * (size_t)hparams->head_size, sizeof(*squares));
    _cleanup_(freep) float *balance = malloc(n * sizeof(*balance));
    OutputSquares k = { 0 }, q = { 0 };
    int r = 0;

    *balancep = NULL;
    if (!squares || !balance)
        return err_no_memory(err);
    if (vectors[ROLE_ATTN_K_NORM] && vectors[ROLE_ATTN_Q_NORM]) {
        balance_by_norms(hparams, layer, vectors, squares, squares + hparams->head_size, balance);
    } else {
        r = output_squares_init(&k, hparams, package, layer, ROLE_ATTN_K, DIM_KV, vectors, err);
        if (!r)
            r = output_squares_init(&q, hparams, package, layer, ROLE_ATTN_Q, DIM_HEADS, vectors, err);
        if (!r && k.bias && q.bias)
            balance_by_biases(hparams, layer, &k, &q, squares, squares + hparams->head_size, balance);
        else
            for (size_t i = 0; i < n; i++)
                balance[i] = 1;
        output_squares_deinit(&k);
        output_squares_deinit(&q);
    }
    if (!r && !is_all_one(balance, n))
        *balancep = steal(&balance);
    return r;
}
