// SPDX-License-Identifier: Apache-2.0
/* Checks of attention's numbers: many positions, heavy channels, extreme scores and values. */
#undef NDEBUG
#include "test/device/device_timeline.h"

#include "test/unit/fixtures/patience.h"

/* --- many positions ----------------------------------------------------------------------------------------------- */

enum {
    N_TREE = 9
};

/* The first three rows are in place. */
static const int16_t tree[N_TREE] = { -1, 0, 1, 0, 3, 1, 5, 6, 3 };

/* Rows behind so many positions that threads may share a row: a chain, or a tree. */
static void check_long(DeviceSuite *suite, const KvShape *shape, size_t n_before, const int16_t *parents) {
    static const struct {
        unsigned int n_threads;
        size_t rows_a_call;
    } ways[] = { { 1, 0 }, { 2, 0 }, { 2, 1 }, { 7, 0 }, { 7, 1 }, { 7, 3 } };
    _cleanup_(kv_rows_deinit) KvRows before, rows;
    float *whole = NULL;

    kv_rows_init(&before, suite, shape, n_before);
    kv_rows_init(&rows, suite, shape, N_TREE);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        Timeline timeline;
        Member member;
        KvRig kv;

        kv_rig_open(&kv, suite, ways[i].n_threads, shape, n_before + N_TREE);
        timeline_init(&timeline, &kv, n_before + N_TREE);
        timeline_store(&timeline, &kv, &before, 0);
        member = (Member){ &timeline, &rows, .n = N_TREE, .parents = parents };
        members_run(&kv, &member, 1, 0, ways[i].rows_a_call);
        if (whole) {
            kv_same_rows(&kv, member.out, whole, N_TREE, "attention behind many positions on other threads");
            members_free(&member, 1);
        } else {
            member_expect(&kv, &member, "attention behind many positions");
            whole = member.out;
            rig_digest(suite, whole, N_TREE * kv.q_width * sizeof(*whole));
        }
        timeline_deinit(&timeline);
        kv_rig_close(&kv);
    }
    free(whole);
}

void test_device_long(void **state) {
    static const KvShape shapes[] = { { 2, 1, 16, 0, 0.6f, 0 }, { 6, 2, 32, 900, 0.4f, 0 }, { 3, 1, 80, 0, 0.2f, 4 } };
    static const size_t befores[] = { 8490, 1020, 500 };
    DeviceSuite *suite = *state;

    for (size_t i = patience_is_short(); i < ARRAY_LEN(shapes); i++) {
        check_long(suite, &shapes[i], befores[i], NULL);
        check_long(suite, &shapes[i], befores[i], tree);
    }
    assert_non_null(suite);
}

/* --- balance ------------------------------------------------------------------------------------------------------ */

/* Multiplies channels of n rows by the balance, to the power of `sign`; heads of queries have that of their KV head. */
static void unbalance(const KvRig *kv, const float *balance, float *x, size_t n, size_t n_heads, int sign) {
    const size_t hd = kv->shape.head_size, n_group = n_heads / kv->shape.n_kv_heads;

    for (size_t i = 0; i < n * n_heads * hd; i++) {
        const float factor = balance[i / hd % n_heads / n_group * hd + i % hd];

        x[i] *= sign > 0 ? factor : 1 / factor;
    }
}

static void unbalance_rows(const KvRig *kv, const float *balance, const KvRows *rows) {
    unbalance(kv, balance, rows->k, rows->n, kv->shape.n_kv_heads, 1);
    unbalance(kv, balance, rows->q, rows->n, kv->shape.n_heads, -1);
}

/* Keys with heavy channels, others in each KV head: a device of few bits is as exact as without them, by the balance.
 * Results of a device of floats do not depend on the balance. */
