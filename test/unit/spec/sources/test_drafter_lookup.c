// SPDX-License-Identifier: Apache-2.0
/* Prompt lookup against a plain search; its length; the account's limit. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/min_max.h"
#include "spec/sources/drafter_lookup.h"

enum {
    N = 2000
};

static void test_drafter_lookup_naive(void **state) {
    const DrafterOps *ops = &drafter_lookup_ops;

    for (uint32_t n_kinds = 1; n_kinds < 40; n_kinds += 6) {
        _cleanup_(drafter_lookup_freep) DrafterLookup *lookup = NULL;
        AccountTable accounts;
        static uint32_t text[N];
        uint32_t seed = 1;

        account_table_init(&accounts);
        assert_int_equal(drafter_lookup_new(&accounts, &lookup), 0);
        assert_int_equal(ops->root(lookup).b, 0);
        for (uint32_t n = 1; n <= N; n++) {
            uint32_t end = 0, drafted = 0;
            DraftCursor at;
            DraftChoice choice;

            seed = seed * 1664525 + 1013904223;
            text[n - 1] = (seed >> 16) % n_kinds;
            assert_int_equal(ops->append(lookup, &text[n - 1], 1), 0);
            if (n % 37 && n < N - 3)
                continue;
            for (uint32_t len = 3; len && !end; len--)
                for (uint32_t e = len; e < n && !end; e++)
                    if (!memcmp(text + e - len, text + n - len, len * sizeof(*text)))
                        end = e;
            at = ops->root(lookup);
            while (ops->choices(lookup, at, &choice, 1)) {
                assert_int_equal(choice.token, text[end + drafted++]);
                assert_int_equal(ops->follow(lookup, at, choice.token + 1).b, 0);
                at = ops->follow(lookup, at, choice.token);
                assert_memory_equal(&at, &choice.next, sizeof(at));
            }
            assert_int_equal(drafted, !end ? 0 : MIN(n - end, LOOKUP_TOKENS));
        }
        accounts.limit_bytes[ACCOUNT_DRAFTDB] = accounts.used_bytes[ACCOUNT_DRAFTDB];
        assert_int_equal(ops->append(lookup, text, 100), DRAFTER_E_MEMORY);
        drafter_lookup_free(steal(&lookup));
        assert_int_equal(accounts.total_bytes, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafter_lookup_naive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
