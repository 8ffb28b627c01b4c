// SPDX-License-Identifier: Apache-2.0
/* A trace is valid JSON with the events in their order; events without room are counted; a file that cannot be made is
 * named. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "scheduler/operators/trace.h"
#include "test/unit/fixtures/model_maker.h"

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
        trace_add(trace, &(TraceEvent){ .name = "attn_q.weight",
                                        .category = "linear",
                                        .start_ns = 5000 + 1000 * i,
                                        .end_ns = 5000 + 1000 * i + 250,
                                        .layer = (int32_t)(i % 3) - 1,
                                        .rows = i });
    assert_int_equal(trace_n(trace), EVENTS);
    assert_int_equal(trace_n_lost(trace), 7);
    assert_int_equal(trace_at(trace, 5)->rows, 5);
    json = written(trace, path);
    events = json_object_get(json, "traceEvents");
    assert_int_equal(json_array_size(events), EVENTS + 1); /* EVENTS events, and the name of the only lane */
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

static const char *lane_name(const json_t *events, json_int_t tid) {
    const char *name = NULL;

    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);

        if (strcmp(json_string_value(json_object_get(event, "ph")), "M") ||
            json_integer_value(json_object_get(event, "tid")) != tid)
            continue;
        assert_null(name);
        assert_string_equal(json_string_value(json_object_get(event, "name")), "thread_name");
        name = json_string_value(json_object_get(json_object_get(event, "args"), "name"));
    }
    return name;
}

/* A read that is noticed late began before events that were added earlier; every lane with events has its name. */
static void test_trace_has_lanes(void **state) {
    char folder[256], path[300];
    json_t *json, *events, *read, *worker;
    Trace *trace;

    test_folder_make(folder);
    snprintf(path, sizeof(path), "%s/trace.json", folder);
    assert_int_equal(trace_new(&trace, 4), 0);
    trace_add(trace, &(TraceEvent){ .name = "arrival", .category = "load", .start_ns = 9000, .end_ns = 9500 });
    trace_add(trace, &(TraceEvent){ .name = "read",
                                    .category = "load",
                                    .start_ns = 4000,
                                    .end_ns = 8000,
                                    .layer = -1,
                                    .lane = TRACE_LANE_READ + TRACE_READS - 1,
                                    .bytes = (uint64_t)5 << 32 });
    trace_add(trace, &(TraceEvent){ .name = "attention",
                                    .category = "attention",
                                    .start_ns = 9600,
                                    .end_ns = 9700,
                                    .row = 128,
                                    .rows = 64,
                                    .lane = TRACE_LANE_WORKER + TRACE_WORKERS - 1 });
    json = written(trace, path);
    events = json_object_get(json, "traceEvents");
    assert_int_equal(json_array_size(events), 6);
    assert_true(json_number_value(json_object_get(json_array_get(events, 0), "ts")) == 5);
    read = json_array_get(events, 1);
    assert_true(json_number_value(json_object_get(read, "ts")) == 0);
    assert_true(json_number_value(json_object_get(read, "dur")) == 4);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(read, "args"), "bytes")), (json_int_t)5 << 32);
    assert_string_equal(lane_name(events, 1), "engine");
    assert_null(lane_name(events, 2));
    assert_string_equal(lane_name(events, json_integer_value(json_object_get(read, "tid"))), "read 8");
    worker = json_array_get(events, 2);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(worker, "args"), "row")), 128);
    assert_string_equal(lane_name(events, json_integer_value(json_object_get(worker, "tid"))), "worker 63");
    json_decref(json);
    trace_free(trace);
    test_folder_remove(folder);
}

enum {
    ADDERS = 4,
    EACH = 5000,
};

static void *add_many(void *arg) {
    for (uint32_t i = 0; i < EACH; i++)
        trace_add(arg, &(TraceEvent){ .name = "add", .category = "element-wise", .row = i, .rows = i + 1 });
    return NULL;
}

/* Threads that add at the same time get different places, or their events are counted as lost. */
static void test_trace_of_several_threads(void **state) {
    pthread_t threads[ADDERS];
    Trace *trace;
    size_t n_seen[EACH] = { 0 };

    assert_int_equal(trace_new(&trace, ADDERS * EACH - 10), 0);
    for (size_t i = 0; i < ADDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, trace), 0);
    for (size_t i = 0; i < ADDERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(trace_n(trace), ADDERS * EACH - 10);
    assert_int_equal(trace_n_lost(trace), 10);
    for (size_t i = 0; i < trace_n(trace); i++) {
        assert_int_equal(trace_at(trace, i)->rows, trace_at(trace, i)->row + 1);
        n_seen[trace_at(trace, i)->row]++;
    }
    for (size_t i = 0; i + 10 < EACH; i++) /* the last ones may have been lost */
        assert_int_equal(n_seen[i], ADDERS);
    trace_free(trace);
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
        cmocka_unit_test(test_trace_has_lanes),
        cmocka_unit_test(test_trace_of_several_threads),
        cmocka_unit_test(test_trace_names_the_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
