/* Every build of the row operators that this machine can run gives the bits of plain loops written here, for every
 * length around 16 and with the floats after the row untouched; the loops are compared with double. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/row_ops.h"
#include "base/cleanup.h"
#include "base/cpu.h"
#include "base/f16.h"
#include "quant/rotate.h"

enum { N_MAX = 1024, GUARD = 4 };

static const size_t lengths[] = { 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 251, 576, 1000 };
static const float untouched = -3.0625e20f;
static uint64_t seed;

static uint32_t draw(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

/* In [-range, range), with all fraction bits in use. */
static float draw_float(float range) {
    return (float)((double)(int32_t)draw() / 2147483648.0 * (double)range);
}

static void fill(float *x, size_t n, float range) {
    for (size_t i = 0; i < n; i++)
        x[i] = draw_float(range);
}

/* Fills a guarded row at an odd place of the buffer and returns the row. */
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

static bool same_value(float a, float b) {
    return !memcmp(&a, &b, sizeof(a)) || (isnan(a) && isnan(b));
}

static void check_row(const RowOps *ops, const char *what, const float *actual, const float *expected, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!same_value(actual[i], expected[i]))
            fail_msg("%s %s n=%zu: [%zu] is %a, expected %a", ops->name, what, n, i, (double)actual[i], (double)expected[i]);
}

#define EACH_BUILD(ops)                                                                                                \
    for (size_t build_ = 0; build_ < row_ops_n(); build_++)                                                            \
        for (const RowOps *ops = row_ops_at(build_); ops && !(ops->need & ~cpu_features()); ops = NULL)

/* --- plain loops ---------------------------------------------------------------------------------------------------- */

static float plain_tree(float *sum) {
    for (size_t step = 8; step; step /= 2)
        for (size_t i = 0; i < step; i++)
            sum[i] = sum[i] + sum[i + step];
    return sum[0];
}

static float plain_dot(const float *a, const float *b, size_t n) {
    float sum[16] = { 0 };

    for (size_t i = 0; i < n; i++) {
        float product = a[i] * b[i];

        sum[i % 16] = sum[i % 16] + product;
    }
    return plain_tree(sum);
}

/* The documented steps of exp, one number at a time. */
static float plain_exp(float x) {
    static const float q[] = { 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f };
    float n, r, p, product;
    int k;

    if (isnan(x))
        return x;
    x = fminf(fmaxf(x, -105), 89);
    product = x * 0x1.715476p0f;
    n = rintf(product);
    k = (int)n;
    product = n * 0.693359375f;
    r = x - product;
    product = n * -2.12194440e-4f;
    r = r - product;
    p = q[0];
    for (size_t i = 1; i < ARRAY_LEN(q); i++) {
        product = p * r;
        p = product + q[i];
    }
    product = r * r;
    product = p * product;
    p = product + r;
    p = p + 1;
    return ldexpf(p, k); /* rounds once, as the kernels do */
}

static uint16_t plain_f16(float x) {
    return f32_to_f16(x > 65504 ? 65504 : x < -65504 ? -65504 : x);
}

/* --- tests ---------------------------------------------------------------------------------------------------------- */

