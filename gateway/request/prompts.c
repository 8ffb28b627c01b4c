// SPDX-License-Identifier: Apache-2.0
#include "gateway/request/prompts.h"

#include <string.h>

#include "gateway/json/field.h"

enum {
    PIECES_MAX = 1 << 20, /* the service's limit on token ids */
};

/* Reads one piece of a prompt. Only a text at the front gets the tokens that the model wants there. */
static int read_piece(PromptPiece *piece, GenerationRequest *request, const json_t *value, bool is_first,
                      const char *path, ApiError *error) {
    const char *text = json_string_value(value);

    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= UINT32_MAX) {
        piece->id = (uint32_t)json_integer_value(value);
        return 0;
    }
    if (!text || strlen(text) != json_string_length(value))
        return api_error_field(error, path, "%s is neither a token id nor a text", path);
    return token_texts_add(&request->texts, &request->owned, text, is_first, path, &piece->text, error);
}

/* Makes ids of pieces whose texts are known. */
static int join_pieces(Prompt *prompt, GenerationRequest *request, ApiError *error) {
    size_t n = 0;
    uint32_t *ids;

    for (size_t i = 0; i < prompt->n_pieces; i++)
        n += prompt->pieces[i].text ? prompt->pieces[i].text->n_ids : 1;
    ids = owned_array(&request->owned, n, sizeof(*ids));
    if (!ids)
        return api_error_no_memory(error);
    prompt->tokens = ids;
    prompt->n_tokens = n;
    for (size_t i = 0; i < prompt->n_pieces; i++) {
        const PromptPiece *piece = &prompt->pieces[i];

        if (!piece->text)
            *ids++ = piece->id;
        for (size_t k = 0; piece->text && k < piece->text->n_ids; k++)
            *ids++ = piece->text->ids[k];
    }
    return 0;
}

int prompts_join(PromptList *prompts, GenerationRequest *request, ApiError *error) {
    int r = 0;

    for (size_t i = 0; !r && i < prompts->n; i++)
        if (prompts->list[i].n_pieces && !prompts->list[i].tokens)
            r = join_pieces(&prompts->list[i], request, error);
    return r;
}

/* Reads an array of token ids, with texts among them perhaps. */
static int read_pieces(Prompt *prompt, GenerationRequest *request, const json_t *array, const char *path,
                       ApiError *error) {
    const size_t n = json_array_size(array), n_texts = request->texts.n;
    PromptPiece *pieces;
    FieldPath at;
    int r = 0;

    if (n > PIECES_MAX)
        return api_error_field(error, path, "%s has %zu token ids: at most %d", path, n, PIECES_MAX);
    pieces = owned_array(&request->owned, n, sizeof(*pieces));
    if (!pieces)
        return api_error_no_memory(error);
    for (size_t i = 0; !r && i < n; i++)
        r = read_piece(&pieces[i], request, json_array_get(array, i), !i, field_path(&at, "%s[%zu]", path, i), error);
    *prompt = (Prompt){ .pieces = pieces, .n_pieces = n };
    return r || request->texts.n > n_texts ? r : join_pieces(prompt, request, error);
}

static int read_prompt(Prompt *prompt, GenerationRequest *request, const json_t *value, const char *path,
                       ApiError *error) {
    static const Field fields[] = {
        { "prompt_string", field_set_text, offsetof(Prompt, text), 0, 0 },
    };
    static const FieldTable table = { fields, sizeof(fields) / sizeof(*fields) };
    int r;

    *prompt = (Prompt){ 0 };
    if (json_is_array(value) && json_array_size(value))
        return read_pieces(prompt, request, value, path, error);
    if (json_is_object(value)) /* llama-server's, with media that nobody here understands */
        r = fields_read(value, &table, 1, prompt, path, error);
    else
        r = field_set_text(&fields[0], value, &prompt->text, path, error);
    if (!r && (!prompt->text || !*prompt->text))
        r = api_error_field(error, path, "%s is empty: a text or token ids are needed", path);
    return r;
}

/* Whether an array has prompts, and is not a prompt of ids and texts itself. */
static bool has_prompts(const json_t *value) {
    if (!json_is_array(value) || !json_array_size(value))
        return false;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (json_is_number(json_array_get(value, i)))
            return false;
    return true;
}

int prompts_read(PromptList *prompts, GenerationRequest *request, const json_t *value, size_t n_max, const char *path,
                 ApiError *error) {
    const bool is_array = has_prompts(value);
    const size_t n = is_array ? json_array_size(value) : 1;
    FieldPath at;
    int r = 0;

    if (!value || (json_is_array(value) && !json_array_size(value)))
        return api_error_field(error, path, "%s is missing: a text or token ids are needed", path);
    if (n > n_max)
        return api_error_field(error, path, "%s has %zu prompts: at most %zu", path, n, n_max);
    *prompts = (PromptList){ .list = owned_array(&request->owned, n, sizeof(Prompt)), .n = n, .is_array = is_array };
    if (!prompts->list)
        return api_error_no_memory(error);
    if (!is_array)
        return read_prompt(&prompts->list[0], request, value, path, error);
    for (size_t i = 0; !r && i < n; i++)
        r = read_prompt(&prompts->list[i], request, json_array_get(value, i), field_path(&at, "%s[%zu]", path, i),
                        error);
    return r;
}

void prompt_set(const Prompt *prompt, CoordgenGenerateOptions *options) {
    options->prompt = prompt->text;
    options->prompt_tokens = prompt->tokens;
    options->n_prompt_tokens = prompt->n_tokens;
}
