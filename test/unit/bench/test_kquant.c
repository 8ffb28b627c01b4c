// SPDX-License-Identifier: Apache-2.0
/* The K-quant baseline of the benches against the dequantization of GGUF's Q4_K and Q5_K, which shares no code with
 * it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/system/cpu.h"
#include "quant/format/ggml_type.h"
#include "test/bench/kquant.h"

enum {
    N = 7,
    BLOCKS_MAX = 6,
    K_MAX = BLOCKS_MAX * KQUANT_BLOCK
};

static uint32_t seed = 20240607;

static uint32_t draw(void) {
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

/* Draws from an approximately normal distribution with a few large values. */
static float draw_weight(void) {
    float sum = 0;

    for (int i = 0; i < 6; i++)
        sum += (float)(draw() % 2001) - 1000;
    return sum / 20000 * (draw() % 97 ? 1.0f : 6.0f);
}

typedef struct Case {
    int bits;
    size_t k_blocks;
    uint8_t *blocks;
    float *x, *w; /* w: as Q4_K or Q5_K dequantize */
    KquantInputs *inputs;
    KquantMatrix matrix;
} Case;

static void case_init(Case *c, int bits, size_t k_blocks) {
    const size_t k = k_blocks * KQUANT_BLOCK, row_bytes = k_blocks * kquant_block_bytes(bits);

    *c = (Case){ .bits = bits, .k_blocks = k_blocks };
    c->blocks = malloc(N * row_bytes);
    c->x = malloc(k * sizeof(*c->x));
    c->w = malloc(N * k * sizeof(*c->w));
    c->inputs = aligned_alloc(64, k_blocks * sizeof(*c->inputs));
    assert_true(c->blocks && c->x && c->w && c->inputs);
    for (size_t o = 0; o < N; o++) {
        for (size_t i = 0; i < k; i++)
            c->w[o * k + i] = draw_weight();
        kquant_pack_row(c->w + o * k, k, bits, c->blocks + o * row_bytes);
    }
    for (size_t i = 0; i < k; i++)
        c->x[i] = draw_weight() * 40;
    kquant_quantize(c->x, k, c->inputs);
    c->matrix = (KquantMatrix){ bits, N, k_blocks, c->blocks };
}

static void case_dequantize(Case *c) {
    ggml_dequantize(c->bits == 4 ? GGML_Q4_K : GGML_Q5_K, c->blocks, c->w, N * c->k_blocks * KQUANT_BLOCK);
}

static void case_deinit(Case *c) {
    free(c->blocks);
    free(c->x);
    free(c->w);
    free(c->inputs);
}

/* Every weight comes back within a step of its sub-block. */
static void test_kquant_pack_error(void **state) {
    for (int bits = 4; bits <= 5; bits++) {
        _cleanup_(freep) float *before = malloc(N * K_MAX * sizeof(*before));
        const size_t n_values = N * BLOCKS_MAX * KQUANT_BLOCK;
        Case c;

        assert_non_null(before);
        case_init(&c, bits, BLOCKS_MAX);
        memcpy(before, c.w, n_values * sizeof(*before));
        case_dequantize(&c);
        for (size_t s = 0; s < n_values; s += KQUANT_SUB) {
            float least = 0, largest = 0, block_least = 0, block_range = 0;

            for (size_t i = 0; i < KQUANT_SUB; i++) {
                least = fminf(least, before[s + i]);
                largest = fmaxf(largest, before[s + i]);
            }
            for (size_t i = s / KQUANT_BLOCK * KQUANT_BLOCK, end = i + KQUANT_BLOCK; i < end; i++) {
                block_least = fminf(block_least, before[i]);
                block_range = fmaxf(block_range, fabsf(before[i]));
            }
            for (size_t i = 0; i < KQUANT_SUB; i++) /* half a step, and the roundings of the 6-bit factors */
                assert_true(fabsf(before[s + i] - c.w[s + i]) <= 0.51f * (largest - least) / (float)((1 << bits) - 1) +
                                                                     0.011f * 2 * block_range - 0.009f * block_least);
        }
        case_deinit(&c);
    }
}

