// SPDX-License-Identifier: Apache-2.0
/* Reports of switching in all three forms: shares of waiting and of hidden loads, beside the policy that never
 * loads. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/tools/bench/bench_texts.h"
#include "tools/bench/mobile/mobile_report.h"

static BenchReport made(void) {
    static const char *const names[MOBILE_POLICIES] = { "none", "sync", "async", "progressive", "free" };
    BenchReport report = { 0 };
    MobileReport *mobile = bench_report_begin(&report, &mobile_report_findings);

    assert_non_null(mobile);
    *mobile = (MobileReport){ .n = MOBILE_POLICIES,
                              .n_blocks = 6,
                              .graph_bytes = 60000000,
                              .block_bytes = 11000000,
                              .form = "packed",
                              .way = "io_uring, direct" };
    for (size_t i = 0; i < MOBILE_POLICIES; i++)
        mobile->rows[i] = (MobileRow){ .policy = names[i],
                                       .prompt_tokens = 1000,
                                       .output_tokens = 20,
                                       .n_requests = 3,
                                       .n_chunks = 4,
                                       .prefill_ms = 150,
                                       .decode_ms = 50,
                                       .total_ms = 200,
                                       .peak_bytes = i ? 70000000 : 120000000,
                                       .why = "" };
    snprintf(mobile->rows[3].why, sizeof(mobile->rows[3].why), "for a reason");
    mobile->rows[1].total_ms = 250;
    mobile->rows[1].prefill_stall_ms = 20;
    mobile->rows[1].decode_stall_ms = 30;
    mobile->rows[1].load_ms = 50;
    mobile->rows[3].decode_stall_ms = 1;
    mobile->rows[3].load_ms = 40;
    mobile->rows[3].expand_ms = 12;
    mobile->rows[3].n_loads = 12;
    return report;
}

static void test_mobile_report_texts(void **state) {
    BenchReport report = made();
    char *text = bench_written(&report, bench_report_table);

    text_has(text, "6 blocks, graphs of 60.0 MB, a block at most 11.0 MB, packed, loads by io_uring, direct");
    text_has(text,
             "| 1000 | 20 | none | 150.0 | 0.0 | 50.0 | 0.0 | 0.0 % | +0.0 % | 0 | 0.0 | 0.0 | 0.0 | 0.0 % | 120.0 |");
    text_has(
        text,
        "| 1000 | 20 | sync | 150.0 | 20.0 | 50.0 | 30.0 | 20.0 % | +25.0 % | 0 | 0.0 | 50.0 | 0.0 | 0.0 % | 70.0 |");
    text_has(text,
             "| 1000 | 20 | progressive | 150.0 | 0.0 | 50.0 | 1.0 | 0.5 % | +0.0 % | 12 | 0.0 | 40.0 | 12.0 | 97.5 % "
             "| 70.0 |");
    text_has(text, "| 1000 | 4 | 240.0 | 60.0 | 0.250 |");
    text_has(text, "Prompt of 1000, progressive: for a reason.");
    free(text);
    text = bench_written(&report, bench_report_csv);
    text_has(text, "prompt_tokens,output_tokens,policy,");
    text_has(text,
             "\n1000,20,sync,3,6,150,20,50,30,250,0.2000,0.2500,0,0,50,0.0000,70000000,60000000,11000000,4,packed,0\n");
    free(text);
    bench_report_deinit(&report);
}

static void test_mobile_report_json(void **state) {
    BenchReport report = made();
    json_t *json, *row;

    report.machine = json_object();
    json = bench_report_json(&report);
    assert_int_equal(json_array_size(json_object_get(json, "results")), MOBILE_POLICIES);
    row = json_array_get(json_object_get(json, "results"), 1);
    assert_string_equal(json_string_value(json_object_get(row, "policy")), "sync");
    assert_true(json_real_value(json_object_get(row, "stall_share")) > 0.199 &&
                json_real_value(json_object_get(row, "stall_share")) < 0.201);
    assert_true(json_real_value(json_object_get(row, "over_none")) > 0.249);
    assert_int_equal(json_integer_value(json_object_get(row, "shared_graph_bytes")), 60000000);
    row = json_array_get(json_object_get(json, "results"), 3);
    assert_string_equal(json_string_value(json_object_get(row, "why")), "for a reason");
    assert_string_equal(json_string_value(json_object_get(row, "form")), "packed");
    assert_true(json_real_value(json_object_get(row, "read_ms")) > 27.99 &&
                json_real_value(json_object_get(row, "read_ms")) < 28.01);
    json_decref(json);
    bench_report_deinit(&report);
}

/* Two prompts in every order; each is compared with the first and second order of its own prompt. */
static BenchReport made_orders(void) {
    BenchReport report = made();
    MobileOrders *orders = &((MobileReport *)report.findings)->orders;

    *orders = (MobileOrders){ .n = 2 * MOBILE_ORDERS_N, .n_threads = 3, .groups = 4 };
    for (size_t i = 0; i < orders->n; i++)
        orders->rows[i] = (MobileOrder){ .name = i % MOBILE_ORDERS_N ? "position, stealing" : "in-order",
                                         .placement = i % MOBILE_ORDERS_N < 6 ? "npu" : "profile",
                                         .prompt_tokens = i < MOBILE_ORDERS_N ? 700 : 900,
                                         .prefill_ms = i < MOBILE_ORDERS_N ? 50 : 100,
                                         .npu_bubble = 0.25,
                                         .cpu_bubble = 0.5,
                                         .ideal_ms = 40,
                                         .n_products = 30,
                                         .n_placed = 20,
                                         .n_stolen = 10 };
    orders->rows[MOBILE_ORDERS_N + 1].prefill_ms = 80; /* static */
    orders->rows[MOBILE_ORDERS_N + 7].prefill_ms = 64;
    snprintf(orders->why[1], sizeof(orders->why[1]), "for another reason");
    return report;
}

