// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "client/ctl/ctl.h"

bool ctl_tool_choice(const Ctl *ctl, CoordgenGenerateOptions *options) {
    static const struct {
        const char *name;
        CoordgenToolChoice choice;
    } choices[] = {
        { "auto", COORDGEN_TOOLS_AUTO },
        { "none", COORDGEN_TOOLS_NONE },
        { "required", COORDGEN_TOOLS_REQUIRED },
    };
    const char *text = ctl_text(ctl, "tool-choice", NULL);

    if ((text || ctl_has(ctl, "single-call")) && !ctl_has(ctl, "tools")) {
        ctl_usage_error(ctl, "--tool-choice and --single-call say how --tools are called: give that, too");
        return false;
    }
    options->single_call = ctl_has(ctl, "single-call");
    if (!text)
        return true;
    options->tool_choice = COORDGEN_TOOLS_NAMED;
    for (size_t i = 0; i < ARRAY_LEN(choices); i++)
        if (!strcmp(choices[i].name, text))
            options->tool_choice = choices[i].choice;
    if (options->tool_choice == COORDGEN_TOOLS_NAMED)
        options->tool_name = text;
    return true;
}
