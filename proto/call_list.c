// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "proto/call_list.h"

#include <stdlib.h>
#include <string.h>

ListedCall *call_list_begin(CallList *list, const char *id, const char *name) {
    ListedCall *call;

    if (list->n == list->room) {
        const size_t room = list->room ? 2 * list->room : 4;
        ListedCall *calls = reallocarray(list->calls, room, sizeof(*calls));

        if (!calls)
            return NULL;
        list->calls = calls;
        list->room = room;
    }
    call = &list->calls[list->n++];
    *call = (ListedCall){ .id = strdup(id), .name = strdup(name) };
    return call->id && call->name ? call : NULL;
}

ListedCall *call_list_last(const CallList *list) {
    return list->n ? &list->calls[list->n - 1] : NULL;
}

const char *call_list_arguments(const CallList *list, size_t i) {
    const StrBuf *arguments = &list->calls[i].arguments;

    return arguments->data ? arguments->data : "";
}

void call_list_deinit(CallList *list) {
    for (size_t i = 0; i < list->n; i++) {
        free(list->calls[i].id);
        free(list->calls[i].name);
        str_buf_deinit(&list->calls[i].arguments);
    }
    free(list->calls);
    *list = (CallList){ 0 };
}
