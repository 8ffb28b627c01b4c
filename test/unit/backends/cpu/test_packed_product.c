// SPDX-License-Identifier: Apache-2.0
/* Tests that products on packed weights give the bits of the scalar int8 product on the unpacked matrix: every kernel
 * of this machine, both grids, every width, widths mixed in and across blocks, tails of outputs and inputs. Guard
 * floats surround the outputs. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/packed/packed_kernels.h"
#include "backends/cpu/rows/row_ops.h"
#include "base/cleanup.h"
#include "base/system/cpu.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"
#include "test/unit/backends/cpu/int8_product_amx_model.h"
#include "test/unit/fixtures/model_maker.h"
#include "test/unit/fixtures/patience.h"

enum {
    GUARD = 5,
    ROWS_MAX = 40
};

static uint64_t seed;
static Grid grid; /* grid of the current tests */

static size_t draw(size_t n) {
    return (size_t)(test_random(&seed) % n);
}

typedef enum Fill {
    FILL_RANDOM,
    FILL_HIGHEST,
    FILL_LOWEST,
    FILL_EXTREMES,
    _FILL_N,
} Fill;

static int8_t fill_level(Fill fill, int bits) {
    switch (fill) {
    case FILL_HIGHEST:
        return (int8_t)grid_max(grid, bits);
    case FILL_LOWEST:
        return (int8_t)-grid_max(grid, bits);
    case FILL_EXTREMES:
        return (int8_t)(draw(2) ? grid_max(grid, bits) : -grid_max(grid, bits));
    default:
        return (int8_t)(bits == 8 ? (int)draw(255) - 127 : grid_level(grid, (int)draw((size_t)1 << bits), bits));
    }
}

static int8_t fill_activation(Fill fill) {
    return (int8_t)(fill == FILL_RANDOM ? (int)draw(255) - 127 : fill == FILL_EXTREMES && draw(2) ? -127 : 127);
}

/* Width of the channels: a single width, or mixed ones (0). */
typedef enum Widths {
    WIDTHS_MIXED = 0, /* in any order: the channels are put in order */
    WIDTHS_BY_BLOCK = 9,
} Widths;

typedef struct Case {
    size_t n, k, rows, stride_bytes;
    bool with_bias;
    int8_t *bits, *q, *x;
    uint8_t *shifted;
    PackPlan plan;
    uint8_t *packed;
    float *scales, *bias, *x_scales, *expected;
    int32_t *sums, x_sums[ROWS_MAX];
    PackedWeights weights;
    Int8Rows in;
} Case;

static void *aligned(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

    assert_non_null(p);
    return p;
}

/* Computes the scalar int8 product on the unpacked matrix. */
static void expect(Case *c, const float *channel_scales, const float *channel_bias) {
    size_t k_tiles = int8_tiles_for(c->k), n_blocks = int8_blocks_for(c->n);
    _cleanup_(freep) int8_t *back = malloc(c->n * c->k), *tiles = aligned(n_blocks * k_tiles * INT8_TILE_BYTES);
    _cleanup_(freep) int32_t *sums = aligned(n_blocks * INT8_TILE_OUTPUTS * sizeof(*sums));
    Int8Weights weights = {
        .n = c->n,
        .k = c->k,
        .k_tiles = k_tiles,
        .n_blocks = n_blocks,
        .tiles = tiles,
        .sums = sums,
        .scales = channel_scales,
        .bias = channel_bias,
    };

    assert_non_null(back);
    for (size_t block = 0; block < c->plan.n_blocks; block++)
        unpack_block(&c->plan, block, c->packed, back);
    assert_memory_equal(back, c->q, c->n * c->k);
    int8_weights_layout(back, c->n, c->k, 0, n_blocks, tiles, sums);
    int8_product_select(0)->fn(&weights, &c->in, 0, n_blocks, c->expected, c->n, NULL);
}

