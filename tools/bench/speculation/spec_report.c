// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/speculation/spec_report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "model/json_text.h"
#include "tools/bench/report_text.h"
#include "tools/bench/speculation/spec_figures.h"
#include "tools/eval/tables/svg_plot.h"

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

/* Drafts of each source that were verified, and those that became output. */
static json_t *sources_json(const SpecScore *score) {
    json_t *object = json_object();

    for (size_t i = 0; i < _SPECULATION_N && object; i++)
        if (score->drafted[i])
            json_object_set_new(object, speculation_source_name((SpeculationSource)i),
                                json_pack("{s:I, s:I}", "drafted", (json_int_t)score->drafted[i], "accepted",
                                          (json_int_t)score->accepted[i]));
    return object;
}

/* A run in which an answer was not plain decoding's has no report: what is in one is identical. */
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

/* Draws a group of bars for each task, one bar a mode beside plain decoding, whose speed is a line. */
int spec_report_plot(const SpecReport *report, const char *title, const char *path, ErrText *err) {
    const size_t n_tasks = report->data.n_tasks, n_modes = n_tasks ? report->n / n_tasks : 0;
    _cleanup_(freep) SvgPoint *points = calloc(report->n + 1, sizeof(*points));
    _cleanup_(freep) SvgSeries *series = calloc(n_modes + 1, sizeof(*series));
    _cleanup_(freep) const char **groups = calloc(n_tasks + 1, sizeof(*groups));
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    SvgPlot plot = { .title = title,
                     .x_title = "",
                     .y_title = "speed of decoding over plain",
                     .series = series,
                     .groups = groups,
                     .n_groups = n_tasks,
                     .level = 1,
                     .level_name = "plain" };

    if (!points || !series || !groups)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t task = 0; task < n_tasks; task++)
        groups[task] = report->scores[task * n_modes].task;
    for (size_t mode = 1; mode < n_modes; mode++) { /* the first is plain decoding */
        SvgSeries *bars = &series[plot.n_series++];

        *bars = (SvgSeries){ .name = report->scores[mode].mode, .points = points + mode * n_tasks };
        for (size_t task = 0; task < n_tasks; task++) {
            const double ratio = spec_ratio_to_plain(&report->scores[task * n_modes + mode]);

            if (isfinite(ratio)) /* else all answers have one token */
                points[mode * n_tasks + bars->n++] = (SvgPoint){ .x = (double)task, .y = ratio };
        }
    }
    svg_plot(&text, &plot);
    return svg_write(&text, path, err);
}
