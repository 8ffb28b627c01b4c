// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include "test/device/device_rig.h"

#include <float.h>

enum {
    ROWS_MAX = 256,
    GUARD = 31, /* floats on each side; odd, so that the array between is aligned as a float only */
};

static const float guard_value = -3.0625e20f;

void rig_open_bare(Rig *rig, DeviceSuite *suite, unsigned int n_threads) {
    ErrText err = { 0 };

    *rig = (Rig){ .suite = suite };
    account_table_init(&rig->accounts);
    assert_int_equal(worker_pool_new(&rig->pool, n_threads), 0);
    if (suite->dut->device.make(&rig->backend, suite->dut->cpu, rig->pool, &rig->accounts, &err))
        fail_msg("the device is not made: %s", err.text);
    rig->ops = rig->backend->ops;
}

void rig_open(Rig *rig, DeviceSuite *suite, unsigned int n_threads, const BackendShape *shape) {
    static const BackendShape small = {
        .rows = RIG_ROWS, .width = RIG_WIDTH, .n_vocab = 1000, .n_heads = 2, .n_kv_heads = 1, .head_size = 16
    };
    ErrText err = { 0 };

    rig_open_bare(rig, suite, n_threads);
    if (rig->ops->reserve(rig->backend, shape ? shape : &small, &err))
        fail_msg("no room: %s", err.text);
}

void rig_close(Rig *rig) {
    backend_free(rig->backend);
    worker_pool_free(rig->pool);
    for (int id = 0; id < _ACCOUNT_N; id++)
        if (rig_used_bytes(rig, (AccountId)id))
            fail_msg("%llu bytes are left on the account '%s'", (unsigned long long)rig_used_bytes(rig, (AccountId)id),
                     account_name((AccountId)id));
}

void rig_open_pair(Rig rigs[2], DeviceSuite *suite, const BackendShape *shape) {
    rig_open(&rigs[0], suite, 1, shape);
    rig_open(&rigs[1], suite, RIG_THREADS, shape);
}

void rig_close_pair(Rig rigs[2]) {
    rig_close(&rigs[0]);
    rig_close(&rigs[1]);
}

uint64_t rig_used_bytes(const Rig *rig, AccountId id) {
    return atomic_load(&rig->accounts.used_bytes[id]);
}

size_t rig_draw(DeviceSuite *suite, size_t n) {
    return (size_t)(test_random(&suite->random) % n);
}

void rig_fill(DeviceSuite *suite, float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = test_random_normal(&suite->random);
}

/* Updates the FNV-1a digest. */
void rig_digest(DeviceSuite *suite, const void *data, size_t len_bytes) {
    const uint8_t *bytes = data;

    for (size_t i = 0; i < len_bytes; i++)
        suite->digest = (suite->digest ^ bytes[i]) * UINT64_C(0x100000001b3);
}

bool rig_takes(const DeviceSuite *suite, uint32_t takes) {
    return (suite->dut->takes & takes) == takes;
}

/* --- guards ------------------------------------------------------------------------------------------------------- */

/* The number of floats is stored before the first guard. */
float *guarded_new(size_t n) {
    float *base = malloc((n + 2 * GUARD + 1) * sizeof(float) + sizeof(size_t));

    assert_non_null(base);
    memcpy(base, &n, sizeof(n));
    base += sizeof(size_t) / sizeof(float);
    for (size_t i = 0; i < n + 2 * GUARD; i++)
        base[i] = guard_value;
    return base + GUARD;
}

float *guarded_copy(const float *x, size_t n) {
    float *copy = guarded_new(n);

    memcpy(copy, x, n * sizeof(*x));
    return copy;
}

static size_t guarded_n(const float *x) {
    size_t n;

    memcpy(&n, x - GUARD - sizeof(size_t) / sizeof(float), sizeof(n));
    return n;
}

void guarded_check(const float *x, const char *what) {
    const size_t n = guarded_n(x);

    for (size_t i = 1; i <= GUARD; i++) {
        if (memcmp(x - i, &guard_value, sizeof(*x)) != 0)
            fail_msg("%s: something was written %zu floats before an array", what, i);
        if (memcmp(x + n + i - 1, &guard_value, sizeof(*x)) != 0)
            fail_msg("%s: something was written %zu floats behind the end of an array", what, i - 1);
    }
}

