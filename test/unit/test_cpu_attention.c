// SPDX-License-Identifier: Apache-2.0
/* attention() of the cpu device: the same bits for every instruction set, number of threads and way to cut a text into
 * steps; near to what the reference device gives. */
#include "test/unit/row_ops_plain.h"

#include "backends/backend.h"

typedef struct Case {
    size_t n_heads, n_kv_heads, head_size, n_positions, window;
} Case;

typedef struct Rows {
    float *q, *k, *v;
} Rows;

/* All positions in steps of `step` rows, on a device that is freed again; out[n_positions][n_heads * head_size]. */
static void run(const Case *c, const Rows *rows, bool is_reference, uint32_t features, unsigned int n_threads,
                size_t step, float *out) {
    const size_t q_width = c->n_heads * c->head_size, kv_width = c->n_kv_heads * c->head_size;
    const BackendShape shape = { .rows = step,
                                 .width = q_width,
                                 .n_vocab = 1,
                                 .n_heads = c->n_heads,
                                 .n_kv_heads = c->n_kv_heads,
                                 .head_size = c->head_size };
    _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
    _cleanup_(freep) uint8_t *cache = NULL;
    _cleanup_(freep) void **blocks = NULL;
    _cleanup_(freep) BatchRow *batch_rows = calloc(c->n_positions, sizeof(*batch_rows));
    AccountTable accounts;
    Backend *backend;
    ErrText err = { 0 };
    size_t block, n_blocks, plane_bytes;

    account_table_init(&accounts);
    assert_int_equal(worker_pool_new(&pool, n_threads), 0);
    assert_int_equal(
        (is_reference ? backend_reference_new : backend_cpu_new)(&backend, features, pool, &accounts, &err), 0);
    assert_int_equal(backend->ops->reserve(backend, &shape, &err), 0);
    assert_int_equal(backend->ops->reserve_positions(backend, c->n_positions, &err), 0);
    block = backend->ops->kv_block_positions;
    n_blocks = (c->n_positions + block - 1) / block;
    plane_bytes = block * kv_width * backend->ops->kv_element_bytes;
    cache = malloc(n_blocks * 3 * plane_bytes);
    blocks = calloc(n_blocks, sizeof(*blocks));
    assert_true(cache && blocks && batch_rows);
    memset(cache, 0xff, n_blocks * 3 * plane_bytes); /* NaN: what is not written yet is not read */
    for (size_t i = 0; i < n_blocks; i++)            /* the last one first: where they lie does not matter */
        blocks[i] = cache + (n_blocks - 1 - i) * 3 * plane_bytes;
    memcpy(out, rows->q, c->n_positions * q_width * sizeof(*out));
    for (size_t first = 0; first < c->n_positions; first += step) {
        const size_t n_rows = c->n_positions - first < step ? c->n_positions - first : step;
        BatchSequence sequence;
        Batch batch = { .rows = batch_rows, .sequences = &sequence };
        const AttentionCall call = { .batch = &batch,
                                     .rows = n_rows,
                                     .q = out + first * q_width,
                                     .k = rows->k + first * kv_width,
                                     .v = rows->v + first * kv_width,
                                     .k_offset_bytes = plane_bytes,
                                     .v_offset_bytes = 2 * plane_bytes,
                                     .n_heads = c->n_heads,
                                     .n_kv_heads = c->n_kv_heads,
                                     .head_size = c->head_size,
                                     .window = c->window,
                                     .scale = 0.2f };

        batch_add_chain(&batch, blocks, first, n_rows);
        backend->ops->kv_store(backend, &call);
        backend->ops->attention(backend, &call);
    }
    backend_free(backend);
}

static void check_case(const Case *c) {
    static const size_t steps[] = { 1, 7, 64, 100, 1000 };
    const size_t n = c->n_positions * c->n_heads * c->head_size, n_kv = c->n_positions * c->n_kv_heads * c->head_size;
    _cleanup_(freep) float *q = malloc(n * sizeof(*q)), *k = malloc(n_kv * sizeof(*k)), *v = malloc(n_kv * sizeof(*v));
    _cleanup_(freep) float *out = malloc(n * sizeof(*out)), *expected = malloc(n * sizeof(*expected));
    const Rows rows = { q, k, v };

    assert_true(q && k && v && out && expected);
    fill(q, n, 2);
    fill(k, n_kv, 2);
    fill(v, n_kv, 3);
    run(c, &rows, true, 0, 1, c->n_positions, out);
    run(c, &rows, false, cpu_features(), 1, c->n_positions, expected);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(out[i] - expected[i]) < 1e-2f)) /* float16 keys and values */
            fail_msg("[%zu] is %g, on the reference device %g", i, (double)expected[i], (double)out[i]);
    for (Isa isa = ISA_SCALAR; isa < _ISA_N; isa++)
        for (size_t s = 0; s < ARRAY_LEN(steps) && isa_present(isa); s++) {
            const unsigned int n_threads = 1 + (unsigned int)(isa + s) % 4;

            run(c, &rows, false, isa_features(isa), n_threads, steps[s], out);
            for (size_t i = 0; i < n; i++)
                if (!same_value(out[i], expected[i]))
                    fail_msg("%s, %u threads, steps of %zu: [%zu] is %a, expected %a", isa_name(isa), n_threads,
                             steps[s], i, (double)out[i], (double)expected[i]);
        }
}

static void test_cpu_attention(void **state) {
    check_case(&(Case){ 6, 2, 32, 300, 0 });
    check_case(&(Case){ 9, 3, 64, 200, 0 });
    check_case(&(Case){ 4, 4, 16, 150, 0 });
}

