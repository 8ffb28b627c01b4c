// SPDX-License-Identifier: Apache-2.0
/* Tests that every build of the row operators on this machine gives the bits of plain loops written here, for every
 * length around 16, without writing after the row. The loops are compared with double. */
#include "test/unit/backends/cpu/row_ops_plain.h"

#include "backends/cpu/int8/int8_product.h"
#include "base/min_max.h"
#include "quant/rotate.h"

static const size_t lengths[] = { 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 251, 576, 1000 };

/* Fills a guarded row at an unaligned place of the buffer and returns the row. */
static float *guarded(float *buffer, size_t shift) {
    for (size_t i = 0; i < N_MAX + 2 * GUARD; i++)
        buffer[i] = untouched;
    return buffer + shift % GUARD;
}

static void check_guard(const float *buffer, const float *row, size_t n) {
    for (const float *p = buffer; p < buffer + N_MAX + 2 * GUARD; p++)
        if (p < row || p >= row + n)
            assert_memory_equal(p, &untouched, sizeof(*p));
}

static void test_row_ops_dot(void **state) {
    float a[N_MAX + 1], b[N_MAX];

    fill(a, N_MAX, 3);
    fill(b, N_MAX, 2);
    EACH_BUILD (ops)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++)
            for (size_t shift = 0; shift < 2; shift++) {
                float actual = ops->dot(a + shift, b, lengths[l]), expected = plain_dot(a + shift, b, lengths[l]);
                double exact = 0, size = 0;

                check_row(ops, "dot", &actual, &expected, 1);
                for (size_t i = 0; i < lengths[l]; i++) {
                    exact += (double)a[i + shift] * (double)b[i];
                    size += fabs((double)a[i + shift] * (double)b[i]);
                }
                assert_true(fabs((double)actual - exact) <= size * 16 * 0x1p-24);
            }
}

static void test_row_ops_rms_norm(void **state) {
    float x[N_MAX], w[N_MAX], buffer[N_MAX + 2 * GUARD], expected[N_MAX];

    fill(x, N_MAX, 5);
    fill(w, N_MAX, 1.5f);
    EACH_BUILD (ops)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
            size_t n = lengths[l];
            float *y = guarded(buffer, l), mean = plain_dot(x, x, n) / (float)n, factor = 1.0f / sqrtf(mean + 1e-5f);

            for (size_t i = 0; i < n; i++) {
                expected[i] = x[i] * factor;
                expected[i] = expected[i] * w[i];
            }
            ops->rms_norm(x, w, 1e-5f, n, y);
            check_row(ops, "rms_norm", y, expected, n);
            check_guard(buffer, y, n);
            memcpy(y, x, n * sizeof(*y));
            ops->rms_norm(y, w, 1e-5f, n, y);
            check_row(ops, "rms_norm in place", y, expected, n);
        }
}

static void test_row_ops_add_scale(void **state) {
    float x[N_MAX], y[N_MAX], buffer[N_MAX + 2 * GUARD], expected[N_MAX];

    fill(x, N_MAX, 5);
    fill(y, N_MAX, 1e-3f);
    EACH_BUILD (ops)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
            size_t n = lengths[l];
            float *to = guarded(buffer, l);

            for (size_t i = 0; i < n; i++)
                expected[i] = x[i] + y[i];
            memcpy(to, x, n * sizeof(*to));
            ops->add(to, y, n);
            check_row(ops, "add", to, expected, n);
            for (size_t i = 0; i < n; i++)
                expected[i] *= -25.298221f;
            ops->scale(to, -25.298221f, n);
            check_row(ops, "scale", to, expected, n);
            check_guard(buffer, to, n);
        }
}

