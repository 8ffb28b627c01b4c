// SPDX-License-Identifier: Apache-2.0
/* Chat templates: messages to prompt tokens, by the templates that the model file has, or that the administrator gives.
 * See docs/chat-templates.md. */
#ifndef COORDGEN_TEXT_CHAT_TEMPLATE_H
#define COORDGEN_TEXT_CHAT_TEMPLATE_H

#include "base/memory/account.h"
#include "text/jinja/jinja.h"
#include "text/tokenizer/tokenizer.h"

enum {
    CHAT_E_ROLE = 1,        /* no message, or a role number that there is not */
    CHAT_E_NO_TEMPLATE = 2, /* the model has no template, or one that does not parse: use a raw prompt */
    CHAT_E_REFUSED = 3,     /* the template refuses the messages, or cannot be done with them */
    CHAT_E_TOOLS = 4,       /* tools that are no JSON */
    CHAT_E_MEMORY = 5,      /* no room on the account */
    CHAT_E_TOO_LONG = 6,    /* a prompt past the tokenizer's limit */
    CHAT_E_UNUSED = 7,      /* tools that the template ignores */
    CHAT_E_DOCUMENTS = 8,   /* documents that are no JSON, or that the template ignores */
};

typedef enum ChatRole {
    CHAT_ROLE_SYSTEM,
    CHAT_ROLE_USER,
    CHAT_ROLE_ASSISTANT,
    CHAT_ROLE_TOOL,
    _CHAT_ROLE_N,
} ChatRole;

typedef struct ChatMessage {
    ChatRole role;
    const char *text;
    size_t len_bytes;
} ChatMessage;

/* What a template is rendered with. */
typedef struct ChatInput {
    const ChatMessage *messages;
    size_t n_messages;
    const char *tools; /* JSON; NULL: none */
    size_t tools_bytes;
    const char *documents; /* likewise */
    size_t documents_bytes;
    bool no_generation_prompt; /* the prompt ends behind the last message, not where the answer begins */
    int64_t now_s;             /* the time of the request, for templates that write the date: seconds since 1970 */
    AccountTable *accounts;    /* for the memory that it takes meanwhile; NULL: on none */
    AccountId account;
} ChatInput;

/* Zero: none. Immutable after chat_template_init(). */
typedef struct ChatTemplate {
    JinjaTemplate *jinja; /* NULL: none that can be used */
    bool has_template;    /* the file has one, or one was given */
    bool is_given;        /* by the administrator */
    ErrText why;          /* one that is there cannot be used */
    /* The file's template of the name "tool_use", which stands for the one above where a request has tools. */
    JinjaTemplate *tool_jinja; /* NULL: none that can be used */
    bool has_tool_template;
    ErrText tool_why;
    char other_names[96]; /* of the file's other templates, with commas; nothing uses them */
} ChatTemplate;

typedef enum ChatTakes {
    CHAT_TAKES_TOOLS = 1u << 0,
    CHAT_TAKES_DOCUMENTS = 1u << 1,
} ChatTakes;

/* The file's; given: another one instead (NULL: none was given). One that does not parse is no error here, but of each
 * chat. 0 or -ENOMEM; chat_template_deinit() is due in any case. */
int chat_template_init(ChatTemplate *chat, const GgufFile *file, const char *given, size_t given_bytes);
/* Of a text alone. */
int chat_template_parse(ChatTemplate *chat, const char *text, size_t len_bytes);
void chat_template_deinit(ChatTemplate *chat);
uint64_t chat_template_memory_bytes(const ChatTemplate *chat);
/* ChatTakes: what the templates read beside messages. */
unsigned int chat_template_takes(const ChatTemplate *chat);
/* "template" and what it takes, "none", or "refused: " with the reason; then what there is of other templates. */
void chat_template_describe(const ChatTemplate *chat, char *text, size_t room_bytes);
const char *chat_role_name(ChatRole role);
/* Its own marks become control tokens, message texts never do. Tools and documents that change nothing are refused.
 * Appended to list. 0, CHAT_E_*, -errno; on error the list is as it was. */
int chat_template_encode(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatInput *input, TokenList *list,
                         ErrText *err);
/* Renders the text that the tokens are made of, for showing and for tests, whatever it ignores. */
int chat_template_render(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatInput *input, StrBuf *text,
                         ErrText *err);

#endif
