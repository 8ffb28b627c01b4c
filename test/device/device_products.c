// SPDX-License-Identifier: Apache-2.0
/* Checks of products: the sums. A row's result does not depend on other rows, on other matrices of the call, on
 * threads, or on fused operators. */
#undef NDEBUG
#include "test/device/device_matrix.h"

void linear_run(Rig *rig, const BackendLinear *linear, const float *x, size_t rows, float *y) {
    ErrText err = { 0 };

    if (rig->ops->linear(rig->backend, &linear, 1, &(LinearInput){ .x = x }, rows,
                         &(LinearOutput){ .y = (float *const[]){ y } }, &err))
        fail_msg("a product fails: %s", err.text);
}

static void run_products(Rig *rig, const RowCase *c, float *const *in, size_t rows, float *out) {
    const Products *products = c->arg;
    float *y[LINEARS_MAX];
    ErrText err = { 0 };
    size_t first = 0;

    for (size_t m = 0; m < products->n; m++)
        y[m] = guarded_new(rows * products->matrices[m].n);
    if (rig->ops->linear(rig->backend, (const BackendLinear *const *)products_on(products, rig), products->n,
                         &(LinearInput){ .x = in[0] }, rows, &(LinearOutput){ .y = y }, &err))
        fail_msg("%s fails: %s", c->what, err.text);
    for (size_t m = 0; m < products->n; m++) {
        const size_t n = products->matrices[m].n;

        guarded_check(y[m], c->what);
        for (size_t r = 0; r < rows; r++)
            memcpy(out + r * c->out_width + first, y[m] + r * n, n * sizeof(float));
        first += n;
        guarded_free(y[m]);
    }
}

void products_init(Products *products, Rig rigs[2], const MatrixInput *in, const MatrixForm *forms, const size_t *sizes,
                   size_t n, int widths, bool with_bias, size_t rows) {
    DeviceSuite *suite = rigs[0].suite;

    *products = (Products){ .in = *in, .n = n, .rows = rows, .x = malloc(rows * in->k * sizeof(float)) };
    assert_non_null(products->x);
    rig_fill(suite, products->x, rows * in->k);
    for (size_t m = 0; m < n; m++) {
        Matrix *matrix = &products->matrices[m];

        matrix_init(matrix, suite, &products->in, forms[m], sizes[m], widths, with_bias);
        products->n_outputs += sizes[m];
        for (size_t i = 0; i < 2; i++)
            products->linears[i][m] = matrix_load(&rigs[i], matrix);
    }
}

void products_deinit(Products *products, Rig rigs[2]) {
    for (size_t m = 0; m < products->n; m++) {
        for (size_t i = 0; i < 2; i++)
            assert_null(rigs[i].ops->linear_free(products->linears[i][m]));
        matrix_deinit(&products->matrices[m]);
    }
    free(products->x);
}

RowCase products_case(const Products *products, const char *what) {
    return (RowCase){ .what = what,
                      .run = run_products,
                      .arg = products,
                      .rows = products->rows,
                      .out_width = products->n_outputs,
                      .n_in = 1,
                      .in = { { products->x, products->in.k } } };
}

void products_check(DeviceSuite *suite, const Products *products, const char *what, Rig rigs[2]) {
    const RowCase c = products_case(products, what);
    _cleanup_(freep) float *y = row_case_check(suite, &c, rigs);

    for (size_t r = 0; r < products->rows; r++)
        for (size_t m = 0, first = 0; m < products->n; first += products->matrices[m++].n) {
            const Matrix *matrix = &products->matrices[m];
            _cleanup_(freep) MatrixSum *sums = malloc(matrix->n * sizeof(*sums));

            assert_non_null(sums);
            matrix_expect(suite, matrix, products->x + r * products->in.k, sums);
            for (size_t o = 0; o < matrix->n; o++)
                matrix_near(suite, &c, r, first + o, y[r * products->n_outputs + first + o], &sums[o]);
        }
}

static const char *const form_names[] = { "products of F32", "products of F16", "products of Q8_0", "products of int8",
                                          "products of packed weights" };

/* Shapes on both sides of usual tile borders. */
static const struct {
    size_t n, k;
    uint32_t rotation_block;
} shapes[] = { { 1, 32, 0 }, { 16, 64, 0 }, { 17, 96, 32 }, { 100, 192, 64 }, { 211, 544, 0 }, { 40, 1024, 512 } };
static const size_t row_list[] = { 1, 2, 3, 5, 13, 16, 17, RIG_ROWS };

