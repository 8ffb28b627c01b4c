// SPDX-License-Identifier: Apache-2.0
/* Prints tables of a report as aligned columns, for people. */
#ifndef COORDGEN_BENCH_TEXT_TABLE_H
#define COORDGEN_BENCH_TEXT_TABLE_H

#include <stddef.h>
#include <stdio.h>

/* Prints a report in Markdown with its tables as columns that line up, in blocks no wider than @width; 0: any width.
 * 0, -ENOMEM. */
int text_table_print(const char *markdown, size_t width, FILE *file);
/* Returns the columns of the terminal that @file leads to; 0: no terminal. */
size_t text_table_width(FILE *file);

#endif
