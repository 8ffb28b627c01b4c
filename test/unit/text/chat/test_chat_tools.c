// SPDX-License-Identifier: Apache-2.0
/* Tools and documents of a chat: the template of a file that gets them, and no silent loss. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "test/unit/importer/import_fixture.h"
#include "test/unit/text/tokenizer/tokenizer_fixture.h"
#include "text/tokenizer/vocab.h"

#define TOOLS "[{\"name\": \"f\"}]"
#define WITH(field, json) .field = (json), .field##_bytes = sizeof(json) - 1

static const ChatMessage messages[] = { { .role = CHAT_ROLE_USER, .text = "hi", .len_bytes = 2 } };

typedef struct Templates {
    TokenizerFixture fixture;
    Tokenizer *tokenizer;
    ChatTemplate chat;
} Templates;

/* Makes a tokenizer with two templates, each of which may be NULL. */
static void templates_init(Templates *templates, const char *source, const char *tool_source) {
    TokenizerSpec spec = fixture_bpe_spec("qwen2");

    spec.chat_template = source;
    spec.tool_template = tool_source;
    if (fixture_init(&templates->fixture, &spec) ||
        tokenizer_new(&templates->tokenizer, templates->fixture.file, &templates->fixture.err))
        fail_msg("%s", templates->fixture.err.text);
    assert_int_equal(chat_template_init(&templates->chat, templates->fixture.file, NULL, 0), 0);
}

static void templates_deinit(Templates *templates) {
    chat_template_deinit(&templates->chat);
    tokenizer_free(templates->tokenizer);
    fixture_deinit(&templates->fixture);
}

/* Decodes the tokens into text, or returns the code with the error in text. */
static int encode(const Templates *templates, ChatInput input, StrBuf *text) {
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    ErrText err = { 0 };
    int r;

    input.messages = messages;
    input.n_messages = 1;
    str_buf_truncate(text, 0);
    r = chat_template_encode(&templates->chat, templates->tokenizer, &input, &list, &err);
    for (size_t i = 0; i < list.n; i++)
        assert_int_equal(tokenizer_piece(templates->tokenizer, list.ids[i], true, text), 0);
    str_buf_add(text, err.text);
    return r;
}

static void expect(const char *source, const char *tool_source, ChatInput input, int code, const char *wanted) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    Templates templates;

    templates_init(&templates, source, tool_source);
    assert_int_equal(encode(&templates, input, &text), code);
    if (code)
        assert_non_null(strstr(text.data, wanted));
    else
        assert_string_equal(text.data, wanted);
    templates_deinit(&templates);
}

/* An input that changes nothing is refused by its name. An empty input cannot be lost. */
static void test_chat_tools_ignored(void **state) {
    static const char plain[] = "{{ messages[0].content }}",
                      tooled[] = "{{ messages[0].content }}{% for t in tools or [] %}+{{ t.name }}{% endfor %}",
                      sometimes[] =
                          "{{ messages[0].content }}{% if tools and messages|length > 1 %}{{ tools }}{% endif %}",
                      needs[] =
                          "{{ messages[0].content }}{% if not tools %}{{ raise_exception('no tools') }}{% endif %}",
                      with_documents[] = "{{ messages[0].content }}{{ documents[0].title }}";
    static const char ignored[] = "tools: the model's chat template ignores them";

    expect(plain, NULL, (ChatInput){ 0 }, 0, "hi");
    expect(plain, NULL, (ChatInput){ WITH(tools, TOOLS) }, CHAT_E_UNUSED, ignored);
    expect(plain, NULL, (ChatInput){ WITH(documents, TOOLS) }, CHAT_E_DOCUMENTS,
           "documents: the model's chat template ignores them");
    expect(plain, NULL, (ChatInput){ WITH(tools, "[1,]") }, CHAT_E_TOOLS, "tools is no JSON");
    expect(plain, NULL, (ChatInput){ WITH(tools, " [ ]\n"), WITH(documents, "{}") }, 0, "hi");
    expect(plain, NULL, (ChatInput){ WITH(tools, "null") }, 0, "hi");
    expect(tooled, NULL, (ChatInput){ WITH(tools, TOOLS) }, 0, "hi+f");
    expect(tooled, NULL, (ChatInput){ WITH(tools, TOOLS), WITH(documents, TOOLS) }, CHAT_E_DOCUMENTS, "documents: ");
    expect(sometimes, NULL, (ChatInput){ WITH(tools, TOOLS) }, CHAT_E_UNUSED,
           ignored); /* the template reads the tools in another case only */
    expect(needs, NULL, (ChatInput){ WITH(tools, TOOLS) }, 0, "hi");
    expect(with_documents, NULL, (ChatInput){ WITH(documents, "[{\"title\": \"T\"}]") }, 0, "hiT");
}

