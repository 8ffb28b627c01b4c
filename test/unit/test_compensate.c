/* Error-compensated rounding, coordinate descent and gain correction, against double-precision forms of their
 * definitions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "quant/blas.h"
#include "quant/compensate.h"
#include "quant/descent.h"
#include "quant/gain.h"
#include "quant/grid.h"
#include "test/unit/rounding_case.h"

static Grid grid; /* of the tests that run now */

static void case_round(Case *c) {
    CompensateCall call = { &c->factor, c->n, c->w, grid, c->bits, c->scales, c->q, c->errors };

    assert_int_equal(compensate_round(&call, c->pool), 0);
}

static double error_under(const Case *c, size_t channel, const int8_t *q) {
    double sum = 0;

    for (size_t i = 0; i < c->k; i++)
        for (size_t j = 0; j < c->k; j++) {
            const float *w = c->w + channel * c->k, s = c->scales[channel];

            sum += ((double)w[i] - (double)s * q[channel * c->k + i]) * c->h[i * c->k + j] *
                   ((double)w[j] - (double)s * q[channel * c->k + j]);
        }
    return sum;
}

static double level_of(double v, int bits) {
    double top = grid_max(grid, bits), q = bits == 8 ? nearbyint(v) : 2 * floor(v / 2) + 1;

    if (grid_has_table(grid, bits)) {
        q = grid_level(grid, 0, bits);
        for (int code = 1; code < 1 << bits; code++)
            if (fabs(grid_level(grid, code, bits) - v) < fabs(q - v))
                q = grid_level(grid, code, bits);
    }
    return q > top ? top : q < -top ? -top : q;
}

/* OPTQ as the paper writes it, in double precision: columns by falling diagonal, the error of each spread over the
 * later ones by the upper Cholesky factor of the inverse. */
static void optq(const Case *c, size_t channel, int8_t *q) {
    size_t k = c->k;
    double *a = calloc(k * 2 * k, sizeof(*a)), *u = calloc(k * k, sizeof(*u)), *w = malloc(k * sizeof(*w));

    assert_non_null(a);
    assert_non_null(u);
    assert_non_null(w);
    for (size_t i = 0; i < k; i++) { /* position i of OPTQ is position k - 1 - i of the factor */
        size_t input = c->factor.order[k - 1 - i];

        w[i] = (double)c->w[channel * k + input];
        for (size_t j = 0; j < k; j++)
            a[i * 2 * k + j] = c->h[input * k + c->factor.order[k - 1 - j]];
        a[i * 2 * k + k + i] = 1;
    }
    for (size_t p = 0; p < k; p++) /* Gauss-Jordan: the right half becomes the inverse */
        for (size_t i = 0; i < k; i++) {
            double f = i == p ? 1 / a[p * 2 * k + p] : -a[i * 2 * k + p] / a[p * 2 * k + p];

            if (i == p)
                continue;
            for (size_t j = 0; j < 2 * k; j++)
                a[i * 2 * k + j] += f * a[p * 2 * k + j];
        }
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            a[i * 2 * k + k + j] /= a[i * 2 * k + i];
    for (size_t i = 0; i < k; i++) /* inverse = U^T U */
        for (size_t j = i; j < k; j++) {
            double sum = a[i * 2 * k + k + j];

            for (size_t p = 0; p < i; p++)
                sum -= u[p * k + i] * u[p * k + j];
            u[i * k + j] = i == j ? sqrt(sum) : sum / u[i * k + i];
        }
    for (size_t i = 0; i < k; i++) {
        double s = (double)c->scales[channel], level = level_of(w[i] / s, c->bits[channel]);
        double error = (w[i] - s * level) / u[i * k + i];

        q[channel * k + c->factor.order[k - 1 - i]] = (int8_t)level;
        for (size_t j = i; j < k; j++)
            w[j] -= error * u[i * k + j];
    }
    free(a);
    free(u);
    free(w);
}

