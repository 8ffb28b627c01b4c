// SPDX-License-Identifier: Apache-2.0
/* Measures how long an interactive request waits for its first and next tokens while a background prompt is
 * computed. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "base/system/thread.h"
#include "engine/generation.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"

enum {
    EVENTS_MAX = 20000, /* events of a step */
    TRIES = 50,
    CAME_LATE = 1,
};

/* An interactive request that another thread announces at a chosen moment. */
typedef struct Arrival {
    pthread_t thread;
    uint64_t delay_ns;
    uint64_t at_ns; /* written before the flag, read after it */
    _Atomic bool is_there;
} Arrival;

static void *arrive(void *arg) {
    Arrival *arrival = arg;
    struct timespec delay = { (time_t)(arrival->delay_ns / 1000000000), (long)(arrival->delay_ns % 1000000000) };

    while (nanosleep(&delay, &delay) < 0 && errno == EINTR)
        ;
    arrival->at_ns = clock_now_ns();
    atomic_store(&arrival->is_there, true);
    return NULL;
}

/* Returns the next number of SplitMix64; the moments are the same in every run. */
static uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

typedef struct Latency {
    const BenchRun *run;
    size_t n_prompt, n_background, n_output;
    uint32_t *interactive, *background; /* tokens of the prompts */
    uint64_t random;
    uint64_t background_ns; /* time of the whole background prompt with nothing beside it */
    double *operators_ms;   /* [n_operators][repeats] of the background prompt, in running order */
    size_t n_operators;
    double *longest_ms;  /* [repeats]: the operator with the greatest median */
    double *first_ms[3]; /* [repeats] each: alone, waiting for the step, preempting it */
    double *token_ms[2]; /* [n_output - 1] each: alone, beside a background prompt */
} Latency;

enum {
    ALONE,
    WAITS,
    PREEMPTS
};

static void latency_deinit(Latency *latency) {
    free(latency->interactive);
    free(latency->background);
    free(latency->operators_ms);
    for (size_t i = 0; i < ARRAY_LEN(latency->first_ms); i++)
        free(latency->first_ms[i]);
    for (size_t i = 0; i < ARRAY_LEN(latency->token_ms); i++)
        free(latency->token_ms[i]);
}

static uint32_t *make_prompt(const Latency *latency, size_t n, size_t salt) {
    uint32_t *tokens = malloc(n * sizeof(*tokens));

    for (size_t i = 0; i < n && tokens; i++)
        tokens[i] = bench_token(engine_info(latency->run->engine), i + salt);
    return tokens;
}

static int latency_init(Latency *latency, const BenchRun *run, size_t n_prompt, ErrText *err) {
    const BenchOptions *options = run->options;
    bool is_whole;

    *latency = (Latency){ .run = run,
                          .n_prompt = n_prompt,
                          .n_background = options->background_tokens,
                          .n_output = MAX(2, options->output_tokens),
                          .random = 20261122 };
    latency->interactive = make_prompt(latency, n_prompt, 7919);
    latency->background = make_prompt(latency, latency->n_background, 0);
    is_whole = latency->interactive && latency->background;
    for (size_t i = 0; i < ARRAY_LEN(latency->first_ms); i++)
        is_whole = (latency->first_ms[i] = calloc(options->repeats, sizeof(double))) && is_whole;
    for (size_t i = 0; i < ARRAY_LEN(latency->token_ms); i++)
        is_whole = (latency->token_ms[i] = calloc(latency->n_output, sizeof(double))) && is_whole;
    return is_whole ? 0 : err_no_memory(err);
}

static int latency_begin(Generation **generationp, const Latency *latency, Priority priority, ErrText *err) {
    const bool interactive = priority == PRIORITY_INTERACTIVE;
    const GenerationOptions options = {
        .max_tokens = interactive ? (uint32_t)latency->n_output : 1,
        .ignore_end = true,
        .sampler = SAMPLER_OPTIONS_GREEDY,
    };

    return generation_new(generationp, latency->run->engine, interactive ? latency->interactive : latency->background,
                          interactive ? latency->n_prompt : latency->n_background, &options, err);
}

static GenerationTurn turn_of(Generation *generation, Priority priority) {
    return (GenerationTurn){ .generation = generation, .standing = { priority, priority } };
}

