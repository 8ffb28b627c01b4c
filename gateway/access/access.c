// SPDX-License-Identifier: Apache-2.0
#include "gateway/access/access.h"

#include <string.h>
#include <strings.h>

#include "base/strings/printable.h"

enum {
    HEADERS_BYTES_MAX = 1024, /* of a list of names that a browser asks for */
};

static bool is_of_length(const char *name, const char *text, size_t len_bytes) {
    return strlen(name) == len_bytes && !strncasecmp(name, text, len_bytes);
}

/* ---- the host: a page of another host that has made its name point here (DNS rebinding) still names itself ------- */

/* Returns the bytes of a Host header's name, without the port. */
static size_t host_bytes(const char *host) {
    const char *end = *host == '[' ? strchr(host, ']') : strchr(host, ':');

    return end ? (size_t)(end - host) + (*host == '[') : strlen(host);
}

static bool is_port(const char *text) {
    return !*text || (*text == ':' && strspn(text + 1, "0123456789") == strlen(text + 1));
}

static bool knows_host(const Access *access, const char *host) {
    static const char *const own[] = { "localhost", "127.0.0.1", "[::1]" };
    const size_t len_bytes = host_bytes(host);

    if (!is_port(host + len_bytes))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (is_of_length(own[i], host, len_bytes))
            return true;
    for (size_t i = 0; i < access->hosts.n; i++)
        if (is_of_length(access->hosts.texts[i], host, len_bytes))
            return true;
    return false;
}

static int check_host(const Access *access, const Exchange *exchange, ApiError *error) {
    const char *host = exchange_header(exchange, "Host");
    Printable shown;

    /* No browser reaches a Unix socket by itself, and HTTP/1.0 has no such header. */
    if (exchange_is_local(exchange) || !host || knows_host(access, host))
        return 0;
    return api_error_set(error, 403, "permission_error", "host_not_allowed",
                         "this service is not '%s': use localhost, or allow the name by --allow-host",
                         printable(&shown, host, strlen(host)));
}

/* ---- the web page ------------------------------------------------------------------------------------------------ */

/* Whether a page comes from the gateway itself, perhaps through a proxy. */
static bool is_same_origin(const Exchange *exchange, const char *origin) {
    const char *host = exchange_header(exchange, "Host");
    const char *name = !strncmp(origin, "http://", 7)    ? origin + 7
                       : !strncmp(origin, "https://", 8) ? origin + 8
                                                         : NULL;

    return host && name && !strcasecmp(host, name);
}

static int check_origin(const Access *access, Exchange *exchange, ApiError *error) {
    const char *origin = exchange_header(exchange, "Origin");
    Printable shown;

    if (!origin || is_same_origin(exchange, origin))
        return 0;
    for (size_t i = 0; i < access->origins.n; i++) {
        const bool is_any = !strcmp(access->origins.texts[i], "*");

        if (!is_any && strcmp(access->origins.texts[i], origin))
            continue;
        exchange_set_header(exchange, "Access-Control-Allow-Origin", access->origins.texts[i]);
        exchange_set_header(exchange, "Access-Control-Expose-Headers", "Retry-After");
        if (!is_any)
            exchange_set_header(exchange, "Vary", "Origin");
        return 0;
    }
    return api_error_set(error, 403, "permission_error", "origin_not_allowed",
                         "pages of '%s' may not use this service: allow them by --allow-origin",
                         printable(&shown, origin, strlen(origin)));
}

void access_preflight(Exchange *exchange, const char *methods) {
    const char *names = exchange_header(exchange, "Access-Control-Request-Headers");

    exchange_set_header(exchange, "Allow", methods);
    if (exchange_header(exchange, "Access-Control-Request-Method")) {
        exchange_set_header(exchange, "Access-Control-Allow-Methods", methods);
        exchange_set_header(exchange, "Access-Control-Max-Age", "600");
        /* The names of headers, as the browser wrote them: clients send many of their own. */
        if (names && strlen(names) <= HEADERS_BYTES_MAX &&
            strspn(names, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ") == strlen(names))
            exchange_set_header(exchange, "Access-Control-Allow-Headers", names);
    }
    exchange_reply(exchange, 204, "text/plain", "", 0);
}

/* ---- the token --------------------------------------------------------------------------------------------------- */

/* Returns the token of a request; NULL: there is none. llama-server's clients use X-Api-Key too. */
static const char *token_of(const Exchange *exchange) {
    const char *text = exchange_header(exchange, "Authorization");

    if (!text || strncasecmp(text, "Bearer ", 7))
        return exchange_header(exchange, "X-Api-Key");
    return text + 7 + strspn(text + 7, " ");
}

static int check_token(const Access *access, Exchange *exchange, ApiError *error) {
    const char *token = token_of(exchange);

    if (token && token_set_has(access->tokens, token))
        return 0;
    exchange_set_header(exchange, "WWW-Authenticate", "Bearer");
    return api_error_set(error, 401, "authentication_error", "invalid_api_key",
                         token ? "Invalid API Key: the token is not one of the gateway's (--token-file)"
                               : "Invalid API Key: send a token of the gateway (--token-file) as "
                                 "'Authorization: Bearer TOKEN'");
}

int access_check(const Access *access, Exchange *exchange, bool is_public, ApiError *error) {
    int r = check_host(access, exchange, error);

    if (!r)
        r = check_origin(access, exchange, error);
    if (!r && access->tokens && !is_public && strcmp(exchange_method(exchange), "OPTIONS"))
        r = check_token(access, exchange, error);
    return r;
}
