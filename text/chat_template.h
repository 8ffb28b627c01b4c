// SPDX-License-Identifier: Apache-2.0
/* Chat templates, recognised from the file's own template text: messages to prompt tokens. */
#ifndef COORDGEN_TEXT_CHAT_TEMPLATE_H
#define COORDGEN_TEXT_CHAT_TEMPLATE_H

#include "text/chat_format.h"
#include "text/tokenizer.h"

enum {
    CHAT_E_ROLE = 1,        /* a role or an order of roles that the template does not have */
    CHAT_E_NO_TEMPLATE = 2, /* the model has no template that is known: use a raw prompt */
};

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
    char default_system[1024]; /* ChatML: system text when no message has one; "": none is added */
    bool adds_bos;             /* the template itself begins with BOS */
    /* Llama 3: 3.1 and later always have a system turn that opens with two dates; "": none */
    char today_date[32];
    /* Mistral: details that differ between the versions of the format */
    bool mistral_space_before_inst;  /* " [INST]": v1 */
    bool mistral_space_after_inst;   /* "[INST] text": all but the Tekken versions */
    bool mistral_space_before_close; /* "text [/INST]": v1 and older */
    bool mistral_space_before_answer;
    bool mistral_space_after_answer; /* after EOS: the first version */
    bool mistral_system_marks;       /* v7: [SYSTEM_PROMPT] */
    bool mistral_system_last;        /* v3: the system text goes before the last user text, not the first */
    bool mistral_trims_answers;      /* v3 */
    bool has_template;               /* the file has one, known or not */
} ChatTemplate;

void chat_template_init(ChatTemplate *chat, const GgufFile *file);
/* The same from the template's text. */
void chat_template_parse(ChatTemplate *chat, const char *text, size_t len_bytes);
/* Marks become control tokens, message texts never do. With the generation prompt at the end; appended to list. */
int chat_template_encode(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatMessage *messages,
                         size_t n_messages, TokenList *list, ErrText *err);
/* The same as text, for showing and for tests. */
int chat_template_render(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatMessage *messages,
                         size_t n_messages, StrBuf *text, ErrText *err);

#endif
