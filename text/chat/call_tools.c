// SPDX-License-Identifier: Apache-2.0
#include "text/chat/call_tools.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings/printable.h"

/* Whether a name can stand in every format of calls without quotes and escapes. */
static bool is_name(const char *name, size_t len_bytes) {
    if (!len_bytes || len_bytes > CALL_TOOLS_NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < len_bytes; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_' && name[i] != '-' && name[i] != '.')
            return false;
    return true;
}

static int read_tool(CallTools *tools, size_t i, ErrText *err) {
    const json_t *entry = json_array_get(tools->json, i), *inner = json_object_get(entry, "function");
    const json_t *function = inner ? inner : entry, *name = json_object_get(function, "name"),
                 *parameters = json_object_get(function, "parameters");
    const char *path = inner ? ".function" : "";
    CallTool *tool = &tools->tools[i];

    if (!json_is_object(function) || !json_is_string(name))
        return err_set(err, CALL_E_TOOLS,
                       "tools[%zu]%s: no name: a tool is {\"type\": \"function\", \"function\": {\"name\": ..., "
                       "\"description\": ..., \"parameters\": a JSON schema}}",
                       i, path);
    if (!is_name(json_string_value(name), json_string_length(name)))
        return err_set(err, CALL_E_TOOLS,
                       "tools[%zu]%s.name: '%.*s' is no name of 1 to %d letters, digits, '_', '-' and '.'", i, path,
                       UTF8_PREFIX(json_string_value(name), 64), CALL_TOOLS_NAME_BYTES_MAX);
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return err_set(err, CALL_E_TOOLS, "tools[%zu]%s.parameters: a JSON schema of an object is needed", i, path);
    for (size_t k = 0; k < i; k++)
        if (!strcmp(tools->tools[k].name, json_string_value(name)))
            return err_set(err, CALL_E_TOOLS, "tools[%zu]%s.name: '%.*s' is the name of tools[%zu], too", i, path,
                           UTF8_PREFIX(json_string_value(name), 64), k);
    *tool = (CallTool){ .name = json_string_value(name),
                        .name_bytes = json_string_length(name),
                        .description = json_string_value(json_object_get(function, "description")),
                        .parameters = json_is_object(parameters) ? parameters : NULL };
    return 0;
}

static int check_choice(CallTools *tools, const CallChoice *choice, ErrText *err) {
    tools->choice = (CallChoice){ .mode = choice->mode, .is_single = choice->is_single };
    if (choice->mode != CALL_MODE_NAMED)
        return tools->n || choice->mode != CALL_MODE_REQUIRED
                   ? 0
                   : err_set(err, CALL_E_CHOICE, "tool_choice: a call is required, but there are no tools");
    for (size_t i = 0; i < tools->n; i++)
        if (choice->name && !strcmp(tools->tools[i].name, choice->name))
            tools->choice.name = tools->tools[i].name;
    return tools->choice.name ? 0
                              : err_set(err, CALL_E_CHOICE, "tool_choice: no tool has the name '%.*s'",
                                        UTF8_PREFIX(choice->name ? choice->name : "", 64));
}

int call_tools_new(CallTools **toolsp, const char *json, size_t len_bytes, const CallChoice *choice, ErrText *err) {
    _cleanup_(call_tools_freep) CallTools *tools = calloc(1, sizeof(*tools));
    json_error_t why;
    int r = 0;

    if (!tools)
        return err_raise(-ENOMEM);
    tools->json = json_loadb(json, len_bytes, JSON_REJECT_DUPLICATES, &why);
    if (!tools->json)
        return err_set(err, CALL_E_TOOLS, "tools is no JSON: byte %d: %s", why.position > 0 ? why.position - 1 : 0,
                       why.text);
    if (!json_is_array(tools->json))
        return err_set(err, CALL_E_TOOLS, "tools: a list of tools is needed (tool_choice none takes any JSON)");
    tools->n = json_array_size(tools->json);
    if (tools->n > CALL_TOOLS_MAX)
        return err_set(err, CALL_E_TOOLS, "tools: %zu tools: at most %d", tools->n, CALL_TOOLS_MAX);
    tools->tools = calloc(tools->n + 1, sizeof(*tools->tools));
    if (!tools->tools)
        return err_raise(-ENOMEM);
    for (size_t i = 0; i < tools->n && !r; i++)
        r = read_tool(tools, i, err);
    if (!r)
        r = check_choice(tools, choice, err);
    if (!r)
        *toolsp = steal(&tools);
    return r;
}

CallTools *call_tools_free(CallTools *tools) {
    if (!tools)
        return NULL;
    json_decref(tools->json);
    free(tools->tools);
    free(tools);
    return NULL;
}

bool call_tools_allows(const CallTools *tools, const CallTool *tool) {
    return tools->choice.mode != CALL_MODE_NONE && (!tools->choice.name || !strcmp(tools->choice.name, tool->name));
}

const CallTool *call_tools_find(const CallTools *tools, const char *name, size_t name_bytes) {
    for (size_t i = 0; i < tools->n; i++)
        if (tools->tools[i].name_bytes == name_bytes && !memcmp(tools->tools[i].name, name, name_bytes))
            return call_tools_allows(tools, &tools->tools[i]) ? &tools->tools[i] : NULL;
    return NULL;
}
