// SPDX-License-Identifier: Apache-2.0
/* The scores of a run of `spec`: as a table, as CSV, as JSON, as a plot. */
#ifndef COORDGEN_BENCH_SPEC_REPORT_H
#define COORDGEN_BENCH_SPEC_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "tools/bench/speculation/spec_data.h"
#include "tools/bench/speculation/spec_score.h"

typedef struct SpecReport {
    SpecData data;     /* has the names of the tasks */
    SpecScore *scores; /* [n]: by task, within it by mode */
    size_t n;
} SpecReport;

void spec_report_deinit(SpecReport *report);

void spec_report_table(const SpecReport *report, FILE *file);
void spec_report_csv(const SpecReport *report, const char *machine, FILE *file);
/* An array; NULL when there is no memory. */
json_t *spec_report_json(const SpecReport *report);
/* Draws ratios of the decoding speed by task and mode as SVG. 0, -ENOMEM, -errno with a text. */
int spec_report_plot(const SpecReport *report, const char *title, const char *path, ErrText *err);

#endif
