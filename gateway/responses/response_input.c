// SPDX-License-Identifier: Apache-2.0
#include "gateway/responses/response_input.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/min_max.h"
#include "base/strings/str_buf.h"
#include "base/strings/utf8.h"
#include "gateway/json/field.h"

/* The assistant's turn that items add to: thinking, text and calls are one message, as the service's templates and
 * sessions have them. */
typedef struct OpenTurn {
    bool has_text;
    StrBuf text, reasoning;
    CoordgenToolCall *calls;
    size_t n_calls, room;
} OpenTurn;

typedef struct Reader {
    MessageList *messages;
    OpenTurn turn;
    json_t *call_ids; /* {call_id: null} of the calls so far */
} Reader;

/* ---- the assistant's turn ---------------------------------------------------------------------------------------- */

static void clear(OpenTurn *turn) {
    str_buf_deinit(&turn->text);
    str_buf_deinit(&turn->reasoning);
    free(turn->calls);
    *turn = (OpenTurn){ 0 };
}

/* Gives the text of a buffer to the list. NULL: out of memory. */
static const char *own(MessageList *messages, StrBuf *text) {
    str_buf_add(text, "");
    return owned_take(&messages->owned, str_buf_steal(text));
}

/* Ends the turn. Thinking that led to nothing is no message. */
static int end_turn(Reader *reader, ApiError *error) {
    OpenTurn *turn = &reader->turn;
    CoordgenMessage message = { .role = COORDGEN_ROLE_ASSISTANT, .n_tool_calls = turn->n_calls };
    const bool has_reasoning = turn->reasoning.len_bytes;
    bool ok = true;
    int r;

    if (turn->has_text || turn->n_calls) {
        if (turn->has_text)
            ok = (message.text = own(reader->messages, &turn->text));
        if (ok && has_reasoning)
            ok = (message.reasoning = own(reader->messages, &turn->reasoning));
        if (ok && turn->n_calls)
            ok = (message.tool_calls = owned_take(&reader->messages->owned, steal(&turn->calls)));
        r = ok ? messages_add(reader->messages, &message, error) : api_error_no_memory(error);
        if (r)
            return r;
    }
    clear(turn);
    return 0;
}

/* Opens a turn for text or thinking, or goes on with the one that is open. Text behind text is a turn of its own, but
 * behind a call, text belongs to the call's turn: nothing else came between. */
