// SPDX-License-Identifier: Apache-2.0
#include "gateway/request/generation_tools.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/strings/utf8.h"

enum {
    TOOLS_MAX = 256, /* of a request, as the service has it */
};

static const char *type_of(const json_t *entry) {
    const char *type = json_string_value(json_object_get(entry, "type"));

    return type ? type : "";
}

static const char *name_of(const json_t *entry) {
    return json_string_value(json_object_get(json_object_get(entry, "function"), "name"));
}

/* Checks what is OpenAI's alone; the service checks names and schemas. */
static int check_tool(const json_t *tool, const char *path, ApiError *error) {
    static const Field fields[] = {
        { "type", NULL, 0, 0, 0 },
        { "function", NULL, 0, 0, 0 },
    };
    static const Field function_fields[] = {
        { "name", NULL, 0, 0, 0 },
        { "description", NULL, 0, 0, 0 },
        { "parameters", NULL, 0, 0, 0 },
        { "strict", NULL, 0, 0, 0 }, /* arguments always fit the schema */
    };
    static const FieldTable table = { fields, ARRAY_LEN(fields) },
                            function_table = { function_fields, ARRAY_LEN(function_fields) };
    FieldPath at;
    int r;

    if (!json_is_object(tool))
        return api_error_field(error, path, "%s must be an object", path);
    if (strcmp(type_of(tool), "function")) {
        field_path(&at, "%s.type", path);
        return api_error_field(error, at.text, "%s: '%.*s' is not supported: only 'function' is", at.text,
                               UTF8_PREFIX(type_of(tool), 64));
    }
    r = fields_read(tool, &table, 1, NULL, path, error);
    field_path(&at, "%s.function", path);
    if (!r && !json_is_object(json_object_get(tool, "function")))
        r = api_error_field(error, at.text, "%s must be an object", at.text);
    return r ? r : fields_read(json_object_get(tool, "function"), &function_table, 1, NULL, at.text, error);
}

int generation_set_tools(GenerationRequest *request, const json_t *tools, ApiError *error) {
    FieldPath at;
    int r = 0;

    if (!json_is_array(tools))
        return api_error_field(error, "tools", "tools must be an array");
    if (!json_array_size(tools))
        return 0;
    if (json_array_size(tools) > TOOLS_MAX)
        return api_error_field(error, "tools", "tools has more than %d tools", TOOLS_MAX);
    for (size_t i = 0; !r && i < json_array_size(tools); i++)
        r = check_tool(json_array_get(tools, i), field_path(&at, "tools[%zu]", i), error);
    return r ? r : owned_json(&request->owned, tools, &request->options.tools, error);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static int set_mode(GenerationRequest *request, const char *mode, const char *path, ApiError *error) {
    static const struct {
        const char *name;
        CoordgenToolChoice choice;
    } modes[] = {
        { "none", COORDGEN_TOOLS_NONE },
        { "auto", COORDGEN_TOOLS_AUTO },
        { "required", COORDGEN_TOOLS_REQUIRED },
    };
    size_t i = 0;

    while (i < ARRAY_LEN(modes) && strcmp(modes[i].name, mode))
        i++;
    if (i == ARRAY_LEN(modes))
        return api_error_field(error, path, "%s: '%.*s' is none of none, auto, required", path, UTF8_PREFIX(mode, 64));
    if (request->options.tools)
        request->options.tool_choice = modes[i].choice;
    else if (modes[i].choice == COORDGEN_TOOLS_REQUIRED)
        return api_error_field(error, path, "%s is required, but there are no tools: send tools with it", path);
    return 0;
}

/* Whether a tool has the name; the service has not checked yet that it has one at all. */
static bool is_named(const json_t *tool, const char *name) {
    const char *own = name_of(tool);

    return own && !strcmp(own, name);
}

/* Offers only the tools that the choice lists. */
static int set_allowed(GenerationRequest *request, const json_t *choice, ApiError *error) {
    static const char path[] = "tool_choice.allowed_tools";
    const json_t *allowed = json_object_get(choice, "allowed_tools"), *list = json_object_get(allowed, "tools");
    const char *mode = json_string_value(json_object_get(allowed, "mode"));
    json_t *tools = json_array();
    int r = 0;

    if (!mode || !json_array_size(list))
        r = api_error_field(error, path, "%s needs a mode, and an array of tools", path);
    else if (json_array_size(list) > TOOLS_MAX)
        r = api_error_field(error, path, "%s has more than %d tools", path, TOOLS_MAX);
    for (size_t i = 0; !r && i < json_array_size(list); i++) {
        const char *name = name_of(json_array_get(list, i));
        json_t *found = NULL;

        for (size_t k = 0; name && !found && k < json_array_size(request->json.tools); k++)
            if (is_named(json_array_get(request->json.tools, k), name))
                found = json_array_get(request->json.tools, k);
        if (!found)
            r = api_error_field(error, path, "%s.tools[%zu] is none of the tools", path, i);
        else if (json_array_append(tools, found))
            r = api_error_no_memory(error);
    }
    if (!r)
        r = owned_json(&request->owned, tools, &request->options.tools, error);
    json_decref(tools);
    return r ? r : set_mode(request, mode, "tool_choice.allowed_tools.mode", error);
}

int generation_set_tool_choice(GenerationRequest *request, const json_t *choice, ApiError *error) {
    const char *name = name_of(choice);

    if (json_is_string(choice))
        return set_mode(request, json_string_value(choice), "tool_choice", error);
    if (!request->options.tools)
        return api_error_field(error, "tool_choice", "tool_choice names tools, but there are none: send tools with it");
    if (!strcmp(type_of(choice), "allowed_tools"))
        return set_allowed(request, choice, error);
    if (strcmp(type_of(choice), "function") || !name)
        return api_error_field(
            error, "tool_choice",
            "tool_choice must be none, auto, required, or {\"type\": \"function\", \"function\": {\"name\": ...}}");
    request->options.tool_choice = COORDGEN_TOOLS_NAMED;
    request->options.tool_name = name;
    return 0;
}
