// SPDX-License-Identifier: Apache-2.0
/* Scores of `coordgen-bench spec`: figures from hand-made answers, windows of whole steps, and the forms they are shown
 * in. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/tools/bench/bench_texts.h"
#include "tools/bench/speculation/spec_report.h"

enum {
    N = 200
};

/* Makes an answer of equal steps; the first token comes with the prompt, at 1000 ns. */
static void make_answer(SpecAnswer *answer, uint64_t *ends_ns, size_t n, size_t per_step, uint64_t step_ns) {
    const size_t n_steps = (n - 1 + per_step - 1) / per_step;

    ends_ns[0] = 1000;
    for (size_t i = 1; i < n; i++)
        ends_ns[i] = 1000 + ((i - 1) / per_step + 1) * step_ns;
    *answer = (SpecAnswer){
        .ends_ns = ends_ns,
        .n = n,
        .n_decoded = n - 1,
        .n_prompt = 50,
        .prefill_ns = 1000,
        .total_ns = ends_ns[n - 1],
        .report = { .n_steps = n_steps, .n_rows = n_steps * per_step, .n_rows_idle = n_steps * 2 },
    };
}

static void test_spec_score_window(void **state) {
    uint64_t plain_ns[N], ends_ns[N];
    SpecAnswer plain, answer;

    make_answer(&plain, plain_ns, N, 1, 100);
    make_answer(&answer, ends_ns, N, 1, 100);
    assert_true(spec_lowest_window(&answer, &plain) == 1);
    make_answer(&answer, ends_ns, N, 4, 200);
    assert_true(spec_lowest_window(&answer, &plain) == 2);
    make_answer(&answer, ends_ns, N, 1, 100);
    for (size_t i = 100; i < N; i++) /* one step of 700 ns: 64 tokens take 7000 instead of 6400 */
        ends_ns[i] += 600;
    assert_true(fabs(spec_lowest_window(&answer, &plain) - 6400.0 / 7000) < 1e-12);
    make_answer(&plain, plain_ns, SPEC_WINDOW, 1, 100); /* 63 of decoding */
    make_answer(&answer, ends_ns, SPEC_WINDOW, 1, 150);
    assert_true(spec_lowest_window(&answer, &plain) == 0);
    make_answer(&plain, plain_ns, SPEC_WINDOW + 1, 1, 100);
    make_answer(&answer, ends_ns, SPEC_WINDOW + 1, 1, 200);
    assert_true(spec_lowest_window(&answer, &plain) == 0.5);
}

/* A step that began before the window is not in it, and one that ends behind its 64th token is, with all its tokens. */
static void test_spec_score_window_of_whole_steps(void **state) {
    uint64_t plain_ns[N], ends_ns[N];
    SpecAnswer plain, answer;

    make_answer(&plain, plain_ns, 127, 1, 100);
    make_answer(&answer, ends_ns, 127, 63, 6300);
    assert_true(spec_lowest_window(&answer, &plain) == 1);
}

static double figure(const SpecScore *score, const char *key) {
    for (size_t i = 0; i < SPEC_FIGURES; i++)
        if (!strcmp(spec_figures[i].key, key))
            return spec_figures[i].value(score);
    fail_msg("%s", key);
    return 0;
}

static void expect_near(double value, double expected) {
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.12g instead of %.12g", value, expected);
}

