// SPDX-License-Identifier: Apache-2.0
/* Tests of the cpu device's static activations beyond the suite (test_device_suite). The bits equal those of plain
 * loops written here, which are compared with double. Cases have more outliers than room. Columns are read from a file
 * in advance and cached. Refusals have their texts. */
#undef NDEBUG
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/backend.h"
#include "backends/cpu/cpu_shadow.h"
#include "base/cleanup.h"
#include "base/files/page_cache.h"
#include "base/system/cpu.h"
#include "quant/format/ggml_type.h"
#include "quant/format/grid.h"
#include "quant/format/pack.h"
#include "quant/rotate.h"
#include "test/unit/fixtures/model_maker.h"
#include "test/unit/fixtures/patience.h"

enum {
    ROWS_MAX = 33,
    N_MATRICES = 3,
    FILE_HEAD_BYTES = 100, /* offset of the columns, deliberately not aligned */
};

static uint64_t seed;

static size_t draw(size_t n) {
    return (size_t)(test_random(&seed) % n);
}

typedef struct Matrix {
    size_t n;
    Grid grid;
    int8_t *q, *columns, *bits;
    float *scales, *bias;
    PackPlan plan;
    uint8_t *packed;
} Matrix;

/* Matrices that share their input, with all properties of the input. */
typedef struct Case {
    size_t k, rows, n_hot;
    uint32_t rotation_block;
    float scale;
    bool shadow;
    uint32_t *hot;
    float *x;
    Matrix matrices[N_MATRICES];
    float *expected[N_MATRICES];
    char folder[256];
    char path[300];
    ColumnFile file;
} Case;

static void matrix_init(Matrix *matrix, size_t n, size_t k) {
    *matrix = (Matrix){ .n = n,
                        .grid = (Grid)draw(_GRID_N),
                        .q = malloc(n * k),
                        .columns = malloc(n * k),
                        .bits = malloc(n),
                        .scales = malloc(n * sizeof(float)),
                        .bias = malloc(n * sizeof(float)) };
    assert_true(matrix->q && matrix->columns && matrix->bits && matrix->scales && matrix->bias);
    for (size_t i = 0; i < n; i++)
        matrix->bits[i] = (int8_t)(1 + draw(8));
    if (matrix->grid != GRID_UNIFORM)
        assert_int_equal(pack_widen(matrix->bits, n), 0);
    for (size_t i = 0; i < n; i++) {
        matrix->scales[i] = (float)(draw(1000) + 1) * 3e-5f;
        matrix->bias[i] = (float)draw(1000) * 0.01f - 5;
        for (size_t c = 0; c < k; c++) {
            int level = matrix->bits[i] == 8
                            ? (int)draw(255) - 127
                            : grid_level(matrix->grid, (int)draw((size_t)1 << matrix->bits[i]), matrix->bits[i]);

            matrix->q[i * k + c] = matrix->columns[c * n + i] = (int8_t)level;
        }
    }
    assert_int_equal(pack_plan_init(&matrix->plan, matrix->grid, matrix->bits, n, k), 0);
    matrix->packed = aligned_alloc(64, matrix->plan.offsets[matrix->plan.n_blocks]);
    assert_non_null(matrix->packed);
    for (size_t block = 0; block < matrix->plan.n_blocks; block++)
        pack_block(&matrix->plan, block, matrix->q, matrix->packed);
}

static void matrix_deinit(Matrix *matrix) {
    free(matrix->q);
    free(matrix->columns);
    free(matrix->bits);
    free(matrix->scales);
    free(matrix->bias);
    free(matrix->packed);
    pack_plan_deinit(&matrix->plan);
}

/* --- the contract, in plain loops --------------------------------------------------------------------------------- */

static void expect_row(const Case *c, const float *x, size_t m, float *y) {
    const Matrix *matrix = &c->matrices[m];
    const float inverse = 1.0f / c->scale, threshold = 127.0f * c->scale;

    for (size_t o = 0; o < matrix->n; o++) {
        const int8_t *w = matrix->q + o * c->k;
        float factor = c->scale * matrix->scales[o];
        double exact = (double)matrix->bias[o], size = fabs(exact), lost = 0;
        int32_t sum = 0;

        for (size_t i = 0; i < c->k; i++) {
            float scaled = x[i] * inverse;

            scaled = fminf(fmaxf(rintf(scaled), -127), 127);
            sum += (int32_t)scaled * w[i];
            exact += (double)x[i] * (double)matrix->scales[o] * w[i];
            size += fabs((double)x[i] * (double)matrix->scales[o] * w[i]);
            if (fabsf(x[i]) <= threshold)
                lost += 0.5 * (double)c->scale * (double)matrix->scales[o] * abs(w[i]);
        }
        y[o] = (float)sum * factor;
        y[o] = y[o] + matrix->bias[o];
        for (size_t i = 0; c->shadow && i < c->k; i++) {
            float rest, weight;

            if (!(fabsf(x[i]) > threshold))
                continue;
            rest = x[i] - copysignf(threshold, x[i]);
            weight = matrix->scales[o] * (float)w[i];
            weight = rest * weight;
            y[o] = y[o] + weight;
        }
        /* With shadows the only loss is rounding within the threshold. */
        if (c->shadow)
            assert_true(fabs((double)y[o] - exact) <= lost + 1e-4 * size);
    }
}

