/* Error-compensated rounding, coordinate descent and the factor they work with, against double-precision forms of their
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
#include "quant/grid.h"
#include "quant/rotate.h"

static uint64_t state = 0x9e3779b97f4a7c15;

static double uniform(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

static double gaussian(void) {
    double u = uniform();

    return sqrt(-2 * log(u + 1e-300)) * cos(6.283185307179586 * uniform());
}

/* Inputs with a few strong common directions, as activations have. */
static float *correlated_rows(size_t rows, size_t k) {
    float *x = malloc(rows * k * sizeof(*x)), *mix = malloc(4 * k * sizeof(*mix));

    assert_non_null(x);
    assert_non_null(mix);
    for (size_t i = 0; i < 4 * k; i++)
        mix[i] = (float)gaussian();
    for (size_t r = 0; r < rows; r++) {
        double common[4] = { gaussian(), gaussian(), gaussian(), gaussian() };

        for (size_t i = 0; i < k; i++) {
            double v = 0.5 * gaussian();

            for (size_t c = 0; c < 4; c++)
                v += common[c] * (double)mix[c * k + i];
            x[r * k + i] = (float)(v * (1 + (double)(i % 7)));
        }
    }
    free(mix);
    return x;
}

static Grid grid; /* of the tests that run now */

typedef struct Case {
    size_t n, k;
    WorkerPool *pool;
    double *h; /* f64[k][k], damped */
    HessianFactor factor;
    float *w;
    float *scales;
    int8_t *bits, *q;
    double *errors;
} Case;

static void case_init(Case *c, size_t n, size_t k, size_t rows, unsigned int n_threads) {
    float *x, *h = calloc(k * k, sizeof(*h));
    double mean = 0;

    state = 0x9e3779b97f4a7c15 + n * 131 + k;
    x = correlated_rows(rows, k);
    *c = (Case){ .n = n,
                 .k = k,
                 .h = calloc(k * k, sizeof(double)),
                 .w = malloc(n * k * sizeof(float)),
                 .scales = malloc(n * sizeof(float)),
                 .bits = malloc(n),
                 .q = malloc(n * k),
                 .errors = malloc(n * sizeof(double)) };
    assert_int_equal(worker_pool_new(&c->pool, n_threads), 0);
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            for (size_t r = 0; r < rows; r++)
                c->h[i * k + j] += (double)x[r * k + i] * (double)x[r * k + j];
    for (size_t i = 0; i < k; i++)
        mean += c->h[i * k + i] / (double)k;
    for (size_t i = 0; i < k; i++)
        c->h[i * k + i] += 0.01 * mean;
    hessian_add(h, x, rows / 2, k, c->pool);
    hessian_add(h, x + rows / 2 * k, rows - rows / 2, k, c->pool);
    assert_int_equal(hessian_factor(&c->factor, h, k, 0.01, c->pool), 0);
    for (size_t i = 0; i < n * k; i++)
        c->w[i] = (float)gaussian();
    for (size_t r = 0; r < n; r++) {
        c->bits[r] = (int8_t)(1 + r % 8);
        c->scales[r] = 3.0f / (float)grid_max(grid, c->bits[r]);
    }
    free(x);
}

static void case_deinit(Case *c) {
    hessian_factor_deinit(&c->factor);
    worker_pool_free(c->pool);
    free(c->h);
    free(c->w);
    free(c->scales);
    free(c->bits);
    free(c->q);
    free(c->errors);
}

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

static void test_hessian_factor_is_that_of_the_damped_moments(void **cmocka) {
    static const size_t widths[] = { 1, 3, 64, 255, 256, 257, 600 };

    for (size_t t = 0; t < ARRAY_LEN(widths); t++) {
        Case c;

        case_init(&c, 1, widths[t], 700, 2);
        for (size_t i = 0; i < c.k; i++)
            for (size_t j = 0; j < c.k; j++) {
                size_t a = c.factor.order[i], b = c.factor.order[j];
                double sum = 0, scale = sqrt(c.h[a * c.k + a] * c.h[b * c.k + b]);

                for (size_t p = 0; p <= (i < j ? i : j); p++)
                    sum += (double)c.factor.d[p] * (p == i ? 1 : (double)c.factor.m[i * c.k + p]) *
                           (p == j ? 1 : (double)c.factor.m[j * c.k + p]);
                assert_true(fabs(sum - c.h[a * c.k + b]) <= 1e-4 * scale);
                /* Above the diagonal, and beside it, the moments themselves. */
                if (i <= j)
                    assert_true(fabs((double)(i < j ? c.factor.m[i * c.k + j] : c.factor.diagonal[i]) -
                                     c.h[a * c.k + b]) <= 1e-5 * scale);
            }
        for (size_t i = 1; i < c.k; i++)
            assert_true(c.h[c.factor.order[i - 1] * (c.k + 1)] <= c.h[c.factor.order[i] * (c.k + 1)] * 1.0001);
        case_deinit(&c);
    }
}

static void test_hessian_factor_refuses_inputs_without_energy(void **cmocka) {
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    static const float bad[] = { 0, NAN, INFINITY, -1 };
    HessianFactor factor;

    assert_int_equal(worker_pool_new(&pool, 1), 0);
    for (size_t t = 0; t < ARRAY_LEN(bad); t++) {
        float *h = calloc(64, sizeof(*h));

        for (size_t i = 0; i < 8; i++)
            h[i * 9] = bad[t];
        assert_int_equal(hessian_factor(&factor, h, 8, 0.01, pool), HESSIAN_E_SINGULAR);
        assert_null(factor.m);
    }
}