static void test_row_ops_silu_gelu(void **state) {
    static const float special[] = { 0,   -0.0f, 1e4f, -1e4f,  FLT_MAX, -FLT_MAX, 88,
                                     -88, 90,    -90,  1e-40f, -1e-40f, 12,       -12 };
    float gate[N_MAX], up[N_MAX], buffer[N_MAX + 2 * GUARD], expected[N_MAX];

    fill(gate, N_MAX, 12);
    fill(up, N_MAX, 4);
    memcpy(gate, special, sizeof(special));
    for (size_t i = 0; i < ARRAY_LEN(special); i++)
        up[i] = 1;
    EACH_BUILD (ops)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++)
            for (int gelu = 0; gelu < 2; gelu++) {
                size_t n = lengths[l];
                float *out = guarded(buffer, l);

                for (size_t i = 0; i < n; i++) {
                    float a = gate[i], square = a * a, inner = -0.07135481627260025f * square, exponent;
                    double z = 0.7978845608028654 * ((double)a + 0.044715 * (double)a * (double)a * (double)a), exact;

                    inner = -1.5957691216057308f + inner;
                    exponent = gelu ? a * inner : -a;
                    expected[i] = 1 + plain_exp(exponent);
                    expected[i] = a / expected[i];
                    expected[i] = expected[i] * up[i];
                    exact = (double)a * (gelu ? 0.5 * (1 + tanh(z)) : 1 / (1 + exp(-(double)a))) * (double)up[i];
                    assert_true(fabs((double)expected[i] - exact) <= 1e-5 * fabs(exact) + 3e-6);
                }
                memcpy(out, gate, n * sizeof(*out));
                (gelu ? ops->gelu_mul : ops->silu_mul)(out, up, n, out);
                check_row(ops, gelu ? "gelu" : "silu", out, expected, n);
                check_guard(buffer, out, n);
                for (size_t i = 0; i < n; i++)
                    assert_true(isfinite(out[i]));
            }
}

static void test_row_ops_rope(void **state) {
    static const size_t n_rots[] = { 2, 4, 16, 30, 32, 64, 96, 128, 256 };
    float x[256], cos_row[128], sin_row[128], expected[256], buffer[N_MAX + 2 * GUARD];

    EACH_BUILD (ops)
        for (size_t c = 0; c < ARRAY_LEN(n_rots); c++)
            for (int neox = 0; neox < 2; neox++) {
                size_t n = n_rots[c];
                float *row = guarded(buffer, c);

                fill(x, n, 3);
                fill(cos_row, n / 2, 1);
                fill(sin_row, n / 2, 1);
                for (size_t i = 0; i < n / 2; i++) {
                    size_t at = neox ? i : 2 * i, other = neox ? i + n / 2 : 2 * i + 1;
                    float ac = x[at] * cos_row[i], bs = x[other] * sin_row[i];
                    float as = x[at] * sin_row[i], bc = x[other] * cos_row[i];

                    expected[at] = ac - bs;
                    expected[other] = as + bc;
                }
                memcpy(row, x, n * sizeof(*x));
                (neox ? ops->rope_neox : ops->rope_norm)(row, cos_row, sin_row, n);
                check_row(ops, neox ? "rope_neox" : "rope_norm", row, expected, n);
                check_guard(buffer, row, n);
            }
}

