// SPDX-License-Identifier: Apache-2.0
/* Writes cells of Markdown tables and fields of CSV. Names of tasks and machines come from outside. */
#ifndef COORDGEN_BENCH_REPORT_TEXT_H
#define COORDGEN_BENCH_REPORT_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Writes a text that stands in a cell of a Markdown table. */
void report_put_cell(const char *text, FILE *file);
/* Writes a quoted field of CSV. */
void report_put_field(const char *text, FILE *file);

/* Writes the line under the titles of a Markdown table with n columns. */
void report_put_rule(size_t n, FILE *file);
/* Writes a number as a cell of a Markdown table with its closing bar, or as a further field of CSV with its comma
 * before. Both are empty if the number is not finite. */
void report_put_number(double value, int digits, FILE *file);
void report_put_value(double value, FILE *file);

#endif
