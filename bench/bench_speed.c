/* Prefill and decode of one sequence, without the service. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/bench.h"

/* Weyl's sequence, within the vocabulary. */
uint32_t bench_token(const EngineInfo *info, size_t position) {
    return (uint32_t)((position * 0x9e3779b1u >> 7) % info->n_vocab);
}

int bench_fill(const BenchRun *run, Sequence *sequence, size_t n_tokens, float *logits, ErrText *err) {
    const EngineInfo *info = engine_info(run->engine);
    const size_t chunk = engine_chunk_tokens(run->engine), first = sequence_n_tokens(sequence);
    _cleanup_(freep) uint32_t *tokens = malloc(chunk * sizeof(*tokens));

    if (!tokens)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t done = 0, n; done < n_tokens; done += n) {
        int r;

        n = n_tokens - done < chunk ? n_tokens - done : chunk;
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

/* One turn of a test on a sequence. */
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

/* A first turn warms up and does not count. */
static int time_turns(const BenchRun *run, TurnFn *fn, BenchResult *result, ErrText *err) {
    const EngineInfo *info = engine_info(run->engine);
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    _cleanup_(freep) float *logits = malloc(info->n_vocab * sizeof(*logits));
    _cleanup_(freep) double *values = calloc(run->options->repeats, sizeof(*values));
    int r;

    if (!logits || !values)
        return err_set(err, -ENOMEM, "out of memory");
    r = bench_check_context(run, result->depth, result->rows, err);
    if (r)
        return r;
    r = sequence_new(&sequence, run->engine, result->depth + result->rows, err);
    if (!r && result->depth)
        r = bench_fill(run, sequence, result->depth, logits, err);
    for (size_t turn = 0; turn <= run->options->repeats && !r; turn++) {
        uint64_t start_ns;

        if (run->trace && turn == run->options->repeats) {
            trace_clear(run->trace);
            engine_set_trace(run->engine, run->trace);
        }
        start_ns = clock_now_ns();
        sequence_rewind(sequence, result->depth);
        r = fn(run, sequence, result->rows, logits, err);
        if (turn)
            values[turn - 1] = 1e9 * (double)result->rows / (double)(clock_now_ns() - start_ns);
    }
    engine_set_trace(run->engine, NULL);
    if (r)
        return r;
    bench_result_take(result, values, run->options->repeats);
    return floors_measure(run->floors, info->kernel, run->pool);
}

/**
 * bench_prefill() - tokens a second of prompts of several lengths, on an empty sequence
 *
 * Floor: all multiplications of weights by the rows at the peak of the kernel's instructions; nothing for attention and
 * the other operators.
 */
int bench_prefill(const BenchRun *run, ErrText *err) {
    const EngineInfo *info = engine_info(run->engine);

    for (size_t i = 0; i < run->options->n_prompts; i++) {
        BenchResult result = {
            .test = "pp",
            .rows = run->options->prompt_tokens[i],
            .threads = worker_pool_n_threads(run->pool),
            .unit = BENCH_TOKENS,
        };
        double ops = 2 * ((double)info->layer_products * (double)result.rows + (double)info->head_products);
        int r = time_turns(run, prefill_turn, &result, err);

        if (!r) {
            result.floor = run->floors->gops_per_s * 1e9 / ops * (double)result.rows;
            r = bench_report_add(run->report, &result);
        }
        if (r)
            return r;
    }
    return 0;
}

/* Of one step among those of the test: weights, and the keys and values that it sees. */
static double mean_step_bytes(const BenchRun *run, const BenchResult *result) {
    double kv_bytes = 0;

    for (size_t i = 1; i <= result->rows; i++)
        kv_bytes += (double)engine_kv_read_bytes(run->engine, result->depth + i) / (double)result->rows;
    return (double)engine_info(run->engine)->step_read_bytes + kv_bytes;
}

/**
 * bench_decode() - tokens a second, one after the other, behind prompts of several lengths
 *
 * Floor: the bytes of all weights and of the keys and values that a step sees at the speed of reading memory.
 */
int bench_decode(const BenchRun *run, ErrText *err) {
    for (size_t i = 0; i < run->options->n_prompts; i++) {
        BenchResult result = {
            .test = "tg",
            .rows = run->options->output_tokens,
            .depth = run->options->prompt_tokens[i],
            .threads = worker_pool_n_threads(run->pool),
            .unit = BENCH_TOKENS,
        };
        int r = time_turns(run, decode_turn, &result, err);

        if (!r) {
            result.floor = run->floors->gbytes_per_s * 1e9 / mean_step_bytes(run, &result);
            r = bench_report_add(run->report, &result);
        }
        if (r)
            return r;
    }
    return 0;
}
