// SPDX-License-Identifier: Apache-2.0
/* Tests that every int8 product kernel of this machine gives the bits of the scalar one, which is checked against sums
 * in int64. Sizes are around tiles and panels, and guard bytes surround the outputs. Gated products give the bits of
 * two products and the row operator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/int8/int8_product.h"
#include "backends/cpu/rows/row_ops.h"
#include "base/cleanup.h"
#include "base/system/cpu.h"
#include "test/unit/backends/cpu/int8_product_amx_model.h"

enum {
    GUARD = 5
};

static uint64_t seed;

static uint32_t draw(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

typedef enum Fill {
    FILL_CYCLE,
    FILL_RANDOM,
    FILL_EXTREME_SAME,
    FILL_EXTREME_OPPOSED,
    FILL_EXTREME_RANDOM,
    FILL_W_MINUS_128,
    _FILL_N,
} Fill;

/* A cycle of 251, a prime, so that no two tiles are alike. */
static int8_t fill_value(Fill fill, bool is_weight, size_t i) {
    switch (fill) {
    case FILL_CYCLE:
        return (int8_t)((int)((is_weight ? i * 3 : i) % 251) - 125);
    case FILL_EXTREME_SAME:
        return 127;
    case FILL_EXTREME_OPPOSED:
        return is_weight ? -127 : 127;
    case FILL_EXTREME_RANDOM:
        return draw() & 1 ? 127 : -127;
    case FILL_W_MINUS_128:
        return is_weight ? -128 : draw() & 1 ? 127 : -127;
    default:
        return (int8_t)((int)(draw() % 255) - 127);
    }
}

typedef struct Case {
    size_t n, k, rows;
    int8_t *w, *x, *tiles;
    uint8_t *shifted;
    int32_t *sums;
    float *w_scales, *bias, *x_scales, *expected;
    Int8Weights weights;
    Int8Rows in;
} Case;

static void *aligned(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

    assert_non_null(p);
    return p;
}

static void case_init(Case *c, size_t n, size_t k, size_t rows, Fill fill, bool with_bias) {
    size_t k_tiles = int8_tiles_for(k), n_blocks = int8_blocks_for(n);

    *c = (Case){ .n = n, .k = k, .rows = rows };
    c->w = aligned(n * k);
    c->x = aligned(rows * k_tiles * INT8_TILE_INPUTS);
    c->tiles = aligned(n_blocks * k_tiles * INT8_TILE_BYTES);
    c->sums = aligned(n_blocks * INT8_TILE_OUTPUTS * sizeof(*c->sums));
    c->w_scales = aligned(n_blocks * INT8_TILE_OUTPUTS * sizeof(*c->w_scales));
    c->bias = aligned(n_blocks * INT8_TILE_OUTPUTS * sizeof(*c->bias));
    c->x_scales = aligned(rows * sizeof(*c->x_scales));
    c->expected = aligned(rows * n * sizeof(*c->expected));
    for (size_t i = 0; i < n * k; i++)
        c->w[i] = fill_value(fill, true, i);
    memset(c->x, 0, rows * k_tiles * INT8_TILE_INPUTS);
    for (size_t r = 0; r < rows; r++) {
        c->x_scales[r] = (float)(draw() % 1000 + 1) * 1e-4f;
        for (size_t i = 0; i < k; i++)
            c->x[r * k_tiles * INT8_TILE_INPUTS + i] = fill_value(fill, false, r * k + i);
    }
    for (size_t o = 0; o < n_blocks * INT8_TILE_OUTPUTS; o++) {
        c->w_scales[o] = o < n ? (float)(draw() % 1000 + 1) * 3e-5f : 0;
        c->bias[o] = o < n ? (float)(draw() % 1000) - 500.5f : 0;
    }
    memset(c->tiles, 0x55, n_blocks * k_tiles * INT8_TILE_BYTES);
    int8_weights_layout(c->w, n, k, 0, n_blocks, c->tiles, c->sums);
    c->weights = (Int8Weights){
        .n = n,
        .k = k,
        .k_tiles = k_tiles,
        .n_blocks = n_blocks,
        .tiles = c->tiles,
        .sums = c->sums,
        .scales = c->w_scales,
        .bias = with_bias ? c->bias : NULL,
    };
    c->shifted = aligned(rows * k_tiles * INT8_TILE_INPUTS);
    int8_rows_shift(c->x, rows * k_tiles * INT8_TILE_INPUTS, c->shifted);
    c->in = (Int8Rows){ rows, 1, k_tiles * INT8_TILE_INPUTS, c->x, c->x_scales, NULL, c->shifted };
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < n; o++) {
            int64_t sum = 0;
            float value, scale = c->x_scales[r] * c->w_scales[o];

            for (size_t i = 0; i < k; i++)
                sum += (int64_t)c->x[r * k_tiles * INT8_TILE_INPUTS + i] * c->w[o * k + i];
            assert_true(sum >= INT32_MIN && sum <= INT32_MAX);
            value = (float)sum * scale;
            if (with_bias)
                value = value + c->bias[o];
            c->expected[r * n + o] = value;
        }
}

