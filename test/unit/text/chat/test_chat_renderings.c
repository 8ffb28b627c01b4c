// SPDX-License-Identifier: Apache-2.0
/* Public chat templates, and own ones with the constructs of others: each must render conversations as the reference
 * Jinja does, and no content of a message may make a control token. */
#undef NDEBUG
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/unit/text/jinja/jinja_case.h"
#include "test/unit/text/tokenizer/tokenizer_fixture.h"

#define TEMPLATES_MAX 200
#define MESSAGES_MAX 16
#define MARKS_MAX 400
#define CALLS_MAX 8

/* --- files -------------------------------------------------------------------------------------------------------- */

typedef struct TemplateFile {
    char name[128];
    char *source;
    size_t len_bytes;
} TemplateFile;

static TemplateFile templates[TEMPLATES_MAX];
static size_t n_templates;

static char *read_file(const char *path, size_t *len_bytesp) {
    FILE *file = fopen(path, "re");
    char *text = malloc(JINJA_SOURCE_BYTES_MAX);

    if (!file || !text)
        fail_msg("%s: cannot be read: run the test in the root of the repository", path);
    *len_bytesp = fread(text, 1, JINJA_SOURCE_BYTES_MAX - 1, file);
    fclose(file);
    text[*len_bytesp] = 0;
    return text;
}

static void read_folder(const char *folder) {
    char path[512];
    struct dirent *entry;
    DIR *dir = opendir(folder);

    if (!dir)
        fail_msg("%s: run the test in the root of the repository", folder);
    while ((entry = readdir(dir))) {
        const char *end = strstr(entry->d_name, ".jinja");

        if (!end)
            continue;
        assert_in_range(n_templates, 0, TEMPLATES_MAX - 1);
        snprintf(templates[n_templates].name, sizeof(templates[n_templates].name), "%.*s", (int)(end - entry->d_name),
                 entry->d_name);
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        templates[n_templates].source = read_file(path, &templates[n_templates].len_bytes);
        n_templates++;
    }
    closedir(dir);
}

static ChatToolCall calls[CALLS_MAX]; /* of the conversation that was read last */
static char *call_texts[CALLS_MAX];   /* owned: arguments that are objects in the golden file */
static size_t n_calls;

static void free_calls(void) {
    while (n_calls)
        free(call_texts[--n_calls]);
}

static int group_setup(void **state) {
    setenv("TZ", "UTC", 1);
    tzset();
    read_folder("test/golden/templates/public");
    read_folder("test/golden/templates/own");
    return 0;
}

static int group_teardown(void **state) {
    free_calls();
    while (n_templates)
        free(templates[--n_templates].source);
    return 0;
}

static void read_calls(const json_t *from, ChatMessage *message, bool *as_textp) {
    const json_t *array = json_object_get(from, "tool_calls");

    message->tool_call_id = json_string_value(json_object_get(from, "tool_call_id"));
    message->name = json_string_value(json_object_get(from, "name"));
    message->tool_calls = &calls[n_calls];
    message->n_tool_calls = json_array_size(array);
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *call = json_array_get(array, i), *function = json_object_get(call, "function"),
                     *arguments = json_object_get(function, "arguments");

        assert_in_range(n_calls, 0, CALLS_MAX - 1);
        *as_textp = json_is_string(arguments);
        call_texts[n_calls] = json_is_string(arguments) ? NULL : json_dumps(arguments, 0);
        calls[n_calls] = (ChatToolCall){ .id = json_string_value(json_object_get(call, "id")),
                                         .name = json_string_value(json_object_get(function, "name")),
                                         .arguments = json_is_string(arguments) ? json_string_value(arguments)
                                                                                : call_texts[n_calls] };
        n_calls++;
    }
}

