// SPDX-License-Identifier: Apache-2.0
/* The rules of a phone's NPU, and what they cost: requests on the npu device under every policy of graph switching. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/machine.h"

/* What is measured of the requests of one row, an array for each. */
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
    Engine *engine;
    double *values[_MOBILE_N]; /* [repeats] milliseconds */
    float *logits;
} MobileBench;

static void mobile_bench_deinit(MobileBench *bench) {
    engine_free(bench->engine);
    for (size_t i = 0; i < _MOBILE_N; i++)
        free(bench->values[i]);
    free(bench->logits);
}

static int open_policy(MobileBench *bench, GraphSwitchPolicy policy, ErrText *err) {
    EvalOptions options = *bench->run->model;

    bench->engine = engine_free(bench->engine);
    options.model = bench->run->engine_options->path;
    options.recipe_option = NULL; /* that package is what came of it */
    options.device = ENGINE_DEVICE_NPU;
    options.graphs.policy = policy;
    options.op_order = OP_ORDER_IN_ORDER; /* a chunk a step: switching is chunk by chunk */
    return eval_engine_open(&bench->engine, &options, bench->run->pool, &bench->accounts, err);
}

/* --- a request ---------------------------------------------------------------------------------------------------- */

static int run_step(MobileBench *bench, Sequence *sequence, const uint32_t *tokens, size_t n, size_t n_behind,
                    ErrText *err) {
    EngineSpan span = { .sequence = sequence,
                        .tokens = tokens,
                        .n = n,
                        .n_behind = n_behind,
                        .n_logit_rows = !n_behind,
                        .logits = bench->logits };
    int r = engine_forward_spans(bench->engine, &span, 1, err);

    return !r || r == ENGINE_E_READ ? r : err_set(err, r, "a step of %zu tokens failed (%d)", n, r);
}

static int run_prompt(MobileBench *bench, Sequence *sequence, size_t n_tokens, ErrText *err) {
    const EngineInfo *info = engine_info(bench->engine);
    const size_t chunk = engine_chunk_tokens(bench->engine);
    _cleanup_(freep) uint32_t *tokens = malloc(chunk * sizeof(*tokens));
    int r = tokens ? 0 : err_set(err, -ENOMEM, "out of memory");

    for (size_t done = 0, n; done < n_tokens && !r; done += n) {
        n = n_tokens - done < chunk ? n_tokens - done : chunk;
        for (size_t i = 0; i < n; i++)
            tokens[i] = bench_token(info, done + i);
        r = run_step(bench, sequence, tokens, n, n_tokens - done - n, err);
    }
    return r;
}

static int run_output(MobileBench *bench, Sequence *sequence, ErrText *err) {
    int r = 0;

    for (size_t i = 0; i < bench->run->options->output_tokens && !r; i++) {
        const uint32_t token = bench_token(engine_info(bench->engine), sequence_n_tokens(sequence));

        r = run_step(bench, sequence, &token, 1, 0, err);
    }
    return r;
}

static double ms(uint64_t ns) {
    return (double)ns / 1e6;
}