static void expect_all(Case *c) {
    float *x = malloc(c->k * sizeof(float));

    assert_non_null(x);
    for (size_t m = 0; m < N_MATRICES; m++) {
        c->expected[m] = malloc(c->rows * c->matrices[m].n * sizeof(float));
        assert_non_null(c->expected[m]);
    }
    for (size_t r = 0; r < c->rows; r++) {
        memcpy(x, c->x + r * c->k, c->k * sizeof(float));
        rotate_row(x, c->k, c->rotation_block);
        for (size_t m = 0; m < N_MATRICES; m++)
            expect_row(c, x, m, c->expected[m] + r * c->matrices[m].n);
    }
    free(x);
}

/* --- cases -------------------------------------------------------------------------------------------------------- */

static void write_columns(const Case *c) {
    FILE *file = fopen(c->path, "w");

    assert_non_null(file);
    for (size_t i = 0; i < FILE_HEAD_BYTES; i++)
        fputc('x', file);
    for (size_t m = 0; m < N_MATRICES; m++)
        assert_int_equal(fwrite(c->matrices[m].columns, 1, c->matrices[m].n * c->k, file), c->matrices[m].n * c->k);
    assert_int_equal(fclose(file), 0);
}

/* Makes rows of a normal distribution with some values far out; the second row is zero, the third has outliers only. */
static void case_init(Case *c, size_t k, size_t rows, uint32_t rotation_block, bool shadow, double hot_share) {
    *c = (Case){ .k = k, .rows = rows, .rotation_block = rotation_block, .shadow = shadow, .scale = 0.021f };
    c->x = malloc(rows * k * sizeof(float));
    c->hot = malloc(k * sizeof(*c->hot));
    assert_true(c->x && c->hot);
    for (size_t i = 0; i < rows * k; i++) {
        c->x[i] = test_random_normal(&seed);
        if (!draw(40))
            c->x[i] *= 20;
        if (i / k == 1)
            c->x[i] = 0;
        if (i / k == 2)
            c->x[i] = (c->x[i] < 0 ? -1.f : 1.f) * (3 + fabsf(c->x[i]));
    }
    for (uint32_t i = 0; i < k; i++)
        if ((double)draw(1000) < hot_share * 1000)
            c->hot[c->n_hot++] = i;
    for (size_t m = 0; m < N_MATRICES; m++)
        matrix_init(&c->matrices[m], m == 1 ? 300 : 1 + draw(90), k);
    test_folder_make(c->folder);
    snprintf(c->path, sizeof(c->path), "%s/columns", c->folder);
    write_columns(c);
    c->file = (ColumnFile){ open(c->path, O_RDONLY), c->path };
    assert_true(c->file.fd >= 0);
    expect_all(c);
}

static void case_deinit(Case *c) {
    for (size_t m = 0; m < N_MATRICES; m++) {
        matrix_deinit(&c->matrices[m]);
        free(c->expected[m]);
    }
    free(c->x);
    free(c->hot);
    close(c->file.fd);
    test_folder_remove(c->folder);
}

typedef struct Device {
    AccountTable accounts;
    WorkerPool *pool;
    Backend *backend;
    BackendLinear *linears[N_MATRICES];
} Device;

static LinearSource source_of(const Case *c, size_t m, bool packed) {
    const Matrix *matrix = &c->matrices[m];
    LinearSource source = {
        .name = "blk.0.test.weight",
        .n = matrix->n,
        .k = c->k,
        .type = GGML_I8,
        .data = packed ? NULL : matrix->q,
        .scales = matrix->scales,
        .packed = packed ? matrix->packed : NULL,
        .bits = packed ? matrix->bits : NULL,
        .grid = matrix->grid,
        .rotation_block = c->rotation_block,
        .bias = matrix->bias,
        .activations = { .scale = c->scale, .shadow = c->shadow },
    };

    if (c->shadow) {
        source.activations.hot = c->hot;
        source.activations.n_hot = c->n_hot;
        source.activations.columns = matrix->columns;
        source.activations.file = c->n_hot == c->k ? NULL : &c->file;
        source.activations.file_offset_bytes = FILE_HEAD_BYTES;
        for (size_t i = 0; i < m; i++)
            source.activations.file_offset_bytes += c->matrices[i].n * c->k;
    }
    return source;
}

