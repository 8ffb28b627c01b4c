// SPDX-License-Identifier: Apache-2.0
/* Tests of soft caps, of logits and of attention's scores: against float64; every build of this machine gives the same
 * bits. */
#include "backends/numeric/exp_row.h"
#include "test/unit/backends/cpu/attention_fixture.h"

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

/* Caps far below the scores, about as great, and far above. Without the cap outputs are others, unless it is far
 * above. */
static void test_soft_cap_attention(void **state) {
    static const float caps[] = { 0.05f, 0.7f, 5, 1000 };
    enum {
        HEAD = 32,
        ROWS = 9,
        POSITIONS = 150
    };

    for (size_t c = 0; c < ARRAY_LEN(caps); c++) {
        AttentionFixture fixture;
        double capped_error, error;

        row_ops_seed = 8;
        attention_fixture_init(&fixture, HEAD, 2, ROWS, POSITIONS, 0);
        fixture.scale = 1;
        fixture.soft_cap = caps[c];
        for (size_t r = 0; r < ROWS; r++)
            attention_fixture_read(&fixture, r, r % 3 * 20, POSITIONS - 10 * r);
        attention_fixture_expect(&fixture);
        EACH_ATTENTION (ops) {
            attention_fixture_check(&fixture, ops, ops->group, false, GARBAGE_NAN);
            attention_fixture_check(&fixture, ops, 1, true, GARBAGE_NAN);
        }
        capped_error = attention_fixture_near(&fixture, 0.05);
        fixture.soft_cap = 0;
        error = attention_fixture_near(&fixture, 100);
        assert_true(capped_error < 0.02 && (c == 3 || error > 0.1));
        attention_fixture_deinit(&fixture);
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
