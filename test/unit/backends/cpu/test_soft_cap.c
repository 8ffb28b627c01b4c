// SPDX-License-Identifier: Apache-2.0
/* Tests of soft caps, of logits and of attention's scores: against float64; every build of this machine gives the same
 * bits. */
#include "backends/numeric/exp_row.h"
#include "test/unit/backends/cpu/row_ops_plain.h"

static void test_soft_cap_row(void **state) {
    static const float caps[] = { 0.5f, 30, 1000 };
    float x[N_MAX], y[N_MAX], first[N_MAX];

    for (size_t c = 0; c < ARRAY_LEN(caps); c++)
        for (size_t build = exp_row_n(); build-- > 0;) {
            const ExpRow *exp = exp_row_at(build);
            const size_t n = N_MAX - 5;

            if (exp->need & ~cpu_features())
                continue;
            row_ops_seed = 5;
            fill(x, N_MAX, 4 * caps[c]);
            x[0] = 0, x[1] = -0.0f, x[2] = INFINITY, x[3] = -INFINITY, x[4] = NAN, x[5] = 1e-30f;
            memcpy(y, x, sizeof(y));
            exp->soft_cap(y, n, caps[c]);
            assert_memory_equal(y + n, x + n, (N_MAX - n) * sizeof(*y));
            assert_true(y[0] == 0 && !signbit(y[0]) && signbit(y[1]) && y[2] == caps[c] && y[3] == -caps[c]);
            assert_true(isnan(y[4]));
            for (size_t i = 5; i < n; i++) {
                const double exact = (double)caps[c] * tanh((double)x[i] / (double)caps[c]);

                assert_true(fabs((double)y[i] - exact) < 0x1p-22 * (double)caps[c]);
            }
            if (build + 1 == exp_row_n())
                memcpy(first, y, sizeof(y));
            for (size_t i = 0; i < n; i++)
                if (!same_value(first[i], y[i]))
                    fail_msg("%s: %a becomes %a, expected %a", exp->name, (double)x[i], (double)y[i], (double)first[i]);
        }
}

enum {
    POSITIONS = 150,
    HEAD = 32,
    GROUP = 2,
    ROWS = 9,
    N_BLOCKS = (POSITIONS + KV_BLOCK - 1) / KV_BLOCK,
};

typedef struct CapFixture {
    _Alignas(64) uint16_t blocks[N_BLOCKS][2 * KV_BLOCK * HEAD];
    void *block_list[N_BLOCKS];
    float k[POSITIONS * HEAD], v[POSITIONS * HEAD], q[ROWS * GROUP * HEAD];
    AttentionRow rows[ROWS];
    KvHead kv;
} CapFixture;

static void cap_fixture_init(CapFixture *fixture, const RowOps *ops, float *out) {
    row_ops_seed = 8;
    fill(fixture->k, ARRAY_LEN(fixture->k), 2);
    fill(fixture->v, ARRAY_LEN(fixture->v), 1);
    fill(fixture->q, ARRAY_LEN(fixture->q), 2);
    for (size_t i = 0; i < N_BLOCKS; i++)
        fixture->block_list[i] = fixture->blocks[i];
    fixture->kv = (KvHead){ .blocks = fixture->block_list, .k = 0, .v = KV_BLOCK * HEAD, .head_size = HEAD };
    ops->kv_store(&fixture->kv, 0, fixture->k, fixture->v, HEAD, POSITIONS);
    for (size_t i = 0; i < POSITIONS * HEAD; i++) {
        fixture->k[i] = f16_to_f32(f32_to_f16(fixture->k[i]));
        fixture->v[i] = f16_to_f32(f32_to_f16(fixture->v[i]));
    }
    for (size_t r = 0; r < ROWS; r++)
        fixture->rows[r] = (AttentionRow){ .q = fixture->q + r * GROUP * HEAD,
                                           .out = out + r * GROUP * HEAD,
                                           .begin = r % 3 * 20,
                                           .end = POSITIONS - 10 * r };
}

static void exact_attention(const CapFixture *fixture, size_t row, size_t head, double scale, double cap, double *out) {
    const AttentionRow *of = &fixture->rows[row];
    const float *q = fixture->q + (row * GROUP + head) * HEAD;
    double sum = 0;

    memset(out, 0, HEAD * sizeof(*out));
    for (size_t j = of->begin; j < of->end; j++) {
        double score = 0, weight;

        for (size_t d = 0; d < HEAD; d++)
            score += (double)q[d] * (double)fixture->k[j * HEAD + d];
        weight = exp(cap * tanh(score * scale / cap));
        sum += weight;
        for (size_t d = 0; d < HEAD; d++)
            out[d] += weight * (double)fixture->v[j * HEAD + d];
    }
    for (size_t d = 0; d < HEAD; d++)
        out[d] /= sum;
}

/* Attends with rows together or one by one, blocks in one call or in two. */
static void attend(const CapFixture *fixture, const RowOps *ops, bool apart, float scale, float cap, float *scratch) {
    const size_t n = apart ? 1 : ROWS;

    for (size_t first = 0; first < ROWS; first += n) {
        Attending attending = ops->attention_begin(fixture->rows + first, n, GROUP, HEAD, 2 * scale / cap, scratch);

        attending.cap = cap * 0x1.715476p0f;
        ops->attention_blocks(&attending, 0, n, &fixture->kv, 0, 1);
        ops->attention_blocks(&attending, 0, n, &fixture->kv, 1, N_BLOCKS);
        ops->attention_end(&attending);
    }
}

static void test_soft_cap_attention(void **state) {
    static const float caps[] = { 0.7f, 50 };
    static CapFixture fixture;
    static float out[ROWS * GROUP * HEAD], first[ROWS * GROUP * HEAD];
    _cleanup_(freep) float *scratch = aligned_alloc(64, attention_scratch_floats(ROWS * GROUP, HEAD) * sizeof(float));
    const float scale = 0.25f;

    assert_non_null(scratch);
    for (size_t c = 0; c < ARRAY_LEN(caps); c++)
        for (size_t build = row_ops_n(); build-- > 0;)
            for (int apart = 0; apart < 2; apart++) {
                const RowOps *ops = row_ops_at(build);

                if (ops->need & ~cpu_features())
                    continue;
                cap_fixture_init(&fixture, ops, out);
                attend(&fixture, ops, apart, scale, caps[c], scratch);
                for (size_t i = 0; i < (size_t)ROWS * GROUP; i++) {
                    double exact[HEAD];

                    exact_attention(&fixture, i / GROUP, i % GROUP, (double)scale, (double)caps[c], exact);
                    for (size_t d = 0; d < HEAD; d++)
                        if (!(fabs((double)out[i * HEAD + d] - exact[d]) < 1e-5))
                            fail_msg("%s, cap %g: %g, expected %g", ops->name, (double)caps[c],
                                     (double)out[i * HEAD + d], exact[d]);
                }
                if (build + 1 == row_ops_n() && !apart)
                    memcpy(first, out, sizeof(out));
                check_row(ops, "capped attention", out, first, ARRAY_LEN(out));
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_soft_cap_row),
        cmocka_unit_test(test_soft_cap_attention),
    };

    row_ops_begin(20261127);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
