// SPDX-License-Identifier: Apache-2.0
/* Answers real requests in several modes of speculation beside plain decoding, in turns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "spec/sources/history.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include "tools/bench/speculation/spec_answer.h"
#include "tools/bench/speculation/spec_data.h"
#include "tools/bench/speculation/spec_report.h"

#define HISTORY_BYTES_MAX ((uint64_t)32 << 20) /* as the service has it for a user and model */

typedef struct SpecBench {
    const BenchRun *run;
    SpecReport *report;
    const SpecMode *modes[SPEC_MODES_MAX]; /* plain first */
    size_t n_modes;
    SpecAnswer answers[SPEC_MODES_MAX]; /* answers to the current request, by mode */
    AccountTable accounts; /* account of the histories, apart from the engine's, so that other modes are not charged */
    History *histories[SPEC_TASKS_MAX]; /* earlier answers, by task */
} SpecBench;

static void spec_bench_deinit(SpecBench *bench) {
    for (size_t i = 0; i < SPEC_MODES_MAX; i++)
        spec_answer_deinit(&bench->answers[i]);
    for (size_t i = 0; i < SPEC_TASKS_MAX; i++)
        history_free(bench->histories[i]);
}

static int spec_bench_init(SpecBench *bench, const BenchRun *run, SpecReport *report, ErrText *err) {
    const SpecData *data = &report->data;
    bool is_whole = true;

    *bench = (SpecBench){ .run = run, .report = report };
    account_table_init(&bench->accounts);
    for (size_t i = 0; i < SPEC_MODES_MAX; i++)
        if (run->options->spec.modes >> i & 1)
            bench->modes[bench->n_modes++] = &spec_modes[i];
    for (size_t i = 0; i < bench->n_modes; i++)
        is_whole = !spec_answer_init(&bench->answers[i], run->options->output_tokens) && is_whole;
    for (size_t i = 0; i < data->n_tasks; i++)
        is_whole = !history_new(&bench->accounts, HISTORY_BYTES_MAX, &bench->histories[i]) && is_whole;
    report->scores = calloc(data->n_tasks * bench->n_modes, sizeof(*report->scores));
    if (!is_whole || !report->scores)
        return err_no_memory(err);
    report->n = data->n_tasks * bench->n_modes;
    for (size_t i = 0; i < report->n; i++) {
        report->scores[i].task = data->tasks[i / bench->n_modes];
        report->scores[i].mode = bench->modes[i % bench->n_modes]->name;
    }
    return 0;
}

/* Returns a user of its own for each pair of task and mode, so that a generation learns only from earlier ones of the
 * same pair. */
static uint64_t user_of(const SpecRequest *request, size_t mode) {
    return 1 + request->task * SPEC_MODES_MAX + mode;
}

static int answer_in_mode(SpecBench *bench, const SpecRequest *request, size_t mode, size_t max_tokens, bool traced,
                          ErrText *err) {
    const BenchOptions *options = bench->run->options;
    SpecLab lab;
    History *history = bench->modes[mode]->sources >> SPECULATION_HISTORY & 1 ? bench->histories[request->task] : NULL;
    GenerationOptions generation = {
        .max_tokens = (uint32_t)max_tokens,
        .user = user_of(request, mode),
        .no_reuse = true,
        .sampler = options->sampler,
        .ignore_end = bench->modes[mode]->is_free,
        .constraint = { .it = bench->modes[mode]->is_free ? NULL : request->constraint, .may_be_cut = true },
        .speculation = spec_mode_speculation(bench->modes[mode], &options->spec, &lab),
    };
    int r;

    generation.speculation.history = history;
    bench_trace(bench->run, traced);
    r = spec_answer_run(&bench->answers[mode], bench->run->engine, &request->prompt, &generation, err);
    bench_trace(bench->run, false);
    if (history)
        bench->answers[mode].draft_bytes += history_stats(history).bytes;
    return r;
}

/* Adds the answer to the task's history, as the service does. All modes have given the same answer. */
static int remember(SpecBench *bench, const SpecRequest *request, ErrText *err) {
    int r =
        history_add(bench->histories[request->task], bench->answers[SPEC_PLAIN].tokens, bench->answers[SPEC_PLAIN].n);

    return r < 0 ? err_set(err, r, "no memory for the history") : 0;
}

/* Answers a request in all modes. Each request begins with another mode, so that changes of the machine and its caches
 * favour none. */
static int answer_request(SpecBench *bench, size_t index, ErrText *err) {
    const SpecRequest *request = &bench->report->data.requests[index];
    SpecScore *scores = bench->report->scores + request->task * bench->n_modes;
    int r = 0;

    for (size_t i = 0; i < bench->n_modes && !r; i++) {
        const size_t mode = (index + i) % bench->n_modes;
        const bool traced = index + 1 == bench->report->data.n && mode + 1 == bench->n_modes;

        r = answer_in_mode(bench, request, mode, bench->run->options->output_tokens, traced, err);
    }
    for (size_t i = 0; i < bench->n_modes && !r; i++) {
        r = bench->modes[i]->is_free ? 0 : spec_answer_compare(&bench->answers[i], &bench->answers[SPEC_PLAIN], err);
        if (r)
            err_prefix(err, "task '%s', request '%s', mode '%s'", scores[i].task, request->id, scores[i].mode);
        else
            spec_score_add(&scores[i], &bench->answers[i], &bench->answers[SPEC_PLAIN]);
    }
    return r ? r : remember(bench, request, err);
}

static int draw(const SpecBench *bench, ErrText *err) {
    char machine[256], title[512];

    machine_name(machine, sizeof(machine));
    snprintf(title, sizeof(title), "%s on %s, %u threads", engine_info(bench->run->engine)->name, machine,
             worker_pool_n_threads(bench->run->pool));
    return spec_report_plot(bench->report, title, bench->run->options->plot, err);
}

/**
 * bench_spec() - measure tokens a step and speeds of modes of speculation, on requests from files
 *
 * A first answer of some tokens warms up and does not count. No prompt reuses an earlier one. An answer that differs
 * from plain decoding in any bit ends the run with an error that names task, request and mode.
 */
int bench_spec(const BenchRun *run, ErrText *err) {
    const BenchOptions *options = run->options;
    _cleanup_(spec_bench_deinit) SpecBench bench = { 0 };
    SpecReport *report = bench_report_begin(run->report, &spec_report_findings);
    SpecData *data = &report->data;
    int r = report ? spec_data_read(data, run->engine, &options->data, err) : err_no_memory(err);

    if (r)
        return r;
    r = spec_bench_init(&bench, run, report, err);
    if (!r)
        r = answer_in_mode(&bench, &data->requests[0], SPEC_PLAIN, options->output_tokens < 8 ? 1 : 8, false, err);
    for (size_t i = 0; i < data->n && !r; i++)
        r = answer_request(&bench, i, err);
    return r || !options->plot ? r : draw(&bench, err);
}
