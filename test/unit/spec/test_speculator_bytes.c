// SPDX-License-Identifier: Apache-2.0
/* Memory of a generation's drafts at a context of 4,096 tokens: all sources on, a text without repetition, and new
 * candidates behind every token. No text of a language needs as much. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/memory/account.h"
#include "spec/speculator.h"

static DraftReport report;

enum {
    CONTEXT = 4096,
    N_PROMPT = 3072,
    N_VOCAB = 1 << 18,
    ROWS = DRAFT_ROWS_MAX,
    BYTES_MAX = 50 << 20
};

/* Tokens that differ from call to call, for as long as the vocabulary allows. */
static uint32_t new_token(void) {
    static uint32_t n_given;

    return n_given++ * 40503u % N_VOCAB;
}

static void observe_new(Speculator *speculator, uint32_t before, uint32_t token, bool is_prompt) {
    ContextTop tops[DRAFT_CHOICES_MAX];

    for (size_t i = 0; i < DRAFT_CHOICES_MAX; i++)
        tops[i] = (ContextTop){ new_token(), 0.5F / (float)(i + 1) };
    speculator_observe(speculator, before, token, tops, DRAFT_CHOICES_MAX, is_prompt);
}

/* Rows of trees, each behind a token of its own: as many as a generation can verify. */
static void test_speculator_bytes(void **state) {
    static float row_ms[ROWS];
    const SpeculatorOptions options = { .sources =
                                            SPECULATION_AUTO | 1u << SPECULATION_LOOKUP | 1u << SPECULATION_CALIBRATION,
                                        .report = &report,
                                        .nodes_max = ROWS - 1 };
    _cleanup_(speculator_freep) Speculator *speculator = NULL;
    AccountTable accounts;
    uint32_t before = new_token();

    account_table_init(&accounts);
    assert_int_equal(speculator_new(&accounts, &options, &speculator), 0);
    for (uint32_t n = 0; n < CONTEXT; n++) {
        const DraftLimits limits = { .nodes_max = ROWS - 1, .depth_max = DRAFT_NODES_MAX, .tokens_left = CONTEXT - n };
        const uint32_t token = new_token();
        DraftTree tree;

        speculator_append(speculator, &token, 1);
        observe_new(speculator, before, token, n < N_PROMPT);
        if (n >= N_PROMPT) {
            speculator_draft(speculator, limits, (DraftCosts){ .ms = row_ms, .n_rows = ROWS }, NULL, &tree);
            for (uint32_t row = 1; row < ROWS; row++)
                observe_new(speculator, new_token(), new_token(), false);
            speculator_verified(speculator, &tree, NULL, 0, new_token(), NULL);
        }
        before = token;
    }
    print_message("%.1f MB, %.0f bytes a token\n", (double)accounts.peak_bytes[ACCOUNT_DRAFTDB] / 1e6,
                  (double)accounts.peak_bytes[ACCOUNT_DRAFTDB] / CONTEXT);
    assert_true(accounts.peak_bytes[ACCOUNT_DRAFTDB] > CONTEXT * 20);
    assert_true(accounts.peak_bytes[ACCOUNT_DRAFTDB] < BYTES_MAX);
    assert_int_equal(speculator_sources(speculator) & (1u << SPECULATION_TABLE | 1u << SPECULATION_SAM),
                     1u << SPECULATION_TABLE | 1u << SPECULATION_SAM); /* both are still on */
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_speculator_bytes) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
