// SPDX-License-Identifier: Apache-2.0
/* POST /apply-template and /v1/chat/completions/input_tokens: the prompt that a chat becomes, and its number of tokens.
 * Both take every field of a chat, so that clients can send the body of the chat itself. */
#include "gateway/endpoints/chat_tokens.h"

#include <stdio.h>
#include <string.h>

#include "base/strings/json_text.h"
#include "gateway/endpoints/endpoint_queries.h"
#include "gateway/request/generation_fields.h"

/* Makes the request for the prompt of a generation. */
static void take_generation(ChatTokensRequest *request) {
    const CoordgenGenerateOptions *from = &request->generation->options;
    CoordgenTokenizeOptions *options = &request->options;

    coordgen_tokenize_options_init(options);
    options->model = from->model;
    options->messages = from->messages;
    options->n_messages = from->n_messages;
    options->tools = from->tools;
    options->documents = from->documents;
    options->no_generation_prompt = from->no_generation_prompt;
    options->template_kwargs = from->template_kwargs;
    options->answer_prefix = from->answer_prefix;
    options->thinking_tokens = from->thinking_tokens;
}

void chat_tokens_count(ChatTokensRequest *request) {
    take_generation(request);
    request->options.count_only = true;
}

static int read_chat(ChatTokensRequest *request, const json_t *body, ApiError *error) {
    request->generation = generation_request_new(sizeof(*request->generation), json_incref((json_t *)body));
    if (!request->generation)
        return api_error_no_memory(error);
    return generation_fields_read(request->generation,
                                  GENERATION_FIELDS_COMMON | GENERATION_FIELDS_CONSTRAINT | GENERATION_FIELDS_CHAT,
                                  NULL, 0, error);
}

int chat_tokens_start(void *arg, CoordgenClient *client, Query *query, uint64_t *request_idp) {
    const ChatTokensRequest *request = arg;

    return coordgen_tokenize_start(client, &request->options, query_on_event, query, request_idp);
}

void chat_tokens_deinit(void *arg) {
    ChatTokensRequest *request = arg;

    generation_request_free(request->generation);
}

/* Names fields of "tokenize" as those of "generate", which the HTTP request has named. */
void chat_tokens_rename(void *arg, ApiError *error) {
    static const char from[] = "tokenize.", to[] = "generate.";
    const ChatTokensRequest *request = arg;

    _Static_assert(sizeof(from) == sizeof(to), "one name takes the place of the other");
    if (!strncmp(error->param, from, strlen(from)))
        memcpy(error->param, to, strlen(to));
    if (!strncmp(error->message, from, strlen(from)))
        memcpy(error->message, to, strlen(to));
    generation_names_apply(&request->generation->names, error);
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

static int read_rendered(void *arg, const Exchange *exchange, const json_t *body, ApiError *error) {
    ChatTokensRequest *request = arg;
    int r = read_chat(request, body, error);

    if (r)
        return r;
    take_generation(request);
    request->options.render_only = true;
    return 0;
}

static int take_rendered(void *arg, const CoordgenReply *reply, Exchange *exchange) {
    size_t len_bytes;
    const char *text = coordgen_reply_text(reply, &len_bytes);

    exchange_reply_json(exchange, 200, json_pack("{so}", "prompt", json_text_n(text ? text : "", len_bytes)));
    return 0;
}

const QueryOps apply_template_query = { .arg_bytes = sizeof(ChatTokensRequest),
                                        .takes_body = true,
                                        .model_offset = offsetof(ChatTokensRequest, options.model) + 1,
                                        .read = read_rendered,
                                        .start = chat_tokens_start,
                                        .take = take_rendered,
                                        .rename = chat_tokens_rename,
                                        .deinit = chat_tokens_deinit };

void endpoint_apply_template(Gateway *gateway, Exchange *exchange) {
    query_run(gateway, exchange, &apply_template_query);
}

/* ---- the number of tokens ---------------------------------------------------------------------------------------- */

static int read_counted(void *arg, const Exchange *exchange, const json_t *body, ApiError *error) {
    ChatTokensRequest *request = arg;
    int r = read_chat(request, body, error);

    if (!r)
        chat_tokens_count(request);
    return r;
}

int chat_tokens_take_count(void *arg, const CoordgenReply *reply, Exchange *exchange) {
    exchange_reply_json(exchange, 200,
                        json_pack("{ss, sI}", "object", "response.input_tokens", "input_tokens",
                                  (json_int_t)coordgen_reply_n_tokens(reply)));
    return 0;
}

const QueryOps chat_tokens_query = { .arg_bytes = sizeof(ChatTokensRequest),
                                     .takes_body = true,
                                     .model_offset = offsetof(ChatTokensRequest, options.model) + 1,
                                     .read = read_counted,
                                     .start = chat_tokens_start,
                                     .take = chat_tokens_take_count,
                                     .rename = chat_tokens_rename,
                                     .deinit = chat_tokens_deinit };

void endpoint_chat_tokens(Gateway *gateway, Exchange *exchange) {
    query_run(gateway, exchange, &chat_tokens_query);
}
