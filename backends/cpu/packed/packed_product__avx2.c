// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "backends/cpu/packed/packed_codes__avx2.h"
#include "backends/cpu/packed/packed_coding.h"
#include "backends/cpu/packed/packed_product.h"
#include "backends/numeric/unroll.h"
#include "base/min_max.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"

PackedProduct packed_product__avx2;

enum {
    PANEL_ROWS = 4,  /* rows per expansion of a register; with 3 rows, one is multiplied twice and stored once */
    CHUNK_ROWS = 16, /* rows whose activations stay in the first-level cache while a group of blocks passes over them */
    GROUP_BYTES = 128 << 10,
    AHEAD_BYTES = 4096 /* a page: the machine's own prefetchers don't cross it */
};

typedef void Panel(const PackedWeights *weights, const Int8Rows *rows, size_t row, size_t n_rows, size_t block,
                   float *y, size_t y_stride, size_t ahead_bytes);

/* vpmaddubsw adds two products u8 x s8 in int16. As many registers of such pairs are added up as fit: with |x| <= 127,
 * sums are at most 8 x 2 x 15 x 127 = 30480 for codes of 4 bits, 4 x 2 x 31 x 127 = 31496 for 5, 2 x 2 x 63 x 127 =
 * 32004 for 6 and 2 x 127 x 127 = 32258 for 7. All are below 32767, so nothing ever saturates. 8 bits are two sums of
 * 4. Levels of a table are up to 127 at every width. */
static inline int pairs_that_fit(bool has_table, int bits) {
    return has_table ? 1 : bits <= 4 || bits == 8 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
}

/* Keeps the additions to a sum in source order: the compiler would add products in a tree, which needs more registers
 * than there are. */
#define IN_ORDER(sum) __asm__("" : "+x"(sum))

/* Stores outputs of 8 positions from p; y is the row. */
static void store(const PackedWeights *weights, const Int8Rows *rows, size_t row, size_t p, __m256i sum, float *y) {
    const int bits = weights->bits[p / INT8_TILE_OUTPUTS];
    const bool has_table = grid_has_table(weights->grid, bits);
    const uint32_t offset = has_table ? 0 : (uint32_t)grid_offset(bits) * (uint32_t)rows->sums[row];
    const __m256i scaled = _mm256_slli_epi32(sum, has_table ? 0 : grid_factor(bits) - 1);
    __m256 value =
        _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(scaled, _mm256_set1_epi32((int32_t)offset))),
                      _mm256_mul_ps(_mm256_set1_ps(rows->scales[row]), _mm256_loadu_ps(weights->scales + p)));
    float values[8];

    if (weights->bias)
        value = _mm256_add_ps(value, _mm256_loadu_ps(weights->bias + p));
    if (!weights->channels && p + 8 <= weights->n) {
        _mm256_storeu_ps(y + p, value);
        return;
    }
    _mm256_storeu_ps(values, value);
    for (size_t i = 0; i < 8 && p + i < weights->n; i++)
        y[weights->channels ? weights->channels[p + i] : p + i] = values[i];
}

/* Returns the codes of one register as an operand: whole codes, or at 8 bits the upper and then the lower four bits. */
CODES_INLINE __m256i operand(const uint8_t *tile, int bits, size_t half, int i, int side, int term) {
    return bits == 8 ? codes_weightlets(tile + term * 512 + half * 256, i, side, 4, 0)
                     : codes_register(tile, bits, half, i, side, 0);
}

/* Computes n_rows <= height rows x 16 outputs. One loop goes over halves of tiles: the compiler would unroll an inner
 * loop over two. */
