/* Several requests at once, as the service runs them: they share every step. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/machine.h"
#include "engine/generation.h"

/* Requests that come at the same moment. */
typedef struct Crowd {
    Generation *generations[GENERATION_TURNS_MAX];
    uint64_t first_token_ns[GENERATION_TURNS_MAX]; /* after the start; 0: not yet */
    size_t n;
} Crowd;

static void crowd_deinit(Crowd *crowd) {
    for (size_t i = 0; i < crowd->n; i++)
        generation_free(crowd->generations[i]);
}

static int crowd_init(Crowd *crowd, const BenchRun *run, size_t n, size_t n_prompt, ErrText *err) {
    const GenerationOptions options = {
        .max_tokens = (uint32_t)run->options->output_tokens,
        .ignore_end = true,
        .sampler = SAMPLER_OPTIONS_GREEDY,
    };
    _cleanup_(freep) uint32_t *prompt = malloc(n_prompt * sizeof(*prompt));
    int r = prompt ? 0 : err_set(err, -ENOMEM, "out of memory");

    *crowd = (Crowd){ 0 };
    while (!r && crowd->n < n) { /* prompts of their own: none can make use of another's */
        for (size_t i = 0; i < n_prompt; i++)
            prompt[i] = bench_token(engine_info(run->engine), i + crowd->n * 7919);
        r = generation_new(&crowd->generations[crowd->n], run->engine, prompt, n_prompt, &options, err);
        crowd->n += !r;
    }
    return r;
}

/* Those that still run, the ones that waited first; false when there are none. */
static bool step(Crowd *crowd, size_t first, uint64_t start_ns, int *rp, ErrText *err) {
    GenerationTurn turns[GENERATION_TURNS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < crowd->n; i++) {
        Generation *generation = crowd->generations[(first + i) % crowd->n];

        if (generation_end(generation) == GENERATION_RUNNING)
            turns[n++] = (GenerationTurn){ .generation = generation };
    }
    if (!n)
        return false;
    *rp = generation_step_together(turns, n, err);
    for (size_t i = 0; i < n && !*rp; i++)
        *rp = turns[i].r;
    for (size_t i = 0; i < crowd->n; i++)
        if (!crowd->first_token_ns[i] && generation_usage(crowd->generations[i])->n_output_tokens)
            crowd->first_token_ns[i] = clock_now_ns() - start_ns;
    return !*rp;
}

static int run_crowd(const BenchRun *run, size_t n, size_t n_prompt, bool is_last, double *outputp, double *firstp,
                     ErrText *err) {
    _cleanup_(crowd_deinit) Crowd crowd = { 0 };
    double firsts[GENERATION_TURNS_MAX];
    uint64_t start_ns, time_ns;
    int r = crowd_init(&crowd, run, n, n_prompt, err);

    bench_trace(run, is_last);
    start_ns = clock_now_ns();
    for (size_t first = 0; !r && step(&crowd, first, start_ns, &r, err);)
        first++;
    time_ns = clock_now_ns() - start_ns;
    bench_trace_measured(run, is_last, "requests at once", start_ns, start_ns + time_ns, n);
    bench_trace(run, false);
    for (size_t i = 0; i < n && !r; i++)
        firsts[i] = (double)crowd.first_token_ns[i] / 1e6;
    if (r)
        return r;
    *outputp = 1e9 * (double)(n * run->options->output_tokens) / (double)time_ns;
    *firstp = machine_median(firsts, n);
    return 0;
}

static int run_width(const BenchRun *run, size_t n, size_t n_prompt, ErrText *err) {
    const size_t repeats = run->options->repeats;
    _cleanup_(freep) double *values = calloc(2 * repeats, sizeof(*values));
    BenchResult output = { .test = "mixed", .rows = n_prompt, .unit = BENCH_TOKENS };
    BenchResult first = { .test = "mixed", .rows = n_prompt, .unit = BENCH_MS };
    int r = values ? bench_check_context(run, n_prompt, run->options->output_tokens, err)
                   : err_set(err, -ENOMEM, "out of memory");

    for (size_t turn = 0; turn <= repeats && !r; turn++) { /* the first one warms up */
        size_t at = turn ? turn - 1 : 0;

        r = run_crowd(run, n, n_prompt, turn == repeats, &values[at], &values[repeats + at], err);
    }
    if (r)
        return r;
    output.threads = first.threads = worker_pool_n_threads(run->pool);
    snprintf(output.name, sizeof(output.name), "%zu at once, output of all", n);
    snprintf(first.name, sizeof(first.name), "%zu at once, first token", n);
    bench_result_take(&output, values, repeats);
    bench_result_take(&first, values + repeats, repeats);
    r = bench_report_add(run->report, &output);
    return r ? r : bench_report_add(run->report, &first);
}

/**
 * bench_mixed() - requests that come at once: tokens a second of all together, and how long the median one waits
 *
 * Each has a prompt of its own and as many output tokens as the others; the rate counts outputs over the whole time,
 * prompts included. There is no floor: it depends on what shares a step with what.
 */
int bench_mixed(const BenchRun *run, ErrText *err) {
    const BenchOptions *options = run->options;

    for (size_t i = 0; i < options->n_prompts; i++)
        for (size_t j = 0; j < options->n_requests; j++) {
            int r = run_width(run, options->requests[j], options->prompt_tokens[i], err);

            if (r)
                return r;
        }
    return 0;
}
