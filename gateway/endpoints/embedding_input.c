// SPDX-License-Identifier: Apache-2.0
#include "gateway/endpoints/embedding_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strings/str_buf.h"
#include "gateway/endpoints/token_json.h"
#include "gateway/json/field.h"

typedef struct TextObject {
    const json_t *string, *content;
} TextObject;

/* Whether the value is one list of token ids, and no list of inputs. */
static bool is_token_list(const json_t *value) {
    return json_is_array(value) && json_is_integer(json_array_get(value, 0));
}

static int read_text(const json_t *value, const char *path, const char **textp, ApiError *error) {
    if (!json_string_length(value))
        return api_error_field(error, path, "%s is empty: leave it out, for an empty text has no vector", path);
    if (strlen(json_string_value(value)) != json_string_length(value))
        return api_error_field(error, path, "%s must not have a NUL character", path);
    *textp = json_string_value(value);
    return 0;
}

/* Reads llama-server's object of a text: a string beside media, or a list of parts. Media are refused. */
static int read_object(EmbeddingInputs *inputs, const json_t *value, const char *path, ApiError *error) {
    static const Field fields[] = {
        { "prompt_string", field_set_any, offsetof(TextObject, string), 0, 0 },
        { "content", field_set_array, offsetof(TextObject, content), 0, 0 },
    };
    static const FieldTable table = { fields, ARRAY_LEN(fields) };
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    TextObject object = { NULL, NULL };
    int r = fields_read(value, &table, 1, &object, path, error);

    if (r)
        return r;
    if (!object.string == !object.content)
        return api_error_field(error, path, "%s needs a prompt_string, or a content of text parts", path);
    if (object.string)
        return json_is_string(object.string) ? read_text(object.string, path, &inputs->texts[inputs->n], error)
                                             : api_error_field(error, path, "%s.prompt_string must be a string", path);
    for (size_t i = 0; i < json_array_size(object.content); i++) {
        const json_t *part = json_array_get(object.content, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *words = json_object_get(part, "text");

        if (!type || strcmp(type, "text") || !json_is_string(words) ||
            strlen(json_string_value(words)) != json_string_length(words))
            return api_error_field(error, path,
                                   "%s.content[%zu] must be {\"type\": \"text\", \"text\": ...}: other types "
                                   "are not supported",
                                   path, i);
        str_buf_add(&text, json_string_value(words));
    }
    if (!text.len_bytes)
        return api_error_field(error, path, "%s is empty: leave it out, for an empty text has no vector", path);
    inputs->texts[inputs->n] = str_buf_failed(&text) ? NULL : owned_take(&inputs->owned, str_buf_steal(&text));
    return inputs->texts[inputs->n] ? 0 : api_error_no_memory(error);
}

static int read_one(EmbeddingInputs *inputs, const json_t *value, const char *path, ApiError *error) {
    const size_t i = inputs->n;
    int r;

    if (json_is_string(value))
        r = read_text(value, path, &inputs->texts[i], error);
    else if (json_is_object(value))
        r = read_object(inputs, value, path, error);
    else if (is_token_list(value))
        r = token_ids_read(value, path, &inputs->tokens[i], &inputs->n_tokens[i], error);
    else
        r = api_error_field(error, path, "%s must be a string, or an array of token ids", path);
    inputs->n++;
    return r;
}

int embedding_inputs_read(EmbeddingInputs *inputs, const json_t *value, const char *name, ApiError *error) {
    const bool is_list = json_is_array(value) && !is_token_list(value);
    const size_t n = is_list ? json_array_size(value) : 1;
    char path[sizeof(error->param)];
    int r = 0;

    *inputs = (EmbeddingInputs){ 0 };
    if (!n)
        return api_error_field(error, name, "%s is empty: at least one text is needed", name);
    if (n > EMBEDDING_INPUTS_MAX)
        return api_error_field(error, name, "%s has %zu entries: at most %d", name, n, EMBEDDING_INPUTS_MAX);
    inputs->texts = calloc(n, sizeof(*inputs->texts));
    inputs->tokens = calloc(n, sizeof(*inputs->tokens));
    inputs->n_tokens = calloc(n, sizeof(*inputs->n_tokens));
    if (!inputs->texts || !inputs->tokens || !inputs->n_tokens)
        return api_error_no_memory(error);
    if (!is_list)
        return read_one(inputs, value, name, error);
    for (size_t i = 0; !r && i < n; i++) {
        snprintf(path, sizeof(path), "%s[%zu]", name, i);
        r = read_one(inputs, json_array_get(value, i), path, error);
    }
    return r;
}

void embedding_inputs_deinit(EmbeddingInputs *inputs) {
    for (size_t i = 0; i < inputs->n; i++)
        free(inputs->tokens[i]);
    free(inputs->texts);
    free(inputs->tokens);
    free(inputs->n_tokens);
    owned_deinit(&inputs->owned);
    *inputs = (EmbeddingInputs){ 0 };
}

size_t embedding_inputs_batch(const EmbeddingInputs *inputs, size_t first) {
    size_t n = 0;

    while (first + n < inputs->n && n < EMBEDDING_BATCH_MAX && !inputs->texts[first + n] == !inputs->texts[first])
        n++;
    return n;
}
