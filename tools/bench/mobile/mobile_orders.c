// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/mobile/mobile_orders.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include "tools/bench/mobile/timeline.h"

#define STEAL_BEYOND_OF_PAPER 5

/* The orders without a placement run all products on the NPU, which is EdgeFlow's placement. EdgeFlow's ablation begins
 * with the second, a static schedule; position and stealing are added to it. */
static const struct {
    const char *name;
    OpOrder order;
    size_t steal_beyond;
    OpPlacementKind placement;
    bool in_picture;
} orders_of[MOBILE_ORDERS_N] = {
    { "in-order", OP_ORDER_IN_ORDER, OP_STEAL_NEVER, OP_PLACEMENT_NPU, true },
    { "static", OP_ORDER_STATIC, OP_STEAL_NEVER, OP_PLACEMENT_NPU, true },
    { "out-of-order", OP_ORDER_OUT_OF_ORDER, OP_STEAL_NEVER, OP_PLACEMENT_NPU, true },
    { "position", OP_ORDER_POSITION, OP_STEAL_NEVER, OP_PLACEMENT_NPU, false },
    { "position, stealing past 5", OP_ORDER_POSITION, STEAL_BEYOND_OF_PAPER, OP_PLACEMENT_NPU, false },
    { "position, stealing", OP_ORDER_POSITION, OP_STEAL_MEASURED, OP_PLACEMENT_NPU, true },
    { "static", OP_ORDER_STATIC, OP_STEAL_NEVER, OP_PLACEMENT_PROFILE, false },
    { "position, stealing", OP_ORDER_POSITION, OP_STEAL_MEASURED, OP_PLACEMENT_PROFILE, false },
    { "out-of-order", OP_ORDER_OUT_OF_ORDER, OP_STEAL_NEVER, OP_PLACEMENT_PROFILE, false },
    { "out-of-order", OP_ORDER_OUT_OF_ORDER, OP_STEAL_NEVER, OP_PLACEMENT_ALL, false },
};

enum {
    ORDER_STATIC = 1, /* index of the static order */
};

typedef struct OrdersBench {
    AccountTable accounts;
    WorkerPool *pool;
    Engine *engine;
    uint32_t *tokens;
    float *logits;
    Timeline *timeline;          /* the caller's, or NULL */
    size_t first_place;          /* place of the prompt's first order in the timeline, behind all other bands */
    double *ms[MOBILE_ORDERS_N]; /* [repeats] */
    EngineQueueCounts counts[MOBILE_ORDERS_N];
} OrdersBench;

static void orders_bench_deinit(OrdersBench *bench) {
    engine_free(bench->engine);
    worker_pool_free(bench->pool);
    free(bench->tokens);
    free(bench->logits);
    for (size_t i = 0; i < MOBILE_ORDERS_N; i++)
        free(bench->ms[i]);
}

/* Opens the engine with all graphs in memory, so that switching takes no time. */
static int open_engine(OrdersBench *bench, const BenchRun *run, unsigned int n_threads, ErrText *err) {
    EvalModelOptions options = *run->model;
    int r;

    options.path = run->engine_options->path;
    options.recipe_option = NULL; /* the package is that recipe's result */
    options.engine.load.device = ENGINE_DEVICE_NPU;
    options.engine.load.weights.graphs.policy = GRAPH_SWITCH_NONE;
    options.engine.load.chunk_tokens = 0;
    r = worker_pool_new(&bench->pool, n_threads);
    if (r)
        return err_set(err, r, "out of memory");
    r = eval_engine_open(&bench->engine, &options, bench->pool, &bench->accounts, err);
    if (r)
        return r;
    bench->tokens = malloc(engine_chunk_tokens(bench->engine) * sizeof(*bench->tokens));
    bench->logits = malloc(engine_info(bench->engine)->n_vocab * sizeof(*bench->logits));
    for (size_t i = 0; i < MOBILE_ORDERS_N; i++)
        bench->ms[i] = calloc(run->options->repeats, sizeof(double));
    for (size_t i = 0; i < MOBILE_ORDERS_N; i++)
        if (!bench->ms[i])
            r = -ENOMEM;
    return bench->tokens && bench->logits && !r ? 0 : err_no_memory(err);
}

