// SPDX-License-Identifier: Apache-2.0
/* Ends a generation by its number. */
#include <inttypes.h>

#include "base/strings/decimal.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

enum {
    CANCEL_TIMEOUT_MS = 10000
};

static int cancel_run(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    const char *rest;
    uint64_t number;
    json_t *object;
    int r;

    rest = decimal_read_u64(ctl->args[0], &number);
    if (!rest || *rest || !number)
        return ctl_usage_error(ctl, "'%.32s' is no request: a number that top shows", ctl->args[0]);
    r = ctl_connect(ctl);
    if (!r)
        r = ctl_wait(
            ctl, &wait,
            coordgen_request_cancel_start(ctl->client, number, CANCEL_TIMEOUT_MS, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    if (ctl->json) {
        object = json_object();
        ctl_json_set(object, "cancelled", json_integer((json_int_t)number));
        return ctl_json_print(ctl, object);
    }
    if (!ctl->quiet)
        printf("Request %" PRIu64 " is cancelled.\n", number);
    return CTL_EXIT_OK;
}

const CtlVerb ctl_verb_cancel = {
    .name = "cancel",
    .arguments = "REQUEST",
    .summary = "end a generation",
    .more = "REQUEST is the number that top, generate --timings and the service's log show. Its app gets\n"
            "the text that there is, with the reason cancelled. Administrators end everybody's requests,\n"
            "others those of their own apps.\n"
            "\nExamples\n"
            "  coordgenctl cancel 17\n",
    .n_args_min = 1,
    .n_args_max = 1,
    .run = cancel_run,
};
