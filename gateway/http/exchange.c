// SPDX-License-Identifier: Apache-2.0
#include "gateway/http/exchange.h"

#include <stdio.h>
#include <string.h>

#include "base/min_max.h"
#include "gateway/http/http_internal.h"

enum {
    STREAM_BLOCK_BYTES = 4096,
};

Exchange *exchange_new(HttpConnection *connection, const char *method, const char *path) {
    Exchange *exchange = calloc(1, sizeof(*exchange));

    if (!exchange)
        return NULL;
    exchange->connection = connection;
    exchange->method = strdup(method);
    exchange->path = strdup(path);
    exchange->headers = json_object();
    str_buf_add(&exchange->body, "");
    if (!exchange->method || !exchange->path || !exchange->headers || str_buf_failed(&exchange->body))
        return exchange_free(exchange);
    return exchange;
}

static void tell_gone(Exchange *exchange) {
    void (*gone)(void *arg) = exchange->gone;

    exchange->gone = NULL;
    if (gone)
        gone(exchange->gone_arg);
}

Exchange *exchange_free(Exchange *exchange) {
    if (!exchange)
        return NULL;
    tell_gone(exchange);
    if (exchange->response)
        MHD_destroy_response(exchange->response);
    str_buf_deinit(&exchange->body);
    str_buf_deinit(&exchange->out);
    json_decref(exchange->headers);
    free(exchange->method);
    free(exchange->path);
    free(exchange);
    return NULL;
}

/* ---- the request ------------------------------------------------------------------------------------------------- */

const char *exchange_method(const Exchange *exchange) {
    return exchange->method;
}

const char *exchange_path(const Exchange *exchange) {
    return exchange->path;
}

const char *exchange_query(const Exchange *exchange, const char *name) {
    return MHD_lookup_connection_value(exchange->connection->mhd, MHD_GET_ARGUMENT_KIND, name);
}

const char *exchange_header(const Exchange *exchange, const char *name) {
    return MHD_lookup_connection_value(exchange->connection->mhd, MHD_HEADER_KIND, name);
}

const char *exchange_body(const Exchange *exchange, size_t *len_bytesp) {
    *len_bytesp = exchange->body.len_bytes;
    return exchange->body.data;
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

static void suspend(Exchange *exchange) {
    exchange->is_suspended = true;
    MHD_suspend_connection(exchange->connection->mhd);
}

static void resume(Exchange *exchange) {
    if (!exchange->is_suspended)
        return;
    exchange->is_suspended = false;
    MHD_resume_connection(exchange->connection->mhd);
    http_server_wake(exchange->connection->server);
}

static int add_header(const char *name, json_t *value, struct MHD_Response *response) {
    return MHD_add_response_header(response, name, json_string_value(value)) == MHD_YES ? 0 : err_raise(-ENOMEM);
}

static enum MHD_Result queue(Exchange *exchange) {
    const char *name;
    json_t *value;
    int r = 0;

    json_object_foreach(exchange->headers, name, value) if (!r) r = add_header(name, value, exchange->response);
    exchange->is_queued = true;
    return r ? MHD_NO : MHD_queue_response(exchange->connection->mhd, exchange->status, exchange->response);
}

enum MHD_Result exchange_continue(Exchange *exchange) {
    if (exchange->state == EXCHANGE_BROKEN)
        return MHD_NO;
    if (exchange->is_queued)
        return MHD_YES;
    if (exchange->response)
        return queue(exchange);
    suspend(exchange);
    return MHD_YES;
}

void exchange_abandon(Exchange *exchange) {
    if (exchange->state == EXCHANGE_ENDED && exchange->sent == exchange->out.len_bytes)
        return; /* nothing is left to do for the client */
    exchange->state = EXCHANGE_BROKEN;
    tell_gone(exchange);
    resume(exchange);
}

void exchange_on_gone(Exchange *exchange, void (*fn)(void *arg), void *arg) {
    exchange->gone = fn;
    exchange->gone_arg = arg;
}

/* ---- whole replies ----------------------------------------------------------------------------------------------- */

void exchange_set_header(Exchange *exchange, const char *name, const char *value) {
    json_object_set_new(exchange->headers, name, json_string(value));
}

/* Lets the connection send the response, or close where there is no memory for one. */
static void send_response(Exchange *exchange, unsigned int status, ExchangeState state) {
    exchange->status = status;
    exchange->state = exchange->response ? state : EXCHANGE_BROKEN;
    resume(exchange);
}

void exchange_reply(Exchange *exchange, unsigned int status, const char *type, const void *data, size_t len_bytes) {
    exchange->gone = NULL;
    exchange->response = MHD_create_response_from_buffer(len_bytes, (void *)data, MHD_RESPMEM_MUST_COPY);
    exchange_set_header(exchange, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    send_response(exchange, status, EXCHANGE_ENDED);
}

void exchange_reply_json(Exchange *exchange, unsigned int status, json_t *value) {
    static const char no_memory[] = "{\"error\":{\"message\":\"the gateway is out of memory: try again later\","
                                    "\"status\":500,\"type\":\"server_error\",\"param\":null,\"code\":null}}";
    _cleanup_(freep) char *text =
        value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : NULL;

    json_decref(value);
    if (text)
        exchange_reply(exchange, status, "application/json", text, strlen(text));
    else
        exchange_reply(exchange, 500, "application/json", no_memory, strlen(no_memory));
}

void exchange_refuse(Exchange *exchange, const ApiError *error) {
    char seconds[16];

    if (error->retry_after_ms) {
        snprintf(seconds, sizeof(seconds), "%u", (error->retry_after_ms + 999) / 1000);
        exchange_set_header(exchange, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
    exchange_reply_json(exchange, error->status, api_error_json(error));
}

/* ---- replies in pieces ------------------------------------------------------------------------------------------- */

/* Gives bytes to the connection; it is suspended while there are none. */
static ssize_t read_stream(void *arg, uint64_t position, char *data, size_t room_bytes) {
    Exchange *exchange = arg;
    const size_t len_bytes = MIN(room_bytes, exchange->out.len_bytes - exchange->sent);

    if (exchange->state == EXCHANGE_BROKEN)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (!len_bytes && exchange->state == EXCHANGE_ENDED)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (!len_bytes) {
        suspend(exchange);
        return 0;
    }
    memcpy(data, exchange->out.data + exchange->sent, len_bytes);
    exchange->sent += len_bytes;
    if (exchange->sent == exchange->out.len_bytes) {
        exchange->sent = 0;
        str_buf_truncate(&exchange->out, 0);
    }
    return (ssize_t)len_bytes;
}

void exchange_stream_begin(Exchange *exchange, const char *type) {
    exchange->response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read_stream, exchange, NULL);
    exchange_set_header(exchange, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    exchange_set_header(exchange, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    send_response(exchange, MHD_HTTP_OK, EXCHANGE_STREAMS);
}

bool exchange_stream_add(Exchange *exchange, const void *data, size_t len_bytes) {
    if (exchange->state != EXCHANGE_STREAMS)
        return false;
    str_buf_append(&exchange->out, data, len_bytes);
    if (str_buf_failed(&exchange->out) ||
        exchange->out.len_bytes - exchange->sent > exchange->connection->server->limits.unread_bytes) {
        exchange->gone = NULL; /* the caller is told by the result */
        exchange_abandon(exchange);
        return false;
    }
    resume(exchange);
    return true;
}

void exchange_stream_end(Exchange *exchange) {
    exchange->gone = NULL;
    if (exchange->state == EXCHANGE_STREAMS)
        exchange->state = EXCHANGE_ENDED;
    resume(exchange);
}
