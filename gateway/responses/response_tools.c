// SPDX-License-Identifier: Apache-2.0
#include "gateway/responses/response_tools.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/strings/utf8.h"
#include "gateway/request/generation_tools.h"

typedef struct ToolFields {
    const char *type, *name, *description;
    const json_t *parameters, *callers;
} ToolFields;

#define AT(member) offsetof(ToolFields, member)

static const Field tool_fields[] = {
    { "type", field_set_text, AT(type), 0, 0 },
    { "name", field_set_text, AT(name), 0, 0 },
    { "description", field_set_text, AT(description), 0, 0 },
    { "parameters", field_set_object, AT(parameters), 0, 0 },
    { "strict", NULL, 0, 0, 0 }, /* the arguments always fit the parameters */
    { "allowed_callers", field_set_array, AT(callers), 0, 0 },
    { "defer_loading", field_only_false, 0, 0, 0 },
    { "async", field_only_false, 0, 0, 0 },
};
static const FieldTable tool_tables[] = { { tool_fields, ARRAY_LEN(tool_fields) } };

static int refuse_type(const char *type, const char *path, ApiError *error) {
    FieldPath at;

    field_path(&at, "%s.type", path);
    if (!type)
        return api_error_field(error, at.text, "%s is missing: 'function'", at.text);
    return api_error_field(error, at.text, "%s: '%.*s' is not supported: only 'function' is, and your program calls it",
                           at.text, UTF8_PREFIX(type, 64));
}

/* Reads a tool. *madep: a new reference. */
static int read_tool(const json_t *value, const char *path, json_t **madep, ApiError *error) {
    ToolFields fields = { 0 };
    const char *type = json_string_value(json_object_get(value, "type"));
    json_t *function;
    FieldPath at;
    int r;

    if (!json_is_object(value))
        return api_error_field(error, path, "%s must be an object: a tool", path);
    if (!type || strcmp(type, "function"))
        return refuse_type(type, path, error);
    r = fields_read(value, tool_tables, ARRAY_LEN(tool_tables), &fields, path, error);
    if (r)
        return r;
    field_path(&at, "%s.name", path);
    if (!fields.name)
        return api_error_field(error, at.text, "%s is missing", at.text);
    for (size_t i = 0; i < json_array_size(fields.callers); i++)
        if (!json_is_string(json_array_get(fields.callers, i)) ||
            strcmp(json_string_value(json_array_get(fields.callers, i)), "direct")) {
            field_path(&at, "%s.allowed_callers[%zu]", path, i);
            return api_error_field(error, at.text, "%s is not supported: only 'direct' is", at.text);
        }
    function = json_pack("{ss, ss*, sO*}", "name", fields.name, "description", fields.description, "parameters",
                         fields.parameters);
    *madep = json_pack("{ss, so}", "type", "function", "function", function);
    return *madep ? 0 : api_error_no_memory(error);
}

/* Adds a tool, unless names has none of its name. names: of functions that may be called; NULL: all. */
static int add_tool(json_t *tools, const json_t *names, const json_t *value, const char *path, ApiError *error) {
    json_t *made;
    int r = read_tool(value, path, &made, error);

    if (r)
        return r;
    if (names && !json_object_get(names, json_string_value(json_object_get(value, "name"))))
        json_decref(made);
    else if (json_array_append_new(tools, made))
        return api_error_no_memory(error);
    return 0;
}

/* Reads the tools. names: of functions that may be called; NULL: all. */
static int read_tools(GenerationRequest *request, const json_t *value, const json_t *names, ApiError *error) {
    json_auto_t *tools = json_array();
    FieldPath at;
    int r = tools ? 0 : api_error_no_memory(error);

    if (!r && !json_is_array(value))
        r = api_error_field(error, "tools", "tools must be an array");
    for (size_t i = 0; !r && i < json_array_size(value); i++)
        r = add_tool(tools, names, json_array_get(value, i), field_path(&at, "tools[%zu]", i), error);
    if (r || !json_array_size(tools))
        return r;
    return owned_json(&request->owned, tools, &request->options.tools, error);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

typedef struct ChoiceFields {
    const char *type, *name, *mode;
    const json_t *tools;
} ChoiceFields;

static const Field choice_fields[] = {
    { "type", field_set_text, offsetof(ChoiceFields, type), 0, 0 },
    { "name", field_set_text, offsetof(ChoiceFields, name), 0, 0 },
    { "mode", field_set_text, offsetof(ChoiceFields, mode), 0, 0 },
    { "tools", field_set_array, offsetof(ChoiceFields, tools), 0, 0 },
};
static const FieldTable choice_tables[] = { { choice_fields, ARRAY_LEN(choice_fields) } };

/* Names of the tools: {name: null}. NULL: out of memory. */
static json_t *names_of(const json_t *tools) {
    json_t *names = json_object();
    bool ok = names;

    for (size_t i = 0; ok && i < json_array_size(tools); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(tools, i), "name"));

        ok = !name || !json_object_set_new(names, name, json_null());
    }
    if (ok)
        return names;
    json_decref(names);
    return NULL;
}

