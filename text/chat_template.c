// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/account_refusal.h"
#include "base/log.h"

/* --- loading ---------------------------------------------------------------------------------------------------- */

int chat_template_parse(ChatTemplate *chat, const char *text, size_t len_bytes) {
    int r;

    *chat = (ChatTemplate){ .has_template = true };
    r = jinja_template_new(&chat->jinja, text, len_bytes, &chat->why);
    return r < 0 ? r : 0;
}

int chat_template_init(ChatTemplate *chat, const GgufFile *file, const char *given, size_t given_bytes) {
    GgufString text;
    int r;

    *chat = (ChatTemplate){ .jinja = NULL };
    if (given) {
        r = chat_template_parse(chat, given, given_bytes);
        chat->is_given = true;
    } else if (!gguf_key(file, TOKENIZER_KEY_CHAT_TEMPLATE)) {
        return 0;
    } else if (gguf_get_string(file, TOKENIZER_KEY_CHAT_TEMPLATE, &text, NULL)) {
        chat->has_template = true;
        r = err_set(&chat->why, 0, "key \"" TOKENIZER_KEY_CHAT_TEMPLATE "\" is no string");
    } else {
        r = chat_template_parse(chat, text.len_bytes ? text.data : "", text.len_bytes);
    }
    if (!r && !chat->jinja)
        log_warn(TOPIC_ENGINE, "%s: %s: only raw prompts can be used", gguf_path(file), chat->why.text);
    return r;
}

void chat_template_deinit(ChatTemplate *chat) {
    jinja_template_free(chat->jinja);
    *chat = (ChatTemplate){ .jinja = NULL };
}

void chat_template_describe(const ChatTemplate *chat, char *text, size_t room_bytes) {
    if (chat->jinja || !chat->has_template)
        snprintf(text, room_bytes, "%s", chat->jinja ? "template" : "none");
    else
        snprintf(text, room_bytes, "refused: %s", chat->why.text);
}

const char *chat_role_name(ChatRole role) {
    static const char *const names[_CHAT_ROLE_N] = { [CHAT_ROLE_SYSTEM] = "system",
                                                     [CHAT_ROLE_USER] = "user",
                                                     [CHAT_ROLE_ASSISTANT] = "assistant",
                                                     [CHAT_ROLE_TOOL] = "tool" };

    return role < _CHAT_ROLE_N ? names[role] : "?";
}

/* --- rendering -------------------------------------------------------------------------------------------------- */

static int check_input(const ChatTemplate *chat, const ChatInput *input, ErrText *err) {
    if (!chat->has_template)
        return err_set(err, CHAT_E_NO_TEMPLATE,
                       "the model has no chat template (it is a base model): use a raw prompt (--raw), or the setting "
                       "chat-template");
    if (!chat->jinja)
        return err_set(err, CHAT_E_NO_TEMPLATE,
                       "%s: the chat template cannot be used: use a raw prompt (--raw), or another template (setting "
                       "chat-template)",
                       chat->why.text);
    if (!input->n_messages)
        return err_set(err, CHAT_E_ROLE, "a chat needs at least one message: send one with role \"user\"");
    for (size_t i = 0; i < input->n_messages; i++)
        if ((unsigned int)input->messages[i].role >= _CHAT_ROLE_N)
            return err_set(err, CHAT_E_ROLE,
                           "message %zu has role number %d; roles are \"system\", \"user\", \"assistant\" and \"tool\"",
                           i + 1, (int)input->messages[i].role);
    return 0;
}

static void put_messages(JinjaRendering *rendering, const ChatInput *input) {
    JinjaSlot list = jinja_variable(rendering, "messages"), message;

    jinja_put_list(rendering, list, input->n_messages);
    for (size_t i = 0; i < input->n_messages; i++) {
        const ChatMessage *from = &input->messages[i];
        const char *role = chat_role_name(from->role);

        message = jinja_list_place(rendering, list, i);
        jinja_put_dict(rendering, message);
        /* Roles are ours, a few words, so that '<|' + role + '|>' is a mark. */
        jinja_put_text(rendering, jinja_dict_place(rendering, message, "role"), role, strlen(role), true);
        jinja_put_text(rendering, jinja_dict_place(rendering, message, "content"), from->text, from->len_bytes, false);
    }
}

/* The texts of special tokens, as good as the template's own. Those of BOS and EOS are there in any case. */
static int put_special(JinjaRendering *rendering, const Tokenizer *tokenizer, StrBuf *texts, size_t n_texts) {
    const struct {
        const char *name;
        uint32_t id;
        bool always;
    } specials[] = {
        { "bos_token", tokenizer_bos(tokenizer), true },
        { "eos_token", tokenizer_eos(tokenizer), true },
        { "unk_token", tokenizer_unknown(tokenizer), false },
        { "pad_token", tokenizer_padding(tokenizer), false },
    };

    for (size_t i = 0; i < ARRAY_LEN(specials) && i < n_texts; i++) {
        int r = specials[i].id == TOKEN_NONE ? 0 : tokenizer_piece(tokenizer, specials[i].id, true, &texts[i]);

        if (r || str_buf_failed(&texts[i]))
            return r ? r : err_raise(-ENOMEM);
        if (specials[i].id != TOKEN_NONE || specials[i].always)
            jinja_put_text(rendering, jinja_variable(rendering, specials[i].name), texts[i].data ? texts[i].data : "",
                           texts[i].len_bytes, true);
    }
    return 0;
}