static void case_init(Case *c, size_t n, size_t k, size_t rows, int widths, Fill fill, bool with_bias) {
    size_t n_padded = int8_blocks_for(n) * INT8_TILE_OUTPUTS;
    _cleanup_(freep) float *channel_scales = aligned(n_padded * sizeof(float)),
                           *channel_bias = aligned(n_padded * sizeof(float));

    assert_true(rows <= ROWS_MAX);
    *c = (Case){ .n = n, .k = k, .rows = rows, .with_bias = with_bias };
    c->stride_bytes = int8_tiles_for(k) * INT8_TILE_INPUTS;
    c->bits = malloc(n);
    c->q = malloc(n * k);
    c->x = aligned(rows * c->stride_bytes);
    c->scales = aligned(n_padded * sizeof(*c->scales));
    c->bias = aligned(n_padded * sizeof(*c->bias));
    c->sums = aligned(n_padded * sizeof(*c->sums));
    c->x_scales = aligned(rows * sizeof(*c->x_scales));
    c->expected = aligned(rows * n * sizeof(*c->expected));
    assert_true(c->bits && c->q);
    for (size_t i = 0; i < n; i++)
        c->bits[i] = (int8_t)(widths >= 1 && widths <= 8            ? widths
                              : widths == WIDTHS_BY_BLOCK && i % 16 ? c->bits[i - 1]
                                                                    : 1 + (int)draw(8));
    if (grid != GRID_UNIFORM)
        assert_int_equal(pack_widen(c->bits, n), 0);
    assert_int_equal(pack_plan_init(&c->plan, grid, c->bits, n, k), 0);
    for (size_t i = 0; i < n * k; i++)
        c->q[i] = fill_level(fill, c->bits[i / k]);
    c->packed = aligned(c->plan.offsets[c->plan.n_blocks]);
    for (size_t block = 0; block < c->plan.n_blocks; block++)
        pack_block(&c->plan, block, c->q, c->packed);
    memset(c->x, 0, rows * c->stride_bytes);
    for (size_t r = 0; r < rows; r++) {
        c->x_sums[r] = 0;
        c->x_scales[r] = (float)(draw(1000) + 1) * 1e-4f;
        for (size_t i = 0; i < k; i++) {
            c->x[r * c->stride_bytes + i] = fill_activation(fill);
            c->x_sums[r] += c->x[r * c->stride_bytes + i];
        }
    }
    for (size_t o = 0; o < n_padded; o++) {
        channel_scales[o] = o < n ? (float)(draw(1000) + 1) * 3e-5f : 0;
        channel_bias[o] = o < n ? (float)draw(1000) - 500.5f : 0;
    }
    for (size_t p = 0; p < n_padded; p++) {
        const uint32_t channel = c->plan.channels[p];
        const int bits = c->plan.bits[p / INT8_TILE_OUTPUTS];

        c->scales[p] = p < n ? channel_scales[channel] : 0;
        c->bias[p] = p < n ? channel_bias[channel] : 0;
        c->sums[p] = (int32_t)(c->stride_bytes - (p < n ? k : 0)) * grid_level(grid, 0, bits);
        for (size_t i = 0; p < n && i < k; i++)
            c->sums[p] += c->q[channel * k + i];
    }
    c->weights = (PackedWeights){
        .n = n,
        .k = k,
        .k_tiles = c->plan.k_tiles,
        .n_blocks = c->plan.n_blocks,
        .packed = c->packed,
        .offsets = c->plan.offsets,
        .bits = c->plan.bits,
        .grid = grid,
        .channels = c->plan.in_order ? NULL : c->plan.channels,
        .sums = c->sums,
        .scales = c->scales,
        .bias = with_bias ? c->bias : NULL,
    };
    c->shifted = aligned(rows * c->stride_bytes);
    int8_rows_shift(c->x, rows * c->stride_bytes, c->shifted);
    c->in = (Int8Rows){ rows, 1, c->stride_bytes, c->x, c->x_scales, c->x_sums, c->shifted };
    expect(c, channel_scales, with_bias ? channel_bias : NULL);
}

static void case_deinit(Case *c) {
    free(c->bits);
    free(c->q);
    free(c->x);
    free(c->shifted);
    free(c->packed);
    free(c->scales);
    free(c->bias);
    free(c->sums);
    free(c->x_scales);
    free(c->expected);
    pack_plan_deinit(&c->plan);
}

/* A way to compute outputs of some blocks: by few (nothing else set), by product on panels that unpack expanded, or by
 * the choice of packed_kernels_run() (all set). */
typedef PackedKernels Way;

