// SPDX-License-Identifier: Apache-2.0
/* POST /tokenize, POST /detokenize */
#include "base/strings/json_text.h"
#include "gateway/endpoints/endpoint_queries.h"
#include "gateway/endpoints/token_json.h"
#include "gateway/json/field.h"
#include "gateway/service/query.h"

/* ---- text to tokens ---------------------------------------------------------------------------------------------- */

typedef struct TokenizeRequest {
    CoordgenTokenizeOptions options;
    bool with_pieces;
} TokenizeRequest;

static int tokenize_read(void *arg, const Exchange *exchange, const json_t *body, ApiError *error) {
#define AT(field) offsetof(TokenizeRequest, field)
    static const Field fields[] = {
        { "content", field_set_text, AT(options.text), 0, 0 },
        { "model", field_set_text, AT(options.model), 0, 0 },
        { "add_special", field_set_bool, AT(options.add_special), 0, 0 },
        { "parse_special", field_set_bool, AT(options.parse_special), 0, 0 },
        { "with_pieces", field_set_bool, AT(with_pieces), 0, 0 },
    };
#undef AT
    static const FieldTable table = { fields, ARRAY_LEN(fields) };
    TokenizeRequest *request = arg;
    int r;

    coordgen_tokenize_options_init(&request->options);
    request->options.parse_special = true; /* as llama-server has it */
    r = fields_read(body, &table, 1, request, "", error);
    if (!r && !request->options.text)
        return api_error_field(error, "content", "content is missing: the text to tokenize");
    return r;
}

static int tokenize_start(void *arg, CoordgenClient *client, Query *query, uint64_t *request_idp) {
    const TokenizeRequest *request = arg;

    return coordgen_tokenize_start(client, &request->options, query_on_event, query, request_idp);
}

static int tokenize_take(void *arg, const CoordgenReply *reply, Exchange *exchange) {
    const TokenizeRequest *request = arg;

    exchange_reply_json(exchange, 200, json_pack("{so}", "tokens", token_list_json(reply, request->with_pieces)));
    return 0;
}

static const QueryField tokenize_query_fields[] = { { "text", "content" } };
const QueryOps tokenize_query = { .arg_bytes = sizeof(TokenizeRequest),
                                  .takes_body = true,
                                  .model_offset = offsetof(TokenizeRequest, options.model) + 1,
                                  .read = tokenize_read,
                                  .start = tokenize_start,
                                  .take = tokenize_take,
                                  .fields = tokenize_query_fields,
                                  .n_fields = ARRAY_LEN(tokenize_query_fields) };

void endpoint_tokenize(Gateway *gateway, Exchange *exchange) {
    query_run(gateway, exchange, &tokenize_query);
}

/* ---- tokens to text ---------------------------------------------------------------------------------------------- */

typedef struct DetokenizeRequest {
    CoordgenDetokenizeOptions options;
    const json_t *list;
    uint32_t *tokens;
} DetokenizeRequest;

static int detokenize_read(void *arg, const Exchange *exchange, const json_t *body, ApiError *error) {
#define AT(field) offsetof(DetokenizeRequest, field)
    static const Field fields[] = {
        { "tokens", field_set_array, AT(list), 0, 0 },
        { "model", field_set_text, AT(options.model), 0, 0 },
    };
#undef AT
    static const FieldTable table = { fields, ARRAY_LEN(fields) };
    DetokenizeRequest *request = arg;
    int r;

    coordgen_detokenize_options_init(&request->options);
    request->options.with_special = true; /* as llama-server has it */
    r = fields_read(body, &table, 1, request, "", error);
    if (!r && !request->list)
        return api_error_field(error, "tokens", "tokens is missing: an array of token ids");
    if (!r)
        r = token_ids_read(request->list, "tokens", &request->tokens, &request->options.n_tokens, error);
    request->options.tokens = request->tokens;
    return r;
}

static int detokenize_start(void *arg, CoordgenClient *client, Query *query, uint64_t *request_idp) {
    const DetokenizeRequest *request = arg;

    return coordgen_detokenize_start(client, &request->options, query_on_event, query, request_idp);
}

static int detokenize_take(void *arg, const CoordgenReply *reply, Exchange *exchange) {
    size_t len_bytes;
    const char *text = coordgen_reply_text(reply, &len_bytes);

    exchange_reply_json(exchange, 200, json_pack("{so}", "content", json_text_n(text ? text : "", len_bytes)));
    return 0;
}

static void detokenize_deinit(void *arg) {
    DetokenizeRequest *request = arg;

    free(request->tokens);
}

const QueryOps detokenize_query = { .arg_bytes = sizeof(DetokenizeRequest),
                                    .takes_body = true,
                                    .model_offset = offsetof(DetokenizeRequest, options.model) + 1,
                                    .read = detokenize_read,
                                    .start = detokenize_start,
                                    .take = detokenize_take,
                                    .deinit = detokenize_deinit };

void endpoint_detokenize(Gateway *gateway, Exchange *exchange) {
    query_run(gateway, exchange, &detokenize_query);
}
