// SPDX-License-Identifier: Apache-2.0
/* Matrices of the cpu device: a packed one gives the bits of the int8 one that it unpacks to, in products (alone and
 * beside int8 matrices of the same input) and in embedding rows, with every subset of the machine's instructions and
 * with threads; what is refused, with its text; and what the account of the weights says. */
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
#include "base/cpu.h"
#include "quant/ggml_type.h"
#include "quant/grid.h"
#include "quant/pack.h"
#include "test/unit/model_maker.h"

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

/* Three matrices of one input as int8, then all packed, then the middle one alone packed. */
static void check_products(Device *device, const Matrix matrices[3], size_t rows, bool with_bias) {
    static const bool ways[][3] = { { false, false, false }, { true, true, true }, { false, true, false } };
    const BackendOps *ops = device->backend->ops;
    _cleanup_(freep) float *x = malloc(rows * matrices[0].k * sizeof(float));
    float *y[ARRAY_LEN(ways)][3];

    assert_non_null(x);
    for (size_t i = 0; i < rows * matrices[0].k; i++)
        x[i] = test_random_normal(&seed);
    for (size_t way = 0; way < ARRAY_LEN(ways); way++) {
        BackendLinear *linears[3];

        for (size_t m = 0; m < 3; m++) {
            linears[m] = linear_of(device, &matrices[m], ways[way][m], with_bias);
            y[way][m] = malloc(rows * matrices[m].n * sizeof(float));
            assert_non_null(y[way][m]);
        }
        assert_int_equal(ops->linear(device->backend, (const BackendLinear *const *)linears, 3,
                                     &(LinearInput){ .x = x }, rows, &(LinearOutput){ .y = y[way] }, NULL),
                         0);
        for (size_t m = 0; m < 3; m++) {
            assert_memory_equal(y[way][m], y[0][m], rows * matrices[m].n * sizeof(float));
            ops->linear_free(linears[m]);
        }
    }
    for (size_t way = 0; way < ARRAY_LEN(ways); way++)
        for (size_t m = 0; m < 3; m++)
            free(y[way][m]);
}

static void test_cpu_linear_products(void **state) {
    static const size_t row_list[] = { 1, 2, 5, 13, ROWS_MAX };
    const uint32_t all = cpu_features();

    for (uint32_t sub = 0;; sub = (sub - all) & all) {
        for (unsigned int n_threads = 1; n_threads <= 3; n_threads += 2)
            for (size_t i = 0; i < ARRAY_LEN(row_list); i++) {
                const size_t k = i % 2 ? 192 : 230;
                Matrix matrices[3];
                Device device;

                device_init(&device, sub, n_threads, k);
                for (size_t m = 0; m < 3; m++)
                    matrix_init(&matrices[m], 1 + draw(200), k, (int)draw(9), i % 2 ? 64 : 0);
                check_products(&device, matrices, row_list[i], i % 2);
                for (size_t m = 0; m < 3; m++)
                    matrix_deinit(&matrices[m]);
                device_deinit(&device);
            }
        if (sub == all)
            break;
    }
}