/* Returns the rows of a case in the layout that the way wants; the caller frees *xp. */
static Int8Rows laid_out(const Way *way, const Case *c, int8_t **xp) {
    Int8Rows in = c->in;

    in.tile_rows = way->few && way->product ? packed_kernels_tile_rows(way, c->rows)
                   : way->product           ? int8_tile_rows(way->product, c->rows)
                                            : 1;
    *xp = aligned(int8_rows_bytes(c->rows, in.tile_rows, c->stride_bytes));
    in.x = *xp;
    for (size_t r = 0; r < c->rows; r++)
        for (size_t piece = 0; piece < c->plan.k_tiles; piece++)
            memcpy(*xp + int8_rows_piece(&in, r, piece), c->in.x + r * c->stride_bytes + piece * INT8_TILE_INPUTS,
                   INT8_TILE_INPUTS);
    return in;
}

static void run_way(const Way *way, const Case *c, size_t block_begin, size_t block_end, float *y, size_t y_stride) {
    const size_t scratch_bytes = way->product ? packed_kernels_scratch_bytes(way, c->weights.k_tiles) : 64;
    _cleanup_(freep) int8_t *scratch = aligned(scratch_bytes), *x = NULL;
    const Int8Rows in = laid_out(way, c, &x);

    memset(scratch, 0x55, scratch_bytes);
    if (way->few && way->product)
        packed_kernels_run(way, &c->weights, &in, block_begin, block_end, y, y_stride, scratch);
    else if (way->few)
        way->few->fn(&c->weights, &in, block_begin, block_end, y, y_stride);
    else
        packed_kernels_expanded(way, &c->weights, &in, block_begin, block_end, y, y_stride, scratch);
}

/* Checks that outputs of the blocks have the expected bits, and that every other float of the buffer is unchanged. */
static void case_check(const Case *c, const Way *way, size_t block_begin, size_t block_end, size_t gap, size_t shift) {
    const size_t stride = c->n + gap, n_floats = GUARD + shift + c->rows * stride + GUARD;
    _cleanup_(freep) float *buffer = malloc(n_floats * sizeof(*buffer));
    _cleanup_(freep) bool *written = calloc(c->n, sizeof(*written));
    const float untouched = -1.0625e30f;
    float *y = buffer + GUARD + shift;

    assert_true(buffer && written);
    for (size_t i = 0; i < n_floats; i++)
        buffer[i] = untouched;
    for (size_t p = block_begin * INT8_TILE_OUTPUTS; p < block_end * INT8_TILE_OUTPUTS && p < c->n; p++)
        written[c->plan.channels[p]] = true;
    run_way(way, c, block_begin, block_end, y, stride);
    for (size_t i = 0; i < GUARD + shift; i++)
        assert_memory_equal(&buffer[i], &untouched, sizeof(float));
    for (size_t i = 0; i < c->rows * stride + GUARD; i++) {
        size_t r = i / stride, o = i % stride;
        const float *expected = r < c->rows && o < c->n && written[o] ? &c->expected[r * c->n + o] : &untouched;

        if (memcmp(&y[i], expected, sizeof(float)))
            fail_msg(
                "%s %s %s: n=%zu k=%zu rows=%zu blocks [%zu, %zu): row %zu output %zu (%d bits) is %a, expected %a",
                way->few ? way->few->name : "", way->unpack ? way->unpack->name : "",
                way->product ? way->product->name : "", c->n, c->k, c->rows, block_begin, block_end, r, o,
                o < c->n ? c->bits[o] : 0, (double)y[i], (double)*expected);
    }
}

static void check_way(const Case *c, Way way, size_t gap, size_t shift) {
    if ((way.few && way.few->need & ~cpu_features()) || (way.unpack && way.unpack->need & ~cpu_features()) ||
        (way.product && way.product->need & ~cpu_features()))
        return;
    case_check(c, &way, 0, c->weights.n_blocks, gap, shift);
    if (c->weights.n_blocks > 2)
        case_check(c, &way, 1, c->weights.n_blocks - 1, gap, shift);
}

/* Lets `few` take every coding for any number of rows. */
static PackedKernels with_few_rows(PackedKernels kernels) {
    for (int g = 0; g < _GRID_N; g++)
        for (int bits = GRID_BITS_MIN; bits <= GRID_BITS_MAX; bits++)
            packed_kernels_take(&kernels, (Grid)g, bits, draw(8) ? draw(ROWS_MAX) : SIZE_MAX);
    return kernels;
}

/* Runs every kernel for few rows, every unpack kernel under the best int8 product, and every int8 product (the AMX one
 * on its tile model too) on the scalar unpacking. Also runs the choice for every subset of the machine's features. */