/* The template tool_use serves requests with tools, as in transformers, and the other template all others. */
static void test_chat_tools_named_template(void **state) {
    static const char plain[] = "{{ messages[0].content }}",
                      tool_use[] = "{{ tools[0].name }}:{{ messages[0].content }}";
    LogLevel level = log_level();
    Templates templates;
    char kind[200];

    expect(plain, tool_use, (ChatInput){ 0 }, 0, "hi");
    expect(plain, tool_use, (ChatInput){ WITH(tools, TOOLS) }, 0, "f:hi");
    expect(plain, tool_use, (ChatInput){ WITH(tools, TOOLS), WITH(documents, TOOLS) }, CHAT_E_DOCUMENTS, "documents: ");
    expect(plain, "x", (ChatInput){ WITH(tools, TOOLS) }, CHAT_E_UNUSED, "tools: ");
    expect(NULL, tool_use, (ChatInput){ WITH(tools, TOOLS) }, 0, "f:hi");
    expect(NULL, tool_use, (ChatInput){ 0 }, CHAT_E_NO_TEMPLATE, "no chat template but one for requests with tools");
    log_set_level(LOG_LEVEL_ERROR); /* a template that does not parse is warned of */
    expect(plain, "{% foo %}", (ChatInput){ 0 }, 0, "hi");
    expect(plain, "{% foo %}", (ChatInput){ WITH(tools, TOOLS) }, CHAT_E_UNUSED,
           "tools: the model's chat template tool_use cannot be used (chat template line 1: tag 'foo'");
    templates_init(&templates, plain, "{% foo %}");
    chat_template_describe(&templates.chat, kind, sizeof(kind));
    assert_ptr_equal(strstr(kind, "template (takes no tools); with tools: tool_use, refused: chat template line 1"),
                     kind);
    assert_int_equal(chat_template_takes(&templates.chat), 0);
    templates_deinit(&templates);
    log_set_level(level);
}

