// SPDX-License-Identifier: Apache-2.0
/* POST /completion, /completions: raw prompts, answered in llama-server's own form. */
#include "gateway/endpoints/plain_completion.h"

#include "gateway/request/generation_fields.h"
#include "gateway/endpoints/plain_answer.h"
#include "gateway/json/body.h"

enum {
    RESPONSE_FIELDS_MAX = 64,
};

static int set_response_fields(const Field *field, const json_t *value, void *target, const char *path,
                               ApiError *error) {
    int r = field_set_array(field, value, target, path, error);

    if (!r && json_array_size(value) > RESPONSE_FIELDS_MAX)
        return api_error_field(error, path, "%s has %zu names: at most %d", path, json_array_size(value),
                               RESPONSE_FIELDS_MAX);
    for (size_t i = 0; !r && i < json_array_size(value); i++)
        if (!json_is_string(json_array_get(value, i)))
            r = api_error_field(error, path, "%s[%zu] must be a string", path, i);
    return r;
}

static const Field fields[] = {
    { "prompt", field_set_any, offsetof(PlainRequest, prompt), 0, 0 },
    { "response_fields", set_response_fields, offsetof(PlainRequest, response_fields), 0, 0 },
};

/* Reads the request. 0 or API_E_REFUSED. */
static int read_request(PlainRequest *plain, const FieldTable *table,
                        int (*settle)(PlainRequest *request, ApiError *error), ApiError *error) {
    const FieldTable tables[] = { { fields, ARRAY_LEN(fields) }, table ? *table : (FieldTable){ NULL, 0 } };
    GenerationRequest *request = &plain->request;
    int r = generation_fields_read(request, GENERATION_FIELDS_COMMON | GENERATION_FIELDS_CONSTRAINT, tables,
                                   table ? 2 : 1, error);

    if (r)
        return r;
    if (request->wishes.is_stream)
        request->options.want_tokens = true; /* each event has its tokens */
    r = settle(plain, error);
    if (!r && request->options.explain && plain->prompts.n > 1)
        return api_error_field(error, "explain", "explain is for one prompt: send them one by one");
    return r;
}

void plain_completion_run(Gateway *gateway, Exchange *exchange, size_t struct_bytes, const FieldTable *table,
                          int (*settle)(PlainRequest *request, ApiError *error)) {
    _cleanup_(generation_request_freep) GenerationRequest *request = NULL;
    _cleanup_(turn_freep) Turn *turn = NULL;
    PlainRequest *plain;
    ApiError error;
    json_t *body = body_parse(exchange, &error);

    if (!body) {
        exchange_refuse(exchange, &error);
        return;
    }
    request = generation_request_new(struct_bytes, body);
    plain = (PlainRequest *)request;
    turn = turn_new(gateway, exchange, &plain_answer_form, "cmpl-");
    if (request && turn && read_request(plain, table, settle, &error)) {
        exchange_refuse(exchange, &error);
        return;
    }
    if (request && turn)
        turn->answer = plain_answer_new(plain);
    if (!request || !turn || !turn->answer) {
        api_error_no_memory(&error);
        exchange_refuse(exchange, &error);
        return;
    }
    turn->n_parts = plain->prompts.n;
    turn_start_request(steal(&turn), steal(&request));
}

static int settle_prompts(PlainRequest *request, ApiError *error) {
    return prompts_read(&request->prompts, &request->request.owned, request->prompt, TURN_PARTS_MAX, "prompt", error);
}

void endpoint_plain_completion(Gateway *gateway, Exchange *exchange) {
    plain_completion_run(gateway, exchange, sizeof(PlainRequest), NULL, settle_prompts);
}
