// SPDX-License-Identifier: Apache-2.0
/* POST /v1/embeddings, and /embedding and /embeddings, which answer as llama-server does. Many texts take several
 * requests to the service. The answer is written as text while vectors arrive: JSON values of all numbers would take
 * many times the memory. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/strings/base64.h"
#include "base/strings/json_text.h"
#include "base/strings/utf8.h"
#include "gateway/endpoints/endpoint_queries.h"
#include "gateway/endpoints/embedding_input.h"
#include "gateway/json/field.h"
#include "gateway/request/generation_fields.h"
#include "gateway/service/query.h"

enum {
    ANSWER_BYTES_MAX = 64 << 20,
};

typedef struct EmbeddingsRequest {
    CoordgenEmbedOptions options;
    const json_t *input;
    const char *input_name; /* "input" or "content" */
    EmbeddingInputs inputs;
    bool is_base64;
    uint32_t dimensions; /* 0: as many as the model's vectors have */
    bool is_plain;       /* llama-server's own form */
    size_t n_done;       /* inputs whose vectors are in the text */
    size_t n_asked;      /* inputs of the request under way */
    uint64_t n_prompt_tokens;
    StrBuf text; /* the answer so far */
} EmbeddingsRequest;

/* ---- the request ------------------------------------------------------------------------------------------------- */

static int set_format(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    const char *name = json_string_value(value);

    if (!name || (strcmp(name, "float") && strcmp(name, "base64")))
        return api_error_field(error, path, "%s must be \"float\" or \"base64\"", path);
    *(bool *)target = !strcmp(name, "base64");
    return 0;
}

static int set_pooling(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    for (int i = COORDGEN_POOLING_MEAN; i <= COORDGEN_POOLING_CLS; i++)
        if (json_is_string(value) && !strcmp(json_string_value(value), coordgen_pooling_name(i))) {
            *(CoordgenPooling *)target = (CoordgenPooling)i;
            return 0;
        }
    return api_error_field(error, path, "%s must be \"mean\", \"last\" or \"cls\"", path);
}

/* Takes the two of llama-server's kinds of norms that the service has. */
static int set_norm(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    const json_int_t norm = json_integer_value(value);

    if (!json_is_integer(value) || (norm != -1 && norm != 2))
        return api_error_field(error, path, "%s must be 2 (Euclidean) or -1 (none)", path);
    *(bool *)target = norm == -1;
    return 0;
}

static int read_fields(EmbeddingsRequest *request, const json_t *body, ApiError *error) {
#define AT(field) offsetof(EmbeddingsRequest, field)
    static const Field fields[] = {
        { "input", field_set_any, AT(input), 0, 0 },
        { "model", field_set_text, AT(options.model), 0, 0 },
        { "encoding_format", set_format, AT(is_base64), 0, 0 },
        { "dimensions", field_set_u32, AT(dimensions), 1, UINT32_MAX },
        { "user", NULL, 0, 0, 0 },
        { "pooling", set_pooling, AT(options.pooling), 0, 0 },
        { "priority", generation_set_priority, AT(options.priority), 0, 0 },
        { "embd_normalize", set_norm, AT(options.raw), 0, 0 },
    };
    static const Field plain_fields[] = { { "content", field_set_any, AT(input), 0, 0 } };
#undef AT
    static const FieldTable tables[] = { { fields, ARRAY_LEN(fields) }, { plain_fields, ARRAY_LEN(plain_fields) } };

    return fields_read(body, tables, request->is_plain ? 2 : 1, request, "", error);
}

static int read_request(EmbeddingsRequest *request, const json_t *body, ApiError *error) {
    int r;

    coordgen_embed_options_init(&request->options);
    r = read_fields(request, body, error);
    if (r)
        return r;
    request->input_name = json_object_get(body, "input") ? "input" : "content";
    if (request->is_plain && json_object_get(body, "input") && json_object_get(body, "content"))
        return api_error_field(error, "content", "input and content are given: one of them");
    if (!request->input)
        return api_error_field(error, "input", "input is missing: the text, or an array of texts");
    if (request->is_plain && request->is_base64)
        return api_error_field(error, "encoding_format", "encoding_format \"base64\" is for /v1/embeddings only");
    return embedding_inputs_read(&request->inputs, request->input, request->input_name, error);
}

static int read_openai(void *arg, const Exchange *exchange, const json_t *body, ApiError *error) {
    return read_request(arg, body, error);
}

static int read_plain(void *arg, const Exchange *exchange, const json_t *body, ApiError *error) {
    EmbeddingsRequest *request = arg;

    request->is_plain = true;
    return read_request(request, body, error);
}

static void deinit(void *arg) {
    EmbeddingsRequest *request = arg;

    embedding_inputs_deinit(&request->inputs);
    str_buf_deinit(&request->text);
}

static int start(void *arg, CoordgenClient *client, Query *query, uint64_t *request_idp) {
    EmbeddingsRequest *request = arg;
    const EmbeddingInputs *inputs = &request->inputs;
    const size_t first = request->n_done;

    request->n_asked = embedding_inputs_batch(inputs, first);
    request->options.n_texts = request->n_asked;
    request->options.texts = inputs->texts[first] ? &inputs->texts[first] : NULL;
    request->options.tokens = inputs->texts[first] ? NULL : (const uint32_t *const *)&inputs->tokens[first];
    request->options.n_tokens = &inputs->n_tokens[first];
    return coordgen_embed_start(client, &request->options, query_on_event, query, request_idp);
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static void add_numbers(StrBuf *text, const float *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        str_buf_append(text, i ? "," : "[", 1);
        if (isfinite(values[i]))
            str_buf_addf(text, "%.9g", (double)values[i]);
        else
            str_buf_add(text, "null"); /* JSON has no such number */
    }
    str_buf_add(text, n ? "]" : "[]");
}

