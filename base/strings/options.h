// SPDX-License-Identifier: Apache-2.0
/* Options of a command line, over getopt_long(3): tables say which there are, a reader gives them out word by word, and
 * help is printed from the same tables. Thread: one (getopt has global state). */
#ifndef COORDGEN_BASE_OPTIONS_H
#define COORDGEN_BASE_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

typedef struct Option {
    const char *name;  /* without the dashes; NULL or "": only the letter */
    char letter;       /* 0: none */
    const char *value; /* what stands for it in the help; "[X]": it may be left out; NULL: takes none */
    const char *help;  /* of several lines with newlines between; NULL: not listed */
} Option;

enum {
    OPTIONS_MAX = 96, /* of a program at once */
};

typedef struct OptionReader {
    int argc;
    char *const *argv;
    const Option *options[OPTIONS_MAX];
    size_t n_options, n_long;
    struct option long_options[OPTIONS_MAX + 1]; /* of getopt_long() */
    char letters[3 * OPTIONS_MAX + sizeof("-:")];
    bool is_over; /* all that follows is arguments */
} OptionReader;

enum { /* of option_reader_next() */
    OPTIONS_E_END = 1,
    OPTIONS_E_USAGE = 2, /* the text says what is wrong, and the remedy */
};

/* One word: an option with its value, or an argument. */
typedef struct OptionWord {
    const Option *option; /* NULL: an argument */
    const char *text;     /* the argument, or the value; NULL: none was given. Of argv */
} OptionWord;

void option_reader_init(OptionReader *reader, int argc, char *const argv[]);
/* Options that are known from here on, beside those of before; they outlive the reader. */
void option_reader_add(OptionReader *reader, const Option *options, size_t n);
/* 0, OPTIONS_E_END, OPTIONS_E_USAGE. */
int option_reader_next(OptionReader *reader, OptionWord *word, ErrText *err);

/* Lines for each that has a help, which begins behind `width` columns. */
void options_print(FILE *out, const Option *options, size_t n, int width);

#endif
