// SPDX-License-Identifier: Apache-2.0
/* Reports of `coordgen-bench flash`: figures from made-up sums, means over tasks, a column for each budget, and the
 * forms they are shown in. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "test/unit/tools/bench/bench_texts.h"
#include "tools/bench/speculation/flash_report.h"

enum {
    N_POLICIES = 2,
    N_CELLS = 4
};

static const FlashCell cells[N_CELLS] = {
    { .budget = 0, .rate = 250, .n_streamed = 28, .sweep_bytes = 1500000000, .way = "io_uring, direct" },
    { .budget = 0, .rate = 0, .n_streamed = 28, .sweep_bytes = 1500000000, .way = "io_uring, direct" },
    { .budget = 50, .rate = 250, .n_streamed = 14, .sweep_bytes = 750000000, .way = "io_uring, direct" },
    { .budget = 100 },
};

/* A first policy gives 20 tokens in 10 s if all is read at that rate, the second one in half of it, with a tenth of
 * drafting. */
static void make_report(FlashReport *report) {
    static const char *const policies[N_POLICIES] = { "flash-ar", "ours" };

    *report = (FlashReport){ 0 };
    report->data.tasks[0] = strdup("a|\n\"b\"");
    report->data.tasks[1] = strdup("code");
    report->data.n_tasks = 2;
    report->target = strdup("large");
    report->draft = strdup("small");
    report->target_bytes = 1700000000;
    report->draft_bytes = 500000000;
    assert_int_equal(flash_report_init(report, N_CELLS, policies, N_POLICIES), 0);
    memcpy(report->cells, cells, sizeof(cells));
    for (size_t cell = 0; cell < N_CELLS; cell++)
        for (size_t task = 0; task < 2; task++)
            for (size_t i = 0; i < N_POLICIES; i++) {
                SpecScore *score = &flash_report_scores(report, cell, task)[i];
                const uint64_t decode_ns = (uint64_t)10e9 / (cell + 1) / (task ? 4 : 1) / (i ? 2 : 1);

                assert_string_equal(score->mode, policies[i]);
                assert_string_equal(score->task, report->data.tasks[task]);
                score->n_requests = 1;
                score->n_output = 21;
                score->own.n_decoded = score->plain.n_decoded = 20;
                score->n_steps = i ? 5 : 20;
                score->n_rows = i ? 50 : 20;
                score->own.decode_ns = decode_ns;
                score->step_ns = decode_ns / 20 * 19;
                score->plain.decode_ns = i ? 2 * decode_ns : decode_ns;
                score->model_ns = i ? decode_ns / 20 : 0;
                score->draft_ns = i ? decode_ns / 20 : 0;
                score->flash_bytes = cell < 3 ? 5000000000 / (i ? 4 : 1) : 0;
                score->flash_ns = cell < 3 ? 20000000000 / (i ? 4 : 1) : 0;
            }
}

static void test_flash_report_table(void **state) {
    FlashReport report;
    char *text;

    make_report(&report);
    text = findings_written(&flash_report_findings, &report, false);
    text_has(text, "target large, 1700.0 MB of weights; draft small, 500.0 MB; a sweep reads 1500.0 MB at 0 %, by "
                   "io_uring, direct\n");
    text_has(text,
             "\n| 0 | 250 | a??\"b\" | flash-ar | 21 | 2.000 | 1.00 | | 1.00 | 1.0 | 250 | 250.0 | 0.000 | 0.950 |\n");
    text_has(text,
             "\n| 0 | 250 | a??\"b\" | ours | 21 | 4.000 | 2.00 | | 4.00 | 10.0 | 250 | 62.5 | 0.100 | 0.850 |\n");
    text_has(text, "\n| 0 | the disk's | code | ours | 21 | 32.000 | 2.00 |");
    text_has(text, "\n| 100 | in memory | code | flash-ar | 21 | 32.000 | 1.00 | | 1.00 | 1.0 | | | 0.000 | 0.950 |\n");
    text_has(text, "\n| 0 | 250 | ours | 8.000 | 2.00 | 2.00 | 2.00 | 4.00 |\n"); /* sqrt(4 x 16) */
    text_has(text, "flash of 250 MB/s:\n\n| workload | 0% | 50% | 100% |\n| --- | --- | --- | --- |\n"
                   "| flash-ar / a??\"b\" | 2.000 | 6.000 | 8.000 |\n| ours / a??\"b\" | 4.000 | 12.000 | 16.000 |\n"
                   "| flash-ar / code | 8.000 | 24.000 | 32.000 |\n");
    free(text);
    flash_report_findings.deinit(&report);
}

