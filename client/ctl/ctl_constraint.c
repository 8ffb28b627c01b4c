// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

/* Whether the argument of --json-schema is a schema and no file. */
static bool is_schema(const char *text) {
    return text[strspn(text, " \t\r\n")] == '{' || !strcmp(text, "true");
}

static bool is_grammar(const char *text) {
    return strstr(text, "::=");
}

/* Options that say what an answer may be. */
static const struct {
    const char *option;
    CoordgenConstraintKind kind;
    bool (*is_text)(const char *text); /* the option is no file; NULL: never one */
} forms[] = {
    { "json-schema", COORDGEN_CONSTRAINT_JSON_SCHEMA, is_schema },
    { "grammar", COORDGEN_CONSTRAINT_GBNF, is_grammar },
    { "regex", COORDGEN_CONSTRAINT_REGEX, NULL },
};

/* Sets the library's options from those that say what the answer may be. textp: out: text of a file, which the options
 * point to and the caller frees; NULL: none. Return: 0, or an exit status, the error is printed. */
int ctl_constraint(Ctl *ctl, CoordgenGenerateOptions *options, char **textp) {
    const char *chosen = NULL;

    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        const char *text = ctl_text(ctl, forms[i].option, NULL);

        if (!text)
            continue;
        if (chosen)
            return ctl_usage_error(ctl, "--%s and --%s: one of them", chosen, forms[i].option);
        chosen = forms[i].option;
        options->constraint_kind = forms[i].kind;
        options->constraint = text;
        if (!forms[i].is_text || forms[i].is_text(text))
            continue;
        if (!ctl_option_file(ctl, forms[i].option, textp))
            return CTL_EXIT_FAILED;
        options->constraint = *textp;
    }
    if (ctl_has(ctl, "compact") && options->constraint_kind != COORDGEN_CONSTRAINT_JSON_SCHEMA)
        return ctl_usage_error(ctl, "--compact: only --json-schema has white space to leave out");
    if (ctl_has(ctl, "any-order") && options->constraint_kind != COORDGEN_CONSTRAINT_JSON_SCHEMA)
        return ctl_usage_error(ctl, "--any-order: only --json-schema has properties");
    if (ctl_has(ctl, "no-end-in-time") && !chosen)
        return ctl_usage_error(ctl, "--no-end-in-time: only with --json-schema, --grammar or --regex");
    options->compact = ctl_has(ctl, "compact");
    options->any_order = ctl_has(ctl, "any-order");
    options->no_end_in_time = ctl_has(ctl, "no-end-in-time");
    return 0;
}
