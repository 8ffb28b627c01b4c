// SPDX-License-Identifier: Apache-2.0
/* Random matrices in every form that a device may take, and the expected products with them. */
#ifndef COORDGEN_TEST_DEVICE_DEVICE_MATRIX_H
#define COORDGEN_TEST_DEVICE_DEVICE_MATRIX_H

#include "quant/format/ggml_type.h"
#include "quant/format/pack.h"
#include "test/device/device_rig.h"

typedef enum MatrixForm {
    MATRIX_F32,
    MATRIX_F16,
    MATRIX_Q8_0,
    MATRIX_INT8,
    MATRIX_PACKED,
    _MATRIX_FORM_N,
} MatrixForm;

/* Properties that matrices of one input share. */
typedef struct MatrixInput {
    size_t k;
    uint32_t rotation_block;
    float scale; /* static-tensor; 0: dynamic-row */
    bool shadow;
    uint32_t *hot; /* [n_hot] */
    size_t n_hot;
    const ColumnFile *file;
} MatrixInput;

typedef struct Matrix {
    const MatrixInput *in;
    size_t n;
    MatrixForm form;
    Grid grid;
    int8_t *q, *columns, *bits; /* [n][k], [k][n], [n] */
    float *scales;              /* [n] */
    double *weights;            /* [n][k], in the values of the form */
    float *bias;                /* [n] or NULL */
    void *data;                 /* data of a source */
    PackPlan plan;
    uint8_t *packed;
    uint64_t file_offset_bytes; /* offset of the columns */
} Matrix;

/* widths 1..8: all channels alike; 0: mixed. */
void matrix_init(Matrix *matrix, DeviceSuite *suite, const MatrixInput *in, MatrixForm form, size_t n, int widths,
                 bool with_bias);
void matrix_deinit(Matrix *matrix);
LinearSource matrix_source(const Matrix *matrix);
/* Loads the whole matrix into the device. */
BackendLinear *matrix_load(Rig *rig, const Matrix *matrix);
/* Returns whether the device takes the form, with such an input. */
bool matrix_is_taken(const DeviceSuite *suite, MatrixForm form, const MatrixInput *in);

/* Expected y of one row: the sum, the sum of all |addends|, and with int8 the float that the contract specifies. */
typedef struct MatrixSum {
    double exact, size;
    float bits;
} MatrixSum;
/* Computes the expected products of x f32[k]: sums[n]. */
void matrix_expect(const DeviceSuite *suite, const Matrix *matrix, const float *x, MatrixSum *sums);
/* Rotates by the orthonormal Walsh-Hadamard transform in blocks, in float, as quant/rotate.h; block 0: does nothing. */
void matrix_rotate(float *x, size_t k, uint32_t block);
/* Compares one output with the expected sum. */
void matrix_near(const DeviceSuite *suite, const RowCase *c, size_t row, size_t at, float y, const MatrixSum *sum);

enum {
    LINEARS_MAX = 4, /* matrices of one call */
};

/* Matrices of one input, on two rigs. */
typedef struct Products {
    Matrix matrices[LINEARS_MAX];
    MatrixInput in;
    size_t n, n_outputs;                    /* number of matrices; outputs of all */
    BackendLinear *linears[2][LINEARS_MAX]; /* on one thread, on several threads */
    float *x;                               /* f32[rows][k] */
    size_t rows;
} Products;

/* Makes matrices of forms[n] with sizes[n] outputs and loads them on both rigs. */
void products_init(Products *products, Rig rigs[2], const MatrixInput *in, const MatrixForm *forms, const size_t *sizes,
                   size_t n, int widths, bool with_bias, size_t rows);
void products_deinit(Products *products, Rig rigs[2]);
static inline BackendLinear **products_on(const Products *products, const Rig *rig) {
    return (BackendLinear **)products->linears[worker_pool_n_threads(rig->pool) > 1];
}
/* Returns the products as an operator on rows: its arg is the Products, its output their outputs side by side. */
RowCase products_case(const Products *products, const char *what);
/* Runs row_case_check() and compares with the expected sums. */
void products_check(DeviceSuite *suite, const Products *products, const char *what, Rig rigs[2]);
/* Makes one plain call of `linear`; y f32[rows][n]. */
void linear_run(Rig *rig, const BackendLinear *linear, const float *x, size_t rows, float *y);

#endif
