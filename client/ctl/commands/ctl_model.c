// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

enum {
    MODEL_TIMEOUT_MS = 10000
};

/* Prints the draft model, at the end of a line of the list. */
static void put_draft(const Ctl *ctl, const CoordgenModel *model) {
    if (model->draft) {
        fputs("  drafted for by ", stdout);
        ctl_put_text(stdout, model->draft->draft, ctl->out_tty);
        printf(" (%s)", coordgen_model_pair_state_name((int)model->draft->state));
    }
    if (model->streamed_layers)
        printf("  %" PRIu32 " of %" PRIu32 " layers from the disk", model->streamed_layers, model->layers);
}

/* Writes a number, or a dash for a number that only loaded models have. */
static const char *number_or_dash(char *room, size_t room_bytes, uint32_t number) {
    snprintf(room, room_bytes, "%" PRIu32, number);
    return number ? room : "-";
}

static int list_print(Ctl *ctl, CoordgenReply *reply) {
    size_t n = coordgen_reply_n_models(reply), name_columns = 5;
    char size[32], parameters[32], context[16], trained[16];
    json_t *object, *models;

    if (ctl->json) {
        object = json_object();
        models = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(models, ctl_json_model(coordgen_reply_model(reply, i)));
        ctl_json_set(object, "models", models);
        return ctl_json_print(ctl, object);
    }
    for (size_t i = 0; i < n; i++)
        if (strlen(coordgen_reply_model(reply, i)->name) > name_columns)
            name_columns = strlen(coordgen_reply_model(reply, i)->name);
    if (!ctl_has(ctl, "no-legend"))
        printf("  %-*s %-10s %-10s %10s %10s %8s %8s\n", (int)name_columns, "MODEL", "STATE", "ARCH", "PARAMETERS",
               "SIZE", "CONTEXT", "TRAINED");
    for (size_t i = 0; i < n; i++) {
        const CoordgenModel *model = coordgen_reply_model(reply, i);

        fputs(model->is_default ? "* " : "  ", stdout);
        ctl_put_text(stdout, model->name, ctl->out_tty);
        printf("%*s %-10s %-10s %10s %10s %8s %8s", (int)(name_columns - strlen(model->name)), "",
               coordgen_model_state_name(model->state), *model->architecture ? model->architecture : "-",
               model->parameters ? ctl_count_text(parameters, sizeof(parameters), model->parameters) : "-",
               model->file_bytes ? ctl_bytes_text(size, sizeof(size), model->file_bytes) : "-",
               number_or_dash(context, sizeof(context), model->usable_context_tokens),
               number_or_dash(trained, sizeof(trained), model->context_tokens));
        if (*model->detail)
            fputs("  ", stdout);
        ctl_put_text(stdout, model->detail, ctl->out_tty);
        put_draft(ctl, model);
        putchar('\n');
    }
    if (!n && !ctl_has(ctl, "no-legend"))
        fputs("No models. 'coordgenctl model import FILE.gguf' makes one.\n", stderr);
    return CTL_EXIT_OK;
}