static void add_vector(EmbeddingsRequest *request, const float *values, size_t n_values) {
    StrBuf *text = &request->text;

    str_buf_addf(text, "%s{%s\"index\":%zu,\"embedding\":", request->n_done ? "," : "",
                 request->is_plain ? "" : "\"object\":\"embedding\",", request->n_done);
    if (request->is_base64) {
        str_buf_append(text, "\"", 1);
        base64_append(text, values, n_values * sizeof(*values));
        str_buf_append(text, "\"", 1);
    } else {
        /* llama-server's form has a list of vectors for each text, because some poolings give several. */
        str_buf_add(text, request->is_plain ? "[" : "");
        add_numbers(text, values, n_values);
        str_buf_add(text, request->is_plain ? "]" : "");
    }
    str_buf_append(text, "}", 1);
    request->n_done++;
}

/* Adds the vectors of a reply. 0 or API_E_REFUSED. */
static int add_vectors(EmbeddingsRequest *request, const CoordgenReply *reply, ApiError *error) {
    size_t n_values;

    if (coordgen_reply_n_embeddings(reply) != request->n_asked)
        return api_error_set(error, 500, "server_error", NULL, "the service has sent %zu vectors for %zu texts",
                             coordgen_reply_n_embeddings(reply), request->n_asked);
    if (!request->n_done)
        str_buf_add(&request->text, request->is_plain ? "[" : "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < request->n_asked; i++) {
        const float *values = coordgen_reply_embedding(reply, i, &n_values);

        if (request->dimensions && request->dimensions != n_values)
            return api_error_field(error, "dimensions",
                                   "dimensions is %u: the model's vectors have %zu values, which cannot be shortened",
                                   request->dimensions, n_values);
        request->n_prompt_tokens += coordgen_reply_embedding_tokens(reply, i);
        add_vector(request, values, n_values);
    }
    if (request->text.len_bytes > ANSWER_BYTES_MAX)
        return api_error_set(error, 413, "invalid_request_error", "answer_too_large",
                             "the answer has more than %d MiB: ask for fewer texts at a time%s", ANSWER_BYTES_MAX >> 20,
                             request->is_base64 ? "" : ", or for encoding_format \"base64\"");
    return str_buf_failed(&request->text) ? api_error_no_memory(error) : 0;
}

/* Ends the answer. 0 or API_E_REFUSED. */
static int add_end(EmbeddingsRequest *request, const CoordgenReply *reply, ApiError *error) {
    json_t *name = json_text(coordgen_reply_embedding_model(reply));
    _cleanup_(freep) char *model = name ? json_dumps(name, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

    json_decref(name);
    if (request->is_plain)
        str_buf_add(&request->text, "]");
    else
        str_buf_addf(&request->text,
                     "],\"model\":%s,\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"total_tokens\":%" PRIu64 "}}",
                     model ? model : "null", request->n_prompt_tokens, request->n_prompt_tokens);
    return !model || str_buf_failed(&request->text) ? api_error_no_memory(error) : 0;
}

static int take(void *arg, const CoordgenReply *reply, Exchange *exchange) {
    EmbeddingsRequest *request = arg;
    ApiError error;
    int r = add_vectors(request, reply, &error);

    if (!r && request->n_done < request->inputs.n)
        return QUERY_MORE;
    if (!r)
        r = add_end(request, reply, &error);
    if (r)
        exchange_refuse(exchange, &error);
    else
        exchange_reply(exchange, 200, "application/json", request->text.data, request->text.len_bytes);
    return 0;
}

/* Counts the service's number of a text from the first input on. */
static void refuse(void *arg, const ApiError *error, Exchange *exchange) {
    const EmbeddingsRequest *request = arg;
    ApiError told = *error;

    if (request->n_done)
        snprintf(told.message, sizeof(told.message), "of the inputs from number %zu on, counted from 0: %.*s",
                 request->n_done, UTF8_PREFIX(error->message, sizeof(told.message) - 128));
    if (request->n_done && *told.param)
        snprintf(told.param, sizeof(told.param), "%s", request->input_name);
    exchange_refuse(exchange, &told);
}

/* ---- endpoints --------------------------------------------------------------------------------------------------- */

static const QueryField query_fields[] = { { "text", "input" }, { "tokens", "input" } };

const QueryOps embeddings_query = { .arg_bytes = sizeof(EmbeddingsRequest),
                                    .takes_body = true,
                                    .model_offset = offsetof(EmbeddingsRequest, options.model) + 1,
                                    .read = read_openai,
                                    .start = start,
                                    .take = take,
                                    .refuse = refuse,
                                    .deinit = deinit,
                                    .fields = query_fields,
                                    .n_fields = ARRAY_LEN(query_fields) };

void endpoint_embeddings(Gateway *gateway, Exchange *exchange) {
    query_run(gateway, exchange, &embeddings_query);
}

const QueryOps plain_embeddings_query = { .arg_bytes = sizeof(EmbeddingsRequest),
                                          .takes_body = true,
                                          .model_offset = offsetof(EmbeddingsRequest, options.model) + 1,
                                          .read = read_plain,
                                          .start = start,
                                          .take = take,
                                          .refuse = refuse,
                                          .deinit = deinit,
                                          .fields = query_fields,
                                          .n_fields = ARRAY_LEN(query_fields) };

void endpoint_plain_embeddings(Gateway *gateway, Exchange *exchange) {
    query_run(gateway, exchange, &plain_embeddings_query);
}
