// SPDX-License-Identifier: Apache-2.0
/* The same device on several threads at once: the same matrices, scratch of its own, the same bits. */
#undef NDEBUG
#include "test/device/device_matrix.h"

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
    size_t first; /* of the rows */
    const float *expected;
    size_t n_wrong; /* out */
} ThreadWork;

/* A norm, then products, then a gate, each beside those of the other threads. y f32[ROWS][OUTPUTS] */
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
        ErrText err = { "" };
        Backend *thread = NULL;

        work_once(rig->backend, products, norm, i * ROWS, expected[i]);
        if (rig->ops->thread_new(rig->backend, &thread, pool, &err) || thread->ops->reserve(thread, &shape, &err))
            fail_msg("no device for a thread: %s", err.text);
        assert_true(thread != rig->backend && thread->pool == pool);
        works[i] = (ThreadWork){ thread, products, norm, i * ROWS, expected[i], 0 };
    }
    for (size_t i = 0; i < RIG_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &works[i]), 0);
    for (size_t i = 0; i < RIG_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        if (works[i].n_wrong)
            fail_msg("%zu of %d rounds on thread %zu gave other bits", works[i].n_wrong, ROUNDS, i);
        backend_free(works[i].backend);
    }
    worker_pool_free(pool);
}

/* Matrices that keep something of their own for all products may say so, and nothing is made then. */
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
    if (rigs[0].ops->thread_new)
        check_shared(&rigs[0], suite);
    assert_true(!rigs[0].ops->thread_new == !rigs[1].ops->thread_new);
    rig_close_pair(rigs);
}