/* Reads which tools may be called. *namesp: a new reference. */
static int read_allowed(const json_t *allowed, const json_t *tools, json_t **namesp, ApiError *error) {
    json_auto_t *known = names_of(tools);
    json_auto_t *names = json_object();
    FieldPath at;

    if (!known || !names)
        return api_error_no_memory(error);
    if (!json_array_size(allowed))
        return api_error_field(error, "tool_choice.tools", "tool_choice.tools must be an array with at least one tool");
    for (size_t i = 0; i < json_array_size(allowed); i++) {
        const json_t *tool = json_array_get(allowed, i);
        const char *type = json_string_value(json_object_get(tool, "type"));
        const char *name = json_string_value(json_object_get(tool, "name"));

        field_path(&at, "tool_choice.tools[%zu]", i);
        if (!type || strcmp(type, "function"))
            return refuse_type(type, at.text, error);
        if (!name || !json_object_get(known, name))
            return api_error_field(error, at.text, "%s: no tool has the name '%.*s'", at.text,
                                   UTF8_PREFIX(name ? name : "", 64));
        if (json_object_set_new(names, name, json_null()))
            return api_error_no_memory(error);
    }
    *namesp = steal(&names);
    return 0;
}

static int read_choice(const json_t *value, ChoiceFields *fields, ApiError *error) {
    int r;

    if (!json_is_object(value))
        return api_error_field(error, "tool_choice", "tool_choice must be a string or an object");
    r = fields_read(value, choice_tables, ARRAY_LEN(choice_tables), fields, "tool_choice", error);
    if (r)
        return r;
    if (!fields->type || (strcmp(fields->type, "function") && strcmp(fields->type, "allowed_tools")))
        return api_error_field(error, "tool_choice.type",
                               "tool_choice.type: '%.*s' is not supported: function and allowed_tools are",
                               UTF8_PREFIX(fields->type ? fields->type : "", 64));
    if (!strcmp(fields->type, "function") && !fields->name)
        return api_error_field(error, "tool_choice.name", "tool_choice.name is missing");
    return 0;
}

/* Names the one function that the model must call. */
static int set_named(GenerationRequest *request, const char *name, ApiError *error) {
    if (!request->options.tools)
        return api_error_field(error, "tool_choice", "tool_choice names '%.*s', but there are no tools: send tools",
                               UTF8_PREFIX(name, 64));
    request->options.tool_choice = COORDGEN_TOOLS_NAMED;
    request->options.tool_name = name;
    return 0;
}

/* Offers only the tools that the choice lists. */
static int set_allowed(GenerationRequest *request, const json_t *tools, const json_t *choice,
                       const ChoiceFields *fields, ApiError *error) {
    json_auto_t *names = NULL;
    int r;

    if (!fields->mode || (strcmp(fields->mode, "auto") && strcmp(fields->mode, "required")))
        return api_error_field(error, "tool_choice.mode", "tool_choice.mode must be 'auto' or 'required'");
    r = read_allowed(fields->tools, tools, &names, error);
    if (!r)
        r = read_tools(request, tools, names, error);
    return r ? r : generation_set_tool_choice(request, json_object_get(choice, "mode"), error);
}

int response_tools_read(GenerationRequest *request, const json_t *tools, const json_t *choice, ApiError *error) {
    const bool has_form = choice && !json_is_string(choice); /* the choice names tools */
    ChoiceFields fields = { 0 };
    int r = has_form ? read_choice(choice, &fields, error) : 0;

    if (r)
        return r;
    if (has_form && !strcmp(fields.type, "allowed_tools"))
        return set_allowed(request, tools, choice, &fields, error);
    if (tools)
        r = read_tools(request, tools, NULL, error);
    if (r || !choice)
        return r;
    return has_form ? set_named(request, fields.name, error) : generation_set_tool_choice(request, choice, error);
}