/* Checks every form by itself, in every width. */
void test_device_products(void **state) {
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (MatrixForm form = 0; form < _MATRIX_FORM_N; form++)
        for (size_t i = 0; i < (form == MATRIX_PACKED ? 9 : ARRAY_LEN(shapes)); i++) {
            const size_t shape = i % ARRAY_LEN(shapes), rows = shapes[shape].rotation_block == 512
                                                                   ? RIG_ROWS
                                                                   : row_list[(i + form) % ARRAY_LEN(row_list)];
            const MatrixInput in = {
                .k = shapes[shape].k - (form == MATRIX_Q8_0 || shapes[shape].rotation_block ? 0 : 3 * i % 8),
                .rotation_block = rig_takes(suite, DEVICE_TAKES_ROTATED) ? shapes[shape].rotation_block : 0,
            };
            Products products;

            if (!matrix_is_taken(suite, form, &in))
                continue;
            products_init(&products, rigs, &in, &form, &shapes[shape].n, 1, (int)i, i % 2, rows);
            products_check(suite, &products, form_names[form], rigs);
            products_deinit(&products, rigs);
        }
    rig_close_pair(rigs);
}

/* Two to four matrices of one or two forms in one call give the same as each alone. */
void test_device_products_together(void **state) {
    static const size_t sizes[LINEARS_MAX] = { 100, 17, 130, 40 };
    static const MatrixForm mixes[][LINEARS_MAX] = { { MATRIX_F32, MATRIX_F16, MATRIX_F32, MATRIX_F16 },
                                                     { MATRIX_INT8, MATRIX_INT8, MATRIX_INT8, MATRIX_INT8 },
                                                     { MATRIX_PACKED, MATRIX_PACKED, MATRIX_PACKED, MATRIX_PACKED },
                                                     { MATRIX_INT8, MATRIX_PACKED, MATRIX_INT8, MATRIX_PACKED } };
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (size_t i = 0; i < 2 * ARRAY_LEN(mixes); i++) {
        const MatrixForm *forms = mixes[i / 2];
        const MatrixInput in = { .k = i % 2 ? 192 : 230,
                                 .rotation_block = i % 2 && rig_takes(suite, DEVICE_TAKES_ROTATED) ? 64 : 0 };
        const size_t n = 2 + i % 3;
        Products products;

        if (!matrix_is_taken(suite, forms[0], &in) || !matrix_is_taken(suite, forms[1], &in))
            continue;
        products_init(&products, rigs, &in, forms, sizes, n, 5 * (int)i % 9, i % 2,
                      row_list[(2 * i + 1) % ARRAY_LEN(row_list)]);
        products_check(suite, &products, "products of several matrices", rigs);
        for (size_t m = 0, first = 0; m < n; first += sizes[m++]) {
            const RowCase c = products_case(&products, "");
            _cleanup_(freep) float *alone = malloc(products.rows * sizes[m] * sizeof(float));
            _cleanup_(freep) float *together = malloc(products.rows * products.n_outputs * sizeof(float));

            assert_true(alone && together);
            linear_run(&rigs[0], products.linears[0][m], products.x, products.rows, alone);
            run_products(&rigs[0], &c, &products.x, products.rows, together);
            for (size_t r = 0; r < products.rows; r++)
                assert_memory_equal(alone + r * sizes[m], together + r * products.n_outputs + first,
                                    sizes[m] * sizeof(float));
        }
        products_deinit(&products, rigs);
    }
    rig_close_pair(rigs);
}

/* Rows of zeros, of very small and of large numbers, and one great value among small ones. */
void test_device_products_extreme(void **state) {
    static const float sizes[] = { 0, 1e-42f, 1e-38f, 1e-30f, 1e15f, 1e30f };
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (MatrixForm form = 0; form < _MATRIX_FORM_N; form++) {
        const MatrixInput in = { .k = 96 };
        Products products;

        if (!matrix_is_taken(suite, form, &in))
            continue;
        products_init(&products, rigs, &in, &form, (const size_t[]){ 40 }, 1, 0, form % 2, ARRAY_LEN(sizes) + 2);
        for (size_t r = 0; r < ARRAY_LEN(sizes); r++)
            for (size_t i = 0; i < in.k; i++)
                products.x[r * in.k + i] *= sizes[r];
        products.x[ARRAY_LEN(sizes) * in.k + 7] = 1e9f;
        products_check(suite, &products, "products of extreme rows", rigs);
        products_deinit(&products, rigs);
    }
    rig_close_pair(rigs);
}