static void test_row_ops_hadamard(void **state) {
    float x[N_MAX], expected[N_MAX], buffer[N_MAX + 2 * GUARD];

    EACH_BUILD (ops)
        for (size_t block = 16; block <= 512; block *= 2)
            for (size_t n = block; n <= N_MAX; n += block * (N_MAX / block > 1 ? N_MAX / block - 1 : 1)) {
                float *row = guarded(buffer, block / 16);
                double before = 0, after = 0;
                float greatest;

                fill(x, n, 3);
                memcpy(expected, x, n * sizeof(*x));
                for (size_t start = 0; start < n; start += block) {
                    for (size_t h = 1; h < block; h *= 2)
                        for (size_t i = 0; i < block; i++)
                            if (!(i & h)) {
                                float a = expected[start + i], b = expected[start + i + h];

                                expected[start + i] = a + b;
                                expected[start + i + h] = a - b;
                            }
                    for (size_t i = 0; i < block; i++)
                        expected[start + i] *= (float)(1 / sqrt((double)block));
                }
                memcpy(row, x, n * sizeof(*x));
                greatest = ops->hadamard(row, n, block, row);
                check_row(ops, "hadamard", row, expected, n);
                assert_true(greatest == ops->amax(expected, n));
                check_guard(buffer, row, n);
                for (size_t i = 0; i < n; i++)
                    greatest = fabsf(expected[i]) > greatest ? -1 : greatest; /* none is greater */
                assert_true(greatest > 0);
                memset(row, 0, n * sizeof(*row));
                (void)ops->hadamard(x, n, block, row); /* from another buffer */
                check_row(ops, "hadamard", row, expected, n);
                for (size_t i = 0; i < n; i++) {
                    before += (double)x[i] * (double)x[i];
                    after += (double)row[i] * (double)row[i];
                }
                assert_true(fabs(after / before - 1) < 1e-5);
                rotate_row(x, n, (uint32_t)block); /* the definition that weights are rotated by */
                check_row(ops, "hadamard against rotate_row", row, x, n);
            }
}

static void test_row_ops_quantize(void **state) {
    static const float ranges[] = { 4, 1e-30f, 1e30f };
    float x[N_MAX];
    int8_t q[N_MAX + 64 + 1], expected[N_MAX + 64];

    EACH_BUILD (ops)
        for (size_t l = 0; l < ARRAY_LEN(lengths) * ARRAY_LEN(ranges); l++) {
            size_t n = lengths[l / ARRAY_LEN(ranges)], n_padded = (n + 63) / 64 * 64;
            float amax = 0, scale, expected_scale;

            fill(x, n, ranges[l % ARRAY_LEN(ranges)]);
            memset(expected, 0, sizeof(expected));
            for (size_t i = 0; i < n; i++)
                amax = fmaxf(amax, fabsf(x[i]));
            for (size_t i = 0; i < n; i++)
                expected[i] = (int8_t)rintf(x[i] * (127.0f / amax));
            expected_scale = amax / 127.0f;
            memset(q, 0x55, sizeof(q));
            scale = ops->quantize(x, n, ops->amax(x, n), 64, q);
            check_row(ops, "scale of quantize", &scale, &expected_scale, 1);
            assert_memory_equal(q, expected, n_padded);
            assert_int_equal(q[n_padded], 0x55);
        }
}

/* Half-way cases go to even; the greatest value is exactly +-127. */
static void test_row_ops_quantize_ties(void **state) {
    static const float x[] = { 127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, -127, 126.5f, -126.5f };
    static const int8_t expected[] = { 127, 0, 2, 2, 0, -2, -2, -127, 126, -126 };
    int8_t q[64];

    EACH_BUILD (ops) {
        assert_true(ops->quantize(x, ARRAY_LEN(x), ops->amax(x, ARRAY_LEN(x)), 64, q) == 1);
        assert_memory_equal(q, expected, sizeof(expected));
    }
}

static void test_row_ops_quantize_hostile(void **state) {
    static const float rows[][4] = {
        { NAN, 1, -2, INFINITY },    { NAN, NAN, NAN, NAN }, { INFINITY, -INFINITY, 0, 1 },
        { FLT_MAX, -FLT_MAX, 1, 0 }, { 1, NAN, -1, 0.25f },
    };
    static const float zeros[][4] = { { 0, -0.0f, 0, 0 }, { 1e-45f, 0, 0, 0 }, { 1e-39f, -3.7e-37f, 0, 0 } };
    int8_t q[64], first[64];
    float scale, first_scale;

    for (size_t c = 0; c < ARRAY_LEN(rows); c++) {
        bool have_first = false;

        EACH_BUILD (ops) {
            scale = ops->quantize(rows[c], 4, ops->amax(rows[c], 4), 64, q);
            assert_true(isfinite(scale));
            for (size_t i = 0; i < 64; i++)
                assert_true(q[i] >= -127);
            if (have_first) {
                assert_memory_equal(q, first, 64);
                assert_memory_equal(&scale, &first_scale, sizeof(scale));
            }
            memcpy(first, q, 64);
            first_scale = scale;
            have_first = true;
        }
    }
    memset(first, 0, 64);
    for (size_t c = 0; c < ARRAY_LEN(zeros); c++)
        EACH_BUILD (ops) {
            assert_true(ops->quantize(zeros[c], 4, ops->amax(zeros[c], 4), 64, q) == 0);
            assert_memory_equal(q, first, 64);
        }
}