static void test_compensate_gives_what_optq_gives(void **cmocka) {
    Case c;
    size_t differ = 0;
    int8_t *q;

    case_init(&c, grid, 24, 96, 400, 2);
    q = malloc(c.n * c.k);
    assert_non_null(q);
    case_round(&c);
    for (size_t r = 0; r < c.n; r++) {
        optq(&c, r, q);
        for (size_t i = 0; i < c.k; i++)
            differ += q[r * c.k + i] != c.q[r * c.k + i];
        /* One weight on the border of two levels may go the other way in float32, and those after it follow. */
        assert_true(fabs(error_under(&c, r, q) - error_under(&c, r, c.q)) <= 0.05 * error_under(&c, r, q) + 1e-9);
    }
    assert_true(differ <= c.n * c.k / 50);
    free(q);
    case_deinit(&c);
}

static void test_compensate_reports_the_error_under_the_moments(void **cmocka) {
    Case c;

    case_init(&c, grid, 17, 130, 500, 2);
    case_round(&c);
    for (size_t r = 0; r < c.n; r++)
        assert_true(fabs(c.errors[r] - error_under(&c, r, c.q)) <= 2e-3 * c.errors[r]);
    case_deinit(&c);
}

static void test_compensate_beats_rounding_to_nearest(void **cmocka) {
    Case c;
    double plain = 0, compensated = 0;
    int8_t *q;

    case_init(&c, grid, 32, 192, 800, 2);
    q = malloc(c.n * c.k);
    assert_non_null(q);
    case_round(&c);
    for (size_t r = 0; r < c.n; r++) {
        for (size_t i = 0; i < c.k; i++)
            q[r * c.k + i] = (int8_t)level_of((double)c.w[r * c.k + i] / (double)c.scales[r], c.bits[r]);
        plain += error_under(&c, r, q);
        compensated += error_under(&c, r, c.q);
    }
    assert_true(compensated < 0.5 * plain);
    free(q);
    case_deinit(&c);
}

/* Of a channel without a scale too: it is packed like any other. */
static void assert_on_grid(const Case *c) {
    for (size_t r = 0; r < c->n; r++)
        for (size_t i = 0; i < c->k; i++) {
            int q = c->q[r * c->k + i], bits = c->bits[r];

            assert_true(q >= -grid_max(grid, bits) && q <= grid_max(grid, bits));
            assert_int_equal(grid_level(grid, grid_code(grid, q, bits), bits), q);
        }
}

/* One of every width. */
static void zero_channels(Case *c) {
    for (size_t r = 8; r < 16; r++) {
        c->scales[r] = 0;
        memset(c->w + r * c->k, 0, c->k * sizeof(*c->w));
    }
}

static void test_compensate_stays_on_the_grid(void **cmocka) {
    Case c;

    case_init(&c, grid, 40, 100, 300, 2);
    zero_channels(&c);
    case_round(&c);
    assert_on_grid(&c);
    case_deinit(&c);
}

static void test_compensate_bits_do_not_depend_on_threads(void **cmocka) {
    Case one, many;

    for (unsigned int n_threads = 2; n_threads <= 5; n_threads++) {
        case_init(&one, grid, 200, 520, 600, 1);
        case_init(&many, grid, 200, 520, 600, n_threads);
        case_round(&one);
        case_round(&many);
        assert_memory_equal(one.factor.m + 519 * 520, many.factor.m + 519 * 520, 519 * sizeof(float));
        assert_memory_equal(one.factor.d, many.factor.d, 520 * sizeof(float));
        assert_memory_equal(one.q, many.q, one.n * one.k);
        case_deinit(&one);
        case_deinit(&many);
    }
}

/* --- coordinate descent ------------------------------------------------------------------------------------------- */

static void case_descend(Case *c, unsigned int n_passes) {
    CompensateCall call = { &c->factor, c->n, c->w, grid, c->bits, c->scales, c->q, c->errors };

    assert_int_equal(descent_refine(&call, n_passes, c->pool), 0);
}

static void round_plainly(Case *c) {
    for (size_t i = 0; i < c->n * c->k; i++)
        c->q[i] = (int8_t)level_of((double)(c->w[i] / c->scales[i / c->k]), c->bits[i / c->k]);
}

