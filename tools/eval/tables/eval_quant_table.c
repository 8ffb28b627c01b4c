// SPDX-License-Identifier: Apache-2.0
/* `quant-table`: prints the table as Markdown, row by row as they are done, as JSON, and as a plot. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/files/file_io.h"
#include "model/json_text.h"
#include "tools/eval/tables/quant_table.h"
#include "tools/eval/tables/svg_plot.h"

static double megabytes(const json_t *package, const char *key) {
    return (double)json_integer_value(json_object_get(package, key)) / 1e6;
}

/* --- Markdown ----------------------------------------------------------------------------------------------------- */

/* "mcq_hellaswag.jsonl" is the column "mcq_hellaswag". */
static int stem_bytes(const char *name) {
    const char *dot = strrchr(name, '.');

    return (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name));
}

static void print_header(const QuantTable *table) {
    printf("| recipe | bits | package MB | layers MB | embeddings MB | perplexity | over float |");
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].is_mcq)
            printf(" %.*s %% |", stem_bytes(table->columns[i].name), table->columns[i].name);
    printf(" import s |\n| --- | --- | --- | --- | --- | --- | --- |");
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].is_mcq)
            printf(" --- |");
    printf(" --- |\n");
}

static void print_package(const json_t *package) {
    if (!package) {
        printf(" | | | |");
        return;
    }
    printf(" %.3g | %.1f | %.1f | %.1f |", json_number_value(json_object_get(package, "bits")),
           megabytes(package, "bytes"), megabytes(package, "layers_bytes"), megabytes(package, "embedding_bytes"));
}

static void print_perplexity(double perplexity, double reference) {
    if (isnan(perplexity)) {
        printf(" | |");
        return;
    }
    printf(" %.4f |", perplexity);
    if (isfinite(perplexity) && isfinite(reference))
        printf(" %+.2f %% |", 100 * (perplexity / reference - 1));
    else
        printf(" |");
}

static void print_accuracy(const json_t *cell) {
    const json_t *standard_error = json_object_get(cell, "standard_error");

    printf(" %.1f", 100 * json_number_value(json_object_get(cell, "accuracy")));
    if (json_is_number(standard_error))
        printf(" +- %.1f", 100 * json_number_value(standard_error));
    printf(" |");
}

