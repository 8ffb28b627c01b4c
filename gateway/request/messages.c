// SPDX-License-Identifier: Apache-2.0
#include "gateway/request/messages.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/strings/str_buf.h"
#include "base/strings/utf8.h"
#include "gateway/json/field.h"

/* ---- contents ---------------------------------------------------------------------------------------------------- */

static bool is_text(const json_t *value) {
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
}

/* Refuses a part that is no text, by what it is. */
static int refuse_part(const char *type, const char *path, ApiError *error) {
    static const struct {
        const char *type, *what;
    } media[] = {
        { "image_url", "images are" }, { "input_image", "images are" }, { "image", "images are" },
        { "input_audio", "audio is" }, { "video_url", "video is" },     { "file", "files are" },
        { "input_file", "files are" },
    };

    for (size_t i = 0; i < ARRAY_LEN(media); i++)
        if (!strcmp(media[i].type, type))
            return api_error_field(error, path, "%s: %s not supported: send text", path, media[i].what);
    return api_error_field(error, path, "%s: '%.*s' is no type of a part: send text", path, UTF8_PREFIX(type, 64));
}

/* Whether a member of an answer that comes back has no effect. */
static bool is_idle(const char *name) {
    return !strcmp(name, "annotations") || !strcmp(name, "logprobs");
}

/* Finds the text of a part. Every member must be known. */
static int read_part(const json_t *part, const ContentPart *kinds, size_t n_kinds, const char *path, const char **textp,
                     ApiError *error) {
    const char *type = json_string_value(json_object_get(part, "type")), *name;
    size_t kind = 0;
    FieldPath at;
    json_t *value;

    if (!type)
        return api_error_field(error, path, "%s must be an object with a type", path);
    while (kind < n_kinds && strcmp(kinds[kind].type, type))
        kind++;
    if (kind == n_kinds)
        return refuse_part(type, path, error);
    *textp = NULL;
    json_object_foreach((json_t *)part, name, value) {
        field_path(&at, "%s.%s", path, name);
        if (!strcmp(name, kinds[kind].member)) {
            if (!is_text(value))
                return api_error_field(error, at.text, "%s must be a string without a NUL character", at.text);
            *textp = json_string_value(value);
        } else if (strcmp(name, "type") && !json_is_null(value) && !(kinds[kind].is_answer && is_idle(name)) &&
                   !(json_is_array(value) && !json_array_size(value))) { /* "annotations": [] comes back so */
            return api_error_field(error, at.text, "unknown field '%.*s'", UTF8_PREFIX(name, 64));
        }
    }
    if (!*textp)
        return api_error_field(error, path, "%s has no %s", path, kinds[kind].member);
    return 0;
}

/* Reads a content as content_read() does; between its parts stands the separator. */
static int join_content(Owned *owned, const json_t *value, const ContentPart *kinds, size_t n_kinds,
                        const char *separator, const char *path, const char **textp, ApiError *error) {
    _cleanup_(str_buf_deinit) StrBuf joined = STR_BUF_NULL;
    const char *text = "";
    FieldPath at;
    int r = 0;

    if (json_is_string(value) && is_text(value)) {
        *textp = json_string_value(value);
        return 0;
    }
    if (json_is_string(value))
        return api_error_field(error, path, "%s must not have a NUL character", path);
    if (!json_is_array(value))
        return api_error_field(error, path, "%s must be a string or an array of parts", path);
    for (size_t i = 0; !r && i < json_array_size(value); i++) {
        r = read_part(json_array_get(value, i), kinds, n_kinds, field_path(&at, "%s[%zu]", path, i), &text, error);
        if (!r && i)
            str_buf_add(&joined, separator);
        if (!r)
            str_buf_add(&joined, text);
    }
    if (r)
        return r;
    str_buf_add(&joined, "");
    *textp = owned_take(owned, str_buf_steal(&joined));
    return *textp ? 0 : api_error_no_memory(error);
}

int content_read(Owned *owned, const json_t *value, const ContentPart *kinds, size_t n_kinds, const char *path,
                 const char **textp, ApiError *error) {
    return join_content(owned, value, kinds, n_kinds, "\n", path, textp, error);
}

/* ---- calls of tools ---------------------------------------------------------------------------------------------- */

typedef struct CallFields {
    const char *id, *type;
    const json_t *function;
} CallFields;

typedef struct FunctionFields {
    const char *name;
    const json_t *arguments;
} FunctionFields;

