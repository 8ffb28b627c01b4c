// SPDX-License-Identifier: Apache-2.0
/* Answers real requests in every row of the papers' table, in turns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/min_max.h"
#include "spec/sources/history.h"
#include "tools/bench/bench.h"
#include "tools/bench/mobile/mobile_table.h"
#include "weights/weights_report.h"

#define HISTORY_BYTES_MAX ((uint64_t)32 << 20) /* the service's limit for a user and model */
#define WARM_TOKENS 8

typedef struct TableBench {
    const BenchRun *run;
    MobileTable *table;
    WorkerPool *cpu_pool; /* pool of the cpu device, with one thread more, since the NPU's thread is not in a pool */
    AccountTable accounts[_MOBILE_TABLE_ENGINES];
    Engine *engines[_MOBILE_TABLE_ENGINES];
    const SpecMode *modes[MOBILE_TABLE_ROWS];
    SpecAnswer answers[MOBILE_TABLE_ROWS]; /* answers to the current request, by row */
    AccountTable history_accounts;
    History *histories[SPEC_TASKS_MAX]; /* earlier answers, by task */
} TableBench;

static void table_bench_deinit(TableBench *bench) {
    for (size_t i = 0; i < SPEC_TASKS_MAX; i++)
        history_free(bench->histories[i]);
    for (size_t i = 0; i < MOBILE_TABLE_ROWS; i++)
        spec_answer_deinit(&bench->answers[i]);
    for (size_t i = 0; i < _MOBILE_TABLE_ENGINES; i++)
        engine_free(bench->engines[i]);
    worker_pool_free(bench->cpu_pool);
}

static int open_engine(TableBench *bench, MobileTableEngine which, ErrText *err) {
    EvalModelOptions options = *bench->run->model;
    const bool is_cpu = which == MOBILE_TABLE_CPU;

    options.path = bench->run->engine_options->path;
    options.recipe_option = NULL; /* the package is that recipe's result */
    options.engine.load.device = is_cpu ? ENGINE_DEVICE_CPU : ENGINE_DEVICE_NPU;
    options.engine.load.weights.graphs.policy =
        which == MOBILE_TABLE_NPU ? GRAPH_SWITCH_SYNC : GRAPH_SWITCH_PROGRESSIVE;
    options.engine.load.op_order = which == MOBILE_TABLE_NPU ? OP_ORDER_IN_ORDER : OP_ORDER_OUT_OF_ORDER;
    account_table_init(&bench->accounts[which]);
    return eval_engine_open(&bench->engines[which], &options, is_cpu ? bench->cpu_pool : bench->run->pool,
                            &bench->accounts[which], err);
}

static const SpecMode *mode_of(const char *name) {
    for (size_t i = 0; i < SPEC_MODES_MAX; i++)
        if (!strcmp(spec_modes[i].name, name))
            return &spec_modes[i];
    return NULL;
}

static int open_engines(TableBench *bench, ErrText *err) {
    int r = worker_pool_new(&bench->cpu_pool, worker_pool_n_threads(bench->run->pool) + 1);

    if (r)
        return err_set(err, r, "out of memory");
    (void)worker_pool_pin(bench->cpu_pool);
    for (size_t i = 0; i < _MOBILE_TABLE_ENGINES && !r; i++)
        r = open_engine(bench, (MobileTableEngine)i, err);
    for (size_t i = 0; i < MOBILE_TABLE_ROWS; i++) {
        bench->modes[i] = mode_of(mobile_table_rows[i].mode);
        if (!bench->modes[i])
            return err_set(err, -EINVAL, "no mode '%s'", mobile_table_rows[i].mode);
    }
    return r;
}

static int prepare(TableBench *bench, ErrText *err) {
    MobileTable *table = bench->table;
    bool is_whole = true;

    account_table_init(&bench->history_accounts);
    for (size_t i = 0; i < MOBILE_TABLE_ROWS; i++)
        is_whole = !spec_answer_init(&bench->answers[i], bench->run->options->output_tokens) && is_whole;
    for (size_t i = 0; i < table->data.n_tasks; i++)
        is_whole = !history_new(&bench->history_accounts, HISTORY_BYTES_MAX, &bench->histories[i]) && is_whole;
    table->sums = calloc(table->data.n_tasks * MOBILE_TABLE_ROWS, sizeof(*table->sums));
    return is_whole && table->sums ? 0 : err_no_memory(err);
}