/* A norm, or the norm of a sum, on the way to int8 gives the bits of the operators before the product. */
static void test_cpu_linear_fused_inputs(void **state) {
    static const size_t row_list[] = { 1, 4, 7, ROWS_MAX };

    for (size_t i = 0; i < 4 * ARRAY_LEN(row_list); i++) {
        const size_t rows = row_list[i / 4], k = i % 4 / 2 ? 192 : 230, n = 1 + draw(100);
        const bool of_sum = i % 2;
        _cleanup_(freep) float *x = malloc(rows * k * sizeof(float)), *stream = malloc(rows * k * sizeof(float)),
                               *made = malloc(rows * k * sizeof(float)), *sum = malloc(rows * k * sizeof(float)),
                               *norm = malloc(k * sizeof(float)), *apart = malloc(rows * n * sizeof(float)),
                               *fused = malloc(rows * n * sizeof(float));
        LinearInput in = { .x = x, .norm = norm, .eps = 1e-5f, .stream = of_sum ? stream : NULL };
        const BackendOps *ops;
        BackendLinear *linear;
        Matrix matrix;
        Device device;

        assert_true(x && stream && made && sum && norm && apart && fused);
        for (size_t j = 0; j < rows * k; j++) {
            x[j] = test_random_normal(&seed);
            stream[j] = test_random_normal(&seed);
        }
        for (size_t j = 0; j < k; j++)
            norm[j] = test_random_normal(&seed);
        device_init(&device, cpu_features(), 2, k);
        ops = device.backend->ops;
        matrix_init(&matrix, n, k, 8, k == 192 ? 64 : 0);
        linear = linear_of(&device, &matrix, false, true);
        memcpy(sum, stream, rows * k * sizeof(float));
        ops->add(device.backend, sum, x, rows, k);
        ops->norm(device.backend, of_sum ? sum : x, norm, in.eps, rows, k, made);
        assert_int_equal(ops->linear(device.backend, (const BackendLinear *const *)&linear, 1,
                                     &(LinearInput){ .x = made }, rows,
                                     &(LinearOutput){ .y = (float *const[]){ apart } }, NULL),
                         0);
        assert_int_equal(ops->linear(device.backend, (const BackendLinear *const *)&linear, 1, &in, rows,
                                     &(LinearOutput){ .y = (float *const[]){ fused } }, NULL),
                         0);
        assert_memory_equal(fused, apart, rows * n * sizeof(float));
        if (of_sum)
            assert_memory_equal(stream, sum, rows * k * sizeof(float));
        ops->linear_free(linear);
        matrix_deinit(&matrix);
        device_deinit(&device);
    }
}

/* Two matrices of as many outputs, one of which gates the other: int8, packed in order and not, one of each. */
static void check_gated(uint32_t features, unsigned int n_threads, size_t rows, int way) {
    const size_t n = 1 + draw(400), k = 64 + draw(700);
    const int widths[] = { way == 2 ? 0 : 4, way == 3 ? 6 : 5 };
    const bool gelu = draw(2);
    _cleanup_(freep) float *x = malloc(rows * k * sizeof(float)), *fused = malloc(rows * n * sizeof(float)),
                           *gate = malloc(rows * n * sizeof(float)), *up = malloc(rows * n * sizeof(float));
    BackendLinear *linears[2];
    const BackendOps *ops;
    Matrix matrices[2];
    Device device;

    assert_true(x && fused && gate && up);
    for (size_t i = 0; i < rows * k; i++)
        x[i] = test_random_normal(&seed);
    device_init(&device, features, n_threads, k);
    ops = device.backend->ops;
    for (size_t m = 0; m < 2; m++) {
        matrix_init(&matrices[m], n, k, widths[m], 0);
        linears[m] = linear_of(&device, &matrices[m], way == 3 ? m == 0 : way > 0, draw(2));
    }
    assert_int_equal(ops->linear(device.backend, (const BackendLinear *const *)linears, 2, &(LinearInput){ .x = x },
                                 rows, &(LinearOutput){ .y = (float *const[]){ gate, up } }, NULL),
                     0);
    ops->gated(device.backend, gate, up, rows, n, gelu);
    assert_int_equal(ops->linear(device.backend, (const BackendLinear *const *)linears, 2, &(LinearInput){ .x = x },
                                 rows,
                                 &(LinearOutput){ .y = (float *const[]){ fused, up },
                                                  .gate = gelu ? LINEAR_GATE_GELU : LINEAR_GATE_SILU },
                                 NULL),
                     0);
    assert_memory_equal(fused, gate, rows * n * sizeof(float));
    for (size_t m = 0; m < 2; m++) {
        ops->linear_free(linears[m]);
        matrix_deinit(&matrices[m]);
    }
    device_deinit(&device);
}

