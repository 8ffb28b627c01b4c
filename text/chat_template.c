// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "text/chat_template.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"

/* --- recognition ------------------------------------------------------------------------------------------------ */

typedef struct TemplateText {
    const char *data;
    size_t len_bytes;
} TemplateText;

static const char *find(TemplateText text, const char *needle) {
    return memmem(text.data, text.len_bytes, needle, strlen(needle));
}

static bool contains(TemplateText text, const char *needle) {
    return find(text, needle) != NULL;
}

/* Copies a string literal's text up to stop, escapes resolved. False when the literal ends first or is too long. */
static bool copy_literal(TemplateText text, const char *stop, char *out, size_t out_bytes) {
    size_t stop_bytes = strlen(stop), n = 0;

    for (size_t i = 0; i + stop_bytes <= text.len_bytes && n + 1 < out_bytes; i++) {
        char c = text.data[i];

        if (!memcmp(text.data + i, stop, stop_bytes)) {
            out[n] = 0;
            return true;
        }
        if (c == '\'' || c == '"' || c == '{' || c == '}' || !c)
            return false;
        if (c == '\\' && i + 1 < text.len_bytes) {
            c = text.data[++i];
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
        }
        out[n++] = c;
    }
    return false;
}

/* The system text that a ChatML template writes by itself: a literal "<|im_start|>system\n...<|im_end|>". */
static void find_default_system(ChatTemplate *chat, TemplateText text) {
    static const char opening[] = "<|im_start|>system";
    const char *end = text.data + text.len_bytes, *at;
    char found[sizeof(chat->default_system)];

    while ((at = find(text, opening))) {
        at += strlen(opening);
        text = (TemplateText){ at, (size_t)(end - at) };
        /* The line break is a real one or the two characters of its escape. */
        if (copy_literal(text, "<|im_end|>", found, sizeof(found)) && found[0] == '\n' && found[1]) {
            snprintf(chat->default_system, sizeof(chat->default_system), "%s", found + 1);
            return;
        }
    }
}

/* Llama 3.1 and later put two dates before the system text. The day of the request would make the same request give
 * other tokens tomorrow; so we write the date that the template itself falls back to where there is no clock
 * ("26 Jul 2024" in Meta's files). */
static void find_today_date(ChatTemplate *chat, TemplateText text) {
    static const char opening[] = "set date_string = \"";
    const char *at = find(text, opening);

    snprintf(chat->today_date, sizeof(chat->today_date), "26 Jul 2024");
    if (at) {
        char found[sizeof(chat->today_date)];

        at += strlen(opening);
        text = (TemplateText){ at, text.len_bytes - (size_t)(at - text.data) };
        if (copy_literal(text, "\"", found, sizeof(found)) && found[0])
            snprintf(chat->today_date, sizeof(chat->today_date), "%s", found);
    }
}

static void find_mistral_version(ChatTemplate *chat, TemplateText text) {
    chat->mistral_system_marks = contains(text, "[SYSTEM_PROMPT]");
    chat->mistral_space_before_inst = contains(text, " [INST]");
    chat->mistral_space_after_inst = contains(text, "[INST] ");
    chat->mistral_space_before_close = contains(text, " [/INST]");
    chat->mistral_space_before_answer = contains(text, "' ' + message") || contains(text, "\" \" + message");
    chat->mistral_space_after_answer = contains(text, "eos_token + ' '") || contains(text, "eos_token + \" \"");
    chat->mistral_trims_answers = contains(text, "message[\"content\"]|trim + eos_token") ||
                                  contains(text, "message['content']|trim + eos_token") ||
                                  contains(text, "message['content'] | trim + eos_token");
    chat->mistral_system_last = contains(text, "loop.last and system_message is defined");
}

