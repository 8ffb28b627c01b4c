// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/speculation/flash_report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings/json_text.h"
#include "tools/bench/report_text.h"
#include "tools/bench/speculation/spec_figures.h"
#include "tools/eval/tables/plot_numbers.h"
#include "tools/eval/text_file.h"

static void deinit(void *findings) {
    FlashReport *report = findings;

    free(report->cells);
    free(report->scores);
    free(report->target);
    free(report->draft);
    spec_data_deinit(&report->data);
}

int flash_report_init(FlashReport *report, size_t n_cells, const char *const *policies, size_t n_policies) {
    const size_t n = n_cells * report->data.n_tasks * n_policies;

    report->cells = calloc(n_cells, sizeof(*report->cells));
    report->scores = calloc(n, sizeof(*report->scores));
    if (!report->cells || !report->scores)
        return -ENOMEM;
    report->n_cells = n_cells;
    report->n_policies = n_policies;
    for (size_t i = 0; i < n; i++) {
        report->scores[i].mode = policies[i % n_policies];
        report->scores[i].task = report->data.tasks[i / n_policies % report->data.n_tasks];
    }
    return 0;
}

SpecScore *flash_report_scores(const FlashReport *report, size_t cell, size_t task) {
    return report->scores + (cell * report->data.n_tasks + task) * report->n_policies;
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

static double part(double of, double by) {
    return by > 0 ? of / by : NAN;
}

static double read_rate(const SpecScore *score) {
    return part((double)score->flash_bytes * 1e3, (double)score->flash_ns);
}

static double read_mb(const SpecScore *score) {
    return score->flash_bytes ? part((double)score->flash_bytes / 1e6, (double)score->own.n_decoded) : NAN;
}

static double drafting_share(const SpecScore *score) {
    return part((double)(score->draft_ns + score->model_ns), (double)score->own.decode_ns);
}

static double verification_share(const SpecScore *score) {
    return part((double)score->step_ns - (double)(score->draft_ns + score->model_ns), (double)score->own.decode_ns);
}

static const SpecFigure figures[] = {
    { "tokens_per_s", "tokens/s", 3, spec_tokens_per_s },
    { "ratio_to_flash_ar", "of flash-ar", 2, spec_ratio_to_plain },
    { "lowest_window_ratio", "at least", 2, spec_lowest_ratio },
    { "accept_length", "tokens a step", 2, spec_accept_length },
    { "rows_per_step", "rows a step", 1, spec_rows_per_step },
    { "read_mb_per_s", "MB/s read", 0, read_rate },
    { "read_mb_per_token", "MB a token", 1, read_mb },
    { "draft_share", "drafting", 3, drafting_share },
    { "verification_share", "verification", 3, verification_share },
};

enum {
    N_FIGURES = sizeof(figures) / sizeof(*figures)
};

static double mean_of(const FlashReport *report, size_t cell, size_t policy, double (*value)(const SpecScore *score)) {
    double sum = 0;

    for (size_t task = 0; task < report->data.n_tasks; task++)
        sum += log(value(&flash_report_scores(report, cell, task)[policy]));
    return exp(sum / (double)report->data.n_tasks);
}

FlashMeans flash_report_means(const FlashReport *report, size_t cell, size_t policy) {
    FlashMeans means = {
        .tokens_per_s = mean_of(report, cell, policy, spec_tokens_per_s),
        .ratio = mean_of(report, cell, policy, spec_ratio_to_plain),
        .accept_length = mean_of(report, cell, policy, spec_accept_length),
        .least_ratio = INFINITY,
        .most_ratio = -INFINITY,
    };

    for (size_t task = 0; task < report->data.n_tasks; task++) {
        const double ratio = spec_ratio_to_plain(&flash_report_scores(report, cell, task)[policy]);

        means.least_ratio = fmin(means.least_ratio, ratio);
        means.most_ratio = fmax(means.most_ratio, ratio);
    }
    return means;
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

static void put_rate(const FlashCell *cell, FILE *file) {
    if (!cell->n_streamed)
        fprintf(file, "in memory");
    else if (cell->rate)
        fprintf(file, "%zu", cell->rate);
    else
        fprintf(file, "the disk's");
}

static void put_rows(const FlashReport *report, FILE *file) {
    fprintf(file, "| memory %% | MB/s | task | policy | tokens |");
    spec_figures_titles(figures, N_FIGURES, file);
    putc('\n', file);
    report_put_rule(5 + N_FIGURES, file);
    for (size_t i = 0; i < report->n_cells * report->data.n_tasks * report->n_policies; i++) {
        const SpecScore *score = &report->scores[i];
        const FlashCell *cell = &report->cells[i / (report->data.n_tasks * report->n_policies)];

        fprintf(file, "| %" PRIu32 " | ", cell->budget);
        put_rate(cell, file);
        fprintf(file, " | ");
        report_put_cell(score->task, file);
        fprintf(file, " | %s | %" PRIu64 " |", score->mode, score->n_output);
        spec_figures_cells(figures, N_FIGURES, score, file);
        putc('\n', file);
    }
}

static void put_means(const FlashReport *report, FILE *file) {
    fprintf(file, "\nGeometric means over the tasks, and the spread of the tasks:\n\n"
                  "| memory %% | MB/s | policy | tokens/s | of flash-ar | least | most | tokens a step |\n");
    report_put_rule(8, file);
    for (size_t i = 0; i < report->n_cells * report->n_policies; i++) {
        const FlashCell *cell = &report->cells[i / report->n_policies];
        const FlashMeans means = flash_report_means(report, i / report->n_policies, i % report->n_policies);

        fprintf(file, "| %" PRIu32 " | ", cell->budget);
        put_rate(cell, file);
        fprintf(file, " | %s |", report->scores[i % report->n_policies].mode);
        report_put_number(means.tokens_per_s, 3, file);
        report_put_number(means.ratio, 2, file);
        report_put_number(means.least_ratio, 2, file);
        report_put_number(means.most_ratio, 2, file);
        report_put_number(means.accept_length, 2, file);
        putc('\n', file);
    }
}

/* Tells whether the cell is the first with its rate (@of_rate) or its budget. */
static bool is_first_of(const FlashReport *report, size_t cell, bool of_rate) {
    for (size_t i = 0; i < cell; i++)
        if (of_rate ? report->cells[i].rate == report->cells[cell].rate && report->cells[i].n_streamed
                    : report->cells[i].budget == report->cells[cell].budget)
            return false;
    return !of_rate || report->cells[cell].n_streamed;
}

/* Finds the cell; one whose layers are all in memory fits any rate. */
static const FlashCell *find_cell(const FlashReport *report, uint32_t budget, size_t rate) {
    for (size_t i = 0; i < report->n_cells; i++)
        if (report->cells[i].budget == budget && (report->cells[i].rate == rate || !report->cells[i].n_streamed))
            return &report->cells[i];
    return NULL;
}

/* Writes the paper's table: a line for each policy and task, a column for each budget. */
static void put_budgets(const FlashReport *report, size_t rate, FILE *file) {
    size_t n_columns = 1;

    fprintf(file, "\nTokens/s by the part of the layers in memory, ");
    rate ? fprintf(file, "flash of %zu MB/s:\n\n| workload |", rate)
         : fprintf(file, "the disk's own speed:\n\n| workload |");
    for (size_t i = 0; i < report->n_cells; i++)
        if (is_first_of(report, i, false)) {
            fprintf(file, " %" PRIu32 "%% |", report->cells[i].budget);
            n_columns++;
        }
    putc('\n', file);
    report_put_rule(n_columns, file);
    for (size_t i = 0; i < report->data.n_tasks * report->n_policies; i++) {
        fprintf(file, "| %s / ", report->scores[i].mode);
        report_put_cell(report->scores[i].task, file);
        fprintf(file, " |");
        for (size_t j = 0; j < report->n_cells; j++) {
            const FlashCell *cell = find_cell(report, report->cells[j].budget, rate);

            if (!is_first_of(report, j, false))
                continue;
            if (!cell)
                report_put_number(NAN, 0, file);
            else
                report_put_number(
                    spec_tokens_per_s(&flash_report_scores(report, (size_t)(cell - report->cells),
                                                           i / report->n_policies)[i % report->n_policies]),
                    3, file);
        }
        putc('\n', file);
    }
}

static void put_table(const void *findings, FILE *file) {
    const FlashReport *report = findings;

    fprintf(file, "target %s, %.1f MB of weights; draft %s, %.1f MB", report->target,
            (double)report->target_bytes / 1e6, report->draft, (double)report->draft_bytes / 1e6);
    if (*report->cells[0].way)
        fprintf(file, "; a sweep reads %.1f MB at %" PRIu32 " %%, by %s", (double)report->cells[0].sweep_bytes / 1e6,
                report->cells[0].budget, report->cells[0].way);
    fprintf(file, "\n\n");
    put_rows(report, file);
    put_means(report, file);
    for (size_t i = 0; i < report->n_cells; i++)
        if (is_first_of(report, i, true))
            put_budgets(report, report->cells[i].rate, file);
}

/* --- other forms -------------------------------------------------------------------------------------------------- */

static void put_csv(const void *findings, const char *machine, FILE *file) {
    const FlashReport *report = findings;

    fprintf(file, "test,policy,task,budget,rate,requests,tokens");
    spec_figures_keys(figures, N_FIGURES, file);
    fprintf(file, ",machine\n");
    for (size_t i = 0; i < report->n_cells * report->data.n_tasks * report->n_policies; i++) {
        const SpecScore *score = &report->scores[i];
        const FlashCell *cell = &report->cells[i / (report->data.n_tasks * report->n_policies)];

        fprintf(file, "flash,%s,", score->mode);
        report_put_field(score->task, file);
        fprintf(file, ",%" PRIu32 ",%zu,%zu,%" PRIu64, cell->budget, cell->rate, score->n_requests, score->n_output);
        spec_figures_fields(figures, N_FIGURES, score, file);
        putc(',', file);
        report_put_field(machine, file);
        putc('\n', file);
    }
}

/* A run with an answer that differs from plain decoding has no report, so every reported answer is identical. */
static json_t *score_json(const SpecScore *score, const FlashCell *cell) {
    json_t *object =
        json_pack("{s:s, s:s, s:o, s:I, s:I, s:b, s:I, s:I, s:I, s:I}", "test", "flash", "policy", score->mode, "task",
                  json_text(score->task), "budget", (json_int_t)cell->budget, "rate", (json_int_t)cell->rate,
                  "identical", 1, "requests", (json_int_t)score->n_requests, "tokens", (json_int_t)score->n_output,
                  "steps", (json_int_t)score->n_steps, "streamed_layers", (json_int_t)cell->n_streamed);

    spec_figures_json(figures, N_FIGURES, score, object);
    return object;
}

static json_t *results_json(const FlashReport *report) {
    json_t *results = json_array();

    for (size_t i = 0; i < report->n_cells * report->data.n_tasks * report->n_policies && results; i++)
        json_array_append_new(
            results, score_json(&report->scores[i], &report->cells[i / (report->data.n_tasks * report->n_policies)]));
    return results;
}

static json_t *means_json(const FlashReport *report) {
    json_t *array = json_array();

    for (size_t i = 0; i < report->n_cells * report->n_policies && array; i++) {
        const FlashCell *cell = &report->cells[i / report->n_policies];
        const FlashMeans means = flash_report_means(report, i / report->n_policies, i % report->n_policies);

        if (isfinite(means.tokens_per_s) && isfinite(means.ratio) && isfinite(means.accept_length))
            json_array_append_new(array, json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "policy",
                                                   report->scores[i % report->n_policies].mode, "budget",
                                                   (json_int_t)cell->budget, "rate", (json_int_t)cell->rate,
                                                   "tokens_per_s", means.tokens_per_s, "ratio_to_flash_ar", means.ratio,
                                                   "least_ratio", means.least_ratio, "most_ratio", means.most_ratio,
                                                   "accept_length", means.accept_length));
    }
    return array;
}

static json_t *models_json(const FlashReport *report) {
    return json_pack("{s:o, s:o}", "target", json_text(report->target), "draft", json_text(report->draft));
}

static bool add_json(const void *findings, json_t *report) {
    const FlashReport *flash = findings;

    return !json_object_set_new(report, "models", models_json(flash)) &&
           !json_object_set_new(report, "results", results_json(flash)) &&
           !json_object_set_new(report, "means", means_json(flash));
}

const BenchFindings flash_report_findings = {
    .len_bytes = sizeof(FlashReport), .table = put_table, .csv = put_csv, .json = add_json, .deinit = deinit
};

/* Returns the flash's speed. Without a limit it is what flash-ar has read a second, rounded as rates are. */
static double x_of(const FlashReport *report, size_t cell) {
    const double rate = (double)report->cells[cell].rate,
                 measured = mean_of(report, cell, 0, read_rate); /* of flash-ar */

    return rate > 0 ? rate : isfinite(measured) && measured > 1 ? round(measured) : 1;
}

int flash_report_plot(const FlashReport *report, const char *title, const char *path, ErrText *err) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    size_t first = 0, n_rates = 0;
    bool by_budget;

    while (first + 1 < report->n_cells && !report->cells[first].n_streamed)
        first++;
    if (!report->cells[first].n_streamed)
        first = 0;
    for (size_t cell = first; cell < report->n_cells; cell++)
        n_rates += report->cells[cell].budget == report->cells[first].budget;
    by_budget = n_rates == 1 && report->n_cells > 1;
    plot_numbers_begin(&text, title, by_budget ? "% of the layers in memory" : "MB/s of the flash", !by_budget,
                       "tokens/s, geometric mean over the tasks");
    for (size_t policy = 0; policy < report->n_policies; policy++)
        for (size_t cell = by_budget ? 0 : first; cell < report->n_cells; cell++) {
            const double y = flash_report_means(report, cell, policy).tokens_per_s,
                         x = by_budget ? report->cells[cell].budget : x_of(report, cell);

            if ((by_budget || report->cells[cell].budget == report->cells[first].budget) && isfinite(y) && y > 0)
                plot_numbers_point(&text, report->scores[policy].mode, x, y, NULL);
        }
    return text_file_write(&text, path, err);
}
