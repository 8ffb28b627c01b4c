// SPDX-License-Identifier: Apache-2.0
/* Lists of whole numbers on the command line, with commas between. */
#ifndef COORDGEN_BENCH_NUMBER_LIST_H
#define COORDGEN_BENCH_NUMBER_LIST_H

#include "base/strings/command_line.h"

#define NUMBER_LIST_MAX 16

typedef struct NumberList {
    size_t at[NUMBER_LIST_MAX]; /* [n] */
    size_t n;
} NumberList;

/* Parses 1 to NUMBER_LIST_MAX numbers in [least, most]; false: the text is no such list. */
bool number_list_parse(const char *text, size_t least, size_t most, NumberList *list);
CommandSet number_list_set; /* NumberList */

#endif