/* chat_template_parse() - the format, and what differs between the templates that have it */
void chat_template_parse(ChatTemplate *chat, const char *text, size_t len_bytes) {
    TemplateText template = { text, len_bytes };

    *chat = (ChatTemplate){ .format = chat_format_of(text, len_bytes), .has_template = true };
    if (chat->format == CHAT_FORMAT_CHATML)
        find_default_system(chat, template);
    else if (chat->format == CHAT_FORMAT_LLAMA3 && contains(template, "Cutting Knowledge Date"))
        find_today_date(chat, template);
    else if (chat->format == CHAT_FORMAT_MISTRAL)
        find_mistral_version(chat, template);
    chat->adds_bos = contains(template, "bos_token") || chat->format == CHAT_FORMAT_GEMMA ||
                     chat->format == CHAT_FORMAT_LLAMA3 || chat->format == CHAT_FORMAT_MISTRAL;
}

void chat_template_init(ChatTemplate *chat, const GgufFile *file) {
    GgufString text;

    *chat = (ChatTemplate){ .format = CHAT_FORMAT_NONE };
    if (!gguf_key(file, "tokenizer.chat_template"))
        return;
    if (gguf_get_string(file, "tokenizer.chat_template", &text, NULL)) {
        log_warn(TOPIC_ENGINE, "%s: key \"tokenizer.chat_template\" is no string: only raw prompts can be used",
                 gguf_path(file));
        return;
    }
    chat_template_parse(chat, text.len_bytes ? text.data : "", text.len_bytes);
    if (chat->format == CHAT_FORMAT_NONE)
        log_warn(TOPIC_ENGINE,
                 "%s: the chat template is of no known format (ChatML, Llama 3, Mistral, Gemma): only raw "
                 "prompts can be used",
                 gguf_path(file));
}

/* --- output: text, or tokens ------------------------------------------------------------------------------------ */

/* Marks that are special tokens of the model become those; everything between two of them is one fragment, tokenized
 * as a user's text, so that no content can become a control token, which all marks of the format are by vocab_init().
 * A failure stays and is told at the end. */
typedef struct Sink {
    const Tokenizer *tokenizer;
    StrBuf *text;    /* rendering; NULL: encoding */
    TokenList *list; /* encoding */
    StrBuf fragment; /* encoding: what waits for the next mark */
    int failure;
    ErrText *err;
} Sink;

static void sink_text(Sink *sink, const char *data, size_t len_bytes) {
    str_buf_append(sink->text ? sink->text : &sink->fragment, data, len_bytes);
}

static void sink_add(Sink *sink, const char *text) {
    sink_text(sink, text, strlen(text));
}

static void sink_flush(Sink *sink) {
    if (sink->failure || !sink->fragment.len_bytes)
        return;
    if (str_buf_failed(&sink->fragment))
        sink->failure = err_raise(-ENOMEM);
    else
        sink->failure =
            tokenizer_encode(sink->tokenizer, sink->fragment.data, sink->fragment.len_bytes, 0, sink->list, sink->err);
    str_buf_truncate(&sink->fragment, 0);
}

static void sink_id(Sink *sink, uint32_t id) {
    if (sink->text) {
        if (!sink->failure)
            sink->failure = tokenizer_piece(sink->tokenizer, id, true, sink->text);
        return;
    }
    sink_flush(sink);
    if (!sink->failure)
        sink->failure = token_list_add(sink->list, id);
}

static void sink_mark(Sink *sink, const char *mark) {
    uint32_t id = tokenizer_find(sink->tokenizer, mark);

    if (!sink->text && id != TOKEN_NONE && tokenizer_is_mark(sink->tokenizer, id))
        sink_id(sink, id);
    else
        sink_add(sink, mark);
}

/* BOS where the template writes it. A tokenizer that adds one by itself gets it too, but it is no part of the text. */
static void sink_bos(Sink *sink, const ChatTemplate *chat) {
    uint32_t bos = tokenizer_bos(sink->tokenizer);

    if (bos != TOKEN_NONE && (chat->adds_bos || (!sink->text && tokenizer_adds_bos(sink->tokenizer))))
        sink_id(sink, bos);
}

static void sink_eos(Sink *sink) {
    uint32_t eos = tokenizer_eos(sink->tokenizer);

    if (eos != TOKEN_NONE)
        sink_id(sink, eos);
    else
        sink_mark(sink, "</s>");
}