static void test_kquant_block_sizes(void **state) {
    uint32_t values, bytes;

    assert_true(ggml_type_block(GGML_Q4_K, &values, &bytes));
    assert_int_equal(values, KQUANT_BLOCK);
    assert_int_equal(bytes, kquant_block_bytes(4));
    assert_true(ggml_type_block(GGML_Q5_K, &values, &bytes));
    assert_int_equal(values, KQUANT_BLOCK);
    assert_int_equal(bytes, kquant_block_bytes(5));
}

/* Compares with a float64 product of dequantized weights and inputs; the bound is float32's, on the size of the
 * addends. */
static void check_product(const KquantOps *ops, const Case *c, size_t begin, size_t end) {
    const size_t k = c->k_blocks * KQUANT_BLOCK;
    float y[N];

    for (size_t o = 0; o < N; o++)
        y[o] = -12345;
    ops->product(&c->matrix, c->inputs, begin, end, y);
    for (size_t o = 0; o < N; o++) {
        double sum = 0, size = 0;

        if (o < begin || o >= end) {
            assert_true(y[o] == -12345);
            continue;
        }
        for (size_t i = 0; i < k; i++) {
            const KquantInputs *inputs = &c->inputs[i / KQUANT_BLOCK];
            const size_t sub = i % KQUANT_BLOCK / KQUANT_SUB;
            const double x = (double)inputs->scale * inputs->x[kquant_input_offset(sub) + i % KQUANT_SUB];

            sum += x * (double)c->w[o * k + i];
            size += fabs(x * (double)c->w[o * k + i]);
        }
        if (!(fabs((double)y[o] - sum) <= 1e-6 * size))
            fail_msg("%s, %d bits, %zu blocks: output %zu is %.9g, expected %.9g", ops->name, c->bits, c->k_blocks, o,
                     (double)y[o], sum);
    }
}

static void test_kquant_product(void **state) {
    for (int bits = 4; bits <= 5; bits++)
        for (size_t k_blocks = 1; k_blocks <= BLOCKS_MAX; k_blocks++) {
            Case c;

            case_init(&c, bits, k_blocks);
            case_dequantize(&c);
            for (size_t i = 0; i < kquant_n(); i++)
                if (!(kquant_at(i)->need & ~cpu_features())) {
                    check_product(kquant_at(i), &c, 0, N);
                    check_product(kquant_at(i), &c, 2, 5);
                }
            case_deinit(&c);
        }
}

/* Codes, factors and activations at their limits: nothing saturates on the way. */
static void test_kquant_product_extremes(void **state) {
    for (int bits = 4; bits <= 5; bits++)
        for (int sign = -1; sign <= 1; sign += 2) {
            Case c;

            case_init(&c, bits, 3);
            memset(c.blocks, 0xff, N * c.k_blocks * kquant_block_bytes(bits));
            for (size_t b = 0; b < N * c.k_blocks; b++) {
                static const uint16_t factors[2] = { 0x3000, 0x2c00 }; /* 0.125 and 0.0625 */

                memcpy(c.blocks + b * kquant_block_bytes(bits), factors, sizeof(factors));
            }
            for (size_t i = 0; i < c.k_blocks * KQUANT_BLOCK; i++)
                c.x[i] = (float)sign * 3;
            kquant_quantize(c.x, c.k_blocks * KQUANT_BLOCK, c.inputs);
            case_dequantize(&c);
            for (size_t i = 0; i < kquant_n(); i++)
                if (!(kquant_at(i)->need & ~cpu_features()))
                    check_product(kquant_at(i), &c, 0, N);
            case_deinit(&c);
        }
}

