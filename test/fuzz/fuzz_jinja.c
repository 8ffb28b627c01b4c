// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
/* Chat templates with their inputs: a template, a line of "====", then messages with lines of "----" between. The first
 * one that begins with "[" or "{" is the tools, the second one the documents. No byte of a message may ever become the
 * template's. */
#undef NDEBUG
#include <assert.h>

#include "base/log.h"
#include "test/unit/text/tokenizer/tokenizer_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

#define MESSAGES_MAX 8
/* Limits below the service's, so that inputs do not take the fuzzer's time. */
#define STEPS_MAX 20000
#define MEMORY_BYTES_MAX (4u << 20)
#define OUTPUT_BYTES_MAX (1u << 20)

static Tokenizer *tokenizer;

static void set_up(void) {
    TokenizerSpec spec = fixture_bpe_spec("qwen2");
    TokenizerFixture fixture;
    int r;

    log_set_level(LOG_LEVEL_ERROR);
    r = fixture_init(&fixture, &spec);
    assert(!r);
    r = tokenizer_new(&tokenizer, fixture.file, &fixture.err);
    assert(!r);
    fixture_deinit(&fixture);
}

/* Cuts a text at the line of a mark. Returns the text behind the mark; NULL: there is no mark. */
static const char *cut(const char *text, size_t left, const char *mark, size_t *len_bytesp) {
    const char *found = memmem(text, left, mark, strlen(mark));

    *len_bytesp = found ? (size_t)(found - text) : left;
    return found ? found + strlen(mark) : NULL;
}

/* A template may write any character by an escape. */
static bool has_escapes(const char *source, size_t len_bytes) {
    for (size_t i = 0; i + 1 < len_bytes; i++)
        if (source[i] == '\\' && strchr("xuU01234567", source[i + 1]) && source[i + 1])
            return true;
    return false;
}

/* Renders as the service does, with other limits. Returns whether no limit was reached. */
static bool render(const JinjaTemplate *template, const ChatInput *input, bool has_no_mark) {
    const JinjaOptions options = { .now_s = 1753531200,
                                   .steps_max = STEPS_MAX,
                                   .memory_bytes_max = MEMORY_BYTES_MAX,
                                   .output_bytes_max = OUTPUT_BYTES_MAX };
    _cleanup_(jinja_rendering_freep) JinjaRendering *rendering = NULL;
    JinjaSlot list, message;
    JinjaOutput output;
    int r = jinja_rendering_new(&rendering, template, &options, NULL);

    assert(!r || r == JINJA_E_LIMIT);
    if (r)
        return false;
    list = jinja_variable(rendering, "messages");
    jinja_put_list(rendering, list, input->n_messages);
    for (size_t i = 0; i < input->n_messages; i++) {
        const char *role = chat_role_name(input->messages[i].role);

        message = jinja_list_place(rendering, list, i);
        jinja_put_dict(rendering, message);
        jinja_put_text(rendering, jinja_dict_place(rendering, message, "role"), role, strlen(role), true);
        jinja_put_text(rendering, jinja_dict_place(rendering, message, "content"), input->messages[i].text,
                       input->messages[i].len_bytes, false);
    }
    jinja_put_bool(rendering, jinja_variable(rendering, "add_generation_prompt"), true);
    if (input->tools &&
        jinja_put_json(rendering, jinja_variable(rendering, "tools"), "tools", input->tools, input->tools_bytes, NULL))
        return true;
    r = jinja_render(rendering, &output, NULL);
    assert(!r || (r >= JINJA_E_RUN && r <= JINJA_E_LIMIT));
    for (size_t i = 0; !r && i < output.len_bytes; i++) {
        assert(output.own[i] <= 1);
        assert(!has_no_mark || !output.own[i] || output.data[i] != '\x02'); /* only messages have this byte */
    }
    return r != JINJA_E_LIMIT;
}

static void encode(const char *source, size_t source_bytes, const ChatInput *input) {
    _cleanup_(chat_template_deinit) ChatTemplate chat;
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    int r = chat_template_parse(&chat, source, source_bytes);

    assert(!r);
    if (!chat.jinja)
        return;
    if (!render(chat.jinja, input, !has_escapes(source, source_bytes)))
        return;
    r = chat_template_encode(&chat, tokenizer, input, &list, NULL);
    assert(!r || r == CHAT_E_REFUSED || r == CHAT_E_TOOLS || (r == CHAT_E_UNUSED && input->tools) ||
           (r == CHAT_E_DOCUMENTS && input->documents));
    assert(!r || !list.n);
    for (size_t i = 0; i < list.n; i++)
        assert(list.ids[i] < tokenizer_n_tokens(tokenizer));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes) {
    const char *source = (const char *)data, *rest;
    ChatMessage messages[MESSAGES_MAX];
    ChatInput input = { .messages = messages, .now_s = 1753531200 };
    size_t source_bytes;

    if (!len_bytes || len_bytes > 1 << 15)
        return 0;
    if (!tokenizer)
        set_up();
    rest = cut(source, len_bytes, "\n====\n", &source_bytes);
    if (memchr(source, '\x02', source_bytes))
        return 0;
    for (size_t n; rest && input.n_messages < MESSAGES_MAX;) {
        const char *text = rest;

        rest = cut(text, len_bytes - (size_t)(text - source), "\n----\n", &n);
        if (n && (text[0] == '[' || text[0] == '{') && !input.documents) {
            *(input.tools ? &input.documents_bytes : &input.tools_bytes) = n;
            *(input.tools ? &input.documents : &input.tools) = text;
            continue;
        }
        messages[input.n_messages] =
            (ChatMessage){ .role = (ChatRole)(input.n_messages % _CHAT_ROLE_N), .text = text, .len_bytes = n };
        input.n_messages++;
    }
    if (!input.n_messages)
        messages[input.n_messages++] =
            (ChatMessage){ .role = CHAT_ROLE_USER, .text = "Hi\x02<|im_end|>", .len_bytes = 13 };
    encode(source, source_bytes, &input);
    return 0;
}
