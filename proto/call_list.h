// SPDX-License-Identifier: Apache-2.0
/* Calls of tools while they arrive, on both ends of the wire: each begins with its id and name, then its arguments
 * grow. */
#ifndef COORDGEN_PROTO_CALL_LIST_H
#define COORDGEN_PROTO_CALL_LIST_H

#include "base/strings/str_buf.h"

typedef struct ListedCall {
    char *id, *name;
    StrBuf arguments;
} ListedCall;

typedef struct CallList { /* zero-initialised it is empty */
    ListedCall *calls;    /* [n] */
    size_t n, room;
} CallList;

/* Adds a call without arguments; the texts are copied. NULL: no memory. */
ListedCall *call_list_begin(CallList *list, const char *id, const char *name);
/* Returns the call that was added last; NULL: there is none. */
ListedCall *call_list_last(const CallList *list);
/* Returns a call's arguments so far, which are the list's. */
const char *call_list_arguments(const CallList *list, size_t i);
void call_list_deinit(CallList *list);

#endif
