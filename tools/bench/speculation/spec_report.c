// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/speculation/spec_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/strings/json_text.h"
#include "tools/bench/report_text.h"
#include "tools/bench/speculation/spec_figures.h"
#include "tools/eval/tables/plot_numbers.h"
#include "tools/eval/text_file.h"

static void deinit(void *findings) {
    SpecReport *report = findings;

    free(report->scores);
    spec_data_deinit(&report->data);
}

static void put_table(const void *findings, FILE *file) {
    const SpecReport *report = findings;

    fprintf(file, "| task | mode | requests | tokens |");
    spec_figures_titles(spec_figures, SPEC_FIGURES, file);
    putc('\n', file);
    report_put_rule(4 + SPEC_FIGURES, file);
    for (size_t i = 0; i < report->n; i++) {
        const SpecScore *score = &report->scores[i];

        fprintf(file, "| ");
        report_put_cell(score->task, file);
        fprintf(file, " | %s | %zu | %" PRIu64 " |", score->mode, score->n_requests, score->n_output);
        spec_figures_cells(spec_figures, SPEC_FIGURES, score, file);
        putc('\n', file);
    }
}

static void put_csv(const void *findings, const char *machine, FILE *file) {
    const SpecReport *report = findings;

    fprintf(file, "test,task,mode,requests,tokens");
    spec_figures_keys(spec_figures, SPEC_FIGURES, file);
    fprintf(file, ",machine\n");
    for (size_t i = 0; i < report->n; i++) {
        const SpecScore *score = &report->scores[i];

        fprintf(file, "spec,");
        report_put_field(score->task, file);
        fprintf(file, ",%s,%zu,%" PRIu64, score->mode, score->n_requests, score->n_output);
        spec_figures_fields(spec_figures, SPEC_FIGURES, score, file);
        putc(',', file);
        report_put_field(machine, file);
        putc('\n', file);
    }
}

/* Counts each source's verified and accepted drafts. */
static json_t *sources_json(const SpecScore *score) {
    json_t *object = json_object();

    for (size_t i = 0; i < _SPECULATION_N && object; i++)
        if (score->drafted[i])
            json_object_set_new(object, speculation_source_name((SpeculationSource)i),
                                json_pack("{s:I, s:I}", "drafted", (json_int_t)score->drafted[i], "accepted",
                                          (json_int_t)score->accepted[i]));
    return object;
}

/* A run with an answer that differs from plain decoding has no report, so every reported answer is identical. */
static json_t *score_json(const SpecScore *score) {
    json_t *object = json_pack("{s:s, s:s, s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:o}", "test", "spec", "mode",
                               score->mode, "task", json_text(score->task), "identical", 1, "requests",
                               (json_int_t)score->n_requests, "tokens", (json_int_t)score->n_output, "prompt_tokens",
                               (json_int_t)score->n_prompt, "steps", (json_int_t)score->n_steps, "draft_bytes",
                               (json_int_t)score->draft_bytes, "sources", sources_json(score));

    spec_figures_json(spec_figures, SPEC_FIGURES, score, object);
    return object;
}

static bool add_json(const void *findings, json_t *report) {
    const SpecReport *spec = findings;
    json_t *results = json_array();

    for (size_t i = 0; i < spec->n && results; i++)
        json_array_append_new(results, score_json(&spec->scores[i]));
    return !json_object_set_new(report, "results", results);
}

const BenchFindings spec_report_findings = {
    .len_bytes = sizeof(SpecReport), .table = put_table, .csv = put_csv, .json = add_json, .deinit = deinit
};

/* The plot has a group of bars for each task with a bar for each mode; plain decoding is a line. */
int spec_report_plot(const SpecReport *report, const char *title, const char *path, ErrText *err) {
    const size_t n_modes = report->data.n_tasks ? report->n / report->data.n_tasks : 0;
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;

    plot_numbers_begin(&text, title, NULL, false, "speed of decoding over plain");
    plot_numbers_level(&text, "plain", 1);
    for (size_t mode = 1; mode < n_modes; mode++) /* the first is plain decoding */
        for (size_t i = mode; i < report->n; i += n_modes) {
            const double ratio = spec_ratio_to_plain(&report->scores[i]);

            if (isfinite(ratio)) /* no ratio if all answers have one token */
                plot_numbers_bar(&text, report->scores[i].mode, report->scores[i].task, ratio);
        }
    return text_file_write(&text, path, err);
}
