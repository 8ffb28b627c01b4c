// SPDX-License-Identifier: Apache-2.0
#include "gateway/responses/response_request.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/strings/utf8.h"
#include "gateway/request/generation_constraint.h"
#include "gateway/request/generation_fields.h"
#include "gateway/responses/response_input.h"
#include "gateway/responses/response_tools.h"
#include "gateway/json/refused_fields.h"

#define AT(member) offsetof(ResponseRequest, member)

/* Limits of OpenAI's on metadata, in characters there and in bytes here, of which a character has at most four. */
enum {
    METADATA_PAIRS_MAX = 16,
    METADATA_KEY_BYTES_MAX = 4 * 64,
    METADATA_VALUE_BYTES_MAX = 4 * 512,
};

/* ---- input and tools --------------------------------------------------------------------------------------------- */

static int set_input(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    GenerationRequest *request = target;
    /* Instructions of another type are refused by their own setter. */
    const char *instructions = json_string_value(json_object_get(request->body, "instructions"));

    if (json_is_array(value) && !json_array_size(value))
        return api_error_field(error, path, "%s must have at least one item", path);
    return response_input_read(&request->messages, instructions, value, error);
}

static int check_instructions(const Field *field, const json_t *value, void *target, const char *path,
                              ApiError *error) {
    const char *text;

    return field_set_text(field, value, &text, path, error);
}

/* Both fields are read with the first of them, because a choice may leave tools out. */
static int set_tools(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    GenerationRequest *request = target;
    const json_t *tools = json_object_get(request->body, "tools");
    const json_t *choice = json_object_get(request->body, "tool_choice");

    if (request->options.tools)
        return 0;
    return response_tools_read(request, json_is_null(tools) ? NULL : tools, json_is_null(choice) ? NULL : choice,
                               error);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

typedef struct FormatFields {
    const char *type;
    const json_t *schema;
} FormatFields;

static const Field format_fields[] = {
    { "type", field_set_text, offsetof(FormatFields, type), 0, 0 },
    { "schema", field_set_any, offsetof(FormatFields, schema), 0, 0 },
    { "name", NULL, 0, 0, 0 }, /* this and the next one only describe the schema */
    { "description", NULL, 0, 0, 0 },
    { "strict", NULL, 0, 0, 0 }, /* the answer always fits the schema */
};
static const FieldTable format_tables[] = { { format_fields, ARRAY_LEN(format_fields) } };

static int set_any_object(GenerationRequest *request, const char *path, ApiError *error) {
    json_auto_t *schema = json_pack("{ss}", "type", "object");

    return schema ? generation_set_schema(request, schema, path, error) : api_error_no_memory(error);
}

static int set_format(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    FormatFields form = { 0 };
    int r;

    if (!json_is_object(value))
        return api_error_field(error, path, "%s must be an object", path);
    r = fields_read(value, format_tables, ARRAY_LEN(format_tables), &form, path, error);
    if (r)
        return r;
    if (form.type && !strcmp(form.type, "json_schema")) {
        if (!form.schema)
            return api_error_field(error, "text.format.schema", "text.format.schema is missing");
        return generation_set_schema(target, form.schema, "text.format.schema", error);
    }
    if (form.schema)
        return api_error_field(error, "text.format.type", "text.format has a schema: its type must be json_schema");
    if (form.type && !strcmp(form.type, "text"))
        return 0;
    if (form.type && !strcmp(form.type, "json_object"))
        return set_any_object(target, "text.format", error);
    return api_error_field(error, "text.format.type", "text.format.type must be text, json_object or json_schema");
}

/* Accepts the one value that each of these fields may have, which means what happens anyway. */
static int check_fixed(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    static const struct {
        const char *path, *value, *why;
    } fixed[] = {
        { "text.verbosity", "medium", "ask for shorter or longer answers in the instructions" },
        { "reasoning.summary", "auto", "thinking is not summed up: it is an item of its own, as it is" },
        { "reasoning.generate_summary", "auto", "thinking is not summed up: it is an item of its own, as it is" },
        { "reasoning.context", "auto", "the model's chat template decides which thinking it shows" },
        { "reasoning.mode", "standard", "leave it out" },
        { "truncation", "disabled", "an input that does not fit is refused: leave items out" },
    };
    size_t i = 0;

    while (i < ARRAY_LEN(fixed) - 1 && strcmp(fixed[i].path, path))
        i++;
    if (json_is_string(value) && !strcmp(json_string_value(value), fixed[i].value))
        return 0;
    return api_error_field(error, path, "%s: only '%s' is supported: %s", path, fixed[i].value, fixed[i].why);
}

static int set_text(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    static const Field fields[] = {
        { "format", set_format, 0, 0, 0 },
        { "verbosity", check_fixed, 0, 0, 0 },
    };
    static const FieldTable table = { fields, ARRAY_LEN(fields) };

    if (!json_is_object(value))
        return api_error_field(error, path, "%s must be an object", path);
    return fields_read(value, &table, 1, target, path, error);
}

/* ---- further fields ---------------------------------------------------------------------------------------------- */

static int set_effort(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    static const char *const efforts[] = { "none", "minimal", "low", "medium", "high", "xhigh" };
    GenerationRequest *request = target;
    const char *effort = json_string_value(value);

    for (size_t i = 0; effort && i < ARRAY_LEN(efforts); i++)
        if (!strcmp(efforts[i], effort)) {
            request->json.reasoning_effort = effort;
            return 0;
        }
    return api_error_field(error, path, "%s must be none, minimal, low, medium, high or xhigh", path);
}

static int set_reasoning(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    static const Field fields[] = {
        { "effort", set_effort, 0, 0, 0 },
        { "summary", check_fixed, 0, 0, 0 },
        { "generate_summary", check_fixed, 0, 0, 0 },
        { "context", check_fixed, 0, 0, 0 },
        { "mode", check_fixed, 0, 0, 0 },
    };
    static const FieldTable table = { fields, ARRAY_LEN(fields) };

    if (!json_is_object(value))
        return api_error_field(error, path, "%s must be an object", path);
    return fields_read(value, &table, 1, target, path, error);
}

static int set_include(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    ResponseRequest *request = target;
    FieldPath at;

    if (!json_is_array(value))
        return api_error_field(error, path, "%s must be an array of strings", path);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *name = json_string_value(json_array_get(value, i));

        field_path(&at, "%s[%zu]", path, i);
        if (!name)
            return api_error_field(error, at.text, "%s must be a string", at.text);
        if (!strcmp(name, "message.output_text.logprobs"))
            request->with_logprobs = true;
        else if (strcmp(name, "reasoning.encrypted_content")) /* thinking is in its item, as it is */
            return api_error_field(error, at.text,
                                   "%s: '%.*s' is not supported: message.output_text.logprobs and "
                                   "reasoning.encrypted_content are",
                                   at.text, UTF8_PREFIX(name, 64));
    }
    return 0;
}

