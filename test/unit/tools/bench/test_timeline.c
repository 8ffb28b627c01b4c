// SPDX-License-Identifier: Apache-2.0
/* The timeline: line, kind and place of an event, order of bands, and a size that does not grow with the events. */
#undef NDEBUG
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/fixtures/model_maker.h"
#include "tools/bench/mobile/timeline.h"

#define MS UINT64_C(1000000)
#define BEGIN (5000 * MS)

static Trace *trace;

static int setup(void **state) {
    return trace_new(&trace, 20000);
}

static int teardown(void **state) {
    trace_free(trace);
    return 0;
}

static void add(const char *name, const char *category, uint32_t lane, int32_t layer, uint64_t start_ms,
                uint64_t end_ms) {
    trace_add(trace, &(TraceEvent){ .name = name,
                                    .category = category,
                                    .lane = lane,
                                    .layer = layer,
                                    .start_ns = BEGIN + start_ms * MS,
                                    .end_ns = BEGIN + end_ms * MS });
}

static char *csv_of(const Timeline *timeline) {
    StrBuf text = STR_BUF_NULL;

    timeline_csv(&text, timeline, "a & b");
    assert_false(str_buf_failed(&text));
    return str_buf_steal(&text);
}

static void has(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text);
}

static void has_not(const char *text, const char *part) {
    if (strstr(text, part))
        fail_msg("'%s' is in:\n%s", part, text);
}

/* 880 parts are 880 ms. */
static void test_timeline_lines(void **state) {
    Timeline *timeline;
    char *text;

    assert_int_equal(timeline_new(&timeline), 0);
    add("before", "product", TRACE_LANE_ENGINE, 0, 0, 100); /* not of the band */
    add("ffn_up", "product", TRACE_LANE_ENGINE, 3, 0, 100);
    add("attention", "attention", TRACE_LANE_ENGINE, 3, 100, 150);
    add("gated", "element-wise", TRACE_LANE_ENGINE, 3, 150, 160);
    add("arrival", "load", TRACE_LANE_ENGINE, 4, 160, 260);
    add("output", "product", TRACE_LANE_ENGINE, -1, 860, 900); /* the head, and past the end */
    add("graph of prompts", "load", TRACE_LANE_READ, 0, 170, 250);
    add("graph of decoding", "load", TRACE_LANE_READ, 0, 300, 310);
    add("measured", "measured", TRACE_LANE_RUN, -1, 0, 880);
    assert_int_equal(timeline_add(timeline, 0, "one < two", trace, 1, BEGIN, BEGIN + 440 * MS, BEGIN + 880 * MS), 0);
    text = csv_of(timeline);
    has(text, "title,a & b\nx,ms\n");
    has(text, "band,880.00,440.00,one < two\n");
    has(text, "span,NPU,products,0.00,100.00\n");
    has(text, "span,processors,products,860.00,880.00\n"); /* the head's, up to the band's end */
    has(text, "span,processors,attention,100.00,150.00\n");
    has(text, "span,processors,other operators,150.00,160.00\n");
    has(text, "span,processors,waiting for a load,160.00,260.00\n");
    has(text, "span,loads,graphs of prompts,170.00,250.00\n");
    has(text, "span,loads,graphs of decoding,300.00,310.00\n");
    free(text);
    timeline_free(timeline);
}

/* An NPU with a queue has a line in the trace, so products on the engine's line were taken by a processor. A band
 * without loads has no line for them. */
static void test_timeline_queue(void **state) {
    Timeline *timeline;
    char *text;

    assert_int_equal(timeline_new(&timeline), 0);
    add("ffn_up", "product", TRACE_LANE_NPU, 3, 0, 100);
    add("ffn_up", "product", TRACE_LANE_ENGINE, 3, 50, 150);
    assert_int_equal(timeline_add(timeline, 7, "later", trace, 0, BEGIN, 0, BEGIN + 880 * MS), 0);
    assert_int_equal(timeline_add(timeline, 3, "earlier", trace, 2, BEGIN, 0, BEGIN + 440 * MS), 0);
    text = csv_of(timeline);
    assert_true(strstr(text, "earlier") < strstr(text, "later"));
    has(text, "band,440.00,0.00,earlier\n");
    has(text, "span,NPU,products,0.00,100.00\n");
    has(text, "span,processors,products,50.00,150.00\n");
    has_not(text, "span,loads");
    free(text);
    timeline_free(timeline);
}

static void test_timeline_write(void **state) {
    char folder[256], path[300], begin[16] = "";
    Timeline *timeline;
    ErrText err;
    FILE *file;

    test_folder_make(folder);
    assert_int_equal(timeline_new(&timeline), 0);
    snprintf(path, sizeof(path), "%s/t.csv", folder);
    assert_int_equal(timeline_write(timeline, "name", path, &err), 0);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(begin, sizeof(begin), file));
    assert_string_equal(begin, "title,name\n");
    fclose(file);
    timeline_free(timeline);
    test_folder_remove(folder);
}

/* A part shows what ran longest in it. */
static void test_timeline_short(void **state) {
    Timeline *timeline;
    char *text;

    assert_int_equal(timeline_new(&timeline), 0);
    for (uint64_t i = 0; i < 10000; i++)
        add(i % 3 ? "attention" : "add", i % 3 ? "attention" : "element-wise", TRACE_LANE_ENGINE, 1, i, i + 1);
    assert_int_equal(timeline_add(timeline, 0, "much", trace, 0, BEGIN, 0, BEGIN + 10000 * MS), 0);
    text = csv_of(timeline);
    has(text, "span,processors,attention,0.00,10000.00\n");
    assert_true(strlen(text) < 1000);
    free(text);
    for (size_t i = 1; i < TIMELINE_BANDS_MAX; i++)
        assert_int_equal(timeline_add(timeline, 0, "more", trace, 9999, BEGIN, 0, BEGIN + MS), 0);
    assert_int_equal(timeline_add(timeline, 0, "too many", trace, 9999, BEGIN, 0, BEGIN + MS), -E2BIG);
    timeline_free(timeline);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_timeline_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timeline_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timeline_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timeline_short, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