/* --- fused operators
 * ------------------------------------------------------------------------------------------------ */

typedef struct FusedCase {
    const Products *products;
    const float *norm, *bias; /* bias of a layer norm; NULL: RMS norm */
    float eps;
    bool of_sum;
} FusedCase;

/* in: x, stream. out: the product, then the stream after it. */
static void run_fused(Rig *rig, const RowCase *c, float *const *in, size_t rows, float *out) {
    const FusedCase *fused = c->arg;
    const size_t k = fused->products->in.k, n = fused->products->n_outputs;
    GUARDED stream = guarded_copy(in[1], rows * k);
    GUARDED y = guarded_new(rows * n);
    const BackendLinear *linear = products_on(fused->products, rig)[0];
    const LinearInput input = { .x = in[0],
                                .norm = fused->norm,
                                .norm_bias = fused->bias,
                                .eps = fused->eps,
                                .stream = fused->of_sum ? stream : NULL };
    ErrText err = { 0 };

    if (rig->ops->linear(rig->backend, &linear, 1, &input, rows, &(LinearOutput){ .y = (float *const[]){ y } }, &err))
        fail_msg("%s fails: %s", c->what, err.text);
    guarded_check(y, c->what);
    guarded_check(stream, c->what);
    for (size_t r = 0; r < rows; r++) {
        memcpy(out + r * (n + k), y + r * n, n * sizeof(*y));
        memcpy(out + r * (n + k) + n, stream + r * k, k * sizeof(*y));
    }
}

/* Runs the same operators separately. */
static void run_apart(Rig *rig, const FusedCase *fused, const float *x, float *stream, size_t rows, float *y) {
    const size_t k = fused->products->in.k;
    _cleanup_(freep) float *made = malloc(rows * k * sizeof(*made));

    assert_non_null(made);
    if (fused->of_sum)
        rig->ops->add(rig->backend, stream, x, rows, k);
    if (fused->bias)
        rig->ops->layer_norm(rig->backend, fused->of_sum ? stream : x, fused->norm, fused->bias, fused->eps, rows, k,
                             made);
    else
        rig->ops->norm(rig->backend, fused->of_sum ? stream : x, fused->norm, fused->eps, rows, k, made);
    linear_run(rig, products_on(fused->products, rig)[0], made, rows, y);
}

static void check_fused(DeviceSuite *suite, Rig rigs[2], const FusedCase *fused) {
    const Products *products = fused->products;
    const size_t rows = products->rows, k = products->in.k, n = products->n_outputs;
    _cleanup_(freep) float *stream = malloc(rows * k * sizeof(float)), *y = malloc(rows * n * sizeof(float)),
                           *whole = NULL;
    const RowCase c = { .what = fused->of_sum ? "product of the norm of a sum" : "product of a norm",
                        .run = run_fused,
                        .arg = fused,
                        .rows = rows,
                        .out_width = n + k,
                        .n_in = 2,
                        .in = { { products->x, k }, { stream, k } } };

    assert_true(stream && y);
    rig_fill(suite, stream, rows * k);
    whole = row_case_check(suite, &c, rigs);
    run_apart(&rigs[0], fused, products->x, stream, rows, y);
    for (size_t r = 0; r < rows; r++) {
        if (memcmp(whole + r * (n + k), y + r * n, n * sizeof(*y)) != 0)
            fail_msg("%s: row %zu is not that of the operators apart", c.what, r);
        if (memcmp(whole + r * (n + k) + n, stream + r * k, k * sizeof(*y)) != 0)
            fail_msg("%s: the stream of row %zu is not the sum", c.what, r);
    }
}

/* A norm, or the norm of a sum, fused into a product. */
void test_device_fused_input(void **state) {
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (MatrixForm form = 0; rigs[0].ops->fuses && form < _MATRIX_FORM_N; form++)
        for (size_t i = 0; i < 8; i++) {
            const MatrixInput in = { .k = i / 4                 ? 192
                                          : form == MATRIX_Q8_0 ? 224
                                                                : 230,
                                     .rotation_block = i / 4 && rig_takes(suite, DEVICE_TAKES_ROTATED) ? 64 : 0 };
            GUARDED norm = guarded_new(in.k);
            GUARDED bias = guarded_new(in.k);
            Products products;

            if (!matrix_is_taken(suite, form, &in))
                continue;
            rig_fill(suite, norm, in.k);
            rig_fill(suite, bias, in.k);
            products_init(&products, rigs, &in, &form, (const size_t[]){ 50 }, 1, 0, i % 2,
                          row_list[(i + 4) % ARRAY_LEN(row_list)]);
            check_fused(suite, rigs, &(FusedCase){ &products, norm, i / 2 % 2 ? bias : NULL, 1e-2f, i % 2 });
            products_deinit(&products, rigs);
        }
    assert_true(rigs[0].ops->fuses == rigs[1].ops->fuses);
    rig_close_pair(rigs);
}

