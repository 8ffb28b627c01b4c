// SPDX-License-Identifier: Apache-2.0
/* Answers real requests by a target whose layers are read from flash, in turns under several policies of drafting with
 * a model in memory, beside plain decoding. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/min_max.h"
#include "engine/draft/draft_timeline.h"
#include "engine/draft/self_draft.h"
#include "spec/sources/history.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include "tools/bench/speculation/flash_report.h"
#include "tools/bench/speculation/spec_answer.h"
#include "weights/weights_report.h"

#define HISTORY_BYTES_MAX ((uint64_t)32 << 20) /* the service's limit for a user and model */

enum {
    WARM_TOKENS = 8 /* tokens of an answer that warms up */
};

typedef struct FlashBench {
    const BenchRun *run;
    FlashReport *report;
    AccountTable accounts; /* accounts of both models */
    Engine *draft, *target;
    DraftPair *pair;                                 /* NULL: the target drafts for itself with its first layers */
    const FlashPolicy *policies[FLASH_POLICIES_MAX]; /* flash-ar first */
    size_t n_policies;
    SpecAnswer answers[FLASH_POLICIES_MAX]; /* answers to the current request, by policy */
    SpecAnswer *plain;                      /* [requests]: reference answers of all cells */
    History *histories[SPEC_TASKS_MAX];     /* earlier answers in this cell, by task */
    bool shows_progress;
} FlashBench;

static void forget_histories(FlashBench *bench) {
    for (size_t i = 0; i < SPEC_TASKS_MAX; i++)
        history_free(steal(&bench->histories[i]));
}

static void flash_bench_deinit(FlashBench *bench) {
    for (size_t i = 0; i < FLASH_POLICIES_MAX; i++)
        spec_answer_deinit(&bench->answers[i]);
    for (size_t i = 0; bench->plain && i < bench->report->data.n; i++)
        spec_answer_deinit(&bench->plain[i]);
    free(bench->plain);
    forget_histories(bench);
    draft_pair_free(bench->pair);
    engine_free(bench->target);
    engine_free(bench->draft);
}

/* --- the models --------------------------------------------------------------------------------------------------- */

static int open_draft(FlashBench *bench, ErrText *err) {
    EvalModelOptions options = *bench->run->model;
    int r;

    if (!strcmp(bench->run->options->flash.draft, BENCH_DRAFT_SELF)) {
        bench->report->draft = strdup("its own layers in memory");
        return bench->report->draft ? 0 : err_no_memory(err);
    }
    options.path = bench->run->options->flash.draft;
    options.recipe_option = NULL;
    (void)quant_recipe_named(&options.recipe, NULL);
    r = eval_engine_open(&bench->draft, &options, bench->run->pool, &bench->accounts, err);
    if (r)
        return r;
    bench->report->draft = strdup(engine_info(bench->draft)->name);
    bench->report->draft_bytes = engine_info(bench->draft)->weights.resident_bytes;
    return bench->report->draft ? 0 : err_no_memory(err);
}

