// SPDX-License-Identifier: Apache-2.0
/* POST /v1/chat/completions */
#include <string.h>

#include "base/strings/json_text.h"
#include "gateway/answers/answer_stream.h"
#include "gateway/request/generation_fields.h"
#include "gateway/answers/stream_times.h"
#include "gateway/answers/token_lists.h"
#include "gateway/json/body.h"

static const char object_name[] = "chat.completion.chunk";

/* What an answer is made of beside the reply. */
typedef struct ChatAnswer {
    TokenLists *tokens; /* of an answer that is sent whole; NULL: none are asked for */
    StreamTimes times;
} ChatAnswer;

static void free_answer(void *arg) {
    ChatAnswer *answer = arg;

    token_lists_free(answer->tokens);
    free(answer);
}

static bool wants_logprobs(const Turn *turn) {
    return turn->request->options.logprobs != COORDGEN_UNSET_COUNT;
}

/* ---- a whole answer ---------------------------------------------------------------------------------------------- */

static json_t *message_of(const CoordgenChoice *choice) {
    json_t *message = json_pack("{ss}", "role", "assistant");

    /* A text that is empty beside calls is no text. */
    json_object_set_new(message, "content",
                        choice->n_tool_calls && !choice->text_bytes ? json_null()
                                                                    : json_text_n(choice->text, choice->text_bytes));
    json_object_set_new(message, "refusal", json_null());
    if (choice->reasoning && *choice->reasoning)
        json_object_set_new(message, "reasoning_content", json_text(choice->reasoning));
    if (choice->n_tool_calls)
        json_object_set_new(message, "tool_calls", answer_calls(choice->tool_calls, choice->n_tool_calls));
    return message;
}

static json_t *choice_of(const Turn *turn, const CoordgenGenerateResult *result, size_t index) {
    const ChatAnswer *answer = turn->answer;
    const CoordgenChoice choice = answer_choice(result, index);
    json_t *object = json_pack("{si, so, ss}", "index", (int)index, "message", message_of(&choice), "finish_reason",
                               answer_finish_reason(choice.end_reason));

    json_object_set_new(object, "logprobs",
                        wants_logprobs(turn)
                            ? json_pack("{sO, sn}", "content", token_lists_logprobs(answer->tokens, index), "refusal")
                            : json_null());
    if (turn->request->wishes.with_tokens)
        json_object_set(object, "tokens", token_lists_ids(answer->tokens, index));
    return object;
}

static json_t *whole(const Turn *turn, const CoordgenReply *reply) {
    const CoordgenGenerateResult *result = coordgen_reply_generate(reply);
    json_t *body = answer_head(turn, "chat.completion"), *choices = json_array();

    for (size_t i = 0; i < answer_n_choices(result); i++)
        json_array_append_new(choices, choice_of(turn, result, i));
    json_object_set_new(body, "choices", choices);
    json_object_set_new(body, "usage", answer_usage(turn));
    json_object_set_new(body, "timings", answer_timings(turn));
    answer_add_explanation(body, reply);
    return body;
}

static void collect(Turn *turn, const CoordgenEvent *event) {
    ChatAnswer *answer = turn->answer;

    if (answer->tokens)
        token_lists_add(answer->tokens, event->choice, event, answer_token);
}

/* ---- a stream ---------------------------------------------------------------------------------------------------- */

static json_t *chunk_of(const Turn *turn, size_t index, json_t *delta, const char *finish) {
    return answer_chunk(turn, object_name,
                        json_pack("{si, so, so, sn}", "index", (int)index, "delta", delta, "finish_reason",
                                  finish ? json_string(finish) : json_null(), "logprobs"));
}

static void begin(Turn *turn) {
    const size_t n = turn->request->options.n;

    for (size_t i = 0; i < (n ? n : 1); i++)
        turn_send(turn, NULL, chunk_of(turn, i, json_pack("{ss, sn}", "role", "assistant", "content"), NULL));
}

static json_t *call_delta(const CoordgenCallDelta *call) {
    json_t *function = json_object(), *object = json_pack("{si}", "index", (int)call->index);

    if (call->name) {
        json_object_set_new(object, "id", json_text(call->id ? call->id : ""));
        json_object_set_new(object, "type", json_string("function"));
        json_object_set_new(function, "name", json_text(call->name));
    }
    json_object_set_new(function, "arguments", json_text_n(call->arguments, call->arguments_bytes));
    json_object_set_new(object, "function", function);
    return json_pack("{s[o]}", "tool_calls", object);
}

