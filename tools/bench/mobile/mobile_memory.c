// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/mobile/mobile_memory.h"

#include <inttypes.h>

uint64_t mobile_memory_needed(uint64_t base_bytes, const AccountTable *accounts) {
    uint64_t bytes = base_bytes + MOBILE_MEMORY_REST;

    for (size_t i = 0; i < _ACCOUNT_N; i++)
        bytes += atomic_load(&accounts->peak_bytes[i]);
    return bytes;
}

static double mb(uint64_t len_bytes) {
    return (double)len_bytes / 1e6;
}

static void put_table(const void *findings, FILE *file) {
    const MobileMemory *memory = findings;

    fprintf(file,
            "Within a budget of %.1f MB: %.1f MB that the process has before the model, %.1f MB for the accounts, "
            "%.1f MB for what no account has. %zu requests, the longest of %zu tokens and %zu of output: prefill "
            "%.1f ms, decode %.1f ms.\n\n"
            "| account | most, MB |\n"
            "| --- | --- |\n",
            mb(memory->budget_bytes), mb(memory->base_bytes), mb(memory->accounts_bytes), mb(MOBILE_MEMORY_REST),
            memory->n_requests, memory->prompt_tokens, memory->output_tokens, memory->prefill_ms, memory->decode_ms);
    for (size_t i = 0; i < _ACCOUNT_N; i++)
        fprintf(file, "| %s | %.1f |\n", account_name((AccountId)i), mb(memory->peak_bytes[i]));
    fprintf(file, "| the process | %.1f |\n", mb(memory->process_bytes));
}

static void put_csv(const void *findings, const char *machine, FILE *file) {
    const MobileMemory *memory = findings;

    fprintf(file, "account,peak_bytes,budget_bytes\n");
    for (size_t i = 0; i < _ACCOUNT_N; i++)
        fprintf(file, "%s,%" PRIu64 ",%" PRIu64 "\n", account_name((AccountId)i), memory->peak_bytes[i],
                memory->budget_bytes);
    fprintf(file, "process,%" PRIu64 ",%" PRIu64 "\n", memory->process_bytes, memory->budget_bytes);
}

static bool add_json(const void *findings, json_t *report) {
    const MobileMemory *memory = findings;
    json_t *accounts = json_object(), *rows = json_array();

    for (size_t i = 0; i < _ACCOUNT_N; i++)
        json_object_set_new(accounts, account_name((AccountId)i), json_integer((json_int_t)memory->peak_bytes[i]));
    json_array_append_new(
        rows, json_pack("{s:s, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:f, s:f}", "test", "mobile-memory",
                        "budget_bytes", (json_int_t)memory->budget_bytes, "base_bytes", (json_int_t)memory->base_bytes,
                        "accounts_bytes", (json_int_t)memory->accounts_bytes, "peak_bytes", accounts, "process_bytes",
                        (json_int_t)memory->process_bytes, "requests", (json_int_t)memory->n_requests, "prompt_tokens",
                        (json_int_t)memory->prompt_tokens, "output_tokens", (json_int_t)memory->output_tokens,
                        "prefill_ms", memory->prefill_ms, "decode_ms", memory->decode_ms));
    return !json_object_set_new(report, "results", rows);
}

const BenchFindings mobile_memory_findings = {
    .len_bytes = sizeof(MobileMemory), .table = put_table, .csv = put_csv, .json = add_json
};
