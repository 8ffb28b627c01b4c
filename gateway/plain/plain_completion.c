// SPDX-License-Identifier: Apache-2.0
/* POST /completion, /completions: raw prompts. POST /infill: the text between a prefix and a suffix. */
#include "gateway/plain/plain_completion.h"

#include "gateway/json/body.h"
#include "gateway/plain/infill_request.h"
#include "gateway/plain/plain_answer.h"

_Static_assert((int)PLAIN_PROMPTS_MAX <= (int)TURN_PARTS_MAX, "each prompt is a part of the turn");

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
    if (request && turn && plain_request_read(plain, table, settle, &error)) {
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

void endpoint_plain_completion(Gateway *gateway, Exchange *exchange) {
    plain_completion_run(gateway, exchange, sizeof(PlainRequest), NULL, plain_settle_prompts);
}

void endpoint_infill(Gateway *gateway, Exchange *exchange) {
    plain_completion_run(gateway, exchange, sizeof(InfillRequest), &infill_fields, infill_settle);
}
