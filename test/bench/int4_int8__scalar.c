// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "quant/format/grid.h"
#include "test/bench/int4_int8.h"

static void product(const Int4Int8Matrix *matrix, const Int4Int8Input *input, size_t begin, size_t end, float *y) {
    const int8_t *x = input->x;

    for (size_t o = begin; o < end; o++) {
        const uint8_t *row = matrix->rows + matrix->offsets[o];
        const int bits = matrix->bits[o];
        int32_t sum = 0;

        if (int4_int8_is_nibbles(bits)) {
            for (size_t i = 0; i < matrix->k_padded; i += 2)
                sum += (row[i / 2] & 15) * x[i] + (row[i / 2] >> 4) * x[i + 1];
            sum = grid_factor(bits) * sum - grid_offset(bits) * input->sum;
        } else {
            for (size_t i = 0; i < matrix->k_padded; i++)
                sum += (int8_t)row[i] * x[i];
        }
        y[o] = int4_int8_output(sum, input->scale, matrix->scales[o]);
    }
}

static void expand(const Int4Int8Matrix *matrix, size_t channel, int8_t *q) {
    const uint8_t *row = matrix->rows + matrix->offsets[channel];
    const int bits = matrix->bits[channel];
    const size_t k = matrix->k_padded; /* a local copy: the compiler must assume that q aliases anything */

    if (!int4_int8_is_nibbles(bits)) {
        memcpy(q, row, k);
        return;
    }
    for (size_t i = 0; i < k; i += 2) {
        q[i] = (int8_t)grid_level(GRID_UNIFORM, row[i / 2] & 15, bits);
        q[i + 1] = (int8_t)grid_level(GRID_UNIFORM, row[i / 2] >> 4, bits);
    }
}

const Int4Int8Ops int4_int8__scalar = { "int4_int8__scalar", 0, product, expand };
