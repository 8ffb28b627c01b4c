// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "text/chat/chat_template.h"

#include <errno.h>
#include <stdio.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/memory/account_refusal.h"
#include "base/min_max.h"
#include "base/strings/printable.h"
#include "text/chat/chat_values.h"

/* --- loading ---------------------------------------------------------------------------------------------------- */

/* Notes which marks of thinking and calls a template has. 0 or -ENOMEM. */
static int read_marks(ChatTemplate *chat, const char *text, size_t len_bytes) {
    _cleanup_(chat_marks_deinit) ChatMarks marks;
    int r = chat_marks_init(&marks, text, len_bytes);

    if (!r)
        thinking_pairs_add(&chat->thinking, &marks);
    chat->calls.evidence.in_source |= call_formats_in_source(text, len_bytes);
    chat->calls.tools_in_system |= memmem(text, len_bytes, "message['tools']", 16) != NULL;
    return r;
}

static int render_probe(const void *chat, const ChatProbe *probe, StrBuf *text) {
    const ChatInput input = { .messages = probe->messages,
                              .n_messages = probe->n_messages,
                              .tools = probe->tools,
                              .tools_bytes = probe->tools ? strlen(probe->tools) : 0,
                              .call_form = probe->as_text ? CHAT_CALLS_AS_TEXT : CHAT_CALLS_AS_OBJECT };

    return chat_template_render(chat, NULL, &input, text, NULL);
}

static int probe_calls(ChatTemplate *chat) {
    return chat_calls_probe(&chat->calls, (chat_template_takes(chat) & CHAT_TAKES_TOOLS) != 0, render_probe, chat);
}

int chat_template_parse(ChatTemplate *chat, const char *text, size_t len_bytes) {
    int r;

    *chat = (ChatTemplate){ .has_template = true };
    r = jinja_template_new(&chat->jinja, text, len_bytes, &chat->why);
    if (r >= 0)
        r = read_marks(chat, text, len_bytes);
    return r || !chat->jinja ? r : probe_calls(chat);
}

/* Reads the file's template of a key, if there is one, into *jinjap or *why. 0 or -ENOMEM. */
static int read_template(ChatTemplate *chat, const GgufFile *file, const char *key, JinjaTemplate **jinjap,
                         bool *is_therep, ErrText *why) {
    GgufString text;
    int r = 0;

    *is_therep = gguf_key(file, key) != NULL;
    if (!*is_therep)
        return 0;
    if (gguf_get_string(file, key, &text, NULL))
        (void)err_set(why, 0, "key \"%s\" is no string", key);
    else
        r = jinja_template_new(jinjap, text.len_bytes ? text.data : "", text.len_bytes, why);
    if (*jinjap)
        r = read_marks(chat, text.data, text.len_bytes);
    if (r >= 0 && !*jinjap)
        log_warn(TOPIC_ENGINE, "%s: key \"%s\": %s: this chat template is not used", gguf_path(file), key, why->text);
    return MIN(r, 0);
}

/* Notes the names of the templates that nothing uses. */
static void read_other_names(ChatTemplate *chat, const GgufFile *file) {
    const size_t prefix_bytes = strlen(TOKENIZER_KEY_CHAT_TEMPLATE_NAMED);

    for (size_t i = 0; i < gguf_n_keys(file); i++) {
        const GgufString *key = &gguf_key_at(file, i)->name;
        size_t n = strlen(chat->other_names);

        if (key->len_bytes <= prefix_bytes || memcmp(key->data, TOKENIZER_KEY_CHAT_TEMPLATE_NAMED, prefix_bytes) != 0 ||
            (key->len_bytes == strlen(TOKENIZER_KEY_CHAT_TEMPLATE_TOOLS) &&
             !memcmp(key->data, TOKENIZER_KEY_CHAT_TEMPLATE_TOOLS, key->len_bytes)))
            continue;
        if (n + 2 + 4 > sizeof(chat->other_names))
            return;
        if (n)
            n += (size_t)snprintf(chat->other_names + n, sizeof(chat->other_names) - n, ", ");
        printable_put(chat->other_names + n, sizeof(chat->other_names) - n, key->data + prefix_bytes,
                      key->len_bytes - prefix_bytes);
    }
}