static void test_row_ops_dot(void **state) {
    float a[N_MAX + 1], b[N_MAX];

    fill(a, N_MAX, 3);
    fill(b, N_MAX, 2);
    EACH_BUILD(ops)
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
    EACH_BUILD(ops)
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
    EACH_BUILD(ops)
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

static double ulp_of(double value) {
    float at = (float)fabs(value);

    return at < FLT_MIN ? 0x1p-149 : (double)(nextafterf(at, INFINITY) - at);
}

/* Every 211th float between the ends, and the ends' neighbourhoods. */
static void test_row_ops_exp(void **state) {
    const RowOps *best = row_ops_select(cpu_features());
    double worst = 0;
    float x[N_MAX], y[N_MAX], expected;
    uint32_t bits = 0;

    for (bool more = true; more;) {
        size_t n = 0;

        for (; n < N_MAX && more; bits += 211) {
            if (bits > 0x7f800000 + 211) {
                more = false;
                break;
            }
            x[n++] = f32_from_bits(bits <= 0x7f7fffff ? bits : 0x7f7fffff);
            if (n < N_MAX)
                x[n++] = -f32_from_bits(bits <= 0x7f7fffff ? bits : 0x7f7fffff);
        }
        best->exp(x, n, y);
        for (size_t i = 0; i < n; i++) {
            double exact = exp((double)x[i]);

            if (exact > 0x1.ffffffp127) {
                assert_true(isinf(y[i]) && y[i] > 0);
            } else if (exact <= (double)FLT_MAX) {
                double error = fabs((double)y[i] - exact) / ulp_of(exact);

                worst = error > worst ? error : worst;
            }
        }
    }
    printf("exp: greatest error %.3f ulp (%s)\n", worst, best->name);
    assert_true(worst < 2);
    EACH_BUILD(ops) {
        for (int round = 0; round < 400; round++) {
            for (size_t i = 0; i < N_MAX; i++)
                x[i] = round % 2 ? draw_float(110) : f32_from_bits(draw());
            ops->exp(x, N_MAX - (size_t)round % 17, y);
            for (size_t i = 0; i < N_MAX - (size_t)round % 17; i++) {
                expected = plain_exp(x[i]);
                if (!same_value(y[i], expected))
                    fail_msg("%s exp(%a) is %a, expected %a", ops->name, (double)x[i], (double)y[i], (double)expected);
            }
        }
    }
}

static void test_row_ops_exp_special(void **state) {
    static const float x[] = { 0, -0.0f, INFINITY, -INFINITY, NAN, -104.5f, 88.73f, -FLT_MAX, FLT_MAX };
    float y[ARRAY_LEN(x)];

    EACH_BUILD(ops) {
        ops->exp(x, ARRAY_LEN(x), y);
        assert_true(y[0] == 1 && y[1] == 1 && y[2] == INFINITY && y[3] == 0 && isnan(y[4]) && y[5] == 0 && y[6] == INFINITY);
        assert_true(y[7] == 0 && !signbit(y[7]) && y[8] == INFINITY);
        memcpy(y, x, sizeof(y)); /* in place */
        ops->exp(y, 1, y);
        assert_true(y[0] == 1);
    }
}

static void test_row_ops_silu_gelu(void **state) {
    static const float special[] = { 0, -0.0f, 1e4f, -1e4f, FLT_MAX, -FLT_MAX, 88, -88, 90, -90, 1e-40f, -1e-40f, 12, -12 };
    float gate[N_MAX], up[N_MAX], buffer[N_MAX + 2 * GUARD], expected[N_MAX];

    fill(gate, N_MAX, 12);
    fill(up, N_MAX, 4);
    memcpy(gate, special, sizeof(special));
    for (size_t i = 0; i < ARRAY_LEN(special); i++)
        up[i] = 1;
    EACH_BUILD(ops)
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

    EACH_BUILD(ops)
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

    EACH_BUILD(ops)
        for (size_t block = 32; block <= 512; block *= 2)
            for (size_t n = block; n <= N_MAX; n += block * (N_MAX / block > 1 ? N_MAX / block - 1 : 1)) {
                float *row = guarded(buffer, block / 32);
                double before = 0, after = 0;

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
                ops->hadamard(row, n, block);
                check_row(ops, "hadamard", row, expected, n);
                check_guard(buffer, row, n);
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

    EACH_BUILD(ops)
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
            scale = ops->quantize(x, n, n_padded, q);
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

    EACH_BUILD(ops) {
        assert_true(ops->quantize(x, ARRAY_LEN(x), 64, q) == 1);
        assert_memory_equal(q, expected, sizeof(expected));
    }
}

static void test_row_ops_quantize_hostile(void **state) {
    static const float rows[][4] = {
        { NAN, 1, -2, INFINITY }, { NAN, NAN, NAN, NAN }, { INFINITY, -INFINITY, 0, 1 }, { FLT_MAX, -FLT_MAX, 1, 0 },
        { 1, NAN, -1, 0.25f },
    };
    static const float zeros[][4] = { { 0, -0.0f, 0, 0 }, { 1e-45f, 0, 0, 0 }, { 1e-39f, -3.7e-37f, 0, 0 } };
    int8_t q[64], first[64];
    float scale, first_scale;

    for (size_t c = 0; c < ARRAY_LEN(rows); c++) {
        bool have_first = false;

        EACH_BUILD(ops) {
            scale = ops->quantize(rows[c], 4, 64, q);
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
        EACH_BUILD(ops) {
            assert_true(ops->quantize(zeros[c], 4, 64, q) == 0);
            assert_memory_equal(q, first, 64);
        }
}

static void test_row_ops_to_f16(void **state) {
    static const float special[] = { 0, -0.0f, 65504, 65519.99f, 65520, 1e30f, -1e30f, FLT_MAX, -FLT_MAX, 0x1p-24f, 0x1p-25f,
                                     0x1.8p-25f, -0x1p-26f, 0x1.ffcp-15f, 0x1.ffep-15f, 0x1.fffp-15f, 1e-45f, 2049, 2050, 2051 };
    float x[N_MAX];
    uint16_t half[N_MAX + 1];

    EACH_BUILD(ops)
        for (int round = 0; round < 400; round++) {
            size_t n = lengths[(size_t)round % ARRAY_LEN(lengths)];

            for (size_t i = 0; i < n; i++)
                x[i] = round < 19 && i < ARRAY_LEN(special) ? special[i]
                       : round % 2                          ? f32_from_bits((draw() & 0x8fffffff) | 0x30000000)
                                                            : f32_from_bits(draw());
            half[n] = 0x1234;
            ops->to_f16(x, n, half);
            assert_int_equal(half[n], 0x1234);
            for (size_t i = 0; i < n; i++)
                if (half[i] != plain_f16(x[i]))
                    fail_msg("%s to_f16(%a) is %04x, expected %04x", ops->name, (double)x[i], half[i], plain_f16(x[i]));
        }
}

static void test_row_ops_to_f16_infinity(void **state) {
    static const float x[] = { INFINITY, -INFINITY, NAN };
    uint16_t half[3];

    EACH_BUILD(ops) {
        ops->to_f16(x, 3, half);
        assert_int_equal(half[0], 0x7bff);
        assert_int_equal(half[1], 0xfbff);
        assert_true((half[2] & 0x7fff) > 0x7c00);
    }
}

/* A row with one position has weight 1: its values come out as they are. All 65536 halves, by both ways of reading. */
static void test_row_ops_f16_values(void **state) {
    enum { HEAD = 1024 };
    uint16_t k[HEAD] = { 0 }, v[HEAD];
    float q[HEAD] = { 0 }, score, out[HEAD];

    EACH_BUILD(ops)
        for (uint32_t first = 0; first < 65536; first += HEAD) {
            AttentionRow row = { .q = q, .k = k, .v = v, .kv_stride = HEAD, .end = 1, .n_group = 1, .head_size = HEAD,
                                 .scale = 1, .scores = &score, .out = out };

            for (uint32_t i = 0; i < HEAD; i++)
                v[i] = (uint16_t)(first + i);
            ops->attention(&row);
            for (uint32_t i = 0; i < HEAD; i++) {
                float expected = f16_to_f32(v[i]) + 0.0f; /* a sum that starts at +0 */

                check_row(ops, "value of f16", &out[i], &expected, 1);
            }
        }
}

static void plain_attention(const AttentionRow *row, float *weights) {
    size_t n = row->end - row->begin;

    for (size_t h = 0; h < row->n_group; h++) {
        float sum[16] = { 0 }, max = -INFINITY, total;

        for (size_t j = 0; j < n; j++) {
            float key[2 * N_MAX], score;

            for (size_t d = 0; d < row->head_size; d++)
                key[d] = f16_to_f32(row->k[(row->begin + j) * row->kv_stride + d]);
            score = plain_dot(row->q + h * row->head_size, key, row->head_size);
            weights[j] = score * row->scale;
            max = weights[j] > max ? weights[j] : max;
        }
        for (size_t j = 0; j < n; j++) {
            weights[j] = plain_exp(weights[j] - max);
            sum[j % 16] = sum[j % 16] + weights[j];
        }
        total = n ? 1.0f / plain_tree(sum) : 0;
        for (size_t d = 0; d < row->head_size; d++) {
            float out = 0;

            for (size_t j = 0; j < n; j++) {
                float weight = weights[j] * total, product = weight * f16_to_f32(row->v[(row->begin + j) * row->kv_stride + d]);

                out = out + product;
            }
            row->out[h * row->head_size + d] = out;
        }
    }
}

typedef struct AttentionCase {
    size_t head_size, n_group, begin, end;
} AttentionCase;

static void check_attention(const AttentionCase *c) {
    const size_t n = c->end - c->begin, stride = c->head_size * 2 + 16;
    _cleanup_(freep) uint16_t *k = malloc((c->end + 1) * stride * sizeof(*k)), *v = malloc((c->end + 1) * stride * sizeof(*v));
    _cleanup_(freep) float *q = malloc(c->n_group * c->head_size * sizeof(*q));
    _cleanup_(freep) float *out = malloc((c->n_group * c->head_size + 1) * sizeof(*out));
    _cleanup_(freep) float *expected = malloc(c->n_group * c->head_size * sizeof(*expected));
    _cleanup_(freep) float *scores = malloc((c->n_group * n + 1) * sizeof(*scores));
    AttentionRow row = { .q = q, .k = k, .v = v, .kv_stride = stride, .begin = c->begin, .end = c->end, .n_group = c->n_group,
                         .head_size = c->head_size, .scale = 0.25f, .scores = scores, .out = expected };

    assert_true(k && v && q && out && expected && scores);
    for (size_t i = 0; i < (c->end + 1) * stride; i++) { /* what stands outside the range would poison the result */
        bool inside = i / stride >= c->begin && i / stride < c->end && i % stride < c->head_size;

        k[i] = inside ? f32_to_f16(draw_float(2)) : 0x7e00;
        v[i] = inside ? f32_to_f16(draw_float(3)) : 0x7e00;
    }
    fill(q, c->n_group * c->head_size, 2);
    plain_attention(&row, scores);
    EACH_BUILD(ops) {
        row.out = out;
        out[c->n_group * c->head_size] = scores[c->n_group * n] = untouched;
        ops->attention(&row);
        check_row(ops, "attention", out, expected, c->n_group * c->head_size);
        assert_memory_equal(&out[c->n_group * c->head_size], &untouched, sizeof(float));
        assert_memory_equal(&scores[c->n_group * n], &untouched, sizeof(float));
        memcpy(out, q, c->n_group * c->head_size * sizeof(*out));
        row.q = out;
        ops->attention(&row);
        row.q = q;
        check_row(ops, "attention in place", out, expected, c->n_group * c->head_size);
    }
    for (size_t h = 0; h < c->n_group; h++) { /* against double */
        double total = 0, max = -INFINITY;
        _cleanup_(freep) double *weights = malloc((n + 1) * sizeof(*weights));

        assert_non_null(weights);
        for (size_t j = 0; j < n; j++) {
            weights[j] = 0;
            for (size_t d = 0; d < c->head_size; d++)
                weights[j] += (double)q[h * c->head_size + d] * (double)f16_to_f32(k[(c->begin + j) * stride + d]) * 0.25;
            max = fmax(max, weights[j]);
        }
        for (size_t j = 0; j < n; j++)
            total += weights[j] = exp(weights[j] - max);
        for (size_t d = 0; d < c->head_size; d++) {
            double exact = 0;

            for (size_t j = 0; j < n; j++)
                exact += weights[j] / total * (double)f16_to_f32(v[(c->begin + j) * stride + d]);
            assert_true(fabs((double)expected[h * c->head_size + d] - exact) < 1e-4);
        }
    }
}

static void test_row_ops_attention(void **state) {
    static const size_t heads[] = { 16, 48, 64, 80, 128, 256, 512 };
    static const AttentionCase more[] = { { 64, 3, 0, 0 }, { 64, 3, 5, 5 }, { 64, 9, 0, 1000 }, { 256, 4, 700, 1212 }, { 128, 6, 0, 513 } };

    for (size_t a = 0; a < ARRAY_LEN(heads); a++)
        for (size_t n = 1; n <= 70; n += n < 20 ? 1 : 7)
            check_attention(&(AttentionCase){ heads[a], 1 + (a + n) % 4, n % 3 * 7, n % 3 * 7 + n });
    for (size_t i = 0; i < ARRAY_LEN(more); i++)
        check_attention(&more[i]);
}

/* Rows together, each with its own range, have the bits of rows alone. */
static void check_attention_rows(size_t head_size, size_t n_group, size_t n_rows, const size_t (*ranges)[2]) {
    enum { POSITIONS = 400 };
    const size_t stride = head_size * 2, n_q = n_group * head_size;
    _cleanup_(freep) uint16_t *k = malloc(POSITIONS * stride * sizeof(*k)), *v = malloc(POSITIONS * stride * sizeof(*v));
    _cleanup_(freep) float *q = malloc(n_rows * n_q * sizeof(*q)), *out = malloc(n_rows * n_q * sizeof(*out));
    _cleanup_(freep) float *expected = malloc(n_rows * n_q * sizeof(*expected));
    _cleanup_(freep) float *scores = malloc(n_rows * n_group * POSITIONS * sizeof(*scores));
    AttentionRow rows[16];

    assert_true(k && v && q && out && expected && scores && n_rows <= ARRAY_LEN(rows));
    for (size_t i = 0; i < POSITIONS * stride; i++) {
        k[i] = f32_to_f16(draw_float(2));
        v[i] = f32_to_f16(draw_float(3));
    }
    fill(q, n_rows * n_q, 2);
    for (size_t r = 0; r < n_rows; r++) {
        rows[r] = (AttentionRow){ .q = q + r * n_q, .k = k, .v = v, .kv_stride = stride, .begin = ranges[r][0],
                                  .end = ranges[r][1], .n_group = n_group, .head_size = head_size, .scale = 0.25f,
                                  .scores = scores + r * n_group * POSITIONS, .out = expected + r * n_q };
        plain_attention(&rows[r], rows[r].scores);
        rows[r].out = out + r * n_q;
    }
    EACH_BUILD(ops) {
        memcpy(out, q, n_rows * n_q * sizeof(*out));
        for (size_t r = 0; r < n_rows; r++)
            rows[r].q = r % 2 ? rows[r].out : q + r * n_q; /* some in place */
        ops->attention_rows(rows, n_rows);
        check_row(ops, "attention_rows", out, expected, n_rows * n_q);
    }
}

static void test_row_ops_attention_rows(void **state) {
    static const size_t causal[][2] = { { 0, 95 }, { 0, 96 }, { 0, 97 }, { 0, 98 }, { 0, 99 }, { 0, 100 }, { 0, 101 }, { 0, 102 } };
    static const size_t window[][2] = { { 130, 301 }, { 131, 302 }, { 132, 303 }, { 133, 304 }, { 134, 305 } };
    static const size_t apart[][2] = { { 0, 1 }, { 399, 400 }, { 63, 66 }, { 50, 50 }, { 127, 131 }, { 2, 390 } };
    static const size_t head_sizes[] = { 16, 64, 80, 128, 256, 1040 };

    for (size_t i = 0; i < ARRAY_LEN(head_sizes); i++)
        for (size_t n_group = 1; n_group <= 9; n_group++) {
            check_attention_rows(head_sizes[i], n_group, 1 + n_group % ARRAY_LEN(causal), causal);
            check_attention_rows(head_sizes[i], n_group, ARRAY_LEN(window), window);
            check_attention_rows(head_sizes[i], n_group, ARRAY_LEN(apart), apart);
        }
}

/* Heads wider than what is expanded at once. */
static void test_row_ops_attention_wide_head(void **state) {
    check_attention(&(AttentionCase){ 1040, 2, 1, 12 });
    check_attention(&(AttentionCase){ 2048, 2, 0, 9 });
}

static void test_row_ops_select(void **state) {
    const uint32_t all = CPU_AVX2 | CPU_AVX512 | CPU_AVX512VNNI | CPU_AMX_INT8;

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
        cmocka_unit_test(test_row_ops_exp),
        cmocka_unit_test(test_row_ops_exp_special),
        cmocka_unit_test(test_row_ops_silu_gelu),
        cmocka_unit_test(test_row_ops_rope),
        cmocka_unit_test(test_row_ops_hadamard),
        cmocka_unit_test(test_row_ops_quantize),
        cmocka_unit_test(test_row_ops_quantize_ties),
        cmocka_unit_test(test_row_ops_quantize_hostile),
        cmocka_unit_test(test_row_ops_to_f16),
        cmocka_unit_test(test_row_ops_to_f16_infinity),
        cmocka_unit_test(test_row_ops_f16_values),
        cmocka_unit_test(test_row_ops_attention),
        cmocka_unit_test(test_row_ops_attention_wide_head),
        cmocka_unit_test(test_row_ops_attention_rows),
        cmocka_unit_test(test_row_ops_select),
    };
    const char *env = getenv("TEST_SEED");

    seed = env ? strtoull(env, NULL, 0) : 20240608;
    printf("seed %llu (TEST_SEED sets another)\n", (unsigned long long)seed);
    for (size_t i = 0; i < row_ops_n(); i++)
        printf("%s: %s\n", row_ops_at(i)->name, row_ops_at(i)->need & ~cpu_features() ? "absent on this machine" : "tested");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