/* weights_first: the order of an engine; otherwise that of an import. */
static void device_init(Device *device, const Case *c, uint32_t features, unsigned int n_threads, bool packed,
                        bool weights_first) {
    const BackendShape shape = {
        .rows = ROWS_MAX, .width = c->k, .n_vocab = 1, .n_heads = 1, .n_kv_heads = 1, .head_size = 16
    };

    account_table_init(&device->accounts);
    assert_int_equal(worker_pool_new(&device->pool, n_threads), 0);
    assert_int_equal(backend_cpu_new(&device->backend, features, device->pool, &device->accounts, NULL), 0);
    if (!weights_first)
        assert_int_equal(device->backend->ops->reserve(device->backend, &shape, NULL), 0);
    for (size_t m = 0; m < N_MATRICES; m++) {
        LinearSource source = source_of(c, m, packed);

        assert_int_equal(device->backend->ops->linear_new(device->backend, &device->linears[m], &source, NULL), 0);
    }
    if (weights_first)
        assert_int_equal(device->backend->ops->reserve(device->backend, &shape, NULL), 0);
}

static void device_deinit(Device *device) {
    for (size_t m = 0; m < N_MATRICES; m++)
        device->backend->ops->linear_free(device->linears[m]);
    backend_free(device->backend);
    worker_pool_free(device->pool);
    for (int id = 0; id < _ACCOUNT_N; id++)
        assert_int_equal(atomic_load(&device->accounts.used_bytes[id]), 0);
}

