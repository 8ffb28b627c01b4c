// SPDX-License-Identifier: Apache-2.0
/* Log probabilities beside numpy's (test/golden/sampling/make-sampling), and their bits. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backends/numeric/exp_row.h"
#include "base/cleanup.h"
#include "engine/sampling/logprobs.h"
#include "test/unit/engine/sampling/golden_row.h"

static const struct {
    uint32_t token;
    double logprob;
    uint32_t tops[LOGPROBS_TOP_MAX];
    double logprobs[LOGPROBS_TOP_MAX];
} golden[GOLDEN_ROW_POSITIONS] = {
#include "test/golden/sampling/logprobs.inc"
};

static void fill(uint32_t position, float *logits) {
    golden_row_logits(position, logits);
    for (size_t i = 0; i < GOLDEN_ROW_VOCAB; i++)
        logits[i] *= (float)(1 + position);
}

static void expect_near(float value, double wanted) {
    if (!(fabs((double)value - wanted) <= 1e-6 + 1e-7 * fabs(wanted)))
        fail_msg("%.9g instead of %.9g", (double)value, wanted);
}

static void test_logprobs_golden(void **state) {
    float logits[GOLDEN_ROW_VOCAB];
    TokenLogprobs result;

    for (uint32_t position = 0; position < GOLDEN_ROW_POSITIONS; position++) {
        fill(position, logits);
        logprobs_compute(logits, GOLDEN_ROW_VOCAB, golden[position].token, LOGPROBS_TOP_MAX, &result);
        assert_int_equal(result.chosen.token, golden[position].token);
        expect_near(result.chosen.logprob, golden[position].logprob);
        assert_int_equal(result.n_top, LOGPROBS_TOP_MAX);
        for (size_t i = 0; i < LOGPROBS_TOP_MAX; i++) {
            assert_int_equal(result.top[i].token, golden[position].tops[i]);
            expect_near(result.top[i].logprob, golden[position].logprobs[i]);
        }
    }
}

/* The sum by its definition in docs/numbers.md, at every length of a last block. */
static void test_logprobs_sum_has_its_order(void **state) {
    float logits[GOLDEN_ROW_VOCAB];

    fill(3, logits);
    for (size_t n = 1; n <= GOLDEN_ROW_VOCAB; n += n < 40 ? 1 : 37) {
        double parts[16] = { 0 }, wanted;
        float max = logits[0], weight;
        TokenLogprobs result;

        for (size_t i = 1; i < n; i++)
            max = logits[i] > max ? logits[i] : max;
        for (size_t i = 0; i < n; i++) {
            weight = logits[i] - max;
            exp_row_select(0)->exp(&weight, 1, &weight); /* the scalar build */
            parts[i % 16] += (double)weight;
        }
        for (size_t half = 8; half; half /= 2)
            for (size_t j = 0; j < half; j++)
                parts[j] += parts[j + half];
        logprobs_compute(logits, n, (uint32_t)n - 1, 0, &result);
        wanted = (double)logits[n - 1] - (double)max - log(parts[0]);
        assert_int_equal(result.n_top, 0);
        assert_true(fabs((double)result.chosen.logprob - wanted) <= 1e-7 * fabs(wanted) + 1e-12);
    }
}

/* Bits do not depend on the number of others that are asked for, nor on what the memory held before. */
static void test_logprobs_bits(void **state) {
    float logits[GOLDEN_ROW_VOCAB];
    TokenLogprobs all, some;

    fill(5, logits);
    memset(&all, 0xff, sizeof(all));
    logprobs_compute(logits, GOLDEN_ROW_VOCAB, 17, LOGPROBS_TOP_MAX, &all);
    for (uint32_t n = 0; n <= LOGPROBS_TOP_MAX; n++) {
        memset(&some, 0, sizeof(some));
        logprobs_compute(logits, GOLDEN_ROW_VOCAB, 17, n, &some);
        assert_int_equal(some.n_top, n);
        assert_memory_equal(&some.chosen, &all.chosen, sizeof(all.chosen));
        assert_memory_equal(some.top, all.top, n * sizeof(*all.top));
    }
    logprobs_compute(logits, 3, 1, LOGPROBS_TOP_MAX, &some); /* a vocabulary of three */
    assert_int_equal(some.n_top, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logprobs_golden),
        cmocka_unit_test(test_logprobs_sum_has_its_order),
        cmocka_unit_test(test_logprobs_bits),
    };

    return cmocka_run_group_tests_name("logprobs", tests, NULL, NULL);
}
