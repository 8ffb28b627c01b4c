// SPDX-License-Identifier: Apache-2.0
/* Runs requests on the npu device with the service's settings within a memory budget for weights, graphs, keys and
 * values, drafts, scratch, and the process as the system counts it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/min_max.h"
#include "engine/generation.h"
#include "tools/bench/bench.h"
#include "tools/bench/mobile/mobile_memory.h"

typedef struct MemoryBench {
    const BenchRun *run;
    MobileMemory *memory;
    AccountTable accounts;
    Engine *engine;
    uint32_t *tokens;
    bool is_short; /* the failure is for want of memory */
} MemoryBench;

static void memory_bench_close(MemoryBench *bench) {
    bench->engine = engine_free(bench->engine);
    free(bench->tokens);
    bench->tokens = NULL;
}

/* Returns the bytes of a line of /proc/self/status, as "VmHWM:"; 0: no such line. */
static uint64_t status_bytes(const char *key) {
    FILE *file = fopen("/proc/self/status", "re");
    uint64_t kib = 0;
    char line[160];

    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, key, strlen(key)))
            kib = strtoull(line + strlen(key), NULL, 10);
    if (file)
        fclose(file);
    return kib * 1024;
}

static int open_engine(MemoryBench *bench, uint64_t limit_bytes, ErrText *err) {
    EvalModelOptions options = *bench->run->model;
    int r;

    options.path = bench->run->engine_options->path;
    options.recipe_option = NULL; /* the package is that recipe's result */
    options.engine.load.device = ENGINE_DEVICE_NPU;
    account_table_init(&bench->accounts);
    bench->accounts.total_limit_bytes = limit_bytes;
    r = eval_engine_open(&bench->engine, &options, bench->run->pool, &bench->accounts, err);
    bench->is_short = r == -ENOMEM || r == ENGINE_E_MEMORY;
    return r;
}

static int run_request(MemoryBench *bench, size_t n_prompt, uint64_t *prefill_nsp, uint64_t *decode_nsp, ErrText *err) {
    _cleanup_(generation_freep) Generation *generation = NULL;
    const GenerationOptions options = { .max_tokens = (uint32_t)bench->run->options->output_tokens,
                                        .ignore_end = true,
                                        .no_reuse = true,
                                        .sampler = SAMPLER_OPTIONS_GREEDY,
                                        .speculation = { .sources = SPECULATION_AUTO } };
    int r;

    for (size_t i = 0; i < n_prompt; i++)
        bench->tokens[i] = bench_token(engine_info(bench->engine), i);
    r = generation_new(&generation, bench->engine, bench->tokens, n_prompt, &options, err);
    while (!r && generation_end(generation) == GENERATION_RUNNING)
        r = generation_step(generation, NULL, NULL, err);
    bench->is_short = r == -ENOMEM || r == GENERATION_E_MEMORY;
    if (r)
        return r;
    *prefill_nsp = generation_usage(generation)->prefill_ns;
    *decode_nsp = generation_usage(generation)->decode_ns;
    return 0;
}

/* Runs every prompt of the command line, as often as the command line says. */
static int run_requests(MemoryBench *bench, ErrText *err) {
    const BenchOptions *options = bench->run->options;
    MobileMemory *memory = bench->memory;
    int r = 0;

    for (size_t i = 0; i < options->prompts.n; i++)
        memory->prompt_tokens = MAX(options->prompts.at[i], memory->prompt_tokens);
    memory->output_tokens = options->output_tokens;
    memory->n_requests = 0;
    bench->tokens = malloc(memory->prompt_tokens * sizeof(*bench->tokens));
    if (!bench->tokens)
        return err_no_memory(err);
    for (size_t turn = 0; turn < options->repeats && !r; turn++)
        for (size_t i = 0; i < options->prompts.n && !r; i++) {
            uint64_t prefill_ns = 0, decode_ns = 0;

            r = run_request(bench, options->prompts.at[i], &prefill_ns, &decode_ns, err);
            memory->n_requests++;
            if (r || options->prompts.at[i] != memory->prompt_tokens)
                continue;
            memory->prefill_ms = (double)prefill_ns / 1e6;
            memory->decode_ms = (double)decode_ns / 1e6;
        }
    return r;
}

/* Refuses a budget that is too small. A run without a limit finds the budget that suffices, for the error's text. */
static int refuse(MemoryBench *bench, ErrText *err) {
    const uint64_t base_bytes = bench->memory->base_bytes, budget_bytes = bench->memory->budget_bytes;
    ErrText why = *err;
    int r;

    memory_bench_close(bench);
    r = open_engine(bench, UINT64_MAX, err);
    if (!r)
        r = run_requests(bench, err);
    if (r) {
        *err = why;
        return r;
    }
    return err_set(err, ENGINE_E_MEMORY,
                   "--memory is %" PRIu64 " bytes, and this takes %" PRIu64 ", with %" PRIu64
                   " that the process has before the model: %s",
                   budget_bytes, mobile_memory_needed(base_bytes, &bench->accounts), base_bytes, why.text);
}

/**
 * bench_mobile_memory() - run requests within options->mobile.memory_bytes
 *
 * All accounts together may have the budget less the process's present size and a fixed part for memory without an
 * account. An allocation beyond that is refused before it is made. After the run the process's peak is compared with
 * the budget.
 */
int bench_mobile_memory(const BenchRun *run, ErrText *err) {
    MemoryBench bench = { .run = run, .memory = bench_report_begin(run->report, &mobile_memory_findings) };
    MobileMemory *memory = bench.memory;
    int r;

    if (!memory)
        return err_no_memory(err);
    memory->budget_bytes = run->options->mobile.memory_bytes;
    memory->base_bytes = status_bytes("VmRSS:");
    memory->accounts_bytes = memory->budget_bytes > memory->base_bytes + MOBILE_MEMORY_REST
                                 ? memory->budget_bytes - memory->base_bytes - MOBILE_MEMORY_REST
                                 : 0;
    r = open_engine(&bench, memory->accounts_bytes, err);
    if (!r)
        r = run_requests(&bench, err);
    for (size_t i = 0; i < _ACCOUNT_N; i++)
        memory->peak_bytes[i] = atomic_load(&bench.accounts.peak_bytes[i]);
    memory->process_bytes = status_bytes("VmHWM:");
    if (r && bench.is_short)
        r = refuse(&bench, err);
    else if (!r && memory->process_bytes > memory->budget_bytes)
        r = err_set(err, -ENOMEM,
                    "the process had %" PRIu64 " bytes at most, and --memory is %" PRIu64
                    ": of the rest its accounts had no more than they may",
                    memory->process_bytes, memory->budget_bytes);
    memory_bench_close(&bench);
    return r;
}