static void test_cpu_linear_gated(void **state) {
    static const size_t row_list[] = { 1, 3, 6, 7, 16, ROWS_MAX };
    const uint32_t all = cpu_features();

    for (uint32_t sub = 0;; sub = (sub - all) & all) {
        for (size_t i = 0; i < ARRAY_LEN(row_list); i++)
            check_gated(sub, 1 + (unsigned int)draw(3), row_list[i], (int)draw(4));
        if (sub == all)
            break;
    }
    for (size_t i = 0; i < ARRAY_LEN(row_list); i++)
        for (int way = 0; way < 4; way++)
            check_gated(all, 2, row_list[i], way);
}

/* What pieces gave, row by row; each output comes once. */
typedef struct Pieces {
    float *y; /* f32[rows][n] */
    size_t rows, n, n_outputs;
    size_t ends[3]; /* of each worker's last one */
} Pieces;

static void take_piece(void *arg, size_t first, size_t n, float *y, unsigned int worker) {
    Pieces *pieces = arg;

    assert_true(n && n <= LINEAR_PIECE && first + n <= pieces->n && first >= pieces->ends[worker]);
    pieces->ends[worker] = first + n;
    for (size_t r = 0; r < pieces->rows; r++)
        memcpy(pieces->y + r * pieces->n + first, y + r * LINEAR_PIECE, n * sizeof(*y));
    __atomic_add_fetch(&pieces->n_outputs, n, __ATOMIC_RELAXED);
}

/* widths 0: mixed, so that channels are out of order, and outputs of a piece would lie apart. */
static void check_pieces(uint32_t features, unsigned int n_threads, size_t rows, int widths, bool packed) {
    const size_t n = widths ? 1 + draw(3000) : 300, k = 64 + draw(300);
    _cleanup_(freep) float *x = malloc(rows * k * sizeof(float)), *whole = malloc(rows * n * sizeof(float)),
                           *y = malloc(rows * n * sizeof(float)),
                           *scratch = aligned_alloc(64, n_threads * rows * LINEAR_PIECE * sizeof(float));
    Pieces pieces = { y, rows, n, 0, { 0 } };
    BackendLinear *linear;
    const BackendOps *ops;
    Matrix matrix;
    Device device;

    assert_true(x && whole && y && scratch);
    for (size_t i = 0; i < rows * k; i++)
        x[i] = test_random_normal(&seed);
    device_init(&device, features, n_threads, k);
    ops = device.backend->ops;
    matrix_init(&matrix, n, k, widths, 0);
    linear = linear_of(&device, &matrix, packed, draw(2));
    assert_int_equal(ops->linear(device.backend, (const BackendLinear *const *)&linear, 1, &(LinearInput){ .x = x },
                                 rows, &(LinearOutput){ .y = (float *const[]){ whole } }, NULL),
                     0);
    assert_int_equal(ops->has_pieces(linear), widths != 0);
    if (widths) {
        assert_int_equal(ops->linear_pieces(device.backend, linear, x, rows, scratch, take_piece, &pieces, NULL), 0);
        assert_int_equal(pieces.n_outputs, n);
        assert_memory_equal(y, whole, rows * n * sizeof(float));
    }
    ops->linear_free(linear);
    matrix_deinit(&matrix);
    device_deinit(&device);
}

static void test_cpu_linear_pieces(void **state) {
    static const size_t row_list[] = { 1, 6, 16, ROWS_MAX };
    const uint32_t all = cpu_features();

    for (uint32_t sub = 0;; sub = (sub - all) & all) {
        for (size_t i = 0; i < ARRAY_LEN(row_list); i++) {
            check_pieces(sub, 1 + (unsigned int)draw(3), row_list[i], 8, false);
            check_pieces(sub, 1 + (unsigned int)draw(3), row_list[i], 1 + (int)draw(8), true);
        }
        if (sub == all)
            break;
    }
    check_pieces(all, 2, ROWS_MAX, 0, true);
}

/* Kernels that take rows in tiles compute what fills the last one, where there is more than one. */
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

