// SPDX-License-Identifier: Apache-2.0
#include "gateway/answers/turn.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/strings/str_buf.h"
#include "gateway/request/sampling_fields.h"

enum {
    PARTS_AT_ONCE = 4, /* of one request, so that its prompts share steps and others have room, too */
};

/* A generation of a turn. */
struct TurnPart {
    Turn *turn;
    CoordgenClient *client;
    uint64_t request_id;
    bool is_running;
    bool names_model;
};

Turn *turn_new(Gateway *gateway, Exchange *exchange, const AnswerForm *form, const char *prefix) {
    Turn *turn = calloc(1, sizeof(*turn));
    uint64_t words[2];

    if (!turn)
        return NULL;
    turn->gateway = gateway;
    turn->exchange = exchange;
    turn->form = form;
    turn->created_s = (uint64_t)time(NULL);
    turn->n_parts = 1;
    if (getrandom(words, sizeof(words), 0) != (ssize_t)sizeof(words))
        return turn_free(turn);
    snprintf(turn->id, sizeof(turn->id), "%s%016" PRIx64 "%08" PRIx32, prefix, words[0], (uint32_t)words[1]);
    return turn;
}

Turn *turn_free(Turn *turn) {
    if (!turn)
        return NULL;
    if (turn->answer && turn->form->free_answer)
        turn->form->free_answer(turn->answer);
    for (size_t i = 0; turn->replies && i < turn->n_parts; i++)
        coordgen_reply_unref(turn->replies[i]);
    if (turn->ping)
        event_free(turn->ping);
    generation_request_free(turn->request);
    free(turn->replies);
    free(turn->parts);
    free(turn->model);
    free(turn);
    return NULL;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* Gives the exchange up, and cancels what runs for it. */
static void cancel(Turn *turn) {
    turn->exchange = NULL;
    for (size_t i = 0; turn->parts && i < turn->n_parts; i++)
        if (turn->parts[i].is_running)
            (void)coordgen_cancel(turn->parts[i].client, turn->parts[i].request_id);
    link_settle(turn->gateway->link);
}

static void on_gone(void *arg) {
    cancel(arg);
}

/* Ends a stream within its answer, because memory is short. */
static void break_off(Turn *turn) {
    Exchange *exchange = turn->exchange;

    cancel(turn);
    if (exchange)
        exchange_stream_end(exchange);
}

/* Makes the next comment wait for another while without an event. */
static void put_ping_off(Turn *turn) {
    const struct timeval wait = { .tv_sec = turn->ping_s };

    if (turn->ping)
        evtimer_add(turn->ping, &wait);
}

static void send_bytes(Turn *turn, const char *data, size_t len_bytes) {
    if (!turn->exchange)
        return;
    put_ping_off(turn);
    if (!exchange_stream_add(turn->exchange, data, len_bytes))
        cancel(turn);
}

static void send_line(Turn *turn, const char *name, const char *text) {
    _cleanup_(str_buf_deinit) StrBuf line = STR_BUF_NULL;

    if (name)
        str_buf_addf(&line, "event: %s\n", name);
    str_buf_add(&line, "data: ");
    str_buf_add(&line, text);
    str_buf_add(&line, "\n\n");
    if (str_buf_failed(&line))
        break_off(turn);
    else
        send_bytes(turn, line.data, line.len_bytes);
}

void turn_send_text(Turn *turn, const char *text) {
    send_line(turn, NULL, text);
}

static void send_json(Turn *turn, const char *name, json_t *value, bool is_repeated) {
    _cleanup_(freep) char *text = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;

    json_decref(value);
    if (!turn->exchange)
        return;
    if (text && is_repeated)
        exchange_stream_allow(turn->exchange, strlen(text));
    if (text)
        send_line(turn, name, text);
    else
        break_off(turn);
}

void turn_send(Turn *turn, const char *name, json_t *value) {
    send_json(turn, name, value, false);
}

void turn_send_again(Turn *turn, const char *name, json_t *value) {
    send_json(turn, name, value, true);
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

/* Keeps a silent stream alive: proxies and clients end connections on which nothing comes. */
static void on_ping(evutil_socket_t fd, short what, void *arg) {
    static const char comment[] = ": keep-alive\n\n";
    Turn *turn = arg;

    if (!turn->exchange)
        return;
    begin_stream(turn);
    send_bytes(turn, comment, strlen(comment));
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static int take_model(Turn *turn, const char *name) {
    char *copy = strdup(name);

    if (!copy)
        return err_raise(-ENOMEM);
    free(turn->model);
    turn->model = copy;
    return 0;
}

/* Ends the exchange with an error, and cancels the other parts. */
static void refuse(Turn *turn, ApiError *error) {
    Exchange *exchange = turn->exchange;

    if (!exchange)
        return;
    generation_names_apply(&turn->request->names, error);
    if (!turn->has_begun) {
        cancel(turn);
        exchange_refuse(exchange, error);
        return;
    }
    if (turn->form->fail)
        turn->form->fail(turn, error);
    else
        turn_send(turn, NULL, api_error_json(error));
    if (turn->exchange) {
        cancel(turn);
        exchange_stream_end(exchange);
    }
}

static void refuse_by_reply(Turn *turn, const CoordgenReply *reply) {
    ApiError error;

    api_error_of_service(&error, coordgen_reply_error(reply), coordgen_reply_message(reply),
                         coordgen_reply_field(reply), coordgen_reply_retry_after_ms(reply));
    error.n_prompt_tokens = coordgen_reply_too_long(reply, &error.n_context_tokens);
    refuse(turn, &error);
}

/* Ends the exchange with the answer. */
static void answer(Turn *turn) {
    const CoordgenReply *first = turn->replies[0];
    ApiError error;

    if (take_model(turn, coordgen_reply_generate(first)->model)) {
        api_error_no_memory(&error);
        refuse(turn, &error);
    } else if (!turn->is_stream) {
        exchange_reply_json(turn->exchange, 200, turn->form->whole(turn, first));
    } else {
        begin_stream(turn);
        if (turn->exchange)
            turn->form->end(turn, first);
        if (turn->exchange)
            exchange_stream_end(turn->exchange);
    }
    turn->exchange = NULL;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static int on_event(void *arg, const CoordgenEvent *event);

/* Starts a part in the service. 0 or API_E_REFUSED. */
static int start_part(Turn *turn, size_t i, const CoordgenGenerateOptions *given, ApiError *error) {
    TurnPart *part = &turn->parts[i];
    Link *link = turn->gateway->link;
    CoordgenGenerateOptions options = *given;
    int r = link_client(link, &part->client, error);

    if (r)
        return r;
    part->turn = turn;
    part->names_model = options.model && *options.model;
    if (turn->form->set_prompt)
        turn->form->set_prompt(turn, i, &options);
    if (coordgen_generate_start(part->client, &options, on_event, part, &part->request_id))
        return api_error_of_service(error, coordgen_client_error(part->client), coordgen_client_message(part->client),
                                    coordgen_client_field(part->client), coordgen_client_retry_after_ms(part->client));
    part->is_running = true;
    link_settle(link);
    return 0;
}

/* Starts parts until so many run, or none is left. */
static void start_more(Turn *turn) {
    ApiError error;

    while (turn->exchange && turn->n_started < turn->n_parts && turn->n_started - turn->n_over < PARTS_AT_ONCE) {
        if (start_part(turn, turn->n_started, &turn->request->options, &error))
            refuse(turn, &error);
        else
            turn->n_started++;
    }
}

/* Whether a name that the service does not know means the default model, and the part has begun again with that. */
static bool starts_again(TurnPart *part, const CoordgenReply *reply) {
    Turn *turn = part->turn;
    CoordgenGenerateOptions options;
    ApiError error;

    if (coordgen_reply_error(reply) != COORDGEN_E_MODEL_NOT_FOUND || !turn->gateway->takes_any_model ||
        !turn->exchange || !part->names_model)
        return false;
    options = turn->request->options;
    options.model = NULL;
    return !start_part(turn, (size_t)(part - turn->parts), &options, &error);
}

static void end_part(TurnPart *part, CoordgenReply *reply) {
    Turn *turn = part->turn;

    part->is_running = false;
    if (starts_again(part, reply))
        return;
    turn->n_over++;
    if (coordgen_reply_error(reply) || !coordgen_reply_generate(reply))
        refuse_by_reply(turn, reply);
    else
        turn->replies[part - turn->parts] = coordgen_reply_ref(reply);
    start_more(turn);
    if (turn->n_over < turn->n_started)
        return;
    if (turn->exchange)
        answer(turn);
    turn_free(turn);
}

static int on_event(void *arg, const CoordgenEvent *event) {
    TurnPart *part = arg;
    Turn *turn = part->turn;

    turn->part = (size_t)(part - turn->parts);
    if (event->kind == COORDGEN_EVENT_END) {
        end_part(part, event->reply);
        return 0;
    }
    if (!turn->exchange ||
        (event->model && *event->model && strcmp(event->model, turn->model) && take_model(turn, event->model)))
        return 1;
    if (!turn->is_stream) {
        if (event->kind == COORDGEN_EVENT_DELTA && turn->form->collect)
            turn->form->collect(turn, event);
        return 0;
    }
    if (event->kind == COORDGEN_EVENT_DELTA || (turn->request->wishes.with_progress && event->prompt_tokens))
        begin_stream(turn);
    if (turn->has_begun && turn->exchange && turn->form->piece)
        turn->form->piece(turn, event);
    return 0;
}

static int prepare(Turn *turn, ApiError *error) {
    const CoordgenGenerateOptions *options = &turn->request->options;

    assert(turn->n_parts && turn->n_parts <= TURN_PARTS_MAX);
    turn->parts = calloc(turn->n_parts, sizeof(*turn->parts));
    turn->replies = calloc(turn->n_parts, sizeof(CoordgenReply *));
    if (!turn->parts || !turn->replies || (!turn->model && take_model(turn, options->model ? options->model : "")))
        return api_error_no_memory(error);
    if (turn->is_stream && turn->ping_s) {
        turn->ping = evtimer_new(turn->gateway->base, on_ping, turn);
        if (!turn->ping)
            return api_error_no_memory(error);
    }
    return 0;
}

/* ---- texts that become ids --------------------------------------------------------------------------------------- */

static int on_ids(void *arg, const CoordgenEvent *event);

/* Asks for the ids of the next text. The turn's first part, which does not run yet, holds the request. */
static int start_text(Turn *turn, ApiError *error) {
    const TokenText *text = &turn->request->texts.list[turn->n_told];
    TurnPart *part = &turn->parts[0];
    CoordgenTokenizeOptions options;
    int r = link_client(turn->gateway->link, &part->client, error);

    if (r)
        return r;
    coordgen_tokenize_options_init(&options);
    options.model = turn->request->options.model;
    options.text = text->text;
    options.add_special = text->add_special;
    part->turn = turn;
    part->names_model = options.model && *options.model;
    if (coordgen_tokenize_start(part->client, &options, on_ids, turn, &part->request_id))
        return api_error_of_service(error, coordgen_client_error(part->client), coordgen_client_message(part->client),
                                    coordgen_client_field(part->client), coordgen_client_retry_after_ms(part->client));
    part->is_running = true;
    link_settle(turn->gateway->link);
    return 0;
}

/* Starts what comes next: the next text, or the generations with all ids in their places. 0 or API_E_REFUSED. */
static int start_next(Turn *turn, ApiError *error) {
    GenerationRequest *request = turn->request;
    int r = 0;

    if (turn->n_told < request->texts.n)
        return start_text(turn, error);
    if (request->texts.n) {
        r = sampling_fields_join(request, error);
        if (!r && turn->form->take_texts)
            r = turn->form->take_texts(turn, error);
    }
    if (!r)
        r = start_part(turn, 0, &request->options, error);
    if (r)
        return r;
    turn->n_started = 1;
    start_more(turn);
    return 0;
}

/* Takes the ids of a text. Returns whether the turn goes on. */
static bool take_ids(Turn *turn, const CoordgenReply *reply) {
    TokenText *text = &turn->request->texts.list[turn->n_told];
    const uint32_t *ids;
    ApiError error;
    size_t n;

    if (coordgen_reply_error(reply) == COORDGEN_E_MODEL_NOT_FOUND && turn->gateway->takes_any_model &&
        turn->parts[0].names_model) {
        turn->request->options.model = NULL;
    } else if (coordgen_reply_error(reply)) {
        api_error_of_service(&error, coordgen_reply_error(reply), coordgen_reply_message(reply),
                             coordgen_reply_error(reply) == COORDGEN_E_MODEL_NOT_FOUND ? "model" : text->path,
                             coordgen_reply_retry_after_ms(reply));
        refuse(turn, &error);
        return false;
    } else {
        ids = coordgen_reply_tokens(reply, &n);
        if (token_text_set(text, &turn->request->owned, ids, n, &error)) {
            refuse(turn, &error);
            return false;
        }
        turn->n_told++;
    }
    if (!start_next(turn, &error))
        return true;
    refuse(turn, &error);
    return false;
}

static int on_ids(void *arg, const CoordgenEvent *event) {
    Turn *turn = arg;

    if (event->kind != COORDGEN_EVENT_END)
        return 0;
    turn->parts[0].is_running = false;
    if (!turn->exchange || !take_ids(turn, event->reply))
        turn_free(turn);
    return 0;
}

/* ---- the start --------------------------------------------------------------------------------------------------- */

void turn_start_request(Turn *turn, GenerationRequest *request) {
    ApiError error;
    int r;

    turn->request = request;
    turn->is_stream = request->wishes.is_stream;
    turn->with_usage = request->wishes.with_usage;
    turn->ping_s = request->wishes.ping_s;
    r = prepare(turn, &error);
    if (!r)
        r = start_next(turn, &error);
    if (r) {
        refuse(turn, &error);
        turn_free(turn);
        return;
    }
    if (!turn->exchange)
        return;
    exchange_on_gone(turn->exchange, on_gone, turn);
    put_ping_off(turn);
}
