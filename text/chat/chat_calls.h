// SPDX-License-Identifier: Apache-2.0
/* How a chat template takes calls of tools, and messages that take the place of those that it would drop. */
#ifndef COORDGEN_TEXT_CHAT_CALLS_H
#define COORDGEN_TEXT_CHAT_CALLS_H

#include "base/strings/str_buf.h"
#include "text/chat/call_formats.h"
#include "text/chat/call_tools.h"
#include "text/chat/chat_message.h"

/* What was found out once by rendering small conversations. */
typedef struct ChatCalls {
    CallEvidence evidence;
    bool as_text;         /* arguments of calls are given as text */
    bool drops_calls;     /* calls in messages are left out */
    bool drops_results;   /* messages of tools are left out or refused */
    bool drops_system;    /* system messages are left out or refused */
    bool tools_in_system; /* tools are read from the system message, as JSON text (Phi-4-mini) */
} ChatCalls;

/* Messages for a template; all zero: there are none. */
typedef struct ChatRewriting {
    ChatMessage *messages; /* [n]; each is a copy */
    size_t n;
    char *tools; /* JSON text for the system message; NULL: none */
} ChatRewriting;

/* A small conversation to be rendered. */
typedef struct ChatProbe {
    const ChatMessage *messages;
    size_t n_messages;
    const char *tools; /* JSON; NULL: none */
    bool as_text;      /* arguments of calls are given as text */
} ChatProbe;

/* Renders a probe with the template. 0, -errno; other conditions: the template refuses it. */
typedef int ChatProbeFn(const void *chat, const ChatProbe *probe, StrBuf *text);

/* Finds out how a template takes calls. reads_tools: it names them. 0 or -ENOMEM. */
int chat_calls_probe(ChatCalls *calls, bool reads_tools, ChatProbeFn *fn, const void *chat);

/* Whether the messages or tools of a request have to be rewritten. */
bool chat_calls_rewrites(const ChatCalls *calls, const CallShape *shape, const ChatMessage *messages, size_t n,
                         bool offers_tools);
/* Rewrites what the template would drop: calls become text in the model's format, messages of tools become the user's,
 * and with the generic format the tools are described in the system message. tools: JSON; NULL: none.
 * 0; CALL_E_TOOLS with a text; -ENOMEM. chat_rewriting_deinit() is due in any case. */
int chat_calls_rewrite(const ChatCalls *calls, const CallShape *shape, const ChatMessage *messages, size_t n,
                       const char *tools, size_t tools_bytes, ChatRewriting *to, ErrText *err);
void chat_rewriting_deinit(ChatRewriting *rewriting);

#endif
