// SPDX-License-Identifier: Apache-2.0
/* model pair: shows or sets which model drafts for which. */
#include <string.h>

#include "base/min_max.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

enum {
    PAIR_TIMEOUT_MS = 10000
};

static const char no_draft[] = "none";

static void put_cell(const Ctl *ctl, const char *text, size_t columns) {
    const size_t len_bytes = strlen(text);

    ctl_put_text(stdout, text, ctl->out_tty);
    printf("%*s ", len_bytes < columns ? (int)(columns - len_bytes) : 0, "");
}

static void put_pair(const Ctl *ctl, const CoordgenModelPair *pair, size_t target_columns, size_t draft_columns) {
    put_cell(ctl, pair->target, target_columns);
    put_cell(ctl, *pair->draft ? pair->draft : no_draft, draft_columns);
    printf("%-9s %s", *pair->draft ? coordgen_model_pair_state_name((int)pair->state) : "-",
           pair->is_stored ? "command" : "setting");
    if (*pair->detail)
        fputs("  ", stdout);
    ctl_put_text(stdout, pair->detail, ctl->out_tty);
    putchar('\n');
}

static int list_print(Ctl *ctl, const CoordgenReply *reply) {
    const size_t n = coordgen_reply_n_model_pairs(reply);
    size_t target_columns = 6, draft_columns = 5;
    json_t *object, *pairs;

    if (ctl->json) {
        object = json_object();
        pairs = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(pairs, ctl_json_pair(coordgen_reply_model_pair(reply, i)));
        ctl_json_set(object, "pairs", pairs);
        return ctl_json_print(ctl, object);
    }
    for (size_t i = 0; i < n; i++) {
        const CoordgenModelPair *pair = coordgen_reply_model_pair(reply, i);

        target_columns = MAX(strlen(pair->target), target_columns);
        draft_columns = MAX(strlen(pair->draft), draft_columns);
    }
    if (!ctl_has(ctl, "no-legend"))
        printf("%-*s %-*s %-9s %s\n", (int)target_columns, "TARGET", (int)draft_columns, "DRAFT", "STATE", "BY");
    for (size_t i = 0; i < n; i++)
        put_pair(ctl, coordgen_reply_model_pair(reply, i), target_columns, draft_columns);
    if (!n && !ctl_has(ctl, "no-legend"))
        fputs("No pairs. 'coordgenctl model pair TARGET --draft DRAFT' makes one.\n", stderr);
    return CTL_EXIT_OK;
}

static int pair_print(Ctl *ctl, const CoordgenReply *reply) {
    const CoordgenModelPair *pair = coordgen_reply_model_pair(reply, 0);
    const char *warning = coordgen_reply_warning(reply);
    json_t *object;

    if (*warning && !ctl->quiet) {
        fputs("coordgenctl: ", stderr);
        ctl_put_text(stderr, warning, ctl->err_tty);
        fputc('\n', stderr);
    }
    if (ctl->json) {
        object = json_object();
        ctl_json_set(object, "pair", pair ? ctl_json_pair(pair) : json_null());
        ctl_json_set(object, "warning", ctl_json_text(warning, strlen(warning)));
        return ctl_json_print(ctl, object);
    }
    if (ctl->quiet)
        return CTL_EXIT_OK;
    ctl_put_text(stdout, ctl->args[0], ctl->out_tty);
    if (!pair) {
        puts(": no draft model");
        return CTL_EXIT_OK;
    }
    fputs(": ", stdout);
    ctl_put_text(stdout, pair->draft, ctl->out_tty);
    printf(" drafts for it, %s", coordgen_model_pair_state_name((int)pair->state));
    puts(pair->state == COORDGEN_MODEL_PAIR_IDLE ? ": it is loaded with it" : "");
    return CTL_EXIT_OK;
}

static int pair_run(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    const char *draft = ctl_text(ctl, "draft", NULL);
    int r, started;

    if (ctl->n_args && !draft)
        return ctl_usage_error(ctl, "no draft model for %.64s: --draft=NAME, or --draft=none to undo a pair",
                               ctl->args[0]);
    if (draft && !ctl->n_args)
        return ctl_usage_error(ctl, "no model for it to draft for: model pair TARGET --draft=%.64s", draft);
    if (draft && !*draft)
        return ctl_usage_error(ctl, "--draft is empty: the name of a model, or none");
    r = ctl_connect(ctl);
    if (r)
        return r;
    started = draft ? coordgen_model_pair_start(ctl->client, ctl->args[0], strcmp(draft, no_draft) ? draft : "",
                                                PAIR_TIMEOUT_MS, ctl_wait_event, &wait, NULL)
                    : coordgen_model_pair_list_start(ctl->client, PAIR_TIMEOUT_MS, ctl_wait_event, &wait, NULL);
    r = ctl_wait(ctl, &wait, started);
    if (r)
        return r;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    return draft ? pair_print(ctl, wait.reply) : list_print(ctl, wait.reply);
}

static const Option pair_options[] = {
    { "draft", 'd', "NAME", "the model that drafts for TARGET; none: no model any more" },
    { "no-legend", 0, NULL, "no head line" },
};

const CtlVerb ctl_verb_model_pair = {
    .group = "model",
    .name = "pair",
    .arguments = "[TARGET]",
    .summary = "let a small model draft for a large one, or list the pairs",
    .more = "The draft model is loaded with TARGET and stays as long as that does. What TARGET answers is\n"
            "the same; it comes in fewer steps where the small model guesses it. Both must have the same\n"
            "tokens, which is looked at when both are loaded. Pairs are kept over restarts, and go before\n"
            "the service's setting draft-model. Administrators pair; without TARGET the pairs are listed.\n"
            "\nExamples\n"
            "  coordgenctl model pair qwen2.5-coder-1.5b --draft qwen2.5-coder-0.5b\n"
            "  coordgenctl model pair qwen2.5-coder-1.5b --draft none\n"
            "  coordgenctl model pair\n",
    .options = pair_options,
    .n_options = ARRAY_LEN(pair_options),
    .n_args_max = 1,
    .run = pair_run,
};