static json_t *delta_of(const CoordgenEvent *event) {
    if (event->part == COORDGEN_PART_CALL && event->call)
        return call_delta(event->call);
    return json_pack("{so}", event->part == COORDGEN_PART_REASONING ? "reasoning_content" : "content",
                     json_text_n(event->text, event->text_bytes));
}

static json_t *logprobs_of(const CoordgenEvent *event) {
    json_t *content = json_array();

    for (size_t i = 0; i < event->n_logprobs; i++)
        json_array_append_new(content, answer_token(&event->logprobs[i]));
    return json_pack("{so, sn}", "content", content, "refusal");
}

static void send_progress(Turn *turn, const CoordgenEvent *event) {
    ChatAnswer *answer = turn->answer;
    json_t *progress = stream_times_progress(&answer->times, event), *chunk;

    if (!progress)
        return;
    chunk = chunk_of(turn, 0, json_object(), NULL);
    json_object_set_new(chunk, "prompt_progress", progress);
    turn_send(turn, NULL, chunk);
}

static void piece(Turn *turn, const CoordgenEvent *event) {
    const AnswerWishes *wishes = &turn->request->wishes;
    ChatAnswer *answer = turn->answer;
    json_t *chunk;

    if (event->kind == COORDGEN_EVENT_PROGRESS) {
        if (wishes->with_progress)
            send_progress(turn, event);
        return;
    }
    if (!event->text_bytes && !event->call && !(wants_logprobs(turn) && event->n_logprobs) &&
        !(wishes->with_tokens && event->n_tokens))
        return; /* the tokens of a mark or of text that is held back */
    chunk = chunk_of(turn, event->choice, delta_of(event), NULL);
    if (wants_logprobs(turn))
        json_object_set_new(answer_chunk_choice(chunk), "logprobs", logprobs_of(event));
    if (wishes->with_tokens)
        json_object_set_new(answer_chunk_choice(chunk), "tokens", answer_event_ids(event));
    if (wishes->with_timings)
        json_object_set_new(chunk, "timings", stream_times_so_far(&answer->times, event));
    turn_send(turn, NULL, chunk);
}

static void end(Turn *turn, const CoordgenReply *reply) {
    const CoordgenGenerateResult *result = coordgen_reply_generate(reply);
    const size_t n = answer_n_choices(result);
    json_t *chunk = NULL;

    for (size_t i = 0; i < n; i++) {
        if (chunk)
            turn_send(turn, NULL, chunk);
        chunk = chunk_of(turn, i, json_object(), answer_finish_reason(answer_choice(result, i).end_reason));
    }
    answer_stream_close(turn, object_name, chunk);
}

static const AnswerForm form = {
    .whole = whole, .begin = begin, .piece = piece, .end = end, .collect = collect, .free_answer = free_answer
};

/* ---- the request ------------------------------------------------------------------------------------------------- */

static ChatAnswer *new_answer(const GenerationRequest *request) {
    const uint32_t n = request->options.n ? request->options.n : 1;
    ChatAnswer *answer = calloc(1, sizeof(*answer));

    if (!answer)
        return NULL;
    stream_times_begin(&answer->times);
    if (!request->wishes.is_stream &&
        (request->wishes.with_tokens || request->options.logprobs != COORDGEN_UNSET_COUNT)) {
        answer->tokens = token_lists_new(n);
        if (!answer->tokens) {
            free(answer);
            return NULL;
        }
    }
    return answer;
}

void endpoint_chat_completions(Gateway *gateway, Exchange *exchange) {
    _cleanup_(generation_request_freep) GenerationRequest *request = NULL;
    _cleanup_(turn_freep) Turn *turn = NULL;
    ApiError error;
    json_t *body = body_parse(exchange, &error);

    if (!body) {
        exchange_refuse(exchange, &error);
        return;
    }
    request = generation_request_new(sizeof(*request), body);
    turn = turn_new(gateway, exchange, &form, "chatcmpl-");
    if (request && turn &&
        generation_fields_read(request,
                               GENERATION_FIELDS_COMMON | GENERATION_FIELDS_CONSTRAINT | GENERATION_FIELDS_CHAT, NULL,
                               0, &error)) {
        exchange_refuse(exchange, &error);
        return;
    }
    if (request && turn)
        turn->answer = new_answer(request);
    if (!request || !turn || !turn->answer) {
        api_error_no_memory(&error);
        exchange_refuse(exchange, &error);
        return;
    }
    turn_start_request(steal(&turn), steal(&request));
}