/* Values below, above and on the threshold; ties go to even. */
static void test_row_ops_quantize_static(void **state) {
    static const float scales[] = { 0.5f, 0.0213f, 1e-30f, 1e30f, 3e-5f };
    float x[N_MAX], rests[N_MAX + 1], expected_rests[N_MAX];
    uint32_t channels[N_MAX + 1], expected_channels[N_MAX];
    int8_t q[N_MAX + 64 + 1], expected[N_MAX + 64];

    EACH_BUILD (ops)
        for (size_t l = 0; l < ARRAY_LEN(lengths) * ARRAY_LEN(scales); l++) {
            size_t n = lengths[l / ARRAY_LEN(scales)], n_padded = (n + 63) / 64 * 64, n_expected = 0;
            float scale = scales[l % ARRAY_LEN(scales)], factor = 1.0f / scale, threshold = 127.0f * scale;

            fill(x, n, 200 * scale);
            x[draw() % n] = threshold;
            x[draw() % n] = -threshold;
            x[draw() % n] = nextafterf(threshold, INFINITY);
            x[draw() % n] = 2.5f * scale;
            memset(expected, 0, sizeof(expected));
            for (size_t i = 0; i < n; i++) {
                expected[i] = (int8_t)rintf(fminf(fmaxf(x[i] * factor, -127), 127));
                if (fabsf(x[i]) > threshold) {
                    expected_channels[n_expected] = (uint32_t)i;
                    expected_rests[n_expected++] = x[i] > 0 ? x[i] - threshold : x[i] + threshold;
                    assert_int_equal(abs(expected[i]), 127);
                }
            }
            memset(q, 0x55, sizeof(q));
            assert_int_equal(ops->quantize_static(x, n, 64, scale, q), n_expected);
            assert_memory_equal(q, expected, n_padded);
            assert_int_equal(q[n_padded], 0x55);
            channels[n_expected] = 12345;
            rests[n_expected] = untouched;
            ops->outliers(x, n, scale, channels, rests);
            assert_memory_equal(channels, expected_channels, n_expected * sizeof(*channels));
            check_row(ops, "outliers", rests, expected_rests, n_expected);
            assert_true(channels[n_expected] == 12345 && same_value(rests[n_expected], untouched));
        }
}

static void test_row_ops_quantize_static_hostile(void **state) {
    static const float x[] = { NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 0, -0.0f, 1e-45f };
    static const int8_t expected[] = { 127, 127, -127, 127, -127, 0, 0, 0 };
    uint32_t channels[8];
    float rests[8];
    int8_t q[64];

    EACH_BUILD (ops) {
        assert_int_equal(ops->quantize_static(x, 8, 64, 1, q), 4); /* NaN is not counted */
        assert_memory_equal(q, expected, sizeof(expected));
        ops->outliers(x, 8, 1, channels, rests);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(channels[i], i + 1);
        assert_true(rests[0] >= FLT_MAX && isfinite(rests[0]) && isfinite(rests[1]));
    }
}