/* turn: of its measured ones, from 1 on; 0 warms up: then times are known that switching is planned by. */
static int run_request(MobileBench *bench, MobileRow *row, size_t turn, ErrText *err) {
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    WeightsGraphsCounts before, middle, after;
    uint64_t start_ns, middle_ns, end_ns;
    int r = sequence_new(&sequence, bench->engine, row->prompt_tokens + row->output_tokens, err);

    if (r)
        return r;
    engine_graph_counts(bench->engine, &before);
    start_ns = clock_now_ns();
    r = run_prompt(bench, sequence, row->prompt_tokens, err);
    engine_graph_explain(bench->engine, row->why, sizeof(row->why));
    engine_graph_counts(bench->engine, &middle);
    middle_ns = clock_now_ns();
    if (!r)
        r = run_output(bench, sequence, err);
    end_ns = clock_now_ns();
    engine_graph_counts(bench->engine, &after);
    row->peak_bytes = after.peak_bytes;
    row->n_loads = after.n_loads - before.n_loads;
    row->loaded_bytes = after.loaded_bytes - before.loaded_bytes;
    if (r || !turn)
        return r;
    bench->values[MOBILE_PREFILL][turn - 1] = ms(middle_ns - start_ns);
    bench->values[MOBILE_DECODE][turn - 1] = ms(end_ns - middle_ns);
    bench->values[MOBILE_TOTAL][turn - 1] = ms(end_ns - start_ns);
    bench->values[MOBILE_PREFILL_STALL][turn - 1] = ms(middle.stall_ns - before.stall_ns);
    bench->values[MOBILE_DECODE_STALL][turn - 1] = ms(after.stall_ns - middle.stall_ns);
    bench->values[MOBILE_LOAD][turn - 1] = ms(after.load_ns - before.load_ns);
    return 0;
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static int run_row(MobileBench *bench, MobileRow *row, ErrText *err) {
    double *const results[_MOBILE_N] = {
        [MOBILE_PREFILL] = &row->prefill_ms,
        [MOBILE_DECODE] = &row->decode_ms,
        [MOBILE_TOTAL] = &row->total_ms,
        [MOBILE_PREFILL_STALL] = &row->prefill_stall_ms,
        [MOBILE_DECODE_STALL] = &row->decode_stall_ms,
        [MOBILE_LOAD] = &row->load_ms,
    };
    const size_t chunk = engine_chunk_tokens(bench->engine);
    int r = 0;

    row->n_chunks = (row->prompt_tokens + chunk - 1) / chunk;
    for (size_t turn = 0; turn <= row->n_requests && !r; turn++) {
        if (turn == row->n_requests)
            engine_set_trace(bench->engine, bench->run->trace);
        r = run_request(bench, row, turn, err);
    }
    engine_set_trace(bench->engine, NULL);
    for (size_t i = 0; i < _MOBILE_N && !r; i++)
        *results[i] = machine_median(bench->values[i], row->n_requests);
    return r;
}

static int note_model(MobileBench *bench, ErrText *err) {
    WeightsGraphsCounts counts;

    engine_graph_counts(bench->engine, &counts);
    bench->report->n_blocks = counts.n_blocks;
    bench->report->graph_bytes = counts.graph_bytes;
    bench->report->block_bytes = counts.block_bytes;
    snprintf(bench->report->way, sizeof(bench->report->way), "%s", engine_flash_way(bench->engine));
    if (!bench->logits)
        bench->logits = malloc(engine_info(bench->engine)->n_vocab * sizeof(*bench->logits));
    return bench->logits ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/**
 * bench_mobile() - switching between graphs of prompts and of decoding: what each policy waits, and takes of memory
 *
 * For each policy the model is opened anew; a first request warms up and does not count. A request is a prompt, chunk
 * by chunk, and then output token by token.
 */
int bench_mobile(const BenchRun *run, ErrText *err) {
    static const GraphSwitchPolicy policies[_GRAPH_SWITCH_N] = { GRAPH_SWITCH_NONE, GRAPH_SWITCH_SYNC,
                                                                 GRAPH_SWITCH_ASYNC, GRAPH_SWITCH_PROGRESSIVE };
    const BenchOptions *options = run->options;
    _cleanup_(mobile_bench_deinit) MobileBench bench = { .run = run, .report = &run->report->mobile };
    int r = 0;

    account_table_init(&bench.accounts);
    for (size_t i = 0; i < _MOBILE_N; i++) {
        bench.values[i] = calloc(options->repeats, sizeof(double));
        if (!bench.values[i])
            return err_set(err, -ENOMEM, "out of memory");
    }
    for (size_t p = 0; p < _GRAPH_SWITCH_N && !r; p++) {
        r = open_policy(&bench, policies[p], err);
        if (!r)
            r = note_model(&bench, err);
        for (size_t i = 0; i < options->n_prompts && !r; i++) {
            MobileRow *row = &bench.report->rows[i * _GRAPH_SWITCH_N + p];

            *row = (MobileRow){ .policy = graph_switch_name(policies[p]),
                                .prompt_tokens = options->prompt_tokens[i],
                                .output_tokens = options->output_tokens,
                                .n_requests = options->repeats };
            r = run_row(&bench, row, err);
        }
    }
    bench.report->n = options->n_prompts * _GRAPH_SWITCH_N;
    bench.engine = engine_free(bench.engine);
    return r ? r : mobile_orders_run(run, &bench.report->orders, err);
}
