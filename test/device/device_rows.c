// SPDX-License-Identifier: Apache-2.0
/* Checks of operators on rows of floats, of the table itself, and of the device's preferred numbers of rows. */
#undef NDEBUG
#include "base/min_max.h"
#include "test/device/device_rig.h"

enum {
    WIDTH_MAX = 1000,
};

/* Makes rows of about normally distributed values; some rows are zero, tiny or large. */
static float *new_rows(DeviceSuite *suite, size_t rows, size_t width) {
    static const float sizes[] = { 1, 0, 1e-30f, 1e6f, 1e-3f, 1e-42f };
    float *x = malloc(rows * width * sizeof(*x));

    assert_non_null(x);
    rig_fill(suite, x, rows * width);
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; r < 2 * ARRAY_LEN(sizes) && i < width; i++)
            x[r * width + i] *= sizes[r % ARRAY_LEN(sizes)];
    return x;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static bool is_text(const char *text) {
    return text && *text;
}

void test_device_table(void **state) {
    DeviceSuite *suite = *state;
    const BackendOps *ops;
    ShadowCounts counts = { .n_rows = 1, .n_columns_read = 1 };
    Rig rig;

    rig_open_bare(&rig, suite, 1);
    ops = rig.ops;
    assert_true(rig.backend->pool == rig.pool && rig.backend->accounts == &rig.accounts);
    assert_true(is_text(ops->name) && is_text(ops->kv_type) && is_text(ops->kernel(rig.backend)));
    assert_string_equal(ops->name, suite->dut->device.name);
    assert_true(ops->kv_row_bytes(16) >= 16 && ops->kv_block_positions > BATCH_SLOTS_MAX);
    assert_true(ops->free && ops->reserve && ops->reserve_positions && ops->linear_new && ops->linear_free &&
                ops->linear && ops->shadow_counts && ops->embed && ops->norm && ops->layer_norm && ops->rope &&
                ops->kv_store && ops->attention && ops->kv_move && ops->gated && ops->activate && ops->add);
    /* Some operators are optional only together. */
    assert_true(!ops->linear_begin == !ops->linear_fill && !ops->linear_begin == !ops->linear_finish);
    assert_true(ops->linear_begin || !suite->dut->device.reads_packages);
    assert_true(!ops->linear_image == !ops->linear_image_bytes && !ops->linear_image == !is_text(ops->image_layout));
    assert_true(ops->linear_begin || !ops->linear_image);
    assert_true(ops->linear_image || !ops->linear_at);
    assert_true(!ops->linear_pieces || ops->has_pieces);
    assert_true(ops->thread_rows || !ops->thread_new);
    assert_true(!ops->linear_shape == !ops->prefill_rows && !ops->linear_shape == !ops->decode_rows);
    assert_true((ops->linear_at && ops->linear_expand) || !ops->linear_shape);
    assert_true(ops->product_slots <= BACKEND_PRODUCT_SLOTS_MAX && (ops->linear_shape || !ops->product_slots));
    assert_true(!ops->product_slots == !ops->linear_submit && !ops->product_slots == !ops->is_queued &&
                !ops->product_slots == !ops->linear_is_over && !ops->product_slots == !ops->linear_end &&
                !ops->product_slots == !ops->linear_here);
    assert_true(ops->product_slots || !ops->attention_joint);
    /* A package may omit outliers beside its products, but may contain every other form. */
    assert_true(!suite->dut->device.reads_packages ||
                rig_takes(suite, DEVICE_TAKES_PACKAGES & ~(uint32_t)DEVICE_TAKES_SHADOW));
    ops->shadow_counts(rig.backend, &counts);
    assert_true(!counts.n_rows && !counts.n_outliers && !counts.n_hot && !counts.n_columns_read &&
                !counts.n_columns_cached);
    rig_close(&rig);
}

/* --- norm --------------------------------------------------------------------------------------------------------- */

typedef struct NormCase {
    const float *w, *bias; /* NULL: RMS norm; otherwise a layer norm */
    float eps;
    size_t n;
    bool in_place;
} NormCase;

static void run_norm(Rig *rig, const RowCase *c, float *const *in, size_t rows, float *out) {
    const NormCase *norm = c->arg;

    if (norm->in_place)
        memcpy(out, in[0], rows * norm->n * sizeof(*out));
    if (norm->bias)
        rig->ops->layer_norm(rig->backend, norm->in_place ? out : in[0], norm->w, norm->bias, norm->eps, rows, norm->n,
                             out);
    else
        rig->ops->norm(rig->backend, norm->in_place ? out : in[0], norm->w, norm->eps, rows, norm->n, out);
}

static void expect_norm(const RowCase *c, const NormCase *norm, size_t row, const float *x, const float *y,
                        double error) {
    double mean = 0, squares = 0, greatest = 0;

    for (size_t i = 0; norm->bias && i < norm->n; i++)
        mean += (double)x[i] / (double)norm->n;
    for (size_t i = 0; i < norm->n; i++) {
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        greatest = MAX(fabs((double)x[i]), greatest);
    }
    for (size_t i = 0; i < norm->n; i++) {
        const double scale = (double)norm->w[i] / sqrt(squares / (double)norm->n + (double)norm->eps);
        const double bias = norm->bias ? (double)norm->bias[i] : 0;
        /* The mean is as exact as its inputs. */
        const double room =
            norm->bias ? (fabs((double)x[i]) + greatest) * fabs(scale) + fabs(bias) : fabs((double)x[i] * scale);

        rig_near(c, row, i, (double)y[i], ((double)x[i] - mean) * scale + bias, error * room);
    }
}

