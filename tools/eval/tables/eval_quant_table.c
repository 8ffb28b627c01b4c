// SPDX-License-Identifier: Apache-2.0
/* The verb `quant-table` prints the table row by row in Markdown, or as JSON, and writes the numbers of a plot. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/files/file_io.h"
#include "base/strings/json_text.h"
#include "tools/eval/tables/quant_table.h"
#include "tools/eval/tables/plot_numbers.h"
#include "tools/eval/text_file.h"

static double megabytes(const json_t *package, const char *key) {
    return (double)json_integer_value(json_object_get(package, key)) / 1e6;
}

/* --- Markdown ----------------------------------------------------------------------------------------------------- */

/* Returns the length of a column's name: "mcq_hellaswag" for "mcq_hellaswag.jsonl". */
static int stem_bytes(const char *name) {
    const char *dot = strrchr(name, '.');

    return (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name));
}

static void print_header(const QuantTable *table) {
    printf("| recipe | bits | package MB | layers MB | embeddings MB | perplexity | over float |");
    for (size_t i = 0; i < table->n_columns; i++) {
        const QuantTableColumn *column = &table->columns[i];
        const int n = stem_bytes(column->name);

        if (column->kind == QUANT_TABLE_MCQ)
            printf(" %.*s %% |", n, column->name);
        if (column->kind == QUANT_TABLE_DIVERGENCE)
            printf(" %.*s nats | worst 1 %% | same top %% |", n, column->name);
    }
    printf(" import s |\n| --- | --- | --- | --- | --- | --- | --- |");
    for (size_t i = 0; i < table->n_columns; i++) {
        if (table->columns[i].kind == QUANT_TABLE_MCQ)
            printf(" --- |");
        if (table->columns[i].kind == QUANT_TABLE_DIVERGENCE)
            printf(" --- | --- | --- |");
    }
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

static double number(const json_t *cell, const char *key) {
    return json_number_value(json_object_get(cell, key));
}

static void print_divergence(const json_t *cell, bool is_float) {
    if (is_float) {
        printf(" | | |");
        return;
    }
    printf(" %.5f +- %.5f | %.3f | %.2f +- %.2f |", number(cell, "nats"), number(cell, "nats_standard_error"),
           number(cell, "worst_hundredth_nats"), 100 * number(cell, "same_top"),
           100 * number(cell, "same_top_standard_error"));
}

static void print_row(const QuantTable *table, const QuantTableRow *row) {
    const json_t *package = json_object_get(row->stored, "package");
    const json_t *seconds = json_object_get(package, "import_seconds");
    double perplexity = quant_table_perplexity(table, row);

    printf("| %s |", row->spec);
    print_package(package);
    print_perplexity(perplexity, row->is_float ? NAN : quant_table_perplexity(table, &table->rows[0]));
    for (size_t i = 0; i < table->n_columns; i++) {
        if (table->columns[i].kind == QUANT_TABLE_MCQ)
            print_accuracy(quant_table_cell(table, row, i));
        if (table->columns[i].kind == QUANT_TABLE_DIVERGENCE)
            print_divergence(quant_table_cell(table, row, i), row->is_float);
    }
    if (json_is_number(seconds)) /* for an import that was resumed: its last part */
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

/* Writes the spec without its bits: rows that differ in their bits alone are one line of the plot. */
static void name_series(const QuantTableRow *row, char series[RECIPE_SPEC_MAX]) {
    const char *bits = strchr(row->spec, ':'), *rest = bits ? strchr(bits + 1, ':') : NULL;

    snprintf(series, RECIPE_SPEC_MAX, "%.*s%s", (int)(bits - row->spec), row->spec, rest ? rest : "");
}

/* The row is on the plot: it is no float row, and its perplexity has been measured. */
static bool is_drawn(const QuantTable *table, const QuantTableRow *row) {
    return !row->is_float && isfinite(quant_table_perplexity(table, row));
}

static bool has_others(const QuantTable *table, const QuantTableRow *row, const char *series) {
    char other[RECIPE_SPEC_MAX];
    size_t n = 0;

    for (size_t i = 0; i < table->n_rows; i++)
        if (is_drawn(table, &table->rows[i])) {
            name_series(&table->rows[i], other);
            n += !strcmp(other, series);
        }
    return n > 1;
}

static int write_plot(const QuantTable *table, const char *path, ErrText *err) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    const double reference = quant_table_perplexity(table, &table->rows[0]);
    char series[RECIPE_SPEC_MAX], bits[16];

    plot_numbers_begin(&text, json_string_value(json_object_get(json_object_get(table->store.root, "source"), "file")),
                       "package, MB", false, "perplexity");
    if (isfinite(reference))
        plot_numbers_level(&text, "float", reference);
    for (size_t i = 0; i < table->n_rows; i++) {
        const QuantTableRow *row = &table->rows[i];
        bool is_line;

        if (!is_drawn(table, row))
            continue;
        name_series(row, series);
        snprintf(bits, sizeof(bits), "%g", row->recipe.bits);
        is_line = has_others(table, row, series);
        /* A series of one row has its bits in the legend, for there may be many such points beside each other. */
        plot_numbers_point(&text, is_line ? series : row->spec,
                           megabytes(json_object_get(row->stored, "package"), "bytes"),
                           quant_table_perplexity(table, row), is_line ? bits : NULL);
    }
    return text_file_write(&text, path, err);
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
            write_plot(&table, options->table.plot, &err)) /* after every row, so that there is a plot to look at */
            return eval_fail(options, "%s", err.text);
    }
    return options->json.is_wanted ? print_report(&table) : EVAL_OK;
}