CODES_INLINE void panel(const PackedWeights *weights, const Int8Rows *rows, size_t row, size_t n_rows, size_t block,
                        float *y, size_t y_stride, size_t ahead_bytes, const Grid grid, const int bits,
                        const size_t height) {
    const bool has_table = grid_has_table(grid, bits);
    const int n_terms = bits == 8 ? 2 : 1, n_fit = pairs_that_fit(has_table, bits);
    const uint8_t *packed = weights->packed + weights->offsets[block];
    const int8_t *x[PANEL_ROWS];
    __m256i sum[PANEL_ROWS][2];
    CodesTable table;

    if (has_table)
        table = codes_table(bits);

    UNROLL
    for (size_t r = 0; r < height; r++) {
        x[r] = rows->x + (row + (r < n_rows ? r : n_rows - 1)) * rows->stride_bytes;
        sum[r][0] = sum[r][1] = _mm256_setzero_si256();
    }
    for (size_t h = 0; h < 2 * weights->k_tiles; h++) {
        const uint8_t *tile = packed + h / 2 * pack_tile_bytes(bits);

        const uint8_t *ahead = tile + h % 2 * (pack_tile_bytes(bits) / 2) + ahead_bytes;

        UNROLL
        for (size_t i = 0; i < pack_tile_bytes(bits) / 2; i += 64) /* may run past the end: a prefetch never faults */
            _mm_prefetch((const char *)ahead + i, _MM_HINT_T0);
        UNROLL
        for (int term = 0; term < n_terms; term++)
            UNROLL
        for (int first = 0; first < CODES_HALF_REGISTERS; first += n_fit) {
            const __m256i factor = _mm256_set1_epi16(term + 1 < n_terms ? 16 : 1);
            __m256i pairs[PANEL_ROWS][2];

            if (term) /* both terms load the activations again, because there are no registers to keep them in */
                __asm__ volatile("" : : : "memory");
            UNROLL
            for (int i = first; i < first + n_fit; i++) {
                __m256i codes[2], levels[2];

                UNROLL
                for (int side = 0; side < 2; side++) {
                    if (has_table)
                        levels[side] = codes_levels(&table, tile, bits, h % 2, i, side);
                    codes[side] = has_table ? _mm256_abs_epi8(levels[side]) : operand(tile, bits, h % 2, i, side, term);
                }
                UNROLL
                for (size_t r = 0; r < height; r++) {
                    int32_t quad;

                    memcpy(&quad, x[r] + h * (INT8_TILE_INPUTS / 2) + 4 * i, sizeof(quad));
                    UNROLL
                    for (int side = 0; side < 2; side++) {
                        const __m256i inputs = _mm256_set1_epi32(quad);
                        const __m256i products = _mm256_maddubs_epi16(
                            codes[side], has_table ? _mm256_sign_epi8(inputs, levels[side]) : inputs);

                        pairs[r][side] = i == first ? products : _mm256_add_epi16(pairs[r][side], products);
                        IN_ORDER(pairs[r][side]);
                    }
                }
            }
            UNROLL
            for (size_t r = 0; r < height; r++)
                UNROLL
            for (int side = 0; side < 2; side++) {
                sum[r][side] = _mm256_add_epi32(sum[r][side], _mm256_madd_epi16(pairs[r][side], factor));
                IN_ORDER(sum[r][side]);
            }
        }
    }
    UNROLL
    for (size_t r = 0; r < height && r < n_rows; r++) {
        store(weights, rows, row + r, block * INT8_TILE_OUTPUTS, sum[r][0], y + (row + r) * y_stride);
        store(weights, rows, row + r, block * INT8_TILE_OUTPUTS + 8, sum[r][1], y + (row + r) * y_stride);
    }
}

#define PANEL(grid, bits, height)                                                                                      \
    static void panel_##grid##_##bits##_##height(const PackedWeights *weights, const Int8Rows *rows, size_t row,       \
                                                 size_t n_rows, size_t block, float *y, size_t y_stride,               \
                                                 size_t ahead_bytes) {                                                 \
        panel(weights, rows, row, n_rows, block, y, y_stride, ahead_bytes, GRID_##grid, bits, height);                 \
    }
#define PANELS(grid, bits) PANEL(grid, bits, 1) PANEL(grid, bits, 2) PANEL(grid, bits, 4)
PACKED_CODINGS(PANELS)

#define PANELS_OF(grid, bits)                                                                                          \
    [PACKED_CODING(GRID_##grid, bits)] = { panel_##grid##_##bits##_1, panel_##grid##_##bits##_2,                       \
                                           panel_##grid##_##bits##_4, panel_##grid##_##bits##_4 },
/* Functions by coding, rows - 1. */
static Panel *const panels[PACKED_CODINGS_N][PANEL_ROWS] = { PACKED_CODINGS(PANELS_OF) };

/* Multiplies rows [row, row_end) by blocks that are in the second-level cache, or by one that is read now
 * (is_first). */
static void product_rows(const PackedWeights *weights, const Int8Rows *rows, size_t row, size_t row_end,
                         size_t block_begin, size_t block_end, bool is_first, float *y, size_t y_stride) {
    for (size_t block = block_begin; block < block_end; block++) {
        const size_t block_bytes = weights->offsets[block + 1] - weights->offsets[block];
        Panel *const *by_rows = panels[packed_coding(weights->grid, weights->bits[block])];

        for (size_t begin = row, n; begin < row_end; begin += n) {
            const size_t left = row_end - begin;
            size_t ahead_bytes = 0;

            if (is_first) /* a single panel prefetches the stream's next bytes; of several, the last the next block */
                ahead_bytes = row_end - row <= PANEL_ROWS ? AHEAD_BYTES : left <= PANEL_ROWS ? block_bytes : 0;
            n = MIN(left, PANEL_ROWS);
            by_rows[n - 1](weights, rows, begin, n, block, y, y_stride, ahead_bytes);
        }
    }
}

/**
 * packed_product__avx2() - multiply with vpmaddubsw, expanding codes or magnitudes of levels as its unsigned operand
 *
 * For any number of rows: a group of blocks is read once from memory and stays in the second-level cache while all rows
 * pass over it, 16 at a time. The activations of 16 rows stay in the first-level cache.
 */
void packed_product__avx2(const PackedWeights *weights, const Int8Rows *rows, size_t block_begin, size_t block_end,
                          float *y, size_t y_stride) {
    assert(rows->tile_rows == 1 && rows->stride_bytes == weights->k_tiles * INT8_TILE_INPUTS);
    assert(weights->k <= INT8_K_MAX && rows->sums);
    for (size_t block = block_begin, group_end; block < block_end; block = group_end) {
        for (group_end = block + 1; group_end < block_end; group_end++)
            if (weights->offsets[group_end + 1] - weights->offsets[block] > GROUP_BYTES)
                break;
        for (size_t row = 0, row_end; row < rows->rows; row = row_end) {
            row_end = rows->rows - row < CHUNK_ROWS ? rows->rows : row + CHUNK_ROWS;
            product_rows(weights, rows, row, row_end, block, group_end, !row, y, y_stride);
        }
    }
}
