// SPDX-License-Identifier: Apache-2.0
/* The report of a run within a memory budget in all three forms, and what a budget must be. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/tools/bench/bench_texts.h"
#include "tools/bench/mobile/mobile_memory.h"

static BenchReport made(void) {
    BenchReport report = { 0 };
    MobileMemory *memory = bench_report_begin(&report, &mobile_memory_findings);

    assert_non_null(memory);
    *memory = (MobileMemory){ .budget_bytes = 300000000,
                              .base_bytes = 3000000,
                              .accounts_bytes = 270000000,
                              .process_bytes = 222000000,
                              .prompt_tokens = 1024,
                              .output_tokens = 32,
                              .n_requests = 4,
                              .prefill_ms = 900,
                              .decode_ms = 600 };
    for (size_t i = 0; i < _ACCOUNT_N; i++)
        memory->peak_bytes[i] = 1000000 * (i + 1);
    report.machine = json_pack("{s:s}", "name", "a machine");
    return report;
}

static void test_mobile_memory_forms(void **state) {
    BenchReport report = made();
    char *text = bench_written(&report, bench_report_table);
    json_t *json, *row;

    text_has(text,
             "Within a budget of 300.0 MB: 3.0 MB that the process has before the model, 270.0 MB for the accounts");
    text_has(text, "4 requests, the longest of 1024 tokens and 32 of output: prefill 900.0 ms, decode 600.0 ms.");
    text_has(text, "| graphs | 2.0 |\n");
    text_has(text, "| the process | 222.0 |\n");
    free(text);
    text = bench_written(&report, bench_report_csv);
    text_has(text, "account,peak_bytes,budget_bytes\nweights,1000000,300000000\n");
    text_has(text, "\nprocess,222000000,300000000\n");
    free(text);
    json = bench_report_json(&report);
    row = json_array_get(json_object_get(json, "results"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "test")), "mobile-memory");
    assert_int_equal(json_integer_value(json_object_get(row, "process_bytes")), 222000000);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(row, "peak_bytes"), "kv")), 3000000);
    json_decref(json);
    bench_report_deinit(&report);
}

static void test_mobile_memory_needed(void **state) {
    AccountTable accounts;
    Bill weights = { 0 }, kv = { 0 };

    account_table_init(&accounts);
    assert_int_equal(mobile_memory_needed(5, &accounts), 5 + MOBILE_MEMORY_REST);
    assert_int_equal(account_charge(&accounts, ACCOUNT_WEIGHTS, &weights, 1000), 0);
    bill_settle(&weights);
    assert_int_equal(account_charge(&accounts, ACCOUNT_KV, &kv, 500), 0);
    assert_int_equal(mobile_memory_needed(5, &accounts), 1505 + MOBILE_MEMORY_REST); /* peaks may coincide */
    bill_settle(&kv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mobile_memory_forms),
        cmocka_unit_test(test_mobile_memory_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
