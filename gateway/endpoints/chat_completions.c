// SPDX-License-Identifier: Apache-2.0
/* POST /v1/chat/completions */
#include <string.h>

#include "base/strings/json_text.h"
#include "gateway/answers/turn.h"
#include "gateway/json/body.h"
#include "gateway/json/field.h"

typedef struct ChatRequest {
    CoordgenGenerateOptions options;
    const json_t *messages;
    CoordgenMessage *list; /* [options.n_messages] */
    bool is_stream;
} ChatRequest;

#define AT(field) offsetof(ChatRequest, field)

static const Field fields[] = {
    { "model", field_set_text, AT(options.model), 0, 0 },
    { "messages", field_set_array, AT(messages), 0, 0 },
    { "max_tokens", field_set_u32, AT(options.max_tokens), 1, UINT32_MAX },
    { "max_completion_tokens", field_set_u32, AT(options.max_tokens), 1, UINT32_MAX },
    { "temperature", field_set_float, AT(options.temperature), 0, 100 },
    { "top_p", field_set_float, AT(options.top_p), 0, 1 },
    { "stream", field_set_bool, AT(is_stream), 0, 0 },
    { "user", NULL, 0, 0, 0 },
};
static const FieldTable tables[] = { { fields, ARRAY_LEN(fields) } };

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static json_t *head_of(const Turn *turn, const char *object) {
    return json_pack("{ss, ss, sI, so}", "id", turn->id, "object", object, "created", (json_int_t)turn->created_s,
                     "model", json_text(turn->model));
}

static const char *finish_reason(CoordgenEndReason reason) {
    return reason == COORDGEN_END_MAX_TOKENS || reason == COORDGEN_END_CONTEXT_FULL ? "length"
           : reason == COORDGEN_END_TOOL_CALLS                                      ? "tool_calls"
                                                                                    : "stop";
}

static json_t *usage_of(const CoordgenGenerateResult *result) {
    return json_pack("{sI, sI, sI, s{sI}}", "prompt_tokens", (json_int_t)result->prompt_tokens, "completion_tokens",
                     (json_int_t)result->output_tokens, "total_tokens",
                     (json_int_t)result->prompt_tokens + (json_int_t)result->output_tokens, "prompt_tokens_details",
                     "cached_tokens", (json_int_t)result->cached_tokens);
}

static json_t *whole(const Turn *turn, const CoordgenReply *reply) {
    const CoordgenGenerateResult *result = coordgen_reply_generate(reply);
    json_t *body = head_of(turn, "chat.completion");

    json_object_set_new(body, "choices",
                        json_pack("[{si, s{ss, so}, ss, sn}]", "index", 0, "message", "role", "assistant", "content",
                                  json_text_n(result->text, result->text_bytes), "finish_reason",
                                  finish_reason(result->end_reason), "logprobs"));
    json_object_set_new(body, "usage", usage_of(result));
    return body;
}

static void send_chunk(Turn *turn, json_t *delta, const char *finish) {
    json_t *body = head_of(turn, "chat.completion.chunk");

    json_object_set_new(body, "choices",
                        json_pack("[{si, so, so}]", "index", 0, "delta", delta, "finish_reason",
                                  finish ? json_string(finish) : json_null()));
    turn_send(turn, NULL, body);
}

static void begin(Turn *turn) {
    send_chunk(turn, json_pack("{ss, sn}", "role", "assistant", "content"), NULL);
}

static void piece(Turn *turn, const CoordgenEvent *event) {
    if (event->kind == COORDGEN_EVENT_DELTA && event->text_bytes)
        send_chunk(turn, json_pack("{so}", "content", json_text_n(event->text, event->text_bytes)), NULL);
}

static void end(Turn *turn, const CoordgenReply *reply) {
    send_chunk(turn, json_object(), finish_reason(coordgen_reply_generate(reply)->end_reason));
    turn_send_text(turn, "[DONE]");
}

static const AnswerForm form = { .whole = whole, .begin = begin, .piece = piece, .end = end };

/* ---- the request ------------------------------------------------------------------------------------------------- */

static int read_message(const json_t *value, CoordgenMessage *message, size_t index, ApiError *error) {
    static const struct {
        const char *name;
        CoordgenRole role;
    } roles[] = {
        { "system", COORDGEN_ROLE_SYSTEM },       { "developer", COORDGEN_ROLE_SYSTEM }, { "user", COORDGEN_ROLE_USER },
        { "assistant", COORDGEN_ROLE_ASSISTANT }, { "tool", COORDGEN_ROLE_TOOL },
    };
    const char *role = json_string_value(json_object_get(value, "role"));
    const char *content = json_string_value(json_object_get(value, "content"));

    for (size_t i = 0; role && content && i < ARRAY_LEN(roles); i++)
        if (!strcmp(roles[i].name, role)) {
            *message = (CoordgenMessage){ .role = roles[i].role, .text = content };
            return 0;
        }
    return api_error_field(error, "messages", "messages[%zu] needs a role and a content", index);
}

static int read_messages(ChatRequest *request, ApiError *error) {
    const size_t n = json_array_size(request->messages);
    int r = 0;

    if (!n)
        return api_error_field(error, "messages", "messages must be an array with at least one message");
    request->list = calloc(n, sizeof(*request->list));
    if (!request->list)
        return api_error_no_memory(error);
    for (size_t i = 0; !r && i < n; i++)
        r = read_message(json_array_get(request->messages, i), &request->list[i], i, error);
    request->options.messages = request->list;
    request->options.n_messages = n;
    return r;
}

static void start(Gateway *gateway, Exchange *exchange, const ChatRequest *request) {
    Turn *turn = turn_new(gateway, exchange, &form, "chatcmpl-");
    ApiError error;

    if (!turn) {
        api_error_no_memory(&error);
        exchange_refuse(exchange, &error);
        return;
    }
    turn->is_stream = request->is_stream;
    turn_start(turn, &request->options);
}

void endpoint_chat_completions(Gateway *gateway, Exchange *exchange) {
    ChatRequest request = { 0 };
    ApiError error;
    json_t *body = body_parse(exchange, &error);

    coordgen_generate_options_init(&request.options);
    if (!body || fields_read(body, tables, ARRAY_LEN(tables), &request, "", &error) || read_messages(&request, &error))
        exchange_refuse(exchange, &error);
    else
        start(gateway, exchange, &request);
    free(request.list);
    json_decref(body);
}
