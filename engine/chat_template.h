/* Chat templates, recognised from the file's own template text: messages to prompt tokens. */
#ifndef COORDGEN_ENGINE_CHAT_TEMPLATE_H
#define COORDGEN_ENGINE_CHAT_TEMPLATE_H

#include "engine/tokenizer.h"

enum {
    CHAT_E_ROLE = 1,   /* a role or an order of roles that the template does not have */
    CHAT_E_NO_TEMPLATE = 2, /* the model has no template that is known: use a raw prompt */
};

typedef enum ChatFormat {
    CHAT_FORMAT_NONE, /* base model */
    CHAT_FORMAT_CHATML,
    CHAT_FORMAT_LLAMA3,
    CHAT_FORMAT_MISTRAL,
    CHAT_FORMAT_GEMMA,
} ChatFormat;

typedef enum ChatRole {
    CHAT_ROLE_SYSTEM,
    CHAT_ROLE_USER,
    CHAT_ROLE_ASSISTANT,
} ChatRole;

typedef struct ChatMessage {
    ChatRole role;
    const char *text;
    size_t len_bytes;
} ChatMessage;

typedef struct ChatTemplate {
    ChatFormat format;
    char default_system[256]; /* "" : none is added */
    bool mistral_space_after_marks; /* details that differ between the versions of one format */
} ChatTemplate;

void chat_template_init(ChatTemplate *chat, const GgufFile *file);
const char *chat_format_name(ChatFormat format);
/* Marks become control tokens, message texts never do. With the generation prompt at the end; appended to list. */
int chat_template_encode(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatMessage *messages,
                         size_t n_messages, TokenList *list, ErrText *err);
/* The same as text, for showing and for tests. */
int chat_template_render(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatMessage *messages,
                         size_t n_messages, StrBuf *text, ErrText *err);

#endif
