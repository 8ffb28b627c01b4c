// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/speculation/spec_mode.h"

#include <errno.h>
#include <string.h>

#include "base/min_max.h"
#include "base/strings/str_buf.h"

#define SOURCE(name) (1u << SPECULATION_##name)

/* The baselines' chains end where the published ones do: after LOOKUP_TOKENS, and drafter_sam_draft_tokens(). */
const SpecMode spec_modes[SPEC_MODES_MAX] = {
    [SPEC_PLAIN] = { .name = "plain" },
    { .name = "pld", .sources = SOURCE(LOOKUP), .is_baseline = true },
    { .name = "sam", .sources = SOURCE(SAM), .is_baseline = true },
    { .name = "calibration", .sources = SOURCE(SAM) | SOURCE(CALIBRATION) },
    { .name = "table", .sources = SOURCE(SAM) | SOURCE(CALIBRATION) | SOURCE(TABLE) },
    { .name = "reuse", .sources = SOURCE(SAM) | SOURCE(CALIBRATION) | SOURCE(TABLE) | SOURCE(REUSE) },
    { .name = "history",
      .sources = SOURCE(SAM) | SOURCE(CALIBRATION) | SOURCE(TABLE) | SOURCE(REUSE) | SOURCE(HISTORY) },
    { .name = "auto", .sources = SPECULATION_AUTO },
    { .name = "no-grammar", .sources = SPECULATION_AUTO & ~SOURCE(GRAMMAR), .is_extra = true },
    { .name = "grammar", .sources = SOURCE(GRAMMAR), .is_extra = true },
    { .name = "free", .is_extra = true, .is_free = true },
};

static int unknown(const char *name, size_t len, ErrText *err) {
    _cleanup_(str_buf_deinit) StrBuf known = STR_BUF_NULL;

    for (size_t i = 0; i < SPEC_MODES_MAX; i++)
        str_buf_addf(&known, "%s%s", i ? ", " : "", spec_modes[i].name);
    return err_set(err, -EINVAL, "--modes: no mode '%.*s'; there are %s", (int)(MIN(len, 64)), name,
                   known.data ? known.data : "");
}

uint32_t spec_modes_default(void) {
    uint32_t modes = 0;

    for (size_t i = 0; i < SPEC_MODES_MAX; i++)
        modes |= spec_modes[i].is_extra ? 0 : 1u << i;
    return modes;
}

int spec_modes_parse(const char *text, uint32_t *modesp, ErrText *err) {
    uint32_t modes = 1u << SPEC_PLAIN;

    for (const char *at = text;; at++) {
        const size_t len = strcspn(at, ",");
        size_t i = 0;

        while (i < SPEC_MODES_MAX && (strlen(spec_modes[i].name) != len || memcmp(spec_modes[i].name, at, len) != 0))
            i++;
        if (i == SPEC_MODES_MAX)
            return unknown(at, len, err);
        modes |= 1u << i;
        at += len;
        if (!*at)
            break;
    }
    *modesp = modes;
    return 0;
}

GenerationSpeculation spec_mode_speculation(const SpecMode *mode, const SpecSettings *settings, SpecLab *lab) {
    *lab = (SpecLab){
        .chains = settings->chains || mode->is_baseline,
        .always = !settings->controlled && (settings->always || mode->is_baseline),
    };
    return (GenerationSpeculation){ .sources = mode->sources, .rows_max = settings->rows_max, .lab = lab };
}
