// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/mobile/mobile_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/strings/json_text.h"
#include "tools/bench/report_text.h"

const MobileTableRow mobile_table_rows[MOBILE_TABLE_ROWS] = {
    { "cpu-vanilla", "CPU vanilla", MOBILE_TABLE_CPU, "plain", "the cpu device, prompt and output, one token a step" },
    { "cpu-sam", "CPU-SAM", MOBILE_TABLE_CPU, "sam",
      "the same, and the suffix automaton's draft verified in every step, as published" },
    { "npu-vanilla", "NPU vanilla (NPU)", MOBILE_TABLE_NPU, "plain",
      "the npu device: graphs loaded when they are to be computed (sync), operators in order, one token a step" },
    { "npu-sam", "NPU-SAM (+SD)", MOBILE_TABLE_NPU, "sam",
      "NPU, and the suffix automaton's draft verified in every step, as published" },
    { "npu-graph", "+G", MOBILE_TABLE_GRAPHS, "plain",
      "NPU with progressive graph switching, and operators out of order" },
    { "npu-sam-graph", "+G+SD", MOBILE_TABLE_GRAPHS, "sam", "both of these" },
    { "ours", "ours", MOBILE_TABLE_GRAPHS, "auto",
      "+G, and drafts as the service has them: automaton, earlier answers, the model's own predictions, rejected "
      "drafts, in a tree of as many rows as pay by measured times" },
};

static void deinit(void *findings) {
    MobileTable *table = findings;

    free(table->sums);
    spec_data_deinit(&table->data);
}

