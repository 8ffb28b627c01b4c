// SPDX-License-Identifier: Apache-2.0
/* Tests of the cpu device's matrices beyond the suite (test_device_suite): rows that fill tiles, matrices with outputs
 * in pieces, refusals with their texts, and charges to the weights' account. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/backend.h"
#include "base/cleanup.h"
#include "base/system/cpu.h"
#include "quant/format/ggml_type.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"
#include "test/unit/fixtures/model_maker.h"

enum {
    ROWS_MAX = 33
};

static uint64_t seed;

static size_t draw(size_t n) {
    return (size_t)(test_random(&seed) % n);
}

typedef struct Matrix {
    size_t n, k;
    Grid grid;
    int8_t *bits, *q;
    float *scales, *bias;
    PackPlan plan;
    uint8_t *packed;
    uint32_t rotation_block;
} Matrix;

/* widths 1..8: all alike; 0: mixed. */
static void matrix_init(Matrix *matrix, size_t n, size_t k, int widths, uint32_t rotation_block) {
    *matrix = (Matrix){ .n = n, .k = k, .grid = (Grid)draw(_GRID_N), .rotation_block = rotation_block };
    matrix->bits = malloc(n);
    matrix->q = malloc(n * k);
    matrix->scales = malloc(n * sizeof(float));
    matrix->bias = malloc(n * sizeof(float));
    assert_true(matrix->bits && matrix->q && matrix->scales && matrix->bias);
    for (size_t i = 0; i < n; i++)
        matrix->bits[i] = (int8_t)(widths ? widths : 1 + (int)draw(8));
    if (matrix->grid != GRID_UNIFORM)
        assert_int_equal(pack_widen(matrix->bits, n), 0);
    for (size_t i = 0; i < n; i++) {
        matrix->scales[i] = (float)(draw(1000) + 1) * 3e-5f;
        matrix->bias[i] = (float)draw(1000) * 0.01f - 5;
        for (size_t c = 0; c < k; c++)
            matrix->q[i * k + c] =
                (int8_t)(matrix->bits[i] == 8
                             ? (int)draw(255) - 127
                             : grid_level(matrix->grid, (int)draw((size_t)1 << matrix->bits[i]), matrix->bits[i]));
    }
    assert_int_equal(pack_plan_init(&matrix->plan, matrix->grid, matrix->bits, n, k), 0);
    matrix->packed = aligned_alloc(64, matrix->plan.offsets[matrix->plan.n_blocks]);
    assert_non_null(matrix->packed);
    for (size_t block = 0; block < matrix->plan.n_blocks; block++)
        pack_block(&matrix->plan, block, matrix->q, matrix->packed);
}

static void matrix_deinit(Matrix *matrix) {
    free(matrix->bits);
    free(matrix->q);
    free(matrix->scales);
    free(matrix->bias);
    free(matrix->packed);
    pack_plan_deinit(&matrix->plan);
}

static LinearSource source_of(const Matrix *matrix, bool packed, bool with_bias) {
    return (LinearSource){
        .name = "blk.0.test.weight",
        .n = matrix->n,
        .k = matrix->k,
        .type = GGML_I8,
        .data = packed ? NULL : matrix->q,
        .scales = matrix->scales,
        .packed = packed ? matrix->packed : NULL,
        .bits = packed ? matrix->bits : NULL,
        .grid = matrix->grid,
        .rotation_block = matrix->rotation_block,
        .bias = with_bias ? matrix->bias : NULL,
    };
}

typedef struct Device {
    AccountTable accounts;
    WorkerPool *pool;
    Backend *backend;
} Device;

static void device_init(Device *device, uint32_t features, unsigned int n_threads, size_t width) {
    const BackendShape shape = {
        .rows = ROWS_MAX, .width = width, .n_vocab = 1, .n_heads = 1, .n_kv_heads = 1, .head_size = 16
    };

    account_table_init(&device->accounts);
    assert_int_equal(worker_pool_new(&device->pool, n_threads), 0);
    assert_int_equal(backend_cpu_new(&device->backend, features, device->pool, &device->accounts, NULL), 0);
    assert_int_equal(device->backend->ops->reserve(device->backend, &shape, NULL), 0);
}

static void device_deinit(Device *device) {
    backend_free(device->backend);
    worker_pool_free(device->pool);
    for (int id = 0; id < _ACCOUNT_N; id++)
        assert_int_equal(atomic_load(&device->accounts.used_bytes[id]), 0);
}

static BackendLinear *linear_of(Device *device, const Matrix *matrix, bool packed, bool with_bias) {
    const LinearSource source = source_of(matrix, packed, with_bias);
    BackendLinear *linear = NULL;

    assert_int_equal(device->backend->ops->linear_new(device->backend, &linear, &source, NULL), 0);
    return linear;
}

/* Outputs out of order are not contiguous, so they do not come in pieces: with 300 channels of mixed widths some are
 * out of order. */
static void test_cpu_linear_has_pieces(void **state) {
    static const int widths[] = { 8, 5, 0 };
    Device device;

    device_init(&device, cpu_features(), 1, 100);
    for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
        BackendLinear *linear;
        Matrix matrix;

        matrix_init(&matrix, 300, 100, widths[i], 0);
        linear = linear_of(&device, &matrix, i > 0, false);
        assert_int_equal(device.backend->ops->has_pieces(linear), widths[i] != 0);
        device.backend->ops->linear_free(linear);
        matrix_deinit(&matrix);
    }
    device_deinit(&device);
}