typedef struct GateCase {
    const Products *products;
    LinearGate gate;
} GateCase;

static void run_gate(Rig *rig, const RowCase *c, float *const *in, size_t rows, float *out) {
    const GateCase *gate = c->arg;
    const size_t n = gate->products->matrices[0].n;
    GUARDED y = guarded_new(rows * n);
    GUARDED other = guarded_new(rows * n);
    ErrText err = { 0 };

    if (rig->ops->linear(rig->backend, (const BackendLinear *const *)products_on(gate->products, rig), 2,
                         &(LinearInput){ .x = in[0] }, rows,
                         &(LinearOutput){ .y = (float *const[]){ y, other }, .gate = gate->gate }, &err))
        fail_msg("%s fails: %s", c->what, err.text);
    guarded_check(y, c->what);
    guarded_check(other, c->what);
    memcpy(out, y, rows * n * sizeof(*out));
}

static void check_gate(DeviceSuite *suite, Rig rigs[2], const Products *products, LinearGate gate) {
    const size_t n_values = products->rows * products->matrices[0].n;
    const GateCase gated = { products, gate };
    const RowCase c = { .what = gate == LINEAR_GATE_GELU ? "products with gelu" : "products with silu",
                        .run = run_gate,
                        .arg = &gated,
                        .rows = products->rows,
                        .out_width = products->matrices[0].n,
                        .n_in = 1,
                        .in = { { products->x, products->in.k } } };
    _cleanup_(freep) float *whole = row_case_check(suite, &c, rigs), *y = malloc(n_values * sizeof(float)),
                           *up = malloc(n_values * sizeof(float));

    assert_true(y && up);
    linear_run(&rigs[0], products->linears[0][0], products->x, products->rows, y);
    linear_run(&rigs[0], products->linears[0][1], products->x, products->rows, up);
    rigs[0].ops->gated(rigs[0].backend, y, up, products->rows, products->matrices[0].n, gate == LINEAR_GATE_GELU);
    for (size_t i = 0; i < n_values; i++)
        if (memcmp(&whole[i], &y[i], sizeof(*y)) != 0)
            fail_msg("%s: value %zu of row %zu is %a, by the operators apart %a", c.what, i % c.out_width,
                     i / c.out_width, (double)whole[i], (double)y[i]);
}

/* Two matrices, one of which gates the other: of one form or two, with channels in order and out of order. */
void test_device_fused_gate(void **state) {
    static const struct {
        MatrixForm forms[2];
        int widths;
        bool shadow;
    } cases[] = { { { MATRIX_F32, MATRIX_F32 }, 0, false },       { { MATRIX_INT8, MATRIX_INT8 }, 0, false },
                  { { MATRIX_PACKED, MATRIX_PACKED }, 4, false }, { { MATRIX_PACKED, MATRIX_PACKED }, 0, false },
                  { { MATRIX_PACKED, MATRIX_INT8 }, 5, false },   { { MATRIX_INT8, MATRIX_INT8 }, 0, true } };
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (size_t i = 0; rigs[0].ops->fuses && i < 3 * ARRAY_LEN(cases); i++) {
        const size_t at = i / 3, n = i % 3 ? 211 : 64;
        uint32_t hot[100];
        const MatrixInput in = { .k = 100 - 4 * (i % 3),
                                 .scale = cases[at].shadow ? 0.01f : 0,
                                 .shadow = cases[at].shadow,
                                 .hot = hot,
                                 .n_hot = cases[at].shadow ? 100 - 4 * (i % 3) : 0 };
        Products products;

        for (uint32_t j = 0; j < ARRAY_LEN(hot); j++)
            hot[j] = j;
        if (!matrix_is_taken(suite, cases[at].forms[0], &in) || !matrix_is_taken(suite, cases[at].forms[1], &in))
            continue;
        products_init(&products, rigs, &in, cases[at].forms, (const size_t[]){ n, n }, 2, cases[at].widths, i % 2,
                      row_list[(i + 3) % ARRAY_LEN(row_list)]);
        check_gate(suite, rigs, &products, i % 2 ? LINEAR_GATE_GELU : LINEAR_GATE_SILU);
        products_deinit(&products, rigs);
    }
    assert_true(rigs[0].ops->fuses == rigs[1].ops->fuses);
    rig_close_pair(rigs);
}