/* --- formats ---------------------------------------------------------------------------------------------------- */

/* Python's str.strip(), which is Jinja's "trim": White_Space and the four separators U+001C to U+001F. */
static bool is_strippable(uint32_t code_point) {
    switch (code_point) {
    case 0x20:
    case 0x85:
    case 0xa0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202f:
    case 0x205f:
    case 0x3000:
        return true;
    default:
        return (code_point >= 0x09 && code_point <= 0x0d) || (code_point >= 0x1c && code_point <= 0x1f) ||
               (code_point >= 0x2000 && code_point <= 0x200a);
    }
}

/* The blank of len_bytes at data, if it is one: all of them take one to three bytes. */
static bool is_blank(const char *data, size_t len_bytes) {
    const uint8_t *byte = (const uint8_t *)data;
    Utf8Kind kind;

    if (utf8_step(data, len_bytes, &kind) != len_bytes || kind != UTF8_WHOLE || len_bytes > 3)
        return false;
    return is_strippable(len_bytes == 1 ? byte[0]
                         : len_bytes == 2
                             ? (uint32_t)(byte[0] & 0x1f) << 6 | (byte[1] & 0x3f)
                             : (uint32_t)(byte[0] & 0x0f) << 12 | (uint32_t)(byte[1] & 0x3f) << 6 | (byte[2] & 0x3f));
}

static size_t blank_at_start(const char *data, size_t len_bytes) {
    for (size_t n = 1; n <= 3 && n <= len_bytes; n++)
        if (is_blank(data, n))
            return n;
    return 0;
}

static size_t blank_at_end(const char *data, size_t len_bytes) {
    for (size_t n = 1; n <= 3 && n <= len_bytes; n++)
        if (is_blank(data + len_bytes - n, n))
            return n;
    return 0;
}

static void sink_trimmed(Sink *sink, const ChatMessage *message) {
    const char *data = message->text;
    size_t len_bytes = message->len_bytes, n;

    while ((n = blank_at_start(data, len_bytes))) {
        data += n;
        len_bytes -= n;
    }
    while ((n = blank_at_end(data, len_bytes)))
        len_bytes -= n;
    sink_text(sink, data, len_bytes);
}

static const char *role_name(ChatRole role) {
    switch (role) {
    case CHAT_ROLE_SYSTEM:
        return "system";
    case CHAT_ROLE_USER:
        return "user";
    case CHAT_ROLE_ASSISTANT:
        return "assistant";
    }
    return "?";
}

static void write_chatml(Sink *sink, const ChatTemplate *chat, const ChatMessage *messages, size_t n_messages) {
    sink_bos(sink, chat);
    if (messages[0].role != CHAT_ROLE_SYSTEM && chat->default_system[0]) {
        sink_mark(sink, "<|im_start|>");
        sink_add(sink, "system\n");
        sink_add(sink, chat->default_system);
        sink_mark(sink, "<|im_end|>");
        sink_add(sink, "\n");
    }
    for (size_t i = 0; i < n_messages; i++) {
        sink_mark(sink, "<|im_start|>");
        sink_add(sink, role_name(messages[i].role));
        sink_add(sink, "\n");
        sink_text(sink, messages[i].text, messages[i].len_bytes);
        sink_mark(sink, "<|im_end|>");
        sink_add(sink, "\n");
    }
    sink_mark(sink, "<|im_start|>");
    sink_add(sink, "assistant\n");
}

static void write_llama3_header(Sink *sink, const char *role) {
    sink_mark(sink, "<|start_header_id|>");
    sink_add(sink, role);
    sink_mark(sink, "<|end_header_id|>");
    sink_add(sink, "\n\n");
}