/* Every row of the embedding. */
static void test_cpu_linear_embed(void **state) {
    for (int widths = 0; widths <= 8; widths++) {
        const size_t n = 1 + draw(150), k = widths % 2 ? 128 : 75;
        const float factor = widths % 3 ? 1 : 2.5f;
        BackendLinear *int8, *packed;
        uint32_t tokens[ROWS_MAX];
        Matrix matrix;
        Device device;

        device_init(&device, widths % 2 ? cpu_features() : 0, 1, k);
        matrix_init(&matrix, n, k, widths, widths % 2 ? 64 : 0);
        int8 = linear_of(&device, &matrix, false, false);
        packed = linear_of(&device, &matrix, true, false);
        for (size_t first = 0; first < n; first += ROWS_MAX) {
            _cleanup_(freep) float *expected = malloc(ROWS_MAX * k * sizeof(float)),
                                   *y = malloc(ROWS_MAX * k * sizeof(float));
            size_t rows = n - first < ROWS_MAX ? n - first : ROWS_MAX;

            assert_true(expected && y);
            for (size_t r = 0; r < rows; r++)
                tokens[r] = (uint32_t)(n - 1 - first - r);
            device.backend->ops->embed(device.backend, int8, tokens, rows, factor, expected);
            device.backend->ops->embed(device.backend, packed, tokens, rows, factor, y);
            assert_memory_equal(y, expected, rows * k * sizeof(float));
        }
        device.backend->ops->linear_free(int8);
        device.backend->ops->linear_free(packed);
        matrix_deinit(&matrix);
        device_deinit(&device);
    }
}

/* As many rows as are split over the workers: the integers times their scale and the factor, whoever makes them. */
static void test_cpu_linear_embed_threads(void **state) {
    const size_t n = 90, k = 1000;
    _cleanup_(freep) float *expected = malloc(ROWS_MAX * k * sizeof(float)), *y = malloc(ROWS_MAX * k * sizeof(float));
    uint32_t tokens[ROWS_MAX];
    Matrix matrix;
    Device device;

    assert_true(expected && y);
    device_init(&device, cpu_features(), 3, k);
    matrix_init(&matrix, n, k, 0, 0);
    for (size_t r = 0; r < ROWS_MAX; r++) {
        tokens[r] = (uint32_t)draw(n);
        for (size_t i = 0; i < k; i++) {
            expected[r * k + i] = (float)matrix.q[tokens[r] * k + i] * matrix.scales[tokens[r]];
            expected[r * k + i] *= 2.5f;
        }
    }
    for (int packed = 0; packed < 2; packed++) {
        BackendLinear *linear = linear_of(&device, &matrix, packed, false);

        for (int round = 0; round < 50; round++) { /* sooner or later with the workers' help */
            memset(y, 0, ROWS_MAX * k * sizeof(float));
            device.backend->ops->embed(device.backend, linear, tokens, ROWS_MAX, 2.5f, y);
            assert_memory_equal(y, expected, ROWS_MAX * k * sizeof(float));
        }
        device.backend->ops->linear_free(linear);
    }
    matrix_deinit(&matrix);
    device_deinit(&device);
}

/* The account grows by the packed bytes and little more, and by a quarter of the int8 bytes at 2 bits. */
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
        cmocka_unit_test(test_cpu_linear_products),      cmocka_unit_test(test_cpu_linear_fused_inputs),
        cmocka_unit_test(test_cpu_linear_gated),         cmocka_unit_test(test_cpu_linear_pieces),
        cmocka_unit_test(test_cpu_linear_idle_rows),     cmocka_unit_test(test_cpu_linear_embed),
        cmocka_unit_test(test_cpu_linear_embed_threads), cmocka_unit_test(test_cpu_linear_account),
        cmocka_unit_test(test_cpu_linear_refusals),
    };
    const char *env = getenv("TEST_SEED");

    seed = env ? strtoull(env, NULL, 0) : 20240607;
    printf("seed %llu (TEST_SEED sets another)\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
