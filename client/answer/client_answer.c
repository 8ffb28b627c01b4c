// SPDX-License-Identifier: Apache-2.0
#include "client/answer/client_answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/strings/utf8.h"

#define CALLS_MAX 4096 /* more than fit any context */

/* Adds text to a part of the answer; *textp is where it stands. */
static int add_text(StrBuf *part, const ProtobufCBinaryData *text, const char **textp) {
    const size_t from_bytes = part->len_bytes;

    if (!utf8_is_valid(text->data, text->len))
        return CLIENT_ANSWER_E_TEXT;
    str_buf_append(part, text->data ? (const char *)text->data : "", text->len);
    if (str_buf_failed(part))
        return CLIENT_ANSWER_E_MEMORY;
    *textp = part->data ? part->data + from_bytes : "";
    return 0;
}

static int add_call(ClientAnswer *answer, const Coordgen__V1__ToolCallDelta *delta, CoordgenCallDelta *call) {
    ListedCall *to;

    if (delta->name && (delta->index != answer->calls.n || answer->calls.n == CALLS_MAX))
        return CLIENT_ANSWER_E_CALL;
    if (delta->name && !call_list_begin(&answer->calls, delta->id ? delta->id : "", delta->name))
        return CLIENT_ANSWER_E_MEMORY;
    to = call_list_last(&answer->calls);
    if (!to || delta->index != answer->calls.n - 1)
        return CLIENT_ANSWER_E_CALL;
    *call = (CoordgenCallDelta){ .index = delta->index, .arguments_bytes = delta->arguments.len };
    if (delta->name) {
        call->name = to->name;
        call->id = to->id;
    }
    return add_text(&to->arguments, &delta->arguments, &call->arguments);
}

int client_answer_add(ClientAnswer *answer, const Coordgen__V1__GenerateDelta *delta, CoordgenEvent *event,
                      CoordgenCallDelta *call) {
    const bool is_reasoning = delta->part == COORDGEN__V1__ANSWER_PART__ANSWER_PART_REASONING;
    int r = add_text(is_reasoning ? &answer->reasoning : &answer->text, &delta->text, &event->text);

    event->part = delta->part ? (CoordgenPart)delta->part : COORDGEN_PART_TEXT;
    event->text_bytes = delta->text.len;
    event->tokens = delta->tokens;
    event->n_tokens = delta->n_tokens;
    if (r || !delta->call)
        return r;
    event->call = call;
    return add_call(answer, delta->call, call);
}

CoordgenToolCall *client_answer_calls(const ClientAnswer *answer, bool *failedp) {
    const CallList *calls = &answer->calls;
    CoordgenToolCall *list = calls->n ? calloc(calls->n, sizeof(*list)) : NULL;

    *failedp = calls->n && !list;
    for (size_t i = 0; list && i < calls->n; i++)
        list[i] = (CoordgenToolCall){ .id = calls->calls[i].id,
                                      .name = calls->calls[i].name,
                                      .arguments = call_list_arguments(calls, i) };
    return list;
}

void client_answer_deinit(ClientAnswer *answer) {
    str_buf_deinit(&answer->text);
    str_buf_deinit(&answer->reasoning);
    call_list_deinit(&answer->calls);
    *answer = (ClientAnswer){ 0 };
}
