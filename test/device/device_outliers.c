// SPDX-License-Identifier: Apache-2.0
/* Checks of static activations: values past the scale are clipped, or corrected by columns of the weights beside the
 * product, from memory or from a file. */
#undef NDEBUG
#include "test/device/device_matrix.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum {
    FILE_HEAD_BYTES = 100, /* offset of the columns, deliberately not aligned */
};

typedef struct ColumnsFile {
    char folder[256], path[300];
    ColumnFile file;
} ColumnsFile;

static void columns_write(const ColumnsFile *columns, const Products *products) {
    FILE *file = fopen(columns->path, "w");

    assert_non_null(file);
    for (size_t i = 0; i < FILE_HEAD_BYTES; i++)
        fputc('x', file);
    for (size_t m = 0; m < products->n; m++) {
        const size_t n = products->matrices[m].n * products->in.k;

        assert_int_equal(fwrite(products->matrices[m].columns, 1, n, file), n);
    }
    assert_int_equal(fclose(file), 0);
}

static void columns_open(ColumnsFile *columns) {
    test_folder_make(columns->folder);
    snprintf(columns->path, sizeof(columns->path), "%s/columns", columns->folder);
    columns->file = (ColumnFile){ open(columns->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), columns->path };
    assert_true(columns->file.fd >= 0);
}

static void columns_close(ColumnsFile *columns) {
    close(columns->file.fd);
    test_folder_remove(columns->folder);
}

/* Makes the matrices, then the file, then loads them, because a product may read the file. Some values are far out, the
 * second row is zero, and the third has outliers only. */
static void outliers_init(Products *products, Rig rigs[2], const MatrixInput *in, MatrixForm form, size_t rows,
                          const ColumnsFile *columns) {
    static const size_t sizes[LINEARS_MAX] = { 90, 300, 17, 48 };
    DeviceSuite *suite = rigs[0].suite;
    uint64_t offset_bytes = FILE_HEAD_BYTES;

    *products = (Products){ .in = *in, .n = LINEARS_MAX, .rows = rows, .x = malloc(rows * in->k * sizeof(float)) };
    assert_non_null(products->x);
    rig_fill(suite, products->x, rows * in->k);
    for (size_t i = 0; i < rows * in->k; i++) {
        float *x = &products->x[i];

        if (!rig_draw(suite, 40))
            *x *= 20;
        if (i / in->k == 1)
            *x = 0;
        if (i / in->k == 2)
            *x = copysignf(3 + fabsf(*x), *x);
    }
    for (size_t m = 0; m < LINEARS_MAX; m++) {
        Matrix *matrix = &products->matrices[m];

        matrix_init(matrix, suite, &products->in, form, sizes[m], 0, m != 1);
        matrix->file_offset_bytes = offset_bytes;
        offset_bytes += sizes[m] * in->k;
        products->n_outputs += sizes[m];
    }
    columns_write(columns, products);
    for (size_t m = 0; m < LINEARS_MAX; m++)
        for (size_t i = 0; i < 2; i++)
            products->linears[i][m] = matrix_load(&rigs[i], &products->matrices[m]);
}

/* Compares the device's counts with the actual outliers. */
static void check_counts(Rig *rig, const Products *products) {
    const float threshold = 127.0f * products->in.scale;
    _cleanup_(freep) float *y = malloc(products->rows * products->n_outputs * sizeof(float));
    const RowCase c = products_case(products, "counted products");
    uint64_t n_outliers = 0, n_hot = 0;
    ShadowCounts before, counts;

    assert_non_null(y);
    for (size_t i = 0; products->in.shadow && i < products->rows * products->in.k; i++)
        for (size_t h = 0; fabsf(products->x[i]) > threshold; h++) {
            n_outliers += !h;
            if (h == products->in.n_hot)
                break;
            n_hot += products->in.hot[h] == i % products->in.k;
        }
    rig->ops->shadow_counts(rig->backend, &before);
    c.run(rig, &c, (float *const[]){ products->x }, products->rows, y);
    rig->ops->shadow_counts(rig->backend, &counts);
    if (products->in.rotation_block) /* outliers are values after the rotation */
        return;
    assert_int_equal(counts.n_rows - before.n_rows, products->in.shadow ? products->rows : 0);
    assert_int_equal(counts.n_outliers - before.n_outliers, n_outliers);
    assert_int_equal(counts.n_hot - before.n_hot, n_hot);
}

