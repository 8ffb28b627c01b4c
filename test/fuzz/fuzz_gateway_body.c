// SPDX-License-Identifier: Apache-2.0
/* Bodies of chats and of completions: any bytes become a request for the service or an error that says why. */
#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "gateway/request/generation_fields.h"
#include "gateway/request/prompts.h"
#include "gateway/request/sampling_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

typedef struct Request {
    GenerationRequest request;
    const json_t *prompt;
} Request;

static void check_error(int r, const ApiError *error) {
    assert(!r || (r == API_E_REFUSED && error->status >= 400 && *error->message));
    assert(!r || memchr(error->param, 0, sizeof(error->param)));
}

static volatile size_t sink; /* what was read, so that reading is not left out */

/* Reads every text that the options point to. */
static size_t touch(const CoordgenGenerateOptions *options) {
    size_t sum = options->model ? strlen(options->model) : 0;

    for (size_t i = 0; i < options->n_messages; i++) {
        sum += options->messages[i].text ? strlen(options->messages[i].text) : 0;
        for (size_t k = 0; k < options->messages[i].n_tool_calls; k++)
            sum +=
                strlen(options->messages[i].tool_calls[k].name) + strlen(options->messages[i].tool_calls[k].arguments);
    }
    for (size_t i = 0; i < options->n_stops; i++)
        sum += strlen(options->stops[i]);
    for (size_t i = 0; i < options->more_sampling->n_logit_bias; i++)
        sum += options->more_sampling->logit_bias[i].token;
    for (size_t i = 0; i < options->more_sampling->n_dry_breakers; i++)
        sum += strlen(options->more_sampling->dry_breakers[i]);
    sum += options->constraint ? strlen(options->constraint) : 0;
    sum += options->tools ? strlen(options->tools) : 0;
    sum += options->template_kwargs ? strlen(options->template_kwargs) : 0;
    return sum + (options->answer_prefix ? strlen(options->answer_prefix) : 0);
}

static void read_body(json_t *body, bool is_chat) {
    static const Field fields[] = {
        { "prompt", field_set_any, offsetof(Request, prompt), 0, 0 },
        { "logprobs", field_set_u32, offsetof(Request, request.options.logprobs), 0, 20 },
    };
    static const FieldTable table = { fields, ARRAY_LEN(fields) };
    GenerationRequest *request = generation_request_new(sizeof(Request), body);
    PromptList prompts = { 0 };
    ApiError error;
    int r;

    assert(request);
    r = is_chat
            ? generation_fields_read(request,
                                     GENERATION_FIELDS_COMMON | GENERATION_FIELDS_CONSTRAINT | GENERATION_FIELDS_CHAT,
                                     NULL, 0, &error)
            : generation_fields_read(request, GENERATION_FIELDS_COMMON | GENERATION_FIELDS_CONSTRAINT, &table, 1,
                                     &error);
    check_error(r, &error);
    if (!r && !is_chat) {
        r = prompts_read(&prompts, request, ((Request *)request)->prompt, 64, "prompt", &error);
        check_error(r, &error);
        for (size_t i = 0; !r && i < request->texts.n; i++) {
            sink += strlen(request->texts.list[i].text) + strlen(request->texts.list[i].path);
            r = token_text_set(&request->texts.list[i], &request->owned, (const uint32_t[]){ 1, 2 }, i % 3, &error);
            assert(!r);
        }
        if (!r)
            r = prompts_join(&prompts, request, &error) || sampling_fields_join(request, &error);
        for (size_t i = 0; !r && i < prompts.n; i++)
            sink += prompts.list[i].text ? strlen(prompts.list[i].text) : prompts.list[i].n_tokens;
    }
    if (!r)
        sink += touch(&request->options);
    if (r) /* also an error of the service gets the request's names */
        generation_names_apply(&request->names, &error);
    if (r)
        json_decref(api_error_json(&error));
    generation_request_free(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    json_error_t why;
    json_t *body = json_loadb((const char *)data, len_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);

    if (!json_is_object(body)) {
        json_decref(body);
        return 0;
    }
    read_body(json_incref(body), true);
    read_body(body, false);
    return 0;
}
