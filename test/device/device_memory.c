// SPDX-License-Identifier: Apache-2.0
/* Checks of refusals, of charges, and of behaviour when memory is short. */
#undef NDEBUG
#include "test/device/device_matrix.h"

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static void expect_refusal(Rig *rig, const LinearSource *source, int expected, const char *what) {
    const uint64_t used_bytes = rig_used_bytes(rig, ACCOUNT_WEIGHTS);
    BackendLinear *linear = NULL;
    ErrText err = { 0 };
    const int r = rig->ops->linear_new(rig->backend, &linear, source, &err);

    if (r != expected || linear)
        fail_msg("%s: the device says %d, not %d", what, r, expected);
    if (!strstr(err.text, source->name))
        fail_msg("%s: '%s' does not name the tensor", what, err.text);
    if (rig_used_bytes(rig, ACCOUNT_WEIGHTS) != used_bytes)
        fail_msg("%s: memory is still charged", what);
}

/* Loads int8 matrices with invalid properties. */
static void refuse_int8(Rig *rig, Matrix *matrix) {
    static const float scales[] = { -1, NAN, INFINITY, 1e-31f, 1e31f };
    static const int8_t widths[] = { -128, -1, 0, 9, 127 };
    LinearSource source = matrix_source(matrix);

    source.scales = NULL;
    expect_refusal(rig, &source, BACKEND_E_WEIGHTS, "no scales");
    source = matrix_source(matrix);
    source.n = 0;
    expect_refusal(rig, &source, BACKEND_E_WEIGHTS, "no outputs");
    source = matrix_source(matrix);
    source.k = 0;
    expect_refusal(rig, &source, BACKEND_E_WEIGHTS, "no inputs");
    for (size_t i = 0; rig_takes(rig->suite, DEVICE_TAKES_STATIC) && i < ARRAY_LEN(scales); i++) {
        source = matrix_source(matrix);
        source.activations.scale = scales[i];
        expect_refusal(rig, &source, BACKEND_E_WEIGHTS, "a scale that is none");
    }
    if (rig_takes(rig->suite, DEVICE_TAKES_SHADOW)) {
        source = matrix_source(matrix);
        source.activations = (LinearActivations){ .scale = 1, .shadow = true, .n_hot = 2, .columns = matrix->columns };
        source.activations.hot = (const uint32_t[]){ 5, 6 };
        expect_refusal(rig, &source, BACKEND_E_WEIGHTS, "columns nowhere");
        source.activations.file = &(const ColumnFile){ 0, "a file" };
        source.activations.hot = (const uint32_t[]){ 5, 5 };
        expect_refusal(rig, &source, BACKEND_E_WEIGHTS, "hot columns twice");
        source.activations.hot = (const uint32_t[]){ 5, (uint32_t)matrix->in->k };
        expect_refusal(rig, &source, BACKEND_E_WEIGHTS, "a hot column past the last");
    }
    if (matrix->form == MATRIX_INT8) {
        matrix->q[matrix->n * matrix->in->k - 1] = -128;
        source = matrix_source(matrix);
        expect_refusal(rig, &source, BACKEND_E_WEIGHTS, "the value -128");
        return;
    }
    source = matrix_source(matrix);
    source.bits = NULL;
    expect_refusal(rig, &source, BACKEND_E_WEIGHTS, "no widths");
    for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
        const int8_t was = matrix->bits[matrix->n - 1];

        source = matrix_source(matrix);
        matrix->bits[matrix->n - 1] = widths[i];
        expect_refusal(rig, &source, BACKEND_E_WEIGHTS, "a width that is none");
        matrix->bits[matrix->n - 1] = was;
    }
}

