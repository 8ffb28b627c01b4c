// SPDX-License-Identifier: Apache-2.0
/* Measures the cost of a phone NPU's rules: requests on the npu device under every policy of graph switching. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include "tools/bench/mobile/mobile_cold.h"
#include "tools/bench/mobile/mobile_report.h"
#include "tools/bench/mobile/timeline.h"
#include "weights/weights_report.h"

/* Measurements of one row's requests, an array for each. */
enum {
    MOBILE_PREFILL,
    MOBILE_DECODE,
    MOBILE_TOTAL,
    MOBILE_PREFILL_STALL,
    MOBILE_DECODE_STALL,
    MOBILE_LOAD,
    _MOBILE_N,
};

typedef struct MobileBench {
    const BenchRun *run;
    MobileReport *report;
    AccountTable accounts;
    Engine *engines[MOBILE_POLICIES]; /* one for each policy, all open so that their requests alternate */
    double *values[_MOBILE_N];        /* [policies][repeats] milliseconds */
    float *logits;
    Timeline *timeline; /* NULL: no timeline is wanted */
} MobileBench;

static void mobile_bench_deinit(MobileBench *bench) {
    for (size_t i = 0; i < MOBILE_POLICIES; i++)
        engine_free(bench->engines[i]);
    for (size_t i = 0; i < _MOBILE_N; i++)
        free(bench->values[i]);
    free(bench->logits);
    timeline_free(bench->timeline);
}

/* "free": prompts get graphs of their own only where that pays; under the other policies, as in the papers, always. */
static const struct {
    const char *name;
    GraphSwitchPolicy policy;
    GraphLab lab;
} policies[MOBILE_POLICIES] = { { "none", GRAPH_SWITCH_NONE, { false } },
                                { "sync", GRAPH_SWITCH_SYNC, { false } },
                                { "async", GRAPH_SWITCH_ASYNC, { false } },
                                { "progressive", GRAPH_SWITCH_PROGRESSIVE, { true } },
                                { "progressive, free", GRAPH_SWITCH_PROGRESSIVE, { false } } };

static int open_policy(MobileBench *bench, size_t index, ErrText *err) {
    EvalModelOptions options = *bench->run->model;

    options.path = bench->run->engine_options->path;
    options.recipe_option = NULL; /* the package is that recipe's result */
    options.engine.load.device = ENGINE_DEVICE_NPU;
    options.engine.load.weights.graphs.policy = policies[index].policy;
    options.engine.load.weights.graphs.lab = policies[index].lab;
    options.engine.load.op_order = OP_ORDER_IN_ORDER; /* one chunk a step, for switching goes chunk by chunk */
    return eval_engine_open(&bench->engines[index], &options, bench->run->pool, &bench->accounts, err);
}

/* --- a request ---------------------------------------------------------------------------------------------------- */

static int run_step(const MobileBench *bench, Engine *engine, Sequence *sequence, const uint32_t *tokens, size_t n,
                    size_t n_behind, ErrText *err) {
    EngineSpan span = { .sequence = sequence,
                        .tokens = tokens,
                        .n = n,
                        .n_behind = n_behind,
                        .head = { .n_rows = !n_behind, .logits = bench->logits } };
    int r = engine_forward_spans(engine, &span, 1, err);

    return !r || r == ENGINE_E_READ ? r : err_set(err, r, "a step of %zu tokens failed (%d)", n, r);
}

/* Computes a prompt chunk by chunk. @why gets the reason of the policy's choice for the first chunk; @why_bytes 0: not
 * wanted. */
static int run_prompt(const MobileBench *bench, Engine *engine, Sequence *sequence, size_t n_tokens, char *why,
                      size_t why_bytes, ErrText *err) {
    const EngineInfo *info = engine_info(engine);
    const size_t chunk = engine_chunk_tokens(engine);
    _cleanup_(freep) uint32_t *tokens = malloc(chunk * sizeof(*tokens));
    int r = tokens ? 0 : err_no_memory(err);

    for (size_t done = 0, n; done < n_tokens && !r; done += n) {
        n = MIN(n_tokens - done, chunk);
        for (size_t i = 0; i < n; i++)
            tokens[i] = bench_token(info, done + i);
        r = run_step(bench, engine, sequence, tokens, n, n_tokens - done - n, err);
        if (!done && why_bytes)
            weights_graph_explain(engine_weights(engine), why, why_bytes);
    }
    return r;
}