void test_device_balance(void **state) {
    enum {
        N_BEFORE = 70,
        KV_WIDTH = 64
    };
    const KvShape shape = { 6, 2, 32, 0, 0.2f, 0 };
    DeviceSuite *suite = *state;
    float balance[KV_WIDTH], *out;
    KvRows before, rows;
    Timeline timeline;
    Member member;
    KvRig kv;

    for (size_t i = 0; i < KV_WIDTH; i++)
        balance[i] = i % 7 ? 0.25f : 128;
    kv_rig_open(&kv, suite, RIG_THREADS, &shape, N_BEFORE + N_TREE);
    kv_rows_init(&before, suite, &shape, N_BEFORE);
    kv_rows_init(&rows, suite, &shape, N_TREE);
    unbalance_rows(&kv, balance, &before);
    unbalance_rows(&kv, balance, &rows);
    out = malloc(N_TREE * kv.q_width * sizeof(*out));
    assert_non_null(out);
    for (int is_balanced = 0; is_balanced < 2; is_balanced++) {
        kv.balance = is_balanced ? balance : NULL;
        timeline_init(&timeline, &kv, N_BEFORE + N_TREE);
        timeline_store(&timeline, &kv, &before, 0);
        member = (Member){ &timeline, &rows, .n = N_TREE, .parents = tree };
        members_run(&kv, &member, 1, 0, 0);
        if (!is_balanced)
            memcpy(out, member.out, N_TREE * kv.q_width * sizeof(*out));
        else if (!suite->dut->is_balanced)
            kv_same_rows(&kv, member.out, out, N_TREE, "attention of floats with balance");
        else if (!memcmp(member.out, out, N_TREE * kv.q_width * sizeof(*out)))
            fail_msg("attention does not use the balance");
        if (is_balanced || !suite->dut->is_balanced)
            member_expect(&kv, &member, "attention with balance");
        rig_digest(suite, member.out, N_TREE * kv.q_width * sizeof(*out));
        members_free(&member, 1);
        timeline_deinit(&timeline);
    }
    free(out);
    kv_rows_deinit(&before);
    kv_rows_deinit(&rows);
    kv_rig_close(&kv);
}

/* --- extremes ----------------------------------------------------------------------------------------------------- */

/* Scores so large that only one position counts, whose value is the result; equal scores. Values outside a narrower
 * type's range stay finite. */
void test_device_attention_extreme(void **state) {
    enum {
        N = 80,
        N_NEAR = 70
    };
    const KvShape shape = { 2, 1, 16, 0, 0.25f, 0 };
    DeviceSuite *suite = *state;
    Timeline timeline;
    KvRows rows;
    Member member, near;
    KvRig kv;

    assert_non_null(suite);
    kv_rig_open(&kv, suite, 1, &shape, N);
    kv_rows_init(&rows, suite, &shape, N);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < kv.kv_width; j++) {
            rows.k[i * kv.kv_width + j] = j == i % kv.kv_width && i < 16 ? 3000 : 0;
            rows.q[i * kv.q_width + j] = i % 2 && j == i % 16 ? 3000 : 0;
            rows.q[i * kv.q_width + kv.kv_width + j] = 0;
            if (i == 4)
                rows.v[i * kv.kv_width + j] = 60000;
            if (i == N_NEAR)
                rows.v[i * kv.kv_width + j] = j % 2 ? 1e9f : -1e9f;
        }
    timeline_init(&timeline, &kv, N);
    member = (Member){ &timeline, &rows, .n = N };
    members_run(&kv, &member, 1, 0, 0);
    near = member;
    near.n = N_NEAR;
    member_expect(&kv, &near, "attention with extreme scores");
    for (size_t i = 0; i < N * kv.q_width; i++)
        if (!isfinite(member.out[i]))
            fail_msg("attention with extreme values: value %zu of row %zu is not finite", i % kv.q_width,
                     i / kv.q_width);
    members_free(&member, 1);
    timeline_deinit(&timeline);
    kv_rows_deinit(&rows);
    kv_rig_close(&kv);
}