static uint64_t waited_ns(const Engine *engine) {
    WeightsGraphsCounts counts;

    return weights_graph_counts(engine_weights(engine), &counts) ? counts.stall_ns : 0;
}

/* Answers a request in a row. @wait_nsp gets the time of waiting for loads; NULL: not wanted. */
static int answer_in_row(TableBench *bench, const SpecRequest *request, size_t row, size_t max_tokens,
                         uint64_t *wait_nsp, ErrText *err) {
    const BenchOptions *options = bench->run->options;
    const SpecMode *mode = bench->modes[row];
    Engine *engine = bench->engines[mobile_table_rows[row].engine];
    const uint64_t before_ns = waited_ns(engine);
    SpecLab lab;
    GenerationOptions generation = {
        .max_tokens = (uint32_t)max_tokens,
        .user = 1 + request->task * MOBILE_TABLE_ROWS + row, /* a row learns only from its own answers in a task */
        .no_reuse = true,
        .sampler = options->sampler,
        .constraint = { .it = request->constraint, .may_be_cut = true },
        .speculation = spec_mode_speculation(mode, &options->spec, &lab),
    };
    int r;

    if (mode->sources >> SPECULATION_HISTORY & 1)
        generation.speculation.history = bench->histories[request->task];
    r = spec_answer_run(&bench->answers[row], engine, &request->prompt, &generation, err);
    if (wait_nsp)
        *wait_nsp = waited_ns(engine) - before_ns;
    return r;
}

static int answer_request(TableBench *bench, size_t index, ErrText *err) {
    const SpecRequest *request = &bench->table->data.requests[index];
    const SpecAnswer *first = &bench->answers[MOBILE_TABLE_FIRST];
    const bool is_last = index + 1 == bench->table->data.n;
    uint64_t wait_ns[MOBILE_TABLE_ROWS];
    int r = 0;

    for (size_t i = 0; i < MOBILE_TABLE_ROWS && !r; i++) {
        const size_t row = (index + i) % MOBILE_TABLE_ROWS;
        Engine *engine = bench->engines[mobile_table_rows[row].engine];

        engine_set_trace(engine, is_last ? bench->run->trace : NULL);
        r = answer_in_row(bench, request, row, bench->run->options->output_tokens, &wait_ns[row], err);
        engine_set_trace(engine, NULL);
    }
    for (size_t row = 0; row < MOBILE_TABLE_ROWS && !r; row++) {
        r = spec_answer_compare(&bench->answers[row], first, err);
        if (r)
            err_prefix(err, "request '%s', row '%s' beside '%s'", request->id, mobile_table_rows[row].key,
                       mobile_table_rows[MOBILE_TABLE_FIRST].key);
        else
            mobile_table_add(&bench->table->sums[request->task * MOBILE_TABLE_ROWS + row], &bench->answers[row],
                             wait_ns[row]);
    }
    if (!r && history_add(bench->histories[request->task], first->tokens, first->n) < 0)
        r = err_set(err, -ENOMEM, "no memory for the history");
    return r;
}

/**
 * bench_mobile_table() - measure the papers' table: milliseconds a token in each of its rows
 *
 * The model is open once for each device and way of switching. The requests of all rows alternate, each beginning with
 * another row. A first short answer of each engine does not count. No prompt reuses an earlier one. An answer that
 * differs from the cpu device's in any bit ends the run with an error that names request and row.
 */
int bench_mobile_table(const BenchRun *run, ErrText *err) {
    const BenchOptions *options = run->options;
    _cleanup_(table_bench_deinit) TableBench bench = { .run = run };
    SpecData *data;
    int r;

    bench.table = bench_report_begin(run->report, &mobile_table_findings);
    if (!bench.table)
        return err_no_memory(err);
    data = &bench.table->data;
    r = open_engines(&bench, err);
    if (!r)
        r = spec_data_read(data, bench.engines[MOBILE_TABLE_CPU], &options->data, err);
    if (!r)
        r = prepare(&bench, err);
    for (size_t row = 0; row < MOBILE_TABLE_ROWS && !r; row++)
        if (bench.modes[row] == &spec_modes[SPEC_PLAIN])
            r = answer_in_row(&bench, &data->requests[0], row, MIN(options->output_tokens, WARM_TOKENS), NULL, err);
    for (size_t i = 0; i < data->n && !r; i++)
        r = answer_request(&bench, i, err);
    if (!r)
        bench.table->n_tasks = data->n_tasks;
    return r;
}