static const Field call_fields[] = {
    { "id", field_set_text, offsetof(CallFields, id), 0, 0 },
    { "type", field_set_text, offsetof(CallFields, type), 0, 0 },
    { "function", field_set_object, offsetof(CallFields, function), 0, 0 },
    { "index", NULL, 0, 0, 0 }, /* of a stream's delta, which some clients send back */
};
static const FieldTable call_tables[] = { { call_fields, ARRAY_LEN(call_fields) } };

static const Field function_fields[] = {
    { "name", field_set_text, offsetof(FunctionFields, name), 0, 0 },
    { "arguments", field_set_any, offsetof(FunctionFields, arguments), 0, 0 },
};
static const FieldTable function_tables[] = { { function_fields, ARRAY_LEN(function_fields) } };

static int read_function(Owned *owned, const json_t *value, const char *path, CoordgenToolCall *call, ApiError *error) {
    FunctionFields fields = { 0 };
    FieldPath at;
    int r = fields_read(value, function_tables, ARRAY_LEN(function_tables), &fields, path, error);

    if (r)
        return r;
    field_path(&at, "%s.%s", path, fields.name ? "arguments" : "name");
    if (!fields.name)
        return api_error_field(error, at.text, "%s is missing", at.text);
    call->name = fields.name;
    call->arguments = "{}";
    if (!fields.arguments)
        return 0;
    if (json_is_object(fields.arguments)) /* as llama-server takes them */
        return owned_json(owned, fields.arguments, &call->arguments, error);
    if (!is_text(fields.arguments))
        return api_error_field(error, at.text, "%s must be the text of a JSON object", at.text);
    if (json_string_length(fields.arguments)) /* some clients send "" for none */
        call->arguments = json_string_value(fields.arguments);
    return 0;
}

static int read_call(Owned *owned, const json_t *value, const char *path, CoordgenToolCall *call, ApiError *error) {
    CallFields fields = { 0 };
    FieldPath at;
    int r;

    if (!json_is_object(value))
        return api_error_field(error, path, "%s must be an object", path);
    r = fields_read(value, call_tables, ARRAY_LEN(call_tables), &fields, path, error);
    if (r)
        return r;
    if (fields.type && strcmp(fields.type, "function")) {
        field_path(&at, "%s.type", path);
        return api_error_field(error, at.text, "%s: '%.*s' is not supported: only 'function' is", at.text,
                               UTF8_PREFIX(fields.type, 64));
    }
    field_path(&at, "%s.function", path);
    if (!fields.function)
        return api_error_field(error, at.text, "%s is missing", at.text);
    call->id = fields.id;
    return read_function(owned, fields.function, at.text, call, error);
}

static int read_calls(Owned *owned, const json_t *array, const char *path, CoordgenMessage *message, ApiError *error) {
    const size_t n = json_array_size(array);
    CoordgenToolCall *calls = owned_array(owned, n, sizeof(*calls));
    FieldPath at;
    int r = 0;

    if (!calls)
        return api_error_no_memory(error);
    for (size_t i = 0; !r && i < n; i++)
        r = read_call(owned, json_array_get(array, i), field_path(&at, "%s.tool_calls[%zu]", path, i), &calls[i],
                      error);
    message->tool_calls = n ? calls : NULL;
    message->n_tool_calls = n;
    return r;
}

