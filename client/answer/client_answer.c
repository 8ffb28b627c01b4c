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

static int begin_call(ClientAnswer *answer, const Coordgen__V1__ToolCallDelta *delta) {
    ClientCall *call;

    if (delta->index != answer->n_calls || answer->n_calls == CALLS_MAX)
        return CLIENT_ANSWER_E_CALL;
    if (answer->n_calls == answer->calls_room) {
        const size_t room = answer->calls_room ? 2 * answer->calls_room : 4;
        ClientCall *calls = reallocarray(answer->calls, room, sizeof(*calls));

        if (!calls)
            return CLIENT_ANSWER_E_MEMORY;
        answer->calls = calls;
        answer->calls_room = room;
    }
    call = &answer->calls[answer->n_calls++];
    *call = (ClientCall){ .name = strdup(delta->name), .id = strdup(delta->id ? delta->id : "") };
    return call->name && call->id ? 0 : CLIENT_ANSWER_E_MEMORY;
}

static int add_call(ClientAnswer *answer, const Coordgen__V1__ToolCallDelta *delta, CoordgenCallDelta *call) {
    ClientCall *to;
    int r = delta->name ? begin_call(answer, delta) : 0;

    if (r)
        return r;
    if (!answer->n_calls || delta->index != answer->n_calls - 1)
        return CLIENT_ANSWER_E_CALL;
    to = &answer->calls[answer->n_calls - 1];
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
    CoordgenToolCall *list = answer->n_calls ? calloc(answer->n_calls, sizeof(*list)) : NULL;

    *failedp = answer->n_calls && !list;
    for (size_t i = 0; list && i < answer->n_calls; i++)
        list[i] = (CoordgenToolCall){
            .id = answer->calls[i].id,
            .name = answer->calls[i].name,
            .arguments = answer->calls[i].arguments.data ? answer->calls[i].arguments.data : "",
        };
    return list;
}

void client_answer_deinit(ClientAnswer *answer) {
    str_buf_deinit(&answer->text);
    str_buf_deinit(&answer->reasoning);
    for (size_t i = 0; i < answer->n_calls; i++) {
        free(answer->calls[i].id);
        free(answer->calls[i].name);
        str_buf_deinit(&answer->calls[i].arguments);
    }
    free(answer->calls);
    *answer = (ClientAnswer){ 0 };
}
