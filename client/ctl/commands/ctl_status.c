// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

enum {
    STATUS_TIMEOUT_MS = 10000,
    READY_POLL_MS = 200,
};

static int status_json(Ctl *ctl, CoordgenReply *reply) {
    const CoordgenStatus *status = coordgen_reply_status(reply);
    json_t *object = json_object(), *memory = json_array(), *models = json_array();

    ctl_json_set(object, "service_version", json_string(status->service_version));
    ctl_json_set(object, "pid", json_integer(status->pid));
    ctl_json_set(object, "uptime_us", json_integer((json_int_t)status->uptime_us));
    ctl_json_set(object, "draining", json_boolean(status->draining));
    ctl_json_set(object, "isa", json_string(status->isa));
    ctl_json_set(object, "threads", json_integer(status->threads));
    ctl_json_set(object, "connections", json_integer(status->connections));
    ctl_json_set(object, "connections_max", json_integer(status->connections_max));
    ctl_json_set(object, "requests_running", json_integer(status->requests_running));
    ctl_json_set(object, "requests_queued", json_integer(status->requests_queued));
    ctl_json_set(object, "queue_max", json_integer(status->queue_max));
    ctl_json_set(object, "requests_done", json_integer((json_int_t)status->requests_done));
    ctl_json_set(object, "requests_cancelled", json_integer((json_int_t)status->requests_cancelled));
    ctl_json_set(object, "requests_failed", json_integer((json_int_t)status->requests_failed));
    ctl_json_set(object, "prompt_tokens", json_integer((json_int_t)status->prompt_tokens));
    ctl_json_set(object, "output_tokens", json_integer((json_int_t)status->output_tokens));
    ctl_json_set(object, "sessions", json_integer(status->sessions));
    ctl_json_set(object, "cached_tokens", json_integer((json_int_t)status->cached_tokens));
    ctl_json_set(object, "prefix_cache_bytes", json_integer((json_int_t)status->prefix_cache_bytes));
    ctl_json_set(object, "prefix_cache_max_bytes", json_integer((json_int_t)status->prefix_cache_max_bytes));
    ctl_json_set(object, "preemptions", json_integer((json_int_t)status->preemptions));
    for (size_t i = 0; i < coordgen_reply_n_memory(reply); i++) {
        const CoordgenMemory *account = coordgen_reply_memory(reply, i);
        json_t *one = json_object();

        ctl_json_set(one, "name", ctl_json_text(account->name, strlen(account->name)));
        ctl_json_set(one, "used_bytes", json_integer((json_int_t)account->used_bytes));
        ctl_json_set(one, "peak_bytes", json_integer((json_int_t)account->peak_bytes));
        ctl_json_set(one, "limit_bytes", json_integer((json_int_t)account->limit_bytes));
        json_array_append_new(memory, one);
    }
    for (size_t i = 0; i < coordgen_reply_n_models(reply); i++)
        json_array_append_new(models, ctl_json_model(coordgen_reply_model(reply, i)));
    ctl_json_set(object, "memory", memory);
    if (coordgen_reply_n_memory(reply)) {
        ctl_json_set(object, "memory_used_bytes", json_integer((json_int_t)status->memory_used_bytes));
        ctl_json_set(object, "memory_limit_bytes", json_integer((json_int_t)status->memory_limit_bytes));
        ctl_json_set(object, "memory_limit_source",
                     ctl_json_text(status->memory_limit_source, strlen(status->memory_limit_source)));
    }
    ctl_json_set(object, "models", models);
    return ctl_json_print(ctl, object);
}