int chat_template_init(ChatTemplate *chat, const GgufFile *file, const char *given, size_t given_bytes) {
    int r;

    *chat = (ChatTemplate){ .jinja = NULL };
    if (given) {
        r = chat_template_parse(chat, given, given_bytes);
        chat->is_given = true;
        if (!r && !chat->jinja)
            log_warn(TOPIC_ENGINE, "%s: %s: only raw prompts can be used", gguf_path(file), chat->why.text);
        return r;
    }
    r = read_template(chat, file, TOKENIZER_KEY_CHAT_TEMPLATE, &chat->jinja, &chat->has_template, &chat->why);
    if (!r)
        r = read_template(chat, file, TOKENIZER_KEY_CHAT_TEMPLATE_TOOLS, &chat->tool_jinja, &chat->has_tool_template,
                          &chat->tool_why);
    read_other_names(chat, file);
    return r || !(chat->jinja || chat->tool_jinja) ? r : probe_calls(chat);
}

void chat_template_deinit(ChatTemplate *chat) {
    jinja_template_free(chat->jinja);
    jinja_template_free(chat->tool_jinja);
    *chat = (ChatTemplate){ .jinja = NULL };
}

uint64_t chat_template_memory_bytes(const ChatTemplate *chat) {
    return (chat->jinja ? jinja_template_memory_bytes(chat->jinja) : 0) +
           (chat->tool_jinja ? jinja_template_memory_bytes(chat->tool_jinja) : 0);
}

const char *chat_template_text(const ChatTemplate *chat, size_t *len_bytesp) {
    return chat->jinja ? jinja_template_source(chat->jinja, len_bytesp) : NULL;
}

unsigned int chat_template_takes(const ChatTemplate *chat) {
    unsigned int takes = 0;

    if (chat->has_tool_template ? chat->tool_jinja && jinja_template_uses(chat->tool_jinja, "tools")
                                : chat->jinja && jinja_template_uses(chat->jinja, "tools"))
        takes |= CHAT_TAKES_TOOLS;
    if (chat->jinja && jinja_template_uses(chat->jinja, "documents"))
        takes |= CHAT_TAKES_DOCUMENTS;
    return takes;
}

ThinkingMarks chat_template_thinking(const ChatTemplate *chat, const Tokenizer *tokenizer) {
    return thinking_marks_of(chat->thinking, tokenizer);
}

const CallShape *chat_template_calls(const ChatTemplate *chat, const Tokenizer *tokenizer) {
    return call_formats_find(&chat->calls.evidence, tokenizer);
}

void chat_template_describe(const ChatTemplate *chat, char *text, size_t room_bytes) {
    const unsigned int takes = chat_template_takes(chat);
    size_t n;

    if (!chat->jinja)
        snprintf(text, room_bytes, "%s%s", chat->has_template ? "refused: " : "none",
                 chat->has_template ? chat->why.text : "");
    else
        snprintf(text, room_bytes, "template (takes %s%s)", takes & CHAT_TAKES_TOOLS ? "tools" : "no tools",
                 takes & CHAT_TAKES_DOCUMENTS ? ", documents" : "");
    n = strlen(text);
    if (chat->has_tool_template)
        n += (size_t)snprintf(text + n, room_bytes - n, "; with tools: tool_use%s%s",
                              chat->tool_jinja ? "" : ", refused: ", chat->tool_jinja ? "" : chat->tool_why.text);
    if (*chat->other_names && n < room_bytes)
        snprintf(text + n, room_bytes - n, "; never used: %s", chat->other_names);
}

/* --- rendering -------------------------------------------------------------------------------------------------- */

