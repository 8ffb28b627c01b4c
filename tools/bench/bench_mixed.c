// SPDX-License-Identifier: Apache-2.0
/* Measures several simultaneous requests that share every step, as in the service. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/generation.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"

/* Requests that arrive at the same moment. */
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
    int r = prompt ? 0 : err_no_memory(err);

    *crowd = (Crowd){ 0 };
    while (!r && crowd->n < n) { /* all prompts differ, so that none reuses another's prefix */
        for (size_t i = 0; i < n_prompt; i++)
            prompt[i] = bench_token(engine_info(run->engine), i + crowd->n * 7919);
        r = generation_new(&crowd->generations[crowd->n], run->engine, prompt, n_prompt, &options, err);
        crowd->n += !r;
    }
    return r;
}

/* Runs one step of all unfinished requests, from the one that waited longest. Return: false when none is left. */
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

/* Returns the tokens a second that the machine could do: the longer of all products at the peak, and reading the
 * weights once for each successive token of a request. */
static double output_floor(const BenchRun *run, size_t n, size_t n_prompt, const FloorMoment *moment) {
    const EngineInfo *info = engine_info(run->engine);
    const double n_output = (double)run->options->output_tokens, rows = (double)n_prompt + n_output - 1,
                 ops = 2 * (double)n * ((double)info->layer_products * rows + (double)info->head_products * n_output),
                 read_s = n_output * (double)info->weights.step_read_bytes / (moment->gbytes_per_s * 1e9);

    return moment->gops_per_s > 0 ? (double)n * n_output / fmax(ops / (moment->gops_per_s * 1e9), read_s) : 0;
}

/* Returns the time in ms of one prompt's products at the peak. */
static double first_floor(const BenchRun *run, size_t n_prompt, const FloorMoment *moment) {
    const EngineInfo *info = engine_info(run->engine);
    const double ops = 2 * ((double)info->layer_products * (double)n_prompt + (double)info->head_products);

    return moment->gops_per_s > 0 ? ops / (moment->gops_per_s * 1e6) : 0;
}

/* Measures output rates and first tokens in turns; the first turn warms up. */
static int run_turns(const BenchRun *run, size_t n, size_t n_prompt, BenchTurns *outputs, BenchTurns *firsts,
                     ErrText *err) {
    FloorMoment before = { 0 }, after;
    int r = 0;

    for (size_t turn = 0; turn <= run->options->repeats && !r; turn++, before = after) {
        double output = 0, first_ms = 0;

        r = run_crowd(run, n, n_prompt, turn == run->options->repeats, &output, &first_ms, err);
        if (!r)
            r = floors_measure_now(run->floors, engine_info(run->engine)->kernel, run->pool, &after);
        if (r || !turn)
            continue;
        bench_turns_add(outputs, BENCH_TOKENS, output,
                        (output_floor(run, n, n_prompt, &before) + output_floor(run, n, n_prompt, &after)) / 2);
        bench_turns_add(firsts, BENCH_MS, first_ms,
                        (first_floor(run, n_prompt, &before) + first_floor(run, n_prompt, &after)) / 2);
    }
    return r;
}

static int run_width(const BenchRun *run, size_t n, size_t n_prompt, ErrText *err) {
    _cleanup_(bench_turns_deinit) BenchTurns outputs = { 0 }, firsts = { 0 };
    BenchResult output = { .test = "mixed", .rows = n_prompt, .unit = BENCH_TOKENS };
    BenchResult first = { .test = "mixed", .rows = n_prompt, .unit = BENCH_MS };
    int r = bench_check_context(run, n_prompt, run->options->output_tokens, err);

    if (!r && (bench_turns_init(&outputs, run->options->repeats) || bench_turns_init(&firsts, run->options->repeats)))
        r = err_no_memory(err);
    if (!r)
        r = run_turns(run, n, n_prompt, &outputs, &firsts, err);
    if (r)
        return r;
    output.threads = first.threads = worker_pool_n_threads(run->pool);
    snprintf(output.name, sizeof(output.name), "%zu at once, output of all", n);
    snprintf(first.name, sizeof(first.name), "%zu at once, first token", n);
    bench_turns_take(&outputs, &output);
    bench_turns_take(&firsts, &first);
    r = bench_report_add(run->report, &output);
    return r ? r : bench_report_add(run->report, &first);
}

/**
 * bench_mixed() - measure simultaneous requests: tokens a second of all together, and the median wait for a first token
 *
 * Each request has its own prompt and as many output tokens as the others. The rate counts outputs over the whole time,
 * prompts included; its floor is output_floor(). The floor of a first token is the products of its own prompt, although
 * other prompts may be computed before it.
 */
int bench_mixed(const BenchRun *run, ErrText *err) {
    const BenchOptions *options = run->options;

    for (size_t i = 0; i < options->prompts.n; i++)
        for (size_t j = 0; j < options->requests.n; j++) {
            int r = run_width(run, options->requests.at[j], options->prompts.at[i], err);

            if (r)
                return r;
        }
    return 0;
}