static int put_json(JinjaRendering *rendering, const char *name, const char *text, size_t len_bytes, ErrText *err) {
    JinjaSlot slot = jinja_variable(rendering, name);

    if (text)
        return jinja_put_json(rendering, slot, name, text, len_bytes, err);
    jinja_put_none(rendering, slot);
    return 0;
}

/* What the evaluator says becomes what a chat says. */
static int chat_error(int r, ErrText *err) {
    switch (r) {
    case JINJA_E_RAISED:
        err_prefix(err, "the model's chat template refuses these messages");
        return CHAT_E_REFUSED;
    case JINJA_E_RUN:
    case JINJA_E_LIMIT: {
        ErrText said = err ? *err : (ErrText){ "" };

        return err_set(err, CHAT_E_REFUSED, "%s: use a raw prompt (--raw), or another template (setting chat-template)",
                       said.text);
    }
    case JINJA_E_ACCOUNT:
        return CHAT_E_MEMORY;
    default:
        return r;
    }
}

typedef int ChatOutputFn(void *arg, const JinjaOutput *output, ErrText *err);

/* Renders, and hands what came out to fn. */
static int render_chat(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatInput *input, ChatOutputFn *fn,
                       void *arg, ErrText *err) {
    JinjaOptions options = { .accounts = input->accounts, .account = input->account, .now_s = input->now_s };
    _cleanup_(jinja_rendering_freep) JinjaRendering *rendering = NULL;
    StrBuf texts[4] = { STR_BUF_NULL, STR_BUF_NULL, STR_BUF_NULL, STR_BUF_NULL };
    JinjaOutput output;
    int r = check_input(chat, input, err);

    if (r)
        return r;
    options.input_bytes = input->tools_bytes + input->documents_bytes;
    for (size_t i = 0; i < input->n_messages; i++)
        options.input_bytes += input->messages[i].len_bytes;
    r = jinja_rendering_new(&rendering, chat->jinja, &options, err);
    if (r)
        return chat_error(r, err);
    put_messages(rendering, input);
    jinja_put_bool(rendering, jinja_variable(rendering, "add_generation_prompt"), true);
    r = put_json(rendering, "tools", input->tools, input->tools_bytes, err);
    if (!r)
        r = put_json(rendering, "documents", input->documents, input->documents_bytes, err);
    if (r == JINJA_E_RUN)
        return CHAT_E_TOOLS;
    if (!r)
        r = put_special(rendering, tokenizer, texts, ARRAY_LEN(texts));
    if (!r)
        r = chat_error(jinja_render(rendering, &output, err), err);
    if (!r)
        r = fn(arg, &output, err);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        str_buf_deinit(&texts[i]);
    return r;
}

/* --- tokens, text ----------------------------------------------------------------------------------------------- */

typedef struct ChatTokens {
    const Tokenizer *tokenizer;
    const ChatInput *input;
    TokenList *list;
} ChatTokens;

/* BOS is as the template writes it; a tokenizer that adds one by itself gets it too, but never twice. */
static int add_tokens(void *arg, const JinjaOutput *output, ErrText *err) {
    ChatTokens *tokens = arg;
    const ChatInput *input = tokens->input;
    _cleanup_(bill_settle) Bill bill = { 0 };
    const uint64_t scratch_bytes = (uint64_t)output->len_bytes * TOKENIZER_SCRATCH_BYTES;
    uint32_t bos = tokenizer_bos(tokens->tokenizer);
    TokenList *list = tokens->list;
    size_t n_before = list->n;
    int r = 0;

    if (input->accounts)
        r = account_charge(input->accounts, input->account, &bill, scratch_bytes);
    if (r)
        return account_refused(err, CHAT_E_MEMORY, r, input->accounts, input->account, scratch_bytes,
                               "the tokens of a prompt of %zu bytes", output->len_bytes);
    if (tokenizer_adds_bos(tokens->tokenizer))
        r = token_list_add(list, bos);
    if (!r)
        r = tokenizer_encode_own(tokens->tokenizer, output->data, output->own, output->len_bytes, list, err);
    if (!r && tokenizer_adds_bos(tokens->tokenizer) && list->n > n_before + 1 && list->ids[n_before + 1] == bos) {
        memmove(&list->ids[n_before], &list->ids[n_before + 1], (list->n - n_before - 1) * sizeof(*list->ids));
        list->n--;
    }
    if (r)
        list->n = n_before;
    return r == TOKENIZER_E_TOO_LONG ? CHAT_E_TOO_LONG : r;
}

int chat_template_encode(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatInput *input, TokenList *list,
                         ErrText *err) {
    ChatTokens tokens = { .tokenizer = tokenizer, .input = input, .list = list };
    ErrText own;

    return render_chat(chat, tokenizer, input, add_tokens, &tokens, err ? err : &own);
}

static int add_text(void *arg, const JinjaOutput *output, ErrText *err) {
    StrBuf *text = arg;

    str_buf_append(text, output->data, output->len_bytes);
    return str_buf_failed(text) ? err_raise(-ENOMEM) : 0;
}

int chat_template_render(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatInput *input, StrBuf *text,
                         ErrText *err) {
    ErrText own;

    return render_chat(chat, tokenizer, input, add_text, text, err ? err : &own);
}