static int run_prompt(OrdersBench *bench, size_t n_tokens, double *msp, ErrText *err) {
    _cleanup_(sequence_freep) Sequence *sequence = NULL;
    const size_t chunk = engine_chunk_tokens(bench->engine);
    int r = sequence_new(&sequence, bench->engine, n_tokens, err);
    const uint64_t start_ns = clock_now_ns();

    for (size_t done = 0, n; done < n_tokens && !r; done += n) {
        EngineSpan span = { .sequence = sequence, .tokens = bench->tokens, .head.logits = bench->logits };

        n = MIN(n_tokens - done, chunk);
        for (size_t i = 0; i < n; i++)
            bench->tokens[i] = bench_token(engine_info(bench->engine), done + i);
        span.n = n;
        span.n_behind = n_tokens - done - n;
        span.head.n_rows = !span.n_behind;
        r = engine_forward_spans(bench->engine, &span, 1, err);
    }
    *msp = (double)(clock_now_ns() - start_ns) / 1e6;
    return r;
}

static void counts_add(EngineQueueCounts *sum, const EngineQueueCounts *before, const EngineQueueCounts *after) {
    sum->wall_ns += after->wall_ns - before->wall_ns;
    sum->npu_ns += after->npu_ns - before->npu_ns;
    sum->cpu_ns += after->cpu_ns - before->cpu_ns;
    sum->n_products += after->n_products - before->n_products;
    sum->n_placed += after->n_placed - before->n_placed;
    sum->n_stolen += after->n_stolen - before->n_stolen;
    sum->n_joint += after->n_joint - before->n_joint;
}

/* Records the last turn of an order in the trace and the timeline. */
static int run_traced(OrdersBench *bench, const BenchRun *run, size_t order, size_t n_tokens, double *msp,
                      ErrText *err) {
    const size_t first = run->trace ? trace_n(run->trace) : 0;
    const uint64_t start_ns = clock_now_ns();
    char name[64];
    int r;

    engine_set_trace(bench->engine, run->trace);
    r = run_prompt(bench, n_tokens, msp, err);
    engine_set_trace(bench->engine, NULL);
    snprintf(name, sizeof(name), "order %s, prompt of %zu", orders_of[order].name, n_tokens);
    if (!r && bench->timeline && orders_of[order].in_picture)
        r = timeline_add(bench->timeline, bench->first_place + order, name, run->trace, first, start_ns, 0,
                         clock_now_ns());
    return r;
}

/* Runs turns that warm up, then turns that count. Each has every order once and begins with another one. The first
 * prompts measure the times of products on either side. */
static int run_turns(OrdersBench *bench, const BenchRun *run, size_t n_tokens, char *why, ErrText *err) {
    int r = 0;

    for (size_t i = 0; i < MOBILE_ORDERS_N; i++)
        bench->counts[i] = (EngineQueueCounts){ 0 };
    for (size_t turn = 0; turn <= run->options->repeats && !r; turn++)
        for (size_t nth = 0; nth < MOBILE_ORDERS_N && !r; nth++) {
            const size_t i = (nth + turn) % MOBILE_ORDERS_N;
            const EngineQueueCounts before = engine_queue_counts(bench->engine);
            EngineQueueCounts after;
            double ms;

            engine_set_op_order(bench->engine, orders_of[i].order, orders_of[i].steal_beyond, orders_of[i].placement);
            r = turn == run->options->repeats ? run_traced(bench, run, i, n_tokens, &ms, err)
                                              : run_prompt(bench, n_tokens, &ms, err);
            after = engine_queue_counts(bench->engine);
            if (orders_of[i].placement == OP_PLACEMENT_PROFILE && orders_of[i].order == OP_ORDER_OUT_OF_ORDER)
                engine_op_explain(bench->engine, why, MOBILE_ORDERS_WHY_BYTES);
            if (!turn)
                continue;
            bench->ms[i][turn - 1] = ms;
            counts_add(&bench->counts[i], &before, &after);
        }
    return r;
}

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

int mobile_orders_run(const BenchRun *run, MobileOrders *orders, Timeline *timeline, ErrText *err) {
    const BenchOptions *options = run->options;
    const unsigned int n_threads = worker_pool_n_threads(run->pool);
    _cleanup_(orders_bench_deinit) OrdersBench bench = { .timeline = timeline };
    int r;

    account_table_init(&bench.accounts);
    orders->n_threads = n_threads > 1 ? n_threads - 1 : 1;
    r = open_engine(&bench, run, orders->n_threads, err);
    if (r)
        return r;
    orders->groups = engine_chunk_tokens(bench.engine) / 256;
    for (size_t p = 0; p < options->prompts.n && !r; p++) {
        bench.first_place = SIZE_MAX / 2 + orders->n;
        r = run_turns(&bench, run, options->prompts.at[p], orders->why[p], err);
        for (size_t i = 0; i < MOBILE_ORDERS_N && !r; i++) {
            const EngineQueueCounts *counts = &bench.counts[i];
            const uint64_t longer_ns = MAX(counts->npu_ns, counts->cpu_ns);

            orders->rows[orders->n++] = (MobileOrder){ .name = orders_of[i].name,
                                                       .placement = op_placement_name(orders_of[i].placement),
                                                       .prompt_tokens = options->prompts.at[p],
                                                       .prefill_ms = machine_median(bench.ms[i], options->repeats),
                                                       .npu_bubble = 1 - share(counts->npu_ns, counts->wall_ns),
                                                       .cpu_bubble = 1 - share(counts->cpu_ns, counts->wall_ns),
                                                       .ideal_ms = (double)longer_ns / 1e6 / (double)options->repeats,
                                                       .n_products = counts->n_products / options->repeats,
                                                       .n_placed = counts->n_placed / options->repeats,
                                                       .n_stolen = counts->n_stolen / options->repeats,
                                                       .n_joint = counts->n_joint / options->repeats };
        }
    }
    return r;
}