/* Kernels that take rows in tiles compute padding rows in the last tile if there is more than one row. */
static void test_cpu_linear_idle_rows(void **state) {
    const uint32_t amx = cpu_features() & CPU_AMX_INT8;

    for (size_t tiled = 0; tiled < 2; tiled++) {
        const bool has_tiles = tiled && amx;
        Device device;

        device_init(&device, tiled ? cpu_features() : cpu_features() & ~(uint32_t)CPU_AMX_INT8, 1, 64);
        for (size_t rows = 1; rows <= ROWS_MAX; rows++)
            assert_int_equal(device.backend->ops->idle_rows(device.backend, rows),
                             has_tiles && rows > 16 ? 15 - (rows - 1) % 16 : 0);
        device_deinit(&device);
    }
}

/* The account grows by little more than the packed bytes: by a quarter of the int8 bytes at 2 bits. */
static void test_cpu_linear_account(void **state) {
    const size_t n = 320, k = 1024;
    BackendLinear *linear;
    uint64_t used_bytes;
    Matrix matrix;
    Device device;

    device_init(&device, cpu_features(), 1, k);
    matrix_init(&matrix, n, k, 2, 0);
    linear = linear_of(&device, &matrix, true, true);
    used_bytes = atomic_load(&device.accounts.used_bytes[ACCOUNT_WEIGHTS]);
    assert_true(used_bytes >= n * k / 4 && used_bytes <= n * k / 4 + 32 * n);
    device.backend->ops->linear_free(linear);
    assert_int_equal(atomic_load(&device.accounts.used_bytes[ACCOUNT_WEIGHTS]), 0);
    matrix_deinit(&matrix);
    device_deinit(&device);
}

static void expect_refusal(Device *device, const LinearSource *source, int expected, const char *part) {
    BackendLinear *linear = NULL;
    ErrText err = { 0 };

    assert_int_equal(device->backend->ops->linear_new(device->backend, &linear, source, &err), expected);
    assert_null(linear);
    assert_non_null(strstr(err.text, "blk.0.test.weight"));
    if (!strstr(err.text, part))
        fail_msg("'%s' does not say '%s'", err.text, part);
    assert_int_equal(atomic_load(&device->accounts.used_bytes[ACCOUNT_WEIGHTS]), 0);
}

static void test_cpu_linear_refusals(void **state) {
    static const int8_t wrong[] = { 0, 9, -1, 127 };
    LinearSource source;
    Matrix matrix;
    Device device;

    device_init(&device, cpu_features(), 1, 100);
    matrix_init(&matrix, 40, 100, 8, 0);
    for (size_t i = 0; i < sizeof(wrong); i++) {
        matrix.bits[37] = wrong[i];
        source = source_of(&matrix, true, false);
        expect_refusal(&device, &source, BACKEND_E_WEIGHTS, "channel 37 is");
        expect_refusal(&device, &source, BACKEND_E_WEIGHTS, "import the model again");
        matrix.bits[37] = 8;
    }
    source = source_of(&matrix, true, false);
    source.bits = NULL;
    expect_refusal(&device, &source, BACKEND_E_WEIGHTS, "bits wide");
    source = source_of(&matrix, true, false);
    source.scales = NULL;
    expect_refusal(&device, &source, BACKEND_E_WEIGHTS, "is not int8");
    source = source_of(&matrix, true, false);
    source.k = 131073;
    expect_refusal(&device, &source, BACKEND_E_WEIGHTS, "40 x 131073");
    source = source_of(&matrix, true, false);
    source.n = (size_t)INT32_MAX + 1;
    expect_refusal(&device, &source, BACKEND_E_WEIGHTS, "do not take");
    /* Code 0 of 8 bits: weight (39, 99), in the last tile of the last block. */
    {
        uint8_t codes[PACK_TILE_WEIGHTS], *tile = matrix.packed + matrix.plan.offsets[2] + 1024;

        unpack_tile(tile, 8, codes);
        codes[(99 - 64) / 4 * 64 + (39 - 32) * 4 + 99 % 4] = 0;
        pack_tile(codes, 8, tile);
    }
    source = source_of(&matrix, true, false);
    expect_refusal(&device, &source, BACKEND_E_WEIGHTS, "-128");
    matrix_deinit(&matrix);
    matrix_init(&matrix, 40, 100, 0, 0);
    device.accounts.limit_bytes[ACCOUNT_WEIGHTS] = 1000;
    source = source_of(&matrix, true, false);
    expect_refusal(&device, &source, BACKEND_E_MEMORY, "no memory");
    matrix_deinit(&matrix);
    device_deinit(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_linear_has_pieces),
        cmocka_unit_test(test_cpu_linear_idle_rows),
        cmocka_unit_test(test_cpu_linear_account),
        cmocka_unit_test(test_cpu_linear_refusals),
    };
    const char *env = getenv("TEST_SEED");

    seed = env ? strtoull(env, NULL, 0) : 20240607;
    printf("seed %llu (TEST_SEED sets another)\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
