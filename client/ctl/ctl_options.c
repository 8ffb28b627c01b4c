// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "client/ctl/ctl.h"

const CtlOption ctl_common_options[] = {
    { "json", 0, "MODE", "pretty, short (one object a line) or off" },
    { "", 'j', NULL, "--json=pretty on a terminal, else --json=short" },
    { "quiet", 'q', NULL, "no progress, notes or timings" },
    { "socket", 0, "PATH", "of the service (default: $COORDGEN_SOCKET, /run/coordgen/api.sock)" },
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

/* Insertions, deletions, changes and swaps of neighbours that turn one word into the other; long words are far. */
static unsigned edit_distance(const char *a, const char *b) {
    enum {
        LEN_MAX = 31
    };
    size_t n_a = strlen(a), n_b = strlen(b);
    unsigned rows[3][LEN_MAX + 1];

    if (n_a > LEN_MAX || n_b > LEN_MAX)
        return LEN_MAX;
    for (size_t j = 0; j <= n_b; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n_a; i++) {
        unsigned *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];

        now[0] = (unsigned)i;
        for (size_t j = 1; j <= n_b; j++) {
            unsigned best = before[j - 1] + (a[i - 1] != b[j - 1]);

            if (before[j] + 1 < best)
                best = before[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && earlier[j - 2] + 1 < best)
                best = earlier[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[n_a % 3][n_b];
}

const char *ctl_nearest(const char *word, const char *const *names, size_t n) {
    size_t len_bytes = strlen(word);
    unsigned best = len_bytes < 4 ? 2 : len_bytes < 8 ? 3 : 4; /* nearer than this */
    const char *nearest = NULL;

    for (size_t i = 0; i < n; i++) {
        unsigned distance = edit_distance(word, names[i]);

        if (len_bytes >= 3 && !strncmp(names[i], word, len_bytes)) /* the beginning of it */
            distance = 1;
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

static const CtlOption *option_find(const CtlOption *options, size_t n, const char *name, size_t len_bytes,
                                    char letter) {
    for (size_t i = 0; i < n; i++)
        if (letter ? options[i].letter == letter
                   : strlen(options[i].name) == len_bytes && len_bytes && !memcmp(options[i].name, name, len_bytes))
            return &options[i];
    return NULL;
}

static const CtlOption *option_of(const Ctl *ctl, const char *name, size_t len_bytes, char letter) {
    const CtlOption *option = option_find(ctl_common_options, ctl_n_common_options, name, len_bytes, letter);

    return option || !ctl->verb ? option
                                : option_find(ctl->verb->options, ctl->verb->n_options, name, len_bytes, letter);
}

static int option_unknown(const Ctl *ctl, const char *word) {
    const char *names[64], *near;
    size_t n = 0, n_verb = ctl->verb ? ctl->verb->n_options : 0;
    char name[48];

    for (size_t i = 0; i < ctl_n_common_options; i++)
        if (*ctl_common_options[i].name)
            names[n++] = ctl_common_options[i].name;
    for (size_t i = 0; i < n_verb && n < ARRAY_LEN(names); i++)
        names[n++] = ctl->verb->options[i].name;
    snprintf(name, sizeof(name), "%s", word[1] == '-' ? word + 2 : "");
    name[strcspn(name, "=")] = 0;
    near = *name ? ctl_nearest(name, names, n) : NULL;
    if (near)
        return ctl_usage_error(ctl, "unknown option '%.64s': did you mean --%s?", word, near);
    return ctl_usage_error(ctl, "unknown option '%.64s': --help lists the options", word);
}

/* One word that begins with a dash; takes its value from the next word when it has none attached. */
static int option_take(Ctl *ctl, char **argv, int argc, int *atp) {
    const char *word = argv[*atp], *attached = NULL;
    const CtlOption *option;

    if (word[1] == '-') {
        size_t len_bytes = strcspn(word + 2, "=");

        option = option_of(ctl, word + 2, len_bytes, 0);
        if (word[2 + len_bytes])
            attached = word + 2 + len_bytes + 1;
    } else {
        option = option_of(ctl, "", 0, word[1]);
        if (option && option->value && word[2])
            attached = word + 2;
        else if (option && word[2])
            return ctl_usage_error(ctl, "'%.64s': give the options one by one", word);
    }
    if (!option)
        return option_unknown(ctl, word);
    if (!option->value && attached)
        return ctl_usage_error(ctl, "--%s takes no value, '%.64s' was given", option->name, attached);
    if (option->value && !attached) {
        if (*atp + 1 >= argc)
            return ctl_usage_error(ctl, "'%.64s' needs a value: %s", word, option->value);
        attached = argv[++*atp];
    }
    ctl->values[ctl->n_values++] = (CtlValue){ option, attached };
    return 0;
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
    if (!group)
        names[n++] = "model";
    near = ctl_nearest(word, names, n);
    return ctl_usage_error(ctl,
                           near ? "unknown command '%s%s%.64s': did you mean '%s'?"
                                : "unknown command '%s%s%.64s': coordgenctl --help lists them%.0s",
                           group ? group : "", group ? " " : "", word, near ? near : "");
}

/* The verb that the words name, or NULL; *n_wordsp: how many of them. */
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
 * ctl_parse() - the command line into verb, options and arguments
 *
 * Options may stand anywhere; after "--" everything is an argument. A verb is needed unless help or the version is
 * asked for. Return: 0 or CTL_EXIT_USAGE with the reason printed.
 */
int ctl_parse(Ctl *ctl, int argc, char **argv, const CtlVerb *const *verbs, size_t n_verbs, bool *helpp,
              bool *versionp) {
    const char *group = NULL;
    bool options_over = false;
    int r;

    ctl->values = calloc((size_t)argc + 1, sizeof(*ctl->values));
    ctl->args = calloc((size_t)argc + 1, sizeof(*ctl->args));
    if (!ctl->values || !ctl->args)
        return ctl_usage_error(ctl, "out of memory");
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];

        if (!options_over && !strcmp(word, "--")) {
            options_over = true;
        } else if (!options_over && word[0] == '-' && word[1]) {
            r = option_take(ctl, argv, argc, &i);
            if (r)
                return r;
        } else if (ctl->verb) {
            ctl->args[ctl->n_args++] = argv[i];
        } else if (!group && is_group(verbs, n_verbs, word)) {
            group = word;
        } else {
            ctl->verb = verb_find(verbs, n_verbs, group, word);
            if (!ctl->verb)
                return verb_unknown(ctl, verbs, n_verbs, group, word);
        }
    }
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

/* A number of bytes: digits, then K, M, G or T (factors of 1024) or nothing. */
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

/* The range is the business of what takes the number. */
bool ctl_real(const Ctl *ctl, const char *option, double *valuep) {
    const char *text = ctl_text(ctl, option, NULL);

    return !text || decimal_parse(text, valuep) || not_a_number(ctl, option, text);
}

/* For what is a float to the service: rounded once. Its range too is checked there, and by the library. */
bool ctl_float(const Ctl *ctl, const char *option, float *valuep) {
    const char *text = ctl_text(ctl, option, NULL);

    return !text || decimal_parse_float(text, valuep) || not_a_number(ctl, option, text);
}
