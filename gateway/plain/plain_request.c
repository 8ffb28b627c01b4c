// SPDX-License-Identifier: Apache-2.0
#include "gateway/plain/plain_request.h"

#include "base/cleanup.h"
#include "gateway/request/generation_fields.h"

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

PlainRequest *plain_request_new(size_t struct_bytes, json_t *body) {
    return (PlainRequest *)generation_request_new(struct_bytes, body);
}

PlainRequest *plain_request_free(PlainRequest *request) {
    generation_request_free(&request->request);
    return NULL;
}

int plain_request_read(PlainRequest *plain, const FieldTable *table,
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

int plain_settle_prompts(PlainRequest *request, ApiError *error) {
    return prompts_read(&request->prompts, &request->request, request->prompt, PLAIN_PROMPTS_MAX, "prompt", error);
}
