// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/device/device_matrix.h"

#include <float.h>

#include "base/f16.h"
#include "quant/format/grid.h"

enum {
    Q8_BLOCK = 32
};

static void draw_integers(Matrix *matrix, DeviceSuite *suite, int widths) {
    const size_t n = matrix->n, k = matrix->in->k;

    matrix->grid = matrix->form == MATRIX_PACKED ? (Grid)rig_draw(suite, _GRID_N) : GRID_UNIFORM;
    for (size_t i = 0; i < n; i++)
        matrix->bits[i] = (int8_t)(widths ? widths : 1 + (int)rig_draw(suite, 8));
    if (matrix->grid != GRID_UNIFORM)
        assert_int_equal(pack_widen(matrix->bits, n), 0);
    for (size_t i = 0; i < n; i++) {
        const int bits = matrix->bits[i];

        matrix->scales[i] = (float)(rig_draw(suite, 1000) + 1) * 3e-5f;
        if (matrix->form == MATRIX_Q8_0) /* scales of this form are float16 */
            matrix->scales[i] = f16_to_f32(f32_to_f16(matrix->scales[i]));
        for (size_t c = 0; c < k; c++) {
            const int level = bits == 8 ? (int)rig_draw(suite, 255) - 127
                                        : grid_level(matrix->grid, (int)rig_draw(suite, (size_t)1 << bits), bits);

            matrix->q[i * k + c] = matrix->columns[c * n + i] = (int8_t)level;
        }
    }
}

static void pack(Matrix *matrix) {
    assert_int_equal(pack_plan_init(&matrix->plan, matrix->grid, matrix->bits, matrix->n, matrix->in->k), 0);
    matrix->packed = aligned_alloc(64, matrix->plan.offsets[matrix->plan.n_blocks]);
    assert_non_null(matrix->packed);
    for (size_t block = 0; block < matrix->plan.n_blocks; block++)
        pack_block(&matrix->plan, block, matrix->q, matrix->packed);
}

/* Writes the matrix in the form of a source GGUF; tensors are aligned to 32 there. */
static void write_source(Matrix *matrix) {
    const size_t n = matrix->n, k = matrix->in->k, row_bytes = k * sizeof(float) + 64;
    uint8_t *at = aligned_alloc(64, (n * row_bytes + 63) / 64 * 64);

    assert_non_null(at);
    matrix->data = at;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < k; c++) {
            const float value = (float)matrix->q[i * k + c] * matrix->scales[i];
            const uint16_t half = f32_to_f16(matrix->form == MATRIX_Q8_0 ? matrix->scales[i] : value);

            if (matrix->form == MATRIX_F32) {
                memcpy(at, &value, sizeof(value));
                at += sizeof(value);
                continue;
            }
            if (matrix->form == MATRIX_F16 || c % Q8_BLOCK == 0) {
                memcpy(at, &half, sizeof(half));
                at += sizeof(half);
            }
            if (matrix->form == MATRIX_Q8_0)
                *at++ = (uint8_t)matrix->q[i * k + c];
        }
}

static double weight_of(const Matrix *matrix, size_t output, size_t input) {
    const int8_t q = matrix->q[output * matrix->in->k + input];

    switch (matrix->form) {
    case MATRIX_F32:
        return (double)((float)q * matrix->scales[output]);
    case MATRIX_F16:
        return (double)f16_to_f32(f32_to_f16((float)q * matrix->scales[output]));
    default:
        return (double)q * (double)matrix->scales[output];
    }
}