/* Runs rows [first, first + rows) in one call; returns 0 or the device's error. */
static int run(Device *device, const Case *c, size_t first, size_t rows, ErrText *err) {
    float *y[N_MATRICES];
    int r;

    for (size_t m = 0; m < N_MATRICES; m++) {
        y[m] = malloc(rows * c->matrices[m].n * sizeof(float));
        assert_non_null(y[m]);
    }
    r = device->backend->ops->linear(device->backend, (const BackendLinear *const *)device->linears, N_MATRICES,
                                     &(LinearInput){ .x = c->x + first * c->k }, rows, &(LinearOutput){ .y = y }, err);
    for (size_t m = 0; m < N_MATRICES; m++) {
        size_t n = c->matrices[m].n;

        for (size_t i = 0; !r && i < rows * n; i++)
            if (memcmp(&y[m][i], &c->expected[m][first * n + i], sizeof(float)))
                fail_msg("row %zu, output %zu of matrix %zu: %a, expected %a", first + i / n, i % n, m, (double)y[m][i],
                         (double)c->expected[m][first * n + i]);
        free(y[m]);
    }
    return r;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

/* All values of all rows are outliers: more than a turn takes, and more columns than are cached. */
static void test_static_nothing_but_outliers(void **state) {
    for (size_t i = 0; i < 2; i++) {
        Device device;
        ShadowCounts counts;
        Case c;

        case_init(&c, 577, ROWS_MAX, 0, true, i ? 0 : 1.1);
        for (size_t at = 0; at < c.rows * c.k; at++)
            c.x[at] = (draw(2) ? -1.f : 1.f) * (2.7f + 0.01f * (float)draw(1000));
        for (size_t m = 0; m < N_MATRICES; m++)
            free(c.expected[m]);
        expect_all(&c);
        device_init(&device, &c, cpu_features(), 2, false, true);
        assert_int_equal(run(&device, &c, 0, c.rows, NULL), 0);
        device.backend->ops->shadow_counts(device.backend, &counts);
        assert_int_equal(counts.n_rows, c.rows);
        assert_int_equal(counts.n_outliers, c.rows * c.k);
        assert_int_equal(counts.n_hot, i ? 0 : c.rows * c.k);
        assert_true(i ? counts.n_columns_read > N_MATRICES * c.k : !counts.n_columns_read);
        device_deinit(&device);
        case_deinit(&c);
    }
}

/* A sum and its norm before quantization: a row that waits for another turn is computed again, but not added again. */
static void test_static_outliers_of_a_sum(void **state) {
    const size_t k = 577, rows = ROWS_MAX, n_values = rows * k;
    _cleanup_(freep) float *stream = malloc(n_values * sizeof(float)), *sum = malloc(n_values * sizeof(float)),
                           *norm = malloc(k * sizeof(float)), *x = malloc(n_values * sizeof(float));
    const BackendOps *ops;
    float *y[N_MATRICES];
    Device device;
    Case c;

    assert_true(stream && sum && norm && x);
    case_init(&c, k, rows, 0, true, 0);
    device_init(&device, &c, cpu_features(), 2, false, true);
    ops = device.backend->ops;
    for (size_t i = 0; i < n_values; i++) {
        x[i] = test_random_normal(&seed);
        stream[i] = test_random_normal(&seed);
    }
    for (size_t i = 0; i < k; i++)
        norm[i] = 1000;
    memcpy(sum, stream, n_values * sizeof(float));
    ops->add(device.backend, sum, x, rows, k);
    ops->norm(device.backend, sum, norm, 1e-5f, rows, k, c.x);
    for (size_t m = 0; m < N_MATRICES; m++) {
        free(c.expected[m]);
        y[m] = malloc(rows * c.matrices[m].n * sizeof(float));
        assert_non_null(y[m]);
    }
    expect_all(&c);
    assert_int_equal(ops->linear(device.backend, (const BackendLinear *const *)device.linears, N_MATRICES,
                                 &(LinearInput){ .x = x, .stream = stream, .norm = norm, .eps = 1e-5f }, rows,
                                 &(LinearOutput){ .y = y }, NULL),
                     0);
    assert_memory_equal(stream, sum, n_values * sizeof(float));
    for (size_t m = 0; m < N_MATRICES; m++) {
        assert_memory_equal(y[m], c.expected[m], rows * c.matrices[m].n * sizeof(float));
        free(y[m]);
    }
    device_deinit(&device);
    case_deinit(&c);
}

/* A repeated row finds its columns in the cache. */
static void test_static_columns_are_kept(void **state) {
    ShadowCounts first, second;
    Device device;
    Case c;

    case_init(&c, 230, 1, 0, true, 0);
    device_init(&device, &c, cpu_features(), 1, true, true);
    assert_int_equal(run(&device, &c, 0, 1, NULL), 0);
    device.backend->ops->shadow_counts(device.backend, &first);
    assert_true(first.n_outliers > 0 && first.n_columns_read == N_MATRICES * first.n_outliers);
    assert_int_equal(run(&device, &c, 0, 1, NULL), 0);
    device.backend->ops->shadow_counts(device.backend, &second);
    assert_int_equal(second.n_columns_read, first.n_columns_read);
    assert_int_equal(second.n_columns_cached, first.n_columns_read);
    device_deinit(&device);
    case_deinit(&c);
}

/* Any reserved room takes a row of outliers only, so that a call always makes progress. */
static void test_static_widest_row(void **state) {
    enum {
        WIDTH = 4096
    };

    const RowOps *row_ops = row_ops_select(cpu_features());
    ShadowScratch scratch = { 0 };
    AccountTable accounts;
    float *x = malloc(WIDTH * sizeof(*x));

    assert_non_null(x);
    account_table_init(&accounts);
    assert_int_equal(shadow_reserve(&scratch, &accounts, 1, WIDTH, 1, NULL), 0);
    for (size_t i = 0; i < WIDTH; i++)
        x[i] = 200;
    shadow_begin_call(&scratch, 1);
    shadow_begin(&scratch);
    shadow_take_row(&scratch, row_ops, 0, x, WIDTH, 1, WIDTH);
    assert_false(shadow_is_waiting(&scratch, 0));
    shadow_deinit(&scratch);
    free(x);
}

/* Columns that will be needed are read from the disk in advance: those of the outliers that are not hot, and no
 * others. */
static void test_static_columns_read_ahead(void **state) {
    const RowOps *row_ops = row_ops_select(cpu_features());
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), k = 16;
    const uint32_t hot[] = { 3 }, outliers[] = { 3, 4, 9 };
    ShadowScratch scratch = { 0 };
    AccountTable accounts;
    ColumnFile file;
    Shadow *shadow;
    ErrText err = { 0 };
    char folder[256], path[300];
    float *scales = calloc(4 * page, sizeof(*scales)), *x = calloc(k, sizeof(*x));
    int8_t *columns = calloc(k, 4 * page);
    uint64_t resident = 0, pages;
    int r;

    assert_true(scales && x && columns);
    test_folder_make(folder);
    snprintf(path, sizeof(path), "%s/columns", folder);
    file = (ColumnFile){ open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), path };
    assert_true(file.fd >= 0);
    assert_int_equal(write(file.fd, columns, k * 4 * page), (ssize_t)(k * 4 * page));
    r = page_cache_drop(file.fd, path, &err);
    account_table_init(&accounts);
    assert_int_equal(shadow_new(&shadow, &accounts,
                                &(LinearSource){ .name = "blk.0.test.weight",
                                                 .n = 4 * page,
                                                 .k = k,
                                                 .scales = scales,
                                                 .activations = { .scale = 1,
                                                                  .shadow = true,
                                                                  .hot = hot,
                                                                  .n_hot = ARRAY_LEN(hot),
                                                                  .columns = columns,
                                                                  .file = &file } },
                                1, NULL),
                     0);
    assert_int_equal(shadow_reserve(&scratch, &accounts, 1, k, 4 * page, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(outliers); i++)
        x[outliers[i]] = 200;
    shadow_begin_call(&scratch, 1);
    shadow_begin(&scratch);
    shadow_take_row(&scratch, row_ops, 0, x, k, 1, ARRAY_LEN(outliers));
    shadow_sort(&scratch, (const Shadow *const *)&shadow, 1);
    for (size_t tries = 0; !r && resident < 2 * 4 && tries < 10000; tries++) {
        usleep(1000);
        assert_int_equal(page_cache_count(file.fd, path, &resident, &pages, NULL), 0);
    }
    if (!r)
        assert_int_equal(resident, 2 * 4);
    else
        print_message("left out: %s\n", err.text);
    assert_true(!scratch.counts.n_columns_read);
    shadow_deinit(&scratch);
    shadow_free(shadow);
    close(file.fd);
    test_folder_remove(folder);
    free(columns);
    free(scales);
    free(x);
}