/* Opens the target anew, because the memory for its layers is set when it is opened. */
static int open_target(FlashBench *bench, uint32_t budget, ErrText *err) {
    EvalModelOptions options = *bench->run->model;

    bench->target = engine_free(bench->target);
    options.path = bench->run->engine_options->path;
    options.recipe_option = NULL; /* the package is that recipe's result */
    options.engine.load.weights.memory = (WeightsMemory){ .is_set = true, .is_percent = true, .percent = budget };
    return eval_engine_open(&bench->target, &options, bench->run->pool, &bench->accounts, err);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* Returns a user of its own for each policy, task and cell, so that a generation learns only from earlier ones of the
 * same three. */
static uint64_t user_of(const FlashBench *bench, size_t cell, size_t task, size_t policy) {
    return 1 + (cell * bench->report->data.n_tasks + task) * FLASH_POLICIES_MAX + policy;
}

static int answer_by(FlashBench *bench, const SpecRequest *request, const FlashPolicy *policy, uint64_t user,
                     History *history, SpecAnswer *answer, size_t max_tokens, ErrText *err) {
    const uint32_t sources = policy->sources;
    GenerationOptions generation = {
        .max_tokens = (uint32_t)max_tokens,
        .user = user,
        .no_reuse = true,
        .sampler = bench->run->options->sampler,
        .constraint = { .it = request->constraint, .may_be_cut = true },
        .speculation = { .sources = sources, .lab = &policy->lab },
    };
    DraftModel *model = &generation.speculation.model;
    int r = 0;

    if (sources >> SPECULATION_HISTORY & 1)
        generation.speculation.history = history;
    if ((sources >> SPECULATION_MODEL & 1) && !bench->pair)
        generation.speculation.self_layers =
            policy->lab.no_bounds ? self_draft_layers(bench->target) : self_draft_layers_for(bench->target, sources);
    else if (sources >> SPECULATION_MODEL & 1) {
        r = draft_timeline_new(model, bench->pair, request->prompt.n + max_tokens + DRAFT_ROWS_MAX, err);
        if (r)
            return r;
    }
    r = spec_answer_run(answer, bench->target, &request->prompt, &generation, err);
    draft_timeline_free(model);
    return r;
}

/* Gives answers that do not count, so that the times of the draft model's passes and the target's steps are known. */
static int warm_up(FlashBench *bench, ErrText *err) {
    const size_t most = bench->run->options->output_tokens, n = MIN(most, WARM_TOKENS);
    const FlashPolicy *ours = &flash_policies[FLASH_OURS];

    return answer_by(bench, &bench->report->data.requests[0], ours, 0, NULL, &bench->answers[0], n, err);
}

static void show(const FlashBench *bench, size_t cell, size_t index, size_t policy) {
    const FlashCell *it = &bench->report->cells[cell];
    const SpecData *data = &bench->report->data;

    if (!bench->shows_progress)
        return;
    fprintf(stderr, "\r\033[K%zu of %zu: %" PRIu32 " %% in memory, ", cell + 1, bench->report->n_cells, it->budget);
    if (it->rate)
        fprintf(stderr, "%zu MB/s, ", it->rate);
    fprintf(stderr, "request %zu of %zu (%.32s), %s", index + 1, data->n, data->tasks[data->requests[index].task],
            bench->policies[policy]->name);
    fflush(stderr);
}

static void show_nothing(const FlashBench *bench) {
    if (bench->shows_progress)
        fprintf(stderr, "\r\033[K");
}

/* Computes the reference answers with all layers in memory, in a fraction of the time, if flash-ar answers fewer
 * tokens. */
static int answer_in_memory(FlashBench *bench, ErrText *err) {
    const SpecData *data = &bench->report->data;
    int r = 0;

    for (size_t i = 0; i < data->n && !r; i++) {
        if (bench->shows_progress)
            fprintf(stderr, "\r\033[Kplain decoding in memory, request %zu of %zu", i + 1, data->n);
        r = answer_by(bench, &data->requests[i], &flash_policies[FLASH_AR], 0, NULL, &bench->plain[i],
                      bench->run->options->output_tokens, err);
    }
    return r;
}

/* Compares flash-ar's answer with the reference: its answer in the first cell, or a longer one from memory. */
static int compare_plain(FlashBench *bench, size_t cell, size_t index, ErrText *err) {
    SpecAnswer *plain = &bench->plain[index];
    const SpecAnswer *answer = &bench->answers[FLASH_AR];

    if (bench->run->options->flash.plain_tokens)
        return spec_answer_compare_start(answer, plain, err);
    if (cell)
        return spec_answer_compare(answer, plain, err);
    memcpy(plain->tokens, answer->tokens, answer->n * sizeof(*answer->tokens));
    memcpy(plain->hashes, answer->hashes, answer->n_hashes * sizeof(*answer->hashes));
    plain->n = answer->n;
    plain->n_hashes = answer->n_hashes;
    return 0;
}

static size_t tokens_of(const FlashBench *bench, const FlashPolicy *policy) {
    const size_t all = bench->run->options->output_tokens, plain = bench->run->options->flash.plain_tokens;

    return policy == &flash_policies[FLASH_AR] && plain && plain < all ? plain : all;
}

/* Answers a request under all policies. Each request begins with another policy, so that changes of the machine favour
 * none. */
static int answer_request(FlashBench *bench, size_t cell, size_t index, ErrText *err) {
    const SpecRequest *request = &bench->report->data.requests[index];
    SpecScore *scores = flash_report_scores(bench->report, cell, request->task);
    History *history = bench->histories[request->task];
    const SpecAnswer *plain = &bench->plain[index];
    int r = 0;

    for (size_t i = 0; i < bench->n_policies && !r; i++) {
        const size_t policy = (cell + index + i) % bench->n_policies;

        show(bench, cell, index, policy);
        r = answer_by(bench, request, bench->policies[policy], user_of(bench, cell, request->task, policy), history,
                      &bench->answers[policy], tokens_of(bench, bench->policies[policy]), err);
        if (r)
            return r;
    }
    for (size_t i = 0; i < bench->n_policies && !r; i++) {
        r = i ? spec_answer_compare(&bench->answers[i], plain, err) : compare_plain(bench, cell, index, err);
        if (r)
            err_prefix(err, "task '%s', request '%s', policy '%s'", scores[i].task, request->id, scores[i].mode);
        else
            spec_score_add(&scores[i], &bench->answers[i], &bench->answers[FLASH_AR]);
    }
    if (r)
        return r;
    r = history_add(history, plain->tokens, plain->n);
    return r < 0 ? err_set(err, r, "no memory for the history") : 0;
}

static int run_cell(FlashBench *bench, size_t cell, ErrText *err) {
    const SpecData *data = &bench->report->data;
    FlashCell *it = &bench->report->cells[cell];
    const EngineInfo *info = engine_info(bench->target);
    ReadLimit limit = bench->run->model->engine.load.weights.flash_limit; /* its latency */
    int r = 0;

    limit.bytes_per_s = (uint64_t)it->rate * 1000000;
    weights_set_flash_limit(engine_weights(bench->target), limit);
    it->n_streamed = info->weights.n_streamed_layers;
    it->sweep_bytes = info->weights.sweep_bytes;
    snprintf(it->way, sizeof(it->way), "%s", weights_flash_way(engine_weights(bench->target)));
    forget_histories(bench);
    for (size_t i = 0; i < data->n_tasks && !r; i++)
        r = history_new(&bench->accounts, HISTORY_BYTES_MAX, &bench->histories[i]);
    if (r)
        return err_set(err, r, "no memory for the history");
    r = warm_up(bench, err);
    for (size_t i = 0; i < data->n && !r; i++)
        r = answer_request(bench, cell, i, err);
    return r;
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static int prepare(FlashBench *bench, ErrText *err) {
    const BenchOptions *options = bench->run->options;
    const EngineInfo *info = engine_info(bench->target);
    const char *names[FLASH_POLICIES_MAX];
    bool is_whole = true;

    for (size_t i = 0; i < FLASH_POLICIES_MAX; i++) {
        if (!(options->flash.policies >> i & 1))
            continue;
        names[bench->n_policies] = flash_policies[i].name;
        bench->policies[bench->n_policies++] = &flash_policies[i];
    }
    for (size_t i = 0; i < bench->n_policies; i++)
        is_whole = !spec_answer_init(&bench->answers[i], options->output_tokens) && is_whole;
    bench->plain = calloc(bench->report->data.n, sizeof(*bench->plain));
    for (size_t i = 0; bench->plain && i < bench->report->data.n; i++)
        is_whole = !spec_answer_init(&bench->plain[i], options->output_tokens) && is_whole;
    bench->report->target = strdup(info->name);
    bench->report->target_bytes = info->weights.resident_bytes - info->weights.ring_bytes + info->weights.sweep_bytes;
    if (!is_whole || !bench->plain || !bench->report->target ||
        flash_report_init(bench->report, options->flash.budgets.n * options->flash.rates.n, names, bench->n_policies))
        return err_no_memory(err);
    return 0;
}

static int begin(FlashBench *bench, ErrText *err) {
    const BenchOptions *options = bench->run->options;
    int r = open_draft(bench, err);

    if (!r)
        r = open_target(bench, options->flash.plain_tokens ? 100 : (uint32_t)options->flash.budgets.at[0], err);
    if (!r && bench->draft)
        r = draft_pair_new(&bench->pair, bench->draft, bench->target, err);
    if (!r)
        r = spec_data_read(&bench->report->data, bench->target, &options->data, err); /* tokens are the target's */
    if (!r)
        r = prepare(bench, err);
    return r || !options->flash.plain_tokens ? r : answer_in_memory(bench, err);
}

static int draw(const FlashBench *bench, ErrText *err) {
    char machine[256], title[512];

    machine_name(machine, sizeof(machine));
    snprintf(title, sizeof(title), "%s with %s on %s, %u threads", bench->report->target, bench->report->draft, machine,
             worker_pool_n_threads(bench->run->pool));
    return flash_report_plot(bench->report, title, bench->run->options->plot, err);
}

/**
 * bench_flash() - measure policies of drafting for a target that is not in memory, on requests from files
 *
 * The target is opened anew for each budget, the draft model stays open. In each cell an answer of some tokens warms up
 * and does not count, and histories and what is learned of drafts begin anew. A budget with all layers in memory has
 * one cell, for the rate does not matter. An answer that differs from the reference of plain decoding in any bit ends
 * the run with an error that names task, request and policy.
 */
int bench_flash(const BenchRun *run, ErrText *err) {
    const BenchOptions *options = run->options;
    FlashReport *report = bench_report_begin(run->report, &flash_report_findings);
    _cleanup_(flash_bench_deinit)
        FlashBench bench = { .run = run, .report = report, .shows_progress = isatty(STDERR_FILENO) };
    size_t cell = 0;
    int r;

    if (!report)
        return err_no_memory(err);
    account_table_init(&bench.accounts);
    r = begin(&bench, err);
    for (size_t i = 0; i < options->flash.budgets.n && !r; i++) {
        if (i || options->flash.plain_tokens)
            r = open_target(&bench, (uint32_t)options->flash.budgets.at[i], err);
        for (size_t j = 0; j < options->flash.rates.n && !r; j++) {
            const bool is_streamed = engine_info(bench.target)->weights.n_streamed_layers;

            if (j && !is_streamed)
                continue;
            report->cells[cell].budget = (uint32_t)options->flash.budgets.at[i];
            report->cells[cell].rate = is_streamed ? options->flash.rates.at[j] : 0;
            r = run_cell(&bench, cell++, err);
        }
    }
    show_nothing(&bench);
    report->n_cells = cell;
    return r || !options->plot ? r : draw(&bench, err);
}
