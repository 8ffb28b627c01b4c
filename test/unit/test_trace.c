/* A trace is valid JSON with the events in their order; what had no room is counted; a file that cannot be made is named. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "scheduler/trace.h"
#include "test/unit/model_maker.h"

enum {
    EVENTS = 3000, /* more than one part of the text */
};

static json_t *written(const Trace *trace, const char *path) {
    json_error_t error;
    json_t *json;
    ErrText err;

    assert_int_equal(trace_write(trace, path, &err), 0);
    json = json_load_file(path, 0, &error);
    if (!json)
        fail_msg("%s: %d: %s", path, error.line, error.text);
    return json;
}

static void test_trace_is_json(void **state) {
    char folder[256], path[300];
    json_t *json, *events;
    Trace *trace;

    test_folder_make(folder);
    snprintf(path, sizeof(path), "%s/trace.json", folder);
    assert_int_equal(trace_new(&trace, EVENTS), 0);
    json = written(trace, path);
    assert_int_equal(json_array_size(json_object_get(json, "traceEvents")), 0);
    json_decref(json);
    for (uint32_t i = 0; i < EVENTS + 7; i++)
        trace_add(trace, &(TraceEvent){ "attn_q.weight", "linear", 5000 + 1000 * i, 5000 + 1000 * i + 250,
                                        (int32_t)(i % 3) - 1, i });
    assert_int_equal(trace_n(trace), EVENTS);
    assert_int_equal(trace_n_lost(trace), 7);
    assert_int_equal(trace_at(trace, 5)->rows, 5);
    json = written(trace, path);
    events = json_object_get(json, "traceEvents");
    assert_int_equal(json_array_size(events), EVENTS);
    for (size_t i = 0; i < EVENTS; i++) {
        json_t *event = json_array_get(events, i), *args = json_object_get(event, "args");

        assert_string_equal(json_string_value(json_object_get(event, "name")), "attn_q.weight");
        assert_string_equal(json_string_value(json_object_get(event, "ph")), "X");
        assert_true(json_number_value(json_object_get(event, "ts")) == (double)i);
        assert_true(json_number_value(json_object_get(event, "dur")) == 0.25);
        assert_int_equal(json_integer_value(json_object_get(args, "rows")), i);
        assert_int_equal(json_object_get(args, "layer") ? json_integer_value(json_object_get(args, "layer")) : -1,
                         (int)(i % 3) - 1);
    }
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "otherData"), "lost")), 7);
    json_decref(json);
    trace_clear(trace);
    assert_int_equal(trace_n(trace) + trace_n_lost(trace), 0);
    trace_free(trace);
    test_folder_remove(folder);
}

static void test_trace_names_the_file(void **state) {
    ErrText err = { 0 };
    Trace *trace;

    assert_int_equal(trace_new(&trace, 1), 0);
    assert_int_equal(trace_write(trace, "/nonexistent/trace.json", &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent"));
    trace_free(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace_is_json),
        cmocka_unit_test(test_trace_names_the_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