static void test_cpu_attention_window(void **state) {
    check_case(&(Case){ 6, 2, 32, 300, 100 });
    check_case(&(Case){ 4, 1, 80, 260, 64 });
    check_case(&(Case){ 2, 1, 16, 200, 1 });
    check_case(&(Case){ 2, 1, 16, 200, 199 });
}

/* Sequences of one batch, each with a cache of its own, give what each of them gives alone, and so do parts of the
 * batch: decode rows of many sequences, a chunk among them. */
static void test_cpu_attention_together(void **state) {
    enum {
        SEQUENCES = 20,
        HEADS = 6,
        KV_HEADS = 2,
        SIZE = 32,
        CHUNK = 90, /* rows of the last sequence; the others have one */
        ROWS = SEQUENCES - 1 + CHUNK,
        BLOCKS = 4,
    };
    static const size_t cuts[][4] = { { 0, ROWS }, { 0, 5, 19, ROWS }, { 0, 1, 60, ROWS } }; /* borders of calls */
    const BackendShape shape = {
        .rows = ROWS, .width = HEADS * SIZE, .n_vocab = 1, .n_heads = HEADS, .n_kv_heads = KV_HEADS, .head_size = SIZE
    };
    static float q[ROWS * HEADS * SIZE], k[ROWS * KV_HEADS * SIZE], v[ROWS * KV_HEADS * SIZE], expected[ARRAY_LEN(q)];

    fill(k, ARRAY_LEN(k), 2);
    fill(v, ARRAY_LEN(v), 3);
    for (unsigned int n_threads = 1; n_threads <= 3; n_threads++) {
        _cleanup_(worker_pool_freep) WorkerPool *pool = NULL;
        _cleanup_(freep) uint8_t *cache = NULL;
        void *blocks[SEQUENCES][BLOCKS];
        BatchSequence sequences[SEQUENCES];
        BatchRow rows[ROWS];
        Batch batch = { .rows = rows, .sequences = sequences };
        AccountTable accounts;
        Backend *backend;
        ErrText err = { 0 };
        size_t plane_bytes;

        account_table_init(&accounts);
        assert_int_equal(worker_pool_new(&pool, n_threads), 0);
        assert_int_equal(backend_cpu_new(&backend, cpu_features(), pool, &accounts, &err), 0);
        assert_int_equal(backend->ops->reserve(backend, &shape, &err), 0);
        plane_bytes = backend->ops->kv_block_positions * KV_HEADS * SIZE * backend->ops->kv_element_bytes;
        cache = calloc(SEQUENCES * BLOCKS, 2 * plane_bytes);
        assert_non_null(cache);
        for (size_t i = 0; i < SEQUENCES; i++) {
            for (size_t b = 0; b < BLOCKS; b++)
                blocks[i][b] = cache + (i * BLOCKS + b) * 2 * plane_bytes;
            batch_add_chain(&batch, blocks[i], i * 7, i + 1 == SEQUENCES ? CHUNK : 1);
        }
        assert_int_equal(batch.n_rows, ROWS);
        for (size_t c = 0; c <= ARRAY_LEN(cuts); c++) {
            row_ops_seed = 7;
            fill(q, ARRAY_LEN(q), 2);
            for (size_t first = 0, n, i = 0; first < ROWS; first += n, i++) {
                AttentionCall call;

                n = c ? cuts[c - 1][i + 1] - first : first + 1 < SEQUENCES ? 1 : CHUNK; /* first each sequence alone */
                call = (AttentionCall){ .batch = &batch,
                                        .first = first,
                                        .rows = n,
                                        .q = q + first * HEADS * SIZE,
                                        .k = k + first * KV_HEADS * SIZE,
                                        .v = v + first * KV_HEADS * SIZE,
                                        .v_offset_bytes = plane_bytes,
                                        .n_heads = HEADS,
                                        .n_kv_heads = KV_HEADS,
                                        .head_size = SIZE,
                                        .scale = 0.2f };
                backend->ops->kv_store(backend, &call);
                backend->ops->attention(backend, &call);
            }
            if (!c)
                memcpy(expected, q, sizeof(q));
            assert_memory_equal(q, expected, sizeof(q));
        }
        backend_free(backend);
    }
}

/* More heads for one KV head than rows are taken together otherwise. */
static void test_cpu_attention_wide_group(void **state) {
    check_case(&(Case){ 100, 1, 16, 70, 0 });
}

/* Fewer KV heads than threads: the query heads of one are split, evenly or not. */
static void test_cpu_attention_split_group(void **state) {
    static const unsigned int threads[] = { 2, 3, 4, 7, 14 };
    const Case c = { 14, 2, 64, 80, 0 };
    static float q[80 * 14 * 64], k[80 * 2 * 64], v[80 * 2 * 64], out[ARRAY_LEN(q)], expected[ARRAY_LEN(q)];
    const Rows rows = { q, k, v };

    fill(q, ARRAY_LEN(q), 2);
    fill(k, ARRAY_LEN(k), 2);
    fill(v, ARRAY_LEN(v), 3);
    run(&c, &rows, false, cpu_features(), 1, c.n_positions, expected);
    for (size_t t = 0; t < ARRAY_LEN(threads); t++) {
        run(&c, &rows, false, cpu_features(), threads[t], 1, out);
        for (size_t i = 0; i < ARRAY_LEN(out); i++)
            if (!same_value(out[i], expected[i]))
                fail_msg("%u threads: [%zu] is %a, expected %a", threads[t], i, (double)out[i], (double)expected[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_attention),
        cmocka_unit_test(test_cpu_attention_window),
        cmocka_unit_test(test_cpu_attention_wide_group),
        cmocka_unit_test(test_cpu_attention_split_group),
        cmocka_unit_test(test_cpu_attention_together),
    };

    row_ops_begin(20240612);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
