// SPDX-License-Identifier: Apache-2.0
#include "gateway/gateway.h"

#include <string.h>

#include "base/strings/utf8.h"

static const Route routes[] = {
    { "GET", "/", endpoint_page },
    { "GET", "/health", endpoint_health },
    { "GET", "/v1/models", endpoint_models },
    { "POST", "/v1/chat/completions", endpoint_chat_completions },
};

static int check(void *arg, const Exchange *exchange, ApiError *error) {
    return 0;
}

/* Refuses a path that has no endpoint, or none for the method. */
static void refuse(Exchange *exchange) {
    const char *path = exchange_path(exchange);
    ApiError error;

    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (!strcmp(routes[i].path, path)) {
            exchange_set_header(exchange, "Allow", routes[i].method);
            api_error_set(&error, 405, "invalid_request_error", "method_not_allowed", "%s is for %s only",
                          routes[i].path, routes[i].method);
            exchange_refuse(exchange, &error);
            return;
        }
    api_error_set(&error, 404, "not_found_error", "unknown_path", "there is no '%.*s': see docs/gateway.md",
                  UTF8_PREFIX(path, 64));
    exchange_refuse(exchange, &error);
}

static void handle(void *arg, Exchange *exchange) {
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (!strcmp(routes[i].path, exchange_path(exchange)) && !strcmp(routes[i].method, exchange_method(exchange))) {
            routes[i].handle(arg, exchange);
            return;
        }
    refuse(exchange);
}

const HttpOps gateway_ops = { .check = check, .handle = handle };