static int run_output(const MobileBench *bench, Engine *engine, Sequence *sequence, ErrText *err) {
    int r = 0;

    for (size_t i = 0; i < bench->run->options->output_tokens && !r; i++) {
        const uint32_t token = bench_token(engine_info(engine), sequence_n_tokens(sequence));

        r = run_step(bench, engine, sequence, &token, 1, 0, err);
    }
    return r;
}

static double ms(uint64_t ns) {
    return (double)ns / 1e6;
}

static int add_band(MobileBench *bench, const MobileRow *row, size_t first, uint64_t start_ns, uint64_t prompt_end_ns,
                    uint64_t end_ns) {
    char name[64];

    snprintf(name, sizeof(name), "switching %s, prompt of %zu, %zu of output", row->policy, row->prompt_tokens,
             row->output_tokens);
    return timeline_add(bench->timeline, (size_t)(row - bench->report->rows), name, bench->run->trace, first, start_ns,
                        prompt_end_ns, end_ns);
}

static int write_timeline(const MobileBench *bench, ErrText *err) {
    char machine[256], title[512];

    if (!bench->timeline)
        return 0;
    machine_name(machine, sizeof(machine));
    snprintf(title, sizeof(title), "The npu device on %s; the dashed line: the prompt is computed", machine);
    return timeline_write(bench->timeline, title, bench->run->options->mobile.timeline, err);
}

/* Runs a request. @turn counts the measured requests from 1 on; 0 warms up, after which the times that switching is
 * planned by are known. */
