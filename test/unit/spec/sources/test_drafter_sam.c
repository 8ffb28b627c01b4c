// SPDX-License-Identifier: Apache-2.0
/* Drafts from the running text: the match at the end is that of a naive search, and each choice follows the match
 * somewhere. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spec/sources/drafter_sam.h"

enum {
    N = 300
};

static void test_drafter_sam_naive(void **state) {
    const DrafterOps *ops = &drafter_sam_ops;

    for (uint32_t n_kinds = 1; n_kinds < 5; n_kinds++) {
        _cleanup_(drafter_sam_freep) DrafterSam *sam = NULL;
        AccountTable table;
        uint32_t text[N], seed = 1;

        account_table_init(&table);
        assert_int_equal(drafter_sam_new(&table, &sam), 0);
        assert_int_equal(ops->choices(sam, ops->root(sam), NULL, 0), 0);
        for (uint32_t n = 1; n <= N; n++) {
            DraftChoice choices[DRAFT_CHOICES_MAX];
            uint32_t best = 0, end = 0;
            size_t n_choices;

            seed = seed * 1664525 + 1013904223;
            text[n - 1] = (seed >> 16) % n_kinds;
            assert_int_equal(ops->append(sam, &text[n - 1], 1), 0);
            for (uint32_t e = 1; e < n; e++) {
                uint32_t len = 0;

                while (len < e && text[e - 1 - len] == text[n - 1 - len])
                    len++;
                if (len > best) {
                    best = len;
                    end = e;
                }
            }
            assert_int_equal(ops->root(sam).b, best);
            n_choices = ops->choices(sam, ops->root(sam), choices, DRAFT_CHOICES_MAX);
            assert_true(best ? n_choices >= 1 && n_choices <= n_kinds : n_choices == 0);
            if (best)
                assert_int_equal(choices[0].token, text[end]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafter_sam_naive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
