// SPDX-License-Identifier: Apache-2.0
#include "text/chat/chat_values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings/printable.h"

int chat_values_init(ChatValues *values, const ChatMessage *messages, size_t n) {
    size_t n_calls = 0;

    *values = (ChatValues){ 0 };
    for (size_t i = 0; i < n; i++)
        n_calls += messages[i].n_tool_calls;
    if (!n_calls)
        return 0;
    values->ids = calloc(n_calls, sizeof(*values->ids));
    return values->ids ? 0 : err_raise(-ENOMEM);
}

void chat_values_deinit(ChatValues *values) {
    free(values->ids);
    *values = (ChatValues){ 0 };
}

static void put_text(JinjaRendering *rendering, JinjaSlot dict, const char *key, const char *text) {
    if (text)
        jinja_put_text(rendering, jinja_dict_place(rendering, dict, key), text, strlen(text), false);
}

/* Makes the id of the next call: "call00001", the same in each rendering of the conversation. */
static const char *next_id(ChatValues *values) {
    char *id = values->ids[values->n_ids++];

    snprintf(id, CHAT_ID_BYTES + 1, "call%05u", (unsigned int)values->n_ids % 100000);
    return id;
}

static int put_arguments(const ChatValues *values, JinjaRendering *rendering, JinjaSlot slot, const ChatToolCall *call,
                         ErrText *err) {
    const char *text = call->arguments && *call->arguments ? call->arguments : "{}";
    const char *front = text + strspn(text, " \t\r\n");
    char what[128];
    int r;

    snprintf(what, sizeof(what), "the arguments of a call of '%.*s'", UTF8_PREFIX(call->name, 64));
    if (*front != '{')
        return err_set(err, JINJA_E_RUN, "%s are no JSON object", what);
    /* The text is read in any case, so that a template that takes it as text gets nothing else than JSON. */
    r = jinja_put_json(rendering, slot, what, text, strlen(text), err);
    if (!r && values->calls_as_text)
        jinja_put_text(rendering, slot, text, strlen(text), false);
    return r;
}

static int put_calls(ChatValues *values, JinjaRendering *rendering, JinjaSlot message, const ChatMessage *from,
                     ErrText *err) {
    JinjaSlot list = jinja_dict_place(rendering, message, "tool_calls");
    int r = 0;

    values->caller = from;
    values->first_id = values->n_ids;
    values->n_results = 0;
    jinja_put_list(rendering, list, from->n_tool_calls);
    for (size_t i = 0; i < from->n_tool_calls && !r; i++) {
        const ChatToolCall *call = &from->tool_calls[i];
        const char *made = next_id(values);
        JinjaSlot place = jinja_list_place(rendering, list, i), function;

        jinja_put_dict(rendering, place);
        put_text(rendering, place, "id", call->id ? call->id : made);
        put_text(rendering, place, "type", "function");
        function = jinja_dict_place(rendering, place, "function");
        jinja_put_dict(rendering, function);
        put_text(rendering, function, "name", call->name);
        r = put_arguments(values, rendering, jinja_dict_place(rendering, function, "arguments"), call, err);
    }
    return r;
}

/* Finds the call that a tool's message answers: the one with its id, else the next one of the last message with calls.
 * SIZE_MAX: there is none. */
static size_t answered_call(ChatValues *values, const ChatMessage *message) {
    const ChatMessage *caller = values->caller;
    const size_t next = values->n_results++;

    if (!caller)
        return SIZE_MAX;
    for (size_t i = 0; message->tool_call_id && i < caller->n_tool_calls; i++)
        if (caller->tool_calls[i].id && !strcmp(caller->tool_calls[i].id, message->tool_call_id))
            return i;
    return !message->tool_call_id && next < caller->n_tool_calls ? next : SIZE_MAX;
}

static void put_result(ChatValues *values, JinjaRendering *rendering, JinjaSlot place, const ChatMessage *from) {
    const size_t at = answered_call(values, from);
    const ChatToolCall *call = at == SIZE_MAX ? NULL : &values->caller->tool_calls[at];
    const char *id = from->tool_call_id;

    if (!id && call)
        id = call->id ? call->id : values->ids[values->first_id + at];
    put_text(rendering, place, "tool_call_id", id);
    put_text(rendering, place, "name", from->name ? from->name : call ? call->name : NULL);
}

int chat_values_put(ChatValues *values, JinjaRendering *rendering, const ChatMessage *messages, size_t n,
                    ErrText *err) {
    JinjaSlot list = jinja_variable(rendering, "messages"), message;
    int r = 0;

    jinja_put_list(rendering, list, n);
    for (size_t i = 0; i < n && !r; i++) {
        const ChatMessage *from = &messages[i];
        const char *role = chat_role_name(from->role);

        message = jinja_list_place(rendering, list, i);
        jinja_put_dict(rendering, message);
        /* Roles are a few fixed words and count as the template's own, so that '<|' + role + '|>' is a mark. */
        jinja_put_text(rendering, jinja_dict_place(rendering, message, "role"), role, strlen(role), true);
        jinja_put_text(rendering, jinja_dict_place(rendering, message, "content"), from->text ? from->text : "",
                       from->len_bytes, false);
        if (from->role == CHAT_ROLE_SYSTEM && values->system_tools) {
            put_text(rendering, message, "tools", values->system_tools);
            values->system_tools = NULL;
        }
        put_text(rendering, message, "reasoning_content", from->reasoning);
        put_text(rendering, message, "reasoning", from->reasoning);
        put_text(rendering, message, "thinking", from->reasoning);
        if (from->role == CHAT_ROLE_TOOL)
            put_result(values, rendering, message, from);
        else
            put_text(rendering, message, "name", from->name);
        if (from->n_tool_calls)
            r = put_calls(values, rendering, message, from, err);
        if (r == JINJA_E_RUN)
            err_prefix(err, "message %zu", i + 1);
    }
    return r;
}
