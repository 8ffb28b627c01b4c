// SPDX-License-Identifier: Apache-2.0
/* Exchanges, and how they drive a connection of libmicrohttpd.
 *
 * A connection is suspended while its exchange waits for the handler: before the reply, and while a stream has no
 * bytes. libmicrohttpd watches no suspended connection, so the server watches the socket itself. suspend() is called
 * within libmicrohttpd's callbacks only, resume() anywhere; is_suspended keeps resume() from a connection that runs,
 * which libmicrohttpd would take for a later suspension's end. */
#include "gateway/http/exchange.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/min_max.h"
#include "gateway/http/http_internal.h"

enum {
    BLOCK_BYTES = 16384,       /* of a whole reply that are sent at a time */
    STREAM_BLOCK_BYTES = 1024, /* of a stream to a client of HTTP/1.0; others' go into the connection's own memory */
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
    exchange->state = EXCHANGE_BROKEN;
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

bool exchange_is_local(const Exchange *exchange) {
    return exchange->connection->is_local;
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

static void suspend(Exchange *exchange) {
    http_connection_wait(exchange->connection, 0); /* the client waits, not the server */
    exchange->is_suspended = true;
    MHD_suspend_connection(exchange->connection->mhd);
}

static void resume(Exchange *exchange) {
    if (!exchange->is_suspended)
        return;
    exchange->is_suspended = false;
    MHD_resume_connection(exchange->connection->mhd);
    event_active(exchange->connection->wake, EV_TIMEOUT, 0);
}

static int add_header(const char *name, const json_t *value, struct MHD_Response *response) {
    return MHD_add_response_header(response, name, json_string_value(value)) == MHD_YES ? 0 : err_raise(-ENOMEM);
}

static enum MHD_Result queue(Exchange *exchange) {
    int r = 0;

    for (void *i = json_object_iter(exchange->headers); i && !r; i = json_object_iter_next(exchange->headers, i))
        r = add_header(json_object_iter_key(i), json_object_iter_value(i), exchange->response);
    exchange->is_queued = true;
    http_connection_wait(exchange->connection, exchange->connection->limits->stall_ms);
    return r ? MHD_NO : MHD_queue_response(exchange->connection->mhd, exchange->status, exchange->response);
}

enum MHD_Result exchange_continue(Exchange *exchange) {
    if (exchange->state == EXCHANGE_BROKEN)
        return MHD_NO;
    if (exchange->is_queued)
        return MHD_YES;
    if (exchange->response)
        return queue(exchange);
    if (exchange->connection->is_gone) { /* before the request was read, so that nothing will tell of it again */
        exchange_abandon(exchange);
        return MHD_NO;
    }
    suspend(exchange);
    return MHD_YES;
}

void exchange_abandon(Exchange *exchange) {
    exchange->state = EXCHANGE_BROKEN;
    tell_gone(exchange);
    /* A connection that waits for the client to take bytes runs no callback otherwise. */
    shutdown(exchange->connection->fd, SHUT_RDWR);
    resume(exchange);
}

void exchange_on_gone(Exchange *exchange, void (*fn)(void *arg), void *arg) {
    exchange->gone = fn;
    exchange->gone_arg = arg;
}

/* ---- the reply's bytes ------------------------------------------------------------------------------------------- */

/* Gives bytes to the connection, which is suspended while a stream has none. */
static ssize_t read_out(void *arg, uint64_t position, char *data, size_t room_bytes) {
    Exchange *exchange = arg;
    const size_t len_bytes = MIN(room_bytes, exchange->out.len_bytes - exchange->sent_bytes);

    if (exchange->state == EXCHANGE_BROKEN)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (!len_bytes && exchange->state == EXCHANGE_ENDED)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (!len_bytes) {
        suspend(exchange);
        return 0;
    }
    http_connection_wait(exchange->connection, exchange->connection->limits->stall_ms);
    memcpy(data, exchange->out.data + exchange->sent_bytes, len_bytes);
    exchange->sent_bytes += len_bytes;
    if (exchange->sent_bytes == exchange->out.len_bytes) {
        exchange->sent_bytes = exchange->allowed_bytes = 0;
        str_buf_truncate(&exchange->out, 0);
    }
    return (ssize_t)len_bytes;
}

/* Lets the connection send the response, or close if there is no memory for one. */
static void send_response(Exchange *exchange, unsigned int status, ExchangeState state) {
    exchange->status = status;
    exchange->state = exchange->response ? state : EXCHANGE_BROKEN;
    resume(exchange);
}

/* ---- whole replies ----------------------------------------------------------------------------------------------- */

void exchange_set_header(Exchange *exchange, const char *name, const char *value) {
    json_object_set_new(exchange->headers, name, json_string(value));
}

void exchange_reply(Exchange *exchange, unsigned int status, const char *type, const void *data, size_t len_bytes) {
    exchange->gone = NULL;
    str_buf_append(&exchange->out, data, len_bytes);
    if (!str_buf_failed(&exchange->out))
        exchange->response = MHD_create_response_from_callback(len_bytes, MAX(MIN(len_bytes, (size_t)BLOCK_BYTES), 1),
                                                               read_out, exchange, NULL);
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

void exchange_stream_begin(Exchange *exchange, const char *type) {
    exchange->response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read_out, exchange, NULL);
    exchange_set_header(exchange, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    exchange_set_header(exchange, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    send_response(exchange, MHD_HTTP_OK, EXCHANGE_STREAMS);
}

bool exchange_stream_add(Exchange *exchange, const void *data, size_t len_bytes) {
    if (exchange->state == EXCHANGE_STREAMS) {
        str_buf_append(&exchange->out, data, len_bytes);
        if (!str_buf_failed(&exchange->out) &&
            exchange->out.len_bytes - exchange->sent_bytes <=
                exchange->connection->limits->unread_bytes + exchange->allowed_bytes) {
            resume(exchange);
            return true;
        }
    }
    exchange->gone = NULL; /* the result tells the caller */
    exchange_abandon(exchange);
    return false;
}

void exchange_stream_allow(Exchange *exchange, size_t len_bytes) {
    exchange->allowed_bytes += len_bytes;
}

void exchange_stream_end(Exchange *exchange) {
    exchange->gone = NULL;
    if (exchange->state == EXCHANGE_STREAMS)
        exchange->state = EXCHANGE_ENDED;
    resume(exchange);
}
