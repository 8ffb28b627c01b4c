// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/strings/options.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/strings/nearest_word.h"
#include "base/strings/printable.h"

#define LONG_FIRST 256 /* getopt_long() returns LONG_FIRST + i for options[i]; letters are below */

static bool is_long(const Option *option) {
    return option->name && *option->name;
}

static int has_arg(const Option *option) {
    return !option->value ? no_argument : *option->value == '[' ? optional_argument : required_argument;
}

void option_reader_init(OptionReader *reader, int argc, char *const argv[]) {
    /* '-' keeps arguments in their places among options; ':' tells a missing value from an unknown name. */
    *reader = (OptionReader){ .argc = argc, .argv = argv, .letters = "-:" };
    optind = 0; /* GNU getopt starts over */
    opterr = 0;
}

void option_reader_add(OptionReader *reader, const Option *options, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const int arg = has_arg(&options[i]);
        char *end = reader->letters + strlen(reader->letters);

        assert(reader->n_options < OPTIONS_MAX);
        if (is_long(&options[i]))
            reader->long_options[reader->n_long++] =
                (struct option){ options[i].name, arg, NULL, LONG_FIRST + (int)reader->n_options };
        if (options[i].letter) {
            *end++ = options[i].letter;
            memcpy(end, "::", (size_t)arg); /* the buffer is zero, so a NUL follows */
        }
        reader->options[reader->n_options++] = &options[i];
    }
}

/* Returns the option of a code from getopt_long() or optopt; NULL: no option. */
static const Option *option_of(const OptionReader *reader, int code) {
    if (code >= LONG_FIRST)
        return reader->options[code - LONG_FIRST];
    for (size_t i = 0; i < reader->n_options; i++)
        if (reader->options[i]->letter == code)
            return reader->options[i];
    return NULL;
}

/* Writes "--name=VALUE", "--name[=VALUE]", or "-x" for an option without a name. */
static void write_out(char *text, size_t room_bytes, const Option *option) {
    const char *value = option->value ? option->value : "";
    const bool is_optional = *value == '[';

    if (is_long(option))
        snprintf(text, room_bytes, "--%s%s%s", option->name,
                 is_optional     ? "[="
                 : option->value ? "="
                                 : "",
                 value + is_optional);
    else
        snprintf(text, room_bytes, "-%c%s", option->letter, value);
}

/* Refuses a name that no option has, or that begins several. */
static int refuse_name(const OptionReader *reader, const char *word, ErrText *err) {
    const size_t len_bytes = strcspn(word + 2, "=");
    const char *names[OPTIONS_MAX], *near = NULL;
    char name[64];
    size_t n = 0, n_begin = 0;

    snprintf(name, sizeof(name), "%.*s", (int)(len_bytes < sizeof(name) ? len_bytes : sizeof(name) - 1), word + 2);
    for (size_t i = 0; i < reader->n_options; i++)
        if (is_long(reader->options[i]) && reader->options[i]->help) {
            names[n++] = reader->options[i]->name;
            n_begin += *name && !strncmp(reader->options[i]->name, name, strlen(name));
        }
    if (n_begin > 1)
        return err_set(err, OPTIONS_E_USAGE, "'--%s' is the beginning of %zu options: write out which one", name,
                       n_begin);
    near = *name ? nearest_word(name, names, n) : NULL;
    if (near)
        return err_set(err, OPTIONS_E_USAGE, "unknown option '%.*s': did you mean --%s?", UTF8_PREFIX(word, 64), near);
    return err_set(err, OPTIONS_E_USAGE, "unknown option '%.*s': --help lists the options", UTF8_PREFIX(word, 64));
}

static int refuse(const OptionReader *reader, bool is_value_missing, ErrText *err) {
    const Option *option = optopt ? option_of(reader, optopt) : NULL;
    /* musl also counts a missing value of a letter. */
    const char *word = reader->argv[(optind <= reader->argc ? optind : reader->argc) - 1];
    char text[96];

    if (is_value_missing) {
        write_out(text, sizeof(text), option);
        return err_set(err, OPTIONS_E_USAGE, "'%.*s' needs a value: %s", UTF8_PREFIX(word, 64), text);
    }
    if (option)
        return err_set(err, OPTIONS_E_USAGE, "--%s takes no value, '%.*s' was given", option->name,
                       UTF8_PREFIX(word + strcspn(word, "=") + 1, 64));
    if (optopt)
        return err_set(err, OPTIONS_E_USAGE, "unknown option '-%c': --help lists the options", optopt);
    return refuse_name(reader, word, err);
}

/**
 * option_reader_next() - read the next word of the command line
 * @word: out, if 0 is returned
 *
 * Options may stand anywhere. A name may be abbreviated if one option begins so; letters may be joined. A value
 * follows "=" or its letter, or is the next word. After "--" every word is an argument.
 */
int option_reader_next(OptionReader *reader, OptionWord *word, ErrText *err) {
    const int before = MAX(optind, 1);
    int code = -1;

    if (!reader->is_over)
        code = getopt_long(reader->argc, reader->argv, reader->letters, reader->long_options, NULL);
    if (code == '?' || code == ':')
        return refuse(reader, code == ':', err);
    if (code == -1) {
        /* musl stops before an argument "-" and moves past a "--", after which all words are arguments. */
        reader->is_over = reader->is_over || optind >= reader->argc || optind != before;
        if (optind >= reader->argc)
            return OPTIONS_E_END;
        *word = (OptionWord){ NULL, reader->argv[optind++] };
        return 0;
    }
    *word = (OptionWord){ code == 1 ? NULL : option_of(reader, code), optarg };
    return 0;
}

static void print_help(FILE *out, const char *help, int width) {
    const size_t len_bytes = strcspn(help, "\n");

    fprintf(out, " %.*s\n", (int)len_bytes, help);
    if (help[len_bytes]) {
        fprintf(out, "%*s", width, "");
        print_help(out, help + len_bytes + 1, width);
    }
}

void options_print(FILE *out, const Option *options, size_t n, int width) {
    for (size_t i = 0; i < n; i++) {
        char name[96], left[128];

        if (!options[i].help)
            continue;
        write_out(name, sizeof(name), &options[i]);
        if (is_long(&options[i]) && options[i].letter)
            snprintf(left, sizeof(left), "  -%c, %s", options[i].letter, name);
        else
            snprintf(left, sizeof(left), "%s%s", is_long(&options[i]) ? "      " : "  ", name);
        fprintf(out, "%-*s", width, left);
        print_help(out, options[i].help, width);
    }
}