/* --- pieces ------------------------------------------------------------------------------------------------------- */

/* Outputs from pieces, row by row; each output comes once. */
typedef struct Pieces {
    float *y; /* f32[rows][n] */
    size_t rows, n;
    _Atomic size_t n_outputs, n_wrong;
    size_t ends[RIG_THREADS]; /* end of each worker's last piece */
} Pieces;

/* Runs on any worker, so it must not assert. */
static void take_piece(void *arg, size_t first, size_t n, float *y, unsigned int worker) {
    Pieces *pieces = arg;

    if (!n || n > LINEAR_PIECE || first + n > pieces->n || worker >= RIG_THREADS || first < pieces->ends[worker]) {
        atomic_fetch_add(&pieces->n_wrong, 1);
        return;
    }
    pieces->ends[worker] = first + n;
    for (size_t r = 0; r < pieces->rows; r++)
        memcpy(pieces->y + r * pieces->n + first, y + r * LINEAR_PIECE, n * sizeof(*y));
    atomic_fetch_add(&pieces->n_outputs, n);
}

/* Computes the first n_outputs in pieces, into out f32[rows][n_outputs]. */
static void run_first_pieces(Rig *rig, const RowCase *c, const float *x, size_t rows, size_t n_outputs, float *out) {
    GUARDED scratch = guarded_new(worker_pool_n_threads(rig->pool) * rows * LINEAR_PIECE);
    Pieces pieces = { .y = out, .rows = rows, .n = n_outputs };
    ErrText err = { 0 };

    if (rig->ops->linear_pieces(rig->backend, products_on(c->arg, rig)[0], x, rows, n_outputs, scratch, take_piece,
                                &pieces, &err))
        fail_msg("%s fail: %s", c->what, err.text);
    guarded_check(scratch, c->what);
    if (pieces.n_wrong || pieces.n_outputs != n_outputs)
        fail_msg("%s: %zu of %zu outputs, %zu wrong ranges", c->what, (size_t)pieces.n_outputs, n_outputs,
                 (size_t)pieces.n_wrong);
}

static void run_pieces(Rig *rig, const RowCase *c, float *const *in, size_t rows, float *out) {
    const size_t n_outputs = ((const Products *)c->arg)->n_outputs, n_first = 1 + n_outputs / 3;
    _cleanup_(freep) float *first = malloc(rows * n_first * sizeof(float));

    assert_non_null(first);
    run_first_pieces(rig, c, in[0], rows, n_outputs, out);
    run_first_pieces(rig, c, in[0], rows, n_first, first);
    for (size_t r = 0; r < rows; r++)
        assert_memory_equal(first + r * n_first, out + r * n_outputs, n_first * sizeof(float));
}

static void check_pieces(DeviceSuite *suite, Rig rigs[2], const Products *products) {
    const size_t n_values = products->rows * products->n_outputs;
    RowCase c = products_case(products, "pieces of a product");
    _cleanup_(freep) float *whole = NULL, *y = malloc(n_values * sizeof(float));

    assert_non_null(y);
    if (!rigs[0].ops->has_pieces(products->linears[0][0]))
        return;
    c.run = run_pieces;
    whole = row_case_check(suite, &c, rigs);
    linear_run(&rigs[0], products->linears[0][0], products->x, products->rows, y);
    for (size_t i = 0; i < n_values; i++)
        if (memcmp(&whole[i], &y[i], sizeof(*y)) != 0)
            fail_msg("%s: output %zu of row %zu is %a, of the whole product %a", c.what, i % c.out_width,
                     i / c.out_width, (double)whole[i], (double)y[i]);
}

void test_device_pieces(void **state) {
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (MatrixForm form = 0; rigs[0].ops->linear_pieces && form < _MATRIX_FORM_N; form++)
        for (size_t i = 0; i < 4; i++) {
            const MatrixInput in = { .k = 96 };
            const size_t n = i % 2 ? 1500 + rig_draw(suite, 100) : 1 + rig_draw(suite, 500);
            Products products;

            if (!matrix_is_taken(suite, form, &in))
                continue;
            products_init(&products, rigs, &in, &form, &n, 1, i ? 1 + (int)rig_draw(suite, 8) : 0, i % 2,
                          row_list[(2 * i + 1) % ARRAY_LEN(row_list)]);
            check_pieces(suite, rigs, &products);
            products_deinit(&products, rigs);
        }
    assert_true(!rigs[0].ops->linear_pieces == !rigs[1].ops->linear_pieces);
    rig_close_pair(rigs);
}