static void status_print(Ctl *ctl, CoordgenReply *reply) {
    const CoordgenStatus *status = coordgen_reply_status(reply);
    char one[32], two[32], three[32];

    printf("coordgend %s, process %" PRIu32 ", up %s%s\n", status->service_version, status->pid,
           ctl_duration_text(one, sizeof(one), status->uptime_us), status->draining ? ", draining" : "");
    printf("Socket       ");
    ctl_put_text(stdout, coordgen_client_socket_path(ctl->client), ctl->out_tty);
    printf("\nProcessor    %s, %" PRIu32 " threads\n", status->isa, status->threads);
    if (!coordgen_reply_n_memory(reply))
        puts("Counters     of your own apps; administrators see all");
    printf("Connections  %" PRIu32 " of %" PRIu32 "\n", status->connections, status->connections_max);
    printf("Requests     %" PRIu32 " running, %" PRIu32 " queued of %" PRIu32 "; %" PRIu64 " done, %" PRIu64
           " cancelled, %" PRIu64 " failed\n",
           status->requests_running, status->requests_queued, status->queue_max, status->requests_done,
           status->requests_cancelled, status->requests_failed);
    printf("Tokens       %" PRIu64 " read (%" PRIu64 " of them cached), %" PRIu64 " written\n", status->prompt_tokens,
           status->cached_tokens, status->output_tokens);
    printf("Sessions     %" PRIu32 "\n", status->sessions);
    printf("Kept         %s of prompts, at most %s\n", ctl_bytes_text(one, sizeof(one), status->prefix_cache_bytes),
           ctl_bytes_text(two, sizeof(two), status->prefix_cache_max_bytes));
    if (status->preemptions)
        printf("Preemption   %" PRIu64 " steps made way for requests of a higher class\n", status->preemptions);
    for (size_t i = 0; i < coordgen_reply_n_models(reply); i++) {
        const CoordgenModel *model = coordgen_reply_model(reply, i);

        fputs(i ? "             " : "Models       ", stdout);
        ctl_put_text(stdout, model->name, ctl->out_tty);
        printf("%s: %s", model->is_default ? " (default)" : "", coordgen_model_state_name(model->state));
        if (*model->detail)
            fputs(", ", stdout);
        ctl_put_text(stdout, model->detail, ctl->out_tty);
        if (model->state == COORDGEN_MODEL_READY)
            printf(", %s, context %" PRIu32 " of %" PRIu32 ", %s", model->kernel, model->usable_context_tokens,
                   model->context_tokens, ctl_bytes_text(one, sizeof(one), model->weights_bytes));
        if (model->streamed_layers)
            printf(", %" PRIu32 " of %" PRIu32 " layers from the disk (%s a step, %.0f MB/s)", model->streamed_layers,
                   model->layers, ctl_bytes_text(two, sizeof(two), model->sweep_bytes),
                   (double)model->read_bytes_per_s / 1e6);
        if (model->draft) {
            fputs(", drafted for by ", stdout);
            ctl_put_text(stdout, model->draft->draft, ctl->out_tty);
            printf(" (%s)", coordgen_model_pair_state_name((int)model->draft->state));
        }
        putchar('\n');
        if (*model->image) {
            fputs("             image: ", stdout);
            ctl_put_text(stdout, model->image, ctl->out_tty);
            putchar('\n');
        }
    }
    if (coordgen_reply_n_memory(reply))
        printf("\n%-14s %12s %12s %12s\n", "MEMORY", "USED", "PEAK", "LIMIT");
    for (size_t i = 0; i < coordgen_reply_n_memory(reply); i++) {
        const CoordgenMemory *account = coordgen_reply_memory(reply, i);

        printf("%-14s %12s %12s %12s\n", account->name, ctl_bytes_text(one, sizeof(one), account->used_bytes),
               ctl_bytes_text(two, sizeof(two), account->peak_bytes),
               account->limit_bytes ? ctl_bytes_text(three, sizeof(three), account->limit_bytes) : "none");
    }
    if (!coordgen_reply_n_memory(reply))
        return;
    printf("%-14s %12s %12s %12s (", "all", ctl_bytes_text(one, sizeof(one), status->memory_used_bytes), "",
           status->memory_limit_bytes ? ctl_bytes_text(three, sizeof(three), status->memory_limit_bytes) : "none");
    ctl_put_text(stdout, status->memory_limit_source, ctl->out_tty);
    puts(")");
}

static int status_run(Ctl *ctl) {
    _cleanup_(ctl_wait_deinit) CtlWait wait = { 0 };
    int r;

    r = ctl_connect(ctl);
    if (!r)
        r = ctl_wait(ctl, &wait, coordgen_status_start(ctl->client, STATUS_TIMEOUT_MS, ctl_wait_event, &wait, NULL));
    if (r)
        return r;
    if (coordgen_reply_error(wait.reply))
        return ctl_failed_reply(ctl, &wait);
    if (ctl->json)
        return status_json(ctl, wait.reply);
    status_print(ctl, wait.reply);
    return CTL_EXIT_OK;
}

static int ping_run(Ctl *ctl) {
    uint64_t round_trip_us = 0;
    char text[32];
    json_t *object;
    int code;

    if (coordgen_client_new(&ctl->client)) {
        fputs("coordgenctl: out of memory\n", stderr);
        return CTL_EXIT_FAILED;
    }
    code = coordgen_client_connect(ctl->client, ctl_socket(ctl), STATUS_TIMEOUT_MS);
    if (!code)
        code = coordgen_ping(ctl->client, STATUS_TIMEOUT_MS, &round_trip_us);
    if (code && code != COORDGEN_E_UNREACHABLE && code != COORDGEN_E_DISCONNECTED)
        return ctl_failed_call(ctl);
    if (ctl->json) {
        object = json_object();
        ctl_json_set(object, "active", json_boolean(!code));
        ctl_json_set(object, "round_trip_us", json_integer((json_int_t)round_trip_us));
        (void)ctl_json_print(ctl, object);
    } else if (!ctl->quiet && code) {
        puts("inactive");
    } else if (!ctl->quiet) {
        printf("active: coordgend %s answered in %s\n", coordgen_client_service_version(ctl->client),
               ctl_duration_text(text, sizeof(text), round_trip_us));
    }
    return code ? CTL_EXIT_INACTIVE : CTL_EXIT_OK; /* ping has one status for all errors */
}