static int continue_turn(Reader *reader, ApiError *error) {
    const OpenTurn *turn = &reader->turn;

    return turn->has_text && !turn->n_calls ? end_turn(reader, error) : 0;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

typedef struct ItemFields {
    const char *type, *role, *status, *phase;
    const char *call_id, *name, *arguments;
    const json_t *content, *output, *summary;
} ItemFields;

#define AT(member) offsetof(ItemFields, member)

/* Where items come back as an answer had them, these members say nothing new. */
#define ANSWERED                                                                                                       \
    { "type", field_set_text, AT(type), 0, 0 }, { "id", NULL, 0, 0, 0 }, {                                             \
        "status", field_set_text, AT(status), 0, 0                                                                     \
    }

static int refuse_member(const Field *field, const json_t *value, void *target, const char *path, ApiError *error) {
    return api_error_field(error, path, "%s is not supported: leave it out", path);
}

static const Field message_fields[] = {
    ANSWERED,
    { "role", field_set_text, AT(role), 0, 0 },
    { "content", field_set_any, AT(content), 0, 0 },
    { "phase", field_set_text, AT(phase), 0, 0 },
};
static const Field call_fields[] = {
    ANSWERED,
    { "call_id", field_set_text, AT(call_id), 0, 0 },
    { "name", field_set_text, AT(name), 0, 0 },
    { "arguments", field_set_text, AT(arguments), 0, 0 },
    /* These come back as null from programs that write every member they know, "async_" in Python. */
    { "namespace", refuse_member, 0, 0, 0 },
    { "caller", refuse_member, 0, 0, 0 },
    { "async", field_only_false, 0, 0, 0 },
    { "async_", field_only_false, 0, 0, 0 },
};
static const Field output_fields[] = {
    ANSWERED,
    { "call_id", field_set_text, AT(call_id), 0, 0 },
    { "name", field_set_text, AT(name), 0, 0 },
    { "output", field_set_any, AT(output), 0, 0 },
    { "namespace", refuse_member, 0, 0, 0 },
    { "caller", refuse_member, 0, 0, 0 },
};
static const Field reasoning_fields[] = {
    ANSWERED,
    { "summary", field_set_array, AT(summary), 0, 0 }, /* is no thinking: has no effect */
    { "content", field_set_any, AT(content), 0, 0 },
    { "encrypted_content", NULL, 0, 0, 0 }, /* of another service: has no effect */
};

static int missing(const char *path, const char *member, ApiError *error) {
    FieldPath at;

    field_path(&at, "%s.%s", path, member);
    return api_error_field(error, at.text, "%s is missing", at.text);
}

static int take_message(Reader *reader, const ItemFields *fields, const char *path, ApiError *error) {
    static const struct {
        const char *name;
        CoordgenRole role;
    } roles[] = {
        { "system", COORDGEN_ROLE_SYSTEM },
        { "developer", COORDGEN_ROLE_SYSTEM },
        { "user", COORDGEN_ROLE_USER },
        { "assistant", COORDGEN_ROLE_ASSISTANT },
    };
    static const ContentPart parts[] = { { "input_text", "text", false },
                                         { "output_text", "text", true },
                                         { "refusal", "refusal", false } };
    CoordgenMessage message = { 0 };
    FieldPath at;
    int r;

    for (size_t i = 0; fields->role && i < ARRAY_LEN(roles); i++)
        if (!strcmp(roles[i].name, fields->role))
            message.role = roles[i].role;
    field_path(&at, "%s.role", path);
    if (!fields->role)
        return missing(path, "role", error);
    if (!message.role)
        return api_error_field(error, at.text, "%s: '%.*s' is none of system, developer, user, assistant%s", at.text,
                               UTF8_PREFIX(fields->role, 64),
                               strcmp(fields->role, "tool") ? "" : ": send an item of the type function_call_output");
    if (!fields->content)
        return missing(path, "content", error);
    /* Only an answer of the assistant has parts of the other types. */
    r = content_read(&reader->messages->owned, fields->content, parts,
                     message.role == COORDGEN_ROLE_ASSISTANT ? ARRAY_LEN(parts) : 1,
                     field_path(&at, "%s.content", path), &message.text, error);
    if (r)
        return r;
    if (message.role != COORDGEN_ROLE_ASSISTANT) {
        r = end_turn(reader, error);
        return r ? r : messages_add(reader->messages, &message, error);
    }
    r = continue_turn(reader, error);
    str_buf_add(&reader->turn.text, message.text);
    reader->turn.has_text = true;
    return r;
}

static int take_reasoning(Reader *reader, const ItemFields *fields, const char *path, ApiError *error) {
    static const ContentPart parts[] = { { "reasoning_text", "text", false } };
    const char *text;
    FieldPath at;
    int r;

    if (!fields->content) /* another service keeps its thinking to itself */
        return 0;
    r = content_read(&reader->messages->owned, fields->content, parts, ARRAY_LEN(parts),
                     field_path(&at, "%s.content", path), &text, error);
    if (!r)
        r = continue_turn(reader, error);
    if (!r)
        str_buf_add(&reader->turn.reasoning, text);
    return r;
}

/* Checks that the arguments of a call are what templates need. */
static int check_arguments(const char *text, const char *path, ApiError *error) {
    json_auto_t *arguments = *text ? json_loads(text, 0, NULL) : json_object(); /* some clients send "" for none */
    FieldPath at;

    field_path(&at, "%s.arguments", path);
    return json_is_object(arguments) ? 0
                                     : api_error_field(error, at.text, "%s must be the text of a JSON object", at.text);
}

static int take_call(Reader *reader, const ItemFields *fields, const char *path, ApiError *error) {
    OpenTurn *turn = &reader->turn;
    int r;

    if (!fields->call_id || !fields->name || !fields->arguments)
        return missing(path, !fields->call_id ? "call_id" : !fields->name ? "name" : "arguments", error);
    r = check_arguments(fields->arguments, path, error);
    if (r)
        return r;
    if (turn->n_calls == turn->room) {
        const size_t room = MAX(turn->room * 2, (size_t)4);
        CoordgenToolCall *calls = realloc(turn->calls, room * sizeof(*calls));

        if (!calls)
            return api_error_no_memory(error);
        turn->calls = calls;
        turn->room = room;
    }
    turn->calls[turn->n_calls++] = (CoordgenToolCall){
        .id = fields->call_id,
        .name = fields->name,
        .arguments = *fields->arguments ? fields->arguments : "{}",
    };
    return json_object_set_new(reader->call_ids, fields->call_id, json_null()) ? api_error_no_memory(error) : 0;
}

static int take_output(Reader *reader, const ItemFields *fields, const char *path, ApiError *error) {
    static const ContentPart parts[] = { { "input_text", "text", false }, { "output_text", "text", true } };
    CoordgenMessage message = { .role = COORDGEN_ROLE_TOOL, .tool_call_id = fields->call_id, .name = fields->name };
    FieldPath at;
    int r;

    if (!fields->call_id || !fields->output)
        return missing(path, !fields->call_id ? "call_id" : "output", error);
    field_path(&at, "%s.call_id", path);
    if (!json_object_get(reader->call_ids, fields->call_id))
        return api_error_field(error, at.text,
                               "%s: no function_call before it has the call_id '%.*s': send the call, too", at.text,
                               UTF8_PREFIX(fields->call_id, 64));
    r = content_read(&reader->messages->owned, fields->output, parts, ARRAY_LEN(parts),
                     field_path(&at, "%s.output", path), &message.text, error);
    if (!r)
        r = end_turn(reader, error);
    return r ? r : messages_add(reader->messages, &message, error);
}

typedef struct ItemKind {
    const char *type;
    FieldTable fields;
    int (*take)(Reader *reader, const ItemFields *fields, const char *path, ApiError *error);
} ItemKind;

static const ItemKind kinds[] = {
    { "message", { message_fields, ARRAY_LEN(message_fields) }, take_message },
    { "function_call", { call_fields, ARRAY_LEN(call_fields) }, take_call },
    { "function_call_output", { output_fields, ARRAY_LEN(output_fields) }, take_output },
    { "reasoning", { reasoning_fields, ARRAY_LEN(reasoning_fields) }, take_reasoning },
};

static int refuse_type(const char *type, const char *path, ApiError *error) {
    FieldPath at;

    field_path(&at, "%s.type", path);
    if (!strcmp(type, "item_reference"))
        return api_error_field(error, at.text,
                               "%s: no items are stored, so none can be referred to: send the item itself", at.text);
    return api_error_field(error, at.text,
                           "%s: '%.*s' is not supported: items are message, function_call, function_call_output and "
                           "reasoning",
                           at.text, UTF8_PREFIX(type, 64));
}

static int read_item(Reader *reader, const json_t *value, const char *path, ApiError *error) {
    const json_t *type = json_object_get(value, "type");
    ItemFields fields = { 0 };
    FieldPath at;
    int r;

    if (!json_is_object(value))
        return api_error_field(error, path, "%s must be an object: an item", path);
    if (type && !json_is_null(type) && !json_is_string(type))
        return api_error_field(error, field_path(&at, "%s.type", path), "%s.type must be a string", path);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (!strcmp(kinds[i].type, json_is_string(type) ? json_string_value(type) : "message")) {
            r = fields_read(value, &kinds[i].fields, 1, &fields, path, error);
            return r ? r : kinds[i].take(reader, &fields, path, error);
        }
    return refuse_type(json_string_value(type), path, error);
}

/* ---- the input --------------------------------------------------------------------------------------------------- */

static int add_text(MessageList *messages, CoordgenRole role, const char *text, ApiError *error) {
    return messages_add(messages, &(CoordgenMessage){ .role = role, .text = text }, error);
}

static int read_items(MessageList *messages, const json_t *input, ApiError *error) {
    Reader reader = { .messages = messages, .call_ids = json_object() };
    FieldPath at;
    int r = reader.call_ids ? 0 : api_error_no_memory(error);

    for (size_t i = 0; !r && i < json_array_size(input); i++)
        r = read_item(&reader, json_array_get(input, i), field_path(&at, "input[%zu]", i), error);
    if (!r)
        r = end_turn(&reader, error);
    clear(&reader.turn);
    json_decref(reader.call_ids);
    return r;
}

int response_input_read(MessageList *messages, const char *instructions, const json_t *input, ApiError *error) {
    const char *text = NULL;
    int r = instructions ? add_text(messages, COORDGEN_ROLE_SYSTEM, instructions, error) : 0;

    if (r || !input)
        return r;
    if (json_is_array(input))
        return read_items(messages, input, error);
    if (!json_is_string(input))
        return api_error_field(error, "input", "input must be a string or an array of items");
    r = field_set_text(NULL, input, &text, "input", error);
    return r ? r : add_text(messages, COORDGEN_ROLE_USER, text, error);
}
