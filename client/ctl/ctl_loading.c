// SPDX-License-Identifier: Apache-2.0
/* Tells the user about a model that is being loaded: how far the load is, and what the model is. */
#include <inttypes.h>
#include <string.h>

#include "client/ctl/ctl.h"

DEFINE_CLEANUP(CoordgenReply, coordgen_reply_unref)

enum {
    SHOW_TIMEOUT_MS = 10000
};

/* Copies a name without control characters, which could move the cursor. */
static void name_text(char *room, size_t room_bytes, const char *name) {
    snprintf(room, room_bytes, "%s", name);
    for (char *at = room; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
}

bool ctl_loading(Ctl *ctl, const CoordgenEvent *event, const char *name) {
    char text[96], safe[64];

    if (!event->model_state)
        return false;
    name_text(safe, sizeof(safe), *event->model ? event->model : name);
    snprintf(text, sizeof(text), "%s %s", event->model_state == COORDGEN_MODEL_IMPORTING ? "importing" : "loading",
             safe);
    if (ctl->err_tty)
        ctl_progress(ctl, text, event->permille / 1000.0, -1);
    else if (!ctl->quiet && !ctl->loading_told)
        fprintf(stderr, "coordgenctl: waiting for a model: %s\n", text);
    ctl->loading_told = true;
    return true;
}

typedef struct Loading {
    Ctl *ctl;
    const char *name;
} Loading;

static int on_progress(void *arg, const CoordgenEvent *event) {
    const Loading *loading = arg;

    if (event->kind == COORDGEN_EVENT_PROGRESS)
        (void)ctl_loading(loading->ctl, event, loading->name);
    return 0;
}

/* Describes the model in one line. */
static void print_model(const Ctl *ctl, const CoordgenModel *model) {
    char number[32];

    ctl_put_text(stderr, model->name, ctl->err_tty);
    fprintf(stderr, ": %s, %s parameters, ", model->architecture,
            ctl_count_text(number, sizeof(number), model->parameters));
    if (model->usable_context_tokens)
        fprintf(stderr, "context of %" PRIu32 " tokens, ", model->usable_context_tokens);
    fprintf(stderr, "%s\n", model->kernel);
}

int ctl_load_for_use(Ctl *ctl, const char *name, bool says_what) {
    _cleanup_(coordgen_reply_unrefp) CoordgenReply *shown = NULL;
    Loading loading = { ctl, "" };
    _cleanup_(ctl_wait_deinit) CtlWait wait = { .fn = on_progress, .arg = &loading };
    const CoordgenModel *model;
    int r;

    if (coordgen_model_show(ctl->client, name, SHOW_TIMEOUT_MS, &shown))
        return ctl_failed_call(ctl);
    model = coordgen_reply_model(shown, 0);
    if (model->state == COORDGEN_MODEL_READY) {
        if (says_what)
            print_model(ctl, model);
        return 0;
    }
    loading.name = model->name;
    r = ctl_wait(ctl, &wait, coordgen_model_want_start(ctl->client, name, -1, ctl_wait_event, &wait, NULL));
    ctl_progress_clear(ctl);
    if (r)
        return r;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    if (says_what)
        print_model(ctl, coordgen_reply_model(wait.reply, 0));
    return 0;
}