static void write_llama3(Sink *sink, const ChatTemplate *chat, const ChatMessage *messages, size_t n_messages) {
    size_t first = 0;

    sink_bos(sink, chat);
    if (chat->today_date[0]) {
        write_llama3_header(sink, "system");
        sink_add(sink, "Cutting Knowledge Date: December 2023\nToday Date: ");
        sink_add(sink, chat->today_date);
        sink_add(sink, "\n\n");
        if (messages[0].role == CHAT_ROLE_SYSTEM)
            sink_trimmed(sink, &messages[first++]);
        sink_mark(sink, "<|eot_id|>");
    }
    for (size_t i = first; i < n_messages; i++) {
        write_llama3_header(sink, role_name(messages[i].role));
        sink_trimmed(sink, &messages[i]);
        sink_mark(sink, "<|eot_id|>");
    }
    write_llama3_header(sink, "assistant");
}

static void write_gemma(Sink *sink, const ChatTemplate *chat, const ChatMessage *messages, size_t n_messages) {
    const ChatMessage *system = messages[0].role == CHAT_ROLE_SYSTEM ? &messages[0] : NULL;

    sink_bos(sink, chat);
    for (size_t i = system ? 1 : 0; i < n_messages; i++) {
        sink_mark(sink, "<start_of_turn>");
        sink_add(sink, messages[i].role == CHAT_ROLE_USER ? "user\n" : "model\n");
        if (system) {
            sink_trimmed(sink, system);
            sink_add(sink, "\n\n");
            system = NULL;
        }
        sink_trimmed(sink, &messages[i]);
        sink_mark(sink, "<end_of_turn>");
        sink_add(sink, "\n");
    }
    sink_mark(sink, "<start_of_turn>");
    sink_add(sink, "model\n");
}

static void sink_space(Sink *sink, bool wanted) {
    if (wanted)
        sink_text(sink, " ", 1);
}

static void write_mistral_answer(Sink *sink, const ChatTemplate *chat, const ChatMessage *message) {
    sink_space(sink, chat->mistral_space_before_answer);
    if (chat->mistral_trims_answers)
        sink_trimmed(sink, message);
    else
        sink_text(sink, message->text, message->len_bytes);
    sink_eos(sink);
    sink_space(sink, chat->mistral_space_after_answer);
}

static void write_mistral_question(Sink *sink, const ChatTemplate *chat, const ChatMessage *system,
                                   const ChatMessage *message) {
    sink_space(sink, chat->mistral_space_before_inst);
    sink_mark(sink, "[INST]");
    sink_space(sink, chat->mistral_space_after_inst);
    if (system) {
        sink_text(sink, system->text, system->len_bytes);
        sink_add(sink, "\n\n");
    }
    sink_text(sink, message->text, message->len_bytes);
    sink_space(sink, chat->mistral_space_before_close);
    sink_mark(sink, "[/INST]");
}

static void write_mistral(Sink *sink, const ChatTemplate *chat, const ChatMessage *messages, size_t n_messages) {
    const ChatMessage *system = messages[0].role == CHAT_ROLE_SYSTEM ? &messages[0] : NULL;
    size_t first = system ? 1 : 0, system_at = first;

    if (chat->mistral_system_last)
        for (size_t i = first; i < n_messages; i++)
            if (messages[i].role == CHAT_ROLE_USER)
                system_at = i;
    sink_bos(sink, chat);
    if (system && chat->mistral_system_marks) {
        sink_mark(sink, "[SYSTEM_PROMPT]");
        sink_space(sink, chat->mistral_space_after_inst);
        sink_text(sink, system->text, system->len_bytes);
        sink_mark(sink, "[/SYSTEM_PROMPT]");
        system = NULL;
    }
    for (size_t i = first; i < n_messages; i++) {
        if (messages[i].role == CHAT_ROLE_ASSISTANT)
            write_mistral_answer(sink, chat, &messages[i]);
        else
            write_mistral_question(sink, chat, i == system_at ? system : NULL, &messages[i]);
    }
}

/* --- checks and entry points ------------------------------------------------------------------------------------ */

