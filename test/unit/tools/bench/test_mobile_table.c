// SPDX-License-Identifier: Apache-2.0
/* The papers' table in all three forms: sums of answers, times a token beside NPU vanilla's of the same task, and rows
 * with existing modes. */
#undef NDEBUG
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/tools/bench/bench_texts.h"
#include "tools/bench/mobile/mobile_table.h"
#include "tools/bench/speculation/spec_mode.h"

enum {
    OURS = MOBILE_TABLE_ROWS - 1,
};

/* Two tasks; a row takes 10 ms for each of 100 tokens of a prompt, and 20 ms less one for each row before it for each
 * of 9 tokens that are decoded. The first task has two such requests. */
static BenchReport made(void) {
    BenchReport report = { 0 };
    MobileTable *table = bench_report_begin(&report, &mobile_table_findings);

    assert_non_null(table);
    table->n_tasks = 2;
    table->data.n_tasks = 2;
    table->data.tasks[0] = strdup("summary");
    table->data.tasks[1] = strdup("a|b");
    table->sums = calloc(2 * MOBILE_TABLE_ROWS, sizeof(*table->sums));
    assert_non_null(table->sums);
    for (size_t i = 0; i < 2 * MOBILE_TABLE_ROWS; i++)
        for (size_t n = i < MOBILE_TABLE_ROWS ? 2 : 1; n > 0; n--) {
            const uint64_t decode_ns = 9000000 * (20 - i % MOBILE_TABLE_ROWS);

            mobile_table_add(&table->sums[i],
                             &(SpecAnswer){ .n = 10,
                                            .n_prompt = 100,
                                            .n_decoded = 9,
                                            .prefill_ns = 1000000000,
                                            .total_ns = 1000000000 + decode_ns,
                                            .report = { .n_steps = 6, .n_rows = 60 } },
                             30000000);
        }
    return report;
}

static void test_mobile_table_texts(void **state) {
    BenchReport report = made();
    char *text = bench_written(&report, bench_report_table);

    text_has(
        text,
        "| summary | CPU vanilla | 2 | 200 | 20 | 10.000 | 1.00 | 20.00 | 0.90 | 118.00 | 0.98 | 1.50 | 10.0 | 30.0 |");
    text_has(text, "| summary | NPU vanilla (NPU) | 2 | 200 | 20 | 10.000 | 1.00 | 18.00 | 1.00 | 116.20 | 1.00 |");
    text_has(text, "| a?b | ours | 1 | 100 | 10 | 10.000 | 1.00 | 14.00 | 1.29 | 112.60 | 1.03 | 1.50 | 10.0 | 30.0 |");
    for (size_t i = 0; i < MOBILE_TABLE_ROWS; i++)
        text_has(text, mobile_table_rows[i].what);
    text_has(text, "Energy is not measured");
    free(text);
    report.machine = json_pack("{s:s}", "name", "a \"machine\"");
    text = bench_written(&report, bench_report_csv);
    text_has(text, "test,task,row,requests,prompt_tokens,output_tokens,prefill_ms_per_token,");
    text_has(text, "\nmobile-table,\"summary\",npu-vanilla,2,200,20,10,18,116.2,1.5,10,30,\"a \"\"machine\"\"\"\n");
    free(text);
    bench_report_deinit(&report);
}

static double number(const json_t *row, const char *key) {
    assert_true(json_is_real(json_object_get(row, key)));
    return json_real_value(json_object_get(row, key));
}

static void test_mobile_table_json(void **state) {
    BenchReport report = made();
    json_t *json, *rows, *row;

    report.machine = json_object();
    json = bench_report_json(&report);
    rows = json_object_get(json, "results");
    assert_int_equal(json_array_size(rows), 2 * MOBILE_TABLE_ROWS);
    row = json_array_get(rows, OURS);
    assert_string_equal(json_string_value(json_object_get(row, "row")), "ours");
    assert_string_equal(json_string_value(json_object_get(row, "task")), "summary");
    assert_true(json_is_true(json_object_get(row, "identical")));
    assert_true(fabs(number(row, "npu_over_decode_ms_per_token") - 18.0 / 14) < 1e-9);
    assert_true(fabs(number(row, "ms_per_token") - 112.6) < 1e-9);
    assert_true(fabs(number(row, "wait_ms") - 30) < 1e-9);
    json_decref(json);
    bench_report_deinit(&report);
}

/* Answers of one token have no decoding. */
static void test_mobile_table_nothing(void **state) {
    MobileTableSum sum = { 0 };

    assert_true(isnan(mobile_table_all_ms(&sum)));
    mobile_table_add(&sum, &(SpecAnswer){ .n = 1, .n_prompt = 4, .prefill_ns = 8000000, .total_ns = 8000000 }, 0);
    assert_true(isnan(mobile_table_decode_ms(&sum)));
    assert_true(mobile_table_prefill_ms(&sum) == 2 && mobile_table_all_ms(&sum) == 8);
}

static void test_mobile_table_rows(void **state) {
    uint32_t modes;
    ErrText err;

    for (size_t i = 0; i < MOBILE_TABLE_ROWS; i++)
        assert_int_equal(spec_modes_parse(mobile_table_rows[i].mode, &modes, &err), 0);
    assert_int_equal(mobile_table_rows[MOBILE_TABLE_FIRST].engine, MOBILE_TABLE_CPU);
    assert_string_equal(mobile_table_rows[MOBILE_TABLE_FIRST].mode, "plain");
    assert_int_equal(mobile_table_rows[MOBILE_TABLE_BASE].engine, MOBILE_TABLE_NPU);
    assert_string_equal(mobile_table_rows[MOBILE_TABLE_BASE].mode, "plain");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mobile_table_texts),
        cmocka_unit_test(test_mobile_table_json),
        cmocka_unit_test(test_mobile_table_nothing),
        cmocka_unit_test(test_mobile_table_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
