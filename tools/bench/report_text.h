// SPDX-License-Identifier: Apache-2.0
/* Cells of Markdown tables and fields of CSV. Names of tasks and machines come from outside. */
#ifndef COORDGEN_BENCH_REPORT_TEXT_H
#define COORDGEN_BENCH_REPORT_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Within a cell of a Markdown table. */
void report_put_cell(const char *text, FILE *file);
/* As a field of CSV, quoted. */
void report_put_field(const char *text, FILE *file);

/* The line under the titles of a Markdown table with n columns. */
void report_put_rule(size_t n, FILE *file);
/* A number as a cell of a Markdown table, with the bar behind it, and as a further field of CSV: empty unless it is
 * finite. */
void report_put_number(double value, int digits, FILE *file);
void report_put_value(double value, FILE *file);

#endif
