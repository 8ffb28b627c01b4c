// SPDX-License-Identifier: Apache-2.0
/* Tests that every build of the reference device's loops on this machine gives the bits of plain loops written here,
 * for every size around a tile and around 16, without writing beside the results. The loops are compared with double.
 * The device gives the same logits for every build, number of threads and chunk. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/reference/float_loops.h"
#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/system/cpu.h"
#include "test/unit/fixtures/real_model.h"

enum {
    K_MAX = 300,
    N_MAX = 9,
    GAP = 3 /* floats between rows that must be neither read nor written */
};

#define EACH_BUILD(loops)                                                                                              \
    for (size_t build_ = 0; build_ < float_loops_n(); build_++)                                                        \
        for (const FloatLoops *loops = float_loops_at(build_); loops && !(loops->need & ~cpu_features()); loops = NULL)

static uint32_t state_of_random = 12345;

/* Values whose products and sums need rounding at every step. */
static void fill(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        state_of_random = state_of_random * 1664525 + 1013904223;
        x[i] = ((float)(state_of_random >> 8) / 0x1p23f - 1) * (i % 7 ? 1 : 100);
    }
}

static float plain_dot(const float *a, const float *b, size_t k) {
    float sums[16] = { 0 };

    for (size_t i = 0; i < k; i++)
        sums[i % 16] += a[i] * b[i];
    for (size_t half = 8; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

static void check_products(const FloatLoops *loops, const float *x, size_t rows, const float *w, size_t n, size_t k) {
    static const float untouched = -777;
    float y[N_MAX * (N_MAX + GAP)];
    size_t y_stride = n + GAP, n_values = rows * y_stride;

    for (size_t i = 0; i < n_values; i++)
        y[i] = untouched;
    loops->products(x, K_MAX + GAP, rows, w, K_MAX + GAP, n, k, y, y_stride);
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < y_stride; o++) {
            const float *a = x + r * (K_MAX + GAP), *b = w + o * (K_MAX + GAP);
            double exact = 0, size = 0;
            float expected;

            if (o >= n) {
                assert_memory_equal(&y[r * y_stride + o], &untouched, sizeof(untouched));
                continue;
            }
            expected = plain_dot(a, b, k);
            if (memcmp(&y[r * y_stride + o], &expected, sizeof(expected)))
                fail_msg("%s: %zu rows, %zu outputs, %zu inputs: row %zu, output %zu is %a, not %a", loops->name, rows,
                         n, k, r, o, (double)y[r * y_stride + o], (double)expected);
            for (size_t i = 0; i < k; i++) {
                exact += (double)a[i] * (double)b[i];
                size += fabs((double)a[i] * (double)b[i]);
            }
            assert_true(fabs((double)expected - exact) <= size * ((double)k / 16 + 6) * 0x1p-24);
        }
}

static void test_float_loops_products(void **state) {
    static const size_t lengths[] = { 1, 2, 15, 16, 17, 31, 32, 33, 48, 64, 100, 256, K_MAX };
    float x[N_MAX * (K_MAX + GAP)], w[N_MAX * (K_MAX + GAP)];

    fill(x, ARRAY_LEN(x));
    fill(w, ARRAY_LEN(w));
    EACH_BUILD (loops)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++)
            for (size_t rows = 1; rows <= N_MAX; rows++)
                for (size_t n = 1; n <= N_MAX; n++)
                    check_products(loops, x, rows, w, n, lengths[l]);
}