void test_device_norm(void **state) {
    static const size_t widths[] = { 16, 64, 75, 576, WIDTH_MAX };
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (size_t i = 0; i < 4 * ARRAY_LEN(widths); i++) {
        static const char *const whats[] = { "norm", "norm in place", "layer norm", "layer norm in place" };
        const size_t n = widths[i / 4];
        _cleanup_(freep) float *x = new_rows(suite, RIG_ROWS, n), *y = NULL;
        GUARDED w = guarded_new(n);
        GUARDED bias = guarded_new(n);
        const NormCase norm = { w, i % 4 < 2 ? NULL : bias, i % 2 ? 1e-6f : 1e-5f, n, i % 2 };
        const RowCase c = { .what = whats[i % 4],
                            .run = run_norm,
                            .arg = &norm,
                            .rows = RIG_ROWS,
                            .out_width = n,
                            .n_in = 1,
                            .in = { { x, n } } };

        rig_fill(suite, w, n);
        rig_fill(suite, bias, n);
        y = row_case_check(suite, &c, rigs);
        for (size_t r = 0; r < RIG_ROWS; r++)
            expect_norm(&c, &norm, r, x + r * n, y + r * n, suite->dut->row_error);
    }
    rig_close_pair(rigs);
}

/* --- rope --------------------------------------------------------------------------------------------------------- */

typedef struct RopeCase {
    size_t n_heads, head_size, n_rot;
    bool neox;
} RopeCase;

static void run_rope(Rig *rig, const RowCase *c, float *const *in, size_t rows, float *out) {
    const RopeCase *rope = c->arg;

    memcpy(out, in[0], rows * c->out_width * sizeof(*out));
    rig->ops->rope(rig->backend, out, in[1], in[2], rows, rope->n_heads, rope->head_size, rope->n_rot, rope->neox);
}

static void expect_rope(const RowCase *c, const RopeCase *rope, size_t row, const float *y, double error) {
    const size_t half = rope->n_rot / 2;
    const float *cos = c->in[1].rows + row * half, *sin = c->in[2].rows + row * half;

    for (size_t h = 0; h < rope->n_heads; h++) {
        const size_t head = h * rope->head_size;
        const float *x = c->in[0].rows + row * c->out_width + head;

        for (size_t i = 0; i < half; i++) {
            const size_t a = rope->neox ? i : 2 * i, b = rope->neox ? i + half : 2 * i + 1;
            const double room = error * (fabs((double)x[a]) + fabs((double)x[b]));

            rig_near(c, row, head + a, (double)y[head + a],
                     (double)x[a] * (double)cos[i] - (double)x[b] * (double)sin[i], room);
            rig_near(c, row, head + b, (double)y[head + b],
                     (double)x[a] * (double)sin[i] + (double)x[b] * (double)cos[i], room);
        }
        /* Values from n_rot on stay unchanged. */
        assert_memory_equal(y + head + rope->n_rot, x + rope->n_rot, (rope->head_size - rope->n_rot) * sizeof(*x));
    }
}

void test_device_rope(void **state) {
    static const RopeCase cases[] = { { 4, 16, 16, false }, { 4, 16, 16, true },  { 3, 64, 64, true },
                                      { 9, 64, 64, false }, { 2, 80, 32, false }, { 2, 80, 48, true },
                                      { 1, 128, 128, true } };
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const RopeCase *rope = &cases[i];
        const size_t n = rope->n_heads * rope->head_size, half = rope->n_rot / 2;
        _cleanup_(freep) float *x = new_rows(suite, RIG_ROWS, n), *y = NULL;
        _cleanup_(freep) float *cos_rows = malloc(RIG_ROWS * half * sizeof(float)),
                               *sin_rows = malloc(RIG_ROWS * half * sizeof(float));
        const RowCase c = { .what = rope->neox ? "rope, neox" : "rope",
                            .run = run_rope,
                            .arg = rope,
                            .rows = RIG_ROWS,
                            .out_width = n,
                            .n_in = 3,
                            .in = { { x, n }, { cos_rows, half }, { sin_rows, half } } };

        assert_true(cos_rows && sin_rows);
        for (size_t j = 0; j < RIG_ROWS * half; j++) {
            const double angle = (double)rig_draw(suite, 1000000) * 1e-4;

            cos_rows[j] = (float)cos(angle);
            sin_rows[j] = (float)sin(angle);
        }
        y = row_case_check(suite, &c, rigs);
        for (size_t r = 0; r < RIG_ROWS; r++)
            expect_rope(&c, rope, r, y + r * n, suite->dut->row_error);
    }
    rig_close_pair(rigs);
}