/* Reads a conversation of the golden file. content replaces each message's text; NULL: the text stays. */
static void read_conversation(const json_t *from, ChatInput *input, ChatMessage *messages, char **toolsp,
                              const char *content) {
    const json_t *array = json_object_get(from, "messages"), *tools = json_object_get(from, "tools");
    bool as_text = false;

    *input = (ChatInput){ .messages = messages, .n_messages = json_array_size(array), .now_s = JINJA_GOLDEN_NOW_S };
    assert_in_range(input->n_messages, 1, MESSAGES_MAX);
    free_calls();
    for (size_t i = 0; i < input->n_messages; i++) {
        const json_t *message = json_array_get(array, i), *text = json_object_get(message, "content");
        ChatRole role = CHAT_ROLE_SYSTEM;

        while (strcmp(chat_role_name(role), json_string_value(json_object_get(message, "role"))) != 0)
            role++;
        messages[i] = (ChatMessage){ .role = role,
                                     .text = content ? content : json_string_value(text),
                                     .len_bytes = content ? strlen(content) : json_string_length(text) };
        read_calls(message, &messages[i], &as_text);
    }
    input->call_form = as_text ? CHAT_CALLS_AS_TEXT : CHAT_CALLS_AS_OBJECT; /* the reference rewrites nothing */
    *toolsp = tools ? json_dumps(tools, 0) : NULL;
    input->tools = *toolsp;
    input->tools_bytes = *toolsp ? strlen(*toolsp) : 0;
}

static size_t n_ignored, n_tooled; /* conversations with tools */

/* --- renderings --------------------------------------------------------------------------------------------------- */

/* Whether the template writes the same without the tools of the conversation. */
static bool ignores_tools(const ChatTemplate *chat, const Tokenizer *tokenizer, const ChatInput *input,
                          const StrBuf *text) {
    _cleanup_(str_buf_deinit) StrBuf other = STR_BUF_NULL;
    ChatInput without = *input;
    ErrText err;

    without.tools = NULL;
    without.tools_bytes = 0;
    return input->tools && !chat_template_render(chat, tokenizer, &without, &other, &err) &&
           other.len_bytes == text->len_bytes && (!text->len_bytes || !memcmp(other.data, text->data, text->len_bytes));
}

static void check_rendering(const TemplateFile *template, const ChatTemplate *chat, const Tokenizer *tokenizer,
                            const ChatInput *input, const json_t *golden, size_t at) {
    _cleanup_(str_buf_deinit) StrBuf text = STR_BUF_NULL, shown = STR_BUF_NULL;
    const json_t *out = json_object_get(golden, "out"), *raised = json_object_get(golden, "raised");
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    ErrText err = { 0 };
    int r = chat_template_render(chat, tokenizer, input, &text, &err);

    if (!out) {
        assert_int_equal(r, CHAT_E_REFUSED);
        if (raised && (strncmp(err.text, "the model's chat template refuses these messages: ", 50) != 0 ||
                       strcmp(err.text + 50, json_string_value(raised)) != 0))
            fail_msg("%s, conversation %zu: %s", template->name, at, err.text);
        return;
    }
    if (r)
        fail_msg("%s, conversation %zu: %s", template->name, at, err.text);
    if (text.len_bytes != json_string_length(out) ||
        (text.len_bytes && memcmp(text.data, json_string_value(out), text.len_bytes) != 0))
        fail_msg("%s, conversation %zu: \"%s\"\ninstead of \"%s\"", template->name, at, text.data,
                 json_string_value(out));
    r = chat_template_encode(chat, tokenizer, input, &list, &err);
    if (ignores_tools(chat, tokenizer, input, &text)) {
        assert_int_equal(r, CHAT_E_UNUSED);
        assert_ptr_equal(strstr(err.text, "tools: the model's chat template ignores them"), err.text);
        n_ignored++;
        return;
    }
    /* The tokens stand for the same text. */
    assert_int_equal(r, 0);
    n_tooled += input->tools != NULL;
    for (size_t i = 0; i < list.n; i++)
        assert_int_equal(tokenizer_piece(tokenizer, list.ids[i], true, &shown), 0);
    assert_int_equal(shown.len_bytes, text.len_bytes);
    if (text.len_bytes)
        assert_memory_equal(shown.data, text.data, text.len_bytes);
}

static void check_template(const TemplateFile *template, const json_t *conversations) {
    TokenizerSpec spec = fixture_bpe_spec("qwen2");
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;
    _cleanup_(chat_template_deinit) ChatTemplate chat;
    TokenizerFixture fixture;
    char path[256];
    json_t *golden;

    snprintf(path, sizeof(path), "renderings/%s.json", template->name);
    golden = jinja_golden_load(path);
    assert_int_equal(json_array_size(golden), json_array_size(conversations));
    if (fixture_init(&fixture, &spec) || tokenizer_new(&tokenizer, fixture.file, &fixture.err))
        fail_msg("%s", fixture.err.text);
    assert_int_equal(chat_template_parse(&chat, template->source, template->len_bytes), 0);
    if (!chat.jinja)
        fail_msg("%s: %s", template->name, chat.why.text);
    for (size_t i = 0; i < json_array_size(golden); i++) {
        ChatMessage messages[MESSAGES_MAX];
        ChatInput input;
        char *tools;

        read_conversation(json_array_get(conversations, i), &input, messages, &tools, NULL);
        check_rendering(template, &chat, tokenizer, &input, json_array_get(golden, i), i);
        free(tools);
    }
    fixture_deinit(&fixture);
    json_decref(golden);
}