static int check_metadata(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    const char *key;
    json_t *text;

    if (!json_is_object(value))
        return api_error_field(error, path, "%s must be an object", path);
    if (json_object_size(value) > METADATA_PAIRS_MAX)
        return api_error_field(error, path, "%s has more than %d pairs", path, METADATA_PAIRS_MAX);
    json_object_foreach((json_t *)value, key, text) {
        FieldPath at;

        field_path(&at, "%s.%.*s", path, UTF8_PREFIX(key, 64));
        if (strlen(key) > METADATA_KEY_BYTES_MAX)
            return api_error_field(error, at.text, "%s: the name is longer than 64 characters", at.text);
        if (!json_is_string(text) || json_string_length(text) > METADATA_VALUE_BYTES_MAX)
            return api_error_field(error, at.text, "%s must be a string of at most 512 characters", at.text);
    }
    return 0;
}

/* Checks a number of no effect: only tools that the service itself called would count, and it calls none. */
static int check_count(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    uint32_t count;

    return field_set_u32(field, value, &count, path, error);
}

static const Field fields[] = {
    { "input", set_input, 0, 0, 0 },
    { "instructions", check_instructions, 0, 0, 0 },
    { "tools", set_tools, 0, 0, 0 },
    { "tool_choice", set_tools, 0, 0, 0 },
    { "text", set_text, 0, 0, 0 },
    { "reasoning", set_reasoning, 0, 0, 0 },
    { "max_output_tokens", field_set_u32, AT(generation.options.max_tokens), 1, UINT32_MAX },
    { "include", set_include, 0, 0, 0 },
    { "top_logprobs", field_set_u32, AT(top_logprobs), 0, 20 },
    { "metadata", check_metadata, 0, 0, 0 },
    { "truncation", check_fixed, 0, 0, 0 },
    { "background", field_only_false, 0, 0, 0 },
    { "max_tool_calls", check_count, 0, 0, UINT32_MAX },
};

/* ---- refused by name --------------------------------------------------------------------------------------------- */