/* --- gates and sums ----------------------------------------------------------------------------------------------- */

static void run_gated(Rig *rig, const RowCase *c, float *const *in, size_t rows, float *out) {
    memcpy(out, in[0], rows * c->out_width * sizeof(*out));
    rig->ops->gated(rig->backend, out, in[1], rows, c->out_width, *(const bool *)c->arg);
}

static double plain_gate(double a, bool gelu) {
    return gelu ? 0.5 * a * (1 + tanh(sqrt(2 / M_PI) * (a + 0.044715 * a * a * a))) : a / (1 + exp(-a));
}

void test_device_gated(void **state) {
    static const size_t widths[] = { 1, 16, 75, 160, WIDTH_MAX };
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (size_t i = 0; i < 2 * ARRAY_LEN(widths); i++) {
        const size_t n = widths[i / 2];
        const bool gelu = i % 2;
        _cleanup_(freep) float *gate = new_rows(suite, RIG_ROWS, n), *up = new_rows(suite, RIG_ROWS, n), *y = NULL;
        const RowCase c = { .what = gelu ? "gated, gelu" : "gated, silu",
                            .run = run_gated,
                            .arg = &gelu,
                            .rows = RIG_ROWS,
                            .out_width = n,
                            .n_in = 2,
                            .in = { { gate, n }, { up, n } } };

        for (size_t j = 0; j < n; j++) { /* around the range limits of exp */
            gate[20 * n + j] *= 30;
            gate[21 * n + j] = j % 2 ? 1e9f : -1e9f;
        }
        y = row_case_check(suite, &c, rigs);
        for (size_t j = 0; j < RIG_ROWS * n; j++)
            rig_near(&c, j / n, j % n, (double)y[j], plain_gate((double)gate[j], gelu) * (double)up[j],
                     suite->dut->row_error * fabs((double)gate[j] * (double)up[j]));
    }
    rig_close_pair(rigs);
}

static void run_activate(Rig *rig, const RowCase *c, float *const *in, size_t rows, float *out) {
    memcpy(out, in[0], rows * c->out_width * sizeof(*out));
    rig->ops->activate(rig->backend, out, rows, c->out_width, *(const bool *)c->arg);
}

void test_device_activate(void **state) {
    static const size_t widths[] = { 1, 16, 75, WIDTH_MAX };
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (size_t i = 0; i < 2 * ARRAY_LEN(widths); i++) {
        const size_t n = widths[i / 2];
        const bool gelu = i % 2;
        _cleanup_(freep) float *x = new_rows(suite, RIG_ROWS, n), *y = NULL;
        const RowCase c = { .what = gelu ? "activate, gelu" : "activate, silu",
                            .run = run_activate,
                            .arg = &gelu,
                            .rows = RIG_ROWS,
                            .out_width = n,
                            .n_in = 1,
                            .in = { { x, n } } };

        y = row_case_check(suite, &c, rigs);
        for (size_t j = 0; j < RIG_ROWS * n; j++)
            rig_near(&c, j / n, j % n, (double)y[j], plain_gate((double)x[j], gelu),
                     suite->dut->row_error * fabs((double)x[j]));
    }
    rig_close_pair(rigs);
}

static void run_add(Rig *rig, const RowCase *c, float *const *in, size_t rows, float *out) {
    memcpy(out, in[0], rows * c->out_width * sizeof(*out));
    rig->ops->add(rig->backend, out, in[1], rows, c->out_width);
}

void test_device_add(void **state) {
    static const size_t widths[] = { 1, 16, 75, WIDTH_MAX };
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
        const size_t n = widths[i];
        _cleanup_(freep) float *a = new_rows(suite, RIG_ROWS, n), *b = new_rows(suite, RIG_ROWS, n), *y = NULL;
        const RowCase c = {
            .what = "add", .run = run_add, .rows = RIG_ROWS, .out_width = n, .n_in = 2, .in = { { a, n }, { b, n } }
        };

        y = row_case_check(suite, &c, rigs);
        for (size_t j = 0; j < RIG_ROWS * n; j++)
            rig_near(&c, j / n, j % n, (double)y[j], (double)a[j] + (double)b[j],
                     suite->dut->row_error * (fabs((double)a[j]) + fabs((double)b[j])));
    }
    rig_close_pair(rigs);
}

/* --- how many rows ------------------------------------------------------------------------------------------------ */

/* Each further row up to a whole tile reduces idle rows by one; a whole tile has none. */
void test_device_idle_rows(void **state) {
    DeviceSuite *suite = *state;
    Rig rig;

    rig_open(&rig, suite, 1, NULL);
    for (size_t rows = 1; rig.ops->idle_rows && rows <= 300; rows++) {
        const size_t idle = rig.ops->idle_rows(rig.backend, rows);

        for (size_t more = 0; more <= idle; more++)
            assert_int_equal(rig.ops->idle_rows(rig.backend, rows + more), idle - more);
    }
    assert_true(!rig.ops->step_rows || rig.ops->step_rows(rig.backend) >= 1);
    assert_true(!rig.ops->thread_rows || rig.ops->thread_rows(rig.backend) >= 1);
    rig_close(&rig);
}
