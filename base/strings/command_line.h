// SPDX-License-Identifier: Apache-2.0
/* The command line of a program, by tables: a row says what an option is called, where its value goes and which values
 * it accepts. Over options.h. Thread: one. */
#ifndef COORDGEN_BASE_COMMAND_LINE_H
#define COORDGEN_BASE_COMMAND_LINE_H

#include <stdint.h>

#include "base/cleanup.h"
#include "base/strings/choice.h"
#include "base/strings/options.h"

enum {
    COMMAND_TABLES_MAX = 2,
    COMMAND_ARGUMENTS_MAX = 4, /* that are kept of a command line; the last place has the last one */
};

enum {                   /* of a setter, beside OPTIONS_E_USAGE */
    COMMAND_E_VALUE = 3, /* the option does not accept the value */
};

typedef struct CommandOption CommandOption;
/* Puts the value, or NULL where none was given, into the option's field. 0, COMMAND_E_VALUE, or OPTIONS_E_USAGE with a
 * text of its own. */
typedef int CommandSet(const CommandOption *option, const char *value, void *field, ErrText *err);

struct CommandOption {
    Option option;
    CommandSet *set;       /* NULL: --help and --version */
    size_t offset;         /* of the field in the program's options, in bytes */
    uint64_t least, most;  /* of a number; of a text the least bytes */
    const char *accepts;   /* what a value is, for the error; NULL: the choices, or "LEAST..MOST" */
    const Choice *choices; /* that command_set_choice() takes */
    const char *verbs;     /* that have use for the option: "tg, mixed"; NULL: all */
};

typedef struct CommandTable {
    const char *title; /* the text of --help before the options */
    const CommandOption *options;
    size_t n;
} CommandTable;

typedef struct CommandLine {
    const char *program;
    const char *see_help; /* ends each message about a wrong command line */
    CommandTable tables[COMMAND_TABLES_MAX];
    int help_column;
    const char *help_foot;
    void *options;                                /* the struct that offsets are of */
    bool is_given[OPTIONS_MAX];                   /* by option, table after table */
    const char *arguments[COMMAND_ARGUMENTS_MAX]; /* in their order, NULL behind the last */
} CommandLine;

enum { /* exit statuses of such a program */
    COMMAND_OK = 0,
    COMMAND_FAILED = 1,
    COMMAND_USAGE = 2,
};

/* Reads the command line into the options. false: the program ends with *statusp, and has said why. */
bool command_line_read(CommandLine *line, int argc, char *const argv[], int *statusp);
/* Whether the option with this name was on the command line. */
bool command_line_has(const CommandLine *line, const char *name);
/* Refuses an option that the verb has no use for. COMMAND_OK or COMMAND_USAGE. */
int command_line_check_verb(const CommandLine *line, const char *verb);
/* Says what is wrong with the command line, where to look, and returns COMMAND_USAGE. */
int command_line_refuse(const CommandLine *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Refuses a verb; names are n pointers to text, each stride_bytes behind the one before. */
int command_line_refuse_verb(const CommandLine *line, const char *verb, const char *const *names, size_t stride_bytes,
                             size_t n);

/* Setters, by the type of the field. */
int command_set_text(const CommandOption *option, const char *value, void *field, ErrText *err); /* const char * */
int command_set_flag(const CommandOption *option, const char *value, void *field, ErrText *err); /* bool: true */
int command_set_u32(const CommandOption *option, const char *value, void *field, ErrText *err);
int command_set_u64(const CommandOption *option, const char *value, void *field, ErrText *err);
int command_set_size(const CommandOption *option, const char *value, void *field, ErrText *err);
int command_set_share(const CommandOption *option, const char *value, void *field, ErrText *err); /* double from 0 on */
int command_set_choice(const CommandOption *option, const char *value, void *field, ErrText *err);  /* an enumeration */
int command_set_verbose(const CommandOption *option, const char *value, void *field, ErrText *err); /* no field */

#endif
