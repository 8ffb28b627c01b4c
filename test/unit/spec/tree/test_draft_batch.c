// SPDX-License-Identifier: Apache-2.0
/* Choice of the rows that a draft model computes next: of all choices that are closed under parents, one that brings
 * most. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "spec/tree/draft_batch.h"
#include "test/unit/fixtures/sim_model.h"

enum {
    N_SEEDS = 400,
    ROWS = 12
};

typedef struct Case {
    DraftBatchRows rows;
    int parents[ROWS];
} Case;

/* A random tree, depth first; some of its rows from the root down are computed. */
static void case_init(Case *c, uint32_t seed) {
    int last = -1;

    *c = (Case){ .rows.n = 1 + sim_mix(seed, 1) % ROWS };
    for (uint32_t row = 0; row < c->rows.n; row++) {
        for (uint32_t up = sim_mix(seed, 100 + row) % 3; row && up && last > 0; up--)
            last = c->parents[last];
        c->parents[row] = row ? last : -1;
        last = (int)row;
        c->rows.sizes[row] = 1;
        c->rows.is_computed[row] = (!row || c->rows.is_computed[c->parents[row]]) && sim_mix(seed, 200 + row) % 3 == 0;
        c->rows.values[row] =
            c->rows.is_computed[row] || !(sim_mix(seed, 300 + row) % 4) ? 0 : (float)(sim_mix(seed, 400 + row) % 1000);
    }
    for (uint32_t row = c->rows.n - 1; row > 0; row--)
        c->rows.sizes[c->parents[row]] += c->rows.sizes[row];
}

static float best_of(const Case *c, uint32_t k) {
    float best = 0;

    for (uint32_t set = 0; set < 1u << c->rows.n; set++) {
        float sum = 0;
        int fits = (uint32_t)__builtin_popcount(set) <= k;

        for (uint32_t row = 0; row < c->rows.n && fits; row++) {
            const int parent = c->parents[row];

            if (!(set >> row & 1))
                continue;
            sum += c->rows.values[row];
            fits = !c->rows.is_computed[row] && (!row || c->rows.is_computed[parent] || set >> parent & 1);
        }
        best = fits && sum > best ? sum : best;
    }
    return best;
}

static void test_draft_batch_optimum(void **state) {
    uint32_t n_between = 0;

    for (uint32_t seed = 0; seed < N_SEEDS; seed++) {
        static DraftBatchTable table;
        Case c;

        case_init(&c, seed);
        draft_batch_table(&table, &c.rows, ROWS);
        for (uint32_t k = 0; k <= ROWS; k++) {
            bool taken[ROWS] = { false };
            uint8_t picked[DRAFT_ROWS_MAX];
            const uint32_t n = draft_batch_pick(&table, &c.rows, k, picked);
            float sum = 0;

            assert_true(n <= k);
            for (uint32_t i = 0; i < n; i++) {
                const int parent = c.parents[picked[i]];

                assert_false(c.rows.is_computed[picked[i]] || taken[picked[i]]);
                assert_true(parent < 0 || c.rows.is_computed[parent] || taken[parent]);
                taken[picked[i]] = true;
                sum += c.rows.values[picked[i]];
                n_between += !(c.rows.values[picked[i]] > 0);
            }
            assert_true(sum == table.best[0][k] && sum == best_of(&c, k));
        }
    }
    assert_true(n_between > 100); /* rows that bring nothing themselves, while those behind them do */
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_draft_batch_optimum) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
