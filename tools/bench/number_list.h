// SPDX-License-Identifier: Apache-2.0
/* Whole numbers on the command line: one, or several with commas between. */
#ifndef COORDGEN_BENCH_NUMBER_LIST_H
#define COORDGEN_BENCH_NUMBER_LIST_H

#include <stdbool.h>
#include <stddef.h>

#define NUMBER_LIST_MAX 16

/* In [least, most], and nothing behind it. */
bool number_parse(const char *text, size_t least, size_t most, size_t *valuep);
/* N,N,...: 1 to NUMBER_LIST_MAX of them into values[NUMBER_LIST_MAX]. */
bool number_list_parse(const char *text, size_t least, size_t most, size_t *values, size_t *np);

#endif