static void test_spec_score_figures(void **state) {
    uint64_t plain_ns[N], ends_ns[N], short_ns[2];
    SpecAnswer plain, answer, one;
    SpecScore score = { .mode = "sam", .task = "ui" };

    make_answer(&plain, plain_ns, 101, 1, 100);
    make_answer(&answer, ends_ns, 101, 4, 200); /* 25 steps of 4 rows: 5000 ns for 10000 */
    answer.prefill_ns = 1500;                   /* of them the first 500 */
    answer.draft_bytes = 3000000;
    answer.report.draft_ns = 25000;
    answer.report.prompt_head_ns = 100000;
    answer.report.model_ns = 900;
    answer.prompt_model_ns = 200;
    answer.report.step_ns = 4400;
    answer.flash = (WeightsRingCounts){ .read_bytes = 70000, .reading_ns = 3000 };
    answer.report.drafted[SPECULATION_SAM] = 75;
    answer.report.accepted[SPECULATION_SAM] = 70;
    assert_true(isnan(figure(&score, "accept_length")));
    spec_score_add(&score, &answer, &plain);
    make_answer(&one, short_ns, 1, 1, 100); /* an answer of one token: nothing was decoded */
    one.draft_bytes = 2000000;
    spec_score_add(&score, &one, &one);
    assert_int_equal(score.n_requests, 2);
    assert_int_equal(score.n_output, 102);
    assert_true(score.model_ns == 700 && score.step_ns == 4400); /* the prompt's time is not decoding's */
    assert_true(score.flash_bytes == 70000 && score.flash_ns == 3000);
    expect_near(figure(&score, "accept_length"), 4);
    expect_near(figure(&score, "ratio_to_plain"), 10000.0 / 4500);
    expect_near(figure(&score, "tokens_per_s"), 100 / 4500e-9);
    expect_near(figure(&score, "end_to_end_ratio"), 12000.0 / 7000);
    expect_near(figure(&score, "lowest_window_ratio"), 2);
    expect_near(figure(&score, "rows_per_step"), 4);
    expect_near(figure(&score, "valid_share"), 100.0 / 150);
    expect_near(figure(&score, "wasted_share"), 0);
    expect_near(figure(&score, "idle_share"), 50.0 / 150);
    expect_near(figure(&score, "draft_us_per_step"), 1);
    expect_near(figure(&score, "prompt_head_us_per_token"), 1);
    expect_near(figure(&score, "prefill_more_us_per_token"), 0.005);
    expect_near(figure(&score, "draft_mb"), 3);
}

/* If plain decoding has only the first tokens, speeds are compared, and windows end with its tokens. */
static void test_spec_score_shorter_plain(void **state) {
    uint64_t plain_ns[N], ends_ns[N];
    SpecAnswer plain, answer;
    SpecScore score = { .mode = "ours", .task = "code" };

    make_answer(&plain, plain_ns, 11, 1, 100);
    make_answer(&answer, ends_ns, 101, 4, 200);
    spec_score_add(&score, &answer, &plain);
    expect_near(figure(&score, "ratio_to_plain"), 2);
    assert_true(isnan(figure(&score, "lowest_window_ratio")));
    make_answer(&plain, plain_ns, 89, 1, 100);
    make_answer(&answer, ends_ns, 101, 4, 200);
    assert_true(spec_lowest_window(&answer, &plain) == 2);
}

/* The name of a task comes from a file and may be anything. */
static void test_spec_score_forms(void **state) {
    uint64_t plain_ns[N], ends_ns[N];
    SpecAnswer plain, answer;
    SpecScore scores[] = { { .mode = "plain", .task = "a|\n\"b\"" }, { .mode = "sam", .task = "a|\n\"b\"" } };
    const SpecReport report = { .scores = scores, .n = 2 };
    json_t *json = json_object(), *sam;
    char *text;

    make_answer(&plain, plain_ns, 21, 1, 100);
    make_answer(&answer, ends_ns, 21, 4, 200);
    answer.report.drafted[SPECULATION_SAM] = 15;
    spec_score_add(&scores[0], &plain, &plain);
    spec_score_add(&scores[1], &answer, &plain);
    text = findings_written(&spec_report_findings, &report, false);
    assert_non_null(strstr(text, "\n| a??\"b\" | sam | 1 | 21 | 4.00 | 20000000.0 | 2.00 | | 1.50 |"));
    free(text);
    text = findings_written(&spec_report_findings, &report, true);
    assert_non_null(strstr(text, "\nspec,\"a|\n\"\"b\"\"\",sam,1,21,4,2e+07,2,,1.5,"));
    assert_non_null(strstr(text, ",\"this \"\"one\"\"\"\n"));
    free(text);
    assert_true(spec_report_findings.json(&report, json));
    sam = json_array_get(json_object_get(json, "results"), 1);
    assert_string_equal(json_string_value(json_object_get(sam, "task")), "a|\n\"b\"");
    assert_string_equal(json_string_value(json_object_get(sam, "mode")), "sam");
    assert_true(json_is_true(json_object_get(sam, "identical")));
    assert_true(json_real_value(json_object_get(sam, "accept_length")) == 4);
    assert_null(json_object_get(sam, "lowest_window_ratio"));
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(json_object_get(sam, "sources"), "sam"), "drafted")), 15);
    json_decref(json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_score_window),  cmocka_unit_test(test_spec_score_window_of_whole_steps),
        cmocka_unit_test(test_spec_score_figures), cmocka_unit_test(test_spec_score_shorter_plain),
        cmocka_unit_test(test_spec_score_forms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
