// SPDX-License-Identifier: Apache-2.0
#include "spec/speculation_choice.h"

#include <string.h>

#include "base/strings/utf8.h"

static const char *const source_names[_SPECULATION_N] = {
    [SPECULATION_LOOKUP] = "lookup",   [SPECULATION_SAM] = "sam",
    [SPECULATION_HISTORY] = "history", [SPECULATION_CALIBRATION] = "calibration",
    [SPECULATION_TABLE] = "table",     [SPECULATION_REUSE] = "reuse",
    [SPECULATION_MODEL] = "model",
};

static const char *const policy_names[_POLICY_N] = {
    [POLICY_OURS] = "ours",       [POLICY_FLASH_AR] = "flash-ar",   [POLICY_CHAIN_SD] = "chain-sd",
    [POLICY_EDGELLM] = "edgellm", [POLICY_SPECINFER] = "specinfer", [POLICY_OPT_TREE] = "opt-tree",
    [POLICY_LEVER] = "lever",
};

const char *speculation_source_name(SpeculationSource source) {
    return source_names[source];
}

const char *speculation_policy_name(SpeculationPolicy policy) {
    return policy_names[policy];
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
    return err_set(
        err, SPECULATION_CHOICE_E_TEXT,
        "speculation: no source \"%.*s\"; say auto, off, some of lookup, sam, history, calibration, table, "
        "reuse, model with commas between, or one of ours, flash-ar, chain-sd, edgellm, specinfer, opt-tree, "
        "lever",
        UTF8_PREFIX(name, len < 64 ? len : 64));
}

/* The baselines have the draft model alone, and one of them nothing. */
static SpeculationChoice choice_of(SpeculationPolicy policy) {
    return (SpeculationChoice){
        .sources = policy == POLICY_OURS       ? SPECULATION_AUTO
                   : policy == POLICY_FLASH_AR ? 0
                                               : 1u << SPECULATION_MODEL,
        .policy = policy,
    };
}

int speculation_parse(const char *text, SpeculationChoice *choicep, ErrText *err) {
    uint32_t sources = 0;
    int r;

    for (SpeculationPolicy policy = POLICY_OURS; policy < _POLICY_N; policy++)
        if (!strcmp(text, policy_names[policy]) || (policy == POLICY_OURS && !strcmp(text, "auto"))) {
            *choicep = choice_of(policy);
            return 0;
        }
    if (!strcmp(text, "off")) {
        *choicep = (SpeculationChoice){ 0 };
        return 0;
    }
    for (;;) {
        size_t len = strcspn(text, ",");

        r = parse_name(text, len, &sources, err);
        if (r)
            return r;
        if (!text[len])
            break;
        text += len + 1;
    }
    *choicep = (SpeculationChoice){ .sources = sources };
    return 0;
}