void matrix_init(Matrix *matrix, DeviceSuite *suite, const MatrixInput *in, MatrixForm form, size_t n, int widths,
                 bool with_bias) {
    const size_t k = in->k;

    assert_true(form != MATRIX_Q8_0 || k % Q8_BLOCK == 0);
    *matrix = (Matrix){ .in = in,
                        .n = n,
                        .form = form,
                        .q = malloc(n * k),
                        .columns = malloc(n * k),
                        .bits = malloc(n),
                        .scales = malloc(n * sizeof(float)),
                        .weights = malloc(n * k * sizeof(double)),
                        .bias = with_bias ? malloc(n * sizeof(float)) : NULL };
    assert_true(matrix->q && matrix->columns && matrix->bits && matrix->scales && matrix->weights &&
                (matrix->bias || !with_bias));
    draw_integers(matrix, suite, form == MATRIX_PACKED ? widths : 8);
    for (size_t i = 0; i < n * k; i++)
        matrix->weights[i] = weight_of(matrix, i / k, i % k);
    for (size_t i = 0; with_bias && i < n; i++)
        matrix->bias[i] = (float)rig_draw(suite, 1000) * 0.01f - 5;
    if (form == MATRIX_PACKED)
        pack(matrix);
    else if (form != MATRIX_INT8)
        write_source(matrix);
}

void matrix_deinit(Matrix *matrix) {
    free(matrix->q);
    free(matrix->columns);
    free(matrix->bits);
    free(matrix->scales);
    free(matrix->weights);
    free(matrix->bias);
    free(matrix->data);
    free(matrix->packed);
    pack_plan_deinit(&matrix->plan);
}

LinearSource matrix_source(const Matrix *matrix) {
    static const uint32_t types[] = { GGML_F32, GGML_F16, GGML_Q8_0, GGML_I8, GGML_I8 };
    const MatrixInput *in = matrix->in;
    LinearSource source = {
        .name = "blk.0.test.weight",
        .n = matrix->n,
        .k = in->k,
        .type = types[matrix->form],
        .data = matrix->form == MATRIX_PACKED ? NULL
                : matrix->data                ? matrix->data
                                              : matrix->q,
        .scales = matrix->data ? NULL : matrix->scales,
        .packed = matrix->packed,
        .bits = matrix->packed ? matrix->bits : NULL,
        .grid = matrix->grid,
        .rotation_block = in->rotation_block,
        .bias = matrix->bias,
        .activations = { .scale = in->scale, .shadow = in->shadow },
    };

    if (in->shadow) {
        source.activations.hot = in->hot;
        source.activations.n_hot = in->n_hot;
        source.activations.columns = matrix->columns;
        source.activations.file = in->n_hot == in->k ? NULL : in->file;
        source.activations.file_offset_bytes = matrix->file_offset_bytes;
    }
    return source;
}

BackendLinear *matrix_load(Rig *rig, const Matrix *matrix) {
    const LinearSource source = matrix_source(matrix);
    BackendLinear *linear = NULL;
    ErrText err = { 0 };

    if (rig->ops->linear_new(rig->backend, &linear, &source, &err))
        fail_msg("a matrix that the device takes is refused: %s", err.text);
    assert_non_null(linear);
    return linear;
}

bool matrix_is_taken(const DeviceSuite *suite, MatrixForm form, const MatrixInput *in) {
    const uint32_t needs = (form == MATRIX_INT8     ? (uint32_t)DEVICE_TAKES_INT8
                            : form == MATRIX_PACKED ? (uint32_t)DEVICE_TAKES_PACKED
                                                    : (uint32_t)DEVICE_TAKES_SOURCE) |
                           (in->rotation_block ? (uint32_t)DEVICE_TAKES_ROTATED : 0) |
                           (in->shadow ? (uint32_t)DEVICE_TAKES_SHADOW : 0) |
                           (in->scale > 0 ? (uint32_t)DEVICE_TAKES_STATIC : 0);

    return rig_takes(suite, needs);
}

/* --- products ----------------------------------------------------------------------------------------------------- */

/* Computes sums and differences of neighbours, of pairs, of fours and so on, each rounded, then applies the factor. */
void matrix_rotate(float *x, size_t k, uint32_t block) {
    const float factor = (float)(1 / sqrt((double)block));

    for (size_t first = 0; block && first < k; first += block) {
        for (size_t step = 1; step < block; step *= 2)
            for (size_t i = first; i < first + block; i++)
                if (!((i - first) & step)) {
                    const float a = x[i], b = x[i + step];

                    x[i] = a + b;
                    x[i + step] = a - b;
                }
        for (size_t i = first; i < first + block; i++)
            x[i] *= factor;
    }
}

