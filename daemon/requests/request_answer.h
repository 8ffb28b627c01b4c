// SPDX-License-Identifier: Apache-2.0
/* What a session keeps of an answer: its text, its thinking, and its calls of tools. If a request has several answers,
 * the session keeps the first one. */
#ifndef COORDGEN_DAEMON_REQUEST_ANSWER_H
#define COORDGEN_DAEMON_REQUEST_ANSWER_H

#include "base/strings/str_buf.h"
#include "daemon/engine/job.h"
#include "proto/call_list.h"

typedef struct KeptAnswer { /* zero-initialised it is empty */
    StrBuf text, reasoning;
    CallList calls;
    bool failed; /* something had no room: the answer cannot be kept */
} KeptAnswer;

/* Counts the bytes of the first answer's texts that news bring. */
size_t kept_answer_bytes(const JobNews *news);
/* Adds what news bring of the first answer. Without memory the answer has failed. */
void kept_answer_add(KeptAnswer *answer, const JobNews *news);
/* Makes the assistant's message of the answer, whose texts stay the answer's. The caller frees message->tool_calls.
 * 0 or -ENOMEM. */
int kept_answer_message(const KeptAnswer *answer, ChatMessage *message);
bool kept_answer_is_empty(const KeptAnswer *answer); /* neither text nor calls */
void kept_answer_deinit(KeptAnswer *answer);

#endif