/* Codes and factors of every build give the dequantized weights; no byte past them is written. */
static void test_kquant_expand(void **state) {
    for (int bits = 4; bits <= 5; bits++)
        for (size_t build = 0; build < kquant_n(); build++) {
            const KquantOps *ops = kquant_at(build);
            const size_t k = BLOCKS_MAX * KQUANT_BLOCK;
            uint8_t codes[K_MAX + 1], factors[BLOCKS_MAX * 16 + 1];
            Case c;

            if (ops->need & ~cpu_features())
                continue;
            case_init(&c, bits, BLOCKS_MAX);
            case_dequantize(&c);
            for (size_t o = 0; o < N; o++) {
                memset(codes, 0xa5, sizeof(codes));
                memset(factors, 0xa5, sizeof(factors));
                ops->expand(&c.matrix, o, codes, factors);
                assert_int_equal(codes[k], 0xa5);
                assert_int_equal(factors[BLOCKS_MAX * 16], 0xa5);
                for (size_t i = 0; i < k; i++) {
                    const size_t b = i / KQUANT_BLOCK, sub = i % KQUANT_BLOCK / KQUANT_SUB;
                    uint8_t zeros[sizeof(KquantBlock5)];
                    float value, step, minimum, expected[KQUANT_BLOCK];

                    if (i % KQUANT_SUB)
                        continue;
                    /* The minimum of a sub-block is what it dequantizes to with codes of 0; the step, with 1. */
                    memcpy(zeros, c.blocks + (o * BLOCKS_MAX + b) * kquant_block_bytes(bits), kquant_block_bytes(bits));
                    memset(zeros + 16, 0, kquant_block_bytes(bits) - 16);
                    ggml_dequantize(bits == 4 ? GGML_Q4_K : GGML_Q5_K, zeros, expected, KQUANT_BLOCK);
                    minimum = expected[sub * KQUANT_SUB];
                    memset(zeros + kquant_block_bytes(bits) - 128, 0x11, 128);
                    ggml_dequantize(bits == 4 ? GGML_Q4_K : GGML_Q5_K, zeros, expected, KQUANT_BLOCK);
                    step = expected[sub * KQUANT_SUB] - minimum;
                    assert_true(factors[b * 16 + sub] <= 63 && factors[b * 16 + 8 + sub] <= 63);
                    for (size_t j = i; j < i + KQUANT_SUB; j++) {
                        value = minimum + step * codes[j];
                        assert_true(codes[j] < 1 << bits);
                        assert_true(fabsf(value - c.w[o * k + j]) <= 1e-5f * (fabsf(minimum) + step * 31));
                    }
                }
            }
            case_deinit(&c);
        }
}

/* Every build gives the scalar build's codes and factors. */
static void test_kquant_expand_builds(void **state) {
    for (int bits = 4; bits <= 5; bits++) {
        Case c;

        case_init(&c, bits, BLOCKS_MAX);
        for (size_t build = 0; build + 1 < kquant_n(); build++)
            for (size_t o = 0; o < N; o++) {
                uint8_t codes[2][K_MAX], factors[2][BLOCKS_MAX * 16];

                if (kquant_at(build)->need & ~cpu_features())
                    continue;
                kquant_at(build)->expand(&c.matrix, o, codes[0], factors[0]);
                kquant_at(kquant_n() - 1)->expand(&c.matrix, o, codes[1], factors[1]);
                assert_memory_equal(codes[0], codes[1], sizeof(codes[0]));
                assert_memory_equal(factors[0], factors[1], sizeof(factors[0]));
            }
        case_deinit(&c);
    }
}

/* Factors as the format writes them, by a formula of their own. */
static void test_kquant_factors(void **state) {
    Case c;

    case_init(&c, 4, 1);
    for (size_t o = 0; o < N; o++) {
        const KquantBlock4 *block = (const KquantBlock4 *)(const void *)c.blocks + o;
        uint8_t codes[KQUANT_BLOCK], factors[16];

        kquant_select(0)->expand(&c.matrix, o, codes, factors);
        for (size_t s = 0; s < KQUANT_SUBS; s++) {
            const uint8_t *q = block->scales;
            const int scale = s < 4 ? q[s] & 63 : (q[s + 4] & 15) | (q[s - 4] >> 6) << 4;
            const int minimum = s < 4 ? q[s + 4] & 63 : q[s + 4] >> 4 | (q[s] >> 6) << 4;

            assert_int_equal(factors[s], scale);
            assert_int_equal(factors[8 + s], minimum);
        }
    }
    case_deinit(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kquant_block_sizes),      cmocka_unit_test(test_kquant_pack_error),
        cmocka_unit_test(test_kquant_factors),          cmocka_unit_test(test_kquant_product),
        cmocka_unit_test(test_kquant_product_extremes), cmocka_unit_test(test_kquant_expand),
        cmocka_unit_test(test_kquant_expand_builds),
    };

    for (size_t i = 0; i < kquant_n(); i++)
        printf("%s: %s\n", kquant_at(i)->name,
               kquant_at(i)->need & ~cpu_features() ? "absent on this machine" : "tested");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
