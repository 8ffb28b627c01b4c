// SPDX-License-Identifier: Apache-2.0
/* Checks of one device on several threads at once: shared matrices, separate scratch, the same bits. */
#undef NDEBUG
#include "base/min_max.h"
#include "test/device/device_matrix.h"
#include "test/device/device_timeline.h"

#include <pthread.h>

enum {
    ROUNDS = 12,
    ROWS = 9,
    INPUTS = 192,
    OUTPUTS = 130,
};

typedef struct ThreadWork {
    Backend *backend;
    const Products *products;
    const float *norm;
    size_t first; /* first of its rows */
    const float *expected;
    size_t n_wrong; /* out */
} ThreadWork;

/* Runs a norm, then products, then a gate, concurrently with other threads. y f32[ROWS][OUTPUTS] */
static void work_once(Backend *backend, const Products *products, const float *norm, size_t first, float *y) {
    const BackendLinear *linear = products->linears[0][0];
    float made[ROWS * INPUTS], up[ROWS * OUTPUTS];

    backend->ops->norm(backend, products->x + first * INPUTS, norm, 1e-5f, ROWS, INPUTS, made);
    if (backend->ops->linear(backend, &linear, 1, &(LinearInput){ .x = made }, ROWS,
                             &(LinearOutput){ .y = (float *const[]){ y } }, NULL))
        memset(y, 0, ROWS * OUTPUTS * sizeof(*y));
    memcpy(up, y, sizeof(up));
    backend->ops->gated(backend, y, up, ROWS, OUTPUTS, false);
}

static void *work(void *arg) {
    ThreadWork *thread = arg;
    float y[ROWS * OUTPUTS];

    for (size_t round = 0; round < ROUNDS; round++) {
        work_once(thread->backend, thread->products, thread->norm, thread->first, y);
        thread->n_wrong += memcmp(y, thread->expected, sizeof(y)) != 0;
    }
    return NULL;
}

static void check_threads(Rig rigs[2], const Products *products, const float *norm) {
    static const BackendShape shape = {
        .rows = ROWS, .width = INPUTS, .n_vocab = 1, .n_heads = 2, .n_kv_heads = 1, .head_size = 16
    };
    Rig *rig = &rigs[0];
    static float expected[RIG_THREADS][ROWS * OUTPUTS];
    ThreadWork works[RIG_THREADS];
    pthread_t threads[RIG_THREADS];
    WorkerPool *pool;

    assert_int_equal(worker_pool_new(&pool, 1), 0);
    for (size_t i = 0; i < RIG_THREADS; i++) {
        ErrText err = { 0 };
        Backend *thread = NULL;

        work_once(rig->backend, products, norm, i * ROWS, expected[i]);
        if (rig->ops->thread_new(rig->backend, &thread, pool, &err) || thread->ops->reserve(thread, &shape, &err))
            fail_msg("no device for a thread: %s", err.text);
        assert_true(thread != rig->backend && thread->pool == pool);
        works[i] = (ThreadWork){ thread, products, norm, i * ROWS, expected[i], 0 };
    }
    for (size_t i = 0; i < RIG_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &works[i]), 0);
    for (size_t i = 0; i < RIG_THREADS; i++) /* joins all before one may fail: their work is on this stack */
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < RIG_THREADS; i++) {
        if (works[i].n_wrong)
            fail_msg("%zu of %d rounds on thread %zu gave other bits", works[i].n_wrong, ROUNDS, i);
        backend_free(works[i].backend);
    }
    worker_pool_free(pool);
}

/* A device whose matrices have state of their own for all products may return BACKEND_E_SHARED; no handle is made
 * then. */