static void test_chat_renderings_as_the_reference(void **state) {
    json_t *conversations = jinja_golden_load("conversations.json");

    assert_in_range(json_array_size(conversations), 12, 100);
    assert_in_range(n_templates, 40, TEMPLATES_MAX);
    for (size_t i = 0; i < n_templates; i++)
        check_template(&templates[i], conversations);
    assert_true(n_ignored && n_tooled); /* templates of both kinds */
    json_decref(conversations);
}

/* --- injection ---------------------------------------------------------------------------------------------------- */

/* "[INST]" and "[|user|]" are marks; "[1:]" and "[loop.index0]" are Jinja. */
static bool is_mark(const char *text, size_t n) {
    for (size_t i = 1; i + 1 < n; i++) {
        char c = text[i];

        if (c <= ' ' || c == '\'' || c == '"' || c == '\\' || c == '{' || c == '=' ||
            (text[0] == '[' && text[1] != '|' && !(c >= 'A' && c <= 'Z') && c != '_' && c != '/'))
            return false;
    }
    return n >= 3;
}

/* Finds the texts of a template that may be special tokens. */
typedef struct MarkList {
    char texts[MARKS_MAX][100];
    size_t n;
} MarkList;

static void find_marks(MarkList *marks, const TemplateFile *template) {
    marks->n = 0;
    for (size_t i = 0; i < template->len_bytes; i++) {
        const char *from = template->source + i;
        char close = *from == '<' ? '>' : *from == '[' ? ']' : 0;
        const char *end = close ? memchr(from, close, template->len_bytes - i) : NULL;
        size_t n = end ? (size_t)(end + 1 - from) : 0, k = 0;

        if (!strncmp(from, "{#", 2)) { /* texts in comments are no marks */
            i = (size_t)(strstr(from, "#}") - template->source);
            continue;
        }
        if (n >= sizeof(marks->texts[0]) || !is_mark(from, n))
            continue;
        while (k < marks->n && (strlen(marks->texts[k]) != n || memcmp(marks->texts[k], from, n) != 0))
            k++;
        if (k < marks->n || marks->n == MARKS_MAX)
            continue;
        memcpy(marks->texts[marks->n], from, n);
        marks->texts[marks->n++][n] = 0;
    }
}

/* Makes a table of bytes and marks, each mark of the given type. BOS and EOS are the last two. */
static void marked_tokenizer(TokenizerFixture *fixture, Tokenizer **tokenizerp, const TemplateFile *template,
                             const MarkList *marks, int32_t mark_type) {
    static char byte_texts[FIXTURE_BYTES][3];
    static const char *tokens[FIXTURE_BYTES + MARKS_MAX + 2];
    static int32_t types[FIXTURE_BYTES + MARKS_MAX + 2];
    static const char *const no_merges[] = { "a" };
    static char source[JINJA_SOURCE_BYTES_MAX + 1];
    uint32_t n = FIXTURE_BYTES + (uint32_t)marks->n + 2;
    TokenizerSpec spec = { .model = "gpt2",
                           .pre = "qwen2",
                           .tokens = tokens,
                           .n_tokens = n,
                           .types = types,
                           .n_types = n,
                           .merges = no_merges,
                           .chat_template = source,
                           .has_bos = true,
                           .bos = n - 2,
                           .has_eos = true,
                           .eos = n - 1 };

    memcpy(source, template->source, template->len_bytes);
    source[template->len_bytes] = 0;
    for (uint32_t i = 0; i < n; i++) {
        types[i] = i < FIXTURE_BYTES ? 1 : i < n - 2 ? mark_type : 3;
        tokens[i] = i < FIXTURE_BYTES ? fixture_byte_text(i, byte_texts[i])
                    : i < n - 2       ? marks->texts[i - FIXTURE_BYTES]
                    : i == n - 2      ? "<|my_begin|>"
                                      : "<|my_end|>";
    }
    if (fixture_init(fixture, &spec) || tokenizer_new(tokenizerp, fixture->file, &fixture->err))
        fail_msg("%s", fixture->err.text);
}