/* From what compensated rounding gives, and from plain rounding; k is no multiple of a block, n none of a piece. */
static void test_descent_lowers_every_error(void **cmocka) {
    static const size_t widths[] = { 1, 63, 64, 65, 200 };

    for (size_t t = 0; t < 2 * ARRAY_LEN(widths); t++) {
        double before[70], sum_before = 0, sum = 0;
        Case c;

        case_init(&c, grid, ARRAY_LEN(before), widths[t / 2], 700, 2);
        if (t % 2)
            round_plainly(&c);
        else
            case_round(&c);
        for (size_t r = 0; r < c.n; r++)
            before[r] = error_under(&c, r, c.q);
        case_descend(&c, 3);
        for (size_t r = 0; r < c.n; r++) {
            double after = error_under(&c, r, c.q);

            assert_true(after <= before[r] * (1 + 1e-5));
            assert_true(fabs(after - c.errors[r]) <= 1e-3 * after + 1e-6 * before[r]);
            sum_before += before[r];
            sum += after;
        }
        assert_true(c.k == 1 || sum < (t % 2 ? 0.3 : 1) * sum_before);
        case_deinit(&c);
    }
}

/* Where it ends by itself, no other level of any single weight is better. */
static void test_descent_ends_where_no_weight_can_do_better(void **cmocka) {
    Case c;

    case_init(&c, grid, 24, 150, 400, 2);
    round_plainly(&c);
    case_descend(&c, 1000);
    for (size_t r = 0; r < c.n; r++) {
        double error = error_under(&c, r, c.q);

        for (size_t i = 0; i < c.k; i++)
            for (int step = -1; step <= 1; step += 2) {
                int8_t *q = &c.q[r * c.k + i], level = *q;
                int code = grid_code(grid, level, c.bits[r]) + step;

                if (code < (c.bits[r] == 8) || code >= 1 << c.bits[r])
                    continue;
                *q = (int8_t)grid_level(grid, code, c.bits[r]);
                assert_true(error_under(&c, r, c.q) >= error * (1 - 1e-5));
                *q = level;
            }
    }
    case_deinit(&c);
}

static void test_descent_stays_on_the_grid(void **cmocka) {
    Case c;

    case_init(&c, grid, 40, 100, 300, 2);
    zero_channels(&c);
    case_round(&c);
    case_descend(&c, 5);
    assert_on_grid(&c);
    case_deinit(&c);
}

/* Weights and inputs whose product is no number of float32's any more, then weights whose sums are none. */
static void test_descent_leaves_alone_what_it_cannot_tell(void **cmocka) {
    static const struct {
        float weights, moments;
    } cases[] = { { 0x1p-90f, 0x1p-70f }, { 0x1p-90f, 0x1p-45f }, { 0x1p100f, 0x1p30f } };

    for (size_t t = 0; t < ARRAY_LEN(cases); t++) {
        Case c;

        case_init(&c, grid, 40, 100, 300, 2);
        for (size_t i = 0; i < c.n * c.k; i++)
            c.w[i] *= cases[t].weights;
        for (size_t r = 0; r < c.n; r++)
            c.scales[r] *= cases[t].weights;
        for (size_t i = 0; i < c.k * c.k; i++)
            c.factor.m[i] *= i / c.k < i % c.k ? cases[t].moments : 1;
        for (size_t i = 0; i < c.k; i++)
            c.factor.diagonal[i] *= cases[t].moments;
        case_round(&c);
        case_descend(&c, 5);
        assert_on_grid(&c);
        case_deinit(&c);
    }
}

static void test_descent_bits_do_not_depend_on_threads(void **cmocka) {
    Case one, many;

    case_init(&one, grid, 200, 300, 600, 1);
    case_init(&many, grid, 200, 300, 600, 3);
    case_round(&one);
    case_round(&many);
    case_descend(&one, 2);
    case_descend(&many, 2);
    assert_memory_equal(one.q, many.q, one.n * one.k);
    assert_memory_equal(one.errors, many.errors, one.n * sizeof(double));
    case_deinit(&one);
    case_deinit(&many);
}

/* --- gain correction ---------------------------------------------------------------------------------------------- */

static void case_correct(Case *c) {
    CompensateCall call = { &c->factor, c->n, c->w, grid, c->bits, c->scales, c->q, c->errors };

    assert_int_equal(gain_correct(&call, c->scales, c->pool), 0);
}