void mobile_table_add(MobileTableSum *sum, const SpecAnswer *answer, uint64_t wait_ns) {
    sum->n_requests++;
    sum->n_prompt += answer->n_prompt;
    sum->n_output += answer->n;
    sum->n_decoded += answer->n_decoded;
    sum->n_steps += answer->report.n_steps;
    sum->n_rows += answer->report.n_rows;
    sum->prefill_ns += answer->prefill_ns;
    sum->decode_ns += answer->total_ns - answer->prefill_ns;
    sum->wait_ns += wait_ns;
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

static double ratio(double part, double whole) {
    return whole > 0 ? part / whole : NAN;
}

static double ms_each(uint64_t ns, uint64_t n) {
    return ratio((double)ns / 1e6, (double)n);
}

double mobile_table_prefill_ms(const MobileTableSum *sum) {
    return ms_each(sum->prefill_ns, sum->n_prompt);
}

double mobile_table_decode_ms(const MobileTableSum *sum) {
    return ms_each(sum->decode_ns, sum->n_decoded);
}

double mobile_table_all_ms(const MobileTableSum *sum) {
    return ms_each(sum->prefill_ns + sum->decode_ns, sum->n_output);
}

static double tokens_a_step(const MobileTableSum *sum) {
    return ratio((double)sum->n_decoded, (double)sum->n_steps);
}

static double rows_a_step(const MobileTableSum *sum) {
    return ratio((double)sum->n_rows, (double)sum->n_steps);
}

static double wait_ms(const MobileTableSum *sum) {
    return ms_each(sum->wait_ns, sum->n_requests);
}

static const struct Figure {
    const char *key, *title;
    int digits;
    double (*value)(const MobileTableSum *sum);
    bool has_ratio; /* NPU vanilla over it */
} figures[] = {
    { "prefill_ms_per_token", "prefill, ms a token", 3, mobile_table_prefill_ms, true },
    { "decode_ms_per_token", "decode, ms a token", 2, mobile_table_decode_ms, true },
    { "ms_per_token", "all, ms a token of output", 2, mobile_table_all_ms, true },
    { "tokens_per_step", "tokens a step", 2, tokens_a_step, false },
    { "rows_per_step", "rows a step", 1, rows_a_step, false },
    { "wait_ms", "waiting for loads, ms a request", 1, wait_ms, false },
};

/* Returns how many times as fast as NPU vanilla the row is. */
static double over_base(const MobileTable *table, size_t index, const struct Figure *figure) {
    const MobileTableSum *base = &table->sums[index / MOBILE_TABLE_ROWS * MOBILE_TABLE_ROWS + MOBILE_TABLE_BASE];

    return ratio(figure->value(base), figure->value(&table->sums[index]));
}

static const char *task_of(const MobileTable *table, size_t index) {
    return table->data.tasks[index / MOBILE_TABLE_ROWS];
}

/* --- forms -------------------------------------------------------------------------------------------------------- */

static void put_table(const void *findings, FILE *file) {
    const MobileTable *table = findings;

    fprintf(file, "| task | row | requests | tokens of prompts | of output |");
    for (size_t i = 0; i < ARRAY_LEN(figures); i++)
        fprintf(file, " %s |%s", figures[i].title, figures[i].has_ratio ? " NPU over it |" : "");
    fprintf(file, "\n| --- | --- | --- | --- | --- |");
    for (size_t i = 0; i < ARRAY_LEN(figures); i++)
        fprintf(file, " --- |%s", figures[i].has_ratio ? " --- |" : "");
    putc('\n', file);
    for (size_t i = 0; i < table->n_tasks * MOBILE_TABLE_ROWS; i++) {
        const MobileTableSum *sum = &table->sums[i];

        fprintf(file, "| ");
        report_put_cell(task_of(table, i), file);
        fprintf(file, " | %s | %zu | %" PRIu64 " | %" PRIu64 " |", mobile_table_rows[i % MOBILE_TABLE_ROWS].name,
                sum->n_requests, sum->n_prompt, sum->n_output);
        for (size_t j = 0; j < ARRAY_LEN(figures); j++) {
            report_put_number(figures[j].value(sum), figures[j].digits, file);
            if (figures[j].has_ratio)
                report_put_number(over_base(table, i, &figures[j]), 2, file);
        }
        putc('\n', file);
    }
    putc('\n', file);
    for (size_t i = 0; i < MOBILE_TABLE_ROWS; i++)
        fprintf(file, "%s: %s.\n", mobile_table_rows[i].name, mobile_table_rows[i].what);
    fprintf(file, "All answers are the same, token by token, with the same logits. Energy is not measured.\n");
}

static void put_csv(const void *findings, const char *machine, FILE *file) {
    const MobileTable *table = findings;

    fprintf(file, "test,task,row,requests,prompt_tokens,output_tokens");
    for (size_t i = 0; i < ARRAY_LEN(figures); i++)
        fprintf(file, ",%s", figures[i].key);
    fprintf(file, ",machine\n");
    for (size_t i = 0; i < table->n_tasks * MOBILE_TABLE_ROWS; i++) {
        const MobileTableSum *sum = &table->sums[i];

        fprintf(file, "mobile-table,");
        report_put_field(task_of(table, i), file);
        fprintf(file, ",%s,%zu,%" PRIu64 ",%" PRIu64, mobile_table_rows[i % MOBILE_TABLE_ROWS].key, sum->n_requests,
                sum->n_prompt, sum->n_output);
        for (size_t j = 0; j < ARRAY_LEN(figures); j++)
            report_put_value(figures[j].value(sum), file);
        putc(',', file);
        report_put_field(machine, file);
        putc('\n', file);
    }
}

/* A run with two different answers has no report, so every reported answer is identical. */
static json_t *row_json(const MobileTable *table, size_t index) {
    const MobileTableRow *row = &mobile_table_rows[index % MOBILE_TABLE_ROWS];
    const MobileTableSum *sum = &table->sums[index];
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:b, s:I, s:I, s:I, s:I}", "test", "mobile-table", "row", row->key, "name",
                  row->name, "what", row->what, "task", json_text(task_of(table, index)), "identical", 1, "requests",
                  (json_int_t)sum->n_requests, "prompt_tokens", (json_int_t)sum->n_prompt, "output_tokens",
                  (json_int_t)sum->n_output, "steps", (json_int_t)sum->n_steps);

    for (size_t i = 0; i < ARRAY_LEN(figures) && object; i++) {
        const double value = figures[i].value(sum), times = over_base(table, index, &figures[i]);
        char key[64];

        if (isfinite(value))
            json_object_set_new(object, figures[i].key, json_real(value));
        snprintf(key, sizeof(key), "npu_over_%s", figures[i].key);
        if (figures[i].has_ratio && isfinite(times))
            json_object_set_new(object, key, json_real(times));
    }
    return object;
}

static bool add_json(const void *findings, json_t *report) {
    const MobileTable *table = findings;
    json_t *rows = json_array();

    for (size_t i = 0; i < table->n_tasks * MOBILE_TABLE_ROWS && rows; i++)
        json_array_append_new(rows, row_json(table, i));
    return !json_object_set_new(report, "results", rows);
}

const BenchFindings mobile_table_findings = {
    .len_bytes = sizeof(MobileTable), .table = put_table, .csv = put_csv, .json = add_json, .deinit = deinit
};
