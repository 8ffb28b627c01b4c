// SPDX-License-Identifier: Apache-2.0
/* Bodies of responses: any bytes become a request for the service with what the response repeats, or an error that says
 * why. */
#undef NDEBUG
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "gateway/responses/response_object.h"
#include "gateway/responses/response_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static size_t length(const char *text) {
    return text ? strlen(text) : 0;
}

/* Reads every text that the options point to. */
static size_t touch(const CoordgenGenerateOptions *options) {
    size_t sum = length(options->model) + length(options->tools) + length(options->tool_name) +
                 length(options->constraint) + length(options->template_kwargs);

    assert(options->n_messages);
    for (size_t i = 0; i < options->n_messages; i++) {
        const CoordgenMessage *message = &options->messages[i];

        assert(message->text || message->n_tool_calls);
        assert(!message->n_tool_calls || message->role == COORDGEN_ROLE_ASSISTANT);
        sum += length(message->text) + length(message->reasoning) + length(message->tool_call_id);
        for (size_t k = 0; k < message->n_tool_calls; k++)
            sum += strlen(message->tool_calls[k].id) + strlen(message->tool_calls[k].name) +
                   strlen(message->tool_calls[k].arguments);
    }
    return sum;
}

/* A request that is well can be repeated, in every state of its response. */
static void use(const ResponseRequest *request) {
    volatile size_t sum = touch(&request->generation.options);
    const CoordgenGenerateResult result = { .end_reason = (CoordgenEndReason)(sum % 8) };
    json_t *echo = response_request_echo(request), *response;
    ResponseHead head = { .id = "resp_0", .model = "", .echo = echo };

    assert(echo);
    response = response_object_ended(&head, &result, json_array());
    assert(response && !strcmp(json_string_value(json_object_get(response, "object")), "response"));
    json_decref(response);
    json_decref(echo);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    json_t *body = json_loadb((const char *)data, len_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    ResponseRequest *request = NULL;
    ApiError error;

    if (!json_is_object(body)) {
        json_decref(body);
        return 0;
    }
    if (!response_request_new(&request, body, &error)) {
        use(request);
        generation_request_free(&request->generation);
        return 0;
    }
    assert(!request && error.status >= 400 && *error.message && memchr(error.param, 0, sizeof(error.param)));
    json_decref(api_error_json(&error));
    return 0;
}
