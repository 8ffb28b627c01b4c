// SPDX-License-Identifier: Apache-2.0
/* Tests the balance of attention against plain arithmetic: powers of two of rotary pairs, from norms or from biases. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "test/unit/fixtures/model_maker.h"
#include "weights/attention_balance.h"

enum {
    HEAD_SIZE = 32,
    N_ROT = 24,
    N_HEADS = 6,
    N_KV_HEADS = 2,
    N_EMBD = 48,
    WIDTH = N_KV_HEADS * HEAD_SIZE,
    Q_WIDTH = N_HEADS * HEAD_SIZE
};

/* A layer of random numbers: heavy channels of keys, light ones of queries. */
typedef struct Layer {
    Hparams hparams;
    float norm[N_EMBD], k_norm[HEAD_SIZE], q_norm[HEAD_SIZE];
    float k_bias[WIDTH], k_scales[WIDTH], q_bias[Q_WIDTH], q_scales[Q_WIDTH];
    int8_t k_bits[WIDTH], q_bits[Q_WIDTH];
    float *vectors[_ROLE_N];
    BalanceMatrix k, q;
} Layer;

/* Returns a number whose magnitude is anywhere from 1/64 to 64. */
static float wide(uint64_t *seed) {
    return test_random_normal(seed) * ldexpf(1, (int)(test_random(seed) % 13) - 6);
}

static void fill(float *values, size_t n, uint64_t *seed) {
    for (size_t i = 0; i < n; i++)
        values[i] = wide(seed);
}

static void fill_matrix(float *bias, float *scales, int8_t *bits, size_t n, uint64_t *seed) {
    fill(bias, n, seed);
    for (size_t i = 0; i < n; i++) {
        scales[i] = fabsf(wide(seed)) / 64;
        bits[i] = (int8_t)(1 + test_random(seed) % 8);
    }
}

static void layer_init(Layer *layer, const char *arch, uint64_t seed) {
    *layer = (Layer){ .hparams = { .arch = arch_find(arch),
                                   .n_layers = 4,
                                   .n_embd = N_EMBD,
                                   .n_heads = N_HEADS,
                                   .n_kv_heads = N_KV_HEADS,
                                   .head_size = HEAD_SIZE,
                                   .n_rot = N_ROT } };
    assert_non_null(layer->hparams.arch);
    fill(layer->norm, N_EMBD, &seed);
    fill(layer->k_norm, HEAD_SIZE, &seed);
    fill(layer->q_norm, HEAD_SIZE, &seed);
    fill_matrix(layer->k_bias, layer->k_scales, layer->k_bits, WIDTH, &seed);
    fill_matrix(layer->q_bias, layer->q_scales, layer->q_bits, Q_WIDTH, &seed);
    layer->vectors[ROLE_ATTN_NORM] = layer->norm;
    layer->k = (BalanceMatrix){ layer->k_bias, layer->k_scales, layer->k_bits, GRID_NORMAL, N_EMBD };
    layer->q = (BalanceMatrix){ layer->q_bias, layer->q_scales, layer->q_bits, GRID_NORMAL, N_EMBD };
}

/* Finds the power of two by trying all. */
static float plain_balance(double keys, double queries) {
    for (int n = -24; n <= 24; n++)
        if (ldexp(queries, 4 * n - 2) <= keys && keys < ldexp(queries, 4 * n + 2))
            return ldexpf(1, n);
    return 1;
}

/* Returns the other channel of a rotary pair, or -1. */
static int plain_partner(int d, bool is_neox) {
    if (d >= N_ROT)
        return -1;
    if (!is_neox)
        return d % 2 ? d - 1 : d + 1;
    return d < N_ROT / 2 ? d + N_ROT / 2 : d - N_ROT / 2;
}

/* Compares with the squares f64[HEAD_SIZE] of every KV head's keys and queries. Returns how many are not 1. */
static size_t check(const Layer *layer, uint32_t index, bool turns, bool is_neox, const double *keys,
                    const double *queries) {
    float balance[WIDTH];
    size_t n_other = 0;

    assert_int_equal(attention_balance(&layer->hparams, index, layer->vectors, &layer->k, &layer->q, balance), 0);
    for (int i = 0; i < WIDTH; i++) {
        const int d = i % HEAD_SIZE, partner = turns ? plain_partner(d, is_neox) : -1, other = i - d + partner;
        const double k2 = keys[i] + (partner < 0 ? 0 : keys[other]),
                     q2 = queries[i] + (partner < 0 ? 0 : queries[other]);

        if (balance[i] != plain_balance(k2, q2))
            fail_msg("channel %d: %g, expected %g", i, (double)balance[i], (double)plain_balance(k2, q2));
        n_other += balance[i] != 1;
    }
    return n_other;
}

