// SPDX-License-Identifier: Apache-2.0
#include "gateway/gateway.h"

#include <string.h>

#include "base/strings/printable.h"
#include "base/strings/str_buf.h"

static const Route routes[] = {
    { "GET", "/", endpoint_page, true },
    { "GET", "/health", endpoint_health, true },
    { "GET", "/v1/health", endpoint_health, true },
    { "GET", "/metrics", endpoint_metrics, false },
    { "GET", "/v1/models", endpoint_models, true },
    { "GET", "/models", endpoint_models, true },
    { "GET", "/v1/models/*", endpoint_model, true },
    { "GET", "/models/*", endpoint_model, true },
    { "GET", "/props", endpoint_props, false },
    { "POST", "/props", endpoint_unsupported, false },
    { "GET", "/slots", endpoint_unsupported, false },
    { "POST", "/v1/chat/completions", endpoint_chat_completions, false },
    { "POST", "/chat/completions", endpoint_chat_completions, false },
    { "POST", "/v1/chat/completions/input_tokens", endpoint_chat_tokens, false },
    { "POST", "/chat/completions/input_tokens", endpoint_chat_tokens, false },
    { "POST", "/apply-template", endpoint_apply_template, false },
    { "POST", "/v1/completions", endpoint_completions, false },
    { "POST", "/completion", endpoint_plain_completion, false },
    { "POST", "/completions", endpoint_plain_completion, false },
    { "POST", "/infill", endpoint_infill, false },
    { "POST", "/v1/embeddings", endpoint_embeddings, false },
    { "POST", "/embeddings", endpoint_plain_embeddings, false },
    { "POST", "/embedding", endpoint_plain_embeddings, false },
    { "POST", "/tokenize", endpoint_tokenize, false },
    { "POST", "/detokenize", endpoint_detokenize, false },
    { "POST", "/v1/responses", endpoint_responses, false },
    { "POST", "/responses", endpoint_responses, false },
    { "POST", "/v1/responses/input_tokens", endpoint_response_input_tokens, false },
    { "POST", "/responses/input_tokens", endpoint_response_input_tokens, false },
};

/* Whether a route has the path, also by its star. */
static bool has_path(const Route *route, const char *path) {
    const size_t front_bytes = strlen(route->path) - 1;

    if (route->path[front_bytes] == '*')
        return !strncmp(route->path, path, front_bytes) && path[front_bytes];
    return !strcmp(route->path, path);
}

/* Whether a route serves the method of a request. HEAD is GET without a body, which the server leaves out. */
static bool serves(const Route *route, const char *method) {
    return !strcmp(route->method, method) || (!strcmp(method, "HEAD") && !strcmp(route->method, "GET"));
}

/* Returns the route of a request, or NULL. */
static const Route *route_of(const Exchange *exchange) {
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (has_path(&routes[i], exchange_path(exchange)) && serves(&routes[i], exchange_method(exchange)))
            return &routes[i];
    return NULL;
}

/* Writes the methods of a path, as "GET, POST". Returns whether there are any. */
static bool list_methods(const char *path, StrBuf *list) {
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (has_path(&routes[i], path))
            str_buf_addf(list, "%s%s", list->len_bytes ? ", " : "", routes[i].method);
    return list->len_bytes;
}

static int check(void *arg, Exchange *exchange, ApiError *error) {
    const Gateway *gateway = arg;
    const Route *route = route_of(exchange);

    return access_check(&gateway->access, exchange, route && route->is_public, error);
}

/* Answers a request without a route: a path that has no endpoint, or none for the method. */
static void refuse(Exchange *exchange) {
    const char *path = exchange_path(exchange);
    StrBuf methods = STR_BUF_NULL;
    ApiError error;
    Printable shown;

    if (!list_methods(path, &methods)) {
        api_error_set(&error, 404, "not_found_error", "unknown_path", "there is no '%s': see docs/gateway.md",
                      printable(&shown, path, strlen(path)));
        exchange_refuse(exchange, &error);
    } else if (!strcmp(exchange_method(exchange), "OPTIONS")) {
        access_preflight(exchange, methods.data);
    } else {
        exchange_set_header(exchange, "Allow", methods.data);
        api_error_set(&error, 405, "invalid_request_error", "method_not_allowed", "%s is for %s only", path,
                      methods.data);
        exchange_refuse(exchange, &error);
    }
    str_buf_deinit(&methods);
}

static void handle(void *arg, Exchange *exchange) {
    const Route *route = route_of(exchange);

    if (route)
        route->handle(arg, exchange);
    else
        refuse(exchange);
}

static void on_empty(void *arg) {
    const Gateway *gateway = arg;

    if (gateway->on_empty)
        gateway->on_empty(gateway->on_empty_arg);
}

const HttpOps gateway_ops = { .check = check, .handle = handle, .on_empty = on_empty };