static int run_request(MobileBench *bench, size_t policy, MobileRow *row, size_t turn, ErrText *err) {
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    Engine *engine = bench->engines[policy];
    const size_t at = policy * row->n_requests + turn - 1;
    WeightsGraphsCounts before, middle, after;
    const size_t first = bench->run->trace ? trace_n(bench->run->trace) : 0;
    uint64_t start_ns, middle_ns, end_ns;
    int r = sequence_new(&sequence, engine, row->prompt_tokens + row->output_tokens, err);

    if (r)
        return r;
    weights_graph_counts(engine_weights(engine), &before);
    start_ns = clock_now_ns();
    r = run_prompt(bench, engine, sequence, row->prompt_tokens, row->why,
                   policies[policy].policy == GRAPH_SWITCH_PROGRESSIVE ? sizeof(row->why) : 0, err);
    middle_ns = clock_now_ns();
    weights_graph_counts(engine_weights(engine), &middle);
    if (!r)
        r = run_output(bench, engine, sequence, err);
    end_ns = clock_now_ns();
    weights_graph_counts(engine_weights(engine), &after);
    row->peak_bytes = after.peak_bytes;
    row->n_loads = after.n_loads - before.n_loads;
    row->loaded_bytes = after.loaded_bytes - before.loaded_bytes;
    row->expand_ms = ms(after.expand_ns - before.expand_ns);
    if (r || !turn)
        return r;
    if (bench->timeline && turn == row->n_requests)
        r = add_band(bench, row, first, start_ns, middle_ns, end_ns);
    bench->values[MOBILE_PREFILL][at] = ms(middle_ns - start_ns);
    bench->values[MOBILE_DECODE][at] = ms(end_ns - middle_ns);
    bench->values[MOBILE_TOTAL][at] = ms(end_ns - start_ns);
    bench->values[MOBILE_PREFILL_STALL][at] = ms(middle.stall_ns - before.stall_ns);
    bench->values[MOBILE_DECODE_STALL][at] = ms(after.stall_ns - middle.stall_ns);
    bench->values[MOBILE_LOAD][at] = ms(after.load_ns - before.load_ns);
    return r;
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static void take_medians(const MobileBench *bench, size_t policy, MobileRow *row) {
    double *const results[_MOBILE_N] = {
        [MOBILE_PREFILL] = &row->prefill_ms,
        [MOBILE_DECODE] = &row->decode_ms,
        [MOBILE_TOTAL] = &row->total_ms,
        [MOBILE_PREFILL_STALL] = &row->prefill_stall_ms,
        [MOBILE_DECODE_STALL] = &row->decode_stall_ms,
        [MOBILE_LOAD] = &row->load_ms,
    };

    for (size_t i = 0; i < _MOBILE_N; i++)
        *results[i] = machine_median(bench->values[i] + policy * row->n_requests, row->n_requests);
}

/* Runs requests that do not count: one, or, where graphs of both kinds stay in memory, as many as load all of them. */
static int warm_up(MobileBench *bench, size_t policy, MobileRow *row, ErrText *err) {
    int r;

    do {
        r = run_request(bench, policy, row, 0, err);
    } while (!r && policies[policy].policy == GRAPH_SWITCH_NONE && row->n_loads);
    return r;
}

/* Measures one prompt under all policies, in turns. Each turn begins with another policy, so that changes of the
 * machine favour none. */
static int run_prompts(MobileBench *bench, MobileRow *rows, size_t prompt_tokens, ErrText *err) {
    const BenchOptions *options = bench->run->options;
    int r = 0;

    for (size_t p = 0; p < MOBILE_POLICIES; p++) {
        const size_t chunk = engine_chunk_tokens(bench->engines[p]);

        rows[p] = (MobileRow){ .policy = policies[p].name,
                               .prompt_tokens = prompt_tokens,
                               .output_tokens = options->output_tokens,
                               .n_requests = options->repeats,
                               .n_chunks = (prompt_tokens + chunk - 1) / chunk };
    }
    for (size_t turn = 0; turn <= options->repeats && !r; turn++)
        for (size_t i = 0; i < MOBILE_POLICIES && !r; i++) {
            const size_t p = (turn + i) % MOBILE_POLICIES;

            engine_set_trace(bench->engines[p], turn == options->repeats ? bench->run->trace : NULL);
            r = turn ? run_request(bench, p, &rows[p], turn, err) : warm_up(bench, p, &rows[p], err);
            engine_set_trace(bench->engines[p], NULL);
        }
    for (size_t p = 0; p < MOBILE_POLICIES && !r; p++)
        take_medians(bench, p, &rows[p]);
    return r;
}

static int begin(MobileBench *bench, ErrText *err) {
    WeightsGraphsCounts counts;

    for (size_t p = 0; p < MOBILE_POLICIES; p++) {
        int r = open_policy(bench, p, err);

        if (r)
            return r;
    }
    weights_graph_counts(engine_weights(bench->engines[0]), &counts);
    bench->report->n_blocks = counts.n_blocks;
    bench->report->graph_bytes = counts.graph_bytes;
    bench->report->block_bytes = counts.block_bytes;
    bench->report->form = graph_form_name(counts.form);
    bench->logits = malloc(engine_info(bench->engines[0])->n_vocab * sizeof(*bench->logits));
    for (size_t i = 0; i < _MOBILE_N && bench->logits; i++) {
        bench->values[i] = calloc(MOBILE_POLICIES * bench->run->options->repeats, sizeof(double));
        if (!bench->values[i])
            return err_no_memory(err);
    }
    return bench->logits ? 0 : err_no_memory(err);
}

/**
 * bench_mobile() - measure graph switching between prompts and decoding: each policy's waits and memory
 *
 * The model is open once for each policy, and the policies' requests alternate; the first request of each does not
 * count. A request is a prompt, chunk by chunk, and then output token by token. The orders of operators follow.
 * Requests from files are measured for the papers' table instead.
 */
int bench_mobile(const BenchRun *run, ErrText *err) {
    const BenchOptions *options = run->options;
    _cleanup_(mobile_bench_deinit) MobileBench bench = { .run = run };
    int r;

    if (options->mobile.cold)
        return mobile_cold_run(run, err);
    if (options->mobile.memory_bytes)
        return bench_mobile_memory(run, err);
    if (options->data.n_files)
        return bench_mobile_table(run, err);
    bench.report = bench_report_begin(run->report, &mobile_report_findings);
    if (!bench.report)
        return err_no_memory(err);
    account_table_init(&bench.accounts);
    r = options->mobile.timeline && timeline_new(&bench.timeline) ? err_no_memory(err) : 0;
    if (!r)
        r = begin(&bench, err);
    for (size_t i = 0; i < options->prompts.n && !r; i++)
        r = run_prompts(&bench, &bench.report->rows[i * MOBILE_POLICIES], options->prompts.at[i], err);
    if (r)
        return r;
    snprintf(bench.report->way, sizeof(bench.report->way), "%s",
             weights_flash_way(engine_weights(bench.engines[MOBILE_POLICIES - 1])));
    bench.report->n = options->prompts.n * MOBILE_POLICIES;
    for (size_t i = 0; i < ARRAY_LEN(bench.engines); i++)
        bench.engines[i] = engine_free(bench.engines[i]);
    r = mobile_orders_run(run, &bench.report->orders, bench.timeline, err);
    return r ? r : write_timeline(&bench, err);
}