static void expect_refusal(const Case *c, const LinearSource *source, int expected, const char *part) {
    BackendLinear *linear = NULL;
    ErrText err = { 0 };
    Device device;

    device_init(&device, c, cpu_features(), 1, false, true);
    if (expected == BACKEND_E_MEMORY)
        device.accounts.limit_bytes[ACCOUNT_WEIGHTS] =
            atomic_load(&device.accounts.used_bytes[ACCOUNT_WEIGHTS]) + c->k * source->n * 3 / 2;
    assert_int_equal(device.backend->ops->linear_new(device.backend, &linear, source, &err), expected);
    assert_null(linear);
    assert_non_null(strstr(err.text, "blk.0.test.weight"));
    if (!strstr(err.text, part))
        fail_msg("'%s' does not say '%s'", err.text, part);
    device_deinit(&device);
}

static void test_static_refusals(void **state) {
    static const float wrong[] = { -1, NAN, INFINITY, 1e-31f, 1e31f };
    LinearSource source;
    Case c;

    case_init(&c, 230, 1, 0, true, 1.1);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        source = source_of(&c, 1, false);
        source.activations.scale = wrong[i];
        expect_refusal(&c, &source, BACKEND_E_WEIGHTS, "is no scale");
    }
    source = source_of(&c, 1, false);
    source.activations.columns = NULL;
    expect_refusal(&c, &source, BACKEND_E_WEIGHTS, "no columns");
    source = source_of(&c, 1, false);
    source.activations.n_hot--;
    expect_refusal(&c, &source, BACKEND_E_WEIGHTS, "229 hot channels of 230"); /* the last one has no place */
    source = source_of(&c, 1, false);
    source.activations.file = &c.file;
    source.activations.n_hot = 2;
    source.activations.hot = (const uint32_t[]){ 5, 5 };
    expect_refusal(&c, &source, BACKEND_E_WEIGHTS, "must rise");
    source.activations.hot = (const uint32_t[]){ 5, 230 };
    expect_refusal(&c, &source, BACKEND_E_WEIGHTS, "below 230");
    source = source_of(&c, 1, false);
    expect_refusal(&c, &source, BACKEND_E_MEMORY, "hot columns");
    case_deinit(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_static_outliers_of_a_sum),  cmocka_unit_test(test_static_nothing_but_outliers),
        cmocka_unit_test(test_static_columns_are_kept),   cmocka_unit_test(test_static_widest_row),
        cmocka_unit_test(test_static_columns_read_ahead), cmocka_unit_test(test_static_refusals),
    };
    const char *env = getenv("TEST_SEED");

    seed = env ? strtoull(env, NULL, 0) : 20241121;
    printf("seed %llu (TEST_SEED sets another)\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