/* Gemma and Mistral refuse what does not alternate; ChatML and Llama 3 take any order. */
static int check_roles(const ChatTemplate *chat, const ChatMessage *messages, size_t n_messages, ErrText *err) {
    bool alternates = chat->format == CHAT_FORMAT_GEMMA || chat->format == CHAT_FORMAT_MISTRAL;
    size_t first;

    if (!n_messages)
        return err_set(err, CHAT_E_ROLE, "a chat needs at least one message: send one with role \"user\"");
    for (size_t i = 0; i < n_messages; i++)
        if (messages[i].role < CHAT_ROLE_SYSTEM || messages[i].role > CHAT_ROLE_ASSISTANT)
            return err_set(err, CHAT_E_ROLE,
                           "message %zu has role number %d; roles are \"system\", \"user\" and \"assistant\"", i + 1,
                           (int)messages[i].role);
    if (!alternates)
        return 0;
    first = messages[0].role == CHAT_ROLE_SYSTEM ? 1 : 0;
    if (first == n_messages)
        return err_set(err, CHAT_E_ROLE,
                       "the chat template %s has no system turn of its own: a \"system\" message needs a "
                       "\"user\" message after it",
                       chat_format_name(chat->format));
    for (size_t i = first; i < n_messages; i++) {
        ChatRole needed = (i - first) % 2 ? CHAT_ROLE_ASSISTANT : CHAT_ROLE_USER;

        if (messages[i].role != needed)
            return err_set(err, CHAT_E_ROLE,
                           "message %zu has role \"%s\" where the chat template %s needs \"%s\": it takes one "
                           "\"system\" message at most, at the start, then \"user\" and \"assistant\" by turns",
                           i + 1, role_name(messages[i].role), chat_format_name(chat->format), role_name(needed));
    }
    return 0;
}

static int write_chat(const ChatTemplate *chat, const ChatMessage *messages, size_t n_messages, Sink *sink) {
    int r;

    if (chat->format == CHAT_FORMAT_NONE)
        return err_set(sink->err, CHAT_E_NO_TEMPLATE, "the model %s: use a raw prompt (--raw)",
                       chat->has_template
                           ? "has a chat template of no known format (known are ChatML, Llama 3, Mistral, Gemma)"
                           : "has no chat template (it is a base model)");
    r = check_roles(chat, messages, n_messages, sink->err);
    if (r)
        return r;
    switch (chat->format) {
    case CHAT_FORMAT_CHATML:
        write_chatml(sink, chat, messages, n_messages);
        break;
    case CHAT_FORMAT_LLAMA3:
        write_llama3(sink, chat, messages, n_messages);
        break;
    case CHAT_FORMAT_MISTRAL:
        write_mistral(sink, chat, messages, n_messages);
        break;
    case CHAT_FORMAT_GEMMA:
        write_gemma(sink, chat, messages, n_messages);
        break;
    case CHAT_FORMAT_NONE:
        break;
    }
    return 0;
}

/* chat_template_encode() - appends the tokens of a prompt
 *
 * The tokens are those of the rendered text with its marks parsed, except that marks inside a message stay text.
 * Return: 0, CHAT_E_ROLE, CHAT_E_NO_TEMPLATE, -E2BIG (a text past the tokenizer's limit), -ENOMEM, -EIO. On error the
 * list is as it was. */
int chat_template_encode(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatMessage *messages,
                         size_t n_messages, TokenList *list, ErrText *err) {
    Sink sink = { .tokenizer = tokenizer, .list = list, .err = err };
    size_t n_before = list->n;
    int r;

    r = write_chat(chat, messages, n_messages, &sink);
    if (!r) {
        sink_flush(&sink);
        r = sink.failure == TOKENIZER_E_TOO_LONG ? -E2BIG : sink.failure;
    }
    str_buf_deinit(&sink.fragment);
    if (r)
        list->n = n_before;
    return r;
}

int chat_template_render(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatMessage *messages,
                         size_t n_messages, StrBuf *text, ErrText *err) {
    Sink sink = { .tokenizer = tokenizer, .text = text, .err = err };
    int r;

    r = write_chat(chat, messages, n_messages, &sink);
    if (r || sink.failure)
        return r ? r : sink.failure;
    return str_buf_failed(text) ? err_raise(-ENOMEM) : 0;
}