static void each_way(const Case *c, size_t gap, size_t shift) {
    const uint32_t all = cpu_features();

    for (size_t i = 0; i < packed_product_n_kernels(); i++)
        check_way(c, (Way){ .few = packed_product_kernel_at(i) }, gap, shift);
    for (size_t i = 0; i < unpack_tile_n_kernels(); i++)
        check_way(c, (Way){ .unpack = unpack_tile_kernel_at(i), .product = int8_product_select(all) }, gap, shift);
    for (size_t i = 0; i < int8_product_n_kernels(); i++)
        check_way(c, (Way){ .unpack = unpack_tile_select(0), .product = int8_product_kernel_at(i) }, gap, shift);
    check_way(c, (Way){ .unpack = unpack_tile_select(all), .product = &int8_product_amx_model }, gap, shift);
    for (uint32_t sub = 0;; sub = (sub - all) & all) {
        check_way(c, with_few_rows(packed_kernels_select(sub)), gap, shift);
        if (sub == all)
            break;
    }
}

static void run_case(size_t n, size_t k, size_t rows, int widths, Fill fill, bool with_bias) {
    Case c;

    case_init(&c, n, k, rows, widths, fill, with_bias);
    each_way(&c, draw(4), draw(16));
    case_deinit(&c);
}

/* Every width, and mixed ones, with every number of rows. */
static void test_packed_product_row_counts(void **state) {
    for (int widths = WIDTHS_MIXED; widths <= WIDTHS_BY_BLOCK; widths++)
        for (size_t rows = 1; rows <= ROWS_MAX; rows += patience_is_short() ? 3 : 1)
            run_case(1 + draw(90), 1 + draw(260), rows, widths, FILL_RANDOM, rows % 2);
}

static void test_packed_product_sizes(void **state) {
    static const size_t n_list[] = { 1, 15, 16, 17, 33, 63, 64, 65, 129, 150 };
    static const size_t k_list[] = { 1, 3, 4, 5, 63, 64, 65, 127, 128, 129, 576 };
    static const size_t row_list[] = { 1, 2, 3, 5, 17 };

    for (size_t a = 0; a < ARRAY_LEN(n_list); a++)
        for (size_t b = 0; b < ARRAY_LEN(k_list); b++)
            for (size_t r = 0; r < ARRAY_LEN(row_list); r += patience_is_short() ? 2 : 1)
                run_case(n_list[a], k_list[b], row_list[r], (int)draw(10), FILL_RANDOM, (a + b) % 2);
}

static void test_packed_product_extremes(void **state) {
    static const size_t k_list[] = { 2, 64, 129, 1536 };

    for (int fill = FILL_HIGHEST; fill < _FILL_N; fill++)
        for (int widths = WIDTHS_MIXED; widths <= 8; widths++)
            for (size_t b = 0; b < ARRAY_LEN(k_list); b++)
                run_case(20, k_list[b], 1 + draw(10), widths, (Fill)fill, false);
}

/* The largest k: sums reach 127 x 127 x 131072, just inside int32, while sums over codes wrap. */
static void test_packed_product_largest_k(void **state) {
    for (int fill = FILL_HIGHEST; fill < _FILL_N; fill++)
        for (int widths = WIDTHS_MIXED; widths <= 8; widths += patience_is_short() ? 4 : 1)
            run_case(2, INT8_K_MAX, 1 + draw(6), widths, (Fill)fill, false);
}

/* A row's result does not depend on the rows beside it. */
static void test_packed_product_row_alone(void **state) {
    for (int widths = WIDTHS_MIXED; widths <= WIDTHS_BY_BLOCK; widths++) {
        Case c, one;

        case_init(&c, 70, 257, 33, widths, FILL_RANDOM, true);
        for (size_t r = 0; r < c.rows; r++) {
            one = c;
            one.rows = 1;
            one.in = (Int8Rows){ 1,
                                 1,
                                 c.in.stride_bytes,
                                 c.in.x + r * c.in.stride_bytes,
                                 c.in.scales + r,
                                 c.in.sums + r,
                                 c.shifted + r * c.in.stride_bytes };
            one.expected = c.expected + r * c.n;
            each_way(&one, 2, 0);
        }
        case_deinit(&c);
    }
}

