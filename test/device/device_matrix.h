// SPDX-License-Identifier: Apache-2.0
/* Random matrices in every form that a device may take, and what products with them are. */
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

/* What matrices of one input have in common. */
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
    double *weights;            /* [n][k]: as its form has them */
    float *bias;                /* [n] or NULL */
    void *data;                 /* of a source */
    PackPlan plan;
    uint8_t *packed;
    uint64_t file_offset_bytes; /* of the columns */
} Matrix;

/* widths 1..8: all channels alike; 0: mixed. */
void matrix_init(Matrix *matrix, DeviceSuite *suite, const MatrixInput *in, MatrixForm form, size_t n, int widths,
                 bool with_bias);
void matrix_deinit(Matrix *matrix);
LinearSource matrix_source(const Matrix *matrix);
/* On the device, as a whole. */
BackendLinear *matrix_load(Rig *rig, const Matrix *matrix);
/* Does the device take the form, with such an input? */
bool matrix_is_taken(const DeviceSuite *suite, MatrixForm form, const MatrixInput *in);

/* y of one row: what the sum is, the sum of all |addends|, and with int8 the float that the contract names. */
typedef struct MatrixSum {
    double exact, size;
    float bits;
} MatrixSum;
/* x f32[k], sums[n]. */
void matrix_expect(const DeviceSuite *suite, const Matrix *matrix, const float *x, MatrixSum *sums);
/* The orthonormal Walsh-Hadamard transform by blocks, in float, as quant/rotate.h has it; block 0: nothing. */
void matrix_rotate(float *x, size_t k, uint32_t block);
/* Holds one output against it. */
void matrix_near(const DeviceSuite *suite, const RowCase *c, size_t row, size_t at, float y, const MatrixSum *sum);

enum {
    LINEARS_MAX = 4, /* of one call */
};

/* Matrices of one input, on two rigs. */
typedef struct Products {
    Matrix matrices[LINEARS_MAX];
    MatrixInput in;
    size_t n, n_outputs;                    /* matrices; outputs of all */
    BackendLinear *linears[2][LINEARS_MAX]; /* on one thread, on several */
    float *x;                               /* f32[rows][k] */
    size_t rows;
} Products;

/* forms[n], sizes[n] outputs. Loads them on both rigs. */
void products_init(Products *products, Rig rigs[2], const MatrixInput *in, const MatrixForm *forms, const size_t *sizes,
                   size_t n, int widths, bool with_bias, size_t rows);
void products_deinit(Products *products, Rig rigs[2]);
static inline BackendLinear **products_on(const Products *products, const Rig *rig) {
    return (BackendLinear **)products->linears[worker_pool_n_threads(rig->pool) > 1];
}
/* The products as an operator on rows: its arg is the Products, its output theirs side by side. */
RowCase products_case(const Products *products, const char *what);
/* row_case_check(), and the yardstick. */
void products_check(DeviceSuite *suite, const Products *products, const char *what, Rig rigs[2]);
/* One plain call of `linear`; y f32[rows][n]. */
void linear_run(Rig *rig, const BackendLinear *linear, const float *x, size_t rows, float *y);

#endif