static void test_row_ops_add_column(void **state) {
    float scales[N_MAX], y[N_MAX], buffer[N_MAX + 2 * GUARD], expected[N_MAX];
    int8_t w[N_MAX + 1];

    fill(scales, N_MAX, 0.01f);
    fill(y, N_MAX, 3);
    for (size_t i = 0; i < sizeof(w); i++)
        w[i] = (int8_t)draw();
    EACH_BUILD (ops)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
            size_t n = lengths[l];
            float *row = guarded(buffer, l), rest = draw_float(40);

            for (size_t i = 0; i < n; i++) {
                float weight = scales[i] * (float)w[1 + i];

                weight = rest * weight;
                expected[i] = y[i] + weight;
            }
            memcpy(row, y, n * sizeof(*y));
            ops->add_column(rest, w + 1, scales, n, row);
            check_row(ops, "add_column", row, expected, n);
            check_guard(buffer, row, n);
        }
}

/* Integers at odd addresses, every length, -128 among them. */
static void test_row_ops_levels(void **state) {
    float buffer[N_MAX + 2 * GUARD], expected[N_MAX];
    int8_t q[N_MAX + GUARD];
    uint8_t shifted[N_MAX + GUARD + 1];

    for (size_t i = 0; i < sizeof(q); i++)
        q[i] = (int8_t)draw();
    q[GUARD] = -128;
    EACH_BUILD (ops)
        for (size_t n = 0; n <= N_MAX; n += n < 130 ? 1 : 149) {
            const int8_t *levels = q + n % GUARD;
            float *row = guarded(buffer, n), factor = draw_float(0.1f);
            int32_t sum = 0;

            memset(shifted, 0x55, sizeof(shifted));
            ops->dequantize(levels, factor, n, row);
            ops->shift(levels, n, shifted + 1);
            for (size_t i = 0; i < n; i++) {
                expected[i] = (float)levels[i] * factor;
                sum += levels[i];
                assert_int_equal(shifted[1 + i], levels[i] + 128);
            }
            check_row(ops, "dequantize", row, expected, n);
            check_guard(buffer, row, n);
            assert_int_equal(ops->sum(levels, n), sum);
            assert_true(shifted[0] == 0x55 && shifted[1 + n] == 0x55);
        }
}

/* The longest row of the greatest values overflows neither in the total nor in a partial sum. */
static void test_row_ops_sum_of_most(void **state) {
    static int8_t q[INT8_K_MAX];

    EACH_BUILD (ops)
        for (int level = -127; level <= 127; level += 254) {
            memset(q, level, sizeof(q));
            assert_int_equal(ops->sum(q, sizeof(q)), level * INT8_K_MAX);
        }
}

static void test_row_ops_select(void **state) {
    const uint32_t all = CPU_ALL;

    assert_int_equal(row_ops_at(row_ops_n() - 1)->need, 0);
    for (uint32_t sub = 0;; sub = (sub - all) & all) {
        size_t i = 0;

        while (row_ops_at(i)->need & ~sub)
            i++;
        assert_ptr_equal(row_ops_select(sub), row_ops_at(i));
        if (sub == all)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_ops_dot),
        cmocka_unit_test(test_row_ops_rms_norm),
        cmocka_unit_test(test_row_ops_add_scale),
        cmocka_unit_test(test_row_ops_silu_gelu),
        cmocka_unit_test(test_row_ops_rope),
        cmocka_unit_test(test_row_ops_hadamard),
        cmocka_unit_test(test_row_ops_quantize),
        cmocka_unit_test(test_row_ops_quantize_ties),
        cmocka_unit_test(test_row_ops_quantize_hostile),
        cmocka_unit_test(test_row_ops_quantize_static),
        cmocka_unit_test(test_row_ops_quantize_static_hostile),
        cmocka_unit_test(test_row_ops_add_column),
        cmocka_unit_test(test_row_ops_levels),
        cmocka_unit_test(test_row_ops_sum_of_most),
        cmocka_unit_test(test_row_ops_select),
    };
    row_ops_begin(20240608);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