static void test_float_loops_mix(void **state) {
    static const size_t widths[] = { 1, 4, 15, 16, 17, 31, 32, 33, 63, 64, 65, 80, 128, 200, 256 };
    enum {
        N = 21
    };
    float weights[N], v[N * (K_MAX + GAP)], y[K_MAX + 1];

    fill(weights, N);
    fill(v, ARRAY_LEN(v));
    EACH_BUILD (loops)
        for (size_t l = 0; l < ARRAY_LEN(widths); l++)
            for (size_t n = 1; n <= N; n += 4) {
                y[widths[l]] = -777;
                if (n > 5) { /* in two parts */
                    loops->mix(weights, 5, v, K_MAX + GAP, widths[l], true, y);
                    loops->mix(weights + 5, n - 5, v + 5 * (K_MAX + GAP), K_MAX + GAP, widths[l], false, y);
                } else {
                    loops->mix(weights, n, v, K_MAX + GAP, widths[l], true, y);
                }
                for (size_t i = 0; i < widths[l]; i++) {
                    float expected = 0;

                    for (size_t j = 0; j < n; j++)
                        expected += weights[j] * v[j * (K_MAX + GAP) + i];
                    if (memcmp(&y[i], &expected, sizeof(expected)))
                        fail_msg("%s: mix of %zu rows, width %zu: value %zu is %a, not %a", loops->name, n, widths[l],
                                 i, (double)y[i], (double)expected);
                }
                assert_true(y[widths[l]] == -777);
            }
}

static void test_float_loops_select(void **state) {
    assert_int_equal(float_loops_select(0)->need, 0);
    assert_ptr_equal(float_loops_select(0), float_loops_at(float_loops_n() - 1));
    for (size_t i = 0; i < float_loops_n(); i++)
        assert_ptr_equal(float_loops_select(float_loops_at(i)->need), float_loops_at(i));
}

/* Computes all logits of some tokens on the reference device. */
static float *all_logits(Isa isa, unsigned int threads, uint32_t chunk_tokens, size_t *n_bytesp) {
    static const char text[] = "The mill stands at the mouth of the river, where the tide turns the wheel twice a day.";
    _cleanup_(token_list_deinit) TokenList tokens = { 0 };
    RealModel model = { 0 };
    Sequence *sequence;
    ErrText err = { 0 };
    size_t n_vocab;
    float *logits;

    real_model_open(&model, ENGINE_DEVICE_REFERENCE, isa, threads, chunk_tokens);
    n_vocab = engine_info(model.engine)->n_vocab;
    assert_int_equal(
        tokenizer_encode(engine_tokenizer(model.engine), text, strlen(text), TOKENIZE_ADD_SPECIAL, &tokens, &err), 0);
    assert_int_equal(sequence_new(&sequence, model.engine, tokens.n, &err), 0);
    *n_bytesp = tokens.n * n_vocab * sizeof(float);
    logits = malloc(*n_bytesp);
    assert_non_null(logits);
    for (size_t at = 0; at < tokens.n; at += chunk_tokens) {
        size_t n = MIN(tokens.n - at, chunk_tokens);

        assert_int_equal(engine_forward(model.engine, sequence, tokens.ids + at, n, n, logits + at * n_vocab, NULL), 0);
    }
    sequence_free(sequence);
    real_model_close(&model);
    return logits;
}

static void test_float_loops_device(void **state) {
    static const struct {
        Isa isa;
        unsigned int threads;
        uint32_t chunk_tokens;
    } runs[] = { { ISA_SCALAR, 1, 32 }, { ISA_AVX2, 2, 5 }, { ISA_AVX512VNNI, 2, 1 }, { ISA_BEST, 3, 7 } };
    size_t n_bytes, n_expected_bytes;
    _cleanup_(freep) float *expected = all_logits(ISA_BEST, 2, 32, &n_expected_bytes);

    for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
        _cleanup_(freep) float *logits = NULL;

        if (runs[i].isa != ISA_BEST && !isa_present(runs[i].isa)) {
            print_message("skipped: this machine has no %s\n", isa_name(runs[i].isa));
            continue;
        }
        logits = all_logits(runs[i].isa, runs[i].threads, runs[i].chunk_tokens, &n_bytes);
        assert_int_equal(n_bytes, n_expected_bytes);
        assert_memory_equal(logits, expected, n_bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float_loops_products),
        cmocka_unit_test(test_float_loops_mix),
        cmocka_unit_test(test_float_loops_select),
        cmocka_unit_test(test_float_loops_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
