// SPDX-License-Identifier: Apache-2.0
/* Traces of a run: the head appears only where it ran, with its rows; a load appears from its beginning, with the
 * tokenizer's thread and reads on lanes of their own, before the operators that need them. */
#undef NDEBUG
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/fixtures/loaded_engine.h"

enum {
    EVENTS_MAX = 20000,
};

/* Returns how many events have the name, and the rows of the last one. */
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

/* Two chunks of a prompt: the first wants no logits, the last those of one row. */
static void test_engine_trace_of_the_head(void **state) {
    static float logits[4 * LOADED_N_VOCAB];
    _cleanup_(trace_freep) Trace *trace = NULL;
    Loaded loaded = { 0 };
    char path[PATH_MAX];
    uint32_t tokens[LOADED_CHUNK] = { 3, 1, 4, 1, 5, 9, 2, 6 }, rows = 0;
    EngineSpan spans[2];
    Sequence *other;
    ErrText err = { 0 };

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
    spans[0] = (EngineSpan){
        .sequence = loaded.sequence, .tokens = tokens, .n = 4, .head = { .n_rows = 1, .logits = logits }
    };
    spans[1] = (EngineSpan){
        .sequence = other, .tokens = tokens, .n = 4, .head = { .n_rows = 2, .logits = logits + LOADED_N_VOCAB }
    };
    assert_int_equal(engine_forward_spans(loaded.engine, spans, 2, &err), 0);
    assert_int_equal(events_named(trace, "output.weight", &rows), 1);
    assert_int_equal(rows, 3);
    sequence_free(other);
    loaded_deinit(&loaded);
}

/* A step on an engine whose weights arrive meanwhile. */
static void load_and_step(Loaded *loaded, const char *path, WeightReading reading, Trace *trace) {
    static float logits[LOADED_N_TOKENS * LOADED_N_VOCAB];
    EngineOptions options;
    ErrText err = { 0 };

    account_table_init(&loaded->accounts);
    assert_int_equal(worker_pool_new(&loaded->pool, 2), 0);
    options = loaded_options(loaded, path, LOADED_ARRIVING);
    options.load.weights.reading = reading;
    options.trace = trace;
    if (engine_new(&loaded->engine, &options, &err))
        fail_msg("%s", err.text);
    assert_int_equal(sequence_new(&loaded->sequence, loaded->engine, LOADED_N_TOKENS, &err), 0);
    assert_int_equal(loaded_forward(loaded, logits, &err), 0);
    assert_false(engine_is_arriving(loaded->engine));
    loaded_deinit(loaded);
}

/* Pieces come in the order of the file: the i-th read ends when the i-th piece is laid out, and a lane asks for its
 * next read after its last one. */
static void check_reads(const Trace *trace, size_t *n_readsp, size_t *n_laid_outp) {
    const TraceEvent *reads[EVENTS_MAX], *last[TRACE_LANES_N] = { NULL };
    size_t n_reads = 0, n_laid_out = 0;

    for (size_t i = 0; i < trace_n(trace); i++) {
        const TraceEvent *event = trace_at(trace, i);

        if (!strcmp(event->name, "read")) {
            assert_true(event->lane >= TRACE_LANE_READ && event->bytes > 0);
            assert_true(!last[event->lane] || last[event->lane]->end_ns <= event->start_ns);
            last[event->lane] = reads[n_reads++] = event;
        } else if (!strcmp(event->name, "lay out")) {
            assert_int_equal(event->lane, TRACE_LANE_ENGINE);
            assert_true(n_laid_out < n_reads && reads[n_laid_out]->end_ns <= event->start_ns);
            assert_int_equal(reads[n_laid_out++]->bytes, event->bytes);
        }
    }
    *n_readsp = n_reads;
    *n_laid_outp = n_laid_out;
}

static void test_engine_trace_of_a_load(void **state) {
    static const WeightReading readings[] = { WEIGHT_READING_THREADS, WEIGHT_READING_CACHED };
    char path[PATH_MAX];

    loaded_make_package(*state, 8, false, false, path);
    for (size_t i = 0; i < ARRAY_LEN(readings); i++) {
        _cleanup_(trace_freep) Trace *trace = NULL;
        Loaded loaded = { 0 };
        size_t n_reads, n_laid_out, n_copied;
        uint32_t rows;

        assert_int_equal(trace_new(&trace, EVENTS_MAX), 0);
        load_and_step(&loaded, path, readings[i], trace);
        check_reads(trace, &n_reads, &n_laid_out);
        n_copied = events_named(trace, "copy and lay out", &rows);
        assert_int_equal(n_reads, n_laid_out);
        assert_true(readings[i] == WEIGHT_READING_CACHED ? !n_reads && n_copied : n_reads && !n_copied);
        assert_int_equal(events_named(trace, "load", &rows), 1);
        assert_int_equal(events_named(trace, "tokenizer", &rows), 1);
        assert_true(events_named(trace, "arrival", &rows) > 0);
        assert_true(events_named(trace, "ffn_down.weight", &rows) > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_engine_trace_of_the_head),
        WITH_FOLDER(test_engine_trace_of_a_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