static void check_shared(Rig *rig, DeviceSuite *suite) {
    uint32_t hot[INPUTS];
    const MatrixInput in = { .k = INPUTS, .scale = 0.02f, .shadow = true, .hot = hot, .n_hot = INPUTS };
    BackendLinear *linear;
    Backend *thread = NULL;
    Matrix matrix;
    int r;

    if (!matrix_is_taken(suite, MATRIX_INT8, &in))
        return;
    for (uint32_t i = 0; i < INPUTS; i++)
        hot[i] = i;
    matrix_init(&matrix, suite, &in, MATRIX_INT8, OUTPUTS, 0, true);
    linear = matrix_load(rig, &matrix);
    r = rig->ops->thread_new(rig->backend, &thread, rig->pool, NULL);
    assert_true(r ? r == BACKEND_E_SHARED && !thread : thread != NULL);
    backend_free(thread);
    rig->ops->linear_free(linear);
    matrix_deinit(&matrix);
}

/* Rows of a sequence computed by handles of several threads, one after the other, equal those of a single handle. */
static void check_turns(DeviceSuite *suite) {
    enum {
        N = 150,
        STEP = 20,
    };
    const KvShape shape = { 6, 2, 32, 0, 0.2f, 0 };
    const BackendShape room = {
        .rows = STEP, .width = 6 * 32, .n_vocab = 1, .n_heads = 6, .n_kv_heads = 2, .head_size = 32
    };
    Backend *devices[RIG_THREADS];
    float *out, *expected;
    Timeline timeline;
    WorkerPool *pool;
    KvRows rows;
    KvRig kv;

    kv_rig_open(&kv, suite, 1, &shape, N);
    kv_rows_init(&rows, suite, &shape, N);
    out = malloc(N * kv.q_width * sizeof(*out));
    expected = malloc(N * kv.q_width * sizeof(*expected));
    assert_true(out && expected);
    timeline_init(&timeline, &kv, N);
    timeline_append(&timeline, &kv, &rows, 0, N, N, 0, expected);
    timeline_deinit(&timeline);
    assert_int_equal(worker_pool_new(&pool, 1), 0);
    devices[0] = kv.rig.backend;
    for (size_t i = 1; i < RIG_THREADS; i++) {
        assert_int_equal(kv.rig.ops->thread_new(devices[0], &devices[i], pool, NULL), 0);
        assert_int_equal(devices[i]->ops->reserve(devices[i], &room, NULL), 0);
        assert_int_equal(devices[i]->ops->reserve_positions(devices[i], N, NULL), 0);
    }
    timeline_init(&timeline, &kv, N);
    for (size_t first = 0, n; first < N; first += n) {
        n = MIN(N - first, STEP);
        kv.rig.backend = devices[first / STEP % RIG_THREADS];
        timeline_append(&timeline, &kv, &rows, first, n, n, 0, out + first * kv.q_width);
    }
    assert_memory_equal(out, expected, N * kv.q_width * sizeof(*out));
    kv.rig.backend = devices[0];
    for (size_t i = 1; i < RIG_THREADS; i++)
        backend_free(devices[i]);
    worker_pool_free(pool);
    timeline_deinit(&timeline);
    kv_rows_deinit(&rows);
    free(out);
    free(expected);
    kv_rig_close(&kv);
}

void test_device_threads(void **state) {
    DeviceSuite *suite = *state;
    Rig rigs[2];

    rig_open_pair(rigs, suite, NULL);
    for (MatrixForm form = 0; rigs[0].ops->thread_new && form < _MATRIX_FORM_N; form++) {
        const MatrixInput in = { .k = INPUTS };
        float norm[INPUTS];
        Products products;

        if (!matrix_is_taken(suite, form, &in))
            continue;
        rig_fill(suite, norm, INPUTS);
        products_init(&products, rigs, &in, &form, (const size_t[]){ OUTPUTS }, 1, 0, true, RIG_THREADS * ROWS);
        check_threads(rigs, &products, norm);
        products_deinit(&products, rigs);
    }
    if (rigs[0].ops->thread_new) {
        check_shared(&rigs[0], suite);
        check_turns(suite);
    }
    assert_true(!rigs[0].ops->thread_new == !rigs[1].ops->thread_new);
    rig_close_pair(rigs);
}
