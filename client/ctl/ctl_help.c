// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "client/ctl/ctl.h"

enum {
    HELP_COLUMN = 30
};

void ctl_help_verb(FILE *out, const CtlVerb *verb) {
    fprintf(out, "Usage: coordgenctl %s%s%s [OPTION...]%s%s\n\n%s\n%s%s", verb->group ? verb->group : "",
            verb->group ? " " : "", verb->name, *verb->arguments ? " " : "", verb->arguments, verb->summary,
            *verb->more ? "\n" : "", verb->more);
    if (verb->alias)
        fprintf(out, "\nAlso: coordgenctl %s\n", verb->alias);
    if (verb->n_options)
        fputs("\nOptions\n", out);
    options_print(out, verb->options, verb->n_options, HELP_COLUMN);
    fputs("\nOptions of every command\n", out);
    options_print(out, ctl_common_options, ctl_n_common_options, HELP_COLUMN);
}

void ctl_help_all(FILE *out, const CtlVerb *const *verbs, size_t n_verbs) {
    fputs("Usage: coordgenctl COMMAND [OPTION...] [ARGUMENT...]\n\n"
          "Use the language models of this device through coordgend, and manage them.\n\nCommands\n",
          out);
    for (size_t i = 0; i < n_verbs; i++) {
        char left[96];

        snprintf(left, sizeof(left), "  %s%s%s%s%s", verbs[i]->group ? verbs[i]->group : "", verbs[i]->group ? " " : "",
                 verbs[i]->name, *verbs[i]->arguments ? " " : "", verbs[i]->arguments);
        fprintf(out, "%-*s %s%s%s%s\n", HELP_COLUMN, left, verbs[i]->summary, verbs[i]->alias ? " (also: " : "",
                verbs[i]->alias ? verbs[i]->alias : "", verbs[i]->alias ? ")" : "");
    }
    fputs("\nOptions of every command\n", out);
    options_print(out, ctl_common_options, ctl_n_common_options, HELP_COLUMN);
    fputs("\nExamples\n"
          "  coordgenctl generate 'Why is the sky blue?'\n"
          "  coordgenctl generate 'Summarise this text.' --file notes.txt\n"
          "  coordgenctl chat\n"
          "  coordgenctl model import model.gguf && coordgenctl model list\n"
          "\nExit status: 0 done; 1 failed; 2 wrong usage; 69 no service; 75 try again; 77 not allowed;\n"
          "130 ended by Ctrl-C; ping: 3 no service.\n"
          "coordgenctl COMMAND --help says more about each.\n",
          out);
}