void test_device_outliers(void **state) {
    static const struct {
        size_t k, rows;
        uint32_t rotation_block;
        bool shadow;
        size_t hot_permille;
        MatrixForm form;
    } cases[] = { { 230, 1, 0, true, 300, MATRIX_INT8 },      { 230, RIG_ROWS, 0, true, 0, MATRIX_PACKED },
                  { 192, 13, 64, true, 1001, MATRIX_PACKED }, { 577, RIG_ROWS, 0, true, 1001, MATRIX_INT8 },
                  { 640, 6, 128, true, 30, MATRIX_INT8 },     { 33, 4, 0, true, 500, MATRIX_PACKED },
                  { 230, 13, 0, false, 0, MATRIX_INT8 },      { 192, RIG_ROWS, 64, false, 0, MATRIX_PACKED } };
    DeviceSuite *suite = *state;
    ColumnsFile columns;

    columns_open(&columns);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint32_t hot[1000];
        MatrixInput in = { .k = cases[i].k,
                           .rotation_block = cases[i].rotation_block,
                           .scale = 0.021f,
                           .shadow = cases[i].shadow,
                           .hot = hot,
                           .file = &columns.file };
        Products products;
        Rig rigs[2];

        for (uint32_t j = 0; j < in.k; j++)
            if (rig_draw(suite, 1000) < cases[i].hot_permille)
                hot[in.n_hot++] = j;
        if (!matrix_is_taken(suite, cases[i].form, &in))
            continue;
        rig_open_pair(rigs, suite, NULL);
        outliers_init(&products, rigs, &in, cases[i].form, cases[i].rows, &columns);
        products_check(suite, &products, in.shadow ? "products with shadows" : "products of clipped rows", rigs);
        check_counts(&rigs[i % 2], &products);
        products_deinit(&products, rigs);
        rig_close_pair(rigs);
    }
    columns_close(&columns);
}

/* A truncated file fails the product with a text that names file and tensor. After the file is restored, products
 * succeed. */
void test_device_columns_of_a_file(void **state) {
    DeviceSuite *suite = *state;
    ColumnsFile columns;
    MatrixInput in = { .k = 230, .scale = 0.021f, .shadow = true, .file = &columns.file };

    columns_open(&columns);
    for (size_t m = 0; m < LINEARS_MAX && matrix_is_taken(suite, MATRIX_INT8, &in); m++) {
        Products products;
        Rig rigs[2];

        rig_open_pair(rigs, suite, NULL);
        outliers_init(&products, rigs, &in, MATRIX_INT8, 5, &columns);
        for (size_t i = 0; i < 2; i++) {
            const BackendLinear *linear = products.linears[i][m];
            GUARDED y = guarded_new(products.rows * products.matrices[m].n);
            ErrText err = { 0 };

            assert_int_equal(truncate(columns.path, (off_t)products.matrices[m].file_offset_bytes + 3), 0);
            assert_int_equal(rigs[i].ops->linear(rigs[i].backend, &linear, 1, &(LinearInput){ .x = products.x },
                                                 products.rows, &(LinearOutput){ .y = (float *const[]){ y } }, &err),
                             BACKEND_E_READ);
            guarded_check(y, "a product that fails");
            assert_true(strstr(err.text, columns.path) && strstr(err.text, "blk.0.test.weight"));
            columns_write(&columns, &products);
        }
        products_check(suite, &products, "products behind one that has failed", rigs);
        products_deinit(&products, rigs);
        rig_close_pair(rigs);
    }
    columns_close(&columns);
}
