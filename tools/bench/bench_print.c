// SPDX-License-Identifier: Apache-2.0
/* Prints the report on standard output, below the machine and the model. */
#define _GNU_SOURCE
#include <time.h>

#include "base/strings/json_text.h"
#include "tools/bench/bench.h"
#include "tools/bench/machine.h"
#include "tools/bench/text_table.h"

/* Describes machine and model for the JSON report. Return: a new object, NULL when there is no memory. */
static json_t *machine_json(const BenchRun *run, unsigned int n_threads) {
    char name[256], date[16];
    time_t now = time(NULL);
    struct tm utc;
    json_t *machine;

    machine_name(name, sizeof(name));
    strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&now, &utc));
    machine = json_pack("{s:s, s:i, s:s, s:s}", "name", name, "threads", (int)n_threads, "date", date, "version",
                        COORDGEN_VERSION);
    if (machine && run->floors->disk_gbytes_per_s)
        json_object_set_new(machine, "disk_gbytes_per_s", json_real(run->floors->disk_gbytes_per_s));
    if (machine && run->engine) {
        const EngineInfo *info = engine_info(run->engine);

        json_object_set_new(machine, "gops_per_s", json_real(run->floors->gops_per_s));
        if (run->floors->fed_gops_per_s)
            json_object_set_new(machine, "fed_gops_per_s", json_real(run->floors->fed_gops_per_s));
        json_object_set_new(machine, "gbytes_per_s", json_real(run->floors->gbytes_per_s));
        json_object_set_new(machine, "model",
                            json_pack("{s:o, s:o, s:s, s:I, s:I}", "name", json_text(info->name), "file",
                                      json_text(run->options->model), "kernel", info->kernel, "weights_bytes",
                                      (json_int_t)info->weights.resident_bytes, "products_per_token",
                                      (json_int_t)(info->layer_products + info->head_products)));
    }
    return machine;
}

/* Prints what the machine and the model are. */
static void print_machine(const BenchRun *run, unsigned int n_threads) {
    char name[256];

    machine_name(name, sizeof(name));
    printf("%s; %u threads", name, n_threads);
    if (run->engine)
        printf("; %s, %.1f MB of weights, %s; int8 peak %.0f Gop/s, memory %.1f GB/s", engine_info(run->engine)->name,
               (double)engine_info(run->engine)->weights.resident_bytes / 1e6, engine_info(run->engine)->kernel,
               run->floors->gops_per_s, run->floors->gbytes_per_s);
    if (run->engine && run->floors->fed_gops_per_s)
        printf("; with operands from the cache %.0f Gop/s by median", run->floors->fed_gops_per_s);
    if (run->floors->disk_gbytes_per_s)
        printf("; disk %.2f GB/s with O_DIRECT by median", run->floors->disk_gbytes_per_s);
    printf("\n\n");
}

/* Prints the report's tables as columns that line up. 0 or -ENOMEM. */
static int print_aligned(const BenchReport *report) {
    _cleanup_(freep) char *markdown = NULL;
    size_t len_bytes;
    FILE *text = open_memstream(&markdown, &len_bytes);

    if (!text)
        return -ENOMEM;
    bench_report_table(report, text);
    return fclose(text) ? -ENOMEM : text_table_print(markdown, text_table_width(stdout), stdout);
}

static int out_of_memory(void) {
    fprintf(stderr, "coordgen-bench: out of memory\n");
    return BENCH_FAILED;
}

int bench_print(const BenchRun *run, BenchForm form, size_t json_flags, unsigned int n_threads) {
    json_t *json;

    run->report->machine = machine_json(run, n_threads);
    if (form == BENCH_FORM_CSV) {
        bench_report_csv(run->report, stdout);
        return BENCH_OK;
    }
    if (form == BENCH_FORM_TABLE || form == BENCH_FORM_MARKDOWN) {
        print_machine(run, n_threads);
        if (form == BENCH_FORM_TABLE)
            return print_aligned(run->report) ? out_of_memory() : BENCH_OK;
        bench_report_table(run->report, stdout);
        return BENCH_OK;
    }
    json = bench_report_json(run->report);
    if (!json || json_dumpf(json, stdout, json_flags))
        return out_of_memory();
    putchar('\n');
    json_decref(json);
    return BENCH_OK;
}
