// SPDX-License-Identifier: Apache-2.0
/* Merging by priority: against the plain definition, and the number of look-ups against the length. */
#undef NDEBUG
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "text/tokenizer/symbol_merge.h"

#define N_IDS 40

/* pairs[left][right]: priority in the high bits, result in the low byte; 0: no merge */
typedef struct Model {
    uint32_t pairs[N_IDS][N_IDS];
    size_t n_calls;
} Model;

static bool model_rule(const void *opaque, const char *text, const Symbol *left, const Symbol *right,
                       uint32_t *priorityp, uint32_t *idp) {
    Model *model = (Model *)(uintptr_t)opaque;
    uint32_t pair = model->pairs[left->id][right->id];

    model->n_calls++;
    if (!pair)
        return false;
    *priorityp = pair >> 8;
    *idp = pair & 0xff;
    return true;
}

static uint64_t next_random(uint64_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    return *random ^= *random << 17;
}

/* Merges by the definition: the best of all pairs, the leftmost on ties, again until no pair may merge. */
static size_t merge_plainly(const Model *model, uint32_t *ids, size_t n) {
    for (;;) {
        size_t best = SIZE_MAX;

        for (size_t i = 0; i + 1 < n; i++) {
            uint32_t pair = model->pairs[ids[i]][ids[i + 1]];

            if (pair && (best == SIZE_MAX || pair >> 8 < model->pairs[ids[best]][ids[best + 1]] >> 8))
                best = i;
        }
        if (best == SIZE_MAX)
            return n;
        ids[best] = model->pairs[ids[best]][ids[best + 1]] & 0xff;
        memmove(ids + best + 1, ids + best + 2, (n - best - 2) * sizeof(*ids));
        n--;
    }
}

static size_t merged_ids(const SymbolMerge *merge, uint32_t *ids) {
    size_t n = 0;

    for (size_t i = 0; i < merge->n_symbols; i++)
        if (merge->symbols[i].len_bytes)
            ids[n++] = merge->symbols[i].id;
    return n;
}

static void test_symbol_merge_equals_definition(void **state) {
    _cleanup_(symbol_merge_deinit) SymbolMerge merge = { 0 };
    uint64_t random = (uint64_t)time(NULL) * 2654435761u | 1;
    uint32_t plain[64], ids[64];

    print_message("seed %" PRIu64 "\n", random);
    for (int round = 0; round < 20000; round++) {
        Model model = { 0 };
        size_t n = next_random(&random) % 60, n_plain;

        for (int i = 0; i < 60; i++) /* few priorities: many ties */
            model.pairs[next_random(&random) % 8][next_random(&random) % 8] =
                (uint32_t)(next_random(&random) % 6) << 8 | (uint32_t)(1 + next_random(&random) % 7);
        symbol_merge_clear(&merge);
        for (size_t i = 0; i < n; i++) {
            plain[i] = (uint32_t)(next_random(&random) % 8);
            assert_int_equal(symbol_merge_add(&merge, 1 + (uint32_t)(next_random(&random) % 3), plain[i]), 0);
        }
        n_plain = merge_plainly(&model, plain, n);
        assert_int_equal(symbol_merge_run(&merge, "", model_rule, &model), 0);
        assert_int_equal(merged_ids(&merge, ids), n_plain);
        assert_memory_equal(ids, plain, n_plain * sizeof(*ids));
    }
}

static void test_symbol_merge_offsets(void **state) {
    _cleanup_(symbol_merge_deinit) SymbolMerge merge = { 0 };
    Model model = { 0 };

    model.pairs[1][2] = 1 << 8 | 3;
    assert_int_equal(symbol_merge_add(&merge, 3, 0), 0);
    assert_int_equal(symbol_merge_add(&merge, 2, 1), 0);
    assert_int_equal(symbol_merge_add(&merge, 4, 2), 0);
    assert_int_equal(symbol_merge_run(&merge, "", model_rule, &model), 0);
    assert_int_equal(merge.symbols[1].offset, 3);
    assert_int_equal(merge.symbols[1].len_bytes, 6);
    assert_int_equal(merge.symbols[1].id, 3);
    assert_int_equal(merge.symbols[1].next, SYMBOL_NONE);
    assert_int_equal(merge.symbols[2].len_bytes, 0);
}

/* Each merge offers two pairs: at most 3 look-ups a symbol, whatever the order of merging. */
static void test_symbol_merge_work_is_linear(void **state) {
    _cleanup_(symbol_merge_deinit) SymbolMerge merge = { 0 };
    Model model = { 0 };
    static const size_t n = 200000;

    model.pairs[1][1] = 1 << 8 | 2;
    model.pairs[2][2] = 2 << 8 | 3;
    model.pairs[3][1] = 3 << 8 | 3; /* one long chain from the left */
    model.pairs[2][1] = 3 << 8 | 3;
    for (size_t i = 0; i < n; i++)
        assert_int_equal(symbol_merge_add(&merge, 1, 1), 0);
    assert_int_equal(symbol_merge_run(&merge, "", model_rule, &model), 0);
    assert_in_range(model.n_calls, n - 1, 3 * n);
    assert_true(merge.room_heap <= 4 * n);

    memset(&model, 0, sizeof(model));
    model.pairs[1][2] = 1 << 8 | 1; /* swallows from the left, one at a time */
    symbol_merge_clear(&merge);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(symbol_merge_add(&merge, 1, i ? 2 : 1), 0);
    assert_int_equal(symbol_merge_run(&merge, "", model_rule, &model), 0);
    assert_int_equal(merge.symbols[0].len_bytes, n);
    assert_in_range(model.n_calls, n - 1, 3 * n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbol_merge_equals_definition),
        cmocka_unit_test(test_symbol_merge_offsets),
        cmocka_unit_test(test_symbol_merge_work_is_linear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