/* Orders events by layer, then rows, then time: the same order in every turn, whichever groups of rows went ahead. */
static int compare_events(const void *a, const void *b) {
    const TraceEvent *x = *(const TraceEvent *const *)a, *y = *(const TraceEvent *const *)b;

    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Appends the operator times of a step to those of the turn's earlier steps. */
static int take_operators(Latency *latency, const Trace *trace, size_t turn, size_t *np, ErrText *err) {
    const size_t repeats = latency->run->options->repeats, n = *np + trace_n(trace);
    _cleanup_(freep) const TraceEvent **events = calloc(trace_n(trace), sizeof(*events));

    if (trace_n_lost(trace) || (turn && n > latency->n_operators))
        return err_set(err, -EOVERFLOW, "a step of the background prompt has more operators than there is room for");
    if (!events)
        return err_no_memory(err);
    if (!turn) {
        double *operators_ms = reallocarray(latency->operators_ms, n, repeats * sizeof(*operators_ms));

        if (!operators_ms)
            return err_no_memory(err);
        latency->operators_ms = operators_ms;
        latency->n_operators = n;
    }
    for (size_t i = 0; i < trace_n(trace); i++)
        events[i] = trace_at(trace, i);
    qsort(events, trace_n(trace), sizeof(*events), compare_events);
    for (size_t i = 0; i < trace_n(trace); i++) {
        latency->operators_ms[(*np + i) * repeats + turn] = (double)(events[i]->end_ns - events[i]->start_ns) / 1e6;
        if (turn + 1 == repeats && latency->run->trace)
            trace_add(latency->run->trace, events[i]);
    }
    *np = n;
    return 0;
}

/* Runs the background prompt alone, once. Every turn computes the same operators. */
static int run_background(Latency *latency, Trace *trace, size_t turn, ErrText *err) {
    _cleanup_(generation_freep) Generation *generation = NULL;
    const uint64_t start_ns = clock_now_ns();
    uint64_t end_ns;
    size_t n = 0;
    int r = latency_begin(&generation, latency, PRIORITY_BACKGROUND, err);

    while (!r && generation_end(generation) == GENERATION_RUNNING) {
        trace_clear(trace);
        engine_set_trace(latency->run->engine, trace);
        r = generation_step(generation, NULL, NULL, err);
        engine_set_trace(latency->run->engine, NULL);
        if (!r)
            r = take_operators(latency, trace, turn, &n, err);
    }
    end_ns = clock_now_ns();
    latency->background_ns = end_ns - start_ns;
    assert(r || n == latency->n_operators);
    bench_trace_measured(latency->run, turn + 1 == latency->run->options->repeats, "background prompt", start_ns,
                         end_ns, latency->n_background);
    return r;
}

/* Finds the operator that a request waits for at worst. Each operator counts by its median over the turns, so that one
 * that another program held up is not taken for a long one. */
static void find_longest(Latency *latency) {
    const size_t repeats = latency->run->options->repeats;
    double longest_ms = -1;

    for (size_t i = 0; i < latency->n_operators; i++) {
        double *times_ms = latency->operators_ms + i * repeats, median_ms = machine_median(times_ms, repeats);

        if (median_ms > longest_ms) {
            longest_ms = median_ms;
            latency->longest_ms = times_ms;
        }
    }
}

/* Measures the background prompt and its longest operator. */
static int measure_background(Latency *latency, ErrText *err) {
    _cleanup_(trace_freep) Trace *trace = NULL;
    int r = trace_new(&trace, EVENTS_MAX);

    for (size_t turn = 0; turn < latency->run->options->repeats && !r; turn++)
        r = run_background(latency, trace, turn, err);
    if (!r)
        find_longest(latency);
    return r;
}

/* Runs the interactive request to its first token, in steps that @other (NULL: none) may share. */
static int to_first_token(Generation *interactive, Generation *other, ErrText *err) {
    int r = 0;

    while (!r && !generation_usage(interactive)->n_output_tokens) {
        GenerationTurn turns[] = { turn_of(interactive, PRIORITY_INTERACTIVE),
                                   other ? turn_of(other, PRIORITY_BACKGROUND) : (GenerationTurn){ 0 } };

        r = generation_step_together(turns, other ? 2 : 1, err);
    }
    return r;
}

static int first_alone(const Latency *latency, bool traced, double *msp, ErrText *err) {
    _cleanup_(generation_freep) Generation *interactive = NULL;
    const uint64_t start_ns = clock_now_ns();
    uint64_t end_ns;
    int r;

    bench_trace(latency->run, traced);
    r = latency_begin(&interactive, latency, PRIORITY_INTERACTIVE, err);

    if (!r)
        r = to_first_token(interactive, NULL, err);
    end_ns = clock_now_ns();
    *msp = (double)(end_ns - start_ns) / 1e6;
    bench_trace_measured(latency->run, traced, "first token, alone", start_ns, end_ns, latency->n_prompt);
    bench_trace(latency->run, false);
    return r;
}

/* Runs the background prompt until the request comes, then the request. The request is noticed as in the service:
 * before the next operator, or after the step. CAME_LATE: the background prompt ended first. */
static int first_beside(const Latency *latency, Arrival *arrival, bool preempts, double *msp, ErrText *err) {
    _cleanup_(generation_freep) Generation *background = NULL, *interactive = NULL;
    const EngineYield yield = { .wanted = &arrival->is_there };
    GenerationStep step = { 0 };
    int r = latency_begin(&background, latency, PRIORITY_BACKGROUND, err);

    while (!r && generation_end(background) == GENERATION_RUNNING && !atomic_load(&arrival->is_there)) {
        GenerationTurn turn = turn_of(background, PRIORITY_BACKGROUND);

        r = generation_step_begin(&step, &turn, 1, 0, err);
        if (!r)
            r = generation_step_run(&step, preempts ? &yield : NULL, err);
        if (r == GENERATION_E_YIELDED) {
            r = 0;
            break;
        }
    }
    if (!r && !atomic_load(&arrival->is_there))
        return CAME_LATE;
    if (!r)
        r = latency_begin(&interactive, latency, PRIORITY_INTERACTIVE, err);
    if (!r)
        r = to_first_token(interactive, step.step ? NULL : background, err);
    *msp = (double)(clock_now_ns() - arrival->at_ns) / 1e6;
    generation_step_drop(&step);
    return r;
}

/* Measures the first token at a random moment of the background prompt; repeats if the prompt has ended sooner than
 * before. */
static int first_at_random(Latency *latency, bool preempts, bool traced, double *msp, ErrText *err) {
    const char *name = preempts ? "first token, preempting" : "first token, behind a step";

    for (size_t i = 0; i < TRIES; i++) {
        Arrival arrival = { .delay_ns = random_next(&latency->random) % (latency->background_ns + 1) };
        int r = thread_start(&arrival.thread, "arrival", arrive, &arrival);

        if (r)
            return err_set(err, r, "cannot start a thread");
        bench_trace(latency->run, traced);
        r = first_beside(latency, &arrival, preempts, msp, err);
        bench_trace(latency->run, false);
        pthread_join(arrival.thread, NULL);
        if (!r)
            bench_trace_measured(latency->run, traced, name, arrival.at_ns, arrival.at_ns + (uint64_t)(*msp * 1e6),
                                 latency->n_prompt);
        if (r != CAME_LATE)
            return r;
    }
    return err_set(err, -EAGAIN, "the background prompt has ended before the request came, %d times: use a longer one",
                   TRIES);
}

/* Measures the times between the tokens of an interactive answer, with or without a background prompt in its steps. A
 * prompt that ends is followed by another one. */
static int tokens(const Latency *latency, bool beside, double *token_ms, ErrText *err) {
    _cleanup_(generation_freep) Generation *background = NULL, *interactive = NULL;
    int r = latency_begin(&interactive, latency, PRIORITY_INTERACTIVE, err);

    if (!r)
        r = to_first_token(interactive, NULL, err);
    for (size_t i = 0; i + 1 < latency->n_output && !r; i++) {
        GenerationTurn turns[2] = { turn_of(interactive, PRIORITY_INTERACTIVE) };
        uint64_t start_ns, end_ns;

        if (beside && background && generation_end(background) != GENERATION_RUNNING)
            background = generation_free(background);
        if (beside && !background)
            r = latency_begin(&background, latency, PRIORITY_BACKGROUND, err);
        if (r)
            return r;
        turns[1] = turn_of(background, PRIORITY_BACKGROUND);
        bench_trace(latency->run, true);
        start_ns = clock_now_ns();
        r = generation_step_together(turns, beside ? 2 : 1, err);
        end_ns = clock_now_ns();
        token_ms[i] = (double)(end_ns - start_ns) / 1e6;
        bench_trace_measured(latency->run, true, beside ? "next token, beside" : "next token, alone", start_ns, end_ns,
                             1);
        bench_trace(latency->run, false);
    }
    return r;
}

static int latency_report(const Latency *latency, const char *name, size_t rows, double *values, size_t n,
                          double floor) {
    BenchResult result = { .test = "latency",
                           .rows = rows,
                           .threads = worker_pool_n_threads(latency->run->pool),
                           .unit = BENCH_MS,
                           .floor = floor };

    snprintf(result.name, sizeof(result.name), "%s", name);
    bench_result_take(&result, values, n);
    return bench_report_add(latency->run->report, &result);
}

static int report_all(Latency *latency) {
    const size_t repeats = latency->run->options->repeats, n_intervals = latency->n_output - 1;
    char names[4][40];
    double floor, token;
    int r;

    snprintf(names[0], sizeof(names[0]), "longest operator of %zu", latency->n_background);
    snprintf(names[1], sizeof(names[1]), "first token, behind a step of %zu", latency->n_background);
    snprintf(names[2], sizeof(names[2]), "first token, preempting %zu", latency->n_background);
    snprintf(names[3], sizeof(names[3]), "next token, beside %zu", latency->n_background);
    r = latency_report(latency, "first token, alone", latency->n_prompt, latency->first_ms[ALONE], repeats, 0);
    floor = machine_median(latency->first_ms[ALONE], repeats) + machine_median(latency->longest_ms, repeats);
    token = machine_median(latency->token_ms[0], n_intervals);
    if (!r)
        r = latency_report(latency, names[0], 0, latency->longest_ms, repeats, 0);
    if (!r)
        r = latency_report(latency, names[1], latency->n_prompt, latency->first_ms[WAITS], repeats, floor);
    if (!r)
        r = latency_report(latency, names[2], latency->n_prompt, latency->first_ms[PREEMPTS], repeats, floor);
    if (!r)
        r = latency_report(latency, "next token, alone", latency->n_prompt, latency->token_ms[0], n_intervals, 0);
    return r ? r : latency_report(latency, names[3], latency->n_prompt, latency->token_ms[1], n_intervals, token);
}

static int run_prompt(const BenchRun *run, size_t n_prompt, ErrText *err) {
    _cleanup_(latency_deinit) Latency latency = { 0 };
    double warm_up;
    int r = latency_init(&latency, run, n_prompt, err);

    if (!r)
        r = bench_check_context(run, n_prompt, latency.n_output, err);
    if (!r)
        r = bench_check_context(run, latency.n_background, 1, err);
    if (!r)
        r = first_alone(&latency, false, &warm_up, err);
    if (!r)
        r = measure_background(&latency, err);
    for (size_t i = 0; i < run->options->repeats && !r; i++) { /* in turns: the machine changes with time */
        const bool is_last = i + 1 == run->options->repeats;

        r = first_alone(&latency, is_last, &latency.first_ms[ALONE][i], err);
        if (!r)
            r = first_at_random(&latency, false, is_last, &latency.first_ms[WAITS][i], err);
        if (!r)
            r = first_at_random(&latency, true, is_last, &latency.first_ms[PREEMPTS][i], err);
    }
    for (int beside = 0; beside < 2 && !r; beside++)
        r = tokens(&latency, beside, latency.token_ms[beside], err);
    return r ? r : report_all(&latency);
}

/**
 * bench_latency() - measure first and next tokens of an interactive request under a background prompt
 *
 * The request comes at random moments of the background prompt, from another thread. As in the service, it is noticed
 * after the running step without preemption, and before the step's next operator with it. The time runs from its
 * arrival to its first token, with the reservation of its memory; its text is tokenized before. The floor is the time
 * alone plus the longest operator of the background prompt, embedding and head included. Next tokens share their steps
 * with ROW_SHARE_LOWER_ROWS rows of a background prompt; their floor is the time alone.
 */
int bench_latency(const BenchRun *run, ErrText *err) {
    int r = 0;

    for (size_t i = 0; i < run->options->prompts.n && !r; i++)
        r = run_prompt(run, run->options->prompts.at[i], err);
    return r;
}
