// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/request_answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t kept_answer_bytes(const JobNews *news) {
    size_t bytes = 0, from = 0;

    for (size_t i = 0; i < news->n_marks; i++) {
        const JobMark *mark = &news->marks[i];
        const JobCall *call = mark->choice ? NULL : mark->call;

        bytes += mark->choice ? 0 : mark->text_end - from;
        from = mark->text_end;
        if (call)
            bytes += call->arguments_bytes + (call->name ? sizeof(ListedCall) + strlen(call->name) : 0);
    }
    return bytes;
}

static void add_call(KeptAnswer *answer, const JobCall *call) {
    ListedCall *to;

    if (call->name && !call_list_begin(&answer->calls, call->id, call->name)) {
        answer->failed = true;
        return;
    }
    to = call_list_last(&answer->calls);
    if (!to)
        return;
    str_buf_append(&to->arguments, call->texts, call->arguments_bytes);
    answer->failed = answer->failed || str_buf_failed(&to->arguments);
}

void kept_answer_add(KeptAnswer *answer, const JobNews *news) {
    size_t from = 0;

    for (size_t i = 0; i < news->n_marks && !answer->failed; i++) {
        const JobMark *mark = &news->marks[i];
        const size_t begin = from;
        StrBuf *part = mark->part == ANSWER_REASONING ? &answer->reasoning : &answer->text;

        from = mark->text_end;
        if (mark->choice)
            continue;
        str_buf_append(part, news->text.data ? news->text.data + begin : "", from - begin);
        if (mark->call)
            add_call(answer, mark->call);
        answer->failed = answer->failed || str_buf_failed(part);
    }
}

int kept_answer_message(const KeptAnswer *answer, ChatMessage *message) {
    const CallList *kept = &answer->calls;
    ChatToolCall *calls = kept->n ? calloc(kept->n, sizeof(*calls)) : NULL;

    if (answer->failed || (kept->n && !calls)) {
        free(calls);
        return err_raise(-ENOMEM);
    }
    *message = (ChatMessage){
        .role = CHAT_ROLE_ASSISTANT,
        .text = answer->text.data ? answer->text.data : "",
        .len_bytes = answer->text.len_bytes,
        .reasoning = answer->reasoning.len_bytes ? answer->reasoning.data : NULL,
        .tool_calls = calls,
        .n_tool_calls = kept->n,
    };
    for (size_t i = 0; i < kept->n; i++)
        calls[i] = (ChatToolCall){ .id = kept->calls[i].id,
                                   .name = kept->calls[i].name,
                                   .arguments = call_list_arguments(kept, i) };
    return 0;
}

bool kept_answer_is_empty(const KeptAnswer *answer) {
    return !answer->text.len_bytes && !answer->calls.n;
}

void kept_answer_deinit(KeptAnswer *answer) {
    str_buf_deinit(&answer->text);
    str_buf_deinit(&answer->reasoning);
    call_list_deinit(&answer->calls);
    *answer = (KeptAnswer){ 0 };
}