/* Sets the error that says why a chat has no template. */
static int refuse_without(const ChatTemplate *chat, const ChatInput *input, ErrText *err) {
    if (input->tools && chat->has_tool_template)
        return err_set(err, CHAT_E_UNUSED,
                       "tools: the model's chat template tool_use cannot be used (%s): leave them out, or use another "
                       "template (setting chat-template)",
                       chat->tool_why.text);
    if (!chat->has_template)
        return err_set(err, CHAT_E_NO_TEMPLATE,
                       "the model has no chat template%s: use a raw prompt (--raw), or the setting chat-template",
                       chat->has_tool_template ? " but one for requests with tools" : " (it is a base model)");
    return err_set(err, CHAT_E_NO_TEMPLATE,
                   "%s: the chat template cannot be used: use a raw prompt (--raw), or another template (setting "
                   "chat-template)",
                   chat->why.text);
}

/* Chooses the template of a chat, as transformers does, and checks the messages. */
static int choose_template(const ChatTemplate *chat, const ChatInput *input, const JinjaTemplate **jinjap,
                           ErrText *err) {
    *jinjap = input->tools && chat->has_tool_template ? chat->tool_jinja : chat->jinja;
    if (!*jinjap)
        return refuse_without(chat, input, err);
    if (!input->n_messages)
        return err_set(err, CHAT_E_ROLE, "a chat needs at least one message: send one with role \"user\"");
    for (size_t i = 0; i < input->n_messages; i++)
        if ((unsigned int)input->messages[i].role >= _CHAT_ROLE_N)
            return err_set(err, CHAT_E_ROLE,
                           "message %zu has role number %d; roles are \"system\", \"user\", \"assistant\" and \"tool\"",
                           i + 1, (int)input->messages[i].role);
    return 0;
}

/* Returns the id of a special token; without a tokenizer, while a template is looked at, there is none. */
static uint32_t special_id(const Tokenizer *tokenizer, uint32_t (*id)(const Tokenizer *)) {
    return tokenizer ? id(tokenizer) : TOKEN_NONE;
}

