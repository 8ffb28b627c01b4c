// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/mobile/mobile_report.h"

#include <inttypes.h>
#include <string.h>

static double stall_ms(const MobileRow *row) {
    return row->prefill_stall_ms + row->decode_stall_ms;
}

/* Returns the share of the whole request spent waiting for loads. */
static double stall_share(const MobileRow *row) {
    return row->total_ms > 0 ? stall_ms(row) / row->total_ms : 0;
}

/* Returns the share of the loads' time that nobody waited for. */
static double hidden_share(const MobileRow *row) {
    return row->load_ms > stall_ms(row) ? 1 - stall_ms(row) / row->load_ms : 0;
}

/* Returns how much longer the request takes than with graphs of both kinds in memory, as a share. The first row of a
 * prompt has both. */
static double over_none(const MobileReport *report, size_t index) {
    const MobileRow *row = &report->rows[index], *none = &report->rows[index / MOBILE_POLICIES * MOBILE_POLICIES];

    return none->total_ms > 0 ? row->total_ms / none->total_ms - 1 : 0;
}

static double mb(uint64_t len_bytes) {
    return (double)len_bytes / 1e6;
}

static void put_table(const void *findings, FILE *file) {
    const MobileReport *report = findings;

    fprintf(
        file,
        "Graph switching on the npu device: %zu blocks, graphs of %.1f MB, a block at most %.1f MB, %s, loads by %s. "
        "Waiting is for loads; every request begins where the one before it has ended, with the graphs of "
        "decoding.\n\n",
        report->n_blocks, mb(report->graph_bytes), mb(report->block_bytes), report->form,
        *report->way ? report->way : "nothing");
    fprintf(file,
            "| prompt | output | policy | prefill ms | of it waiting | decode ms | of it waiting | waiting, of all "
            "| over none | loads | MB | loads ms | of it expanding | hidden | graphs, peak MB |\n"
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < report->n; i++) {
        const MobileRow *row = &report->rows[i];

        fprintf(file,
                "| %zu | %zu | %s | %.1f | %.1f | %.1f | %.1f | %.1f %% | %+.1f %% | %" PRIu64
                " | %.1f | %.1f | %.1f | %.1f %% | %.1f |\n",
                row->prompt_tokens, row->output_tokens, row->policy, row->prefill_ms, row->prefill_stall_ms,
                row->decode_ms, row->decode_stall_ms, 100 * stall_share(row), 100 * over_none(report, i), row->n_loads,
                mb(row->loaded_bytes), row->load_ms, row->expand_ms, 100 * hidden_share(row), mb(row->peak_bytes));
    }
    fprintf(file,
            "\nGraphs that chunks share: what does not depend on a token's place, all but attention, has one graph "
            "of a kind.\n\n"
            "| prompt | chunks | a graph a chunk, MB | shared, MB | of that |\n"
            "| --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < report->n; i += MOBILE_POLICIES) {
        const MobileRow *row = &report->rows[i];

        fprintf(file, "| %zu | %zu | %.1f | %.1f | %.3f |\n", row->prompt_tokens, row->n_chunks,
                (double)row->n_chunks * mb(report->graph_bytes), mb(report->graph_bytes), 1 / (double)row->n_chunks);
    }
    fprintf(file, "\n");
    for (size_t i = 0; i < report->n; i++)
        if (*report->rows[i].why)
            fprintf(file, "Prompt of %zu, %s: %s.\n", report->rows[i].prompt_tokens, report->rows[i].policy,
                    report->rows[i].why);
    mobile_orders_table(&report->orders, file);
}

static void put_csv(const void *findings, const char *machine, FILE *file) {
    const MobileReport *report = findings;

    fprintf(file, "prompt_tokens,output_tokens,policy,requests,blocks,prefill_ms,prefill_stall_ms,decode_ms,"
                  "decode_stall_ms,total_ms,stall_share,over_none,loads,loaded_bytes,load_ms,hidden_share,peak_bytes,"
                  "graph_bytes,block_bytes,chunks,form,expand_ms\n");
    for (size_t i = 0; i < report->n; i++) {
        const MobileRow *row = &report->rows[i];

        fprintf(file,
                "%zu,%zu,%s,%zu,%zu,%.6g,%.6g,%.6g,%.6g,%.6g,%.4f,%.4f,%" PRIu64 ",%" PRIu64 ",%.6g,%.4f,%" PRIu64
                ",%" PRIu64 ",%" PRIu64 ",%zu,%s,%.6g\n",
                row->prompt_tokens, row->output_tokens, row->policy, row->n_requests, report->n_blocks, row->prefill_ms,
                row->prefill_stall_ms, row->decode_ms, row->decode_stall_ms, row->total_ms, stall_share(row),
                over_none(report, i), row->n_loads, row->loaded_bytes, row->load_ms, hidden_share(row), row->peak_bytes,
                report->graph_bytes, report->block_bytes, row->n_chunks, report->form, row->expand_ms);
    }
}

static json_t *row_json(const MobileReport *report, size_t index) {
    const MobileRow *row = &report->rows[index];

    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:I, s:I, "
                     "s:s, s:s, s:f, s:f}",
                     "test", "mobile", "policy", row->policy, "prompt_tokens", (json_int_t)row->prompt_tokens,
                     "output_tokens", (json_int_t)row->output_tokens, "requests", (json_int_t)row->n_requests, "chunks",
                     (json_int_t)row->n_chunks, "prefill_ms", row->prefill_ms, "prefill_stall_ms",
                     row->prefill_stall_ms, "decode_ms", row->decode_ms, "decode_stall_ms", row->decode_stall_ms,
                     "total_ms", row->total_ms, "stall_share", stall_share(row), "over_none", over_none(report, index),
                     "loads", (json_int_t)row->n_loads, "loaded_bytes", (json_int_t)row->loaded_bytes, "load_ms",
                     row->load_ms, "hidden_share", hidden_share(row), "peak_bytes", (json_int_t)row->peak_bytes,
                     "shared_graph_bytes", (json_int_t)report->graph_bytes, "why", row->why, "form", report->form,
                     "expand_ms", row->expand_ms, "read_ms",
                     row->load_ms > row->expand_ms ? row->load_ms - row->expand_ms : 0);
}

static bool add_json(const void *findings, json_t *report) {
    const MobileReport *mobile = findings;
    json_t *rows = json_array();

    for (size_t i = 0; i < mobile->n && rows; i++)
        json_array_append_new(rows, row_json(mobile, i));
    if (rows)
        mobile_orders_json(&mobile->orders, rows);
    return !json_object_set_new(report, "results", rows);
}

const BenchFindings mobile_report_findings = {
    .len_bytes = sizeof(MobileReport), .table = put_table, .csv = put_csv, .json = add_json
};