/* The marks of tool_use are control tokens. In the name of a tool they stay text. */
static void test_chat_tools_marks(void **state) {
    static const char evil[] = "[{\"name\": \"<|tool|>\"}]";
    static const char *tokens[FIXTURE_BYTES + 1];
    static char byte_texts[FIXTURE_BYTES][8];
    static int32_t types[FIXTURE_BYTES + 1];
    TokenizerSpec spec = { .model = "gpt2", .pre = "qwen2", .tokens = tokens, .n_tokens = ARRAY_LEN(tokens) };
    ChatInput input = { .messages = messages, .n_messages = 1, .tools = evil, .tools_bytes = sizeof(evil) - 1 };
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    _cleanup_(chat_template_deinit) ChatTemplate chat = { 0 };
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;
    TokenizerFixture fixture;
    size_t n_marks = 0;
    ErrText err;

    for (size_t i = 0; i < FIXTURE_BYTES; i++) {
        fixture_byte_text((uint8_t)i, byte_texts[i]);
        tokens[i] = byte_texts[i];
        types[i] = TOKEN_NORMAL;
    }
    tokens[FIXTURE_BYTES] = "<|tool|>";
    types[FIXTURE_BYTES] = TOKEN_USER_DEFINED;
    spec.types = types;
    spec.n_types = ARRAY_LEN(types);
    spec.merges = (const char *const[]){ "a b" };
    spec.n_merges = 0;
    spec.chat_template = "{{ messages[0].content }}";
    spec.tool_template = "<|tool|>{{ tools[0].name }}{{ messages[0].content }}";
    if (fixture_init(&fixture, &spec) || tokenizer_new(&tokenizer, fixture.file, &fixture.err))
        fail_msg("%s", fixture.err.text);
    assert_int_equal(chat_template_init(&chat, fixture.file, NULL, 0), 0);
    assert_true(tokenizer_is_control(tokenizer, FIXTURE_BYTES));
    if (chat_template_encode(&chat, tokenizer, &input, &list, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < list.n; i++)
        n_marks += list.ids[i] == FIXTURE_BYTES;
    assert_int_equal(n_marks, 1);
    assert_int_equal(list.ids[0], FIXTURE_BYTES);
    fixture_deinit(&fixture);
}

/* The second rendering is on the account too, and nothing stays there. */
static void test_chat_tools_memory(void **state) {
    AccountTable accounts = { 0 };
    ChatInput input = { .accounts = &accounts, .account = ACCOUNT_ACTIVATIONS, WITH(tools, TOOLS) };
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL;
    Templates templates;
    uint64_t needed_bytes = 0;

    account_table_init(&accounts);
    templates_init(&templates, "{{ messages[0].content }}{{ tools }}", NULL);
    assert_int_equal(encode(&templates, input, &text), 0);
    needed_bytes = accounts.peak_bytes[ACCOUNT_ACTIVATIONS];
    for (uint64_t limit_bytes = 0; limit_bytes <= needed_bytes; limit_bytes += 1000) {
        accounts.limit_bytes[ACCOUNT_ACTIVATIONS] = limit_bytes;
        assert_int_equal(encode(&templates, input, &text), limit_bytes < needed_bytes ? CHAT_E_MEMORY : 0);
        assert_int_equal(accounts.used_bytes[ACCOUNT_ACTIVATIONS], 0);
    }
    templates_deinit(&templates);
}

/* A package has all templates of its source, and its review lists those in use. */
static void test_chat_tools_of_a_package(void **state) {
    static const ModelMakerKey keys[] = {
        { "tokenizer.chat_template", GGUF_STRING, 0, "{{ messages[0].content }}" },
        { "tokenizer.chat_template.tool_use", GGUF_STRING, 0, "{{ tools }}{{ documents }}" },
        { "tokenizer.chat_template.rag", GGUF_STRING, 0, "{{ documents }}" },
        { "tokenizer.chat_template.other", GGUF_STRING, 0, "" },
    };
    ModelMaker maker = MODEL_MAKER_DEFAULT;
    ImportFixture *fixture = *state;
    _cleanup_(gguf_freep) GgufFile *file = NULL;
    _cleanup_(chat_template_deinit) ChatTemplate chat = { 0 };
    char kind[200];
    ErrText err;

    maker.keys = keys;
    maker.n_keys = ARRAY_LEN(keys);
    if (gguf_open(&file, import_fixture_package(fixture, &maker, 8, false), &err))
        fail_msg("%s", err.text);
    assert_int_equal(chat_template_init(&chat, file, NULL, 0), 0);
    assert_non_null(chat.tool_jinja);
    assert_int_equal(chat_template_takes(&chat), CHAT_TAKES_TOOLS);
    chat_template_describe(&chat, kind, sizeof(kind));
    assert_string_equal(kind, "template (takes tools); with tools: tool_use; never used: rag, other");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat_tools_ignored), cmocka_unit_test(test_chat_tools_named_template),
        cmocka_unit_test(test_chat_tools_marks),   cmocka_unit_test(test_chat_tools_memory),
        WITH_FOLDER(test_chat_tools_of_a_package),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
