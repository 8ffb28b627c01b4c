// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/paths.h"
#include "base/strings/decimal.h"
#include "base/strings/nearest_word.h"
#include "client/ctl/ctl.h"

const Option ctl_common_options[] = {
    { "json", 0, "MODE", "pretty, short (one object a line) or off" },
    { "", 'j', NULL, "--json=pretty on a terminal, else --json=short" },
    { "quiet", 'q', NULL, "no progress, notes or timings" },
    { "socket", 0, "PATH", "of the service (default: $COORDGEN_SOCKET, a service of your own, the system's)" },
    { "system-socket", 0, NULL, "the system's service, also where you have one of your own" },
    { "admin-socket", 0, NULL, "the administrators' socket, beside that one" },
    { "help", 'h', NULL, "this text" },
    { "version", 0, NULL, "the version" },
};
const size_t ctl_n_common_options = ARRAY_LEN(ctl_common_options);

int ctl_usage_error(const Ctl *ctl, const char *format, ...) {
    va_list args;

    fputs("coordgenctl", stderr);
    if (ctl->verb)
        fprintf(stderr, " %s%s%s", ctl->verb->group ? ctl->verb->group : "", ctl->verb->group ? " " : "",
                ctl->verb->name);
    fputs(": ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return CTL_EXIT_USAGE;
}

static bool verb_is(const CtlVerb *verb, const char *group, const char *name) {
    if (!group && verb->alias && !strcmp(verb->alias, name))
        return true;
    return !strcmp(verb->group ? verb->group : "", group ? group : "") && !strcmp(verb->name, name);
}

static int verb_unknown(const Ctl *ctl, const CtlVerb *const *verbs, size_t n_verbs, const char *group,
                        const char *word) {
    const char *names[64], *near;
    size_t n = 0;

    for (size_t i = 0; i < n_verbs; i++)
        if (group ? verbs[i]->group && !strcmp(verbs[i]->group, group) : !verbs[i]->group)
            names[n++] = verbs[i]->name;
    if (!group) {
        names[n++] = "model";
        names[n++] = "draftdb";
    }
    near = nearest_word(word, names, n);
    return ctl_usage_error(ctl,
                           near ? "unknown command '%s%s%.64s': did you mean '%s'?"
                                : "unknown command '%s%s%.64s': coordgenctl --help lists them%.0s",
                           group ? group : "", group ? " " : "", word, near ? near : "");
}

/* Returns the verb that the words name, or NULL. *n_wordsp: the number of words that name it. */
static const CtlVerb *verb_find(const CtlVerb *const *verbs, size_t n_verbs, const char *group, const char *name) {
    for (size_t i = 0; i < n_verbs; i++)
        if (verb_is(verbs[i], group, name))
            return verbs[i];
    return NULL;
}

static bool is_group(const CtlVerb *const *verbs, size_t n_verbs, const char *word) {
    for (size_t i = 0; i < n_verbs; i++)
        if (verbs[i]->group && !strcmp(verbs[i]->group, word))
            return true;
    return false;
}

static int json_mode(Ctl *ctl) {
    for (size_t i = 0; i < ctl->n_values; i++) {
        const CtlValue *value = &ctl->values[i];

        if (value->option->letter == 'j')
            ctl->json = ctl->out_tty ? CTL_JSON_PRETTY : CTL_JSON_SHORT;
        else if (strcmp(value->option->name, "json"))
            continue;
        else if (!strcmp(value->text, "pretty"))
            ctl->json = CTL_JSON_PRETTY;
        else if (!strcmp(value->text, "short"))
            ctl->json = CTL_JSON_SHORT;
        else if (!strcmp(value->text, "off"))
            ctl->json = CTL_JSON_OFF;
        else
            return ctl_usage_error(ctl, "--json=%.32s: one of pretty, short, off", value->text);
    }
    return 0;
}

/**
 * ctl_parse() - parse the command line into verb, options and arguments
 *
 * The options of a verb are known after the verb. A verb is required, except with --help and --version.
 * Return: 0, or CTL_EXIT_USAGE with the reason printed.
 */
int ctl_parse(Ctl *ctl, int argc, char **argv, const CtlVerb *const *verbs, size_t n_verbs, bool *helpp,
              bool *versionp) {
    const char *group = NULL;
    OptionReader reader;
    OptionWord word;
    ErrText err;
    int r;

    ctl->values = calloc((size_t)argc + 1, sizeof(*ctl->values));
    ctl->args = calloc((size_t)argc + 1, sizeof(*ctl->args));
    if (!ctl->values || !ctl->args)
        return ctl_usage_error(ctl, "out of memory");
    option_reader_init(&reader, argc, argv);
    option_reader_add(&reader, ctl_common_options, ctl_n_common_options);
    while (!(r = option_reader_next(&reader, &word, &err))) {
        if (word.option)
            ctl->values[ctl->n_values++] = (CtlValue){ word.option, word.text };
        else if (ctl->verb)
            ctl->args[ctl->n_args++] = word.text;
        else if (!group && is_group(verbs, n_verbs, word.text))
            group = word.text;
        else {
            ctl->verb = verb_find(verbs, n_verbs, group, word.text);
            if (!ctl->verb)
                return verb_unknown(ctl, verbs, n_verbs, group, word.text);
            option_reader_add(&reader, ctl->verb->options, ctl->verb->n_options);
        }
    }
    if (r == OPTIONS_E_USAGE)
        return ctl_usage_error(ctl, "%s", err.text);
    *helpp = ctl_has(ctl, "help");
    *versionp = ctl_has(ctl, "version");
    ctl->quiet = ctl_has(ctl, "quiet");
    if (*helpp || *versionp)
        return 0;
    if (!ctl->verb)
        return ctl_usage_error(ctl,
                               group ? "'%s' needs a command: coordgenctl --help lists them"
                                     : "a command is needed: coordgenctl --help lists them%.0s",
                               group ? group : "");
    if (ctl->n_args < ctl->verb->n_args_min)
        return ctl_usage_error(ctl, "an argument is missing: %s", ctl->verb->arguments);
    if (ctl->verb->n_args_max >= 0 && ctl->n_args > ctl->verb->n_args_max)
        return ctl_usage_error(ctl, "'%.64s' is one argument too many%s%s", ctl->args[ctl->verb->n_args_max],
                               *ctl->verb->arguments ? ": " : "", ctl->verb->arguments);
    return json_mode(ctl);
}

bool ctl_has(const Ctl *ctl, const char *option) {
    for (size_t i = 0; i < ctl->n_values; i++)
        if (!strcmp(ctl->values[i].option->name, option))
            return true;
    return false;
}

const char *ctl_text(const Ctl *ctl, const char *option, const char *fallback) {
    for (size_t i = ctl->n_values; i-- > 0;)
        if (!strcmp(ctl->values[i].option->name, option))
            return ctl->values[i].text;
    return fallback;
}

bool ctl_number(const Ctl *ctl, const char *option, uint64_t max, uint64_t *valuep) {
    const char *text = ctl_text(ctl, option, NULL);
    uint64_t value;

    if (!text)
        return true;
    if (!decimal_parse_u64(text, &value) || value > max) {
        ctl_usage_error(ctl, "--%s=%.64s: a whole number from 0 to %llu is needed", option, text,
                        (unsigned long long)max);
        return false;
    }
    *valuep = value;
    return true;
}

/* Takes a number of bytes: digits, then K, M, G or T (factors of 1024) or nothing. */
bool ctl_byte_count(const Ctl *ctl, const char *option, uint64_t *bytesp) {
    static const char units[] = "KMGT";
    const char *text = ctl_text(ctl, option, NULL), *end, *unit;
    unsigned int shift = 0;
    uint64_t value;

    if (!text)
        return true;
    end = decimal_read_u64(text, &value);
    unit = end && *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) {
        shift = 10 * (unsigned int)(unit - units + 1);
        end++;
    }
    if (!end || *end || !value || value > UINT64_MAX >> shift) {
        ctl_usage_error(ctl, "--%s=%.64s: a number of bytes is needed, such as 800M or 1G", option, text);
        return false;
    }
    *bytesp = value << shift;
    return true;
}

static bool not_a_number(const Ctl *ctl, const char *option, const char *text) {
    ctl_usage_error(ctl, "--%s=%.64s: a number is needed", option, text);
    return false;
}

/* Takes any real number; the user of the number checks its range. */
bool ctl_real(const Ctl *ctl, const char *option, double *valuep) {
    const char *text = ctl_text(ctl, option, NULL);

    return !text || decimal_parse(text, valuep) || not_a_number(ctl, option, text);
}

/* Takes a number that the service keeps as a float, rounded once. Library and service check its range. */
bool ctl_float(const Ctl *ctl, const char *option, float *valuep) {
    const char *text = ctl_text(ctl, option, NULL);

    return !text || decimal_parse_float(text, valuep) || not_a_number(ctl, option, text);
}
