// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <immintrin.h>
#include <string.h>

#include "backends/cpu/int8/int8_product.h"
#include "backends/numeric/unroll.h"

Int8Product int8_product__avx2;

/* 4 rows x 16 outputs take 8 accumulators. With the weights, their absolute values, an activation and a constant, 16
 * registers suffice. */
enum {
    PANEL_ROWS = 4,
    AHEAD_BYTES = 8192 /* prefetch distance in a block from memory: a core full of products sees too few loads ahead */
};

typedef void Panel(const Int8Weights *weights, const Int8Rows *rows, size_t row, size_t block, float *y,
                   size_t y_stride);

/* vpmaddubsw adds two products u8 x s8 and saturates to int16. Here u8 = |w| <= 128 and s8 = x with the sign of w, |x|
 * <= 127: |sum| <= 2 x 128 x 127 = 32512 < 32767, so nothing ever saturates. (w = -128 is exact: vpabsb leaves its byte
 * as it is, which is 128 unsigned. x is never -128, so its negation is exact.) */
static inline __attribute__((always_inline)) __m256i add_products(__m256i sum, __m256i w_abs, __m256i w,
                                                                  __m256i quads) {
    __m256i pairs = _mm256_maddubs_epi16(w_abs, _mm256_sign_epi8(quads, w));

    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* Writes outputs [0, n) of 8. */
static inline __attribute__((always_inline)) void store(float *y, size_t n, __m256i sum, float x_scale,
                                                        const float *scales, const float *bias) {
    __m256 value =
        _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(_mm256_set1_ps(x_scale), _mm256_loadu_ps(scales)));
    float part[8];

    if (bias)
        value = _mm256_add_ps(value, _mm256_loadu_ps(bias));
    if (n >= 8) {
        _mm256_storeu_ps(y, value);
    } else {
        _mm256_storeu_ps(part, value);
        memcpy(y, part, n * sizeof(*y));
    }
}

static inline __attribute__((always_inline)) void panel(const Int8Weights *weights, const Int8Rows *rows, size_t row,
                                                        size_t block, float *y, size_t y_stride, const size_t n_rows,
                                                        const bool is_first) {
    const size_t stride = rows->stride_bytes, first = block * INT8_TILE_OUTPUTS, n = weights->n - first;
    const int8_t *tiles = weights->tiles + block * weights->k_tiles * INT8_TILE_BYTES, *x = rows->x + row * stride;
    const float *bias = weights->bias ? weights->bias + first : NULL;
    __m256i sum[PANEL_ROWS][2];

    UNROLL
    for (size_t r = 0; r < n_rows; r++)
        sum[r][0] = sum[r][1] = _mm256_setzero_si256();
    UNROLL_BY_4
    for (size_t i = 0; i < stride; i += 4) {
        __m256i w0 = _mm256_load_si256((const __m256i *)(tiles + i * INT8_TILE_OUTPUTS));
        __m256i w1 = _mm256_load_si256((const __m256i *)(tiles + i * INT8_TILE_OUTPUTS + 32));
        __m256i w0_abs = _mm256_abs_epi8(w0), w1_abs = _mm256_abs_epi8(w1);

        if (is_first) /* may run past the end of the weights: a prefetch never faults */
            _mm_prefetch((const char *)tiles + i * INT8_TILE_OUTPUTS + AHEAD_BYTES, _MM_HINT_T0);
        UNROLL
        for (size_t r = 0; r < n_rows; r++) {
            int32_t quad;
            __m256i quads;

            memcpy(&quad, x + r * stride + i, sizeof(quad));
            quads = _mm256_set1_epi32(quad);
            sum[r][0] = add_products(sum[r][0], w0_abs, w0, quads);
            sum[r][1] = add_products(sum[r][1], w1_abs, w1, quads);
        }
    }
    UNROLL
    for (size_t r = 0; r < n_rows; r++) {
        float *to = y + (row + r) * y_stride + first, x_scale = rows->scales[row + r];

        store(to, n, sum[r][0], x_scale, weights->scales + first, bias);
        if (n > 8)
            store(to + 8, n - 8, sum[r][1], x_scale, weights->scales + first + 8, bias ? bias + 8 : NULL);
    }
}

#define PANEL(name, n_rows, is_first)                                                                                  \
    static void name(const Int8Weights *weights, const Int8Rows *rows, size_t row, size_t block, float *y,             \
                     size_t y_stride) {                                                                                \
        panel(weights, rows, row, block, y, y_stride, n_rows, is_first);                                               \
    }
PANEL(first_1, 1, true)
PANEL(first_2, 2, true)
PANEL(first_3, 3, true)
PANEL(first_4, 4, true)
PANEL(panel_1, 1, false)
PANEL(panel_2, 2, false)
PANEL(panel_3, 3, false)
PANEL(panel_4, 4, false)

/* Functions by rows - 1: the panel that reads a block from memory, and the panels that find it in the cache. */
static Panel *const first_panels[PANEL_ROWS] = { first_1, first_2, first_3, first_4 };
static Panel *const panels[PANEL_ROWS] = { panel_1, panel_2, panel_3, panel_4 };

/**
 * int8_product__avx2() - multiply with vpmaddubsw on |w| and x with the sign of w: 32 exact products per instruction
 *
 * A block of weights is read once from memory and stays cached while all rows pass over it in panels of up to 4.
 */
void int8_product__avx2(const Int8Weights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end,
                        float *y, size_t y_stride, void *scratch) {
    const size_t n_panels = (rows->rows + PANEL_ROWS - 1) / PANEL_ROWS;

    assert(rows->tile_rows == 1 && rows->stride_bytes == weights->k_tiles * INT8_TILE_INPUTS);
    assert(weights->k <= INT8_K_MAX);
    for (size_t block = block_begin; block < block_end; block++)
        for (size_t p = 0, row = 0, next; p < n_panels; p++, row = next) {
            next = rows->rows * (p + 1) / n_panels;
            (p ? panels : first_panels)[next - row - 1](weights, rows, row, block, y, y_stride);
        }
}
