// SPDX-License-Identifier: Apache-2.0
/* Measures prefill and decode of one sequence, without the service. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "tools/bench/bench.h"

/* Tokens follow Weyl's sequence over the vocabulary. */
uint32_t bench_token(const EngineInfo *info, size_t position) {
    return (uint32_t)((position * 0x9e3779b1u >> 7) % info->n_vocab);
}

int bench_fill(const BenchRun *run, Sequence *sequence, size_t n_tokens, float *logits, ErrText *err) {
    const EngineInfo *info = engine_info(run->engine);
    const size_t chunk = engine_chunk_tokens(run->engine), first = sequence_n_tokens(sequence);
    _cleanup_(freep) uint32_t *tokens = malloc(chunk * sizeof(*tokens));

    if (!tokens)
        return err_no_memory(err);
    for (size_t done = 0, n; done < n_tokens; done += n) {
        int r;

        n = MIN(n_tokens - done, chunk);
        for (size_t i = 0; i < n; i++)
            tokens[i] = bench_token(info, first + done + i);
        r = engine_forward(run->engine, sequence, tokens, n, done + n == n_tokens ? 1 : 0, logits, err);
        if (r)
            return r == ENGINE_E_READ ? r : err_set(err, r, "a step of %zu tokens failed (%d)", n, r);
    }
    return 0;
}

int bench_check_context(const BenchRun *run, size_t n_before, size_t n_tokens, ErrText *err) {
    const uint32_t n_context = engine_info(run->engine)->n_context;

    return n_before + n_tokens <= n_context
               ? 0
               : err_set(err, -EINVAL, "%zu tokens after %zu: the model has a context of %u", n_tokens, n_before,
                         n_context);
}

/* Runs one turn of a test on a sequence. */
typedef int TurnFn(const BenchRun *run, Sequence *sequence, size_t n_tokens, float *logits, ErrText *err);

static int prefill_turn(const BenchRun *run, Sequence *sequence, size_t n_tokens, float *logits, ErrText *err) {
    return bench_fill(run, sequence, n_tokens, logits, err);
}

static int decode_turn(const BenchRun *run, Sequence *sequence, size_t n_tokens, float *logits, ErrText *err) {
    int r = 0;

    for (size_t i = 0; i < n_tokens && !r; i++)
        r = bench_fill(run, sequence, 1, logits, err);
    return r;
}

/* Returns the tokens a second that the machine could do in the test. */
typedef double FloorFn(const BenchRun *run, const BenchResult *result, const FloorMoment *moment);

/* The floor counts all multiplications of weights by the rows. */
static double prefill_floor(const BenchRun *run, const BenchResult *result, const FloorMoment *moment) {
    const EngineInfo *info = engine_info(run->engine);
    const double ops = 2 * ((double)info->layer_products * (double)result->rows + (double)info->head_products);

    return moment->gops_per_s * 1e9 / ops * (double)result->rows;
}

/* The floor counts the bytes of an average step: the weights, and the keys and values that the step sees. */
static double decode_floor(const BenchRun *run, const BenchResult *result, const FloorMoment *moment) {
    double kv_bytes = 0;

    for (size_t i = 1; i <= result->rows; i++)
        kv_bytes += (double)engine_kv_read_bytes(run->engine, result->depth + i) / (double)result->rows;
    return moment->gbytes_per_s * 1e9 / ((double)engine_info(run->engine)->weights.step_read_bytes + kv_bytes);
}

/* Runs the turns of a test; the first one warms up and does not count. */
static int time_turns(const BenchRun *run, TurnFn *fn, FloorFn *floor_fn, BenchResult *result, ErrText *err) {
    const EngineInfo *info = engine_info(run->engine);
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    _cleanup_(freep) float *logits = malloc(info->n_vocab * sizeof(*logits));
    _cleanup_(bench_turns_deinit) BenchTurns turns = { 0 };
    FloorMoment moment;
    double before = 0;
    int r;

    if (!logits || bench_turns_init(&turns, run->options->repeats))
        return err_no_memory(err);
    r = bench_check_context(run, result->depth, result->rows, err);
    if (r)
        return r;
    r = sequence_new(&sequence, run->engine, result->depth + result->rows, err);
    if (!r && result->depth)
        r = bench_fill(run, sequence, result->depth, logits, err);
    for (size_t turn = 0; turn <= run->options->repeats && !r; turn++) {
        uint64_t start_ns, time_ns;
        double after;

        if (run->trace && turn == run->options->repeats) {
            trace_clear(run->trace);
            engine_set_trace(run->engine, run->trace);
        }
        start_ns = clock_now_ns();
        sequence_rewind(sequence, result->depth);
        r = fn(run, sequence, result->rows, logits, err);
        time_ns = clock_now_ns() - start_ns;
        if (!r)
            r = floors_measure_now(run->floors, info->kernel, run->pool, &moment);
        if (r)
            break;
        after = floor_fn(run, result, &moment);
        if (turn)
            bench_turns_add(&turns, result->unit, 1e9 * (double)result->rows / (double)time_ns, (before + after) / 2);
        before = after;
    }
    engine_set_trace(run->engine, NULL);
    if (r)
        return r;
    bench_turns_take(&turns, result);
    return 0;
}

/**
 * bench_prefill() - measure tokens a second of prompts of several lengths, on an empty sequence
 *
 * The floor is all multiplications of weights by the rows at the peak of the kernel's instructions, without attention
 * and other operators.
 */
int bench_prefill(const BenchRun *run, ErrText *err) {
    for (size_t i = 0; i < run->options->prompts.n; i++) {
        BenchResult result = {
            .test = "pp",
            .rows = run->options->prompts.at[i],
            .threads = worker_pool_n_threads(run->pool),
            .unit = BENCH_TOKENS,
        };
        int r = time_turns(run, prefill_turn, prefill_floor, &result, err);

        if (!r)
            r = bench_report_add(run->report, &result);
        if (r)
            return r;
    }
    return 0;
}

/**
 * bench_decode() - measure tokens a second of successive tokens, behind prompts of several lengths
 *
 * The floor is reading all weights, and the keys and values that a step sees, at the speed of memory.
 */
int bench_decode(const BenchRun *run, ErrText *err) {
    for (size_t i = 0; i < run->options->prompts.n; i++) {
        BenchResult result = {
            .test = "tg",
            .rows = run->options->output_tokens,
            .depth = run->options->prompts.at[i],
            .threads = worker_pool_n_threads(run->pool),
            .unit = BENCH_TOKENS,
        };
        int r = time_turns(run, decode_turn, decode_floor, &result, err);

        if (!r)
            r = bench_report_add(run->report, &result);
        if (r)
            return r;
    }
    return 0;
}