static void test_attention_balance_by_norms(void **state) {
    static const struct {
        const char *arch;
        uint32_t layer;
        bool turns, is_neox;
    } cases[] = {
        { "qwen3", 0, true, true },     { "gemma3", 1, true, true },
        { "llama", 0, true, false },    { "smollm3", 2, true, false }, /* its fourth layers do not turn */
        { "smollm3", 3, false, false },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (uint64_t seed = 1; seed < 20; seed++) {
            double keys[WIDTH], queries[WIDTH];
            Layer layer;

            layer_init(&layer, cases[i].arch, seed);
            layer.vectors[ROLE_ATTN_K_NORM] = layer.k_norm;
            layer.vectors[ROLE_ATTN_Q_NORM] = layer.q_norm;
            for (int d = 0; d < WIDTH; d++) {
                keys[d] = pow((double)layer.k_norm[d % HEAD_SIZE], 2);
                queries[d] = pow((double)layer.q_norm[d % HEAD_SIZE], 2);
            }
            assert_true(check(&layer, cases[i].layer, cases[i].turns, cases[i].is_neox, keys, queries) > 8);
        }
}

/* Returns the mean square of an output, as docs/numbers.md has it. */
static double plain_square(const Layer *layer, const BalanceMatrix *matrix, size_t channel) {
    const double greatest = !matrix->bits ? 127 : grid_max(matrix->grid, matrix->bits[channel]);
    double norm = 0;

    for (size_t i = 0; i < N_EMBD; i++)
        norm += pow((double)layer->norm[i], 2) / N_EMBD;
    return pow((double)matrix->bias[channel], 2) +
           norm * N_EMBD * pow((double)matrix->scales[channel] * greatest / 3.5, 2);
}

static void test_attention_balance_by_biases(void **state) {
    for (uint64_t seed = 1; seed < 40; seed++) {
        double keys[WIDTH], queries[WIDTH];
        Layer layer;

        layer_init(&layer, "qwen2", seed);
        if (seed % 2)
            layer.k.bits = layer.q.bits = NULL;
        if (seed % 4 > 1)
            layer.k.grid = layer.q.grid = GRID_UNIFORM;
        for (size_t i = 0; i < WIDTH; i++) {
            const size_t n_group = N_HEADS / N_KV_HEADS, first = i / HEAD_SIZE * n_group;

            keys[i] = plain_square(&layer, &layer.k, i);
            queries[i] = 0;
            for (size_t head = first; head < first + n_group; head++)
                queries[i] += plain_square(&layer, &layer.q, head * HEAD_SIZE + i % HEAD_SIZE) / (double)n_group;
        }
        assert_true(check(&layer, 0, true, true, keys, queries) > 8);
    }
}

/* Ratios at both ends of the interval of a power of two. */
static void test_attention_balance_at_the_edges(void **state) {
    for (int n = -10; n <= 10; n++)
        for (int below = 0; below < 2; below++) {
            double keys[WIDTH], queries[WIDTH];
            float balance[WIDTH];
            Layer layer;

            layer_init(&layer, "qwen3", 1);
            layer.vectors[ROLE_ATTN_K_NORM] = layer.k_norm;
            layer.vectors[ROLE_ATTN_Q_NORM] = layer.q_norm;
            for (int d = 0; d < HEAD_SIZE; d++) {
                layer.k_norm[d] = ldexpf(1, 2 * n - 1);
                if (below)
                    layer.k_norm[d] = nextafterf(layer.k_norm[d], 0);
                layer.q_norm[d] = 1;
            }
            for (int d = 0; d < WIDTH; d++) {
                keys[d] = pow((double)layer.k_norm[d % HEAD_SIZE], 2);
                queries[d] = 1;
            }
            check(&layer, 0, true, true, keys, queries);
            assert_int_equal(attention_balance(&layer.hparams, 0, layer.vectors, &layer.k, &layer.q, balance), 0);
            assert_true(balance[0] == ldexpf(1, n - below));
        }
}

static void expect_ones(const Layer *layer) {
    float balance[WIDTH];

    assert_int_equal(attention_balance(&layer->hparams, 0, layer->vectors, &layer->k, &layer->q, balance), 0);
    for (size_t i = 0; i < WIDTH; i++)
        assert_true(balance[i] == 1);
}

/* Half of what a rule needs is not enough, and silent channels stay as they are. */
static void test_attention_balance_of_ones(void **state) {
    Layer layer;

    layer_init(&layer, "qwen2", 1);
    layer.k.bias = NULL;
    expect_ones(&layer);
    layer_init(&layer, "qwen2", 1);
    layer.q.bias = NULL;
    layer.vectors[ROLE_ATTN_K_NORM] = layer.k_norm;
    expect_ones(&layer);
    layer.vectors[ROLE_ATTN_Q_NORM] = layer.q_norm;
    for (size_t d = 0; d < HEAD_SIZE; d++)
        layer.q_norm[d] = d % 2 ? 0 : INFINITY;
    for (size_t d = 1; d < N_ROT; d += 2)
        layer.q_norm[d] = layer.k_norm[d] = 0;
    expect_ones(&layer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_balance_by_norms),
        cmocka_unit_test(test_attention_balance_by_biases),
        cmocka_unit_test(test_attention_balance_at_the_edges),
        cmocka_unit_test(test_attention_balance_of_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
