// SPDX-License-Identifier: Apache-2.0
/* Reports of coordgen-bench: median, spread and share of the floor, in all three forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/tools/bench/bench_texts.h"

static BenchResult result_of(BenchUnit unit, double floor, size_t n, double *values) {
    BenchResult result = { .test = "pp", .rows = 7, .depth = 2, .threads = 3, .unit = unit, .floor = floor };

    bench_result_take(&result, values, n);
    return result;
}

static void test_medians_and_floors(void **state) {
    double odd[] = { 5, 1, 3 }, even[] = { 4, 1, 3, 2 }, one[] = { 8 };
    BenchResult result = result_of(BENCH_TOKENS, 6, 3, odd);

    assert_true(result.median == 3 && result.least == 1 && result.most == 5 && result.n == 3);
    assert_true(bench_result_of_floor(&result) == 0.5);
    result = result_of(BENCH_TOKENS, 0, 4, even);
    assert_true(result.median == 2.5 && bench_result_of_floor(&result) == 0); /* unknown */
    result = result_of(BENCH_MS, 2, 1, one);                                  /* a time: the floor is the shorter one */
    assert_true(bench_result_of_floor(&result) == 0.25);
    result.of_floor = 0.5; /* median of the repetitions' own shares */
    assert_true(bench_result_of_floor(&result) == 0.5);
}

static void test_forms(void **state) {
    BenchReport report = { .machine = json_pack("{s:s}", "name", "this \"one\"") };
    double fast[] = { 10, 20, 30 }, slow[] = { 4 };
    BenchResult result = result_of(BENCH_TOKENS, 40, 3, fast);
    json_t *json, *first, *second;
    char *text;

    assert_int_equal(bench_report_add(&report, &result), 0);
    result = result_of(BENCH_MS, 0, 1, slow);
    result.test = "ttft";
    snprintf(result.name, sizeof(result.name), "page cache dropped");
    result.rows = 0;
    assert_int_equal(bench_report_add(&report, &result), 0);

    text = bench_written(&report, bench_report_table);
    assert_non_null(strstr(text, "\n| pp | 7 | 2 | 3 | 20.0 | 10.0 | 30.0 | tokens/s | 40.0 | 50.0 % |\n"));
    assert_non_null(strstr(text, "\n| ttft, page cache dropped |  |  | 3 | 4.0 | 4.0 | 4.0 | ms |  | |\n"));
    free(text);
    text = bench_written(&report, bench_report_csv);
    assert_non_null(strstr(text, "\npp,\"\",7,2,3,3,20,10,30,tokens/s,40,0.5000,\"this \"\"one\"\"\"\n"));
    assert_non_null(strstr(text, "\nttft,\"page cache dropped\",0,2,3,1,4,4,4,ms,,,\"this \"\"one\"\"\"\n"));
    free(text);

    json = bench_report_json(&report);
    assert_string_equal(json_string_value(json_object_get(json_object_get(json, "machine"), "name")), "this \"one\"");
    first = json_array_get(json_object_get(json, "results"), 0);
    second = json_array_get(json_object_get(json, "results"), 1);
    assert_true(json_real_value(json_object_get(first, "tokens_per_s")) == 20);
    assert_true(json_real_value(json_object_get(first, "of_floor")) == 0.5);
    assert_int_equal(json_integer_value(json_object_get(first, "rows")), 7);
    assert_true(json_real_value(json_object_get(second, "ms")) == 4);
    assert_null(json_object_get(second, "of_floor"));
    json_decref(json);
    bench_report_deinit(&report);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_medians_and_floors),
        cmocka_unit_test(test_forms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