static void expect_float(const Matrix *matrix, const float *x, size_t output, MatrixSum *sum) {
    for (size_t i = 0; i < matrix->in->k; i++) {
        const double addend = matrix->weights[output * matrix->in->k + i] * (double)x[i];

        sum->exact += addend;
        sum->size += fabs(addend);
    }
}

/* Returns the dynamic-row scale of a row, and the factor to its integers. A row so small that the factor overflows
 * counts as zero. */
static float row_scale(const float *x, size_t k, float *inversep) {
    float greatest = 0;

    for (size_t i = 0; i < k; i++)
        greatest = fmaxf(greatest, fabsf(x[i]));
    *inversep = 127.0f / greatest;
    if (greatest > 0 && *inversep <= FLT_MAX)
        return greatest / 127.0f;
    *inversep = 0;
    return 0;
}

/* Adds the values past 127 scale, times their weights, by rising inputs. */
static void add_shadows(const Matrix *matrix, const float *x, size_t output, MatrixSum *sum) {
    const float threshold = 127.0f * matrix->in->scale;

    for (size_t i = 0; i < matrix->in->k; i++) {
        const float weight = matrix->scales[output] * (float)matrix->q[output * matrix->in->k + i];
        const float rest = x[i] - copysignf(threshold, x[i]);
        float product;

        if (!(fabsf(x[i]) > threshold))
            continue;
        product = rest * weight;
        sum->bits += product;
        sum->exact += (double)rest * (double)weight;
        sum->size += fabs((double)rest * (double)weight);
    }
}

/* x: the row in float, q: its integers. */
static void expect_int8(const Matrix *matrix, const float *x, const int32_t *q, float scale, size_t output,
                        MatrixSum *sum) {
    const int8_t *w = matrix->q + output * matrix->in->k;
    const float factor = scale * matrix->scales[output];
    int32_t integers = 0, size = 0;

    for (size_t i = 0; i < matrix->in->k; i++) {
        integers += q[i] * w[i];
        size += abs(q[i] * w[i]);
    }
    sum->bits = (float)integers * factor;
    if (matrix->bias)
        sum->bits += matrix->bias[output];
    sum->exact += (double)integers * (double)scale * (double)matrix->scales[output];
    sum->size += (double)size * (double)scale * (double)matrix->scales[output];
    if (matrix->in->shadow)
        add_shadows(matrix, x, output, sum);
}

void matrix_expect(const DeviceSuite *suite, const Matrix *matrix, const float *x, MatrixSum *sums) {
    const size_t k = matrix->in->k;
    _cleanup_(freep) float *rotated = malloc(k * sizeof(*rotated));
    _cleanup_(freep) int32_t *q = malloc(k * sizeof(*q));
    float scale = matrix->in->scale, inverse = 1.0f / scale;

    assert_true(rotated && q);
    memcpy(rotated, x, k * sizeof(*rotated));
    matrix_rotate(rotated, k, matrix->in->rotation_block);
    if (!(scale > 0))
        scale = row_scale(rotated, k, &inverse);
    for (size_t i = 0; i < k; i++)
        q[i] = (int32_t)fminf(fmaxf(rintf(rotated[i] * inverse), -127), 127);
    for (size_t o = 0; o < matrix->n; o++) {
        const double bias = matrix->bias ? (double)matrix->bias[o] : 0;

        sums[o] = (MatrixSum){ .exact = bias, .size = fabs(bias) };
        if (suite->dut->is_int8)
            expect_int8(matrix, rotated, q, scale, o, &sums[o]);
        else
            expect_float(matrix, rotated, o, &sums[o]);
    }
}

void matrix_near(const DeviceSuite *suite, const RowCase *c, size_t row, size_t at, float y, const MatrixSum *sum) {
    if (suite->dut->is_int8 && suite->dut->product_error <= 0) {
        if (memcmp(&y, &sum->bits, sizeof(y)) != 0)
            fail_msg("%s: output %zu of row %zu is %a, not %a", c->what, at, row, (double)y, (double)sum->bits);
        return;
    }
    rig_near(c, row, at, (double)y, sum->exact, suite->dut->product_error * sum->size);
}
