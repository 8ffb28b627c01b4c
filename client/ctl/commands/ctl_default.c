// SPDX-License-Identifier: Apache-2.0
/* model default: shows or sets the model of requests that name none. */
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

enum {
    DEFAULT_TIMEOUT_MS = 10000
};

static int default_print(Ctl *ctl, const CoordgenModel *model) {
    json_t *object;

    if (ctl->json) {
        object = ctl_json_model(model);
        ctl_json_set(object, "default", json_true()); /* even if the model is missing at the moment */
        return ctl_json_print(ctl, object);
    }
    if (ctl->n_args && ctl->quiet)
        return CTL_EXIT_OK;
    ctl_put_text(stdout, model->name, ctl->out_tty);
    if (ctl->n_args)
        printf(": the default from now on, %s\n", coordgen_model_state_name(model->state));
    else
        putchar('\n'); /* the name alone, for scripts */
    if (!model->state && !ctl->quiet)
        fputs("There is no model of this name at the moment: see coordgenctl model list.\n", stderr);
    return CTL_EXIT_OK;
}

static int default_run(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    int r;

    r = ctl_connect(ctl);
    if (!r)
        r = ctl_wait(ctl, &wait,
                     coordgen_model_default_start(ctl->client, ctl->n_args ? ctl->args[0] : NULL, DEFAULT_TIMEOUT_MS,
                                                  ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    return coordgen_reply_error(wait.reply) ? ctl_failed_reply(ctl, &wait)
                                            : default_print(ctl, coordgen_reply_model(wait.reply, 0));
}

const CtlVerb ctl_verb_model_default = {
    .group = "model",
    .name = "default",
    .arguments = "[NAME]",
    .summary = "show or choose the default model",
    .more = "NAME is the default from now on, also after restarts, unless the service's setting model\n"
            "names one. Administrators choose. Before anybody does, the default is the first model that\n"
            "there was.\n"
            "\nExamples\n"
            "  coordgenctl model default\n"
            "  sudo coordgenctl model default smollm2-135m\n",
    .n_args_max = 1,
    .run = default_run,
};
