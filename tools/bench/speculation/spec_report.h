// SPDX-License-Identifier: Apache-2.0
/* The scores of a run of `spec`, by task and mode. */
#ifndef COORDGEN_BENCH_SPEC_REPORT_H
#define COORDGEN_BENCH_SPEC_REPORT_H

#include "tools/bench/report.h"
#include "tools/bench/speculation/spec_data.h"
#include "tools/bench/speculation/spec_score.h"

typedef struct SpecReport {
    SpecData data;     /* has the names of the tasks */
    SpecScore *scores; /* [n]: by task, then by mode */
    size_t n;
} SpecReport;

extern const BenchFindings spec_report_findings; /* findings are a SpecReport */
/* Writes ratios of the decoding speed by task and mode for tools/plot. 0, -ENOMEM, -errno with a text. */
int spec_report_plot(const SpecReport *report, const char *title, const char *path, ErrText *err);

#endif