/* --- rows of the embedding ---------------------------------------------------------------------------------------- */

typedef struct EmbedCase {
    const Products *products;
    float factor;
} EmbedCase;

static void run_embed(Rig *rig, const RowCase *c, float *const *in, size_t rows, float *out) {
    const EmbedCase *embed = c->arg;
    uint32_t tokens[RIG_ROWS];

    for (size_t r = 0; r < rows; r++)
        tokens[r] = (uint32_t)in[0][r];
    if (rig->ops->embed_ahead)
        rig->ops->embed_ahead(products_on(embed->products, rig)[0], tokens, rows);
    rig->ops->embed(rig->backend, products_on(embed->products, rig)[0], tokens, rows, embed->factor, out);
}

/* Rotation is its own inverse, so rotated weights come back unchanged. bits: exact result for integers, as in the
 * contract. */
static void expect_embedding(const Matrix *matrix, size_t token, float factor, double *y, double *sizes, float *bits) {
    const size_t k = matrix->in->k, block = matrix->in->rotation_block ? matrix->in->rotation_block : 1;

    for (size_t i = 0; i < k; i++)
        bits[i] = (float)matrix->q[token * k + i] * matrix->scales[token];
    matrix_rotate(bits, k, matrix->in->rotation_block);
    for (size_t i = 0; i < k; i++)
        bits[i] *= factor;
    for (size_t first = 0; first < k; first += block)
        for (size_t i = 0; i < block; i++) {
            double sum = 0, size = 0;

            for (size_t j = 0; j < block; j++) {
                const double w = matrix->weights[token * k + first + j] * (double)factor;

                sum += __builtin_parity((unsigned int)(i & j)) ? -w : w;
                size += fabs(w);
            }
            y[first + i] = sum / sqrt((double)block);
            sizes[first + i] = size / sqrt((double)block);
        }
}

static void check_embedding(DeviceSuite *suite, Rig rigs[2], const Products *products, float factor) {
    const size_t k = products->in.k;
    const EmbedCase embed = { products, factor };
    _cleanup_(freep) double *exact = malloc(k * sizeof(*exact)), *sizes = malloc(k * sizeof(*sizes));
    _cleanup_(freep) float *y = NULL, *bits = malloc(k * sizeof(*bits));
    float tokens[RIG_ROWS];
    const RowCase c = { .what = "embedding",
                        .run = run_embed,
                        .arg = &embed,
                        .rows = RIG_ROWS,
                        .out_width = k,
                        .n_in = 1,
                        .in = { { tokens, 1 } },
                        .has_indices = true };

    assert_true(exact && sizes && bits);
    for (size_t r = 0; r < RIG_ROWS; r++)
        tokens[r] = (float)(r ? rig_draw(suite, products->n_outputs) : products->n_outputs - 1);
    y = row_case_check(suite, &c, rigs);
    for (size_t r = 0; r < RIG_ROWS; r++) {
        expect_embedding(&products->matrices[0], (size_t)tokens[r], factor, exact, sizes, bits);
        if (suite->dut->is_int8 && suite->dut->product_error <= 0)
            assert_memory_equal(y + r * k, bits, k * sizeof(*y));
        for (size_t i = 0; i < k; i++)
            rig_near(&c, r, i, (double)y[r * k + i], exact[i], suite->dut->row_error * sizes[i]);
    }
}

void test_device_embed(void **state) {
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (MatrixForm form = 0; form < _MATRIX_FORM_N; form++)
        for (int i = 0; i < (form == MATRIX_PACKED ? 9 : 3); i++) {
            static const size_t widths[] = { 96, 128, 1024 };
            const MatrixInput in = { .k = widths[i % 3],
                                     .rotation_block = i % 3 && rig_takes(suite, DEVICE_TAKES_ROTATED) ? 64 : 0 };
            const size_t n = 1 + rig_draw(suite, 60);
            Products products;

            if (!matrix_is_taken(suite, form, &in))
                continue;
            products_init(&products, rigs, &in, &form, &n, 1, i, false, 1);
            check_embedding(suite, rigs, &products, i % 2 ? 1 : 2.5f);
            products_deinit(&products, rigs);
        }
    rig_close_pair(rigs);
}