void guarded_free(float *x) {
    if (x)
        free(x - GUARD - sizeof(size_t) / sizeof(float));
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

float *row_case_run(Rig *rig, const RowCase *c, const size_t *index, size_t n) {
    GUARDED out = guarded_new(n * c->out_width);
    float *in[ARRAY_LEN(c->in)] = { NULL }, *result = malloc(n * c->out_width * sizeof(*result));

    assert_non_null(result);
    for (size_t i = 0; i < c->n_in; i++) {
        in[i] = guarded_new(n * c->in[i].width);
        for (size_t r = 0; r < n; r++)
            memcpy(in[i] + r * c->in[i].width, c->in[i].rows + index[r] * c->in[i].width,
                   c->in[i].width * sizeof(float));
    }
    c->run(rig, c, in, n, out);
    guarded_check(out, c->what);
    memcpy(result, out, n * c->out_width * sizeof(*result));
    for (size_t i = 0; i < c->n_in; i++) {
        guarded_check(in[i], c->what);
        guarded_free(in[i]);
    }
    return result;
}

static void check_some(Rig *rig, const RowCase *c, const float *whole, const size_t *index, size_t n) {
    _cleanup_(freep) float *some = row_case_run(rig, c, index, n);

    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < c->out_width; i++) {
            const float *expected = whole + index[r] * c->out_width + i, *actual = some + r * c->out_width + i;

            if (memcmp(actual, expected, sizeof(*actual)) != 0)
                fail_msg("%s: row %zu of %zu, value %zu is %a among %zu rows, %a among %zu", c->what, index[r], c->rows,
                         i, (double)*actual, n, (double)*expected, c->rows);
        }
}

/* Rows that are not finite must not affect other rows. */
static void check_spoiled(Rig *rig, const RowCase *c, const float *whole) {
    _cleanup_(freep) float *spoiled = malloc(c->rows * c->in[0].width * sizeof(*spoiled)), *out = NULL;
    RowCase other = *c;
    size_t index[ROWS_MAX];

    assert_non_null(spoiled);
    memcpy(spoiled, c->in[0].rows, c->rows * c->in[0].width * sizeof(*spoiled));
    for (size_t r = 0; r < c->rows; r++) {
        index[r] = r;
        if (r % 3 == 1)
            spoiled[r * c->in[0].width + r % c->in[0].width] = r % 2 ? NAN : INFINITY;
    }
    other.in[0].rows = spoiled;
    out = row_case_run(rig, &other, index, c->rows);
    for (size_t r = 0; r < c->rows; r++)
        if (r % 3 != 1 && memcmp(out + r * c->out_width, whole + r * c->out_width, c->out_width * sizeof(*out)) != 0)
            fail_msg("%s: row %zu of %zu is another one beside rows that are not finite", c->what, r, c->rows);
}

float *row_case_check(DeviceSuite *suite, const RowCase *c, Rig rigs[2]) {
    size_t index[ROWS_MAX];
    float *whole;

    assert_true(c->rows <= ROWS_MAX);
    for (size_t r = 0; r < c->rows; r++)
        index[r] = r;
    whole = row_case_run(&rigs[0], c, index, c->rows);
    for (int round = 0; round < 3; round++) /* sooner or later with the workers' help */
        check_some(&rigs[1], c, whole, index, c->rows);
    rig_digest(suite, whole, c->rows * c->out_width * sizeof(*whole));
    for (size_t r = 0; r < c->rows; r++)
        check_some(&rigs[r % 2], c, whole, index + r, 1);
    for (size_t first = 1, n; first < c->rows; first += n) {
        n = 1 + rig_draw(suite, c->rows - first);
        check_some(&rigs[first % 2], c, whole, index + first, n);
    }
    for (size_t r = 0; r < c->rows; r++)
        index[r] = c->rows - 1 - r;
    check_some(&rigs[1], c, whole, index, c->rows);
    if (!c->has_indices)
        check_spoiled(&rigs[0], c, whole);
    return whole;
}

void rig_near(const RowCase *c, size_t row, size_t at, double actual, double exact, double room) {
    if (!(fabs(actual - exact) <= room + (double)FLT_MIN))
        fail_msg("%s: value %zu of row %zu is %.9g, not %.9g within %.3g", c->what, at, row, actual, exact, room);
}
