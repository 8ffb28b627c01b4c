// SPDX-License-Identifier: Apache-2.0
/* Reads the options of a command line from tables, by getopt_long(3), and prints help from the same tables. Thread: one
 * (getopt has global state). */
#ifndef COORDGEN_BASE_OPTIONS_H
#define COORDGEN_BASE_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

typedef struct Option {
    const char *name;  /* without the dashes; NULL or "": the option has a letter only */
    char letter;       /* 0: none */
    const char *value; /* the value's name in the help; "[X]": optional; NULL: the option takes no value */
    const char *help;  /* lines, with newlines between; NULL: not listed */
} Option;

enum {
    OPTIONS_MAX = 96, /* options of a program at a time */
};

typedef struct OptionReader {
    int argc;
    char *const *argv;
    const Option *options[OPTIONS_MAX];
    size_t n_options, n_long;
    struct option long_options[OPTIONS_MAX + 1]; /* for getopt_long() */
    char letters[3 * OPTIONS_MAX + sizeof("-:")];
    bool is_over; /* "--" was read: all further words are arguments */
} OptionReader;

enum { /* results of option_reader_next() */
    OPTIONS_E_END = 1,
    OPTIONS_E_USAGE = 2, /* the text names the mistake and the remedy */
};

/* A word of the command line: an option with its value, or an argument. */
typedef struct OptionWord {
    const Option *option; /* NULL: an argument */
    const char *text;     /* the argument or the value, in argv; NULL: no value was given */
} OptionWord;

void option_reader_init(OptionReader *reader, int argc, char *const argv[]);
/* Adds n options to the known ones. options outlives the reader. */
void option_reader_add(OptionReader *reader, const Option *options, size_t n);
/* Reads the next word. 0, OPTIONS_E_END or OPTIONS_E_USAGE. */
int option_reader_next(OptionReader *reader, OptionWord *word, ErrText *err);

/* Prints the options that have a help, which begins in column `width`. */
void options_print(FILE *out, const Option *options, size_t n, int width);

#endif
