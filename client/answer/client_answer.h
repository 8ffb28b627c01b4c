// SPDX-License-Identifier: Apache-2.0
/* An answer while it arrives: text, thinking, and calls of tools. */
#ifndef COORDGEN_CLIENT_CLIENT_ANSWER_H
#define COORDGEN_CLIENT_CLIENT_ANSWER_H

#include "base/strings/str_buf.h"
#include "client/coordgen-client.h"
#include "proto/call_list.h"
#include "proto/coordgen.pb-c.h"

typedef struct ClientAnswer { /* zero-initialised it is empty */
    StrBuf text;
    StrBuf reasoning;
    CallList calls;
} ClientAnswer;

enum {
    CLIENT_ANSWER_E_TEXT = 1,   /* text that is not valid UTF-8 */
    CLIENT_ANSWER_E_CALL = 2,   /* a piece of a call that does not follow the pieces before */
    CLIENT_ANSWER_E_MEMORY = 3, /* out of memory */
};

/* Adds a delta, and fills in what the event tells of it; *call is the room for event->call. The event's pointers are
 * valid until the next delta. 0, CLIENT_ANSWER_E_*. */
int client_answer_add(ClientAnswer *answer, const Coordgen__V1__GenerateDelta *delta, CoordgenEvent *event,
                      CoordgenCallDelta *call);
/* Makes the list of whole calls, whose texts belong to the answer. The caller frees the list; NULL: no calls, or out of
 * memory, which *failedp says. */
CoordgenToolCall *client_answer_calls(const ClientAnswer *answer, bool *failedp);
void client_answer_deinit(ClientAnswer *answer);

#endif