static void test_mobile_report_orders(void **state) {
    BenchReport report = made_orders();
    char *text = bench_written(&report, bench_report_table);
    json_t *json, *row;

    text_has(text, "all else on 3 more, 4 groups of 256 rows a step");
    text_has(text, "| 700 | in-order | npu | 50.0 | +0.0 % | x1.000 | 25.0 % | 50.0 % | 40.0 | 30 | 20 | 10 |");
    text_has(text, "| 900 | in-order | npu | 100.0 | +0.0 % | x0.800 | 25.0 % | 50.0 % | 40.0 | 30 | 20 | 10 |");
    text_has(text, "| 900 | position, stealing | profile | 64.0 | -36.0 % | x1.250 |");
    text_has(text, "Prompt of 900, by profile: for another reason.");
    assert_null(strstr(text, "Prompt of 700, by profile"));
    free(text);
    report.machine = json_object();
    json = bench_report_json(&report);
    assert_int_equal(json_array_size(json_object_get(json, "results")), MOBILE_POLICIES + 2 * MOBILE_ORDERS_N);
    row = json_array_get(json_object_get(json, "results"), MOBILE_POLICIES + MOBILE_ORDERS_N + 7);
    assert_string_equal(json_string_value(json_object_get(row, "test")), "mobile-order");
    assert_string_equal(json_string_value(json_object_get(row, "placement")), "profile");
    assert_string_equal(json_string_value(json_object_get(row, "why")), "for another reason");
    assert_true(json_real_value(json_object_get(row, "than_static")) > 1.249 &&
                json_real_value(json_object_get(row, "than_static")) < 1.251);
    assert_int_equal(json_integer_value(json_object_get(row, "placed")), 20);
    row = json_array_get(json_object_get(json, "results"), MOBILE_POLICIES + MOBILE_ORDERS_N);
    assert_string_equal(json_string_value(json_object_get(row, "why")), "");
    json_decref(json);
    bench_report_deinit(&report);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mobile_report_texts),
        cmocka_unit_test(test_mobile_report_json),
        cmocka_unit_test(test_mobile_report_orders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