static void print_row(const QuantTable *table, const QuantTableRow *row) {
    const json_t *package = json_object_get(row->stored, "package");
    const json_t *seconds = json_object_get(package, "import_seconds");
    double perplexity = quant_table_perplexity(table, row);

    printf("| %s |", row->spec);
    print_package(package);
    print_perplexity(perplexity, row->is_float ? NAN : quant_table_perplexity(table, &table->rows[0]));
    for (size_t i = 0; i < table->n_columns; i++)
        if (table->columns[i].is_mcq)
            print_accuracy(quant_table_cell(table, row, i));
    if (json_is_number(seconds)) /* of an import that went on after a kill: the last part of it */
        printf(" %.1f%s", json_number_value(seconds),
               json_integer_value(json_object_get(package, "resumed_layers")) ? "+" : "");
    printf(" |\n");
    fflush(stdout);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static json_t *report_row(const QuantTable *table, const QuantTableRow *row) {
    double over = quant_table_perplexity(table, row) / quant_table_perplexity(table, &table->rows[0]) - 1;
    json_t *report = json_pack("{s:s, s:o}", "recipe", row->spec, "over_float", eval_json_real(over)), *measures;
    json_t *package = json_object_get(row->stored, "package");

    measures = json_array();
    if (package)
        json_object_set(report, "package", package);
    for (size_t i = 0; i < table->n_columns; i++)
        json_array_append(measures, (json_t *)quant_table_cell(table, row, i));
    json_object_set_new(report, "measures", measures);
    return report;
}

static int print_report(const QuantTable *table) {
    json_t *rows = json_array();

    for (size_t i = 0; i < table->n_rows; i++)
        json_array_append_new(rows, report_row(table, &table->rows[i]));
    return eval_print_json(table->options,
                           json_pack("{s:s, s:b, s:o, s:O, s:o, s:o}", "verb", "quant-table", "ok", 1, "model",
                                     json_text(table->options->model.path), "source",
                                     json_object_get(table->store.root, "source"), "saved",
                                     json_text(table->store.path), "rows", rows),
                           EVAL_OK);
}

/* --- plot --------------------------------------------------------------------------------------------------------- */

typedef struct PlotRow {
    const char *spec;
    char series[RECIPE_SPEC_MAX]; /* the spec without its bits */
    char label[16];
    double bytes, perplexity;
    bool taken;
} PlotRow;

static int by_bytes(const void *a, const void *b) {
    const SvgPoint *left = a, *right = b;

    return left->x < right->x ? -1 : left->x > right->x;
}

/* Rows that differ in their bits alone are one line of the plot. */
static size_t collect(const QuantTable *table, PlotRow *rows) {
    size_t n = 0;

    for (size_t i = 0; i < table->n_rows; i++) {
        const QuantTableRow *row = &table->rows[i];
        const char *bits = strchr(row->spec, ':'), *rest = bits ? strchr(bits + 1, ':') : NULL;
        double perplexity = quant_table_perplexity(table, row);

        if (row->is_float || !isfinite(perplexity))
            continue;
        snprintf(rows[n].series, sizeof(rows[n].series), "%.*s%s", (int)(bits - row->spec), row->spec,
                 rest ? rest : "");
        rows[n].spec = row->spec;
        snprintf(rows[n].label, sizeof(rows[n].label), "%g", row->recipe.bits);
        rows[n].bytes = megabytes(json_object_get(row->stored, "package"), "bytes");
        rows[n++].perplexity = perplexity;
    }
    return n;
}

static int write_plot(const QuantTable *table, const char *path, ErrText *err) {
    PlotRow rows[QUANT_TABLE_ROWS_MAX] = { 0 };
    SvgPoint points[QUANT_TABLE_ROWS_MAX];
    SvgSeries series[QUANT_TABLE_ROWS_MAX];
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    double reference = quant_table_perplexity(table, &table->rows[0]);
    SvgPlot plot = {
        .title = json_string_value(json_object_get(json_object_get(table->store.root, "source"), "file")),
        .x_title = "package, MB",
        .y_title = "perplexity",
        .series = series,
        .level = reference,
        .level_name = isfinite(reference) ? "float" : NULL,
    };
    size_t n = collect(table, rows), n_points = 0;

    for (size_t i = 0; i < n; i++) {
        SvgSeries *one = &series[plot.n_series];

        if (rows[i].taken)
            continue;
        *one = (SvgSeries){ .name = rows[i].series, .points = points + n_points };
        for (size_t j = i; j < n; j++)
            if (!strcmp(rows[j].series, rows[i].series)) {
                rows[j].taken = true;
                points[n_points++] = (SvgPoint){ rows[j].bytes, rows[j].perplexity, rows[j].label };
                one->n++;
            }
        qsort(points + n_points - one->n, one->n, sizeof(*points), by_bytes);
        if (one->n == 1) { /* its bits stand in the legend: in the plot there may be many such beside each other */
            one->name = rows[i].spec;
            points[n_points - 1].label = NULL;
        }
        plot.n_series++;
    }
    svg_plot(&text, &plot);
    return svg_write(&text, path, err);
}

int eval_quant_table(const EvalOptions *options) {
    _cleanup_(quant_table_close) QuantTable table = { 0 };
    ErrText err = { 0 };

    if (!options->table.work_dir)
        return eval_fail(options, "--work-dir is missing: the folder where the packages of the rows are kept");
    if (quant_table_open(&table, options, &err) ||
        (options->table.plot && write_plot(&table, options->table.plot, &err)))
        return eval_fail(options, "%s", err.text);
    if (!options->json.is_wanted)
        print_header(&table);
    for (size_t i = 0; i < table.n_rows; i++) {
        if (quant_table_run_row(&table, &table.rows[i], &err))
            return eval_fail(options, "%s", err.text);
        if (!options->json.is_wanted)
            print_row(&table, &table.rows[i]);
        if (options->table.plot &&
            write_plot(&table, options->table.plot, &err)) /* after every row: there is one to look at */
            return eval_fail(options, "%s", err.text);
    }
    return options->json.is_wanted ? print_report(&table) : EVAL_OK;
}