/* Takes the one call of OpenAI's older interface. */
static int read_function_call(Owned *owned, const json_t *value, const char *path, CoordgenMessage *message,
                              ApiError *error) {
    CoordgenToolCall *call;
    FieldPath at;

    field_path(&at, "%s.function_call", path);
    if (message->n_tool_calls)
        return api_error_field(error, at.text, "%s stands beside tool_calls: leave one of the two out", at.text);
    call = owned_array(owned, 1, sizeof(*call));
    if (!call)
        return api_error_no_memory(error);
    message->tool_calls = call;
    message->n_tool_calls = 1;
    return read_function(owned, value, at.text, call, error);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

typedef struct MessageFields {
    const char *role, *name, *tool_call_id;
    const char *reasoning;
    const char *refusal;
    const json_t *content, *tool_calls, *function_call;
    const json_t *annotations, *audio;
} MessageFields;

#define AT(field) offsetof(MessageFields, field)

static const Field message_fields[] = {
    { "role", field_set_text, AT(role), 0, 0 },
    { "content", field_set_any, AT(content), 0, 0 },
    { "name", field_set_text, AT(name), 0, 0 },
    { "tool_calls", field_set_array, AT(tool_calls), 0, 0 },
    { "tool_call_id", field_set_text, AT(tool_call_id), 0, 0 },
    { "reasoning_content", field_set_text, AT(reasoning), 0, 0 },
    { "reasoning", field_set_text, AT(reasoning), 0, 0 },
    { "refusal", field_set_text, AT(refusal), 0, 0 },
    { "function_call", field_set_object, AT(function_call), 0, 0 },
    { "annotations", field_set_array, AT(annotations), 0, 0 }, /* of an answer that comes back: has no effect */
    { "audio", field_set_any, AT(audio), 0, 0 },
};
static const FieldTable message_tables[] = { { message_fields, ARRAY_LEN(message_fields) } };

static const ContentPart content_parts[] = { { "text", "text", false }, { "refusal", "refusal", false } };

static int read_role(const char *text, const char *path, CoordgenRole *rolep, ApiError *error) {
    static const struct {
        const char *name;
        CoordgenRole role;
    } roles[] = {
        { "system", COORDGEN_ROLE_SYSTEM }, { "developer", COORDGEN_ROLE_SYSTEM },
        { "user", COORDGEN_ROLE_USER },     { "assistant", COORDGEN_ROLE_ASSISTANT },
        { "tool", COORDGEN_ROLE_TOOL },     { "function", COORDGEN_ROLE_TOOL },
    };
    FieldPath at;

    field_path(&at, "%s.role", path);
    for (size_t i = 0; text && i < ARRAY_LEN(roles); i++)
        if (!strcmp(roles[i].name, text)) {
            *rolep = roles[i].role;
            return 0;
        }
    if (text)
        return api_error_field(error, at.text,
                               "%s: '%.*s' is none of system, developer, user, assistant, tool, function", at.text,
                               UTF8_PREFIX(text, 64));
    return api_error_field(error, at.text, "%s is missing: one of system, developer, user, assistant, tool, function",
                           at.text);
}

/* Finds the text of a message. Only an assistant's message may lack it, beside its calls. Parts of an answer that is to
 * be continued become paragraphs, as at llama-server. */
static int read_text(Owned *owned, const MessageFields *fields, const char *path, bool is_last,
                     CoordgenMessage *message, ApiError *error) {
    const char *separator = is_last && message->role == COORDGEN_ROLE_ASSISTANT ? "\n\n" : "\n";
    FieldPath at;

    field_path(&at, "%s.content", path);
    if (fields->content)
        return join_content(owned, fields->content, content_parts, ARRAY_LEN(content_parts), separator, at.text,
                            &message->text, error);
    if (message->n_tool_calls)
        return 0;
    if (!fields->refusal)
        return api_error_field(error, at.text, "%s is missing", at.text);
    message->text = fields->refusal;
    return 0;
}

static int read_message(MessageList *messages, const json_t *value, const char *path, bool is_last, ApiError *error) {
    CoordgenMessage message = { 0 };
    MessageFields fields = { 0 };
    FieldPath at;
    int r;

    if (!json_is_object(value))
        return api_error_field(error, path, "%s must be an object", path);
    r = fields_read(value, message_tables, ARRAY_LEN(message_tables), &fields, path, error);
    if (!r)
        r = read_role(fields.role, path, &message.role, error);
    if (r)
        return r;
    if (fields.audio) {
        field_path(&at, "%s.audio", path);
        return api_error_field(error, at.text, "%s: audio is not supported: send text", at.text);
    }
    message.name = fields.name;
    message.tool_call_id = fields.tool_call_id;
    message.reasoning = fields.reasoning;
    if (fields.tool_calls)
        r = read_calls(&messages->owned, fields.tool_calls, path, &message, error);
    if (!r && fields.function_call)
        r = read_function_call(&messages->owned, fields.function_call, path, &message, error);
    if (!r)
        r = read_text(&messages->owned, &fields, path, is_last, &message, error);
    return r ? r : messages_add(messages, &message, error);
}

int messages_add(MessageList *messages, const CoordgenMessage *message, ApiError *error) {
    if (messages->n == messages->room) {
        const size_t room = MAX(messages->room * 2, (size_t)16);
        CoordgenMessage *list = realloc(messages->list, room * sizeof(*list));

        if (!list)
            return api_error_no_memory(error);
        messages->list = list;
        messages->room = room;
    }
    messages->list[messages->n++] = *message;
    return 0;
}

int messages_read(MessageList *messages, const json_t *array, const char *path, ApiError *error) {
    const size_t n = json_array_size(array);
    FieldPath at;
    int r = 0;

    if (!json_is_array(array) || !n)
        return api_error_field(error, path, "%s must be an array with at least one message", path);
    for (size_t i = 0; !r && i < n; i++)
        r = read_message(messages, json_array_get(array, i), field_path(&at, "%s[%zu]", path, i), i + 1 == n, error);
    return r;
}

void messages_deinit(MessageList *messages) {
    owned_deinit(&messages->owned);
    free(messages->list);
    *messages = (MessageList){ 0 };
}