static void test_hessian_shrink_is_a_mix_with_independent_inputs(void **cmocka) {
    static const struct {
        size_t k;
        uint32_t block;
    } cases[] = { { 64, 32 }, { 96, 0 }, { 256, 128 } };

    for (size_t t = 0; t < ARRAY_LEN(cases); t++) {
        _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
        size_t k = cases[t].k;
        float *h = calloc(k * k, sizeof(*h)), *energies = calloc(k, sizeof(*energies)),
              *rows = calloc(k * k, sizeof(*rows));

        assert_int_equal(worker_pool_new(&pool, 2), 0);
        for (size_t i = 0; i < k; i++) { /* independent inputs: each row has one of them, rotated */
            rows[i * k + i] = (float)(1 + i % 5);
            energies[i] = rows[i * k + i] * rows[i * k + i];
            if (cases[t].block)
                rotate_row(rows + i * k, k, cases[t].block);
        }
        for (size_t i = 0; i < k * k; i++)
            h[i] = (float)(i % 11);
        assert_int_equal(hessian_shrink(h, energies, k, cases[t].block, 0.25f, pool), 0);
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j <= i; j++) {
                double prior = 0;

                for (size_t r = 0; r < k; r++)
                    prior += (double)rows[r * k + i] * (double)rows[r * k + j];
                assert_true(fabs((double)h[i * k + j] - 0.75 * (double)((i * k + j) % 11) - 0.25 * prior) < 1e-3);
            }
        free(h);
        free(energies);
        free(rows);
    }
}

/* The moments of rows that are mixed are those of the rows, mixed; only the lower triangle need be there before. */
static void test_hessian_rotate_across(void **cmocka) {
    static const struct {
        size_t k, rows;
        uint32_t across;
    } cases[] = { { 64, 5, 4 }, { 96, 9, 2 }, { 320, 40, 4 }, { 512, 7, 16 } };

    for (size_t t = 0; t < ARRAY_LEN(cases); t++)
        for (unsigned int n_threads = 1; n_threads <= 3; n_threads += 2) {
            _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
            const size_t k = cases[t].k, rows = cases[t].rows;
            _cleanup_(freep) float *h = calloc(k * k, sizeof(*h)), *mixed = calloc(k * k, sizeof(*mixed)),
                                   *x = malloc(rows * k * sizeof(*x));

            assert_true(h && mixed && x);
            assert_int_equal(worker_pool_new(&pool, n_threads), 0);
            for (size_t i = 0; i < rows * k; i++)
                x[i] = (float)(uniform() - 0.5);
            hessian_add(h, x, rows, k, pool);
            for (size_t i = 0; i < k; i++)
                for (size_t j = i + 1; j < k; j++)
                    h[i * k + j] = NAN;
            for (size_t r = 0; r < rows; r++)
                rotate_across(x + r * k, k, cases[t].across);
            hessian_add(mixed, x, rows, k, pool);
            hessian_rotate_across(h, k, cases[t].across, pool);
            for (size_t i = 0; i < k; i++)
                for (size_t j = 0; j <= i; j++)
                    assert_true(fabsf(h[i * k + j] - mixed[i * k + j]) < 1e-4f);
        }
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

    case_init(&c, 24, 96, 400, 2);
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

    case_init(&c, 17, 130, 500, 2);
    case_round(&c);
    for (size_t r = 0; r < c.n; r++)
        assert_true(fabs(c.errors[r] - error_under(&c, r, c.q)) <= 2e-3 * c.errors[r]);
    case_deinit(&c);
}

static void test_compensate_beats_rounding_to_nearest(void **cmocka) {
    Case c;
    double plain = 0, compensated = 0;
    int8_t *q;

    case_init(&c, 32, 192, 800, 2);
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

    case_init(&c, 40, 100, 300, 2);
    zero_channels(&c);
    case_round(&c);
    assert_on_grid(&c);
    case_deinit(&c);
}

static void test_compensate_bits_do_not_depend_on_threads(void **cmocka) {
    Case one, many;

    for (unsigned int n_threads = 2; n_threads <= 5; n_threads++) {
        case_init(&one, 200, 520, 600, 1);
        case_init(&many, 200, 520, 600, n_threads);
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

        case_init(&c, ARRAY_LEN(before), widths[t / 2], 700, 2);
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

    case_init(&c, 24, 150, 400, 2);
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

    case_init(&c, 40, 100, 300, 2);
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

        case_init(&c, 40, 100, 300, 2);
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

    case_init(&one, 200, 300, 600, 1);
    case_init(&many, 200, 300, 600, 3);
    case_round(&one);
    case_round(&many);
    case_descend(&one, 2);
    case_descend(&many, 2);
    assert_memory_equal(one.q, many.q, one.n * one.k);
    assert_memory_equal(one.errors, many.errors, one.n * sizeof(double));
    case_deinit(&one);
    case_deinit(&many);
}

static int load_library(void **cmocka) {
    ErrText err;

    return blas_load(&err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hessian_factor_is_that_of_the_damped_moments),
        cmocka_unit_test(test_hessian_factor_refuses_inputs_without_energy),
        cmocka_unit_test(test_hessian_rotate_across),
        cmocka_unit_test(test_hessian_shrink_is_a_mix_with_independent_inputs),
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
    };
    int failed = 0;

    for (; grid < _GRID_N && !failed; grid++)
        failed = cmocka_run_group_tests_name(grid_name(grid), tests, load_library, NULL);
    return failed;
}
