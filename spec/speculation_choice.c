// SPDX-License-Identifier: Apache-2.0
#include "spec/speculation_choice.h"

#include <string.h>

#include "base/min_max.h"
#include "base/strings/utf8.h"

static const char *const source_names[_SPECULATION_N] = {
    [SPECULATION_LOOKUP] = "lookup",   [SPECULATION_SAM] = "sam",
    [SPECULATION_HISTORY] = "history", [SPECULATION_CALIBRATION] = "calibration",
    [SPECULATION_TABLE] = "table",     [SPECULATION_REUSE] = "reuse",
    [SPECULATION_MODEL] = "model",     [SPECULATION_GRAMMAR] = "grammar",
};

const char *speculation_source_name(SpeculationSource source) {
    return source_names[source];
}

static int parse_name(const char *name, size_t len, uint32_t *sources, ErrText *err) {
    for (uint32_t i = 0; i < _SPECULATION_N; i++) {
        if (strlen(source_names[i]) != len || memcmp(source_names[i], name, len) != 0)
            continue;
        if (*sources >> i & 1)
            return err_set(err, SPECULATION_CHOICE_E_TEXT, "speculation: source \"%s\" is named twice; name it once",
                           source_names[i]);
        *sources |= 1u << i;
        return 0;
    }
    return err_set(err, SPECULATION_CHOICE_E_TEXT,
                   "speculation: no source \"%.*s\"; say auto, off, or some of lookup, sam, history, calibration, "
                   "table, reuse, model, grammar with commas between",
                   UTF8_PREFIX(name, MIN(len, 64)));
}

int speculation_parse(const char *text, uint32_t *sourcesp, ErrText *err) {
    uint32_t sources = 0;
    int r;

    if (!strcmp(text, "auto") || !strcmp(text, "ours"))
        sources = SPECULATION_AUTO;
    else if (strcmp(text, "off") != 0)
        for (;; text++) {
            const size_t len = strcspn(text, ",");

            r = parse_name(text, len, &sources, err);
            if (r)
                return r;
            text += len;
            if (!*text)
                break;
        }
    *sourcesp = sources;
    return 0;
}
