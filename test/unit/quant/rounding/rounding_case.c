// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/unit/quant/rounding/rounding_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"

static uint64_t state = 0x9e3779b97f4a7c15;

double uniform(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

double gaussian(void) {
    double u = uniform();

    return sqrt(-2 * log(u + 1e-300)) * cos(6.283185307179586 * uniform());
}

float *correlated_rows(size_t rows, size_t k) {
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

void case_init(Case *c, Grid grid, size_t n, size_t k, size_t rows, unsigned int n_threads) {
    float *x, *h = calloc(k * k, sizeof(*h));
    double mean = 0;

    state = 0x9e3779b97f4a7c15 + n * 131 + k;
    x = correlated_rows(rows, k);
    *c = (Case){ .grid = grid,
                 .n = n,
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

void case_deinit(Case *c) {
    hessian_factor_deinit(&c->factor);
    worker_pool_free(c->pool);
    free(c->h);
    free(c->w);
    free(c->scales);
    free(c->bits);
    free(c->q);
    free(c->errors);
}

void case_zero_channels(Case *c) {
    for (size_t r = 8; r < 16; r++) {
        c->scales[r] = 0;
        memset(c->w + r * c->k, 0, c->k * sizeof(*c->w));
    }
}

CompensateCall case_call(Case *c) {
    return (CompensateCall){ &c->factor, c->n, c->w, c->grid, c->bits, c->scales, c->q, c->errors };
}

void case_round(Case *c) {
    const CompensateCall call = case_call(c);

    assert_int_equal(compensate_round(&call, c->pool), 0);
}

void case_round_plainly(Case *c) {
    for (size_t i = 0; i < c->n * c->k; i++)
        c->q[i] = (int8_t)case_level(c->grid, (double)(c->w[i] / c->scales[i / c->k]), c->bits[i / c->k]);
}

double case_level(Grid grid, double v, int bits) {
    double top = grid_max(grid, bits), q = bits == 8 ? nearbyint(v) : 2 * floor(v / 2) + 1;

    if (grid_has_table(grid, bits)) {
        q = grid_level(grid, 0, bits);
        for (int code = 1; code < 1 << bits; code++)
            if (fabs(grid_level(grid, code, bits) - v) < fabs(q - v))
                q = grid_level(grid, code, bits);
    }
    return q > top ? top : MAX(-top, q);
}

double case_error(const Case *c, size_t channel, const int8_t *q) {
    double sum = 0;

    for (size_t i = 0; i < c->k; i++)
        for (size_t j = 0; j < c->k; j++) {
            const float *w = c->w + channel * c->k, s = c->scales[channel];

            sum += ((double)w[i] - (double)s * q[channel * c->k + i]) * c->h[i * c->k + j] *
                   ((double)w[j] - (double)s * q[channel * c->k + j]);
        }
    return sum;
}

/* A channel without a scale is checked, too: it is packed like any other. */
void case_assert_on_grid(const Case *c) {
    for (size_t r = 0; r < c->n; r++)
        for (size_t i = 0; i < c->k; i++) {
            int q = c->q[r * c->k + i], bits = c->bits[r];

            assert_true(q >= -grid_max(c->grid, bits) && q <= grid_max(c->grid, bits));
            assert_int_equal(grid_level(c->grid, grid_code(c->grid, q, bits), bits), q);
        }
}