#define REFUSED(X)                                                                                                     \
    X("previous_response_id", "no responses are stored: send the whole conversation as input")                         \
    X("conversation", "no conversations are stored: send the whole conversation as input")                             \
    X("prompt", "no prompts are stored: send its text as instructions and input")                                      \
    X("context_management", "the input is never shortened: leave it out")                                              \
    X("moderation", "there is no moderation model: leave it out")                                                      \
    X("image", "images are not supported: leave it out")                                                               \
    X("prompt_cache_options", "every prompt is looked up in the user's own cache: leave it out")                       \
    X("background_options", "nothing runs in the background: leave it out")                                            \
    X("messages", "a response has input")                                                                              \
    X("max_tokens", "a response has max_output_tokens")                                                                \
    X("max_completion_tokens", "a response has max_output_tokens")                                                     \
    X("n_predict", "a response has max_output_tokens")                                                                 \
    X("response_format", "a response has text.format")                                                                 \
    X("verbosity", "a response has text.verbosity")                                                                    \
    X("reasoning_effort", "a response has reasoning.effort")                                                           \
    X("logprobs", "a response has include: [\"message.output_text.logprobs\"]")                                        \
    X("n", "a response has one answer")                                                                                \
    X("n_cmpl", "a response has one answer")                                                                           \
    X("n_probs", "a response has top_logprobs")                                                                        \
    X("return_tokens", "a response has texts: leave it out")                                                           \
    X("reasoning_format", "thinking is an item of its own: leave it out")                                              \
    X("split", "thinking and calls are items of their own: leave it out")                                              \
    X("add_generation_prompt", "a response begins a new answer: leave it out")                                         \
    X("continue_final_message", "a response begins a new answer: POST /v1/chat/completions can continue one")

DEFINE_REFUSED_FIELDS(REFUSED)

/* ---- everything -------------------------------------------------------------------------------------------------- */

static int settle(ResponseRequest *request, ApiError *error) {
    GenerationRequest *generation = &request->generation;

    if (request->with_logprobs)
        generation->options.logprobs = request->top_logprobs;
    else if (request->top_logprobs)
        return api_error_field(error, "top_logprobs", "top_logprobs needs include: [\"message.output_text.logprobs\"]");
    /* The names that the client knows. */
    generation->names.logprobs = "top_logprobs";
    if (generation->json.reasoning_effort) {
        generation->names.kwargs = "reasoning.effort";
        generation->names.thinking = "reasoning.effort";
    }
    return 0;
}

int response_request_new(ResponseRequest **requestp, json_t *body, ApiError *error) {
    static const FieldTable tables[] = { { fields, ARRAY_LEN(fields) }, { refused, ARRAY_LEN(refused) } };
    const json_t *input = json_object_get(body, "input");
    GenerationRequest *generation = generation_request_new(sizeof(ResponseRequest), body);
    int r;

    if (!generation)
        return api_error_no_memory(error);
    generation->names.messages = "input";
    generation->names.max_tokens = "max_output_tokens";
    if (!input || json_is_null(input))
        r = api_error_field(error, "input", "input is missing: a string, or an array of items");
    else
        r = generation_fields_read(generation,
                                   GENERATION_FIELDS_COMMON | GENERATION_FIELDS_CONSTRAINT | GENERATION_FIELDS_CHAT,
                                   tables, ARRAY_LEN(tables), error);
    if (!r)
        r = settle((ResponseRequest *)generation, error);
    if (r)
        generation_request_free(generation);
    else
        *requestp = (ResponseRequest *)generation;
    return r;
}

/* ---- what a response repeats ------------------------------------------------------------------------------------- */

json_t *response_request_echo(const ResponseRequest *request) {
    const json_t *body = request->generation.body;
    json_t *echo = json_pack(
        "{sb, sn, sn, sn, s{}, sb, sn, sn, s{sn, sn}, sn, ss, sb, sn, s{s{ss}, ss}, ss, s[], si, sn, ss, sn}",
        "background", 0, "instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls", 1,
        "previous_response_id", "prompt_cache_key", "reasoning", "effort", "summary", "safety_identifier",
        "service_tier", "default", "store", 0, "temperature", "text", "format", "type", "text", "verbosity", "medium",
        "tool_choice", "auto", "tools", "top_logprobs", 0, "top_p", "truncation", "disabled", "user");
    const char *name;
    json_t *normal, *value, *next;
    void *entry;
    int r = 0;

    json_object_foreach_safe(echo, entry, name, normal) {
        value = json_object_get(body, name);
        if (!value || json_is_null(value) || !strcmp(name, "service_tier"))
            continue;
        next = json_copy(value); /* shallow: its members are shared with the body */
        if (!next || (json_is_object(normal) && json_object_update_missing(next, normal)) ||
            json_object_set_new(echo, name, next))
            r = -1;
    }
    if (!r)
        return echo;
    json_decref(echo);
    return NULL;
}
