// SPDX-License-Identifier: Apache-2.0
/* The timeline: line, colour and place of an event, order of bands, and a size that does not grow with the events. */
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

static char *draw(const Timeline *timeline) {
    StrBuf text = STR_BUF_NULL;

    timeline_svg(&text, timeline, "a & b");
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

/* 880 pixels are 880 ms. Lines are 17 pixels apart, the first band's NPU is at 87. */
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
    text = draw(timeline);
    has(text, "a &amp; b");
    has(text, "one &lt; two");
    has(text, "<path stroke=\"#0072b2\" stroke-width=\"14\" d=\"M90 87h100\"/>");   /* the NPU's product */
    has(text, "<path stroke=\"#0072b2\" stroke-width=\"14\" d=\"M950 104h20\"/>");  /* the head's, on a processor */
    has(text, "<path stroke=\"#e69f00\" stroke-width=\"14\" d=\"M190 104h50\"/>");  /* attention */
    has(text, "<path stroke=\"#009e73\" stroke-width=\"14\" d=\"M240 104h10\"/>");  /* another operator */
    has(text, "<path stroke=\"#d55e00\" stroke-width=\"14\" d=\"M250 104h100\"/>"); /* waiting */
    has(text, "<path stroke=\"#56b4e9\" stroke-width=\"14\" d=\"M260 121h80\"/>");
    has(text, "<path stroke=\"#cc79a7\" stroke-width=\"14\" d=\"M390 121h10\"/>");
    has(text, "<path d=\"M530.0 77.0v");
    has(text, ">800 ms</text>");
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
    text = draw(timeline);
    assert_true(strstr(text, "earlier") < strstr(text, "later"));
    has(text, "width=\"440.0\" height=\"14.0\" fill=\"#eeeeee\"");
    has(text, "d=\"M90 148h100\"/>");
    has(text, "d=\"M140 165h100\"/>");
    has_not(text, "dasharray");
    has_not(text, ">loads</text>");
    free(text);
    timeline_free(timeline);
}

/* The JSON has each event by itself. */
static void test_timeline_json(void **state) {
    Timeline *timeline;
    json_t *document, *band, *span;
    const char *line, *kind;
    double start_ms, end_ms;

    assert_int_equal(timeline_new(&timeline), 0);
    add("ffn_up", "product", TRACE_LANE_NPU, 3, 10, 30);
    add("attention", "attention", TRACE_LANE_ENGINE, 3, 30, 70);
    assert_int_equal(timeline_add(timeline, 7, "later", trace, 0, BEGIN + 5 * MS, 0, BEGIN + 60 * MS), 0);
    assert_int_equal(timeline_add(timeline, 3, "earlier", trace, 2, BEGIN, BEGIN + 4 * MS, BEGIN + 8 * MS), 0);
    document = timeline_json(timeline, "title");
    assert_non_null(document);
    assert_string_equal(json_string_value(json_object_get(document, "title")), "title");
    band = json_array_get(json_object_get(document, "bands"), 0);
    assert_string_equal(json_string_value(json_object_get(band, "name")), "earlier");
    assert_true(json_real_value(json_object_get(band, "prompt_ms")) == 4);
    assert_int_equal(json_array_size(json_object_get(band, "spans")), 0);
    band = json_array_get(json_object_get(document, "bands"), 1);
    assert_true(json_real_value(json_object_get(band, "ms")) == 55);
    assert_null(json_object_get(band, "prompt_ms"));
    span = json_array_get(json_object_get(band, "spans"), 1);
    assert_int_equal(json_unpack(span, "{s:s, s:s, s:F, s:F}", "line", &line, "kind", &kind, "start_ms", &start_ms,
                                 "end_ms", &end_ms),
                     0);
    assert_string_equal(line, "processors");
    assert_string_equal(kind, "attention");
    assert_true(start_ms == 25 && end_ms == 55); /* past the band's end it is cut */
    json_decref(document);
    timeline_free(timeline);
}

/* The name of a file decides its format. */
static void test_timeline_files(void **state) {
    static const struct {
        const char *name, *begin;
    } files[] = { { "t.svg", "<svg" }, { "t.json", "{" }, { "json", "<svg" } };
    char folder[256], path[300], begin[8] = "";
    Timeline *timeline;
    ErrText err;

    test_folder_make(folder);
    assert_int_equal(timeline_new(&timeline), 0);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", folder, files[i].name);
        assert_int_equal(timeline_write(timeline, "title", path, &err), 0);
        file = fopen(path, "r");
        assert_non_null(file);
        assert_non_null(fgets(begin, sizeof(begin), file));
        assert_memory_equal(begin, files[i].begin, strlen(files[i].begin));
        fclose(file);
    }
    timeline_free(timeline);
    test_folder_remove(folder);
}

/* A pixel shows what ran longest in it. */
static void test_timeline_short(void **state) {
    Timeline *timeline;
    char *text;

    assert_int_equal(timeline_new(&timeline), 0);
    for (uint64_t i = 0; i < 10000; i++)
        add(i % 3 ? "attention" : "add", i % 3 ? "attention" : "element-wise", TRACE_LANE_ENGINE, 1, i, i + 1);
    assert_int_equal(timeline_add(timeline, 0, "much", trace, 0, BEGIN, 0, BEGIN + 10000 * MS), 0);
    text = draw(timeline);
    has(text, "stroke=\"#e69f00\" stroke-width=\"14\" d=\"M90 104h880\"/>");
    assert_true(strlen(text) < 8000);
    free(text);
    for (size_t i = 1; i < TIMELINE_BANDS_MAX; i++)
        assert_int_equal(timeline_add(timeline, 0, "more", trace, 9999, BEGIN, 0, BEGIN + MS), 0);
    assert_int_equal(timeline_add(timeline, 0, "too many", trace, 9999, BEGIN, 0, BEGIN + MS), -E2BIG);
    timeline_free(timeline);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_timeline_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timeline_json, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timeline_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timeline_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timeline_short, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
