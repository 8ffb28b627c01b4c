// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/speculation/flash_policy.h"

#include <errno.h>
#include <string.h>

#include "base/min_max.h"
#include "base/strings/str_buf.h"
#include "tools/baselines/draft_policy.h"

#define MODEL (1u << SPECULATION_MODEL)

/* Rules that weigh no times run as published, always. lever and ours weigh times, and may lose what they like; auto is
 * ours as the service has it, retrieval what that is without a draft model. */
const FlashPolicy flash_policies[FLASH_POLICIES_MAX] = {
    [FLASH_AR] = { .name = "flash-ar" },
    { .name = "chain-sd", .sources = MODEL, .lab = { .policy = &draft_policies[POLICY_CHAIN_SD], .always = true } },
    { .name = "edgellm", .sources = MODEL, .lab = { .policy = &draft_policies[POLICY_EDGELLM], .always = true } },
    { .name = "specinfer", .sources = MODEL, .lab = { .policy = &draft_policies[POLICY_SPECINFER], .always = true } },
    { .name = "opt-tree", .sources = MODEL, .lab = { .policy = &draft_policies[POLICY_OPT_TREE], .always = true } },
    { .name = "lever", .sources = MODEL, .lab = { .policy = &draft_policies[POLICY_LEVER], .no_bounds = true } },
    [FLASH_OURS] = { .name = "ours", .sources = SPECULATION_AUTO, .lab = { .no_bounds = true } },
    { .name = "auto", .sources = SPECULATION_AUTO },
    { .name = "retrieval", .sources = SPECULATION_AUTO & ~MODEL },
};

static int unknown(const char *name, size_t len, ErrText *err) {
    _cleanup_(str_buf_deinit) StrBuf known = STR_BUF_NULL;

    for (size_t i = 0; i < FLASH_POLICIES_MAX; i++)
        str_buf_addf(&known, "%s%s", i ? ", " : "", flash_policies[i].name);
    return err_set(err, -EINVAL, "--policies: no policy '%.*s'; there are %s", (int)(MIN(len, 64)), name,
                   known.data ? known.data : "");
}

int flash_policies_parse(const char *text, uint32_t *policiesp, ErrText *err) {
    uint32_t policies = 1u << FLASH_AR;

    for (const char *at = text;; at++) {
        const size_t len = strcspn(at, ",");
        size_t i = 0;

        while (i < FLASH_POLICIES_MAX &&
               (strlen(flash_policies[i].name) != len || memcmp(flash_policies[i].name, at, len) != 0))
            i++;
        if (i == FLASH_POLICIES_MAX)
            return unknown(at, len, err);
        policies |= 1u << i;
        at += len;
        if (!*at)
            break;
    }
    *policiesp = policies;
    return 0;
}
