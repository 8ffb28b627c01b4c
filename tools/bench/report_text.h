// SPDX-License-Identifier: Apache-2.0
/* Texts from outside in reports: names of tasks and machines. */
#ifndef COORDGEN_BENCH_REPORT_TEXT_H
#define COORDGEN_BENCH_REPORT_TEXT_H

#include <stdio.h>

/* Within a cell of a Markdown table. */
void report_put_cell(const char *text, FILE *file);
/* As a field of CSV, quoted. */
void report_put_field(const char *text, FILE *file);

#endif
