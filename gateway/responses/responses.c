// SPDX-License-Identifier: Apache-2.0
/* POST /v1/responses, POST /v1/responses/input_tokens */
#include <string.h>

#include "base/strings/json_text.h"
#include "gateway/answers/answer_json.h"
#include "gateway/answers/stream_times.h"
#include "gateway/endpoints/chat_tokens.h"
#include "gateway/json/body.h"
#include "gateway/responses/response_object.h"
#include "gateway/responses/response_output.h"
#include "gateway/responses/response_request.h"

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static const char id_prefix[] = "resp_";

/* What a turn keeps of a response. */
typedef struct Answer {
    ResponseEvents events;
    ResponseOutput *output;
    StreamTimes times;
    json_t *echo;
} Answer;

static ResponseHead head_of(const Turn *turn) {
    const Answer *answer = turn->answer;

    return (ResponseHead){ turn->id, turn->created_s, turn->model, answer->echo };
}

/* Sends an event. Only deltas are new to the client; the others may be long, and several come at once. */
static void send_event(void *arg, const char *type, json_t *event) {
    if (strstr(type, ".delta"))
        turn_send(arg, type, event);
    else
        turn_send_again(arg, type, event);
}

/* Sends an event with the response. more: of llama-server, beside it; NULL: none. Releases both. */
static void send_response(Turn *turn, const char *type, json_t *response, const char *name, json_t *more) {
    Answer *answer = turn->answer;
    json_t *fields = json_pack("{so}", "response", response);

    if (fields && more)
        json_object_set(fields, name, more);
    json_decref(more);
    response_events_send(&answer->events, type, fields);
}

static void begin(Turn *turn) {
    const ResponseHead head = head_of(turn);

    send_response(turn, "response.created", response_object_begun(&head), NULL, NULL);
    send_response(turn, "response.in_progress", response_object_begun(&head), NULL, NULL);
}

static void add(Turn *turn, const CoordgenEvent *event) {
    Answer *answer = turn->answer;

    response_output_add(answer->output, event);
}

static void send_progress(Turn *turn, const CoordgenEvent *event) {
    Answer *answer = turn->answer;
    const ResponseHead head = head_of(turn);
    json_t *progress = stream_times_progress(&answer->times, event);

    if (progress)
        send_response(turn, "response.in_progress", response_object_begun(&head), "prompt_progress", progress);
}

static void piece(Turn *turn, const CoordgenEvent *event) {
    const AnswerWishes *wishes = &turn->request->wishes;
    Answer *answer = turn->answer;

    if (event->kind == COORDGEN_EVENT_PROGRESS) {
        if (wishes->with_progress)
            send_progress(turn, event);
        return;
    }
    if (wishes->with_timings)
        response_output_attach(answer->output,
                               json_pack("{so}", "timings", stream_times_so_far(&answer->times, event)));
    add(turn, event);
}

/* Ends the output. Returns the response in its last state. */
static json_t *ended(const Turn *turn, const CoordgenReply *reply) {
    const Answer *answer = turn->answer;
    const ResponseHead head = head_of(turn);
    const CoordgenGenerateResult *result = coordgen_reply_generate(reply);
    const bool is_cancelled = result->end_reason == COORDGEN_END_CANCELLED;
    ApiError error;

    response_output_end(answer->output, is_cancelled || response_object_is_cut(result));
    if (!is_cancelled)
        return response_object_ended(&head, result, response_output_items(answer->output));
    api_error_set(&error, 500, "server_error", NULL, "the generation was cancelled in the service");
    return response_object_failed(&head, &error, response_output_items(answer->output));
}

static json_t *whole(const Turn *turn, const CoordgenReply *reply) {
    json_t *response = ended(turn, reply);

    if (response) {
        json_object_set_new(response, "timings", answer_timings(turn));
        answer_add_explanation(response, reply);
    }
    return response;
}

static void end(Turn *turn, const CoordgenReply *reply) {
    json_t *response = ended(turn, reply);
    const char *status = json_string_value(json_object_get(response, "status"));
    char type[32];

    snprintf(type, sizeof(type), "response.%s", status ? status : "failed");
    if (response)
        answer_add_explanation(response, reply);
    send_response(turn, type, response, "timings", answer_timings(turn));
}

static void fail(Turn *turn, const ApiError *error) {
    Answer *answer = turn->answer;
    const ResponseHead head = head_of(turn);

    response_output_end(answer->output, true);
    response_events_send(&answer->events, "error",
                         json_pack("{so, so, so}", "code", json_string(error->code ? error->code : error->type),
                                   "message", json_text(error->message), "param",
                                   *error->param ? json_text(error->param) : json_null()));
    send_response(turn, "response.failed", response_object_failed(&head, error, response_output_items(answer->output)),
                  NULL, NULL);
}

static void free_answer(void *arg) {
    Answer *answer = arg;

    response_output_free(answer->output);
    json_decref(answer->echo);
    free(answer);
}

static const AnswerForm form = {
    .whole = whole,
    .begin = begin,
    .piece = piece,
    .end = end,
    .fail = fail,
    .collect = add,
    .free_answer = free_answer,
};

/* ---- the request ------------------------------------------------------------------------------------------------- */

/* Makes the turn's answer. 0 or -ENOMEM. */
static int prepare(Turn *turn, const ResponseRequest *request) {
    Answer *answer = calloc(1, sizeof(*answer));

    if (!answer)
        return err_raise(-ENOMEM);
    turn->answer = answer;
    stream_times_begin(&answer->times);
    if (request->generation.wishes.is_stream)
        answer->events = (ResponseEvents){ .send = send_event, .arg = turn };
    answer->echo = response_request_echo(request);
    answer->output = response_output_new(turn->id + strlen(id_prefix), &answer->events);
    return answer->echo && answer->output ? 0 : err_raise(-ENOMEM);
}

void endpoint_responses(Gateway *gateway, Exchange *exchange) {
    ResponseRequest *request = NULL;
    _cleanup_(turn_freep) Turn *turn = NULL;
    ApiError error;
    json_t *body = body_parse(exchange, &error);

    if (!body || response_request_new(&request, body, &error)) {
        exchange_refuse(exchange, &error);
        return;
    }
    turn = turn_new(gateway, exchange, &form, id_prefix);
    if (turn && !prepare(turn, request)) {
        turn_start_request(steal(&turn), &request->generation);
        return;
    }
    api_error_no_memory(&error);
    exchange_refuse(exchange, &error);
    generation_request_free(&request->generation);
}

/* ---- tokens of an input ------------------------------------------------------------------------------------------ */

static int read_counted(void *arg, const Exchange *exchange, const json_t *body, ApiError *error) {
    ChatTokensRequest *count = arg;
    ResponseRequest *request;
    int r = response_request_new(&request, json_incref((json_t *)body), error);

    if (r)
        return r;
    count->generation = &request->generation;
    chat_tokens_count(count);
    return 0;
}

void endpoint_response_input_tokens(Gateway *gateway, Exchange *exchange) {
    static const QueryOps ops = { .arg_bytes = sizeof(ChatTokensRequest),
                                  .takes_body = true,
                                  .model_offset = offsetof(ChatTokensRequest, options.model) + 1,
                                  .read = read_counted,
                                  .start = chat_tokens_start,
                                  .take = chat_tokens_take_count,
                                  .rename = chat_tokens_rename,
                                  .deinit = chat_tokens_deinit };

    query_run(gateway, exchange, &ops);
}
