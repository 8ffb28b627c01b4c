// SPDX-License-Identifier: Apache-2.0
#include "gateway/endpoints/metrics_text.h"

#include <inttypes.h>

#include "base/cleanup.h"

/* Types of metrics, as the format names them. */
#define COUNTER "counter"
#define GAUGE "gauge"

static void add_head(StrBuf *text, const char *name, const char *type, const char *help) {
    str_buf_addf(text, "# HELP coordgen_%s %s\n# TYPE coordgen_%s %s\n", name, help, name, type);
}

void metrics_add_label(StrBuf *text, const char *value) {
    for (; *value; value++)
        switch (*value) {
        case '\n':
            str_buf_add(text, "\\n");
            break;
        case '\\':
        case '"':
            str_buf_append(text, "\\", 1);
            /* fall through */
        default:
            str_buf_append(text, value, 1);
        }
}

/* Appends a sample with one label. */
static void add_labelled(StrBuf *text, const char *name, const char *label, const char *value, uint64_t number) {
    str_buf_addf(text, "coordgen_%s{%s=\"", name, label);
    metrics_add_label(text, value);
    str_buf_addf(text, "\"} %" PRIu64 "\n", number);
}

/* ---- the service ------------------------------------------------------------------------------------------------- */

static void add_service(StrBuf *text, const CoordgenStatus *status) {
    add_head(text, "build_info", GAUGE, "Version of the service and instruction set of its kernels.");
    str_buf_add(text, "coordgen_build_info{version=\"");
    metrics_add_label(text, status->service_version);
    str_buf_add(text, "\",isa=\"");
    metrics_add_label(text, status->isa);
    str_buf_add(text, "\"} 1\n");
    add_head(text, "uptime_seconds", GAUGE, "Time since the start of the service.");
    str_buf_addf(text, "coordgen_uptime_seconds %" PRIu64 ".%06" PRIu64 "\n", status->uptime_us / 1000000,
                 status->uptime_us % 1000000);
    add_head(text, "requests_total", COUNTER, "Requests that have ended since the start, by outcome.");
    add_labelled(text, "requests_total", "outcome", "done", status->requests_done);
    add_labelled(text, "requests_total", "outcome", "cancelled", status->requests_cancelled);
    add_labelled(text, "requests_total", "outcome", "failed", status->requests_failed);
}

typedef struct Metric {
    const char *name, *type, *help;
    uint64_t value;
    bool is_for_administrators;
} Metric;

static void add_numbers(StrBuf *text, const CoordgenStatus *status, bool is_administrator) {
    const Metric metrics[] = {
        { "draining", GAUGE, "1 while the service ends and takes no more requests.", status->draining, false },
        { "threads", GAUGE, "Threads that compute.", status->threads, false },
        { "connections", GAUGE, "Open connections to the service.", status->connections, false },
        { "connections_max", GAUGE, "Limit on open connections.", status->connections_max, false },
        { "requests_running", GAUGE, "Requests that are computed.", status->requests_running, false },
        { "requests_queued", GAUGE, "Requests that wait for a place.", status->requests_queued, false },
        { "queue_max", GAUGE, "Limit on waiting requests.", status->queue_max, false },
        { "sessions", GAUGE, "Open sessions.", status->sessions, false },
        { "prompt_tokens_total", COUNTER, "Prompt tokens, cached ones included.", status->prompt_tokens, false },
        { "cached_tokens_total", COUNTER, "Prompt tokens that were cached.", status->cached_tokens, false },
        { "output_tokens_total", COUNTER, "Tokens of answers.", status->output_tokens, false },
        { "preemptions_total", COUNTER, "Steps that yielded to a higher class.", status->preemptions, true },
        { "prefix_cache_bytes", GAUGE, "Cached keys and values of prompts.", status->prefix_cache_bytes, true },
        { "prefix_cache_max_bytes", GAUGE, "Limit on cached keys and values; 0: nothing is cached.",
          status->prefix_cache_max_bytes, false },
        { "memory_used_bytes", GAUGE, "Memory of all accounts.", status->memory_used_bytes, true },
        { "memory_limit_bytes", GAUGE, "Limit on the memory of all accounts; 0: none.", status->memory_limit_bytes,
          true },
    };

    for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
        if (metrics[i].is_for_administrators && !is_administrator)
            continue;
        add_head(text, metrics[i].name, metrics[i].type, metrics[i].help);
        str_buf_addf(text, "coordgen_%s %" PRIu64 "\n", metrics[i].name, metrics[i].value);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void add_memory(StrBuf *text, const CoordgenReply *reply) {
    const size_t n = coordgen_reply_n_memory(reply);

    if (!n)
        return;
    add_head(text, "account_used_bytes", GAUGE, "Memory of an account.");
    for (size_t i = 0; i < n; i++)
        add_labelled(text, "account_used_bytes", "account", coordgen_reply_memory(reply, i)->name,
                     coordgen_reply_memory(reply, i)->used_bytes);
    add_head(text, "account_peak_bytes", GAUGE, "Most memory that an account has had.");
    for (size_t i = 0; i < n; i++)
        add_labelled(text, "account_peak_bytes", "account", coordgen_reply_memory(reply, i)->name,
                     coordgen_reply_memory(reply, i)->peak_bytes);
    add_head(text, "account_limit_bytes", GAUGE, "Limit on the memory of an account; 0: none.");
    for (size_t i = 0; i < n; i++)
        add_labelled(text, "account_limit_bytes", "account", coordgen_reply_memory(reply, i)->name,
                     coordgen_reply_memory(reply, i)->limit_bytes);
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static void add_models(StrBuf *text, const CoordgenReply *reply) {
    const size_t n = coordgen_reply_n_models(reply);

    if (!n)
        return;
    add_head(text, "model_ready", GAUGE, "1 if the model is loaded and serves requests.");
    for (size_t i = 0; i < n; i++)
        add_labelled(text, "model_ready", "model", coordgen_reply_model(reply, i)->name,
                     coordgen_reply_model(reply, i)->state == COORDGEN_MODEL_READY);
    add_head(text, "model_weights_bytes", GAUGE, "Weights of the model in memory.");
    for (size_t i = 0; i < n; i++)
        add_labelled(text, "model_weights_bytes", "model", coordgen_reply_model(reply, i)->name,
                     coordgen_reply_model(reply, i)->weights_bytes);
}

void metrics_text(StrBuf *text, const CoordgenReply *reply) {
    const CoordgenStatus *status = coordgen_reply_status(reply);

    if (!status)
        return;
    add_service(text, status);
    add_numbers(text, status, coordgen_reply_n_memory(reply) > 0);
    add_memory(text, reply);
    add_models(text, reply);
}
