// SPDX-License-Identifier: Apache-2.0
#include "base/strings/command_line.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/files/standard_io.h"
#include "base/log.h"
#include "base/strings/decimal.h"
#include "base/strings/nearest_word.h"
#include "base/system/cpu.h"

/* --- setters ------------------------------------------------------------------------------------------------------ */

int command_set_text(const CommandOption *option, const char *value, void *field, ErrText *err) {
    if (strlen(value) < option->least)
        return COMMAND_E_VALUE;
    *(const char **)field = value;
    return 0;
}

int command_set_flag(const CommandOption *option, const char *value, void *field, ErrText *err) {
    *(bool *)field = true;
    return 0;
}

int command_set_u64(const CommandOption *option, const char *value, void *field, ErrText *err) {
    uint64_t number;

    if (!decimal_parse_u64(value, &number) || number < option->least || number > option->most)
        return COMMAND_E_VALUE;
    *(uint64_t *)field = number;
    return 0;
}

int command_set_u32(const CommandOption *option, const char *value, void *field, ErrText *err) {
    uint64_t number;
    int r = command_set_u64(option, value, &number, err);

    if (!r)
        *(uint32_t *)field = (uint32_t)number;
    return r;
}

int command_set_size(const CommandOption *option, const char *value, void *field, ErrText *err) {
    uint64_t number;
    int r = command_set_u64(option, value, &number, err);

    if (!r)
        *(size_t *)field = (size_t)number;
    return r;
}

int command_set_share(const CommandOption *option, const char *value, void *field, ErrText *err) {
    return decimal_parse(value, field) && *(double *)field >= 0 ? 0 : COMMAND_E_VALUE;
}

int command_set_choice(const CommandOption *option, const char *value, void *field, ErrText *err) {
    return choice_set(option->choices, value, field) ? 0 : COMMAND_E_VALUE;
}

int command_set_verbose(const CommandOption *option, const char *value, void *field, ErrText *err) {
    log_set_level(LOG_LEVEL_DEBUG);
    return 0;
}

static int set_value(const CommandLine *line, const CommandOption *option, const char *value, ErrText *err) {
    int r = option->set(option, value, (char *)line->options + option->offset, err);
    char names[128];

    if (r != COMMAND_E_VALUE)
        return r;
    if (option->choices)
        choice_list(option->choices, " or ", names, sizeof(names));
    if (option->choices || option->accepts)
        return err_set(err, OPTIONS_E_USAGE, "--%s is %s, not '%s'", option->option.name,
                       option->accepts ? option->accepts : names, value);
    return err_set(err, OPTIONS_E_USAGE, "--%s is %" PRIu64 "..%" PRIu64 ", not '%s'", option->option.name,
                   option->least, option->most, value);
}

/* --- the line ----------------------------------------------------------------------------------------------------- */

static int print_help(const CommandLine *line) {
    for (size_t t = 0; t < COMMAND_TABLES_MAX && line->tables[t].title; t++) {
        fputs(line->tables[t].title, stdout);
        for (size_t i = 0; i < line->tables[t].n; i++)
            options_print(stdout, &line->tables[t].options[i].option, 1, line->help_column);
    }
    fputs(line->help_foot, stdout);
    return standard_output_end(line->program, COMMAND_OK, COMMAND_FAILED);
}

static int print_version(const CommandLine *line) {
    printf("%s %s\n", line->program, COORDGEN_VERSION);
    return standard_output_end(line->program, COMMAND_OK, COMMAND_FAILED);
}

/* The row at an index into is_given; NULL: there are no more. */
static const CommandOption *option_at(const CommandLine *line, size_t index) {
    for (size_t t = 0; t < COMMAND_TABLES_MAX; index -= line->tables[t++].n)
        if (index < line->tables[t].n)
            return &line->tables[t].options[index];
    return NULL;
}

bool command_line_has(const CommandLine *line, const char *name) {
    const CommandOption *option;

    for (size_t i = 0; (option = option_at(line, i)); i++)
        if (!strcmp(option->option.name, name))
            return line->is_given[i];
    return false;
}

/* Notes that the option was given, and returns its row. */
static const CommandOption *note(CommandLine *line, const Option *given) {
    const CommandOption *option;

    for (size_t i = 0; (option = option_at(line, i)); i++)
        if (&option->option == given) {
            line->is_given[i] = true;
            return option;
        }
    return NULL; /* the reader has no options but these */
}

bool command_line_read(CommandLine *line, int argc, char *const argv[], int *statusp) {
    const CommandOption *option;
    OptionReader reader;
    OptionWord word;
    size_t n = 0;
    ErrText err;
    int r;

    option_reader_init(&reader, argc, argv);
    for (size_t i = 0; (option = option_at(line, i)); i++)
        option_reader_add(&reader, &option->option, 1);
    while (!(r = option_reader_next(&reader, &word, &err))) {
        if (!word.option) {
            line->arguments[n] = word.text;
            n += n + 1 < COMMAND_ARGUMENTS_MAX;
            continue;
        }
        option = note(line, word.option);
        if (!option->set) {
            *statusp = strcmp(option->option.name, "help") ? print_version(line) : print_help(line);
            return false;
        }
        if (set_value(line, option, word.text, &err)) {
            *statusp = command_line_refuse(line, "%s", err.text);
            return false;
        }
    }
    *statusp = COMMAND_USAGE;
    if (r == OPTIONS_E_USAGE)
        fprintf(stderr, "%s: %s\n", line->program, err.text);
    return r == OPTIONS_E_END;
}

static bool is_in_list(const char *list, const char *word) {
    const size_t n = strlen(word);

    for (const char *at = list; at; at = strchr(at, ','), at += at ? 2 : 0)
        if (!strncmp(at, word, n) && (!at[n] || at[n] == ','))
            return true;
    return false;
}

int command_line_check_verb(const CommandLine *line, const char *verb) {
    const CommandOption *option;

    for (size_t i = 0; (option = option_at(line, i)); i++)
        if (line->is_given[i] && option->verbs && !is_in_list(option->verbs, verb))
            return command_line_refuse(line, "--%s is for %s, not for '%s'", option->option.name, option->verbs, verb);
    return COMMAND_OK;
}

int command_line_refuse(const CommandLine *line, const char *format, ...) {
    va_list args;

    fprintf(stderr, "%s: ", line->program);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "%s\n", line->see_help);
    return COMMAND_USAGE;
}

int command_line_refuse_verb(const CommandLine *line, const char *verb, const char *const *names, size_t stride_bytes,
                             size_t n) {
    const char *near = nearest_word_in(verb, names, stride_bytes, n);

    if (!near)
        return command_line_refuse(line, "unknown verb '%.64s'", verb);
    fprintf(stderr, "%s: unknown verb '%.64s': did you mean '%s'?\n", line->program, verb, near);
    return COMMAND_USAGE;
}
