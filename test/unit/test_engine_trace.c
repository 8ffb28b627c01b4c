/* What a trace says of a run: the head only where it ran, with the rows that it had. */
#undef NDEBUG
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/loaded_engine.h"

enum {
    EVENTS_MAX = 20000,
};

/* How many events have the name, and the rows of the last of them. */
static size_t events_named(const Trace *trace, const char *name, uint32_t *rowsp) {
    size_t n = 0;

    for (size_t i = 0; i < trace_n(trace); i++) {
        const TraceEvent *event = trace_at(trace, i);

        assert_true(event->start_ns <= event->end_ns);
        if (strcmp(event->name, name))
            continue;
        *rowsp = event->rows;
        n++;
    }
    assert_int_equal(trace_n_lost(trace), 0);
    return n;
}

/* Of two chunks of a prompt the first wants no logits and the last those of one row. */
static void test_engine_trace_of_the_head(void **state) {
    static float logits[4 * LOADED_N_VOCAB];
    _cleanup_(trace_freep) Trace *trace = NULL;
    Loaded loaded = { 0 };
    char path[PATH_MAX];
    uint32_t tokens[LOADED_CHUNK] = { 3, 1, 4, 1, 5, 9, 2, 6 }, rows = 0;
    EngineSpan spans[2];
    Sequence *other;
    ErrText err = { "" };

    loaded_make_package(*state, 8, false, false, path);
    loaded_init(&loaded, path, 0);
    assert_int_equal(trace_new(&trace, EVENTS_MAX), 0);
    engine_set_trace(loaded.engine, trace);
    assert_int_equal(engine_forward(loaded.engine, loaded.sequence, tokens, LOADED_CHUNK, 0, NULL, &err), 0);
    assert_true(trace_n(trace) > 0);
    assert_int_equal(events_named(trace, "output.weight", &rows), 0);
    assert_int_equal(engine_forward(loaded.engine, loaded.sequence, tokens, LOADED_CHUNK, 1, logits, &err), 0);
    assert_int_equal(events_named(trace, "output.weight", &rows), 1);
    assert_int_equal(rows, 1);

    trace_clear(trace);
    assert_int_equal(sequence_new(&other, loaded.engine, 4, &err), 0);
    spans[0] = (EngineSpan){ loaded.sequence, tokens, 4, 1, logits, false };
    spans[1] = (EngineSpan){ other, tokens, 4, 2, logits + LOADED_N_VOCAB, false };
    assert_int_equal(engine_forward_spans(loaded.engine, spans, 2, &err), 0);
    assert_int_equal(events_named(trace, "output.weight", &rows), 1);
    assert_int_equal(rows, 3);
    sequence_free(other);
    loaded_deinit(&loaded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_engine_trace_of_the_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