static void case_deinit(Case *c) {
    free(c->w);
    free(c->x);
    free(c->shifted);
    free(c->tiles);
    free(c->sums);
    free(c->w_scales);
    free(c->bias);
    free(c->x_scales);
    free(c->expected);
}

/* Returns the rows of a case in another layout, the rest of their groups filled with other values; the caller frees
 * *xp. */
static Int8Rows laid_out(const Case *c, size_t tile_rows, int8_t **xp) {
    const size_t bytes = int8_rows_bytes(c->rows, tile_rows, c->in.stride_bytes);
    Int8Rows in = c->in;

    *xp = memset(aligned(bytes), 0x55, bytes);
    in.tile_rows = tile_rows;
    in.x = *xp;
    for (size_t r = 0; r < c->rows; r++)
        for (size_t piece = 0; piece < c->weights.k_tiles; piece++)
            memcpy(*xp + int8_rows_piece(&in, r, piece), c->in.x + r * c->in.stride_bytes + piece * INT8_TILE_INPUTS,
                   INT8_TILE_INPUTS);
    return in;
}

/* A way to call a kernel: its product, or the product gated by a second matrix. */
typedef struct Call {
    const Int8ProductKernel *kernel;
    size_t tile_rows;
    const Case *up; /* or NULL */
    Int8Gate activation;
} Call;

static void call_kernel(const Case *c, const Call *call, size_t block_begin, size_t block_end, float *y,
                        size_t y_stride) {
    _cleanup_(freep) void *scratch = aligned(call->kernel->scratch_bytes + 64);
    _cleanup_(freep) int8_t *x = NULL;
    const Int8Rows in = laid_out(c, call->tile_rows, &x);

    memset(scratch, 0x55, call->kernel->scratch_bytes + 64);
    if (call->up)
        call->kernel->gated(&c->weights, &call->up->weights, &in, call->activation, block_begin, block_end, y, y_stride,
                            scratch);
    else
        call->kernel->fn(&c->weights, &in, block_begin, block_end, y, y_stride, scratch);
    for (size_t i = call->kernel->scratch_bytes; i < call->kernel->scratch_bytes + 64; i++)
        assert_int_equal(((uint8_t *)scratch)[i], 0x55);
}

/* Checks that outputs of the blocks have the expected bits, and that every other float of the buffer is unchanged. */
static void case_check(const Case *c, const Call *call, const float *expected, size_t block_begin, size_t block_end,
                       size_t gap, size_t shift) {
    const size_t stride = c->n + gap, n_floats = GUARD + shift + c->rows * stride + GUARD;
    _cleanup_(freep) float *buffer = malloc(n_floats * sizeof(*buffer));
    const float untouched = -1.0625e30f;
    float *y = buffer + GUARD + shift;
    size_t first = block_begin * INT8_TILE_OUTPUTS, last = block_end * INT8_TILE_OUTPUTS;

    assert_non_null(buffer);
    for (size_t i = 0; i < n_floats; i++)
        buffer[i] = untouched;
    call_kernel(c, call, block_begin, block_end, y, stride);
    for (size_t i = 0; i < GUARD + shift; i++)
        assert_memory_equal(&buffer[i], &untouched, sizeof(float));
    for (size_t i = 0; i < c->rows * stride + GUARD; i++) {
        size_t r = i / stride, o = i % stride;
        bool written = r < c->rows && o < c->n && o >= first && o < last;
        const float *value = written ? &expected[r * c->n + o] : &untouched;

        if (memcmp(&y[i], value, sizeof(float)))
            fail_msg(
                "%s%s: n=%zu k=%zu rows=%zu (tiles of %zu), blocks [%zu, %zu): row %zu output %zu is %a, expected %a",
                call->kernel->name, call->up ? " gated" : "", c->n, c->k, c->rows, call->tile_rows, block_begin,
                block_end, r, o, (double)y[i], (double)*value);
    }
}