static int list_run(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    int r;

    r = ctl_connect(ctl);
    if (!r)
        r = ctl_wait(ctl, &wait, coordgen_model_list_start(ctl->client, MODEL_TIMEOUT_MS, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    return coordgen_reply_error(wait.reply) ? ctl_failed_reply(ctl, &wait) : list_print(ctl, wait.reply);
}

static void row(Ctl *ctl, const char *name, const char *value) {
    if (!*value)
        return;
    printf("%-16s ", name);
    ctl_put_text(stdout, value, ctl->out_tty);
    putchar('\n');
}

static void show_draft(Ctl *ctl, const CoordgenModel *model) {
    char text[640];

    if (model->draft) {
        snprintf(text, sizeof(text), "%.255s (%s%s%.255s)", model->draft->draft,
                 coordgen_model_pair_state_name((int)model->draft->state), *model->draft->detail ? ": " : "",
                 model->draft->detail);
        row(ctl, "Draft model", text);
    }
    for (size_t i = 0; i < model->n_draft_of; i++)
        row(ctl, "Drafts for", model->draft_of[i]);
}

static void show_streaming(Ctl *ctl, const CoordgenModel *model) {
    char text[96], bytes[32];

    if (!model->streamed_layers)
        return;
    snprintf(text, sizeof(text), "%" PRIu32 " of %" PRIu32 ", %s a step", model->streamed_layers, model->layers,
             ctl_bytes_text(bytes, sizeof(bytes), model->sweep_bytes));
    row(ctl, "From the disk", text);
    row(ctl, "In memory", ctl_bytes_text(bytes, sizeof(bytes), model->pinned_bytes));
    if (!model->read_bytes_per_s)
        return;
    snprintf(text, sizeof(text), "%.0f MB/s", (double)model->read_bytes_per_s / 1e6);
    row(ctl, "Read at", text);
}

/* Shows the context that a request may use, the trained one, and the setting that limits it. */
static void show_context(Ctl *ctl, const CoordgenModel *model) {
    char text[160];

    if (!model->context_tokens) {
        if (!model->setting_context_tokens)
            return;
        snprintf(text, sizeof(text), "at most %" PRIu32 " tokens (context-tokens)", model->setting_context_tokens);
        row(ctl, "Context", text);
        return;
    }
    if (model->usable_context_tokens < model->context_tokens)
        snprintf(text, sizeof(text),
                 "%" PRIu32 " tokens: raise context-tokens = %" PRIu32 " in coordgend.conf for more",
                 model->usable_context_tokens, model->setting_context_tokens);
    else
        snprintf(text, sizeof(text), "%" PRIu32 " tokens: all that the model has (context-tokens = %" PRIu32 ")",
                 model->usable_context_tokens, model->setting_context_tokens);
    row(ctl, "Context", text);
    snprintf(text, sizeof(text), "%" PRIu32 " tokens", model->context_tokens);
    row(ctl, "Trained for", text);
}

static int show_print(Ctl *ctl, CoordgenReply *reply) {
    const CoordgenModel *model = coordgen_reply_model(reply, 0);
    char text[32], number[40];

    if (ctl->json)
        return ctl_json_print(ctl, ctl_json_model(model));
    row(ctl, "Model", model->name);
    row(ctl, "State", coordgen_model_state_name(model->state));
    row(ctl, "Detail", model->detail);
    snprintf(text, sizeof(text), "yes (%s)", coordgen_model_default_by_name((int)model->default_by));
    row(ctl, "Default", model->is_default ? text : "no");
    row(ctl, "Path", model->path);
    row(ctl, "Architecture", model->architecture);
    row(ctl, "Chat format", model->chat_format);
    row(ctl, "Image", model->image);
    if (model->parameters)
        row(ctl, "Parameters", ctl_count_text(text, sizeof(text), model->parameters));
    show_context(ctl, model);
    if (model->vocabulary) {
        snprintf(number, sizeof(number), "%" PRIu32, model->vocabulary);
        row(ctl, "Vocabulary", number);
    }
    if (model->file_bytes)
        row(ctl, "File", ctl_bytes_text(text, sizeof(text), model->file_bytes));
    if (model->weights_bytes)
        row(ctl, "Weights", ctl_bytes_text(text, sizeof(text), model->weights_bytes));
    if (model->kv_bytes_per_token) {
        snprintf(number, sizeof(number), "%" PRIu64 " bytes", model->kv_bytes_per_token);
        row(ctl, "Cache a token", number);
    }
    show_draft(ctl, model);
    show_streaming(ctl, model);
    row(ctl, "Cache type", model->kv_type);
    row(ctl, "Kernel", model->kernel);
    row(ctl, "Source SHA-256", model->source_sha256);
    return CTL_EXIT_OK;
}

/* Whether a name means a file: it looks like a path, or a file of that name has the suffix of a model. */
static bool is_file(const char *name) {
    size_t len_bytes = strlen(name);
    bool suffix = len_bytes > 4 &&
                  (!strcmp(name + len_bytes - 4, ".cgm") || (len_bytes > 5 && !strcmp(name + len_bytes - 5, ".gguf")));

    return strchr(name, '/') || suffix;
}

static int show_run(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    const char *name = ctl->n_args ? ctl->args[0] : NULL;
    int r;

    if (name && is_file(name))
        return ctl_show_file(ctl, name);
    r = ctl_connect(ctl);
    if (!r)
        r = ctl_wait(ctl, &wait,
                     coordgen_model_show_start(ctl->client, name, MODEL_TIMEOUT_MS, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    return coordgen_reply_error(wait.reply) ? ctl_failed_reply(ctl, &wait) : show_print(ctl, wait.reply);
}

static int load_event(void *arg, const CoordgenEvent *event) {
    if (event->kind == COORDGEN_EVENT_PROGRESS)
        ctl_progress(arg, coordgen_model_state_name(event->model_state), event->permille / 1000.0, -1);
    return 0;
}

static int load_run(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { .fn = load_event, .arg = ctl };
    const char *name = ctl->args[0];
    const CoordgenModel *model;
    int r;

    r = ctl_connect(ctl);
    if (!r)
        r = ctl_wait(ctl, &wait,
                     (is_file(name) ? coordgen_model_load_file_start
                                    : coordgen_model_load_start)(ctl->client, name, -1, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    ctl_progress_clear(ctl);
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    model = coordgen_reply_model(wait.reply, 0);
    if (ctl->json)
        return ctl_json_print(ctl, ctl_json_model(model));
    if (!ctl->quiet) {
        ctl_put_text(stdout, model->name, ctl->out_tty);
        printf(": %s\n", coordgen_model_state_name(model->state));
        ctl_hint_loaded(ctl, model->name);
    }
    return CTL_EXIT_OK;
}

static int unload_run(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    json_t *object;
    int r;

    r = ctl_connect(ctl);
    if (!r)
        r = ctl_wait(ctl, &wait,
                     coordgen_model_unload_start(ctl->client, ctl->args[0], -1, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    if (!ctl->json)
        return CTL_EXIT_OK;
    object = json_object();
    ctl_json_set(object, "unloaded", ctl_json_text(ctl->args[0], strlen(ctl->args[0])));
    return ctl_json_print(ctl, object);
}

static const Option list_options[] = {
    { "no-legend", 0, NULL, "no head line" },
};

const CtlVerb ctl_verb_model_list = {
    .group = "model",
    .name = "list",
    .alias = "ls",
    .arguments = "",
    .summary = "list the models that the service has",
    .more = "* marks the default. CONTEXT is what prompt and answer of a request may have together in\n"
            "tokens, TRAINED what the model was trained for.\n"
            "\nExamples\n"
            "  coordgenctl model list\n"
            "  coordgenctl model list --json=short | jq -r '.models[].name'\n",
    .options = list_options,
    .n_options = ARRAY_LEN(list_options),
    .run = list_run,
};

const CtlVerb ctl_verb_model_show = {
    .group = "model",
    .name = "show",
    .arguments = "[NAME|FILE]",
    .summary = "show a model of the service, or a model file",
    .more = "A name is asked of the service (none: its default). A path, or a name that ends with\n"
            ".gguf or .cgm, is a file: its metadata and tensors are read here, without the service.\n"
            "\nExamples\n"
            "  coordgenctl model show\n"
            "  coordgenctl model show ./model.gguf\n"
            "  coordgenctl model show --json=short ./model.gguf | jq '.tensors[].name'\n",
    .n_args_max = 1,
    .run = show_run,
};

const CtlVerb ctl_verb_model_load = {
    .group = "model",
    .name = "load",
    .arguments = "NAME|PATH",
    .summary = "load a model into memory",
    .more = "Administrators may name a .gguf or .cgm file too, which is imported when it must be. It is\n"
            "opened here: the service need not be allowed to. Ctrl-C cancels.\n"
            "\nExamples\n"
            "  coordgenctl model load smollm2-135m\n"
            "  sudo coordgenctl model load ~/Downloads/model.gguf\n",
    .n_args_min = 1,
    .n_args_max = 1,
    .run = load_run,
};

const CtlVerb ctl_verb_model_unload = {
    .group = "model",
    .name = "unload",
    .arguments = "NAME",
    .summary = "free the memory of a model",
    .more = "\nExamples\n"
            "  coordgenctl model unload smollm2-135m\n",
    .n_args_min = 1,
    .n_args_max = 1,
    .run = unload_run,
};