/* A budget without a measurement at a rate keeps its column, with an empty cell. */
static void test_flash_report_gaps(void **state) {
    FlashReport report;
    char *text;

    make_report(&report);
    text = findings_written(&flash_report_findings, &report, false);
    text_has(text, "the disk's own speed:\n\n| workload | 0% | 50% | 100% |\n| --- | --- | --- | --- |\n"
                   "| flash-ar / a??\"b\" | 4.000 | | 8.000 |\n");
    free(text);
    flash_report_findings.deinit(&report);
}

static void test_flash_report_spread(void **state) {
    FlashReport report;
    SpecScore *score;
    FlashMeans means;

    make_report(&report);
    score = &flash_report_scores(&report, 0, 1)[1];
    score->own.decode_ns /= 4;
    means = flash_report_means(&report, 0, 1);
    assert_float_equal(means.ratio, 4, 1e-6);
    assert_float_equal(means.least_ratio, 2, 1e-6);
    assert_float_equal(means.most_ratio, 8, 1e-6);
    flash_report_findings.deinit(&report);
}

static void test_flash_report_forms(void **state) {
    json_t *json = json_object(), *result, *means;
    FlashReport report;
    char *text;

    make_report(&report);
    text = findings_written(&flash_report_findings, &report, true);
    text_has(text, "test,policy,task,budget,rate,requests,tokens,tokens_per_s,ratio_to_flash_ar,");
    text_has(text, "\nflash,ours,\"a|\n\"\"b\"\"\",0,250,1,21,4,2,,4,10,250,62.5,0.1,0.85,\"this \"\"one\"\"\"\n");
    free(text);
    assert_true(flash_report_findings.json(&report, json));
    result = json_array_get(json_object_get(json, "results"), 9); /* of the third cell, the first task */
    assert_int_equal(json_array_size(json_object_get(json, "results")), N_CELLS * 2 * N_POLICIES);
    assert_string_equal(json_string_value(json_object_get(result, "policy")), "ours");
    assert_string_equal(json_string_value(json_object_get(result, "task")), "a|\n\"b\"");
    assert_int_equal(json_integer_value(json_object_get(result, "budget")), 50);
    assert_int_equal(json_integer_value(json_object_get(result, "rate")), 250);
    assert_true(json_real_value(json_object_get(result, "ratio_to_flash_ar")) == 2);
    assert_true(json_is_true(json_object_get(result, "identical")));
    assert_null(json_object_get(result, "lowest_window_ratio"));
    means = json_array_get(json_object_get(json, "means"), 1);
    assert_string_equal(json_string_value(json_object_get(means, "policy")), "ours");
    assert_true(fabs(json_real_value(json_object_get(means, "tokens_per_s")) - 8) < 1e-9);
    assert_string_equal(json_string_value(json_object_get(json_object_get(json, "models"), "draft")), "small");
    json_decref(json);
    flash_report_findings.deinit(&report);
}

static void plot(const FlashReport *report, char *text, size_t room) {
    char path[] = "/tmp/coordgen-plot-XXXXXX";
    FILE *file;
    ErrText err;

    close(mkstemp(path));
    assert_int_equal(flash_report_plot(report, "large with small", path, &err), 0);
    file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, room - 1, file)] = 0;
    fclose(file);
    unlink(path);
}

/* The plot is of the first budget with streamed layers. Without a limit, the flash's speed is what flash-ar has read
 * at. */
static void test_flash_report_plot(void **state) {
    char text[1 << 16];
    FlashReport report;

    make_report(&report);
    for (size_t task = 0; task < 2;
         task++) { /* a disk that is slower than it may be, and one that is as fast as it is */
        flash_report_scores(&report, 0, task)[0].flash_bytes /= 2;
        flash_report_scores(&report, 1, task)[0].flash_ns /= 10;
    }
    plot(&report, text, sizeof(text));
    text_has(text, "title,large with small\nx,MB/s of the flash,log\n");
    text_has(text, "\npoint,ours,250,");
    text_has(text, "\npoint,ours,2500,");
    assert_null(strstr(text, ",125,"));
    flash_report_findings.deinit(&report);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flash_report_table),  cmocka_unit_test(test_flash_report_gaps),
        cmocka_unit_test(test_flash_report_spread), cmocka_unit_test(test_flash_report_forms),
        cmocka_unit_test(test_flash_report_plot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