static void check_call(const Case *c, const Call *call, const float *expected, size_t gap, size_t shift) {
    case_check(c, call, expected, 0, c->weights.n_blocks, gap, shift);
    if (c->weights.n_blocks > 2)
        case_check(c, call, expected, 1, c->weights.n_blocks - 1, gap, shift);
}

/* Returns kernel i; the tile model follows the kernels. */
static const Int8ProductKernel *all_kernels_at(size_t i) {
    return i < int8_product_n_kernels() ? int8_product_kernel_at(i) : &int8_product_amx_model;
}

/* Returns NULL if the machine can't run the kernel. */
static const Int8ProductKernel *kernel_at(size_t i) {
    const Int8ProductKernel *kernel = all_kernels_at(i);

    return kernel->need & ~cpu_features() ? NULL : kernel;
}

#define EACH_KERNEL(kernel)                                                                                            \
    for (size_t kernel##_index = 0; kernel##_index <= int8_product_n_kernels(); kernel##_index++)                      \
        for (const Int8ProductKernel *kernel = kernel_at(kernel##_index); kernel; kernel = NULL)

/* Runs each kernel in the layout that it wants and, if that is another one, in the layout of rows. */
static void each_kernel(const Case *c, size_t gap, size_t shift) {
    EACH_KERNEL (kernel) {
        Call call = { .kernel = kernel, .tile_rows = int8_tile_rows(kernel, c->rows) };

        check_call(c, &call, c->expected, gap, shift);
        if (call.tile_rows > 1 && c->rows <= INT8_TILE_ROWS) {
            call.tile_rows = 1;
            check_call(c, &call, c->expected, gap, shift);
        }
    }
}

static void test_int8_product_sizes(void **state) {
    static const size_t n_list[] = { 1, 15, 16, 17, 33, 63, 64, 65, 100, 129 };
    static const size_t k_list[] = { 1, 3, 4, 5, 63, 64, 65, 127, 128, 129, 576 };
    static const size_t row_list[] = { 1, 2, 5, 16, 17 };

    for (size_t a = 0; a < ARRAY_LEN(n_list); a++)
        for (size_t b = 0; b < ARRAY_LEN(k_list); b++)
            for (size_t r = 0; r < ARRAY_LEN(row_list); r++) {
                Case c;

                case_init(&c, n_list[a], k_list[b], row_list[r], (Fill)((a + b + r) % 2), (a + b) % 2);
                each_kernel(&c, (a + r) % 4, b % 16);
                case_deinit(&c);
            }
}

static void test_int8_product_row_counts(void **state) {
    for (size_t rows = 1; rows <= 33; rows++) {
        Case c;

        case_init(&c, 113, 193, rows, FILL_RANDOM, rows % 2);
        each_kernel(&c, 1, rows % 16);
        case_deinit(&c);
    }
}

static void test_int8_product_256_rows(void **state) {
    Case c;

    case_init(&c, 201, 320, 256, FILL_CYCLE, true);
    each_kernel(&c, 0, 0);
    case_deinit(&c);
}

/* Sizes around the slices, passes and blocks of rows of kernels that work in parts. */
static void test_int8_product_parts(void **state) {
    static const size_t k_list[] = { 9 * 64, 9 * 64 + 1, 1300 }, n_list[] = { 8 * 32, 8 * 32 + 1, 8 * 32 + 40 };
    static const size_t row_list[] = { 32, 33, 48, 49, 64, 70 };
    Case c;

    for (size_t r = 0; r < ARRAY_LEN(row_list); r++) {
        case_init(&c, n_list[r % 3], k_list[r / 2 % 3], row_list[r], FILL_RANDOM, r % 2);
        each_kernel(&c, 1, 0);
        case_deinit(&c);
    }
    case_init(&c, 70, 1200, 512 + 17, FILL_RANDOM, true);
    each_kernel(&c, 0, 3);
    case_deinit(&c);
}

/* A gated product equals two products followed by the row operator. */
static void test_int8_product_gated(void **state) {
    static const size_t sizes[][3] = { { 1, 1, 1 },      { 16, 64, 16 },    { 17, 65, 17 },   { 40, 200, 7 },
                                       { 129, 576, 33 }, { 150, 1300, 70 }, { 33, 1200, 530 } };

    for (size_t i = 0; i < ARRAY_LEN(sizes) * 2; i++) {
        const size_t n = sizes[i / 2][0], k = sizes[i / 2][1], rows = sizes[i / 2][2];
        const RowOps *row_ops = row_ops_select(0);
        _cleanup_(freep) float *expected = malloc(rows * n * sizeof(*expected));
        Case gate, up;

        case_init(&gate, n, k, rows, FILL_RANDOM, i % 4 < 2);
        case_init(&up, n, k, rows, FILL_CYCLE, i % 4 < 2);
        for (size_t r = 0; r < rows; r++) /* both matrices have the same rows */
            for (size_t o = 0; o < n; o++) {
                int32_t sum = 0;

                for (size_t j = 0; j < k; j++)
                    sum += gate.x[r * gate.in.stride_bytes + j] * up.w[o * k + j];
                up.expected[r * n + o] = (float)sum * (gate.x_scales[r] * up.w_scales[o]);
                if (up.weights.bias)
                    up.expected[r * n + o] = up.expected[r * n + o] + up.bias[o];
            }
        (i % 2 ? row_ops->gelu_mul : row_ops->silu_mul)(gate.expected, up.expected, rows * n, expected);
        EACH_KERNEL (kernel) {
            const Call call = { kernel, int8_tile_rows(kernel, rows), &up, i % 2 ? INT8_GATE_GELU : INT8_GATE_SILU };

            if (kernel->gated)
                check_call(&gate, &call, expected, i % 3, i);
        }
        case_deinit(&gate);
        case_deinit(&up);
    }
}

static void test_int8_product_extremes(void **state) {
    static const size_t k_list[] = { 2, 64, 129, 1536 };

    for (int fill = FILL_EXTREME_SAME; fill < _FILL_N; fill++)
        for (size_t b = 0; b < ARRAY_LEN(k_list); b++) {
            Case c;

            case_init(&c, 37, k_list[b], 9, (Fill)fill, false);
            each_kernel(&c, 3, 1);
            case_deinit(&c);
        }
}

/* The largest k: sums reach 127 x 128 x 131072, just inside int32, while sums of shifted activations wrap. */
static void test_int8_product_largest_k(void **state) {
    for (int fill = FILL_EXTREME_SAME; fill < _FILL_N; fill++) {
        Case c;

        case_init(&c, 2, INT8_K_MAX, 3, (Fill)fill, false);
        each_kernel(&c, 0, 0);
        case_deinit(&c);
    }
}

/* A row's result depends neither on the rows beside it, nor on the split of the blocks. */
static void test_int8_product_row_alone(void **state) {
    Case c, one;

    case_init(&c, 150, 257, 33, FILL_RANDOM, true);
    for (size_t r = 0; r < c.rows; r++) {
        one = c;
        one.rows = 1;
        one.in = (Int8Rows){ 1,
                             1,
                             c.in.stride_bytes,
                             c.in.x + r * c.in.stride_bytes,
                             c.in.scales + r,
                             NULL,
                             c.shifted + r * c.in.stride_bytes };
        one.expected = c.expected + r * c.n;
        each_kernel(&one, 2, 0);
    }
    case_deinit(&c);
}

static void test_int8_product_layout_round_trip(void **state) {
    static const size_t n_list[] = { 1, 16, 17, 40 }, k_list[] = { 1, 6, 64, 67, 200 };

    for (size_t a = 0; a < ARRAY_LEN(n_list); a++)
        for (size_t b = 0; b < ARRAY_LEN(k_list); b++) {
            int8_t row[200 + 1];
            Case c;

            case_init(&c, n_list[a], k_list[b], 1, FILL_CYCLE, false);
            for (size_t o = 0; o < c.n; o++) {
                int32_t sum = 0;

                memset(row, 0x33, sizeof(row));
                int8_weights_row(&c.weights, o, row);
                assert_memory_equal(row, c.w + o * c.k, c.k);
                assert_int_equal(row[c.k], 0x33);
                for (size_t i = 0; i < c.k; i++)
                    sum += c.w[o * c.k + i];
                assert_int_equal(c.sums[o], sum);
            }
            case_deinit(&c);
        }
}

/* Every byte is at its documented place, and the padding is zero. */
static void test_int8_product_layout_places(void **state) {
    const size_t n = 19, k = 70;
    Case c;

    case_init(&c, n, k, 1, FILL_CYCLE, false);
    for (size_t o = 0; o < 32; o++)
        for (size_t i = 0; i < 128; i++) {
            size_t tile = o / 16 * 2 + i / 64, byte = i % 64 / 4 * 64 + o % 16 * 4 + i % 4;

            assert_int_equal(c.tiles[tile * 1024 + byte], o < n && i < k ? c.w[o * k + i] : 0);
        }
    for (size_t o = n; o < 32; o++)
        assert_int_equal(c.sums[o], 0);
    case_deinit(&c);
}

/* Laying out blocks one at a time, last first, leaves the others alone. */
static void test_int8_product_layout_by_parts(void **state) {
    _cleanup_(freep) int8_t *tiles = NULL;
    int32_t sums[64];
    size_t bytes;
    Case c;

    case_init(&c, 50, 100, 1, FILL_RANDOM, false);
    bytes = c.weights.k_tiles * INT8_TILE_BYTES;
    tiles = aligned(4 * bytes);
    memset(tiles, 0x77, 4 * bytes);
    for (size_t block = 4; block-- > 0;) {
        int8_weights_layout(c.w + block * INT8_TILE_OUTPUTS * c.k, c.n, c.k, block, block + 1, tiles, sums);
        for (size_t i = 0; i < block * bytes; i++)
            assert_int_equal(tiles[i], 0x77);
    }
    assert_memory_equal(tiles, c.tiles, 4 * bytes);
    assert_memory_equal(sums, c.sums, sizeof(sums));
    case_deinit(&c);
}

/* Every subset of the features selects the first kernel whose needs are in it. */
static void test_int8_product_select(void **state) {
    const uint32_t all = CPU_ALL;
    size_t n = int8_product_n_kernels();

    assert_true(n >= 1);
    assert_int_equal(int8_product_kernel_at(n - 1)->need, 0);
    for (uint32_t sub = 0;; sub = (sub - all) & all) {
        const Int8ProductKernel *kernel = int8_product_select(sub);
        size_t i = 0;

        while (int8_product_kernel_at(i)->need & ~sub)
            i++;
        assert_ptr_equal(kernel, int8_product_kernel_at(i));
        if (sub == all)
            break;
    }
    for (size_t i = 0; i < n; i++)
        assert_ptr_not_equal(int8_product_kernel_at(i)->fn, int8_product_amx_model.fn);
    assert_string_equal(int8_product_select(0)->name, "int8_product__scalar");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int8_product_sizes),
        cmocka_unit_test(test_int8_product_row_counts),
        cmocka_unit_test(test_int8_product_256_rows),
        cmocka_unit_test(test_int8_product_parts),
        cmocka_unit_test(test_int8_product_gated),
        cmocka_unit_test(test_int8_product_extremes),
        cmocka_unit_test(test_int8_product_largest_k),
        cmocka_unit_test(test_int8_product_row_alone),
        cmocka_unit_test(test_int8_product_layout_round_trip),
        cmocka_unit_test(test_int8_product_layout_places),
        cmocka_unit_test(test_int8_product_layout_by_parts),
        cmocka_unit_test(test_int8_product_select),
    };
    const char *env = getenv("TEST_SEED");

    seed = env ? strtoull(env, NULL, 0) : 20240607;
    printf("seed %llu (TEST_SEED sets another)\n", (unsigned long long)seed);
    for (size_t i = 0; i <= int8_product_n_kernels(); i++)
        printf("%s: %s\n", all_kernels_at(i)->name, kernel_at(i) ? "tested" : "absent on this machine");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