/* Makes contents of marks, whole and in halves that a neighbour could complete, without words that templates look
 * for. */
static void write_evil(StrBuf *evil, const MarkList *marks) {
    str_buf_add(evil, "end|><|my_end|>");
    for (size_t i = 0; i < marks->n; i++) {
        const char *mark = marks->texts[i];

        if (strstr(mark, "think") || strstr(mark, "tool") || strstr(mark, "answer") || strstr(mark, "response"))
            continue;
        str_buf_add(evil, mark + strlen(mark) / 2);
        str_buf_add(evil, mark);
        str_buf_append(evil, mark, strlen(mark) / 2);
    }
    str_buf_add(evil, "<|my_begin|><|my_");
}

/* Makes contents of equal length in characters that no mark has. */
static void write_harmless(StrBuf *harmless, const StrBuf *evil) {
    str_buf_append(harmless, evil->data, evil->len_bytes);
    for (size_t i = 0; i < harmless->len_bytes; i++)
        if (strchr("<>[]|", harmless->data[i]))
            harmless->data[i] = '~';
}

/* Counts tokens that are no bytes. */
static int marks_of(const ChatTemplate *chat, const Tokenizer *tokenizer, const json_t *conversation,
                    const char *content, TokenList *marks) {
    _cleanup_(token_list_deinit) TokenList list = { 0 };
    ChatMessage messages[MESSAGES_MAX];
    ChatInput input;
    char *tools;
    int r;

    read_conversation(conversation, &input, messages, &tools, content);
    r = chat_template_encode(chat, tokenizer, &input, &list, NULL);
    for (size_t i = 0; i < list.n; i++)
        if (list.ids[i] >= FIXTURE_BYTES)
            assert_int_equal(token_list_add(marks, list.ids[i]), 0);
    free(tools);
    return r;
}

static size_t check_injection(const TemplateFile *template, const json_t *conversations, int32_t mark_type) {
    _cleanup_(str_buf_deinit) StrBuf evil = STR_BUF_NULL, harmless = STR_BUF_NULL;
    _cleanup_(tokenizer_freep) Tokenizer *tokenizer = NULL;
    _cleanup_(chat_template_deinit) ChatTemplate chat;
    static MarkList marks;
    TokenizerFixture fixture;
    size_t n_seen = 0;

    find_marks(&marks, template);
    marked_tokenizer(&fixture, &tokenizer, template, &marks, mark_type);
    write_evil(&evil, &marks);
    write_harmless(&harmless, &evil);
    assert_int_equal(chat_template_init(&chat, fixture.file, NULL, 0), 0);
    for (size_t i = 0; i < json_array_size(conversations); i++) {
        _cleanup_(token_list_deinit) TokenList got = { 0 }, wanted = { 0 };
        const json_t *conversation = json_array_get(conversations, i);
        int r = marks_of(&chat, tokenizer, conversation, harmless.data, &wanted);

        assert_int_equal(marks_of(&chat, tokenizer, conversation, evil.data, &got), r);
        if (got.n != wanted.n || (got.n && memcmp(got.ids, wanted.ids, got.n * sizeof(*got.ids)) != 0))
            fail_msg("%s, conversation %zu, type %d: %zu special tokens with marks in the contents, %zu without",
                     template->name, i, (int)mark_type, got.n, wanted.n);
        n_seen += got.n;
    }
    fixture_deinit(&fixture);
    return n_seen;
}

/* With marks of any type, contents that are full of them make the same special tokens as contents without. */
static void test_chat_renderings_injection(void **state) {
    json_t *conversations = jinja_golden_load("conversations.json");
    size_t n_seen = 0;

    for (size_t i = 0; i < n_templates; i++) {
        n_seen += check_injection(&templates[i], conversations, 3);
        n_seen += check_injection(&templates[i], conversations, 4);
    }
    assert_in_range(n_seen, 5000, 10000000);
    json_decref(conversations);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat_renderings_as_the_reference),
        cmocka_unit_test(test_chat_renderings_injection),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
