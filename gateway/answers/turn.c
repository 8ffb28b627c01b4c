// SPDX-License-Identifier: Apache-2.0
#include "gateway/answers/turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/strings/str_buf.h"

Turn *turn_new(Gateway *gateway, Exchange *exchange, const AnswerForm *form, const char *prefix) {
    Turn *turn = calloc(1, sizeof(*turn));
    uint64_t words[2];

    if (!turn)
        return NULL;
    turn->gateway = gateway;
    turn->exchange = exchange;
    turn->form = form;
    turn->created_s = (uint64_t)time(NULL);
    if (getrandom(words, sizeof(words), 0) != (ssize_t)sizeof(words))
        return turn_free(turn);
    snprintf(turn->id, sizeof(turn->id), "%s%016" PRIx64 "%08" PRIx32, prefix, words[0], (uint32_t)words[1]);
    return turn;
}

Turn *turn_free(Turn *turn) {
    if (!turn)
        return NULL;
    free(turn->model);
    free(turn);
    return NULL;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* Cancels the generation of a client that has gone. */
static void cancel(Turn *turn) {
    turn->exchange = NULL;
    (void)coordgen_cancel(turn->client, turn->request_id);
    link_settle(turn->gateway->link);
}

static void on_gone(void *arg) {
    cancel(arg);
}

static void send_line(Turn *turn, const char *name, const char *text) {
    StrBuf line = STR_BUF_NULL;

    if (name)
        str_buf_addf(&line, "event: %s\n", name);
    str_buf_add(&line, "data: ");
    str_buf_add(&line, text);
    str_buf_add(&line, "\n\n");
    if (turn->exchange && !exchange_stream_add(turn->exchange, line.data, line.len_bytes))
        cancel(turn);
    str_buf_deinit(&line);
}

void turn_send_text(Turn *turn, const char *text) {
    send_line(turn, NULL, text);
}

void turn_send(Turn *turn, const char *name, json_t *value) {
    _cleanup_(freep) char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

    json_decref(value);
    if (text)
        send_line(turn, name, text);
    else
        cancel(turn); /* out of memory */
}

/* Begins the stream with the first event of an answer, so that an error before it has a status of its own. */
static void begin_stream(Turn *turn) {
    if (turn->has_begun)
        return;
    turn->has_begun = true;
    exchange_stream_begin(turn->exchange, "text/event-stream");
    if (turn->form->begin)
        turn->form->begin(turn);
}

/* ---- events of the service --------------------------------------------------------------------------------------- */

static int take_model(Turn *turn, const char *name) {
    char *copy = strdup(name);

    if (!copy)
        return err_raise(-ENOMEM);
    free(turn->model);
    turn->model = copy;
    return 0;
}

static void refuse(Turn *turn, const CoordgenReply *reply) {
    ApiError error;

    api_error_of_service(&error, coordgen_reply_error(reply), coordgen_reply_message(reply),
                         coordgen_reply_field(reply), coordgen_reply_retry_after_ms(reply));
    if (turn->has_begun) {
        turn_send(turn, NULL, api_error_json(&error));
        if (turn->exchange)
            exchange_stream_end(turn->exchange);
    } else {
        exchange_refuse(turn->exchange, &error);
    }
}

static void end(Turn *turn, const CoordgenReply *reply) {
    const CoordgenGenerateResult *result = coordgen_reply_generate(reply);

    if (coordgen_reply_error(reply) || !result || take_model(turn, result->model)) {
        refuse(turn, reply);
    } else if (!turn->is_stream) {
        exchange_reply_json(turn->exchange, 200, turn->form->whole(turn, reply));
    } else {
        begin_stream(turn);
        turn->form->end(turn, reply);
        if (turn->exchange)
            exchange_stream_end(turn->exchange);
    }
}

static int on_event(void *arg, const CoordgenEvent *event) {
    Turn *turn = arg;

    if (event->kind == COORDGEN_EVENT_END) {
        if (turn->exchange)
            end(turn, event->reply);
        turn_free(turn);
        return 0;
    }
    if (!turn->exchange)
        return 1;
    if (turn->is_stream && event->kind == COORDGEN_EVENT_DELTA)
        begin_stream(turn);
    if (turn->has_begun && turn->exchange && turn->form->piece)
        turn->form->piece(turn, event);
    return 0;
}

void turn_start(Turn *turn, const CoordgenGenerateOptions *options) {
    Link *link = turn->gateway->link;
    ApiError error;

    if (!turn->model && take_model(turn, options->model ? options->model : "")) {
        api_error_no_memory(&error);
    } else if (!link_client(link, &turn->client, &error)) {
        if (!coordgen_generate_start(turn->client, options, on_event, turn, &turn->request_id)) {
            exchange_on_gone(turn->exchange, on_gone, turn);
            link_settle(link);
            return;
        }
        api_error_of_service(&error, coordgen_client_error(turn->client), coordgen_client_message(turn->client),
                             coordgen_client_field(turn->client), coordgen_client_retry_after_ms(turn->client));
    }
    exchange_refuse(turn->exchange, &error);
    turn_free(turn);
}
