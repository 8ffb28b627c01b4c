// SPDX-License-Identifier: Apache-2.0
/* Chat templates turn messages into prompt tokens. The model file has them, or the administrator gives one. See
 * docs/chat-templates.md. */
#ifndef COORDGEN_TEXT_CHAT_TEMPLATE_H
#define COORDGEN_TEXT_CHAT_TEMPLATE_H

#include "base/memory/account.h"
#include "text/chat/chat_calls.h"
#include "text/chat/chat_message.h"
#include "text/chat/thinking_marks.h"
#include "text/jinja/jinja.h"
#include "text/tokenizer/tokenizer.h"

enum {
    CHAT_E_ROLE = 1,        /* no message, or an unknown role number */
    CHAT_E_NO_TEMPLATE = 2, /* the model has no template, or a template that does not parse: use a raw prompt */
    CHAT_E_REFUSED = 3,     /* the template refuses the messages, or fails with them */
    CHAT_E_TOOLS = 4,       /* tools are no JSON */
    CHAT_E_MEMORY = 5,      /* the account has no room */
    CHAT_E_TOO_LONG = 6,    /* a prompt past the tokenizer's limit */
    CHAT_E_UNUSED = 7,      /* the template ignores the tools */
    CHAT_E_DOCUMENTS = 8,   /* documents are no JSON, or the template ignores them */
    CHAT_E_KWARGS = 20,     /* kwargs are no JSON object, or the template never reads one of the names */
    CHAT_E_THINKING = 21,   /* the model has no thinking that could be limited */
    CHAT_E_CALLS = 10,      /* arguments of a call in a message are no JSON object */
};

/* How calls in messages reach a template. */
typedef enum ChatCallForm {
    CHAT_CALLS_PROBED,    /* as the template was found to take them; what it would drop is rewritten */
    CHAT_CALLS_AS_OBJECT, /* arguments are objects, and nothing is rewritten */
    CHAT_CALLS_AS_TEXT,   /* arguments are texts, and nothing is rewritten */
} ChatCallForm;

/* Whether the answer may begin with thinking. */
typedef enum ChatThinking {
    CHAT_THINKING_DEFAULT, /* as the template has it */
    CHAT_THINKING_ON,      /* the template's variable says so, if it has one; marks that are text are opened */
    CHAT_THINKING_OFF,     /* the prompt ends behind the thinking, which is empty */
} ChatThinking;

/* The values that a template is rendered with. */
typedef struct ChatInput {
    const ChatMessage *messages;
    size_t n_messages;
    const char *tools; /* JSON; NULL: none */
    size_t tools_bytes;
    const char *documents; /* JSON; NULL: none */
    size_t documents_bytes;
    ChatCallForm call_form;
    bool offers_calls;        /* the model may call the tools */
    const char *system_tools; /* JSON text that the system message gets; the module's own */
    const char *kwargs;       /* JSON object of further variables; NULL: none */
    size_t kwargs_bytes;
    ChatThinking thinking;
    bool no_generation_prompt; /* the prompt ends behind the last message, and not at the beginning of the answer */
    const char *answer_prefix; /* the beginning of the answer, behind the generation prompt; NULL: none */
    size_t answer_prefix_bytes;
    int64_t now_s;          /* time of the request in seconds since 1970, for templates that write the date */
    AccountTable *accounts; /* accounts for the memory of the rendering; NULL: none */
    AccountId account;
    ThinkingPlace *placep; /* out of an encoding: where the prompt ends; NULL: not wanted */
} ChatInput;

/* Immutable after chat_template_init(); zero-initialised it has no template. */
typedef struct ChatTemplate {
    ChatCalls calls;      /* how it takes calls of tools */
    JinjaTemplate *jinja; /* NULL: no template can be used */
    bool has_template;    /* the file has a template, or one was given */
    bool is_given;        /* the administrator gave the template */
    ErrText why;          /* the reason why a template cannot be used */
    /* The file's template "tool_use", which replaces the one above in requests that have tools. */
    JinjaTemplate *tool_jinja; /* NULL: no such template can be used */
    bool has_tool_template;
    ErrText tool_why;
    char other_names[96];   /* names of the file's other templates, with commas; nothing uses these templates */
    ThinkingPairs thinking; /* marks of thinking that the templates write */
} ChatTemplate;

typedef enum ChatTakes {
    CHAT_TAKES_TOOLS = 1u << 0,
    CHAT_TAKES_DOCUMENTS = 1u << 1,
} ChatTakes;

/* Parses the file's templates; given replaces them (NULL: none was given). A template that does not parse is no error
 * here: each chat fails with it. 0 or -ENOMEM; chat_template_deinit() is due in any case. */
int chat_template_init(ChatTemplate *chat, const GgufFile *file, const char *given, size_t given_bytes);
/* Parses a template without a file. Returns and errors are as above. */
int chat_template_parse(ChatTemplate *chat, const char *text, size_t len_bytes);
void chat_template_deinit(ChatTemplate *chat);
uint64_t chat_template_memory_bytes(const ChatTemplate *chat);
/* Bits of ChatTakes: the inputs that the templates read beside messages. */
unsigned int chat_template_takes(const ChatTemplate *chat);
/* Returns the marks of the model's thinking; without texts: it has none. */
ThinkingMarks chat_template_thinking(const ChatTemplate *chat, const Tokenizer *tokenizer);
/* Returns the format in which the model writes calls; NULL: an unknown one. */
const CallShape *chat_template_calls(const ChatTemplate *chat, const Tokenizer *tokenizer);
/* Whether JSON for tools or documents holds nothing that could be lost: an empty list or dict, or null. */
bool chat_is_empty_json(const char *text, size_t len_bytes);
/* Writes "template" with the inputs that it takes, "none", or "refused: " with the reason; then the other templates. */
void chat_template_describe(const ChatTemplate *chat, char *text, size_t room_bytes);
/* Returns the text of the template of requests without tools; NULL: none can be used. */
const char *chat_template_text(const ChatTemplate *chat, size_t *len_bytesp);
/* Appends the prompt's tokens to list. The template's own marks become control tokens, message texts never do. Tools
 * and documents that change nothing are refused. 0, CHAT_E_*, -errno; on error the list is as it was. */
int chat_template_encode(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatInput *input, TokenList *list,
                         ErrText *err);
/* Renders the text that the tokens are made of, for showing and for tests. Ignored inputs are no error. */
int chat_template_render(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatInput *input, StrBuf *text,
                         ErrText *err);

#endif