/* Puts the texts of special tokens, which count as the template's own. Those of BOS and EOS are defined in any case. */
static int put_special(JinjaRendering *rendering, const Tokenizer *tokenizer, StrBuf *texts, size_t n_texts) {
    const struct {
        const char *name;
        uint32_t id;
        bool always;
    } specials[] = {
        { "bos_token", special_id(tokenizer, tokenizer_bos), true },
        { "eos_token", special_id(tokenizer, tokenizer_eos), true },
        { "unk_token", special_id(tokenizer, tokenizer_unknown), false },
        { "pad_token", special_id(tokenizer, tokenizer_padding), false },
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

/* Translates an error of the evaluator into one of a chat. */
static int chat_error(int r, ErrText *err) {
    switch (r) {
    case JINJA_E_RAISED:
        err_prefix(err, "the model's chat template refuses these messages");
        return CHAT_E_REFUSED;
    case JINJA_E_RUN:
    case JINJA_E_LIMIT: {
        ErrText said = err ? *err : (ErrText){ 0 };

        return err_set(err, CHAT_E_REFUSED, "%s: use a raw prompt (--raw), or another template (setting chat-template)",
                       said.text);
    }
    case JINJA_E_ACCOUNT:
        return CHAT_E_MEMORY;
    default:
        return r;
    }
}

/* Puts the request's variables, behind what is said about thinking: the names that known templates have for that. */
static int put_kwargs(JinjaRendering *rendering, const ChatInput *input, ErrText *err) {
    static const char *const taken[] = {
        "messages",  "tools",     "documents", "add_generation_prompt", "bos_token",
        "eos_token", "unk_token", "pad_token", "raise_exception",       "strftime_now"
    };
    const bool is_on = input->thinking == CHAT_THINKING_ON;
    int r;

    if (input->thinking != CHAT_THINKING_DEFAULT) {
        jinja_put_bool(rendering, jinja_variable(rendering, "enable_thinking"), is_on);
        jinja_put_bool(rendering, jinja_variable(rendering, "thinking"), is_on);
    }
    if (!input->kwargs)
        return 0;
    r = jinja_put_members(rendering, "template_kwargs", input->kwargs, input->kwargs_bytes, taken, ARRAY_LEN(taken),
                          err);
    return r == JINJA_E_RUN ? CHAT_E_KWARGS : chat_error(r, err);
}

typedef int ChatOutputFn(void *arg, const JinjaOutput *output, ErrText *err);

/* Renders, and hands the output to fn. */
static int render_chat(const JinjaTemplate *jinja, const Tokenizer *tokenizer, const ChatInput *input, ChatOutputFn *fn,
                       void *arg, ErrText *err) {
    JinjaOptions options = { .accounts = input->accounts, .account = input->account, .now_s = input->now_s };
    _cleanup_(chat_values_deinit) ChatValues values = { 0 };
    _cleanup_(jinja_rendering_freep) JinjaRendering *rendering = NULL;
    StrBuf texts[4] = { STR_BUF_NULL, STR_BUF_NULL, STR_BUF_NULL, STR_BUF_NULL };
    JinjaOutput output;
    int r;

    options.input_bytes = input->tools_bytes + input->documents_bytes + input->kwargs_bytes;
    for (size_t i = 0; i < input->n_messages; i++)
        options.input_bytes += chat_message_bytes(&input->messages[i]);
    r = chat_values_init(&values, input->messages, input->n_messages);
    if (!r)
        r = jinja_rendering_new(&rendering, jinja, &options, err);
    if (r)
        return chat_error(r, err);
    values.calls_as_text = input->call_form == CHAT_CALLS_AS_TEXT;
    values.system_tools = input->system_tools;
    r = chat_values_put(&values, rendering, input->messages, input->n_messages, err);
    if (r)
        return r == JINJA_E_RUN ? CHAT_E_CALLS : chat_error(r, err);
    r = put_kwargs(rendering, input, err);
    if (r)
        return r;
    jinja_put_bool(rendering, jinja_variable(rendering, "add_generation_prompt"), !input->no_generation_prompt);
    r = put_json(rendering, "tools", input->tools, input->tools_bytes, err);
    if (r == JINJA_E_RUN)
        return CHAT_E_TOOLS;
    if (!r)
        r = put_json(rendering, "documents", input->documents, input->documents_bytes, err);
    if (r == JINJA_E_RUN)
        return CHAT_E_DOCUMENTS;
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

/* --- what a template ignores ------------------------------------------------------------------------------------ */

#define CHAT_SAME 100 /* the other rendering has the same bytes */

static int compare_output(void *arg, const JinjaOutput *output, ErrText *err) {
    const JinjaOutput *other = arg;

    return output->len_bytes == other->len_bytes &&
                   (!output->len_bytes || !memcmp(output->data, other->data, output->len_bytes))
               ? CHAT_SAME
               : 0;
}

/* Whether JSON holds nothing that could be lost: an empty list or dict, or null. */
bool chat_is_empty_json(const char *text, size_t len_bytes) {
    char kept[5] = "";
    size_t n = 0;

    for (size_t i = 0; i < len_bytes && n < sizeof(kept); i++)
        if (!strchr(" \t\r\n", text[i]))
            kept[n++] = text[i];
    return n == 0 || (n == 2 && (!memcmp(kept, "[]", 2) || !memcmp(kept, "{}", 2))) ||
           (n == 4 && !memcmp(kept, "null", 4));
}

/* Refuses an input with @code if the template ignores it: the same bytes come out without the value of this name. */
static int refuse_unused(const JinjaTemplate *jinja, const Tokenizer *tokenizer, const ChatInput *without,
                         const char *name, int code, const JinjaOutput *output, ErrText *err) {
    ErrText why;
    int r = CHAT_SAME;

    if (jinja_template_uses(jinja, name))
        r = render_chat(jinja, tokenizer, without, compare_output, (void *)(uintptr_t)output, &why);
    if (r == CHAT_SAME)
        return err_set(err, code,
                       "%s: the model's chat template ignores them, the prompt is the same without: leave them out, or "
                       "use another template (setting chat-template) or model",
                       name);
    if (r == CHAT_E_MEMORY || r < 0) {
        if (err)
            *err = why;
        return r;
    }
    return 0; /* without the input the prompt is another one, or fails */
}

static int check_used(const JinjaTemplate *jinja, const Tokenizer *tokenizer, const ChatInput *input,
                      const JinjaOutput *output, ErrText *err) {
    ChatInput without = *input;
    int r = 0;

    if (input->tools && !chat_is_empty_json(input->tools, input->tools_bytes)) {
        without.tools = NULL;
        without.tools_bytes = 0;
        r = refuse_unused(jinja, tokenizer, &without, "tools", CHAT_E_UNUSED, output, err);
    }
    if (!r && input->documents && !chat_is_empty_json(input->documents, input->documents_bytes)) {
        without = *input;
        without.documents = NULL;
        without.documents_bytes = 0;
        r = refuse_unused(jinja, tokenizer, &without, "documents", CHAT_E_DOCUMENTS, output, err);
    }
    return r;
}

/* --- tokens, text ----------------------------------------------------------------------------------------------- */

typedef struct ChatTokens {
    const ChatTemplate *chat;
    const JinjaTemplate *jinja;
    const Tokenizer *tokenizer;
    const ChatInput *input;
    TokenList *list;
    StrBuf *text; /* of a rendering */
} ChatTokens;

/* Appends the tokens of the rendered text and the beginning of the answer, which is one text with it: a token may lie
 * across the place where the template ends. None of the answer's bytes become a control token or a tag. */
static int encode_with_answer(const ChatTokens *tokens, const JinjaOutput *output, ErrText *err) {
    const ChatInput *input = tokens->input;
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL, own = STR_BUF_NULL;

    if (!input->answer_prefix_bytes)
        return tokenizer_encode_own(tokens->tokenizer, output->data, output->own, output->len_bytes, tokens->list, err);
    str_buf_append(&text, output->data, output->len_bytes);
    str_buf_append(&text, input->answer_prefix, input->answer_prefix_bytes);
    str_buf_append(&own, (const char *)output->own, output->len_bytes);
    for (size_t i = 0; i < input->answer_prefix_bytes; i++)
        str_buf_append(&own, "", 1);
    if (str_buf_failed(&text) || str_buf_failed(&own))
        return err_raise(-ENOMEM);
    return tokenizer_encode_own(tokens->tokenizer, text.data, (const uint8_t *)own.data, text.len_bytes, tokens->list,
                                err);
}

/* A prompt with marks of thinking behind what the template has made. */
typedef struct ThinkingPrompt {
    StrBuf text, own;
    JinjaOutput output;
} ThinkingPrompt;

static void thinking_prompt_deinit(ThinkingPrompt *prompt) {
    str_buf_deinit(&prompt->text);
    str_buf_deinit(&prompt->own);
}

/* Adds the marks that the prompt lacks: an end of the thinking for requests without, a begin for requests with. */
static void add_marks(const ChatTokens *tokens, const ThinkingMarks *marks, const JinjaOutput *output, StrBuf *text) {
    const ThinkingPlace place = thinking_place_of(marks, output->data, output->own, output->len_bytes);
    const bool is_line = output->len_bytes && output->data[output->len_bytes - 1] == '\n';
    const bool is_told =
        jinja_template_uses(tokens->jinja, "enable_thinking") || jinja_template_uses(tokens->jinja, "thinking");

    if (tokens->input->thinking == CHAT_THINKING_OFF && place == THINKING_INSIDE)
        str_buf_addf(text, is_line ? "\n%s\n\n" : "%s", marks->close);
    else if (tokens->input->thinking == CHAT_THINKING_OFF && place == THINKING_BEFORE && !is_told)
        str_buf_addf(text, "%s\n\n%s\n\n", marks->open, marks->close);
    else if (tokens->input->thinking == CHAT_THINKING_ON && place == THINKING_BEFORE &&
             !thinking_marks_are_tokens(marks))
        str_buf_addf(text, "%s\n", marks->open);
}

/* settle_thinking() - put the marks behind a prompt that the request's thinking needs
 *
 * A template that was told to leave the thinking out has closed it, or never opens it. A template that opens it in any
 * case gets the closing mark, behind an empty line if the opening mark has a line of its own. A template that reads no
 * variable leaves it to the model, which gets the whole empty block, as Qwen3's template writes it. Thinking whose
 * tokens are counted must be seen to begin: where the model would write the opening mark as text, the prompt has it.
 */
static int settle_thinking(const ChatTokens *tokens, const JinjaOutput **outputp, ThinkingPrompt *prompt,
                           ErrText *err) {
    const JinjaOutput *output = *outputp;
    const ThinkingMarks marks =
        tokens->tokenizer ? chat_template_thinking(tokens->chat, tokens->tokenizer) : (ThinkingMarks){ 0 };

    if (tokens->input->thinking == CHAT_THINKING_ON && !marks.open)
        return err_set(err, CHAT_E_THINKING,
                       "thinking_tokens: the model has no thinking: neither its chat template nor its vocabulary has "
                       "marks of it: leave it out");
    if (tokens->input->thinking == CHAT_THINKING_DEFAULT || !marks.open || tokens->input->no_generation_prompt)
        return 0;
    str_buf_append(&prompt->text, output->data, output->len_bytes);
    str_buf_append(&prompt->own, output->own, output->len_bytes);
    add_marks(tokens, &marks, output, &prompt->text);
    while (prompt->own.len_bytes < prompt->text.len_bytes && !str_buf_failed(&prompt->own))
        str_buf_append(&prompt->own, &(uint8_t){ 1 }, 1);
    if (str_buf_failed(&prompt->text) || str_buf_failed(&prompt->own))
        return err_raise(-ENOMEM);
    prompt->output = (JinjaOutput){ .data = prompt->text.data ? prompt->text.data : "",
                                    .own = (const uint8_t *)prompt->own.data,
                                    .len_bytes = prompt->text.len_bytes };
    *outputp = &prompt->output;
    return 0;
}

/* Adds BOS if the tokenizer asks for it and the template has not written it. */
static int add_tokens(void *arg, const JinjaOutput *output, ErrText *err) {
    ChatTokens *tokens = arg;
    const ChatInput *input = tokens->input;
    _cleanup_(bill_settle) Bill bill = { 0 };
    const uint64_t len_bytes = (uint64_t)output->len_bytes + input->answer_prefix_bytes;
    const uint64_t scratch_bytes = len_bytes * TOKENIZER_SCRATCH_BYTES;
    uint32_t bos = tokenizer_bos(tokens->tokenizer);
    TokenList *list = tokens->list;
    _cleanup_(thinking_prompt_deinit) ThinkingPrompt prompt = { 0 };
    size_t n_before = list->n;
    int r = check_used(tokens->jinja, tokens->tokenizer, input, output, err);

    if (r)
        return r;
    r = settle_thinking(tokens, &output, &prompt, err);
    if (r)
        return r;
    if (input->accounts)
        r = account_charge(input->accounts, input->account, &bill, scratch_bytes);
    if (r)
        return account_refused(err, CHAT_E_MEMORY, r, input->accounts, input->account, scratch_bytes,
                               "the tokens of a prompt of %" PRIu64 " bytes", len_bytes);
    if (tokenizer_adds_bos(tokens->tokenizer))
        r = token_list_add(list, bos);
    if (!r)
        r = encode_with_answer(tokens, output, err);
    if (!r && tokenizer_adds_bos(tokens->tokenizer) && list->n > n_before + 1 && list->ids[n_before + 1] == bos) {
        memmove(&list->ids[n_before], &list->ids[n_before + 1], (list->n - n_before - 1) * sizeof(*list->ids));
        list->n--;
    }
    if (r)
        list->n = n_before;
    if (!r && input->placep) {
        const ThinkingMarks marks = chat_template_thinking(tokens->chat, tokens->tokenizer);

        *input->placep = thinking_place_of(&marks, output->data, output->own, output->len_bytes);
    }
    return r == TOKENIZER_E_TOO_LONG ? CHAT_E_TOO_LONG : r;
}

#define REWRITTEN_TOOLS_TIMES 16 /* memory for a byte of JSON while it is described */

/* Prepares an input for the template: messages and tools that it would drop are rewritten. 0, CHAT_E_*, -ENOMEM. */
static int prepare_input(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatInput *input, ChatInput *to,
                         ChatRewriting *rewriting, Bill *bill, ErrText *err) {
    const CallShape *shape = chat_template_calls(chat, tokenizer);
    const bool offers = input->offers_calls && input->tools && !chat_is_empty_json(input->tools, input->tools_bytes);
    uint64_t bytes = REWRITTEN_TOOLS_TIMES * (uint64_t)input->tools_bytes;
    int r;

    *to = *input;
    if (input->call_form != CHAT_CALLS_PROBED)
        return 0;
    to->call_form = chat->calls.as_text ? CHAT_CALLS_AS_TEXT : CHAT_CALLS_AS_OBJECT;
    if (!chat_calls_rewrites(&chat->calls, shape, input->messages, input->n_messages, offers))
        return 0;
    for (size_t i = 0; i < input->n_messages; i++)
        bytes += chat_message_bytes(&input->messages[i]) + sizeof(*input->messages);
    r = input->accounts ? account_charge(input->accounts, input->account, bill, bytes) : 0;
    if (r)
        return account_refused(err, CHAT_E_MEMORY, r, input->accounts, input->account, bytes,
                               "messages with calls, which the chat template does not take");
    r = chat_calls_rewrite(&chat->calls, shape, input->messages, input->n_messages, offers ? input->tools : NULL,
                           input->tools_bytes, rewriting, err);
    to->messages = rewriting->messages;
    to->n_messages = rewriting->n;
    to->system_tools = rewriting->tools;
    if (offers && (rewriting->tools || shape == call_formats_generic)) {
        to->tools = NULL;
        to->tools_bytes = 0;
    }
    return r == CALL_E_TOOLS ? CHAT_E_TOOLS : r;
}

/* Prepares the input of a chat, renders it, and hands the output to fn. */
static int run_chat(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatInput *input, ChatOutputFn *fn,
                    ChatTokens *tokens, ErrText *err) {
    _cleanup_(bill_settle) Bill bill = { 0 };
    _cleanup_(chat_rewriting_deinit) ChatRewriting rewriting = { 0 };
    ChatInput prepared;
    int r = choose_template(chat, input, &tokens->jinja, err);

    if (!r)
        r = prepare_input(chat, tokenizer, input, &prepared, &rewriting, &bill, err);
    tokens->input = &prepared;
    return r ? r : render_chat(tokens->jinja, tokenizer, &prepared, fn, tokens, err);
}

int chat_template_encode(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatInput *input, TokenList *list,
                         ErrText *err) {
    ChatTokens tokens = { .chat = chat, .tokenizer = tokenizer, .list = list };
    ErrText own;

    return run_chat(chat, tokenizer, input, add_tokens, &tokens, err ? err : &own);
}

static int add_text(void *arg, const JinjaOutput *output, ErrText *err) {
    _cleanup_(thinking_prompt_deinit) ThinkingPrompt prompt = { 0 };
    const ChatTokens *tokens = arg;
    StrBuf *text = tokens->text;
    int r = settle_thinking(tokens, &output, &prompt, err);

    if (r)
        return r;
    str_buf_append(text, output->data, output->len_bytes);
    if (tokens->input->answer_prefix_bytes)
        str_buf_append(text, tokens->input->answer_prefix, tokens->input->answer_prefix_bytes);
    return str_buf_failed(text) ? err_raise(-ENOMEM) : 0;
}

int chat_template_render(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatInput *input, StrBuf *text,
                         ErrText *err) {
    ChatTokens tokens = { .chat = chat, .tokenizer = tokenizer, .text = text };
    ErrText own;

    return run_chat(chat, tokenizer, input, add_text, &tokens, err ? err : &own);
}