/* A device refuses forms that it does not take, and invalid matrices; no form is mistaken for another. */
void test_device_refusals(void **state) {
    DeviceSuite *suite = *state;
    Rig rig;

    rig_open(&rig, suite, 1, NULL);
    for (MatrixForm form = 0; form < _MATRIX_FORM_N; form++) {
        const MatrixInput in = { .k = 96 };
        LinearSource source;
        Matrix matrix;

        matrix_init(&matrix, suite, &in, form, 40, 0, true);
        source = matrix_source(&matrix);
        if (!matrix_is_taken(suite, form, &in))
            expect_refusal(&rig, &source, BACKEND_E_WEIGHTS, "a form that the device does not take");
        else if (form == MATRIX_INT8 || form == MATRIX_PACKED)
            refuse_int8(&rig, &matrix);
        source = matrix_source(&matrix);
        source.type = 99;
        expect_refusal(&rig, &source, BACKEND_E_WEIGHTS, "a type that is none");
        matrix_deinit(&matrix);
    }
    assert_null(rig.ops->linear_free(NULL));
    rig_close(&rig);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* Loads with more and more room until it suffices. Each failure before that leaves nothing charged. */
static BackendLinear *load_in_little(Rig *rig, const LinearSource *source) {
    BackendLinear *linear = NULL;
    uint64_t room_bytes = 0;
    int r;

    do {
        ErrText err = { 0 };

        rig->accounts.limit_bytes[ACCOUNT_WEIGHTS] = room_bytes;
        r = rig->ops->linear_new(rig->backend, &linear, source, &err);
        if (r) {
            assert_int_equal(r, BACKEND_E_MEMORY);
            assert_non_null(strstr(err.text, source->name));
            assert_null(linear);
            assert_int_equal(rig_used_bytes(rig, ACCOUNT_WEIGHTS), 0);
        }
        room_bytes += room_bytes / 3 + 512;
        assert_true(room_bytes < 1 << 30);
    } while (r);
    rig->accounts.limit_bytes[ACCOUNT_WEIGHTS] = UINT64_MAX;
    return linear;
}

void test_device_weights_account(void **state) {
    DeviceSuite *suite = *state;
    Rig rig;

    rig_open(&rig, suite, 1, NULL);
    for (MatrixForm form = 0; form < _MATRIX_FORM_N; form++) {
        const MatrixInput in = { .k = 256 };
        const uint64_t used_bytes = rig_used_bytes(&rig, ACCOUNT_WEIGHTS);
        _cleanup_(freep) float *x = malloc(3 * in.k * sizeof(float));
        GUARDED y = guarded_new(3 * 320);
        GUARDED again = guarded_new(3 * 320);
        BackendLinear *linear;
        LinearSource source;
        Matrix matrix;

        if (!matrix_is_taken(suite, form, &in))
            continue;
        assert_non_null(x);
        rig_fill(suite, x, 3 * in.k);
        matrix_init(&matrix, suite, &in, form, 320, 2, true);
        source = matrix_source(&matrix);
        linear = load_in_little(&rig, &source);
        if (!suite->dut->keeps_source)
            assert_true(rig_used_bytes(&rig, ACCOUNT_WEIGHTS) >= used_bytes + 320 * in.k * (matrix.packed ? 2 : 8) / 8);
        linear_run(&rig, linear, x, 3, y);
        rig.ops->linear_free(linear);
        assert_int_equal(rig_used_bytes(&rig, ACCOUNT_WEIGHTS), used_bytes);
        linear = matrix_load(&rig, &matrix);
        linear_run(&rig, linear, x, 3, again);
        assert_memory_equal(y, again, 3 * 320 * sizeof(*y));
        rig.ops->linear_free(linear);
        matrix_deinit(&matrix);
    }
    assert_int_equal(rig_used_bytes(&rig, ACCOUNT_WEIGHTS), 0);
    rig_close(&rig);
}

/* Room for calls is reserved before or after the weights, may be missing, and grows. */
void test_device_reserve(void **state) {
    DeviceSuite *suite = *state;
    BackendShape shape = { .rows = 4, .width = 96, .n_vocab = 40, .n_heads = 4, .n_kv_heads = 2, .head_size = 16 };
    const MatrixForm form = rig_takes(suite, DEVICE_TAKES_INT8) ? MATRIX_INT8 : MATRIX_F32;
    const MatrixInput in = { .k = 96 };
    _cleanup_(freep) float *x = malloc(RIG_ROWS * in.k * sizeof(float));
    _cleanup_(freep) MatrixSum *sums = malloc(40 * sizeof(*sums));
    const RowCase c = { .what = "products in memory that has grown" };
    uint64_t room_bytes = 0;
    BackendLinear *linear;
    Matrix matrix;
    Rig rig;
    int r;

    assert_true(x && sums);
    rig_fill(suite, x, RIG_ROWS * in.k);
    matrix_init(&matrix, suite, &in, form, 40, 0, true);
    rig_open_bare(&rig, suite, 2);
    linear = matrix_load(&rig, &matrix);
    for (int round = 0; round < 2; round++) {
        GUARDED y = guarded_new(shape.rows * 40);

        do {
            ErrText err = { 0 };

            rig.accounts.limit_bytes[ACCOUNT_ACTIVATIONS] = room_bytes;
            r = rig.ops->reserve(rig.backend, &shape, &err);
            if (!r)
                r = rig.ops->reserve_positions(rig.backend, 100 + 1000 * (size_t)round, &err);
            assert_true(r == 0 || (r == BACKEND_E_MEMORY && *err.text));
            assert_true(rig_used_bytes(&rig, ACCOUNT_ACTIVATIONS) <= room_bytes);
            room_bytes += room_bytes / 3 + 512;
            assert_true(room_bytes < 1 << 30);
        } while (r);
        linear_run(&rig, linear, x, shape.rows, y);
        guarded_check(y, c.what);
        for (size_t row = 0; row < shape.rows; row++) {
            matrix_expect(suite, &matrix, x + row * in.k, sums);
            for (size_t o = 0; o < 40; o++)
                matrix_near(suite, &c, row, o, y[row * 40 + o], &sums[o]);
        }
        shape.rows = RIG_ROWS;
        shape.width = 512;
    }
    rig.ops->linear_free(linear);
    matrix_deinit(&matrix);
    rig_close(&rig);
}