/* Two matrices of the same rows, with outputs in order. */
static void check_gated(const Case *gate, const Case *up, Way way, Int8Gate activation) {
    const RowOps *row_ops = row_ops_select(0);
    const size_t n_floats = gate->rows * gate->n,
                 scratch_bytes = packed_kernels_scratch_bytes(&way, gate->plan.k_tiles);
    _cleanup_(freep) int8_t *scratch = aligned(scratch_bytes), *x = NULL;
    _cleanup_(freep) float *y = aligned(n_floats * sizeof(*y)), *expected = aligned(n_floats * sizeof(*expected));
    const Int8Rows in = laid_out(&way, gate, &x);

    if (!way.product->gated || way.product->need & ~cpu_features())
        return;
    (activation == INT8_GATE_GELU ? row_ops->gelu_mul : row_ops->silu_mul)(gate->expected, up->expected, n_floats,
                                                                           expected);
    memset(scratch, 0x55, scratch_bytes);
    for (size_t begin = 0, end; begin < gate->weights.n_blocks; begin = end) {
        end = begin + 1 + draw(gate->weights.n_blocks - begin);
        packed_kernels_gated(&way, &gate->weights, &up->weights, &in, activation, begin, end, y, gate->n, scratch);
    }
    for (size_t i = 0; i < n_floats; i++)
        if (memcmp(&y[i], &expected[i], sizeof(*y)))
            fail_msg("%s gated: n=%zu k=%zu rows=%zu: row %zu output %zu is %a, expected %a", way.product->name,
                     gate->n, gate->k, gate->rows, i / gate->n, i % gate->n, (double)y[i], (double)expected[i]);
}

static void test_packed_product_gated(void **state) {
    static const size_t row_list[] = { 1, 2, 15, 16, 17, 31, 32, 33, 40 };

    for (int widths = 1; widths <= WIDTHS_BY_BLOCK; widths++)
        for (size_t i = 0; i < ARRAY_LEN(row_list); i++) {
            const size_t n = 1 + draw(200), k = 1 + draw(300);
            const Int8Gate activation = i % 2 ? INT8_GATE_GELU : INT8_GATE_SILU;
            Case gate, up;

            case_init(&gate, n, k, row_list[i], widths, FILL_RANDOM, true);
            case_init(&up, n, k, row_list[i], widths, FILL_RANDOM, true);
            assert_true(gate.plan.in_order && up.plan.in_order);
            up.in = gate.in;
            expect(&up, up.scales, up.bias);
            for (size_t p = 0; p < int8_product_n_kernels(); p++)
                check_gated(&gate, &up, (Way){ .unpack = unpack_tile_select(0), .product = int8_product_kernel_at(p) },
                            activation);
            check_gated(&gate, &up, (Way){ .unpack = unpack_tile_select(0), .product = &int8_product_amx_model },
                        activation);
            case_deinit(&gate);
            case_deinit(&up);
        }
}

/* Every subset of the features selects the first kernel whose needs are in it. */
static void test_packed_product_select(void **state) {
    const uint32_t all = CPU_ALL;
    size_t n = packed_product_n_kernels();

    assert_true(n >= 1);
    assert_int_equal(packed_product_kernel_at(n - 1)->need, 0);
    for (uint32_t sub = 0;; sub = (sub - all) & all) {
        size_t i = 0;

        while (packed_product_kernel_at(i)->need & ~sub)
            i++;
        assert_ptr_equal(packed_product_select(sub), packed_product_kernel_at(i));
        if (sub == all)
            break;
    }
    assert_string_equal(packed_product_select(0)->name, "packed_product__scalar");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_product_row_counts), cmocka_unit_test(test_packed_product_sizes),
        cmocka_unit_test(test_packed_product_extremes),   cmocka_unit_test(test_packed_product_largest_k),
        cmocka_unit_test(test_packed_product_gated),      cmocka_unit_test(test_packed_product_row_alone),
        cmocka_unit_test(test_packed_product_select),
    };
    const char *env = getenv("TEST_SEED");
    int failed = 0;

    seed = env ? strtoull(env, NULL, 0) : 20240607;
    printf("seed %llu (TEST_SEED sets another)\n", (unsigned long long)seed);
    for (size_t i = 0; i < packed_product_n_kernels(); i++)
        printf("%s: %s\n", packed_product_kernel_at(i)->name,
               packed_product_kernel_at(i)->need & ~cpu_features() ? "absent on this machine" : "tested");
    for (; grid < _GRID_N && !failed; grid++)
        failed = cmocka_run_group_tests_name(grid_name(grid), tests, NULL, NULL);
    return failed;
}
