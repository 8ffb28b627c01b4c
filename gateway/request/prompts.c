// SPDX-License-Identifier: Apache-2.0
#include "gateway/request/prompts.h"

#include <string.h>

#include "gateway/json/field.h"

/* Reads an array of token ids. */
static int read_ids(Prompt *prompt, Owned *owned, const json_t *array, const char *path, ApiError *error) {
    const size_t n = json_array_size(array);
    uint32_t *ids = owned_array(owned, n, sizeof(*ids));
    FieldPath at;

    if (!ids)
        return api_error_no_memory(error);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(array, i);

        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > UINT32_MAX) {
            field_path(&at, "%s[%zu]", path, i);
            return api_error_field(
                error, at.text, "%s is no token id: a prompt is one string, or an array of token ids alone", at.text);
        }
        ids[i] = (uint32_t)json_integer_value(id);
    }
    *prompt = (Prompt){ .tokens = ids, .n_tokens = n };
    return 0;
}

static int read_prompt(Prompt *prompt, Owned *owned, const json_t *value, const char *path, ApiError *error) {
    static const Field fields[] = {
        { "prompt_string", field_set_text, offsetof(Prompt, text), 0, 0 },
    };
    static const FieldTable table = { fields, sizeof(fields) / sizeof(*fields) };
    int r;

    *prompt = (Prompt){ 0 };
    if (json_is_array(value) && json_array_size(value))
        return read_ids(prompt, owned, value, path, error);
    if (json_is_object(value)) /* llama-server's, with media that nobody here understands */
        r = fields_read(value, &table, 1, prompt, path, error);
    else
        r = field_set_text(&fields[0], value, &prompt->text, path, error);
    if (!r && (!prompt->text || !*prompt->text))
        r = api_error_field(error, path, "%s is empty: a text or token ids are needed", path);
    return r;
}

/* Whether an array has prompts, and is not a prompt of token ids itself. */
static bool has_prompts(const json_t *value) {
    return json_is_array(value) && json_array_size(value) && !json_is_number(json_array_get(value, 0));
}

int prompts_read(PromptList *prompts, Owned *owned, const json_t *value, size_t n_max, const char *path,
                 ApiError *error) {
    const size_t n = has_prompts(value) ? json_array_size(value) : 1;
    FieldPath at;
    int r = 0;

    if (!value || (json_is_array(value) && !json_array_size(value)))
        return api_error_field(error, path, "%s is missing: a text or token ids are needed", path);
    if (n > n_max)
        return api_error_field(error, path, "%s has %zu prompts: at most %zu", path, n, n_max);
    *prompts = (PromptList){ .list = owned_array(owned, n, sizeof(Prompt)), .n = n, .is_array = has_prompts(value) };
    if (!prompts->list)
        return api_error_no_memory(error);
    if (!prompts->is_array)
        return read_prompt(&prompts->list[0], owned, value, path, error);
    for (size_t i = 0; !r && i < n; i++)
        r = read_prompt(&prompts->list[i], owned, json_array_get(value, i), field_path(&at, "%s[%zu]", path, i), error);
    return r;
}

void prompt_set(const Prompt *prompt, CoordgenGenerateOptions *options) {
    options->prompt = prompt->text;
    options->prompt_tokens = prompt->tokens;
    options->n_prompt_tokens = prompt->n_tokens;
}