/* Returns the model to wait for: the named one, else the default, else the first. */
static const CoordgenModel *model_of(CoordgenReply *reply, const char *name) {
    const CoordgenModel *found = NULL;

    for (size_t i = 0; i < coordgen_reply_n_models(reply); i++) {
        const CoordgenModel *model = coordgen_reply_model(reply, i);

        if (name ? !strcmp(model->name, name) : model->is_default || !found)
            found = model;
    }
    return found;
}

/* Asks the service once. state gets text for the progress line. Returns -1 if the model is not ready yet, else an exit
 * status. */
static int ready_look(Ctl *ctl, const char *name, char *state, size_t room_bytes, bool last) {
    CoordgenReply *reply = NULL;
    const CoordgenModel *model;
    int r = -1;

    if (coordgen_client_error(ctl->client) || !*coordgen_client_service_version(ctl->client))
        (void)coordgen_client_connect(ctl->client, ctl_socket(ctl), STATUS_TIMEOUT_MS);
    if (coordgen_model_list(ctl->client, STATUS_TIMEOUT_MS, &reply)) {
        int code = coordgen_client_error(ctl->client);
        bool later = code == COORDGEN_E_UNREACHABLE || code == COORDGEN_E_DISCONNECTED || code == COORDGEN_E_BUSY ||
                     code == COORDGEN_E_WRONG_STATE || code == COORDGEN_E_TIMEOUT;

        coordgen_reply_unref(reply);
        snprintf(state, room_bytes, "no service");
        if (!later)
            return ctl_failed_call(ctl);
        return last ? ctl_failed(ctl, COORDGEN_E_UNREACHABLE, "no service answered in the time given", "", 0) : -1;
    }
    model = model_of(reply, name);
    if (!model) {
        snprintf(state, room_bytes, "no model");
        if (name || last)
            r = ctl_failed(ctl, COORDGEN_E_MODEL_NOT_FOUND,
                           name ? "there is no model of this name" : "there is no model", "model", 0);
    } else if (model->state == COORDGEN_MODEL_READY) {
        r = CTL_EXIT_OK;
    } else if (model->state == COORDGEN_MODEL_FAILED) {
        r = ctl_failed(ctl, COORDGEN_E_MODEL_CORRUPT, model->detail, "model", 0);
    } else {
        snprintf(state, room_bytes, "%s %s", coordgen_model_state_name(model->state), model->detail);
        if (last)
            r = ctl_failed(ctl, COORDGEN_E_TIMEOUT, "the model was not ready in the time given", "model", 0);
    }
    coordgen_reply_unref(reply);
    return r;
}

static int wait_ready_run(Ctl *ctl) {
    const char *name = ctl->n_args ? ctl->args[0] : ctl_text(ctl, "model", NULL);
    uint64_t timeout_seconds = 60, end_ns;
    char state[256] = "";
    json_t *object;
    int r;

    if (!ctl_number(ctl, "timeout", 1000000, &timeout_seconds))
        return CTL_EXIT_USAGE;
    if (coordgen_client_new(&ctl->client)) {
        fputs("coordgenctl: out of memory\n", stderr);
        return CTL_EXIT_FAILED;
    }
    end_ns = clock_now_ns() + timeout_seconds * 1000000000u;
    while ((r = ready_look(ctl, name, state, sizeof(state), clock_now_ns() >= end_ns)) < 0) {
        ctl_progress_line(ctl, "%s", state);
        poll(NULL, 0, READY_POLL_MS);
    }
    ctl_progress_clear(ctl);
    if (r)
        return r;
    if (ctl->json) {
        object = json_object();
        ctl_json_set(object, "ready", json_true());
        return ctl_json_print(ctl, object);
    }
    return CTL_EXIT_OK;
}

const CtlVerb ctl_verb_status = {
    .name = "status",
    .alias = "ps",
    .arguments = "",
    .summary = "show the service, its models, requests and memory",
    .more = "\nExamples\n"
            "  coordgenctl status\n"
            "  coordgenctl status --json=short | jq .requests_running\n",
    .run = status_run,
};

const CtlVerb ctl_verb_ping = {
    .name = "ping",
    .arguments = "",
    .summary = "see whether the service answers",
    .more = "Exit status 0: it does; 3: there is none.\n"
            "\nExamples\n"
            "  coordgenctl ping --quiet || systemctl start coordgend\n",
    .run = ping_run,
};

static const Option wait_ready_options[] = {
    { "model", 'm', "NAME", "the model (default: the service's default)" },
    { "timeout", 0, "SECONDS", "how long to wait; default 60" },
};

const CtlVerb ctl_verb_wait_ready = {
    .name = "wait-ready",
    .arguments = "[MODEL]",
    .summary = "wait until a model can be used",
    .more = "Also waits for the service itself. Exit status 69: no service in that time; 75: the model\n"
            "is not ready; 1: it failed to load.\n"
            "\nExamples\n"
            "  coordgenctl wait-ready --timeout 120 && coordgenctl generate 'Hello'\n",
    .options = wait_ready_options,
    .n_options = ARRAY_LEN(wait_ready_options),
    .n_args_max = 1,
    .run = wait_ready_run,
};
