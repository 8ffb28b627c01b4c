// SPDX-License-Identifier: Apache-2.0
/* Bodies of the gateway's smaller endpoints; the first byte chooses one. Any bytes become a request for the service or
 * an error that says why. */
#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "gateway/endpoints/endpoint_queries.h"
#include "gateway/plain/infill_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static void check_error(int r, const ApiError *error) {
    json_t *shown;

    if (!r)
        return;
    assert(r == API_E_REFUSED && error->status >= 400 && *error->message);
    assert(memchr(error->param, 0, sizeof(error->param)));
    shown = api_error_json(error);
    assert(shown);
    json_decref(shown);
}

/* Names a field of an error as the service could tell it. */
static void rename_error(const QueryOps *ops, void *arg, const ApiError *told) {
    ApiError error = *told;

    memmove(error.param + 9, error.param, sizeof(error.param) - 10);
    memcpy(error.param, "tokenize.", 9);
    if (ops->rename)
        ops->rename(arg, &error);
    else
        query_rename_field(&error, ops->fields, ops->n_fields);
    assert(memchr(error.param, 0, sizeof(error.param)) && memchr(error.message, 0, sizeof(error.message)));
}

static void read_query(const QueryOps *ops, const json_t *body) {
    void *arg = calloc(1, ops->arg_bytes);
    ApiError error;
    int r;

    assert(arg);
    r = ops->read(arg, NULL, body, &error);
    check_error(r, &error);
    if (r && !ops->rename)
        rename_error(ops, arg, &error);
    if (ops->deinit)
        ops->deinit(arg);
    free(arg);
}

static void read_plain(json_t *body, size_t struct_bytes, const FieldTable *table,
                       int (*settle)(PlainRequest *request, ApiError *error)) {
    PlainRequest *request = plain_request_new(struct_bytes, json_incref(body));
    volatile size_t sum = 0;
    ApiError error;
    int r;

    assert(request);
    r = plain_request_read(request, table, settle, &error);
    check_error(r, &error);
    for (size_t i = 0; !r && i < request->prompts.n; i++) {
        const Prompt *prompt = &request->prompts.list[i];

        assert(!prompt->text == (prompt->n_tokens || prompt->n_pieces));
        sum += prompt->text ? strlen(prompt->text) : prompt->n_tokens ? prompt->tokens[prompt->n_tokens - 1] : 0;
    }
    assert(sum < SIZE_MAX); /* the texts were read */
    plain_request_free(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    static const QueryOps *const queries[] = { &tokenize_query,         &detokenize_query,     &embeddings_query,
                                               &plain_embeddings_query, &apply_template_query, &chat_tokens_query };
    json_t *body;
    size_t choice;

    if (!len_bytes || len_bytes > 1 << 16)
        return 0;
    choice = (*data - '0') % 8u;
    body = json_loadb((const char *)data + 1, len_bytes - 1, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (json_is_object(body)) {
        if (choice < ARRAY_LEN(queries))
            read_query(queries[choice], body);
        else if (choice == ARRAY_LEN(queries))
            read_plain(body, sizeof(PlainRequest), NULL, plain_settle_prompts);
        else
            read_plain(body, sizeof(InfillRequest), &infill_fields, infill_settle);
    }
    json_decref(body);
    return 0;
}