/* --- the report --------------------------------------------------------------------------------------------------- */

/* Returns the ratio of the time to that of another order of the same prompt. */
static double beside(const MobileOrders *orders, size_t index, size_t other) {
    const MobileOrder *row = &orders->rows[index],
                      *beside = &orders->rows[index / MOBILE_ORDERS_N * MOBILE_ORDERS_N + other];

    return beside->prefill_ms > 0 ? row->prefill_ms / beside->prefill_ms : 0;
}

static double over_in_order(const MobileOrders *orders, size_t index) {
    return orders->rows[index].prefill_ms > 0 ? beside(orders, index, 0) - 1 : 0;
}

/* Returns how many times as fast as the static order the order is. */
static double than_static(const MobileOrders *orders, size_t index) {
    const double ratio = beside(orders, index, ORDER_STATIC);

    return ratio > 0 ? 1 / ratio : 0;
}

void mobile_orders_table(const MobileOrders *orders, FILE *file) {
    fprintf(
        file,
        "\nOrder of operators, products on the NPU's thread and all else on %u more, %zu groups of 256 rows a step. "
        "Products: all on the npu, or by profile, or (all) attention's on the npu, too; a static order with all on the "
        "npu is EdgeFlow's placement without what it adds. Bubble: the part of the time without work; placed, stolen: "
        "products of the processors, by profile (or to measure it), and taken from the NPU's queue; attention: those "
        "whose products the NPU made.\n\n"
        "| prompt | order | products | prefill ms | over in-order | than static | NPU bubble | CPU bubble "
        "| without bubbles ms | of the NPU | placed | stolen | attention |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        orders->n_threads, orders->groups);
    for (size_t i = 0; i < orders->n; i++) {
        const MobileOrder *row = &orders->rows[i];

        fprintf(file,
                "| %zu | %s | %s | %.1f | %+.1f %% | x%.3f | %.1f %% | %.1f %% | %.1f | %" PRIu64 " | %" PRIu64
                " | %" PRIu64 " | %" PRIu64 " |\n",
                row->prompt_tokens, row->name, row->placement, row->prefill_ms, 100 * over_in_order(orders, i),
                than_static(orders, i), 100 * row->npu_bubble, 100 * row->cpu_bubble, row->ideal_ms, row->n_products,
                row->n_placed, row->n_stolen, row->n_joint);
    }
    for (size_t i = 0; i < orders->n; i += MOBILE_ORDERS_N)
        if (*orders->why[i / MOBILE_ORDERS_N])
            fprintf(file, "\nPrompt of %zu, by profile: %s.\n", orders->rows[i].prompt_tokens,
                    orders->why[i / MOBILE_ORDERS_N]);
}

void mobile_orders_json(const MobileOrders *orders, json_t *rows) {
    for (size_t i = 0; i < orders->n; i++) {
        const MobileOrder *row = &orders->rows[i];

        json_array_append_new(
            rows,
            json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:i, s:s}", "test",
                      "mobile-order", "order", row->name, "placement", row->placement, "prompt_tokens",
                      (json_int_t)row->prompt_tokens, "prefill_ms", row->prefill_ms, "over_in_order",
                      over_in_order(orders, i), "than_static", than_static(orders, i), "npu_bubble", row->npu_bubble,
                      "cpu_bubble", row->cpu_bubble, "ideal_ms", row->ideal_ms, "products", (json_int_t)row->n_products,
                      "placed", (json_int_t)row->n_placed, "stolen", (json_int_t)row->n_stolen, "joint",
                      (json_int_t)row->n_joint, "threads", (int)orders->n_threads, "why",
                      strcmp(row->placement, "profile") ? "" : orders->why[i / MOBILE_ORDERS_N]));
    }
}
