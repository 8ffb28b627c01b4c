// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/machine.h"
#include "tools/bench/report_text.h"

static const struct {
    const char *name, *key;
    int digits;
} units[] = {
    [BENCH_TOKENS] = { "tokens/s", "tokens_per_s", 1 },
    [BENCH_MS] = { "ms", "ms", 1 },
    [BENCH_GOPS] = { "Gop/s", "gops_per_s", 1 },
    [BENCH_GBYTES] = { "GB/s", "gbytes_per_s", 2 },
};

void bench_result_take(BenchResult *result, double *values, size_t n) {
    result->n = n;
    result->median = machine_median(values, n);
    result->least = values[0];
    result->most = values[n - 1];
}

double bench_result_of_floor(const BenchResult *result) {
    if (result->of_floor > 0)
        return result->of_floor;
    if (!(result->floor > 0 && result->median > 0))
        return 0;
    return result->unit == BENCH_MS ? result->floor / result->median : result->median / result->floor;
}

int bench_report_add(BenchReport *report, const BenchResult *result) {
    BenchResult *results = reallocarray(report->results, report->n + 1, sizeof(*results));

    if (!results)
        return -ENOMEM;
    report->results = results;
    report->results[report->n++] = *result;
    return 0;
}

void *bench_report_begin(BenchReport *report, const BenchFindings *kind) {
    report->findings = calloc(1, kind->len_bytes);
    report->kind = report->findings ? kind : NULL;
    return report->findings;
}

void bench_report_deinit(BenchReport *report) {
    if (report->kind && report->kind->deinit)
        report->kind->deinit(report->findings);
    free(report->findings);
    free(report->results);
    json_decref(report->machine);
    *report = (BenchReport){ 0 };
}

void bench_report_table(const BenchReport *report, FILE *file) {
    if (report->kind) {
        report->kind->table(report->findings, file);
        return;
    }
    fprintf(file, "| test | tokens | after | threads | median | least | most | unit | floor | of floor |\n"
                  "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < report->n; i++) {
        const BenchResult *result = &report->results[i];
        const int digits = units[result->unit].digits;

        fprintf(file, "| %s%s%s | ", result->test, *result->name ? ", " : "", result->name);
        result->rows ? fprintf(file, "%zu | %zu", result->rows, result->depth) : fprintf(file, " | ");
        fprintf(file, " | %u | %.*f | %.*f | %.*f | %s | ", result->threads, digits, result->median, digits,
                result->least, digits, result->most, units[result->unit].name);
        if (result->floor > 0)
            fprintf(file, "%.*f | %.1f %% |\n", digits, result->floor, 100 * bench_result_of_floor(result));
        else
            fprintf(file, " | |\n");
    }
}

void bench_report_csv(const BenchReport *report, FILE *file) {
    const char *machine = json_string_value(json_object_get(report->machine, "name"));

    if (report->kind) {
        report->kind->csv(report->findings, machine ? machine : "", file);
        return;
    }
    fprintf(file, "test,name,rows,depth,threads,repeats,median,least,most,unit,floor,of_floor,machine\n");
    for (size_t i = 0; i < report->n; i++) {
        const BenchResult *result = &report->results[i];

        fprintf(file, "%s,\"%s\",%zu,%zu,%u,%zu,%.6g,%.6g,%.6g,%s,", result->test, result->name, result->rows,
                result->depth, result->threads, result->n, result->median, result->least, result->most,
                units[result->unit].name);
        if (result->floor > 0)
            fprintf(file, "%.6g,%.4f,", result->floor, bench_result_of_floor(result));
        else
            fprintf(file, ",,");
        report_put_field(machine ? machine : "", file);
        putc('\n', file);
    }
}

static json_t *result_json(const BenchResult *result) {
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:i, s:I, s:f, s:f, s:f}", "test", result->test, "rows", (json_int_t)result->rows,
                  "depth", (json_int_t)result->depth, "threads", (int)result->threads, "repeats", (json_int_t)result->n,
                  units[result->unit].key, result->median, "least", result->least, "most", result->most);

    if (object && *result->name)
        json_object_set_new(object, "name", json_string(result->name));
    if (object && result->floor > 0) {
        json_object_set_new(object, "floor", json_real(result->floor));
        json_object_set_new(object, "of_floor", json_real(bench_result_of_floor(result)));
    }
    return object;
}

static json_t *results_json(const BenchReport *report) {
    json_t *results = json_array();

    for (size_t i = 0; i < report->n && results; i++)
        json_array_append_new(results, result_json(&report->results[i]));
    return results;
}

json_t *bench_report_json(const BenchReport *report) {
    json_t *json = json_pack("{s:O}", "machine", report->machine);
    const bool is_whole = report->kind ? report->kind->json(report->findings, json)
                                       : !json_object_set_new(json, "results", results_json(report));

    if (is_whole)
        return json;
    json_decref(json);
    return NULL;
}
