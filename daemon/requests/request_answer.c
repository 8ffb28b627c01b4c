// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/request_answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t kept_answer_bytes(const JobNews *news) {
    size_t bytes = news->text.len_bytes;

    for (size_t i = 0; i < news->n_marks; i++) {
        const JobCall *call = news->marks[i].call;

        if (call)
            bytes += call->arguments_bytes + (call->name ? sizeof(KeptCall) + strlen(call->name) : 0);
    }
    return bytes;
}

static bool begin_call(KeptAnswer *answer, const JobCall *call) {
    if (answer->n_calls == answer->room) {
        const size_t room = answer->room ? 2 * answer->room : 4;
        KeptCall *calls = reallocarray(answer->calls, room, sizeof(*calls));

        if (!calls)
            return false;
        answer->calls = calls;
        answer->room = room;
    }
    answer->calls[answer->n_calls++] = (KeptCall){ .id = strdup(call->id), .name = strdup(call->name) };
    return answer->calls[answer->n_calls - 1].id && answer->calls[answer->n_calls - 1].name;
}

static void add_call(KeptAnswer *answer, const JobCall *call) {
    StrBuf *arguments;

    if (call->name && !begin_call(answer, call)) {
        answer->failed = true;
        return;
    }
    if (!answer->n_calls)
        return;
    arguments = &answer->calls[answer->n_calls - 1].arguments;
    str_buf_append(arguments, call->texts, call->arguments_bytes);
    answer->failed = answer->failed || str_buf_failed(arguments);
}

void kept_answer_add(KeptAnswer *answer, const JobNews *news) {
    size_t from = 0;

    for (size_t i = 0; i < news->n_marks && !answer->failed; i++) {
        const JobMark *mark = &news->marks[i];
        StrBuf *part = mark->part == ANSWER_REASONING ? &answer->reasoning : &answer->text;

        str_buf_append(part, news->text.data ? news->text.data + from : "", mark->text_end - from);
        from = mark->text_end;
        if (mark->call)
            add_call(answer, mark->call);
        answer->failed = answer->failed || str_buf_failed(part);
    }
}

int kept_answer_message(const KeptAnswer *answer, ChatMessage *message) {
    ChatToolCall *calls = answer->n_calls ? calloc(answer->n_calls, sizeof(*calls)) : NULL;

    if (answer->failed || (answer->n_calls && !calls)) {
        free(calls);
        return err_raise(-ENOMEM);
    }
    *message = (ChatMessage){
        .role = CHAT_ROLE_ASSISTANT,
        .text = answer->text.data ? answer->text.data : "",
        .len_bytes = answer->text.len_bytes,
        .reasoning = answer->reasoning.len_bytes ? answer->reasoning.data : NULL,
        .tool_calls = calls,
        .n_tool_calls = answer->n_calls,
    };
    for (size_t i = 0; i < answer->n_calls; i++)
        calls[i] =
            (ChatToolCall){ .id = answer->calls[i].id,
                            .name = answer->calls[i].name,
                            .arguments = answer->calls[i].arguments.data ? answer->calls[i].arguments.data : "" };
    return 0;
}

bool kept_answer_is_empty(const KeptAnswer *answer) {
    return !answer->text.len_bytes && !answer->n_calls;
}

void kept_answer_deinit(KeptAnswer *answer) {
    str_buf_deinit(&answer->text);
    str_buf_deinit(&answer->reasoning);
    for (size_t i = 0; i < answer->n_calls; i++) {
        free(answer->calls[i].id);
        free(answer->calls[i].name);
        str_buf_deinit(&answer->calls[i].arguments);
    }
    free(answer->calls);
    *answer = (KeptAnswer){ 0 };
}
