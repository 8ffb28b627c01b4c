/* Every int8 product kernel that this machine can run gives the bits of the scalar one, which is checked against sums
 * in int64; at sizes around the tile and the panels, with bytes around the outputs that must stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/int8_product.h"
#include "base/cleanup.h"
#include "base/cpu.h"

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

/* A cycle of 251, prime, so that no two tiles are alike. */
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
    c->in = (Int8Rows){ rows, k_tiles * INT8_TILE_INPUTS, c->x, c->x_scales, NULL, c->shifted };
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

/* Outputs of the blocks have the expected bits; every other float of the buffer is as it was. */
static void case_check(const Case *c, const Int8ProductKernel *kernel, size_t block_begin, size_t block_end, size_t gap,
                       size_t shift) {
    const size_t stride = c->n + gap, n_floats = GUARD + shift + c->rows * stride + GUARD;
    _cleanup_(freep) float *buffer = malloc(n_floats * sizeof(*buffer));
    const float untouched = -1.0625e30f;
    float *y = buffer + GUARD + shift;
    size_t first = block_begin * INT8_TILE_OUTPUTS, last = block_end * INT8_TILE_OUTPUTS;

    assert_non_null(buffer);
    for (size_t i = 0; i < n_floats; i++)
        buffer[i] = untouched;
    kernel->fn(&c->weights, &c->in, block_begin, block_end, y, stride);
    for (size_t i = 0; i < GUARD + shift; i++)
        assert_memory_equal(&buffer[i], &untouched, sizeof(float));
    for (size_t i = 0; i < c->rows * stride + GUARD; i++) {
        size_t r = i / stride, o = i % stride;
        bool written = r < c->rows && o < c->n && o >= first && o < last;
        const float *expected = written ? &c->expected[r * c->n + o] : &untouched;

        if (memcmp(&y[i], expected, sizeof(float)))
            fail_msg("%s: n=%zu k=%zu rows=%zu blocks [%zu, %zu): row %zu output %zu is %a, expected %a", kernel->name,
                     c->n, c->k, c->rows, block_begin, block_end, r, o, (double)y[i], (double)*expected);
    }
}

static void each_kernel(const Case *c, size_t gap, size_t shift) {
    for (size_t i = 0; i <= int8_product_n_kernels(); i++) {
        const Int8ProductKernel *kernel =
            i < int8_product_n_kernels() ? int8_product_kernel_at(i) : &int8_product_amx_model;

        if (kernel->need & ~cpu_features())
            continue;
        case_check(c, kernel, 0, c->weights.n_blocks, gap, shift);
        if (c->weights.n_blocks > 2)
            case_check(c, kernel, 1, c->weights.n_blocks - 1, gap, shift);
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

/* A row's result does not depend on the rows beside it, nor on how the blocks are shared out. */
static void test_int8_product_row_alone(void **state) {
    Case c, one;

    case_init(&c, 150, 257, 33, FILL_RANDOM, true);
    for (size_t r = 0; r < c.rows; r++) {
        one = c;
        one.rows = 1;
        one.in = (Int8Rows){ 1, c.in.stride_bytes, c.in.x + r * c.in.stride_bytes, c.in.scales + r, NULL,
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

/* The documented place of every byte, and zero in the padding. */
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

/* Blocks laid out one at a time, last first, leave the others alone. */
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

/* For every subset of the features: the first kernel whose needs are in it. */
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
    for (size_t i = 0; i < int8_product_n_kernels(); i++)
        printf("%s: %s\n", int8_product_kernel_at(i)->name,
               int8_product_kernel_at(i)->need & ~cpu_features() ? "absent on this machine" : "tested");
    printf("%s: tested\n", int8_product_amx_model.name);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
