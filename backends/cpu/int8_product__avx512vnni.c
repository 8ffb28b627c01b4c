#include <assert.h>
#include <immintrin.h>
#include <string.h>

#include "backends/cpu/int8_product.h"
#include "backends/cpu/unroll.h"

Int8Product int8_product__avx512vnni;

/* 6 rows x 4 blocks are 24 accumulators; with 4 weight registers, an activation and a constant they fit the 32
 * registers, and 10 loads feed 24 products. Each panel is its own function with both counts known. */
enum { PANEL_ROWS = 4, PANEL_BLOCKS = 4 };

typedef void Panel(const Int8Weights *weights, const Int8Rows *rows, size_t row, size_t block, float *y, size_t y_stride);

static inline __attribute__((always_inline)) void panel(const Int8Weights *weights, const Int8Rows *rows, size_t row,
                                                        size_t block, float *y, size_t y_stride, const size_t n_rows,
                                                        const size_t n_blocks) {
    const size_t stride = rows->stride_bytes, block_bytes = weights->k_tiles * INT8_TILE_BYTES;
    const __m512i to_unsigned = _mm512_set1_epi8((char)0x80);
    const int8_t *tiles = weights->tiles + block * block_bytes, *x = rows->x + row * stride;
    __m512i sum[PANEL_ROWS][PANEL_BLOCKS];

UNROLL
    for (size_t r = 0; r < n_rows; r++)
UNROLL
        for (size_t b = 0; b < n_blocks; b++)
            sum[r][b] = _mm512_setzero_si512();
    for (size_t t = 0; t < weights->k_tiles; t++, tiles += INT8_TILE_BYTES, x += INT8_TILE_INPUTS)
UNROLL_BY_4
        for (size_t i = 0; i < INT8_TILE_INPUTS; i += 4) {
            __m512i w[PANEL_BLOCKS];

UNROLL
            for (size_t b = 0; b < n_blocks; b++)
                w[b] = _mm512_load_si512(tiles + b * block_bytes + i * INT8_TILE_OUTPUTS);
UNROLL
            for (size_t r = 0; r < n_rows; r++) {
                int32_t quad;
                __m512i quads;

                memcpy(&quad, x + r * stride + i, sizeof(quad));
                quads = _mm512_xor_si512(_mm512_set1_epi32(quad), to_unsigned);
UNROLL
                for (size_t b = 0; b < n_blocks; b++)
                    sum[r][b] = _mm512_dpbusd_epi32(sum[r][b], quads, w[b]);
            }
        }
UNROLL
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t first = (block + b) * INT8_TILE_OUTPUTS, n = weights->n - first;
        const __mmask16 present = n >= INT8_TILE_OUTPUTS ? 0xffff : (__mmask16)((1u << n) - 1);
        const __m512 scale = _mm512_loadu_ps(weights->scales + first);
        /* sum (x + 128) w = sum x w + 128 sum w. The sums may wrap modulo 2^32 on the way; the end value is within int32. */
        const __m512i shifted = _mm512_slli_epi32(_mm512_loadu_si512(weights->sums + first), 7);

UNROLL
        for (size_t r = 0; r < n_rows; r++) {
            __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(sum[r][b], shifted)),
                                         _mm512_mul_ps(_mm512_set1_ps(rows->scales[row + r]), scale));

            if (weights->bias)
                value = _mm512_add_ps(value, _mm512_loadu_ps(weights->bias + first));
            _mm512_mask_storeu_ps(y + (row + r) * y_stride + first, present, value);
        }
    }
}

#define PANEL(n_rows, n_blocks)                                                                                        \
    static void panel_##n_rows##x##n_blocks(const Int8Weights *weights, const Int8Rows *rows, size_t row, size_t block, \
                                            float *y, size_t y_stride) {                                               \
        panel(weights, rows, row, block, y, y_stride, n_rows, n_blocks);                                               \
    }
#define PANELS(n_rows) PANEL(n_rows, 1) PANEL(n_rows, 2) PANEL(n_rows, 4)
PANELS(1) PANELS(2) PANELS(3) PANELS(4)

/* By rows - 1 and by blocks: 1, 2, 4. */
static Panel *const panels[PANEL_ROWS][3] = {
#define PANEL_ROW(n_rows) { panel_##n_rows##x1, panel_##n_rows##x2, panel_##n_rows##x4 }
    PANEL_ROW(1), PANEL_ROW(2), PANEL_ROW(3), PANEL_ROW(4),
};

/**
 * int8_product__avx512vnni() - vpdpbusd: 64 products an instruction
 *
 * Up to 4 blocks of weights (64 bytes an input) are read once from memory; they stay in the second-level cache while
 * all rows pass over them, in panels of nearly equal height so that no panel is left with a single row.
 */
void int8_product__avx512vnni(const Int8Weights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end,
                              float *y, size_t y_stride) {
    const size_t n_panels = (rows->rows + PANEL_ROWS - 1) / PANEL_ROWS;

    assert(rows->stride_bytes == weights->k_tiles * INT8_TILE_INPUTS && weights->k <= INT8_K_MAX);
    for (size_t block = block_begin, n_blocks; block < block_end; block += n_blocks) {
        size_t kind = block_end - block >= 4 ? 2 : block_end - block >= 2 ? 1 : 0;

        n_blocks = (size_t)1 << kind;
        for (size_t p = 0, row = 0, next; p < n_panels; p++, row = next) {
            next = rows->rows * (p + 1) / n_panels;
            panels[next - row - 1][kind](weights, rows, row, block, y, y_stride);
        }
    }
}