/* w H (scale q); of: the weights themselves, or the integers. */
static double likeness(const Case *c, size_t channel, bool of_weights) {
    const float *w = c->w + channel * c->k;
    double sum = 0;

    for (size_t i = 0; i < c->k; i++)
        for (size_t j = 0; j < c->k; j++)
            sum += (double)w[i] * c->h[i * c->k + j] *
                   (of_weights ? (double)w[j] : (double)c->scales[channel] * c->q[channel * c->k + j]);
    return sum;
}

/* The slope of rounded outputs over true ones is 1 afterwards; before it was not. Widths are 1 to 8. */
static void test_gain_is_corrected(void **cmocka) {
    static const size_t widths[] = { 1, 64, 65, 200 };

    for (size_t t = 0; t < ARRAY_LEN(widths); t++) {
        bool in_reach[70];
        size_t n_off = 0;
        Case c;

        case_init(&c, grid, ARRAY_LEN(in_reach), widths[t], 700, 2);
        case_round(&c);
        for (size_t r = 0; r < c.n; r++) {
            const double before = likeness(&c, r, false) / likeness(&c, r, true);

            n_off += fabs(before - 1) > 1e-3;
            in_reach[r] = before > 0.51 && before < 1.99;
        }
        assert_true(n_off > c.n / 4);
        case_correct(&c);
        for (size_t r = 0; r < c.n; r++)
            assert_true(!in_reach[r] || fabs(likeness(&c, r, false) / likeness(&c, r, true) - 1) <= 1e-4);
        case_deinit(&c);
    }
}

/* No scale, no energy, nothing in common with the weights, a gain beyond the bound, sums that are no numbers. */
static void test_gain_leaves_alone_what_it_cannot_tell(void **cmocka) {
    float before[5];
    Case c;

    case_init(&c, grid, ARRAY_LEN(before), 100, 300, 1);
    case_round(&c);
    c.scales[0] = 0;
    memset(c.w + c.k, 0, c.k * sizeof(*c.w));
    for (size_t i = 0; i < c.k; i++)
        c.q[2 * c.k + i] = (int8_t)-c.q[2 * c.k + i];
    c.scales[3] *= 4;
    c.w[4 * c.k] = 3e38f;
    memcpy(before, c.scales, sizeof(before));
    case_correct(&c);
    assert_memory_equal(before, c.scales, sizeof(before));
    case_deinit(&c);
}

static void test_gain_bits_do_not_depend_on_threads(void **cmocka) {
    Case one, many;

    case_init(&one, grid, 200, 300, 600, 1);
    case_init(&many, grid, 200, 300, 600, 3);
    case_round(&one);
    case_round(&many);
    case_correct(&one);
    case_correct(&many);
    assert_memory_equal(one.scales, many.scales, one.n * sizeof(float));
    case_deinit(&one);
    case_deinit(&many);
}

static int load_library(void **cmocka) {
    ErrText err;

    return blas_load(&err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compensate_gives_what_optq_gives),
        cmocka_unit_test(test_compensate_reports_the_error_under_the_moments),
        cmocka_unit_test(test_compensate_beats_rounding_to_nearest),
        cmocka_unit_test(test_compensate_stays_on_the_grid),
        cmocka_unit_test(test_compensate_bits_do_not_depend_on_threads),
        cmocka_unit_test(test_descent_lowers_every_error),
        cmocka_unit_test(test_descent_ends_where_no_weight_can_do_better),
        cmocka_unit_test(test_descent_stays_on_the_grid),
        cmocka_unit_test(test_descent_leaves_alone_what_it_cannot_tell),
        cmocka_unit_test(test_descent_bits_do_not_depend_on_threads),
        cmocka_unit_test(test_gain_is_corrected),
        cmocka_unit_test(test_gain_leaves_alone_what_it_cannot_tell),
        cmocka_unit_test(test_gain_bits_do_not_depend_on_threads),
    };
    int failed = 0;

    for (; grid < _GRID_N && !failed; grid++)
        failed = cmocka_run_group_tests_name(grid_name(grid), tests, load_library, NULL);
    return failed;
}
